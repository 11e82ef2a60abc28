#include "kernels/cuda/eviction/kv_staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/cuda/runtime/memory.h"

namespace hydrant::cuda {
namespace {

constexpr int32_t kBlocks = 9;

class KvStagingTest : public testing::Test {
 protected:
  KvStagingTest() {
    kv.layout = {.layers = 2, .blocks = kBlocks, .kv_heads = 3, .head_dim = 24, .type = KvType::kBF16, .state_rows = 1};
    kv.k = Random(kv.layout.kv_bytes());
    kv.v = Random(kv.layout.kv_bytes());
    kv.score = static_cast<float*>(Random(kv.layout.score_count() * sizeof(float)));
    kv.position = static_cast<int32_t*>(Random(kv.layout.score_count() * sizeof(int32_t)));
  }
  void* Random(size_t bytes) {
    std::vector<uint8_t> values(bytes);
    std::generate(values.begin(), values.end(), [this] { return static_cast<uint8_t>(random() % 100); });
    return OnDevice(values.data(), bytes);
  }
  void* OnDevice(const void* values, size_t bytes) {
    buffers.push_back(std::make_unique<CudaBuffer>(bytes, /*host_visible=*/true));
    std::memcpy(buffers.back()->data(), values, bytes);
    return buffers.back()->data();
  }
  PackedBlocks Tables(const std::vector<int32_t>& ids) {
    PackedBlocks packed = {};
    packed.blocks = packed.score_blocks =
        static_cast<const int32_t*>(OnDevice(ids.data(), ids.size() * sizeof(int32_t)));
    return packed;
  }
  int64_t BytesOf(size_t blocks) const { return static_cast<int64_t>(blocks * kv.layout.block_bytes()); }

  std::mt19937 random{11};
  Stream stream;
  KvCacheView kv;
  std::vector<std::unique_ptr<CudaBuffer>> buffers;
};

// Pieces end in the middle of blocks and arrays, in one piece, at its end and behind it.
TEST_F(KvStagingTest, PiecesOfAnySizeComeToTheSame) {
  const std::vector<int32_t> blocks = {8, 1, 6, 3, 0}, targets = {2, 4, 5, 7};
  const auto whole = static_cast<size_t>(BytesOf(blocks.size()));
  std::vector<std::byte> expected(whole);
  KvStaging(stream, whole).Export(Tables(blocks), BytesOf(blocks.size()), kv, expected.data());
  for (const size_t piece : {size_t{16}, size_t{1008}, kv.layout.block_bytes(), whole - 16, whole + 64}) {
    SCOPED_TRACE(piece);
    KvStaging staging(stream, piece);
    std::vector<std::byte> packed(whole);
    staging.Export(Tables(blocks), BytesOf(blocks.size()), kv, packed.data());
    EXPECT_EQ(packed, expected);

    // The source is the caller's at once, and what leaves next must not meet what still comes in.
    const auto part = static_cast<size_t>(BytesOf(targets.size()));
    std::vector<std::byte> source(packed.begin(), packed.begin() + static_cast<long>(part)), back(part);
    staging.Import(Tables(targets), BytesOf(targets.size()), 1.0f, kv, source.data());
    std::fill(source.begin(), source.end(), std::byte{0});
    staging.Export(Tables(targets), BytesOf(targets.size()), kv, back.data());
    EXPECT_TRUE(std::equal(back.begin(), back.end(), expected.begin()));
    const std::vector<std::byte> zeros(part);
    staging.Import(Tables(targets), BytesOf(targets.size()), 1.0f, kv, zeros.data());
    staging.Export(Tables(targets), BytesOf(targets.size()), kv, back.data());
    EXPECT_EQ(back, zeros);
  }
}

TEST_F(KvStagingTest, NothingIsMovedForNoBlocks) {
  KvStaging staging(stream, 64);
  staging.Export({}, 0, kv, nullptr);
  staging.Import({}, 0, 0.5f, kv, nullptr);
}

}  // namespace
}  // namespace hydrant::cuda
