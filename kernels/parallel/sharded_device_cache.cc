// The ops of ShardedDevice over a cache: each rank has its heads.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/kv_pieces.h"
#include "kernels/parallel/sharded_device.h"

namespace hydrant {
namespace {

// Calls copy(of_all, of_rank, bytes) for a rank's heads in a piece of [layers][kv_heads] units: where they lie in all heads' piece,
// and in the rank's own.
template <typename Copy>
void ForLayers(const KvCacheLayout& all, const KvCacheLayout& own, int rank, size_t unit, const Copy& copy) {
  const size_t bytes = static_cast<size_t>(own.kv_heads) * unit;
  for (int32_t layer = 0; layer < all.layers; ++layer) {
    const auto first = static_cast<size_t>(layer) * static_cast<size_t>(all.kv_heads) * unit;
    copy(first + static_cast<size_t>(rank) * bytes, static_cast<size_t>(layer) * bytes, bytes);
  }
}

// The same for all pieces of an exported block (kernels/kv_pieces.h).
template <typename Copy>
void ForBlock(const KvCacheLayout& all, const KvCacheLayout& own, int rank, const Copy& copy) {
  size_t of_all = 0, of_rank = 0;
  for (const size_t unit : KvPieceUnits(all)) {
    ForLayers(all, own, rank, unit, [&](size_t from_all, size_t from_rank, size_t bytes) {
      copy(of_all + from_all, of_rank + from_rank, bytes);
    });
    of_all += static_cast<size_t>(all.layers) * static_cast<size_t>(all.kv_heads) * unit;
    of_rank += static_cast<size_t>(own.layers) * static_cast<size_t>(own.kv_heads) * unit;
  }
  assert(of_all == all.block_bytes() && of_rank == own.block_bytes());
}

}  // namespace

KvCacheLayout ShardedDevice::LayoutOf(const KvCacheLayout& layout) const {
  assert(layout.kv_heads % count() == 0);
  KvCacheLayout own = layout;
  own.kv_heads /= count();
  return own;
}

KvCacheView ShardedDevice::Of(int rank, const KvCacheView& kv) const {
  const auto array = [&](const void* all) -> std::byte* {
    if (all == nullptr) return nullptr;
    const ShardedBuffer& buffer = addresses_.Find(all);
    assert(buffer.by_head() && buffer.data() == all);
    return buffer.of(rank);
  };
  return {.layout = LayoutOf(kv.layout),
          .k = array(kv.k),
          .v = array(kv.v),
          .score = reinterpret_cast<float*>(array(kv.score)),
          .position = reinterpret_cast<int32_t*>(array(kv.position)),
          .victim = reinterpret_cast<int32_t*>(array(kv.victim)),
          .logical_position = reinterpret_cast<int32_t*>(array(kv.logical_position))};
}

void ShardedDevice::InitScores(std::span<const ScoreInit> inits, const KvCacheView& kv) {
  Each([&](int rank) { At(rank).InitScores(inits, Of(rank, kv)); });
}

void ShardedDevice::CopyBlocks(std::span<const BlockCopy> copies, const KvCacheView& kv) {
  Each([&](int rank) { At(rank).CopyBlocks(copies, Of(rank, kv)); });
}

std::byte* ShardedDevice::Staging(int rank, [[maybe_unused]] size_t bytes) {
  std::vector<std::byte>& staging = staging_[static_cast<size_t>(rank)];
  assert(bytes <= staging.size());
  return staging.data();
}

void ShardedDevice::ExportBlocks(std::span<const int32_t> blocks, std::span<const int32_t> score_blocks,
                                 const KvCacheView& kv, std::byte* out) {
  assert(blocks.size() == score_blocks.size());
  Each([&](int rank) {
    const KvCacheView own = Of(rank, kv);
    std::byte* const from = Staging(rank, own.layout.block_bytes());
    for (size_t i = 0; i < blocks.size(); ++i) {
      At(rank).ExportBlocks(blocks.subspan(i, 1), score_blocks.subspan(i, 1), own, from);
      std::byte* const to = out + i * kv.layout.block_bytes();
      ForBlock(kv.layout, own.layout, rank,
               [&](size_t of_all, size_t of_rank, size_t bytes) { std::memcpy(to + of_all, from + of_rank, bytes); });
    }
  });
}

void ShardedDevice::ImportBlocks(std::span<const int32_t> blocks, float score_factor, const KvCacheView& kv,
                                 const std::byte* in) {
  Each([&](int rank) {
    const KvCacheView own = Of(rank, kv);
    std::byte* const to = Staging(rank, own.layout.block_bytes());
    for (size_t i = 0; i < blocks.size(); ++i) {
      const std::byte* const from = in + i * kv.layout.block_bytes();
      ForBlock(kv.layout, own.layout, rank,
               [&](size_t of_all, size_t of_rank, size_t bytes) { std::memcpy(to + of_rank, from + of_all, bytes); });
      At(rank).ImportBlocks(blocks.subspan(i, 1), score_factor, own, to);
    }
  });
}

// All ranks have sampled the same id.
void ShardedDevice::ExportState(int32_t state_row, const KvCacheView& kv, std::byte* out) {
  Each([&](int rank) {
    const KvCacheView own = Of(rank, kv);
    std::byte* const from = Staging(rank, own.layout.state_bytes());
    At(rank).ExportState(state_row, own, from);
    ForLayers(kv.layout, own.layout, rank, sizeof(int32_t),
              [&](size_t of_all, size_t of_rank, size_t bytes) { std::memcpy(out + of_all, from + of_rank, bytes); });
    if (rank > 0) return;
    std::memcpy(out + kv.layout.state_bytes() - sizeof(int32_t), from + own.layout.state_bytes() - sizeof(int32_t),
                sizeof(int32_t));
  });
}

void ShardedDevice::ImportState(int32_t state_row, const KvCacheView& kv, const std::byte* in) {
  Each([&](int rank) {
    const KvCacheView own = Of(rank, kv);
    std::byte* const to = Staging(rank, own.layout.state_bytes());
    ForLayers(kv.layout, own.layout, rank, sizeof(int32_t),
              [&](size_t of_all, size_t of_rank, size_t bytes) { std::memcpy(to + of_rank, in + of_all, bytes); });
    std::memcpy(to + own.layout.state_bytes() - sizeof(int32_t), in + kv.layout.state_bytes() - sizeof(int32_t),
                sizeof(int32_t));
    At(rank).ImportState(state_row, own, to);
  });
}

void ShardedDevice::Shrink(std::span<const ShrinkOp> ops, const KvCacheView& kv) {
  Each([&](int rank) { At(rank).Shrink(ops, Of(rank, kv)); });
}

void ShardedDevice::MeasurePairs(const LossOp& op, const KvCacheView& kv, std::span<double> of_pairs) {
  assert(!op.losses.empty());
  Each([&](int rank) {
    const KvCacheView own = Of(rank, kv);
    std::vector<double>& losses = losses_[static_cast<size_t>(rank)];
    losses.assign(of_pairs.size() / ranks_.size(), 0.0);
    At(rank).MeasurePairs(op, own, losses);
    ForLayers(kv.layout, own.layout, rank, op.losses.size() * sizeof(double),
              [&](size_t of_all, size_t of_rank, size_t bytes) {
                std::memcpy(of_pairs.data() + of_all / sizeof(double), losses.data() + of_rank / sizeof(double), bytes);
              });
  });
}

void ShardedDevice::ReadTile(const KvCacheView& kv, bool value, int32_t layer, int32_t block, int32_t kv_head,
                             float* out) {
  Each([&](int rank) {
    const KvCacheView own = Of(rank, kv);
    if (kv_head / own.layout.kv_heads != rank) return;
    At(rank).ReadTile(own, value, layer, block, kv_head % own.layout.kv_heads, out);
  });
}

}  // namespace hydrant
