// The machine itself: a test on it must be able to fail.
#include "tests/simt/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/linear/unpack.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/select.cuh"
#include "kernels/cuda/runtime/shared_memory.cuh"
#include "tests/kernels/kv_fixture.h"
#include "tests/kernels/tested_device.h"

namespace hydrant::simt {
namespace {

void ReverseInShared(const int* in, int* out) {
  cuda::AwaitEarlier();
  __shared__ int block[64];
  block[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = block[63 - threadIdx.x];
}

TEST(SimtMachine, ThreadsMeetAtBarriers) {
  std::vector<int> in(192), out(192);
  for (int i = 0; i < 192; ++i) in[static_cast<size_t>(i)] = i;
  cuda::Launch(nullptr, dim3(3), 64, ReverseInShared, in.data(), out.data());
  for (int i = 0; i < 192; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], i / 64 * 64 + 63 - i % 64);
}

void ForgetsABarrier(int* out) {
  cuda::AwaitEarlier();
  __shared__ int block[64];
  block[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[blockIdx.x * 64 + threadIdx.x] = block[63 - threadIdx.x];
}

// Blocks run their threads in both orders, so that half of what a missing barrier lets through is wrong in each.
TEST(SimtMachine, AForgottenBarrierShows) {
  std::vector<int> out(128, -1);
  cuda::Launch(nullptr, dim3(2), 64, ForgetsABarrier, out.data());
  int wrong = 0;
  for (int i = 0; i < 128; ++i) wrong += out[static_cast<size_t>(i)] != 63 - i % 64 ? 1 : 0;
  EXPECT_GT(wrong, 0);
}

void HalfWaits() {
  cuda::AwaitEarlier();
  if (threadIdx.x < 32) __syncwarp();
  if (threadIdx.x % 2 == 0) __syncwarp();
}

TEST(SimtMachineDeathTest, AWarpThatDoesNotMeetEndsTheProgram) {
  EXPECT_DEATH(cuda::Launch(nullptr, dim3(1), 64, HalfWaits), "no thread of the block can go on");
}

void HalfAwait() {
  if (threadIdx.x < 32) cuda::AwaitEarlier();
}

void AwaitForAnother() {
  if (threadIdx.x < 32) cuda::AwaitEarlier();
  if (threadIdx.x < 32) cuda::AwaitEarlier();
}

TEST(SimtMachineDeathTest, AThreadThatDoesNotAwaitEarlierKernelsEndsTheProgram) {
  EXPECT_DEATH(cuda::Launch(nullptr, dim3(1), 64, AwaitForAnother), "every thread of a kernel awaits earlier kernels");
  EXPECT_DEATH(cuda::Launch(nullptr, dim3(1), 64, HalfAwait), "every thread of a kernel awaits earlier kernels");
}

void ReverseInSizedShared(const int* in, int* out) {
  cuda::AwaitEarlier();
  auto* block = reinterpret_cast<int*>(cuda::SharedMemory());
  out[64 + threadIdx.x] = block[threadIdx.x];
  __syncthreads();
  block[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = block[63 - threadIdx.x];
}

TEST(SimtMachine, SharedMemoryIsAsLargeAsTheLaunchSays) {
  std::vector<int> in(64), out(128);
  for (int i = 0; i < 64; ++i) in[static_cast<size_t>(i)] = i;
  cuda::LaunchShared(nullptr, dim3(1), 64, 64 * sizeof(int), ReverseInSizedShared, in.data(), out.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], 63 - i);
  for (int i = 64; i < 128; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], -1) << "nobody may count on zeros";
}

void Collectives(int* sums, uint32_t* votes) {
  cuda::AwaitEarlier();
  int x = static_cast<int>(threadIdx.x);
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(0xffffffffu, x, mask);
  sums[threadIdx.x] = x;
  votes[threadIdx.x] = __ballot_sync(0xffffffffu, threadIdx.x % 3 == 0);
}

TEST(SimtMachine, LanesOfAWarpExchange) {
  std::vector<int> sums(64);
  std::vector<uint32_t> votes(64);
  cuda::Launch(nullptr, dim3(1), 64, Collectives, sums.data(), votes.data());
  EXPECT_EQ(sums[0], 496);
  EXPECT_EQ(sums[63], 496 + 32 * 32);
  EXPECT_EQ(votes[0], 0x49249249u);
}

// Which lane it is that joins with which, and in what order, shows.
struct Joined {
  __device__ float operator()(float own, float other) const { return own * 3.0f + other; }
};

template <uint32_t kLanes>
void ReduceBothWays(const float* in, float* reduced, float* by_shuffles) {
  cuda::AwaitEarlier();
  reduced[threadIdx.x] = cuda::WarpReduce<kLanes>(in[threadIdx.x], Joined());
  float x = in[threadIdx.x];
  for (int mask = kLanes / 2; mask > 0; mask /= 2) x = Joined()(x, __shfl_xor_sync(cuda::kAllLanes, x, mask));
  by_shuffles[threadIdx.x] = x;
}

void SumBothWays(const float* in, float* sums, float* by_shuffles) {
  cuda::AwaitEarlier();
  sums[threadIdx.x] = cuda::WarpInclusiveSum(in[threadIdx.x]);
  float x = in[threadIdx.x];
  for (uint32_t delta = 1; delta < 32; delta *= 2) {
    const float below = __shfl_up_sync(cuda::kAllLanes, x, delta);
    if (threadIdx.x % 32 >= delta) x += below;
  }
  by_shuffles[threadIdx.x] = x;
}

// The machine's own collectives (include/kernels/cuda/runtime/collectives.cuh) do what a device does lane by lane.
TEST(SimtMachine, WhatAWarpComputesTogetherHasTheBitsOfItsShuffles) {
  std::vector<float> in(64), got(64), expected(64);
  for (size_t i = 0; i < 64; ++i) in[i] = 1.0f / static_cast<float>(3 + i * 7 % 64);
  const auto check = [&](auto* kernel) {
    cuda::Launch(nullptr, dim3(1), 64, kernel, in.data(), got.data(), expected.data());
    EXPECT_EQ(got, expected);
    EXPECT_NE(got[0], got[33]);
  };
  check(ReduceBothWays<32>);
  check(ReduceBothWays<16>);
  check(ReduceBothWays<4>);
  check(ReduceBothWays<2>);
  check(SumBothWays);
}

void MeetInAShuffleAndAVote() {
  cuda::AwaitEarlier();
  if (threadIdx.x % 2 == 0) {
    __shfl_xor_sync(0xffffffffu, 1.0f, 1);
  } else {
    __ballot_sync(0xffffffffu, 1);
  }
}

void MeetInDifferentReductions() {
  cuda::AwaitEarlier();
  if (threadIdx.x % 32 < 16) {
    cuda::WarpReduce<16>(1.0f, Joined());
  } else {
    cuda::WarpReduce<4>(1.0f, Joined());
  }
}

void MeetWithDifferentTypes() {
  cuda::AwaitEarlier();
  if (threadIdx.x % 2 == 0) {
    __shfl_xor_sync(0xffffffffu, 1.0f, 1);
  } else {
    __shfl_xor_sync(0xffffffffu, 1.0, 1);
  }
}

TEST(SimtMachineDeathTest, LanesThatMeetInDifferentCollectivesEndTheProgram) {
  for (auto* kernel : {MeetInAShuffleAndAVote, MeetInDifferentReductions, MeetWithDifferentTypes}) {
    EXPECT_DEATH(cuda::Launch(nullptr, dim3(1), 64, kernel), "meet in different collectives");
  }
}

void Select(const uint64_t* keys, int64_t count, uint64_t* chosen, int64_t* places, int64_t* number) {
  cuda::AwaitEarlier();
  for (int64_t k = 1; k <= count; ++k) {
    const uint64_t key = cuda::SelectNth(count, static_cast<uint32_t>(k), [&](int64_t i) { return keys[i]; });
    if (threadIdx.x == 0) chosen[k - 1] = key;
  }
  const int64_t odd = cuda::Compact(
      count, [&](int64_t i) { return keys[i] % 2 == 1; }, [&](int64_t n, int64_t i) { places[n] = i; });
  if (threadIdx.x == 0) *number = odd;
}

TEST(SimtMachine, SelectionAndCompaction) {
  std::vector<uint64_t> keys, chosen(100), sorted;
  for (uint64_t i = 0; i < 100; ++i) keys.push_back(i * 0x9E3779B97F4A7C15u % 1000003 << (i % 3 * 20));
  std::vector<int64_t> places(100, -1);
  int64_t number = 0;
  cuda::Launch(nullptr, dim3(1), 64, Select, keys.data(), int64_t{100}, chosen.data(), places.data(), &number);
  sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(chosen, sorted);
  int64_t n = 0;
  for (int64_t i = 0; i < 100; ++i) {
    if (keys[static_cast<size_t>(i)] % 2 == 0) continue;
    EXPECT_EQ(places[static_cast<size_t>(n)], i);
    ++n;
  }
  EXPECT_EQ(number, n);
}

TEST(SimtMachine, HalvesRoundToNearestEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const __half half{static_cast<uint16_t>(bits)};
    const float value = __half2float(half);
    if (value != value) continue;
    ASSERT_EQ(__float2half_rn(value).bits, bits);
    const __nv_bfloat16 bf16{static_cast<uint16_t>(bits)};
    const float wide = __bfloat162float(bf16);
    if (wide != wide) continue;
    ASSERT_EQ(__float2bfloat16_rn(wide).bits, bits);
  }
  EXPECT_EQ(__half2float(__float2half_rn(2049.0f)), 2048.0f);
  EXPECT_EQ(__half2float(__float2half_rn(2051.0f)), 2052.0f);
  EXPECT_EQ(__half2float(__float2half_rn(0x1p-25f)), 0.0f);
  EXPECT_EQ(__half2float(__float2half_rn(0x1.8p-25f)), 0x1p-24f);
  EXPECT_EQ(__half2float(__float2half_rn(70000.0f)), INFINITY);
}

TEST(SimtMachine, WithoutADeviceThereIsAnError) {
  for (const cudaError_t error : {cudaErrorNoDevice, cudaErrorMemoryAllocation}) {
    FailAfter(error == cudaErrorNoDevice ? 0 : 2, error);
    const auto device = CudaDevice::Create({});
    FailAfter(-1, cudaSuccess);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition) << device.status();
  }
}

TEST(SimtMachine, ScratchTakesWhatItSaidItWould) {
  auto device = CudaDevice::Create({.host_visible = true}).value();
  StepBounds bounds = {.tokens_max = 40,
                       .rows_max = 9,
                       .slots_max = 1000,
                       .cols_max = 77,
                       .query_heads = 6,
                       .head_dim = 80,
                       .vocab = 501};
  for (int i = 0; i < 2; ++i) {
    const auto before = static_cast<int64_t>(DeviceBytes());
    const int64_t had = i == 0 ? 0 : device->ScratchBytes(bounds);
    if (i == 1) bounds.slots_max = 70'000;
    device->ReserveScratch(bounds);
    EXPECT_EQ(static_cast<int64_t>(DeviceBytes()) - before, device->ScratchBytes(bounds) - had);
  }
}

// Room for unpacked weights is there for those that are kept as they are stored, as wide as these are, and none without them.
TEST(SimtMachine, ScratchHasRoomForTheWeightsThatAreUnpacked) {
  auto device = CudaDevice::Create({.host_visible = true}).value();
  StepBounds bounds = {.tokens_max = cuda::kUnpackRows, .rows_max = 1, .cols_max = 2048};
  const int64_t without = device->ScratchBytes(bounds);
  for (const int64_t cols : {1024, 2048}) {
    bounds.quantised_cols_max = cols;
    EXPECT_EQ(device->ScratchBytes(bounds) - without, cuda::UnpackBytes(cuda::kUnpackRows, cols));
    EXPECT_EQ(device->ScratchBytes(bounds) - without, 4 * cols * cols);
  }
  bounds.tokens_max = cuda::kUnpackRows - 1;
  const int64_t few = device->ScratchBytes(bounds);
  bounds.quantised_cols_max = 0;
  EXPECT_EQ(device->ScratchBytes(bounds), few);
}

// A device that fails says so, by name, in the op that learns of it, and memory that is not there is no end.
TEST(SimtMachine, ErrorsOfTheDeviceAreExceptions) {
  auto device = CudaDevice::Create({.host_visible = true}).value();
  FailAfter(0, cudaErrorMemoryAllocation);
  EXPECT_THROW(device->Allocate(100), std::bad_alloc);
  FailAfter(-1, cudaSuccess);
  EXPECT_NO_THROW(device->Allocate(100));
  device->ReserveScratch({.tokens_max = 8, .cols_max = 64});
  const auto x = device->Allocate(64 * 4), y = device->Allocate(64 * 4);
  FailAfter(1, cudaErrorIllegalAddress);
  try {
    for (int i = 0; i < 3; ++i) {
      device->Norm({.kind = NormKind::kRms, .weight = static_cast<float*>(x->data())},
                   {.data = x->data(), .rows = 1, .cols = 8}, {.data = y->data(), .rows = 1, .cols = 8});
    }
    ADD_FAILURE() << "the device failed and nobody noticed";
  } catch (const CudaError& error) {
    EXPECT_NE(std::string(error.what()).find("cudaErrorIllegalAddress"), std::string::npos) << error.what();
  }
  FailAfter(-1, cudaSuccess);
}

TEST(SimtMachine, WithoutMemoryForAGraphWorkRunsAsItIs) {
  const cuda::Stream stream;
  cuda::GraphCache graphs;
  int runs = 0;
  const auto run = [&] { graphs.Run(stream, {&runs, {}}, [&] { ++runs; }); };
  run();
  // Behind the begin and the end of recording, and behind the making of the graph.
  for (const int calls : {2, 3}) {
    FailAfter(calls, cudaErrorMemoryAllocation);
    runs = 0;
    EXPECT_NO_THROW(run());
    EXPECT_TRUE(EndFailures());
    EXPECT_EQ(runs, 2) << "once recorded for nothing";
    EXPECT_EQ(graphs.size(), 0u);
    for (int i = 0; i < cuda::GraphCache::kRest; ++i) run();
    EXPECT_EQ(runs, 2 + cuda::GraphCache::kRest) << "and not tried each time";
    EXPECT_EQ(graphs.size(), 0u);
  }
  run();
  EXPECT_EQ(graphs.size(), 1u);
  runs = 0;
  FailAfter(0, cudaErrorMemoryAllocation);
  run();
  EXPECT_TRUE(EndFailures());
  EXPECT_EQ(runs, 1) << "a graph that can not be launched is none";
  EXPECT_EQ(graphs.size(), 0u);
}

// Wherever in a step the device fails, the engine hears of it, and whatever it asks next fails, too.
TEST(SimtMachine, AFailureAtAnyCallOfAStepIsAnException) {
  const KvShape shape = {.layers = 1, .kv_heads = 1, .group = 2, .head_dim = 64, .type = KvType::kBF16};
  TokenStream stream(shape, 40, 5);
  EvictionPolicy policy;
  policy.evicts = true;
  policy.heavy = policy.recent = 8;
  for (int calls = 0, failures = 1; failures > 0; ++calls) {
    failures = 0;
    KvFixture fixture(shape, TestedDevices().front(), 1, 8);
    TestSequence sequence = fixture.Sequence(stream, policy, 33, 1, 40);
    const TestRow prompt{&sequence, 33, true}, token{&sequence, 1, false};
    const auto step = [&](const TestRow& row) {
      try {
        fixture.Step({&row, 1});
      } catch (const CudaError& error) {
        ++failures;
        EXPECT_NE(std::string(error.what()).find("cudaErrorIllegalAddress"), std::string::npos) << error.what();
      }
    };
    FailAfter(calls, cudaErrorIllegalAddress);
    step(prompt);
    for (int i = 0; i < 4 && failures == 0; ++i) step(token);
    if (failures > 0) step(token);
    FailAfter(-1, cudaSuccess);
    if (failures > 0) {
      EXPECT_EQ(failures, 2) << "after " << calls << " calls";
    } else {
      EXPECT_GT(calls, 30);
    }
  }
}

}  // namespace
}  // namespace hydrant::simt
