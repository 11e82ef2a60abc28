// Attention over the paged cache against the double-precision oracle, and the promise that a row's bits depend on nothing
// but the row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/reference/reference.h"
#include "tests/kernels/kv_fixture.h"
#include "tests/kernels/tested_device.h"

namespace hydrant {
namespace {

using reference::RoundTo;
using reference::ToDouble;
using reference::Values;

EvictionPolicy Policy(int32_t heavy, int32_t recent) {
  EvictionPolicy policy;
  policy.evicts = true;
  policy.heavy = heavy;
  policy.recent = recent;
  return policy;
}

std::string Name(KvType type) {
  constexpr const char* kNames[] = {"f32", "f16", "bf16", "int8"};
  return kNames[static_cast<size_t>(type)];
}

DType PromptDType(const TestedDevice& device, const KvShape& shape) {
  return device.prompt_dtype(shape.type, shape.head_dim);
}

// Relative error of a number rounded to the type; twice, to leave room for the sum of rounded numbers.
double RoundingOf(DType dtype) { return dtype == DType::kF32 ? 0.0 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-8; }

// [query_heads]: beside, above and below the logits, with all of a row's weight and with none.
std::vector<float> Sinks(const KvShape& shape) {
  constexpr float kSinks[] = {1.0f, 9.0f, -4.0f, 40.0f, 2.5f, -1000.0f};
  std::vector<float> sinks;
  for (int32_t head = 0; head < shape.query_heads(); ++head) sinks.push_back(kSinks[head % 6]);
  return sinks;
}

// The oracle of one query row, and how far fp32 arithmetic may be from it.
struct Expected {
  Values out;
  double tolerance = 0.0;
};

// The token sees the tokens of the window that ends with itself.
Expected Oracle(TokenStream& stream, const KvShape& shape, int32_t token, int32_t layer, int32_t head,
                const AttentionSpec& spec, DType prompt_dtype, double rounding, std::span<const float> sinks = {}) {
  const auto scale = static_cast<double>(spec.scale), softcap = static_cast<double>(spec.softcap);
  const Values q = RoundTo(prompt_dtype, ToDouble(stream.Q(token, layer, head)));
  Values keys, values;
  double value_max = 0.0, logit_error = 0.0, logit_max = 0.0;
  constexpr double kUlp = 0x1p-24;
  const int32_t slots = std::min(spec.window, token + 1);
  for (int32_t t = token + 1 - slots; t <= token; ++t) {
    const Values k = RoundTo(shape.type, ToDouble(stream.K(t, layer, head)));
    const Values v = RoundTo(shape.type, ToDouble(stream.V(t, layer, head)));
    keys.insert(keys.end(), k.begin(), k.end());
    values.insert(values.end(), v.begin(), v.end());
    for (double x : v) value_max = std::max(value_max, std::abs(x));
    const Values magnitude = reference::LinearMagnitude(q, shape.group, k, 1, shape.head_dim);
    for (double m : magnitude) {
      logit_error = std::max(logit_error, ((shape.head_dim + 2) * kUlp + rounding) * m * scale);
      logit_max = std::max(logit_max, m * scale);
    }
  }
  Values group_sinks;
  if (!sinks.empty()) {
    const auto group = static_cast<size_t>(shape.group);
    group_sinks = ToDouble(sinks.subspan(static_cast<size_t>(head) * group, group));
    // Scaled to a product's units and back, in the units of a power of two.
    for (const double sink : group_sinks) {
      logit_error = std::max(logit_error, 4 * kUlp * std::abs(sink));
      logit_max = std::max(logit_max, std::abs(sink));
    }
  }
  Expected expected;
  expected.out =
      reference::Attention(q, shape.group, keys, values, slots, shape.head_dim, scale, softcap, group_sinks).out;
  // A cap makes errors of what it caps smaller, and adds its own: roundings of a quotient, an exponential of 2 ulp, a sum, a
  // division and a difference, each relative to the cap.
  logit_error += 12 * kUlp * softcap;
  // A weight is off by the error of its logit, by that of the largest logit, by the subtraction, and by exp (4 ulp); their
  // sum and the sum of values round `slots` times each. Rounding the weights adds half an ulp of their type, the scale of an
  // int8 value one of fp32.
  const double weight_error = 2 * logit_error + 2 * kUlp * logit_max + 9 * kUlp + 2 * slots * kUlp;
  expected.tolerance = value_max * (2 * weight_error + std::max(RoundingOf(prompt_dtype), rounding));
  return expected;
}

using ShapeCase = std::tuple<TestedDevice, KvType, int32_t /*head_dim*/, int32_t /*group*/>;

class AttentionShapeTest : public testing::TestWithParam<ShapeCase> {
 protected:
  KvShape Shape(int32_t layers) const {
    return {.layers = layers,
            .kv_heads = 2,
            .group = std::get<3>(GetParam()),
            .head_dim = std::get<2>(GetParam()),
            .type = std::get<1>(GetParam())};
  }
  const TestedDevice device_ = std::get<0>(GetParam());
};

// A prompt in chunks, then generated tokens up to `tokens`.
void ExpectOracle(const TestedDevice& device, const KvShape& shape, int32_t prompt, int32_t chunk, int32_t tokens,
                  int32_t window, float softcap, bool has_sinks) {
  KvFixture fixture(shape, device, 2, 8);
  fixture.Poison();
  fixture.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  fixture.softcap = softcap;
  fixture.window = window;
  const std::vector<float> sinks = has_sinks ? Sinks(shape) : std::vector<float>();
  if (has_sinks) fixture.SetSinks(sinks);
  TokenStream stream(shape, tokens, 5);
  TestSequence sequence = fixture.Sequence(stream, EvictionPolicy(), prompt, 1, tokens);
  const auto check = [&](const std::vector<float>& outputs, int32_t first, int32_t count, DType prompt_dtype) {
    for (int32_t layer = 0; layer < shape.layers; ++layer) {
      for (int32_t head = 0; head < shape.kv_heads; ++head) {
        for (int32_t t = 0; t < count; ++t) {
          const Expected expected = Oracle(stream, shape, first + t, layer, head, {fixture.scale, softcap, window},
                                           prompt_dtype, shape.type == KvType::kF32 ? 0.0 : device.rounding, sinks);
          const int64_t width = std::ssize(expected.out);
          const float* actual =
              &outputs[static_cast<size_t>((layer * count + t) * int64_t{shape.out_cols()} + head * width)];
          for (int64_t i = 0; i < width; ++i) {
            ASSERT_NEAR(actual[i], expected.out[static_cast<size_t>(i)], expected.tolerance)
                << "layer " << layer << " head " << head << " token " << first + t << " element " << i;
          }
        }
      }
    }
  };
  for (int32_t begin = 0; begin < prompt; begin += chunk) {
    const TestRow row{&sequence, std::min(chunk, prompt - begin), true};
    check(fixture.Step({&row, 1}), begin, row.tokens, PromptDType(device, shape));
  }
  for (int32_t t = prompt; t < tokens; ++t) {
    const TestRow row{&sequence, 1, false};
    check(fixture.Step({&row, 1}), t, 1, DType::kF32);
  }
}

TEST_P(AttentionShapeTest, PrefillAndDecodeMatchTheOracle) {
  const KvShape shape = Shape(2);
  // Decode crosses the end of a block.
  ExpectOracle(device_, shape, 67, 48, 86, shape.group == 3 ? kNoWindow : 21, shape.group >= 5 ? 1.5f : 0.0f,
               /*has_sinks=*/shape.group == 4 || shape.head_dim % 32 == 0);
}

class AttentionHeadsTest : public AttentionShapeTest {};

// For every size of a head that has kernels of its own with every size of a group: short, over the ends of blocks.
TEST_P(AttentionHeadsTest, PrefillAndDecodeMatchTheOracle) {
  const KvShape shape = Shape(1);
  ExpectOracle(device_, shape, 47, 32, 50, shape.group % 4 == 0 ? 21 : kNoWindow,
               shape.group == 2 || shape.group == 8 ? 1.5f : 0.0f, /*has_sinks=*/shape.group != 2);
}

std::string ShapeName(const testing::TestParamInfo<ShapeCase>& info) {
  return std::get<0>(info.param).name + "_" + Name(std::get<1>(info.param)) + "_dim" +
         std::to_string(std::get<2>(info.param)) + "_group" + std::to_string(std::get<3>(info.param));
}

INSTANTIATE_TEST_SUITE_P(HeadDims, AttentionShapeTest,
                         testing::Combine(testing::ValuesIn(TestedDevices()),
                                          testing::Values(KvType::kF32, KvType::kF16, KvType::kBF16),
                                          testing::Values(8, 16, 20, 34, 64, 80, 96, 128, 256), testing::Values(3)),
                         ShapeName);
INSTANTIATE_TEST_SUITE_P(Groups, AttentionShapeTest,
                         testing::Combine(testing::ValuesIn(TestedDevices()),
                                          testing::Values(KvType::kF32, KvType::kBF16), testing::Values(32, 64),
                                          testing::Values(1, 2, 4, 5, 7, 8, 16)),
                         ShapeName);

// Every number of heads in a pass, and of chunks of 16 elements; the tails, too.
INSTANTIATE_TEST_SUITE_P(Int8, AttentionShapeTest,
                         testing::Combine(testing::ValuesIn(TestedDevices()), testing::Values(KvType::kInt8),
                                          testing::Values(8, 34, 64, 80, 96, 128, 256), testing::Values(1, 3, 6)),
                         ShapeName);

INSTANTIATE_TEST_SUITE_P(HeadsAndGroups, AttentionHeadsTest,
                         testing::Combine(testing::ValuesIn(TestedDevices()),
                                          testing::Values(KvType::kF16, KvType::kBF16),
                                          testing::Values(64, 80, 96, 128, 256), testing::Values(1, 2, 4, 8, 16)),
                         ShapeName);

class AttentionTest : public testing::TestWithParam<TestedDevice> {};

// The last of `live` tokens is generated. `looks_at_itself`: its key is twice its first query, so that hardly anything else counts.
void ExpectDecodeOracle(const TestedDevice& device, const KvShape& shape, int32_t live, int32_t window = kNoWindow,
                        float softcap = 0.0f, bool looks_at_itself = false, bool has_sinks = false) {
  KvFixture fixture(shape, device, 3, 40);
  fixture.Poison();
  fixture.softcap = softcap;
  fixture.window = window;
  const std::vector<float> sinks = has_sinks ? Sinks(shape) : std::vector<float>();
  if (has_sinks) fixture.SetSinks(sinks);
  TokenStream stream(shape, live, 9);
  if (looks_at_itself) {
    const std::span<const float> query = stream.Q(live - 1, 0, 0);
    const std::span<float> key = stream.K(live - 1, 0, 0);
    for (size_t i = 0; i < key.size(); ++i) key[i] = 2.0f * query[i];
  }
  TestSequence sequence = fixture.Sequence(stream, EvictionPolicy(), live, 0, live);
  std::vector<TestRow> rows = {{&sequence, live - 1, true}};
  if (live > 1) fixture.Step(rows);
  rows[0] = {&sequence, 1, false};
  const std::vector<float> outputs = fixture.Step(rows);
  for (int32_t head = 0; head < shape.kv_heads; ++head) {
    const Expected expected = Oracle(stream, shape, live - 1, 0, head, {fixture.scale, softcap, window}, DType::kF32,
                                     shape.type == KvType::kF32 ? 0.0 : device.rounding, sinks);
    const int64_t width = std::ssize(expected.out);
    for (int64_t i = 0; i < width; ++i) {
      ASSERT_NEAR(outputs[static_cast<size_t>(head * width + i)], expected.out[static_cast<size_t>(i)],
                  expected.tolerance)
          << "live " << live << ", window " << window;
    }
  }
}

// Decode over every number of slots at which the split of the work changes shape.
TEST_P(AttentionTest, DecodeMatchesTheOracleAtEverySplitBorder) {
  for (int32_t live : {1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 319, 320, 321, 512, 576, 577, 600}) {
    ExpectDecodeOracle(GetParam(), {.layers = 1, .kv_heads = 2, .group = 3, .head_dim = 32, .type = KvType::kF32},
                       live);
  }
}

// In units of products it would be an infinity, and the difference of two infinities is no number.
TEST_P(AttentionTest, ASinkAboveEveryLogitTakesAllWeight) {
  const KvShape shape = {.layers = 1, .kv_heads = 1, .group = 2, .head_dim = 64, .type = KvType::kF32};
  KvFixture fixture(shape, GetParam(), 1, 40);
  fixture.Poison();
  fixture.scale = 0.125f;
  fixture.SetSinks({1e38f, 1e38f});
  TokenStream stream(shape, 300, 9);
  TestSequence sequence = fixture.Sequence(stream, EvictionPolicy(), 299, 0, 300);
  TestRow row{&sequence, 299, true};
  for (const float element : fixture.Step({&row, 1})) ASSERT_EQ(element, 0.0f);
  row = {&sequence, 1, false};
  for (const float element : fixture.Step({&row, 1})) ASSERT_EQ(element, 0.0f);
}

// Windows that begin in the last split, at its beginning, in an earlier one: splits and tiles that are hidden as a whole.
TEST_P(AttentionTest, DecodeInWindowsMatchesTheOracle) {
  for (const KvType type : {KvType::kF32, KvType::kBF16}) {
    for (const int32_t window : {1, 17, 88, 100, 400}) {
      ExpectDecodeOracle(GetParam(), {.layers = 1, .kv_heads = 1, .group = 2, .head_dim = 64, .type = type}, 600,
                         window, window == 88 ? 1.5f : 0.0f);
    }
  }
}

// However many splits there are, a sink counts once.
TEST_P(AttentionTest, DecodeWithSinksMatchesTheOracleAtEverySplitBorder) {
  for (const KvType type : {KvType::kF32, KvType::kBF16}) {
    for (const int32_t live : {1, 17, 256, 257, 577}) {
      ExpectDecodeOracle(GetParam(), {.layers = 1, .kv_heads = 2, .group = 3, .head_dim = 64, .type = type}, live,
                         live == 577 ? 400 : kNoWindow, /*softcap=*/0.0f, /*looks_at_itself=*/false,
                         /*has_sinks=*/true);
    }
  }
}

TEST_P(AttentionTest, DecodeOverHalvesMatchesTheOracleAtEverySplitBorder) {
  for (int32_t live : {1, 16, 17, 255, 256, 257, 513}) {
    ExpectDecodeOracle(GetParam(), {.layers = 1, .kv_heads = 1, .group = 2, .head_dim = 64, .type = KvType::kBF16},
                       live);
  }
}

// A split's last slot is one of hundreds, and is missed only where it has weight.
TEST_P(AttentionTest, DecodeCountsTheLastSlotAtEverySplitBorder) {
  for (const KvType type : {KvType::kF32, KvType::kBF16}) {
    for (const int32_t live : {256, 257, 272, 273}) {
      ExpectDecodeOracle(GetParam(), {.layers = 1, .kv_heads = 1, .group = 1, .head_dim = 64, .type = type}, live,
                         kNoWindow, /*softcap=*/0.0f, /*looks_at_itself=*/true);
    }
  }
}

// The same over int8, and other promises about such caches.
class Int8AttentionTest : public testing::TestWithParam<TestedDevice> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Int8AttentionTest);

TEST_P(Int8AttentionTest, DecodeMatchesTheOracleAtEverySplitBorder) {
  for (int32_t live : {1, 16, 17, 255, 256, 257, 513}) {
    ExpectDecodeOracle(GetParam(), {.layers = 1, .kv_heads = 1, .group = 2, .head_dim = 64, .type = KvType::kInt8},
                       live);
  }
}

// One head of 20 elements that is written and read back.
std::vector<float> ThroughInt8(const TestedDevice& device, const std::vector<float>& head) {
  const KvShape shape = {.layers = 1, .kv_heads = 1, .group = 1, .head_dim = 20, .type = KvType::kInt8};
  KvFixture fixture(shape, device, 1, 2);
  fixture.Poison();
  TokenStream stream(shape, 2, 1);
  std::ranges::copy(head, stream.K(1, 0, 0).begin());
  std::ranges::copy(head, stream.V(1, 0, 0).begin());
  TestSequence sequence = fixture.Sequence(stream, EvictionPolicy(), 2, 0, 2);
  const TestRow row{&sequence, 2, true};
  fixture.Step({&row, 1});
  const std::vector<float> key = fixture.ReadSlot(sequence, false, 0, 0, 1);
  const std::vector<float> value = fixture.ReadSlot(sequence, true, 0, 0, 1);
  for (size_t i = 0; i < key.size(); ++i) EXPECT_EQ(std::bit_cast<uint32_t>(key[i]), std::bit_cast<uint32_t>(value[i]));
  for (const float x : fixture.ReadSlot(sequence, true, 0, 0, 2)) EXPECT_EQ(x, 0.0f) << "a slot that nobody has";
  return key;
}

TEST_P(Int8AttentionTest, TokensAreKeptByTheRuleFromTheSmallestNumbersToTheLargest) {
  std::mt19937_64 random(3);
  NormalDistribution normal(0.0f, 1.0f);
  for (const float size : {0.0f, 1e-45f, 1e-38f, 7e-31f, 8e-31f, 1e-30f, 1e-20f, 1.0f, 254.0f, 1e20f, 1e38f}) {
    std::vector<float> head;
    for (int i = 0; i < 19; ++i) head.push_back(std::clamp(normal(random) / 4.0f, -1.0f, 1.0f) * size);
    head.push_back(-size);  // the largest
    const std::vector<float> kept = ThroughInt8(GetParam(), head);
    EXPECT_EQ(ToDouble(kept), RoundTo(KvType::kInt8, ToDouble(head))) << size;
    for (size_t i = 0; i < head.size(); ++i) {
      EXPECT_NEAR(kept[i], head[i], std::max(size / 253.0f, kInt8Smallest)) << "half a step of " << size;
    }
  }
}

TEST_P(Int8AttentionTest, HalvesGoToTheEvenCode) {
  std::vector<float> head(20, 0.0f);
  head[0] = 127.0f;
  head[1] = 0.5f, head[2] = 1.5f, head[3] = -2.5f, head[4] = -126.5f;
  const std::vector<float> kept = ThroughInt8(GetParam(), head);
  EXPECT_THAT(std::vector(kept.begin(), kept.begin() + 5), testing::ElementsAre(127.0f, 0.0f, 2.0f, -2.0f, -126.0f));
}

TEST_P(Int8AttentionTest, ANumberThatIsNoneMakesTheWholeHeadNone) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> head(20, 1.0f);
    head[13] = bad;
    for (const float x : ThroughInt8(GetParam(), head)) EXPECT_TRUE(std::isnan(x)) << bad;
  }
}

// --- equal bits -------------------------------------------------------------------------------------------------------

// Everything a sequence's future depends on.
struct Trace {
  std::vector<std::vector<float>> outputs;  // per token
  std::vector<float> scores;                // of all live slots, all pairs
  std::vector<int32_t> positions;
  std::vector<int32_t> victims;

  bool operator==(const Trace&) const = default;
};

struct Story {
  int32_t prompt = 0;
  int32_t steps = 0;
  EvictionPolicy policy;
  uint64_t seed = 0;
};

constexpr KvShape StoryShape(KvType type) {
  return {.layers = 2, .kv_heads = 3, .group = 3, .head_dim = 64, .type = type};
}

// Tokens `first`, … of a sequence out of a step's outputs.
void Record(const KvFixture& fixture, const std::vector<float>& outputs, size_t step_tokens, size_t token_begin,
            size_t count, Trace& trace) {
  const size_t width = static_cast<size_t>(fixture.shape.out_cols());
  for (size_t t = token_begin; t < token_begin + count; ++t) {
    std::vector<float> row;
    for (size_t layer = 0; layer < static_cast<size_t>(fixture.shape.layers); ++layer) {
      const auto first = outputs.begin() + static_cast<ptrdiff_t>((layer * step_tokens + t) * width);
      row.insert(row.end(), first, first + static_cast<ptrdiff_t>(width));
    }
    trace.outputs.push_back(std::move(row));
  }
}

void RecordState(KvFixture& fixture, const TestSequence& sequence, Trace& trace) {
  for (int32_t layer = 0; layer < fixture.shape.layers; ++layer) {
    for (int32_t head = 0; head < fixture.shape.kv_heads; ++head) {
      for (int32_t slot = 0; slot < sequence.live; ++slot) {
        trace.scores.push_back(fixture.Score(sequence, layer, head, slot));
        trace.positions.push_back(fixture.Position(sequence, layer, head, slot));
      }
      if (sequence.has_victim) trace.victims.push_back(fixture.VictimSlot(sequence, layer, head));
    }
  }
}

// Runs the stories together: each sequence takes its prompt in chunks of `chunk`, then decodes, all in the same steps.
std::vector<Trace> Tell(const std::vector<Story>& stories, const TestedDevice& device, int threads, int32_t chunk,
                        KvType type = KvType::kBF16, int32_t window = kNoWindow, bool has_sinks = false) {
  const KvShape shape = StoryShape(type);
  KvFixture fixture(shape, device, threads, 256);
  fixture.Poison();
  fixture.window = window;
  if (has_sinks) fixture.SetSinks(Sinks(shape));
  std::vector<TokenStream> streams;
  for (const Story& story : stories) {
    streams.emplace_back(shape, story.prompt + story.steps, story.seed);
    streams.back().AddPopularity(2.0f, story.seed);
  }
  std::vector<TestSequence> sequences;
  for (size_t i = 0; i < stories.size(); ++i) {
    sequences.push_back(fixture.Sequence(streams[i], stories[i].policy, stories[i].prompt, static_cast<int32_t>(i),
                                         stories[i].prompt + stories[i].steps));
  }
  std::vector<Trace> traces(stories.size());
  while (true) {
    std::vector<TestRow> rows;
    std::vector<size_t> owner;
    for (size_t i = 0; i < stories.size(); ++i) {
      const int32_t left = stories[i].prompt - sequences[i].position;
      if (left <= -stories[i].steps) continue;
      rows.push_back({&sequences[i], left > 0 ? std::min(left, chunk) : 1, left > 0});
      owner.push_back(i);
    }
    if (rows.empty()) break;
    const std::vector<float> outputs = fixture.Step(rows);
    size_t tokens = 0, begin = 0;
    for (const TestRow& row : rows) tokens += static_cast<size_t>(row.tokens);
    for (size_t r = 0; r < rows.size(); ++r) {
      Record(fixture, outputs, tokens, begin, static_cast<size_t>(rows[r].tokens), traces[owner[r]]);
      begin += static_cast<size_t>(rows[r].tokens);
      if (rows[r].prefill && sequences[owner[r]].position < stories[owner[r]].prompt) continue;
      RecordState(fixture, sequences[owner[r]], traces[owner[r]]);
    }
  }
  return traces;
}

std::vector<Story> Stories() {
  EvictionPolicy decayed = Policy(20, 13);
  decayed.decay = 0.9375f;
  decayed.square = true;
  decayed.score_rows = 64;
  decayed.pool_width = 15;
  EvictionPolicy mean = Policy(100, 50);
  mean.gqa_reduce = GqaReduce::kMean;
  mean.score_rows = 32;
  EvictionPolicy first = Policy(16, 16);
  first.gqa_reduce = GqaReduce::kFirst;
  return {{.prompt = 200, .steps = 20, .policy = Policy(64, 64), .seed = 1},
          {.prompt = 17, .steps = 30, .policy = decayed, .seed = 2},
          {.prompt = 333, .steps = 9, .policy = EvictionPolicy(), .seed = 3},
          {.prompt = 97, .steps = 25, .policy = decayed, .seed = 4},
          {.prompt = 400, .steps = 12, .policy = mean, .seed = 5},
          {.prompt = 64, .steps = 40, .policy = first, .seed = 6},
          {.prompt = 350, .steps = 3, .policy = Policy(330, 1), .seed = 7}};
}

TEST_P(AttentionTest, BatchedRowsEqualSoloRowsBitForBit) {
  const std::vector<Trace> together = Tell(Stories(), GetParam(), 2, 64);
  for (size_t i = 0; i < Stories().size(); ++i) {
    EXPECT_EQ(Tell({Stories()[i]}, GetParam(), 2, 64)[0], together[i]) << "story " << i;
  }
}

TEST_P(AttentionTest, ThreadCountChangesNoBit) {
  const std::vector<Trace> one = Tell(Stories(), GetParam(), 1, 64);
  EXPECT_EQ(Tell(Stories(), GetParam(), 3, 64), one);
  if (GetParam().share > 1) return;  // it has no threads of the host
  EXPECT_EQ(Tell(Stories(), GetParam(), 2, 64), one);
}

TEST_P(AttentionTest, ChunkingChangesNoBit) {
  const std::vector<Trace> whole = Tell(Stories(), GetParam(), 2, 2048);
  for (int32_t chunk : {48, 16, 32, 256}) {
    EXPECT_EQ(Tell(Stories(), GetParam(), 2, chunk), whole) << "chunk " << chunk;
    if (GetParam().share > 1) break;
  }
}

TEST_P(AttentionTest, NeighboursThreadsAndChunksChangeNoBitOfAWindowWithSinks) {
  std::vector<Story> stories = Stories();
  if (GetParam().share > 1) stories.resize(3);
  stories[1].policy.rolling = true;
  const std::vector<Trace> together = Tell(stories, GetParam(), 2, 64, KvType::kBF16, 70, /*has_sinks=*/true);
  for (size_t i = 0; i < stories.size(); ++i) {
    EXPECT_EQ(Tell({stories[i]}, GetParam(), 1, 2048, KvType::kBF16, 70, true)[0], together[i]) << "story " << i;
  }
}

// Everybody reads what is kept, a chunk's own tokens included: else the place where a chunk ends would show.
TEST_P(Int8AttentionTest, NeighboursThreadsAndChunksChangeNoBit) {
  std::vector<Story> stories = Stories();
  stories[1].policy.rolling = true;
  const std::vector<Trace> together = Tell(stories, GetParam(), 2, 64, KvType::kInt8);
  for (size_t i : {size_t{0}, size_t{1}, size_t{4}}) {
    EXPECT_EQ(Tell({stories[i]}, GetParam(), 1, 2048, KvType::kInt8)[0], together[i]) << "story " << i;
  }
  EXPECT_EQ(Tell(stories, GetParam(), 3, 16, KvType::kInt8), together);
}

// A session goes on: its new tokens start inside a block, after slots that are not in the order of positions.
TEST_P(AttentionTest, LaterPromptAttendsToEverySlotBelowLive) {
  const KvShape shape = {.layers = 1, .kv_heads = 1, .group = 2, .head_dim = 32, .type = KvType::kF32};
  constexpr int32_t kFirst = 60, kDecode = 9, kSecond = 40;
  KvFixture fixture(shape, GetParam(), 2, 16);
  TokenStream stream(shape, kFirst + kDecode + kSecond, 21);
  TestSequence sequence = fixture.Sequence(stream, Policy(20, 17), kFirst, 0, 200);
  std::vector<TestRow> rows = {{&sequence, kFirst, true}};
  fixture.Step(rows);
  rows[0] = {&sequence, 1, false};
  for (int32_t i = 0; i < kDecode; ++i) fixture.Step(rows);
  const int32_t before = sequence.live;
  ASSERT_EQ(before, 38);
  std::vector<int32_t> positions;
  Values scores;
  for (int32_t slot = 0; slot < before; ++slot) {
    positions.push_back(fixture.Position(sequence, 0, 0, slot));
    scores.push_back(static_cast<double>(fixture.Score(sequence, 0, 0, slot)));
  }
  sequence.prompt_length = kFirst + kDecode + kSecond;
  fixture.cut_prompts = false;
  rows[0] = {&sequence, kSecond, true};
  const std::vector<float> outputs = fixture.Step(rows);

  Values keys, values;
  for (int32_t slot = 0; slot < before + kSecond; ++slot) {
    const int32_t token = slot < before ? positions[static_cast<size_t>(slot)] : kFirst + kDecode + slot - before;
    ASSERT_EQ(fixture.Position(sequence, 0, 0, slot), token);
    const Values k = ToDouble(stream.K(token, 0, 0)), v = ToDouble(stream.V(token, 0, 0));
    keys.insert(keys.end(), k.begin(), k.end());
    values.insert(values.end(), v.begin(), v.end());
  }
  scores.resize(static_cast<size_t>(before + kSecond), 0.0);
  for (int32_t i = 0; i < kSecond; ++i) {
    const int32_t slots = before + i + 1;
    const auto result = reference::Attention(ToDouble(stream.Q(kFirst + kDecode + i, 0, 0)), 2, keys, values, slots, 32,
                                             static_cast<double>(fixture.scale));
    for (size_t j = 0; j < result.out.size(); ++j) {
      ASSERT_NEAR(outputs[static_cast<size_t>(i) * result.out.size() + j], result.out[j], 1e-4);
    }
    for (size_t j = 0; j < result.probabilities.size(); ++j)
      scores[j % static_cast<size_t>(slots)] += result.probabilities[j];
  }
  for (int32_t slot = 0; slot < before + kSecond; ++slot) {
    EXPECT_NEAR(fixture.Score(sequence, 0, 0, slot), scores[static_cast<size_t>(slot)], 1e-4) << slot;
  }
}

TEST_P(AttentionTest, NanOfOneSequenceStaysThere) {
  for (const KvType type : kMovedTypes) {
    const KvShape shape = {.layers = 1, .kv_heads = 2, .group = 3, .head_dim = 16, .type = type};
    enum class Poison : uint8_t { kNone, kToken, kKey };
    const auto run = [&](Poison poison) {
      KvFixture fixture(shape, GetParam(), 2, 32);
      TokenStream stream(shape, 60, 1), other(shape, 60, 2);
      if (poison == Poison::kToken) {
        for (float& x : other.Row(20, 0)) x = NAN;
      } else if (poison == Poison::kKey) {  // in the first tile, before anything else was seen
        for (float& x : other.K(5, 0, 1)) x = NAN;
      }
      std::vector<TestSequence> sequences;
      sequences.push_back(fixture.Sequence(stream, Policy(8, 8), 40, 0, 60));
      sequences.push_back(fixture.Sequence(other, Policy(8, 8), 40, 1, 60));
      std::vector<float> outputs =
          fixture.Step(std::vector<TestRow>{{&sequences[0], 40, true}, {&sequences[1], 40, true}});
      const size_t half = outputs.size() / 2;
      EXPECT_EQ(std::isnan(outputs.back()), poison != Poison::kNone);
      outputs.resize(half);
      for (int i = 0; i < 20; ++i) {
        const auto step = fixture.Step(std::vector<TestRow>{{&sequences[0], 1, false}, {&sequences[1], 1, false}});
        outputs.insert(outputs.end(), step.begin(), step.begin() + static_cast<ptrdiff_t>(step.size() / 2));
      }
      return outputs;
    };
    const std::vector<float> expected = run(Poison::kNone);
    EXPECT_EQ(run(Poison::kToken), expected) << KvTypeName(type);
    EXPECT_EQ(run(Poison::kKey), expected) << KvTypeName(type);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, Int8AttentionTest, testing::ValuesIn(TestedDevices()),
                         [](const auto& each) { return each.param.name; });

INSTANTIATE_TEST_SUITE_P(EveryDevice, AttentionTest, testing::ValuesIn(TestedDevices()),
                         [](const auto& device) { return device.param.name; });

}  // namespace
}  // namespace hydrant
