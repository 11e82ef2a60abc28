// Set-up, norms and row copies of CpuDevice.
#include "kernels/cpu/cpu_device.h"

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/cpu/tested_isas.h"
#include "tests/kernels/normal_distribution.h"

namespace hydrant {
namespace {

using Floats = std::vector<float>;

std::unique_ptr<CpuDevice> MakeDevice(CpuIsa isa, int threads) {
  CpuDeviceOptions options;
  options.threads = threads;
  options.isa = isa;
  return CpuDevice::Create(options).value();
}

Floats RandomAround(int64_t count, uint32_t seed, float mean, float scale) {
  std::mt19937 engine(seed);
  NormalDistribution normal(mean, scale);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = normal(engine);
  return values;
}

Matrix HostView(Floats& values, int64_t rows, int64_t cols) { return {values.data(), DType::kF32, rows, cols}; }

class CpuDeviceTest : public ::testing::TestWithParam<CpuIsa> {};

INSTANTIATE_TEST_SUITE_P(EveryIsa, CpuDeviceTest, ::testing::ValuesIn(TestedIsas()),
                         [](const auto& isa) { return std::string(IsaName(isa.param)); });

int64_t VirtualBytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

// Buffers come from the operating system, each with at most 2 MiB of alignment.
TEST_P(CpuDeviceTest, ScratchTakesWhatItSaidItWould) {
  const auto device = MakeDevice(GetParam(), 3);
  const StepBounds bounds = {.tokens_max = 700,
                             .rows_max = 40,
                             .slots_max = 100'000,
                             .drafts_max = 64,
                             .layer_heads = 640,
                             .cols_max = 9000,
                             .query_heads = 20,
                             .head_dim = 128,
                             .vocab = 900'000};
  const int64_t before = VirtualBytes();
  device->ReserveScratch(bounds);
  const int64_t said = device->ScratchBytes(bounds);
  EXPECT_GT(said, int64_t{64} << 20);
  EXPECT_NEAR(static_cast<double>(VirtualBytes() - before), static_cast<double>(said), 16 << 20);
}

// Room for x in pairs is there for adapters in bf16 alone, where they are multiplied so.
TEST_P(CpuDeviceTest, ScratchHasRoomForWhatAdaptersRound) {
  const auto device = MakeDevice(GetParam(), 1);
  StepBounds bounds = {.tokens_max = 700, .cols_max = 8999};
  const int64_t without = device->ScratchBytes(bounds);
  bounds.adapter_rank_max = 16;
  const int64_t fp32 = device->ScratchBytes(bounds);
  EXPECT_GT(fp32, without);
  EXPECT_LT(fp32, without + 700 * 1000) << "of x nothing";
  bounds.adapter_dtype = DType::kBF16;
  const bool pairs = GetParam() == CpuIsa::kAvx512Bf16;
  EXPECT_EQ(device->ScratchBytes(bounds) - fp32, pairs ? 700 * 9000 * 2 : 0);
  const int64_t before = VirtualBytes();
  device->ReserveScratch(bounds);
  EXPECT_NEAR(static_cast<double>(VirtualBytes() - before), static_cast<double>(device->ScratchBytes(bounds)),
              12 << 20);
}

TEST_P(CpuDeviceTest, NormAgreesWithTheOracle) {
  const auto device = MakeDevice(GetParam(), 2);
  for (NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    for (int64_t cols : {1, 15, 16, 17, 48, 576, 1023}) {
      for (float mean : {0.0f, 30.0f}) {
        const int64_t n = 7;
        Floats x = RandomAround(n * cols, 3, mean, 2.0f);
        const Floats weight = RandomAround(cols, 4, 1.0f, 0.5f);
        const Floats bias = RandomAround(cols, 5, 0.0f, 1.0f);
        for (bool with_bias : {false, true}) {
          const NormWeight norm = {kind, weight.data(), with_bias ? bias.data() : nullptr, 1e-5f};
          Floats y(x.size());
          device->Norm(norm, HostView(x, n, cols), HostView(y, n, cols));
          const auto expected = reference::Norm(kind, reference::ToDouble(weight),
                                                with_bias ? reference::ToDouble(bias) : reference::Values(), norm.eps,
                                                reference::ToDouble(x), n, cols);
          // Centring loses the bits that the mean has in common with x; after it everything is a few roundings.
          const double eps = 0x1p-24 * (std::abs(mean) + 8.0) * (std::log2(static_cast<double>(cols)) + 8.0);
          for (size_t i = 0; i < y.size(); ++i) {
            // One column of LayerNorm is 0 / sqrt(eps): a rounding of the mean would be blown up, but there is none.
            ASSERT_NEAR(y[i], expected[i], eps * (1.0 + std::abs(expected[i]))) << cols << " columns, mean " << mean;
          }
        }
      }
    }
  }
}

TEST_P(CpuDeviceTest, NormRowsDoNotDependOnTheBatchOrTheThreads) {
  const int64_t n = 100, cols = 577;
  Floats x = RandomAround(n * cols, 6, 0.5f, 1.0f);
  const Floats weight = RandomAround(cols, 7, 1.0f, 0.1f);
  for (NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    const NormWeight norm = {kind, weight.data(), nullptr, 1e-6f};
    Floats expected(x.size());
    const auto one = MakeDevice(GetParam(), 1);
    for (int64_t row = 0; row < n; ++row) {
      one->Norm(norm, {x.data() + row * cols, DType::kF32, 1, cols},
                {expected.data() + row * cols, DType::kF32, 1, cols});
    }
    for (int threads : {1, 2, 3}) {
      Floats y(x.size());
      MakeDevice(GetParam(), threads)->Norm(norm, HostView(x, n, cols), HostView(y, n, cols));
      EXPECT_EQ(y, expected) << threads << " threads";
      // In place as well.
      Floats in_place = x;
      MakeDevice(GetParam(), threads)->Norm(norm, HostView(in_place, n, cols), HostView(in_place, n, cols));
      EXPECT_EQ(in_place, expected) << threads << " threads";
    }
  }
}

TEST_P(CpuDeviceTest, AddNormedAddsTheNorm) {
  const int64_t n = 9, cols = 49;
  const Floats x = RandomAround(n * cols, 6, 0.5f, 1.0f), y = RandomAround(n * cols, 8, 0.0f, 1.0f);
  const Floats weight = RandomAround(cols, 7, 1.0f, 0.1f);
  const NormWeight norm = {NormKind::kRms, weight.data(), nullptr, 1e-6f};
  const auto device = MakeDevice(GetParam(), 2);
  Floats scratch = x, sum = y, normed(x.size());
  device->AddNormed(norm, HostView(scratch, n, cols), HostView(sum, n, cols));
  Floats in = x;
  device->Norm(norm, HostView(in, n, cols), HostView(normed, n, cols));
  for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], y[i] + normed[i]) << i;
}

TEST_P(CpuDeviceTest, SoftCapsAgreeWithTheOracle) {
  const auto device = MakeDevice(GetParam(), 2);
  const int64_t n = 5, cols = 35;
  for (const float cap : {0.5f, 30.0f}) {
    Floats x = RandomAround(n * cols, 9, 0.0f, 40.0f);
    x[0] = 0.0f, x[1] = 1e30f, x[2] = -INFINITY, x[3] = INFINITY, x[4] = 1e-30f, x[5] = NAN;
    const Floats before = x;
    device->SoftCap(cap, HostView(x, n, cols));
    for (size_t i = 0; i < x.size(); ++i) {
      if (i == 5) {
        EXPECT_TRUE(std::isnan(x[i]));
        continue;
      }
      // A few roundings of numbers up to the cap.
      ASSERT_NEAR(x[i], reference::SoftCap(cap, before[i]), 12 * 0x1p-24 * cap) << before[i];
    }
  }
}

TEST_P(CpuDeviceTest, GatherRowsCopies) {
  const auto device = MakeDevice(GetParam(), 2);
  const int64_t cols = 17;
  Floats x = RandomAround(40 * cols, 8, 0.0f, 1.0f);
  const std::vector<int32_t> indices = {39, 0, 0, 16, 15, 17};
  Floats y(indices.size() * cols);
  device->GatherRows(HostView(x, 40, cols), indices, HostView(y, static_cast<int64_t>(indices.size()), cols));
  for (size_t i = 0; i < indices.size(); ++i) {
    for (int64_t col = 0; col < cols; ++col) {
      EXPECT_EQ(y[i * cols + static_cast<size_t>(col)], x[static_cast<size_t>(indices[i] * cols + col)]);
    }
  }
}

TEST_P(CpuDeviceTest, MemoryIsZeroedAlignedAndCopied) {
  const auto device = MakeDevice(GetParam(), 1);
  for (size_t bytes :
       {size_t{0}, size_t{1}, size_t{4096}, (size_t{2} << 20) - 1, size_t{2} << 20, (size_t{5} << 20) + 3}) {
    const auto buffer = device->Allocate(bytes);
    ASSERT_EQ(buffer->bytes(), bytes);
    const auto* data = static_cast<const unsigned char*>(buffer->data());
    if (bytes == 0) continue;
    const size_t alignment = bytes >= size_t{2} << 20 ? size_t{2} << 20 : 64;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignment, 0u);
    EXPECT_EQ(data[0], 0);
    EXPECT_EQ(data[bytes - 1], 0);
    const unsigned char value = 7;
    device->CopyToDevice(static_cast<unsigned char*>(buffer->data()) + bytes - 1, &value, 1);
    unsigned char back = 0;
    device->CopyToHost(&back, data + bytes - 1, 1);
    EXPECT_EQ(back, 7);
  }
}

TEST_P(CpuDeviceTest, NameSaysInstructionSetAndThreads) {
  EXPECT_EQ(MakeDevice(GetParam(), 1)->name(), std::string("cpu ") + IsaName(GetParam()) + ", 1 thread");
  EXPECT_EQ(MakeDevice(GetParam(), 3)->name(), std::string("cpu ") + IsaName(GetParam()) + ", 3 threads");
}

TEST(CpuDevice, MultipliesBf16NativelyOnlyWithTheInstruction) {
  for (CpuIsa isa : SupportedIsas()) {
    const auto device = MakeDevice(isa, 1);
    EXPECT_TRUE(device->MultipliesNatively(DType::kF32));
    EXPECT_FALSE(device->MultipliesNatively(DType::kF16));
    EXPECT_EQ(device->MultipliesNatively(DType::kBF16), isa == CpuIsa::kAvx512Bf16);
  }
}

TEST(CpuDevice, RefusesNoThreads) {
  CpuDeviceOptions options;
  options.threads = 0;
  EXPECT_EQ(CpuDevice::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CpuDevice, ImpossibleAllocationThrowsBadAlloc) {
  const auto device = MakeDevice(SupportedIsas().front(), 1);
  EXPECT_THROW(device->Allocate(size_t{1} << 62), std::bad_alloc);
  EXPECT_THROW(device->Allocate(~size_t{0}), std::bad_alloc);
}

}  // namespace
}  // namespace hydrant
