// One run of a device with the double-precision oracle of H2O beside it: prompts in chunks, cuts, then decode with in-place victims.
// The engine's choice is imposed on the oracle after it was judged, so nothing cascades.
#ifndef HYDRANT_TESTS_KERNELS_H2O_RUN_H_
#define HYDRANT_TESTS_KERNELS_H2O_RUN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/reference/h2o_reference.h"
#include "tests/kernels/kv_fixture.h"
#include "tests/kernels/tested_device.h"

namespace hydrant {

using reference::H2oHistory;
using reference::RoundTo;
using reference::ToDouble;
using reference::Values;

// A choice may differ from the oracle's only where the scores it compares are closer than this, relatively. fp32 scores of
// these short histories (<= 400 rows, logits below ~40) are off by at most about 40 * 2^-23 * head_dim from the logits and
// 400 * 2^-24 from the sums: 1e-4.
inline constexpr double kMargin = 1e-4;

// Where a device rounds the queries of generated tokens over 16-bit keys (TestedDevice::rounding), relatively: the sums of
// magnitudes behind a logit are below 40 here, and an error of a logit is one of its weight and one of their sum.
inline constexpr double kLogitMagnitude = 40.0;

// Closer than a few roundings of fp32, relatively: equal scores, as far as a kernel can tell. Pooling makes them so, and
// what is added to them later, squared, is often less than a rounding; the definition in doubles still sees it. Exact
// ties are judged without mercy.
inline constexpr double kTie = 0x1p-22;

struct Tally {
  int64_t cuts = 0;
  int64_t cut_differences = 0;
  int64_t other_cuts = 0;  // do not just keep the newest
  int64_t pinnings = 0;
  int64_t pinned = 0;
  int64_t pin_differences = 0;
  int64_t victims = 0;
  int64_t victim_differences = 0;
  int64_t other_victims = 0;  // not the token that leaves the recent window
};

struct H2oCase {
  KvShape shape;
  EvictionPolicy policy;
  int32_t prompt = 0;
  int32_t steps = 0;
  int32_t chunk = 16;
  int32_t stride = 0;  // > 0: the prompt is cut after every so many tokens
  int32_t window = kNoWindow;
  float softcap = 0.0f, spread = 1.5f;
  bool sinks = false;
  float popularity = 0.0f;
  std::vector<int32_t> segments = {};  // positions with which they begin, ascending
  bool plant_scores = false;           // now and then the scores become random numbers, as if another past had led here
  int32_t rope_dims = 0;               // of Angles
  double prompt_error = 0.0;           // of a weight, relatively, that a device's prompts may add
  uint64_t seed = 0;

  std::string Describe() const {
    return testing::PrintToString(seed) + ": prompt " + std::to_string(prompt) + ", heavy " +
           std::to_string(policy.heavy) + ", recent " + std::to_string(policy.recent) + ", steps " +
           std::to_string(steps) + ", group " + std::to_string(shape.group) + ", chunk " + std::to_string(chunk) +
           ", decay " + std::to_string(policy.decay) + ", pool " + std::to_string(policy.pool_width) +
           (policy.store_pooled ? " stored" : "") + ", rows " + std::to_string(policy.score_rows) + ", square " +
           std::to_string(policy.square) + ", reduce " + std::to_string(static_cast<int>(policy.gqa_reduce)) +
           ", source " + std::to_string(static_cast<int>(policy.score_source)) + (policy.rolling ? ", rolling" : "") +
           (window != kNoWindow ? ", window " + std::to_string(window) : "") +
           (policy.pin_rows > 0 ? ", pin rows " + std::to_string(policy.pin_rows) : "") +
           (softcap > 0.0f ? ", softcap " + std::to_string(softcap) : "") + (sinks ? ", sinks" : "");
  }
};

// One engine run with the oracle beside it.
class H2oRun {
 public:
  H2oRun(const H2oCase& h2o, const TestedDevice& device, int threads, Tally& tally)
      : case_(h2o),
        tally_(tally),
        decode_error_(h2o.shape.type == KvType::kF32 ? 0.0 : 2 * kLogitMagnitude * device.rounding),
        prompt_dtype_(device.prompt_dtype(h2o.shape.type, h2o.shape.head_dim)),
        fixture_(h2o.shape, device, threads, (h2o.prompt + h2o.steps) / kBlockSlots + 2),
        stream_(h2o.shape, h2o.prompt + h2o.steps, h2o.seed, h2o.spread),
        sequence_(fixture_.Sequence(stream_, h2o.policy, h2o.prompt, 3, h2o.prompt + h2o.steps)),
        angles_(h2o.shape.head_dim, std::max(h2o.prompt, h2o.policy.keep() + 1), h2o.rope_dims) {
    if (h2o.popularity > 0.0f) stream_.AddPopularity(h2o.popularity, h2o.seed + 1);
    fixture_.Poison();
    if (h2o.policy.rolling) {
      // As long as the longest the sequence can get to be, and no longer.
      rope_ = fixture_.device->MakeRope(angles_.spec());
      fixture_.Inspect();
    }
    fixture_.cut_prompts = false;
    fixture_.window = h2o.window;
    fixture_.softcap = h2o.softcap;
    fixture_.scale = 1.0f / std::sqrt(static_cast<float>(h2o.shape.head_dim));
    if (h2o.sinks) fixture_.SetRandomSinks(h2o.seed);
    if (h2o.policy.pin_rows > 0) fixture_.SetSegments(h2o.segments);
    for (int32_t i = 0; i < h2o.shape.layers * h2o.shape.kv_heads; ++i) {
      oracles_.emplace_back(h2o.policy, h2o.shape.group, h2o.shape.head_dim, static_cast<double>(fixture_.scale),
                            angles_.spec(), h2o.window, static_cast<double>(h2o.softcap),
                            fixture_.SinksOf(i % h2o.shape.kv_heads));
    }
  }

  TokenStream& stream() { return stream_; }

  void Run() {
    for (int32_t begin = 0; begin < case_.prompt;) {
      const int32_t stop =
          case_.stride == 0 ? case_.prompt : std::min(case_.prompt, (begin / case_.stride + 1) * case_.stride);
      // To a block edge, or to where the prompt is cut. Rows that choose pins are all in the last chunk.
      const int32_t before_tail = std::max(stop - begin - case_.policy.pin_rows, 0);
      int32_t room = (sequence_.live + std::min(case_.chunk, before_tail)) / kBlockSlots * kBlockSlots - sequence_.live;
      if (case_.policy.pin_rows == 0)
        room = (sequence_.live + case_.chunk) / kBlockSlots * kBlockSlots - sequence_.live;
      const int32_t end = room <= 0 ? stop : std::min(stop, begin + room);
      PrefillChunk(begin, end);
      if (testing::Test::HasFailure()) return;
      if (end == stop && case_.policy.evicts && sequence_.live > case_.policy.keep()) CutPrompt(end);
      begin = end;
    }
    for (int32_t i = 0; i < case_.steps && !testing::Test::HasFailure(); ++i) DecodeToken();
  }

 private:
  template <typename Function>
  void ForEachPair(Function function) {
    for (int32_t layer = 0; layer < case_.shape.layers; ++layer) {
      for (int32_t head = 0; head < case_.shape.kv_heads; ++head) {
        function(layer, head, oracles_[static_cast<size_t>(layer * case_.shape.kv_heads + head)]);
      }
    }
  }

  Values Stored(std::span<const float> x) const { return RoundTo(case_.shape.type, ToDouble(x)); }

  void ExpectNear(const std::vector<float>& outputs, int32_t tokens, int32_t token, int32_t layer, int32_t head,
                  const Values& expected, double tolerance) {
    const int64_t width = std::ssize(expected);
    const float* actual =
        &outputs[static_cast<size_t>(((layer * tokens) + token) * case_.shape.out_cols() + head * width)];
    for (int64_t i = 0; i < width; ++i) {
      ASSERT_NEAR(actual[i], expected[static_cast<size_t>(i)], tolerance) << case_.Describe() << " element " << i;
    }
  }

  void PrefillChunk(int32_t begin, int32_t end) {
    const TestRow row{&sequence_, end - begin, true};
    const std::vector<float> outputs = fixture_.Step({&row, 1}, rope_.get());
    ForEachPair([&](int32_t layer, int32_t head, H2oHistory& oracle) {
      for (int32_t t = begin; t < end; ++t) {
        const Values q = RoundTo(prompt_dtype_, ToDouble(stream_.Q(t, layer, head)));
        const Values out =
            oracle.Prompt(q, Stored(stream_.K(t, layer, head)), Stored(stream_.V(t, layer, head)), t, case_.prompt);
        // Values are below 8; of rounded weights see attention_test.cc.
        const double rounding = prompt_dtype_ == DType::kF32 ? 0.0 : prompt_dtype_ == DType::kF16 ? 0x1p-11 : 0x1p-8;
        ExpectNear(outputs, end - begin, t - begin, layer, head, out, 1e-3 + 8 * (rounding + 2 * case_.prompt_error));
      }
      if (end == case_.prompt && fixture_.ChoosesPins(sequence_)) CheckPins(layer, head, oracle);
      ExpectScoresAgree(layer, head, oracle);
    });
  }

  void CheckPins(int32_t layer, int32_t head, H2oHistory& oracle) {
    std::vector<int32_t> pinned;
    for (int32_t slot = 0; slot < sequence_.live; ++slot) {
      if (!std::signbit(fixture_.Score(sequence_, layer, head, slot))) continue;
      pinned.push_back(fixture_.Position(sequence_, layer, head, slot));
    }
    std::sort(pinned.begin(), pinned.end());
    const std::vector<int32_t>& starts = fixture_.segments;
    ++tally_.pinnings;
    tally_.pinned += std::ssize(pinned);
    if (pinned != oracle.Pins(starts, case_.prompt)) {
      ++tally_.pin_differences;
      EXPECT_LE(oracle.PinExcess(pinned, starts, case_.prompt), margin_) << case_.Describe();
    }
    oracle.Pin(pinned);
  }

  void CutPrompt(int32_t computed) {
    const bool last = computed == case_.prompt;
    const ShrinkOp op{.live_from = sequence_.live,
                      .live_to = case_.policy.keep(),
                      .logical_length = computed,
                      .prompt_cut = last,
                      .policy = case_.policy,
                      .block_table = sequence_.block_table};
    fixture_.device->Shrink({&op, 1}, fixture_.kv);
    sequence_.live = case_.policy.keep();
    ForEachPair([&](int32_t layer, int32_t head, H2oHistory& oracle) {
      const std::vector<int32_t> kept = fixture_.Positions(sequence_, layer, head);
      ++tally_.cuts;
      const std::vector<int32_t> before = oracle.Positions();
      if (!std::equal(kept.rbegin(), kept.rend(), before.rbegin())) ++tally_.other_cuts;
      if (kept != oracle.CutSurvivors(computed, last)) {
        ++tally_.cut_differences;
        EXPECT_LE(oracle.CutExcess(kept, computed, last), margin_) << case_.Describe();
      }
      oracle.Keep(kept, computed, last);
      ExpectScoresAgree(layer, head, oracle);
    });
  }

  void PlantScores() {
    ForEachPair([&](int32_t layer, int32_t head, H2oHistory& oracle) {
      for (int32_t slot = 0; slot < sequence_.live; ++slot) {
        const int32_t position = fixture_.Position(sequence_, layer, head, slot);
        const float score = static_cast<float>(random_() % 1000) / 250.0f;
        fixture_.Score(sequence_, layer, head, slot) = score;
        // The victim of the step before is no longer the oracle's.
        for (H2oHistory::Token& token : oracle.mutable_tokens()) {
          if (token.position == position) token.score = static_cast<double>(score);
        }
      }
    });
  }

  void DecodeToken() {
    if (case_.plant_scores && random_() % 4 == 0) PlantScores();
    const int32_t t = sequence_.position;
    const TestRow row{&sequence_, 1, false};
    const std::vector<float> outputs = fixture_.Step({&row, 1}, rope_.get());
    ForEachPair([&](int32_t layer, int32_t head, H2oHistory& oracle) {
      const Values out = oracle.Decode(ToDouble(stream_.Q(t, layer, head)), Stored(stream_.K(t, layer, head)),
                                       Stored(stream_.V(t, layer, head)), t);
      ExpectNear(outputs, 1, 0, layer, head, out, 1e-3 + 8 * 2 * decode_error_);
      ExpectScoresAgree(layer, head, oracle);
      if (!sequence_.has_victim) return;
      const int32_t victim = fixture_.Position(sequence_, layer, head, fixture_.VictimSlot(sequence_, layer, head));
      ++tally_.victims;
      if (victim != t - case_.policy.recent) ++tally_.other_victims;
      const double excess = oracle.VictimExcess(victim, t + 1);
      EXPECT_LE(excess, margin_) << case_.Describe() << " step " << t;
      const bool near_tie = excess > 0.0 && excess <= kTie;
      if (victim != oracle.Victim(t + 1) && !near_tie) ++tally_.victim_differences;
      oracle.Evict(victim);
    });
  }

  // Every live slot holds what the oracle says about its position.
  void ExpectScoresAgree(int32_t layer, int32_t head, const H2oHistory& oracle) {
    ASSERT_EQ(fixture_.Positions(sequence_, layer, head), oracle.Positions()) << case_.Describe();
    for (int32_t slot = 0; slot < sequence_.live; ++slot) {
      const int32_t position = fixture_.Position(sequence_, layer, head, slot);
      const auto& tokens = oracle.tokens();
      const auto token = std::lower_bound(tokens.begin(), tokens.end(), position,
                                          [](const H2oHistory::Token& a, int32_t b) { return a.position < b; });
      const float stored = fixture_.Score(sequence_, layer, head, slot);
      ASSERT_EQ(std::signbit(stored), token->pinned) << case_.Describe() << " position " << position;
      const double score = std::abs(stored);
      ASSERT_NEAR(score, token->score, 1e-30 + margin_ * token->score) << case_.Describe() << " position " << position;
      const std::vector<float> key = fixture_.ReadSlot(sequence_, false, layer, head, slot);
      const std::vector<float> value = fixture_.ReadSlot(sequence_, true, layer, head, slot);
      ASSERT_EQ(ToDouble(key), token->key) << case_.Describe() << " position " << position;
      ASSERT_EQ(ToDouble(value), token->value) << case_.Describe() << " position " << position;
      if (case_.policy.rolling) {
        ASSERT_EQ(fixture_.CachedPosition(sequence_, layer, head, slot), token - tokens.begin()) << case_.Describe();
      }
    }
  }

  const H2oCase case_;
  Tally& tally_;
  const double decode_error_;  // of a weight, relatively, beyond fp32's
  const DType prompt_dtype_;
  const double margin_ = kMargin + decode_error_ + case_.prompt_error;
  KvFixture fixture_;
  TokenStream stream_;
  TestSequence sequence_;
  const Angles angles_;
  std::unique_ptr<RopeTable> rope_;  // null unless the policy is rolling
  std::vector<H2oHistory> oracles_;
  std::mt19937_64 random_{11};
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_H2O_RUN_H_
