#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/reference/reference.h"
#include "tests/kernels/kv_fixture.h"
#include "tests/kernels/normal_distribution.h"
#include "tests/kernels/operands.h"
#include "tests/kernels/tested_device.h"
#include "tests/support/source_dir.h"

namespace hydrant {
namespace {

using reference::ToDouble;
using reference::Values;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> RandomLogits(int64_t count, uint64_t seed, float spread = 3.0f) {
  std::mt19937_64 random(seed);
  NormalDistribution normal(0.0f, spread);
  std::vector<float> logits(static_cast<size_t>(count));
  for (float& x : logits) x = normal(random);
  return logits;
}

class SamplingTest : public testing::TestWithParam<TestedDevice> {
 protected:
  SamplingTest() : device_(GetParam().make(2)) { device_->ReserveScratch({.rows_max = 4, .vocab = 160000}); }

  SampleResult Sample(std::vector<float> logits, SampleRequest request) {
    SampleResult result;
    const auto memory = OnDevice(*device_, logits);
    device_->AwaitSample(
        device_->Sample({.data = memory->data(), .rows = 1, .cols = std::ssize(logits)}, {&request, 1}, {&result, 1}));
    return result;
  }
  int32_t Draw(const std::vector<float>& logits, const SamplingParams& params, int64_t position) {
    return Sample(logits, {.params = &params, .position = position}).id;
  }

  std::unique_ptr<Device> device_;
};

TEST_P(SamplingTest, GreedyTakesTheLargestAndTheLowestIdOnATie) {
  const SamplingParams greedy{.temperature = 0.0f};
  EXPECT_EQ(Draw({1, 3, 2, 3}, greedy, 0), 1);
  EXPECT_EQ(Draw({-kInfinity, -5, -5}, greedy, 0), 1);
  EXPECT_EQ(Draw({-2}, greedy, 0), 0);
  for (int64_t vocab : {15, 16, 17, 31, 33, 255, 257, 49152}) {
    std::vector<float> logits(static_cast<size_t>(vocab), -1.0f);
    logits.back() = 0.5f;
    EXPECT_EQ(Draw(logits, greedy, 0), vocab - 1);
    logits[static_cast<size_t>(vocab / 2)] = 0.5f;
    EXPECT_EQ(Draw(logits, greedy, 0), vocab / 2);
    EXPECT_EQ(Draw(std::vector<float>(static_cast<size_t>(vocab), -0.0f), greedy, 0), 0);
  }
}

TEST_P(SamplingTest, BrokenRowsAreReportedWhereverTheNumberSits) {
  const SamplingParams params;
  for (int64_t vocab : {1, 15, 16, 17, 300}) {
    for (int64_t at : {int64_t{0}, vocab / 2, vocab - 1}) {
      for (float broken :
           {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
        std::vector<float> logits = RandomLogits(vocab, 1);
        EXPECT_TRUE(Sample(logits, {.params = &params}).finite);
        logits[static_cast<size_t>(at)] = broken;
        EXPECT_FALSE(Sample(logits, {.params = &params, .logprobs = 2}).finite) << vocab << " " << at;
        EXPECT_FALSE(Sample(logits, {.scored_id = 0, .logprobs = 2}).finite) << vocab << " " << at;
      }
    }
    const std::vector<float> nothing(static_cast<size_t>(vocab), -kInfinity);
    EXPECT_FALSE(Sample(nothing, {.params = &params}).finite) << vocab;
  }
}

TEST_P(SamplingTest, MinusInfinityIsNeverDrawn) {
  std::vector<float> logits(600, -kInfinity);
  logits[3] = logits[290] = logits[599] = 1.0f;
  const SamplingParams params{.temperature = 2.0f, .key = 5};
  for (int64_t position = 0; position < 500 / GetParam().share; ++position) {
    EXPECT_THAT(Draw(logits, params, position), testing::AnyOf(3, 290, 599));
  }
}

struct FilterCase {
  const char* name;
  SamplingParams params;
};

const FilterCase kFilters[] = {
    {"plain", {}},
    {"hot", {.temperature = 2.0f}},
    {"cold", {.temperature = 0.25f}},
    {"top_k_1", {.top_k = 1}},
    {"top_k_5", {.top_k = 5}},
    {"top_k_beyond", {.top_k = 100000}},
    {"top_p_half", {.top_p = 0.5f}},
    {"top_p_most", {.top_p = 0.98f}},
    {"top_p_tiny", {.top_p = 1e-6f}},
    {"min_p", {.min_p = 0.1f}},
    {"min_p_one", {.min_p = 1.0f}},
    {"all", {.temperature = 1.5f, .top_p = 0.9f, .top_k = 40, .min_p = 0.02f}},
};

TEST_P(SamplingTest, DrawsWhatTheOracleDraws) {
  int64_t compared = 0, skipped = 0;
  for (const FilterCase& filter : kFilters) {
    for (int64_t vocab : {1, 7, 16, 17, 256, 257, 1000}) {
      for (uint64_t seed = 0; seed < static_cast<uint64_t>(std::max(40 / GetParam().share, 4)); ++seed) {
        std::vector<float> logits = RandomLogits(vocab, seed);
        // Ties everywhere in a quarter of the rows.
        if (seed % 4 == 0)
          std::transform(logits.begin(), logits.end(), logits.begin(), [](float x) { return std::round(x); });
        SamplingParams params = filter.params;
        params.key = seed * 77;
        double margin = 0.0;
        const SampleRequest request{.params = &params, .position = static_cast<int64_t>(seed) + 3};
        const SampleResult expected = reference::Sample(ToDouble(logits), request, &margin);
        // The nucleus may end one token earlier or later, and a draw fall to the neighbour, where fp32 weights decide.
        if (margin < 1e-5 || (filter.params.top_p < 1.0f && margin < 1e-3)) {
          ++skipped;
          continue;
        }
        EXPECT_EQ(Sample(logits, request).id, expected.id) << filter.name << " vocab " << vocab << " seed " << seed;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 30 * skipped);
}

// Rows of more tokens than a device may order at once: their best lie anywhere or side by side, are few or most of the row, or tie.
TEST_P(SamplingTest, LongRowsAreDrawnFromLikeShortOnes) {
  std::vector<float> rounded = RandomLogits(33000, 2), together = RandomLogits(33001, 3);
  for (float& x : rounded) x = std::round(x);
  for (size_t i = 20000; i < 20700; ++i) together[i] += 12.0f;
  const std::pair<const char*, std::vector<float>> rows[] = {{"normal", RandomLogits(33000, 1)},
                                                             {"rounded", rounded},
                                                             {"together", together},
                                                             {"flat", RandomLogits(33001, 4, 0.1f)},
                                                             {"equal", std::vector<float>(33000, 2.5f)}};
  const SamplingParams asked[] = {
      {.temperature = 0.8f},        {.temperature = 0.8f, .top_p = 0.3f}, {.temperature = 1.5f, .top_p = 0.9f},
      {.top_p = 0.9f, .top_k = 50}, {.top_k = 200, .min_p = 0.01f},       {.top_k = 1000}};
  uint64_t key = 0;
  for (const auto& [name, logits] : rows) {
    const std::vector<int32_t> ranked = reference::Ranked(ToDouble(logits));
    const Values logprobs = reference::LogSoftmax(ToDouble(logits));
    for (SamplingParams params : asked) {
      SCOPED_TRACE(std::string(name) + ", top_p " + std::to_string(params.top_p) + ", top_k " +
                   std::to_string(params.top_k));
      params.key = ++key;
      const int32_t wanted = params.top_k == 1000 ? 300 : 20;
      const SampleRequest request{.params = &params, .position = 3, .logprobs = wanted, .rank = true};
      double margin = 0.0;
      const SampleResult expected = reference::Sample(ToDouble(logits), request, &margin),
                         result = Sample(logits, request);
      const bool decided = margin > (params.top_p < 1.0f ? 1e-3 : 1e-5);
      EXPECT_NEAR(result.id, expected.id, decided ? 0 : 2000) << margin;
      EXPECT_EQ(result.rank, std::find(ranked.begin(), ranked.end(), result.id) - ranked.begin() + 1);
      EXPECT_NEAR(result.logprob, logprobs[static_cast<size_t>(result.id)], 2e-6);
      EXPECT_EQ(result.best, ranked[0]);
      ASSERT_EQ(std::ssize(result.top), wanted);
      for (size_t i = 0; i < result.top.size(); ++i) ASSERT_EQ(result.top[i].id, ranked[i]) << i;
    }
  }
}

// Pearson's statistic of many draws against the oracle's distribution; seeds are fixed, so this passes always or never.
TEST_P(SamplingTest, FrequenciesFollowTheDistribution) {
  const int draws = GetParam().share > 1 ? 1000 : 20000;
  const std::vector<float> logits = RandomLogits(40, 9, 1.5f);
  for (const FilterCase& filter : kFilters) {
    SamplingParams params = filter.params;
    params.key = 123;
    const Values p = reference::SamplingDistribution(ToDouble(logits), params);
    std::vector<int> counts(logits.size(), 0);
    for (int64_t position = 0; position < draws; ++position)
      ++counts[static_cast<size_t>(Draw(logits, params, position))];
    double statistic = 0.0, rare_expected = 0.0;
    int degrees = -1, rare_count = 0;
    for (size_t id = 0; id < p.size(); ++id) {
      if (p[id] == 0.0) {
        EXPECT_EQ(counts[id], 0) << filter.name << " drew the filtered id " << id;
      } else if (p[id] * draws < 8.0) {
        rare_expected += p[id] * draws;
        rare_count += counts[id];
      } else {
        statistic += std::pow(counts[id] - p[id] * draws, 2) / (p[id] * draws);
        ++degrees;
      }
    }
    if (rare_expected > 0.0) {
      statistic += std::pow(rare_count - rare_expected, 2) / rare_expected;
      ++degrees;
    }
    // Mean + 4 standard deviations of the chi-square distribution.
    EXPECT_LE(statistic, degrees + 4 * std::sqrt(2.0 * std::max(degrees, 1))) << filter.name;
  }
}

TEST_P(SamplingTest, TopKOfOneIsGreedyEvenOnATie) {
  const SamplingParams one{.temperature = 1.0f, .top_k = 1};
  for (int64_t position = 0; position < 50; ++position) EXPECT_EQ(Draw({1, 3, 3, 3, 2}, one, position), 1);
}

TEST_P(SamplingTest, LogprobsAreThoseOfTheRawLogits) {
  const std::vector<float> logits = RandomLogits(49152, 4);
  const Values expected = reference::LogSoftmax(ToDouble(logits));
  const std::vector<int32_t> ranked = reference::Ranked(ToDouble(logits));
  const SamplingParams params{.temperature = 0.7f, .top_k = 50, .key = 8};
  for (int32_t wanted : {0, 1, 5, 20}) {
    const SampleResult result = Sample(logits, {.params = &params, .position = 9, .logprobs = wanted});
    // Half an ulp of a number below 16, and the sum's relative error of about 1e-6.
    EXPECT_NEAR(result.logprob, expected[static_cast<size_t>(result.id)], 2e-6);
    EXPECT_EQ(result.best, ranked[0]);
    ASSERT_EQ(std::ssize(result.top), wanted);
    for (int32_t i = 0; i < wanted; ++i) {
      EXPECT_EQ(result.top[static_cast<size_t>(i)].id, ranked[static_cast<size_t>(i)]);
      EXPECT_NEAR(result.top[static_cast<size_t>(i)].logprob,
                  expected[static_cast<size_t>(ranked[static_cast<size_t>(i)])], 2e-6);
      if (result.top[static_cast<size_t>(i)].id == result.id) {
        EXPECT_EQ(result.top[static_cast<size_t>(i)].logprob, result.logprob);
      }
    }
  }
}

TEST_P(SamplingTest, TheKBestAreOrderedByLogprobThenId) {
  const SampleResult result = Sample({1, 2, 2, 0, 2, 3, -kInfinity}, {.scored_id = 2, .logprobs = 20});
  std::vector<int32_t> ids;
  for (const TokenLogprob& entry : result.top) ids.push_back(entry.id);
  EXPECT_THAT(ids, testing::ElementsAre(5, 1, 2, 4, 0, 3, 6));
  EXPECT_EQ(result.id, 2);
  EXPECT_EQ(result.logprob, result.top[2].logprob);
  EXPECT_EQ(result.top[6].logprob, -kInfinity);
}

TEST_P(SamplingTest, ScoredTokenNeedsNoParameters) {
  const std::vector<float> logits = RandomLogits(1000, 3);
  const SampleResult result = Sample(logits, {.scored_id = 17, .logprobs = 0});
  EXPECT_EQ(result.id, 17);
  EXPECT_NEAR(result.logprob, reference::LogSoftmax(ToDouble(logits))[17], 2e-6);
  EXPECT_TRUE(result.top.empty());
  EXPECT_EQ(result.best, reference::Ranked(ToDouble(logits))[0]);
  EXPECT_EQ(Sample({1, 3, 3}, {.scored_id = 0, .logprobs = 0}).best, 1) << "the lower id of equals";
  const TokenBias bias[] = {{0, 9.0f}};
  const LogitAdjustments changed{.biases = bias};
  const SamplingParams greedy{.temperature = 0.0f};
  const SampleRequest biased{.params = &greedy, .adjustments = &changed, .logprobs = 0};
  EXPECT_EQ(Sample({1, 3, 2}, biased).best, 1) << "as the row was";
}

// What a case asks, and the lists it speaks of.
struct Adjusted {
  std::vector<int32_t> allowed, banned;
  std::vector<TokenBias> biases;
  std::vector<TokenCount> counts;
  float repetition = 1.0f, frequency = 0.0f, presence = 0.0f;
  std::vector<uint32_t> allowed_bits = {};

  LogitAdjustments view() const {
    return {allowed, banned, biases, counts, repetition, frequency, presence, false, allowed_bits};
  }
};

std::vector<TokenCount> CountsOf(const std::vector<int32_t>& prompt, const std::vector<int32_t>& output) {
  std::map<int32_t, int32_t> counts;
  for (const int32_t id : prompt) counts[id] += 0;
  for (const int32_t id : output) counts[id] += 1;
  std::vector<TokenCount> list;
  for (const auto& [id, count] : counts) list.push_back({id, count});
  return list;
}

// Each bit set with this probability, one of them for certain; those beyond the vocabulary mean nothing, so they are set.
std::vector<uint32_t> RandomBits(int64_t vocab, double density, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> bits(static_cast<size_t>((vocab + 31) / 32));
  const auto certain = static_cast<int64_t>(random() % static_cast<uint64_t>(vocab));
  for (int64_t id = 0; id < std::ssize(bits) * 32; ++id) {
    const bool set = id >= vocab || id == certain || static_cast<double>(random() % 4096) < density * 4096;
    bits[static_cast<size_t>(id / 32)] |= (set ? 1u : 0u) << (id % 32);
  }
  return bits;
}

// A draw is a function of (logits, parameters, position): its place in the batch and the number of threads are not.
TEST_P(SamplingTest, BatchAndThreadsChangeNoBit) {
  constexpr int64_t kVocab = 5000, kRows = 9;
  std::vector<float> logits = RandomLogits(kVocab * kRows, 6);
  std::vector<SamplingParams> params(kRows);
  std::vector<SampleRequest> requests;
  const Adjusted adjusted{.banned = {5, 7}, .biases = {{6, 4.0f}}, .counts = {{8, 2}, {9, 0}}, .repetition = 1.5f};
  const LogitAdjustments view = adjusted.view();
  LogitAdjustments masked = view;
  const std::vector<uint32_t> bits = RandomBits(kVocab, 0.1, 3);
  masked.allowed_bits = bits;
  for (int32_t row = 0; row < kRows; ++row) {
    params[static_cast<size_t>(row)] = kFilters[row].params;
    params[static_cast<size_t>(row)].key = static_cast<uint64_t>(row);
    requests.push_back({.logits_row = row,
                        .params = &params[static_cast<size_t>(row)],
                        .adjustments = row % 3 == 0   ? &view
                                       : row % 3 == 1 ? &masked
                                                      : nullptr,
                        .position = 100 + row,
                        .logprobs = 5});
  }
  const auto equal = [](const SampleResult& a, const SampleResult& b) {
    return a.id == b.id && a.logprob == b.logprob &&
           std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(),
                      [](const auto& x, const auto& y) { return x.id == y.id && x.logprob == y.logprob; });
  };
  const auto memory = OnDevice(*device_, logits);
  const Matrix all{.data = memory->data(), .rows = kRows, .cols = kVocab};
  std::vector<SampleResult> together(kRows);
  device_->AwaitSample(device_->Sample(all, requests, together));
  for (int threads : {1, 3}) {
    const auto device = GetParam().make(threads);
    device->ReserveScratch({.vocab = kVocab});
    const auto own = OnDevice(*device, logits);
    for (size_t row = 0; row < kRows; ++row) {
      SampleResult alone;
      device->AwaitSample(
          device->Sample({.data = own->data(), .rows = kRows, .cols = kVocab}, {&requests[row], 1}, {&alone, 1}));
      EXPECT_TRUE(equal(alone, together[row])) << row;
    }
  }
}

// The next step begins with what was sampled, whoever knows it: as with the ids by hand, bit for bit.
TEST_P(SamplingTest, TheNextStepFindsTheIdsOfItsStateRows) {
  constexpr int64_t kVocab = 50, kCols = 9;
  const auto device = GetParam().make(2);
  device->ReserveScratch({.tokens_max = 5, .rows_max = 4, .slots_max = 16, .cols_max = kCols, .vocab = kVocab});
  const std::vector<float> words = RandomLogits(kVocab * kCols, 1), places = RandomLogits(kVocab * kCols, 2);
  const auto table = device->MakeLinear({.rows = kVocab, .cols = kCols}, ReaderOf(words, kCols), {});
  const auto positions = device->MakeLinear({.rows = kVocab, .cols = kCols}, ReaderOf(places, kCols), {});
  const std::vector<int32_t> blocks = {0};
  std::vector<BatchRow> rows;
  for (const int32_t state_row : {1, 0, 3, 2}) {
    const auto token = static_cast<int32_t>(rows.size());
    rows.push_back({{.state_row = state_row, .position = 20 + token},
                    {.block_table = blocks},
                    /*token_begin=*/token,
                    /*token_count=*/1});
  }
  rows.push_back({{.state_row = 2, .position = 3, .prefill = true},
                  {.block_table = blocks},
                  /*token_begin=*/4,
                  /*token_count=*/1});
  const auto embed = [&](const std::vector<int32_t>& ids) {
    std::vector<float> x(static_cast<size_t>(5 * kCols));
    const auto memory = device->Allocate(x.size() * sizeof(float));
    const Matrix out{
        .data = memory->data(), .rows = device->BeginStep({.token_ids = ids, .rows = rows}), .cols = kCols};
    device->Embed(table.get(), 1, positions.get(), out);
    device->CopyToHost(x.data(), memory->data(), x.size() * sizeof(float));
    return x;
  };
  EXPECT_EQ(embed({kSampledId, 7, 8, 9, 6}), embed({0, 7, 8, 9, 6})) << "nothing was sampled yet";

  std::vector<float> logits = RandomLogits(3 * kVocab, 3);
  logits[2 * kVocab + 5] = std::nanf("");
  const auto memory = OnDevice(*device, logits);
  const SamplingParams draw{.key = 4};
  const SampleRequest requests[] = {{.logits_row = 0, .params = &draw, .position = 11, .state_row = 3},
                                    {.logits_row = 1, .scored_id = 44, .state_row = 0},
                                    {.logits_row = 2, .params = &draw, .position = 13, .state_row = 1},
                                    {.logits_row = 1, .params = &draw, .position = 11}};
  SampleResult results[4];
  const uint64_t number = device->Sample({.data = memory->data(), .rows = 3, .cols = kVocab}, requests, results);
  const std::vector<float> fed = embed({kSampledId, kSampledId, kSampledId, 9, 6});
  device->AwaitSample(number);
  EXPECT_FALSE(results[2].finite);
  EXPECT_EQ(fed, embed({0, 44, results[0].id, 9, 6}));
  EXPECT_NE(fed, embed({0, 44, (results[0].id + 1) % static_cast<int32_t>(kVocab), 9, 6}));
}

TEST_P(SamplingTest, DistributionsAreThoseOfTransformers) {
  std::ifstream file(SourceDir() + "/tests/golden/sampling/distributions.json");
  ASSERT_TRUE(file.is_open());
  const nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_GE(cases.size(), 16u);
  int64_t compared = 0, skipped = 0;
  for (const nlohmann::json& from : cases) {
    SCOPED_TRACE(from.at("name").get<std::string>());
    const nlohmann::json& ask = from.at("ask");
    const auto logits = from.at("logits").get<std::vector<float>>();
    const auto p = from.at("probabilities").get<Values>();
    Adjusted adjusted;
    adjusted.allowed = ask.value("allowed", std::vector<int32_t>());
    adjusted.banned = ask.value("banned", std::vector<int32_t>());
    for (const auto& [id, bias] : ask.value("biases", std::vector<std::pair<int32_t, float>>())) {
      adjusted.biases.push_back({id, bias});
    }
    adjusted.counts = CountsOf(from.at("prompt"), from.at("output"));
    adjusted.repetition = ask.value("repetition", 1.0f);
    adjusted.frequency = ask.value("frequency", 0.0f);
    adjusted.presence = ask.value("presence", 0.0f);
    const LogitAdjustments adjustments = adjusted.view();
    const SamplingParams params{.temperature = ask.value("temperature", 1.0f),
                                .top_p = ask.value("top_p", 1.0f),
                                .top_k = ask.value("top_k", 0),
                                .min_p = ask.value("min_p", 0.0f),
                                .key = 11};
    const Values ours =
        reference::SamplingDistribution(reference::AdjustedLogits(ToDouble(logits), adjustments), params);
    for (size_t id = 0; id < p.size(); ++id) EXPECT_NEAR(ours[id], p[id], 1e-6) << id;
    for (int64_t position = 0; position < 300 / GetParam().share; ++position) {
      double margin = 0.0;
      const int32_t expected = reference::Draw(p, params, position, &margin);
      skipped += margin < 1e-5 ? 1 : 0;
      if (margin < 1e-5) continue;
      const SampleRequest request{.params = &params, .adjustments = &adjustments, .position = position};
      ASSERT_EQ(Sample(logits, request).id, expected) << position;
      ++compared;
    }
  }
  EXPECT_GT(compared, 100 * skipped);
}

TEST_P(SamplingTest, AdjustmentsChooseForGreedyToo) {
  const SamplingParams greedy{.temperature = 0.0f};
  const auto choose = [&](const std::vector<float>& logits, const Adjusted& adjusted) {
    const LogitAdjustments view = adjusted.view();
    return Sample(logits, {.params = &greedy, .adjustments = &view}).id;
  };
  const std::vector<float> logits = {1, 4, 3, -2};
  EXPECT_EQ(choose(logits, {}), 1);
  EXPECT_EQ(choose(logits, {.allowed = {0, 3}}), 0);
  EXPECT_EQ(choose(logits, {.banned = {1}}), 2);
  EXPECT_EQ(choose(logits, {.banned = {1, 2, 0}}), 3);
  EXPECT_EQ(choose(logits, {.biases = {{3, 6.5f}}}), 3);
  EXPECT_EQ(choose(logits, {.counts = {{1, 0}}, .repetition = 2.0f}), 2) << "the prompt counts for repetition";
  EXPECT_EQ(choose(logits, {.counts = {{1, 0}}, .frequency = 2.0f, .presence = 2.0f}), 1) << "and for nothing else";
  EXPECT_EQ(choose(logits, {.counts = {{1, 1}}, .presence = 2.0f}), 2);
  EXPECT_EQ(choose(logits, {.counts = {{1, 3}}, .frequency = 0.5f}), 2);
  EXPECT_EQ(choose({-1, -1.5f}, {.counts = {{0, 1}}, .repetition = 2.0f}), 1) << "a negative logit is multiplied";
}

TEST_P(SamplingTest, BansThatLeaveNothingAreGivenUp) {
  const SamplingParams greedy{.temperature = 0.0f};
  const Adjusted adjusted{.allowed = {0, 2}, .banned = {0, 1, 2}};
  const LogitAdjustments view = adjusted.view();
  EXPECT_EQ(Sample({1, 4, 3, -2}, {.params = &greedy, .adjustments = &view}).id, 2);
  // A token the model itself rules out is no way out of it.
  EXPECT_EQ(Sample({1, 4, -kInfinity, -2}, {.params = &greedy, .adjustments = &view}).id, 0);
}

TEST_P(SamplingTest, BitsAllowWhatTheOracleAllows) {
  int64_t compared = 0, skipped = 0;
  for (const int64_t vocab : {1, 15, 16, 17, 31, 32, 33, 47, 48, 63, 65, 257, 1000}) {
    for (uint64_t seed = 0; seed < static_cast<uint64_t>(std::max(48 / GetParam().share, 12)); ++seed) {
      const std::vector<float> logits = RandomLogits(vocab, seed);
      std::mt19937_64 random(seed + 100);
      const auto any_id = [&] { return static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)); };
      Adjusted adjusted;
      adjusted.allowed_bits = RandomBits(vocab, seed % 3 == 0 ? 0.02 : seed % 3 == 1 ? 0.5 : 0.98, seed);
      for (uint64_t i = 0; seed % 4 == 1 && i < 20; ++i) adjusted.allowed.push_back(any_id());
      for (uint64_t i = 0; seed % 4 >= 2 && i < 20; ++i) adjusted.banned.push_back(any_id());
      if (seed % 4 == 3) adjusted.biases = {{any_id(), 5.0f}};
      if (seed % 4 == 3) adjusted.counts = {{any_id(), 2}}, adjusted.presence = 1.5f;
      const LogitAdjustments view = adjusted.view();
      const SamplingParams params{.temperature = seed % 2 == 0 ? 0.0f : 0.8f, .key = seed * 77};
      const SampleRequest request{.params = &params, .adjustments = &view, .position = static_cast<int64_t>(seed)};
      double margin = 0.0;
      const SampleResult expected = reference::Sample(ToDouble(logits), request, &margin);
      skipped += margin < 1e-5 ? 1 : 0;
      if (margin < 1e-5) continue;
      const SampleResult result = Sample(logits, request);
      ASSERT_EQ(result.finite, expected.finite) << "vocab " << vocab << " seed " << seed;
      ASSERT_EQ(result.no_token, expected.no_token) << "vocab " << vocab << " seed " << seed;
      if (expected.finite) {
        ASSERT_EQ(result.id, expected.id) << "vocab " << vocab << " seed " << seed;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 30 * skipped);
}

TEST_P(SamplingTest, ARowWithoutATokenSaysSo) {
  const std::vector<float> logits = {1, 4, -kInfinity, -2};
  for (const float temperature : {0.0f, 1.0f}) {
    const SamplingParams params{.temperature = temperature};
    const auto sample = [&](const Adjusted& adjusted) {
      const LogitAdjustments view = adjusted.view();
      return Sample(logits, {.params = &params, .adjustments = &view, .logprobs = 1});
    };
    for (const Adjusted& nothing :
         {Adjusted{.allowed_bits = {0}}, Adjusted{.allowed = {0, 3}, .allowed_bits = {0b0110}},
          Adjusted{.allowed_bits = {0b0100}}, Adjusted{.allowed = {2}},
          Adjusted{.biases = {{0, 9.0f}}, .allowed_bits = {0}}, Adjusted{.banned = {1}, .allowed_bits = {~0u << 4}}}) {
      const SampleResult result = sample(nothing);
      EXPECT_FALSE(result.finite);
      EXPECT_TRUE(result.no_token);
    }
    const SampleResult last = sample({.banned = {3}, .allowed_bits = {0b1100}});
    EXPECT_EQ(last.id, 3) << "a ban is given up, a bit is not";
    EXPECT_FALSE(last.no_token);
    const Adjusted nothing_allowed{.allowed_bits = {0}};
    const LogitAdjustments none = nothing_allowed.view();
    const SampleResult broken = Sample({1, std::nanf(""), 3}, {.params = &params, .adjustments = &none});
    EXPECT_FALSE(broken.finite);
    EXPECT_FALSE(broken.no_token) << "the model's fault, not the mask's";
    EXPECT_EQ(Sample(logits, {.adjustments = &none, .scored_id = 1}).id, 1) << "given, not chosen";
  }
}

TEST_P(SamplingTest, ExtremePenaltiesStayFinite) {
  const SamplingParams params{.temperature = 1.0f};
  const std::vector<float> logits = {3e38f, -3e38f, 1.0f};
  for (const float repetition : {1e-3f, 10.0f}) {
    for (const float penalty : {-2.0f, 2.0f}) {
      const Adjusted adjusted{.biases = {{0, 100.0f}, {1, -100.0f}},
                              .counts = {{0, 1 << 30}, {1, 1 << 30}, {2, 1}},
                              .repetition = repetition,
                              .frequency = penalty,
                              .presence = penalty};
      const LogitAdjustments view = adjusted.view();
      const SampleResult result = Sample(logits, {.params = &params, .adjustments = &view, .logprobs = 3});
      EXPECT_TRUE(result.finite);
      EXPECT_EQ(result.id, 0);
    }
  }
}

// What the device sampled last counts as if the host had counted it.
TEST_P(SamplingTest, TheLastIdCountsOnceMore) {
  const std::vector<float> logits = RandomLogits(400, 8);
  const std::vector<int32_t> ranked = reference::Ranked(ToDouble(logits));
  const std::vector<int32_t> prompt = {ranked[2]}, output = {ranked[1], ranked[1], ranked[4]};
  const SamplingParams draw{.temperature = 0.8f, .key = 3};
  int32_t changed = 0;
  for (int32_t best = 0; best < 5; ++best) {
    const int32_t last = ranked[static_cast<size_t>(best)];
    std::vector<int32_t> output_with_last = output;
    output_with_last.push_back(last);
    const Adjusted before{.counts = CountsOf(prompt, output), .repetition = 1.3f, .frequency = 0.6f, .presence = 0.9f};
    Adjusted after = before;
    after.counts = CountsOf(prompt, output_with_last);
    LogitAdjustments by_device = before.view();
    by_device.counts_last = true;
    const LogitAdjustments by_host = after.view(), without = before.view();
    for (int64_t position = 0; position < 60; ++position) {
      const SampleResult told = Sample(logits, {.scored_id = last, .state_row = 2});
      ASSERT_EQ(told.id, last);
      const auto sample = [&](const LogitAdjustments& adjustments) {
        return Sample(logits, {.params = &draw, .adjustments = &adjustments, .position = position, .state_row = 2}).id;
      };
      const int32_t id = sample(by_device);
      ASSERT_EQ(id, sample(by_host)) << best << ", " << position;
      changed += id != sample(without) ? 1 : 0;
    }
  }
  EXPECT_GT(changed, 5);
}

TEST_P(SamplingTest, LogprobsAndRanksAreThoseBeforeAdjustments) {
  const std::vector<float> logits = RandomLogits(300, 4);
  const std::vector<int32_t> ranked = reference::Ranked(ToDouble(logits));
  const SamplingParams greedy{.temperature = 0.0f};
  const Adjusted adjusted{.banned = {ranked[0], ranked[1]}};
  const LogitAdjustments view = adjusted.view();
  const SampleResult result = Sample(logits, {.params = &greedy, .adjustments = &view, .logprobs = 2, .rank = true});
  EXPECT_EQ(result.id, ranked[2]);
  EXPECT_EQ(result.rank, 3);
  EXPECT_EQ(result.top[0].id, ranked[0]);
  EXPECT_NEAR(result.logprob, reference::LogSoftmax(ToDouble(logits))[static_cast<size_t>(ranked[2])], 2e-6);
}

TEST_P(SamplingTest, RanksCountBetterTokensAndEqualOnesWithLowerIds) {
  const std::vector<float> logits = {1, 2, 2, 0, 2, 3, -kInfinity};
  const int32_t expected[] = {5, 2, 3, 6, 4, 1, 7};
  for (int32_t id = 0; id < 7; ++id) {
    EXPECT_EQ(Sample(logits, {.scored_id = id, .logprobs = 0, .rank = true}).rank, expected[id]) << id;
  }
  EXPECT_EQ(Sample(logits, {.scored_id = 0, .logprobs = 0}).rank, 0) << "not asked for";
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, SamplingTest, testing::ValuesIn(TestedDevices()),
                         [](const auto& device) { return device.param.name; });

}  // namespace
}  // namespace hydrant
