#include "kernels/cuda/graph.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/memory.h"
#include "tests/kernels/kv_fixture.h"
#include "tests/kernels/tested_device.h"

namespace hydrant {
namespace {

using cuda::CudaBuffer;
using cuda::GraphCache;
using cuda::PaddedRows;
using cuda::PaddedSplits;

TEST(PaddedRows, AreFewAndNear) {
  int32_t sizes = 0;
  for (int32_t rows = 1; rows <= 1024; ++rows) {
    ASSERT_GE(PaddedRows(rows), rows);
    ASSERT_EQ(PaddedRows(PaddedRows(rows)), PaddedRows(rows)) << rows;
    if (rows <= 4) {
      ASSERT_EQ(PaddedRows(rows), rows);
    } else if (rows > 32) {
      ASSERT_LE(PaddedRows(rows), rows + rows / 4) << rows;
    } else {
      ASSERT_LT(PaddedRows(rows), rows + 4);
    }
    sizes += PaddedRows(rows) == rows ? 1 : 0;
  }
  EXPECT_EQ(sizes, 31);
  EXPECT_EQ(PaddedRows(0), 0);
  EXPECT_EQ(PaddedSplits(1), 1);
  EXPECT_EQ(PaddedSplits(5), 8);
  EXPECT_EQ(PaddedSplits(8), 8);
}

class GraphCacheTest : public testing::Test {
 protected:
  // A copy on the device stands for kernels.
  void Work() {
    ++calls_;
    CheckCuda(cudaMemcpyAsync(target_.data(), source_.data(), 4, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
  }
  void Run(int32_t rows) {
    cache_.Run(stream_, {.program = this, .shape = {.rows = rows}}, [this] { Work(); });
  }
  void SetSource(int32_t value) {
    CheckCuda(cudaMemcpyAsync(source_.data(), &value, 4, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
    CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  int32_t Target() {
    int32_t value = 0;
    CheckCuda(cudaMemcpyAsync(&value, target_.data(), 4, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
    CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return value;
  }

  cuda::Stream stream_;
  CudaBuffer source_{4}, target_{4};
  GraphCache cache_;
  int calls_ = 0;
};

TEST_F(GraphCacheTest, RecordsTheSecondTimeAndRepeatsFromThenOn) {
  for (int32_t turn = 1; turn <= 5; ++turn) {
    SetSource(turn);
    Run(8);
    EXPECT_EQ(Target(), turn) << "a graph copies what is there when it runs";
    EXPECT_EQ(calls_, std::min(turn, 2));
    EXPECT_EQ(cache_.size(), turn >= 2 ? 1u : 0u);
  }
  Run(12);
  EXPECT_EQ(calls_, 3) << "another shape is another graph";
}

TEST_F(GraphCacheTest, TheLeastRecentlyUsedGoes) {
  Run(1);
  Run(1);
  for (int32_t rows = 2; rows <= static_cast<int32_t>(GraphCache::kEntriesMax); ++rows) Run(rows);
  Run(1);
  Run(1000);  // takes the place of 2
  EXPECT_EQ(cache_.size(), 1u) << "1 was used since";
  const int before = calls_;
  Run(1);
  EXPECT_EQ(calls_, before);
  Run(2);
  Run(3);
  EXPECT_EQ(calls_, before + 2) << "2 begins again, and so does 3, which it pushed out";
  EXPECT_EQ(cache_.size(), 1u);
}

TEST_F(GraphCacheTest, WorkThatFailsLeavesTheStreamUsable) {
  const GraphCache::Key key = {.program = this, .shape = {.rows = 1}};
  cache_.Run(stream_, key, [] {});
  EXPECT_THROW(cache_.Run(stream_, key, [] { throw std::runtime_error("no"); }), std::runtime_error);
  SetSource(7);
  Run(1);
  EXPECT_EQ(Target(), 7);
}

TEST_F(GraphCacheTest, ClearedItBeginsAgain) {
  Run(1);
  Run(1);
  Run(1);
  EXPECT_EQ(calls_, 2);
  CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  cache_.Clear();
  EXPECT_EQ(cache_.size(), 0u);
  Run(1);
  EXPECT_EQ(calls_, 3);
}

// --- steps --------------------------------------------------------------------------------------------------------------

// What chats that join and leave compute is the same, bit for bit, whether their steps are recorded or not.
TEST(CudaGraphs, RecordedStepsEqualOthers) {
  const KvShape shape = {.layers = 2, .kv_heads = 2, .group = 2, .head_dim = 64, .type = KvType::kBF16};
  constexpr int32_t kSequences = 9, kPrompt = 30, kSteps = 40;
  EvictionPolicy policy;
  policy.evicts = true;
  policy.heavy = 12;
  policy.recent = 11;
  std::vector<std::vector<float>> outputs[2];
  std::vector<std::vector<int32_t>> kept[2];
  for (const bool graphs : {false, true}) {
    TestedDevice tested = TestedDevices().front();
    CudaDevice* device = nullptr;
    tested.make = [&](int) -> std::unique_ptr<Device> {
      auto made = CudaDevice::Create({.host_visible = true, .graphs = graphs}).value();
      device = made.get();
      return made;
    };
    KvFixture fixture(shape, tested, 1, kSequences * 8, kSequences, 300);
    fixture.Poison();
    std::vector<TokenStream> streams;
    std::vector<TestSequence> sequences;
    for (uint64_t i = 0; i < kSequences; ++i) streams.emplace_back(shape, kPrompt + kSteps, i + 1);
    for (int32_t i = 0; i < kSequences; ++i) {
      // Every third one keeps everything.
      sequences.push_back(fixture.Sequence(streams[static_cast<size_t>(i)], i % 3 == 0 ? EvictionPolicy() : policy,
                                           kPrompt, i, kPrompt + kSteps));
    }
    std::vector<TestRow> rows;
    for (TestSequence& sequence : sequences) rows.push_back({&sequence, kPrompt, true});
    fixture.Step(rows);
    for (int32_t step = 0; step < kSteps; ++step) {
      rows.clear();
      // Three to nine of them.
      for (int32_t i = 0; i < kSequences - step % 7; ++i)
        rows.push_back({&sequences[static_cast<size_t>(i)], 1, false});
      outputs[graphs].push_back(fixture.Step(rows));
    }
    for (const TestSequence& sequence : sequences) kept[graphs].push_back(fixture.Positions(sequence, 1, 1));
    EXPECT_EQ(device->graphs(), graphs ? 4u : 0u) << "of 3, 4, 8 and 12 rows";
    device->ReserveScratch({});
    EXPECT_EQ(device->graphs(), 0u) << "of memory that is no more";
  }
  EXPECT_EQ(outputs[0], outputs[1]);
  EXPECT_EQ(kept[0], kept[1]);
}

}  // namespace
}  // namespace hydrant
