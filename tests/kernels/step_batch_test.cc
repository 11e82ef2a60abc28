// Rows with drafts, on the devices that take them, against the same tokens in steps of their own: what is right is the same to the bit,
// and what is wrong leaves nothing behind, whatever it was.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/kv_fixture.h"
#include "tests/kernels/planted_cache.h"

namespace hydrant {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

// What a wrong draft's queries, keys and values are.
struct Wrong {
  const char* name;
  float query, key, value;
};
constexpr Wrong kWrongs[] = {{"other numbers", 0.5f, -3.0f, 7.0f},  {"values NaN", 0.5f, 1.0f, kNan},
                             {"values infinite", 0.5f, 1.0f, kInf}, {"keys NaN", 0.5f, kNan, 1.0f},
                             {"all NaN", kNan, kNan, kNan},         {"all infinite", kInf, -kInf, kInf}};

struct RowCase {
  const char* name;
  EvictionPolicy policy;
  KvType type = KvType::kF32;
  int32_t prompt = 37;
  int32_t window = kNoWindow;
  bool sinks = false;
  float softcap = 0.0f;
};

constexpr int32_t kDrafted = 4;

// A cache, and a sequence in it whose prompt is computed.
class Computed {
 public:
  Computed(const RowCase& tested, const TestedDevice& device)
      : tested_(tested),
        shape_{.layers = 2, .kv_heads = 1, .group = 2, .head_dim = 16, .type = tested.type},
        fixture_(shape_, device, 2, (tested.prompt + 3 * kBlockSlots) / kBlockSlots, 8, 2048, kDrafted),
        angles_(shape_.head_dim, 8192),
        rope_(fixture_.device->MakeRope(angles_.spec())),
        right_(shape_, tested.prompt + 16, 7),
        stream_(right_),
        sequence_(fixture_.Sequence(stream_, tested.policy, tested.prompt, 0, tested.prompt + 16)) {
    fixture_.window = tested.window;
    fixture_.softcap = tested.softcap;
    if (tested.sinks) fixture_.SetRandomSinks(3);
    while (sequence_.position < tested.prompt) {
      const TestRow chunk{&sequence_, std::min(1024, tested.prompt - sequence_.position), /*prefill=*/true};
      fixture_.Step({&chunk, 1}, rope_.get());
    }
    // The first to evict has no drafts.
    if (tested.policy.evicts && tested.prompt > tested.policy.keep()) Steps(1);
  }
  bool takes_drafts() const { return fixture_.device->TakesDrafts(); }

  // A row with drafts, of which the first `right` are what comes next. The outputs of the tokens that are kept, [layer][token][cols].
  std::vector<float> StepWithDrafts(int32_t right, const Wrong& wrong) {
    const int32_t first_wrong = sequence_.position + 1 + right, end = sequence_.position + 1 + kDrafted;
    for (int32_t token = first_wrong; token < end; ++token) {
      for (int32_t layer = 0; layer < shape_.layers; ++layer) {
        std::ranges::fill(stream_.Row(token, layer), wrong.query);
        std::ranges::fill(stream_.K(token, layer, 0), wrong.key);
        std::ranges::fill(stream_.V(token, layer, 0), wrong.value);
      }
    }
    const TestRow row{&sequence_, 1 + kDrafted};
    const std::vector<float> all = fixture_.Step({&row, 1}, rope_.get());
    fixture_.KeepDrafts(sequence_, 1 + right);
    stream_ = right_;
    std::vector<float> kept;
    const auto cols = shape_.out_cols();
    for (int32_t layer = 0; layer < shape_.layers; ++layer) {
      const auto begin = all.begin() + layer * (1 + kDrafted) * cols;
      kept.insert(kept.end(), begin, begin + (1 + right) * cols);
    }
    return kept;
  }
  // So many tokens, each in a step of its own.
  std::vector<float> Steps(int32_t tokens) {
    std::vector<std::vector<float>> of_layer(static_cast<size_t>(shape_.layers));
    for (int32_t i = 0; i < tokens; ++i) {
      const TestRow row{&sequence_};
      const std::vector<float> out = fixture_.Step({&row, 1}, rope_.get());
      for (int32_t layer = 0; layer < shape_.layers; ++layer) {
        const auto begin = out.begin() + layer * shape_.out_cols();
        std::vector<float>& to = of_layer[static_cast<size_t>(layer)];
        to.insert(to.end(), begin, begin + shape_.out_cols());
      }
    }
    std::vector<float> all;
    for (const std::vector<float>& layer : of_layer) all.insert(all.end(), layer.begin(), layer.end());
    return all;
  }
  // All that is cached of the sequence: keys, values, positions, scores and victims.
  std::vector<float> Cached() {
    std::vector<float> all;
    for (int32_t layer = 0; layer < shape_.layers; ++layer) {
      if (sequence_.has_victim) {
        all.push_back(static_cast<float>(fixture_.kv.victim[fixture_.kv.layout.victim_offset(layer, 0, 0)]));
      }
      for (int32_t slot = 0; slot < sequence_.live; ++slot) {
        for (const bool value : {false, true}) {
          const std::vector<float> read = fixture_.ReadSlot(sequence_, value, layer, 0, slot);
          all.insert(all.end(), read.begin(), read.end());
        }
        all.push_back(static_cast<float>(fixture_.Position(sequence_, layer, 0, slot)));
        if (tested_.policy.scores()) all.push_back(fixture_.Score(sequence_, layer, 0, slot));
      }
    }
    return all;
  }

 private:
  const RowCase tested_;
  const KvShape shape_;
  KvFixture fixture_;
  const Angles angles_;
  const std::unique_ptr<RopeTable> rope_;
  const TokenStream right_;
  TokenStream stream_;
  TestSequence sequence_;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class DraftRowsTest : public testing::TestWithParam<TestedDevice> {
 protected:
  static void Compare(const RowCase& tested) {
    SCOPED_TRACE(tested.name);
    for (const Wrong& wrong : kWrongs) {
      for (int32_t right = 0; right <= kDrafted; ++right) {
        SCOPED_TRACE(std::string(wrong.name) + ", " + std::to_string(right) + " right");
        Computed drafted(tested, GetParam()), alone(tested, GetParam());
        EXPECT_TRUE(SameBits(drafted.StepWithDrafts(right, wrong), alone.Steps(1 + right)));
        EXPECT_TRUE(SameBits(drafted.Cached(), alone.Cached()));
        EXPECT_TRUE(SameBits(drafted.Steps(2), alone.Steps(2))) << "what comes next finds nothing of them";
        EXPECT_TRUE(SameBits(drafted.Cached(), alone.Cached()));
        if (testing::Test::HasFailure()) return;
      }
    }
  }
};

EvictionPolicy Rolled(EvictionPolicy policy) {
  policy.rolling = true;
  return policy;
}

EvictionPolicy Decayed(EvictionPolicy policy) {
  policy.square = true;
  policy.decay = 15.0f / 16;
  return policy;
}

TEST_P(DraftRowsTest, AreTheStepsThatTheyReplace) {
  if (!GetParam().make(1)->TakesDrafts()) GTEST_SKIP() << "no row has any";
  const EvictionPolicy scored = Policy(100, 100);
  EvictionPolicy recent = Policy(0, 200), sinks = scored;
  sinks.score_source = ScoreSource::kNone;
  for (const RowCase& tested :
       {RowCase{"full", {}}, RowCase{"full in bf16", {}, KvType::kBF16}, RowCase{"full in int8", {}, KvType::kInt8},
        RowCase{"at the end of a block", {}, KvType::kF32, 46},
        RowCase{"a window of the model", {}, KvType::kF32, 37, 9},
        RowCase{"sinks of the model", {}, KvType::kF32, 37, kNoWindow, true},
        RowCase{"logits that are capped", {}, KvType::kF32, 37, kNoWindow, false, 5.0f}, RowCase{"scored", scored},
        RowCase{"scored in bf16", scored, KvType::kBF16}, RowCase{"scored in int8", scored, KvType::kInt8, 47},
        RowCase{"scored behind a window", scored, KvType::kF32, 37, 9, true},
        RowCase{"scores that decay", Decayed(scored), KvType::kF32, 33}, RowCase{"the recent ones", recent},
        RowCase{"the first and the recent ones", sinks}, RowCase{"rolling", Rolled(scored)},
        RowCase{"rolling and decaying", Rolled(Decayed(scored)), KvType::kBF16, 44}}) {
    Compare(tested);
  }
}

// Each takes the place of a victim, of another draft where only one token is recent, and what was wrong is put back.
TEST_P(DraftRowsTest, AtTheBudgetOverwriteVictims) {
  if (!GetParam().make(1)->TakesDrafts()) GTEST_SKIP() << "no row has any";
  const EvictionPolicy scored = Policy(12, 9);
  EvictionPolicy recent = Policy(0, 20), sinks = scored;
  sinks.score_source = ScoreSource::kNone;
  for (const RowCase& tested :
       {RowCase{"scored", scored}, RowCase{"scored in bf16", scored, KvType::kBF16},
        RowCase{"scored in fp16", scored, KvType::kF16}, RowCase{"scored in int8", scored, KvType::kInt8, 47},
        RowCase{"scored behind a window", scored, KvType::kF32, 37, 9, true},
        RowCase{"one recent token", Policy(12, 1)}, RowCase{"several splits", Policy(300, 20), KvType::kF32, 400},
        RowCase{"scores that decay", Decayed(scored), KvType::kF32, 33}, RowCase{"the recent ones", recent},
        RowCase{"the first and the recent ones", sinks}, RowCase{"rolling", Rolled(scored)},
        RowCase{"rolling and decaying", Rolled(Decayed(scored)), KvType::kBF16, 44},
        RowCase{"rolling with one recent token", Rolled(Policy(12, 1))}}) {
    Compare(tested);
  }
}

// As many slots as scores of drafts are kept for, and more where nothing scores.
TEST_P(DraftRowsTest, ReachToTheLastSlotThatTheyMayHave) {
  if (!GetParam().make(1)->TakesDrafts()) GTEST_SKIP() << "no row has any";
  for (const bool scores : {true, false}) {
    const RowCase below{"below the budget", scores ? Policy(3000, 3000) : EvictionPolicy(), KvType::kF32,
                        kDraftScoreSlots - 1 - kDrafted + (scores ? 0 : 100)};
    const RowCase at{"at the budget", Policy(kDraftScoreSlots - 101, 100), KvType::kF32, kDraftScoreSlots};
    for (const RowCase& tested : scores ? std::vector{below, at} : std::vector{below}) {
      SCOPED_TRACE(tested.name);
      for (const int32_t right : {scores ? 0 : 2, kDrafted}) {
        Computed drafted(tested, GetParam()), alone(tested, GetParam());
        EXPECT_TRUE(SameBits(drafted.StepWithDrafts(right, kWrongs[1]), alone.Steps(1 + right))) << right;
        EXPECT_TRUE(SameBits(drafted.Cached(), alone.Cached())) << right;
        EXPECT_TRUE(SameBits(drafted.Steps(2), alone.Steps(2))) << right;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, DraftRowsTest, testing::ValuesIn(TestedDevices()),
                         [](const auto& device) { return device.param.name; });

}  // namespace
}  // namespace hydrant
