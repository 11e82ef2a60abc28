// Device::RopeAndWriteKv against the double-precision oracle: norms of heads, rotation, what the cache holds then.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/reference/reference.h"
#include "tests/kernels/kv_fixture.h"
#include "tests/kernels/tested_device.h"

namespace hydrant {
namespace {

using reference::ToDouble;
using reference::Values;

class RopeAndWriteKvTest : public testing::TestWithParam<TestedDevice> {};

struct NormedHeads {
  int32_t head_dim, dims;
  bool over_heads;
};

TEST_P(RopeAndWriteKvTest, RopeRotatesQAndKButNotV) {
  for (const auto& [head_dim, dims] : {std::pair{64, 64}, {64, 32}, {20, 20}, {32, 10}, {128, 128}}) {
    const KvShape shape = {.layers = 1, .kv_heads = 2, .group = 2, .head_dim = head_dim, .type = KvType::kF32};
    std::vector<double> inv_freq;
    for (int32_t i = 0; i < dims / 2; ++i) inv_freq.push_back(std::pow(10000.0, -2.0 * i / dims));
    const RopeSpec spec{.dims = dims, .inv_freq = inv_freq, .attention_factor = 1.25, .positions_max = 5000};
    KvFixture fixture(shape, GetParam(), 2, 8);
    const std::unique_ptr<RopeTable> rope = fixture.device->MakeRope(spec);
    TokenStream stream(shape, 5000, 3);
    TestSequence sequence = fixture.Sequence(stream, EvictionPolicy(), 0, 0, 32);
    int32_t slot = 0;
    for (int32_t position : {0, 1, 255, 256, 4095, 4999}) {
      sequence.position = position;
      sequence.live = slot;
      const TestRow row{&sequence, 1, false};
      fixture.Step({&row, 1}, rope.get());
      const Values q =
          reference::Rope(spec, position, ToDouble(stream.Row(position, 0).first(size_t(4 * head_dim))), 4, head_dim);
      for (size_t i = 0; i < q.size(); ++i) ASSERT_NEAR(fixture.rotated[i], q[i], 1e-5) << position << " " << i;
      for (int32_t head = 0; head < 2; ++head) {
        const Values k = reference::Rope(spec, position, ToDouble(stream.K(position, 0, head)), 1, head_dim);
        const std::vector<float> key = fixture.ReadSlot(sequence, false, 0, head, slot);
        for (size_t i = 0; i < k.size(); ++i) ASSERT_NEAR(key[i], k[i], 1e-5) << position << " " << i;
        const std::span<float> v = stream.V(position, 0, head);
        EXPECT_EQ(fixture.ReadSlot(sequence, true, 0, head, slot), std::vector<float>(v.begin(), v.end()));
        EXPECT_EQ(fixture.Position(sequence, 0, head, slot), position);
      }
      ++slot;
    }
  }
}

TEST_P(RopeAndWriteKvTest, HeadsAreNormalisedBeforeTheyAreRotated) {
  for (const auto& [head_dim, dims, over_heads] : {NormedHeads{64, 64, false},
                                                   {20, 20, false},
                                                   {32, 10, false},
                                                   {128, 0, false},
                                                   {20, 10, true},
                                                   {128, 128, true}}) {
    const KvShape shape = {.layers = 1, .kv_heads = 2, .group = 2, .head_dim = head_dim, .type = KvType::kF32};
    std::vector<double> inv_freq;
    for (int32_t i = 0; i < dims / 2; ++i) inv_freq.push_back(std::pow(10000.0, -2.0 * i / dims));
    const RopeSpec spec{.dims = dims, .inv_freq = inv_freq, .positions_max = 64};
    KvFixture fixture(shape, GetParam(), 2, 8);
    std::vector<float> q_weight, k_weight;
    for (int32_t i = 0; i < (over_heads ? 4 : 1) * head_dim; ++i)
      q_weight.push_back(0.5f + 0.01f * static_cast<float>(i));
    for (int32_t i = 0; i < (over_heads ? 2 : 1) * head_dim; ++i)
      k_weight.push_back(1.5f - 0.01f * static_cast<float>(i));
    const auto q_memory = OnDevice(*fixture.device, q_weight), k_memory = OnDevice(*fixture.device, k_weight);
    fixture.norms = {{.weight = static_cast<const float*>(q_memory->data()), .eps = 1e-3f},
                     {.weight = static_cast<const float*>(k_memory->data()), .eps = 1e-3f},
                     over_heads};
    const std::unique_ptr<RopeTable> rope = dims > 0 ? fixture.device->MakeRope(spec) : nullptr;
    TokenStream stream(shape, 20, 3);
    const auto expected = [&, head_dim = head_dim](std::span<const float> x, const std::vector<float>& weight,
                                                   int32_t position) {
      const int64_t heads = std::ssize(x) / head_dim, cols = std::ssize(weight);
      const Values normed =
          reference::Norm(NormKind::kRms, ToDouble(weight), {}, 1e-3f, ToDouble(x), std::ssize(x) / cols, cols);
      return reference::Rope(spec, position, normed, heads, head_dim);
    };
    // Under a rolling policy keys are cached before rotation, but after the norm.
    for (const bool rolling : {false, true}) {
      EvictionPolicy policy;
      policy.evicts = true;
      policy.heavy = policy.recent = 16;
      policy.rolling = rolling;
      TestSequence sequence = fixture.Sequence(stream, policy, 17, rolling ? 1 : 0, 32);
      const TestRow row{&sequence, 17, true};
      fixture.Step({&row, 1}, rope.get());
      for (int32_t position : {0, 15, 16}) {
        const Values q = expected(stream.Row(position, 0).first(size_t(4 * head_dim)), q_weight, position);
        const float* actual = &fixture.rotated[static_cast<size_t>(position * shape.cols())];
        for (size_t i = 0; i < q.size(); ++i) ASSERT_NEAR(actual[i], q[i], 2e-6 * std::abs(q[i]) + 2e-6) << i;
        const auto keys = stream.Row(position, 0).subspan(size_t(4 * head_dim), size_t(2 * head_dim));
        const Values k = expected(keys, k_weight, rolling ? 0 : position);
        for (int32_t head = 0; head < 2; ++head) {
          const std::vector<float> key = fixture.ReadSlot(sequence, false, 0, head, position);
          for (size_t i = 0; i < key.size(); ++i) {
            const double wanted = k[static_cast<size_t>(head * head_dim) + i];
            ASSERT_NEAR(key[i], wanted, 2e-6 * std::abs(wanted) + 2e-6) << i;
          }
        }
      }
    }
  }
}

// Factors of powers of two, other ones in each head, that are equal where elements rotate together.
std::vector<float> Factors(const KvShape& shape, int32_t dims) {
  std::vector<float> factors;
  for (int32_t head = 0; head < shape.kv_heads; ++head) {
    for (int32_t i = 0; i < shape.head_dim; ++i) {
      const int32_t pair = i < dims ? i % (dims / 2) : i;
      factors.push_back(std::exp2(static_cast<float>((5 * pair + 3 * head) % 15 - 7)));
    }
  }
  return factors;
}

TEST_P(RopeAndWriteKvTest, BalancedKeysGiveTheSameBits) {
  for (const auto& [head_dim, rolling] : {std::pair{40, false}, {40, true}, {64, false}}) {
    const KvShape shape = {.layers = 2, .kv_heads = 2, .group = 3, .head_dim = head_dim, .type = KvType::kF32};
    const Angles angles(shape.head_dim, 128);
    EvictionPolicy policy;
    policy.evicts = true;
    policy.heavy = policy.recent = 16;
    policy.rolling = rolling;
    std::vector<float> outputs[2];
    for (const bool balanced : {false, true}) {
      KvFixture fixture(shape, GetParam(), 2, 8);
      const auto factors = OnDevice(*fixture.device, Factors(shape, angles.spec().dims));
      if (balanced) fixture.norms.balance = static_cast<const float*>(factors->data());
      const std::unique_ptr<RopeTable> rope = fixture.device->MakeRope(angles.spec());
      TokenStream stream(shape, 64, 9);
      TestSequence sequence = fixture.Sequence(stream, policy, 40, 1, 64);
      for (const TestRow& row :
           {TestRow{&sequence, 30, true}, {&sequence, 10, true}, {&sequence, 1, false}, {&sequence, 1, false}}) {
        const std::vector<float> more = fixture.Step({&row, 1}, rope.get());
        outputs[balanced ? 1 : 0].insert(outputs[balanced ? 1 : 0].end(), more.begin(), more.end());
      }
      const std::vector<float> key = fixture.ReadSlot(sequence, false, 1, 1, 0);
      outputs[balanced ? 1 : 0].push_back(
          key[0] * (balanced ? Factors(shape, angles.spec().dims)[static_cast<size_t>(head_dim)] : 1));
    }
    EXPECT_EQ(outputs[0], outputs[1]);
  }
}

TEST_P(RopeAndWriteKvTest, BalancedKeysOfInt8KeepTheirSmallElements) {
  for (const size_t dims : {32, 128}) {
    const KvShape shape = {
        .layers = 1, .kv_heads = 2, .group = 2, .head_dim = static_cast<int32_t>(dims), .type = KvType::kInt8};
    std::vector<float> factors(2 * dims, 1.0f);
    for (const size_t at : {size_t{3}, 3 + dims / 2, dims + 5, dims + 5 + dims / 2}) factors[at] = 64.0f;
    KvFixture fixture(shape, GetParam(), 2, 8);
    const auto memory = OnDevice(*fixture.device, factors);
    fixture.norms.balance = static_cast<const float*>(memory->data());
    TokenStream stream(shape, 20, 3);
    for (int32_t token = 0; token < 20; ++token) {
      for (const size_t at : {size_t{3}, 3 + dims / 2}) stream.K(token, 0, 0)[at] += 150.0f;
      for (const size_t at : {size_t{5}, 5 + dims / 2}) stream.K(token, 0, 1)[at] -= 150.0f;
    }
    TestSequence sequence = fixture.Sequence(stream, EvictionPolicy(), 20, 0, 32);
    const TestRow row{&sequence, 20, true};
    fixture.Step({&row, 1});
    for (int32_t token = 0; token < 20; ++token) {
      for (int32_t head = 0; head < 2; ++head) {
        const std::span<float> k = stream.K(token, 0, head);
        const std::vector<float> key = fixture.ReadSlot(sequence, false, 0, head, token);
        float largest = 0;
        std::vector<float> balanced;
        for (size_t i = 0; i < dims; ++i) {
          balanced.push_back(k[i] / factors[static_cast<size_t>(head) * dims + i]);
          largest = std::max(largest, std::abs(balanced.back()));
        }
        ASSERT_LT(largest, 8.0f) << "the outliers are levelled";
        for (size_t i = 0; i < dims; ++i) ASSERT_NEAR(key[i], balanced[i], largest / 127 * 0.501f) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, RopeAndWriteKvTest, testing::ValuesIn(TestedDevices()),
                         [](const auto& device) { return device.param.name; });

}  // namespace
}  // namespace hydrant
