// The ops of CpuDevice over cached keys and values, and sampling.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_scratch.h"
#include "kernels/cpu/attention/kv_layout.h"
#include "kernels/cpu/attention/rope_table.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/eviction/shrink.h"
#include "kernels/cpu/eviction/shrink_loss.h"
#include "kernels/cpu/sampling/sampling.h"
#include "kernels/kv_pieces.h"
#include "kernels/small_floats.h"

namespace hydrant {
namespace {

// What is remembered for the request's state row.
int32_t NextId(const SampleRequest& request, const SampleResult& result) {
  if (!result.finite) return 0;
  const bool stops = std::find(request.stop_ids.begin(), request.stop_ids.end(), result.id) != request.stop_ids.end();
  return stops ? kNoNextId : result.id;
}

}  // namespace

std::unique_ptr<RopeTable> CpuDevice::MakeRope(const RopeSpec& spec) {
  return std::make_unique<CpuRopeTable>(spec, pool_);
}

void CpuDevice::RopeAndWriteKv(const RopeTable* rope, const HeadNorms& norms, int32_t layer, Matrix qkv,
                               const KvCacheView& kv) {
  hydrant::RopeAndWriteKv({*kernels_.attention, left_in_, static_cast<const CpuRopeTable*>(rope), layer, qkv, kv},
                          norms, *kernels_.row, pool_);
}

void CpuDevice::Attention(const RopeTable* rope, const AttentionSpec& spec, int32_t layer, Matrix qkv,
                          const KvCacheView& kv, Matrix out) {
  Attend({*kernels_.attention, left_in_, static_cast<const CpuRopeTable*>(rope), layer, qkv, kv}, spec, out, pool_,
         *attention_);
}

void CpuDevice::KeepDrafts(std::span<const BatchRow> rows, std::span<const int32_t> kept, const KvCacheView& kv) {
  hydrant::KeepDrafts(*kernels_.attention, rows, kept, kv, pool_, attention_->drafts);
}

void CpuDevice::InitScores(std::span<const ScoreInit> inits, const KvCacheView& kv) {
  const int64_t pairs = int64_t{kv.layout.layers} * kv.layout.kv_heads;
  pool_.ParallelFor(pairs, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const int32_t layer = static_cast<int32_t>(pair / kv.layout.kv_heads);
      const int32_t head = static_cast<int32_t>(pair % kv.layout.kv_heads);
      for (const ScoreInit& init : inits) {
        const int64_t to = kv.layout.score_offset(layer, init.to, head);
        if (init.from < 0) {
          std::memset(kv.score + to, 0, kBlockSlots * sizeof(float));
        } else {
          std::memcpy(kv.score + to, kv.score + kv.layout.score_offset(layer, init.from, head),
                      kBlockSlots * sizeof(float));
        }
        std::iota(kv.position + to, kv.position + to + kBlockSlots, init.position);
        if (kv.logical_position == nullptr) continue;
        std::iota(kv.logical_position + to, kv.logical_position + to + kBlockSlots, init.position);
      }
    }
  });
}

void CpuDevice::CopyBlocks(std::span<const BlockCopy> copies, const KvCacheView& kv) {
  pool_.ParallelFor(std::ssize(copies), 1, [&](int64_t begin, int64_t end, int) {
    for (const BlockCopy& copy : copies.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))) {
      const KvPieces from = KvPiecesOf(kv, copy.from, copy.from_score_block);
      const KvPieces to = KvPiecesOf(kv, copy.to, copy.to);
      for (size_t piece = 0; piece < to.size(); ++piece) {
        std::memcpy(to[piece].data, from[piece].data, from[piece].bytes);
      }
    }
  });
}

void CpuDevice::ExportBlocks(std::span<const int32_t> blocks, std::span<const int32_t> score_blocks,
                             const KvCacheView& kv, std::byte* out) {
  assert(blocks.size() == score_blocks.size());
  const size_t block_bytes = kv.layout.block_bytes();
  pool_.ParallelFor(std::ssize(blocks), 1, [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      std::byte* to = out + i * block_bytes;
      for (const KvPiece& from : KvPiecesOf(kv, blocks[i], score_blocks[i])) {
        std::memcpy(to, from.data, from.bytes);
        to += from.bytes;
      }
    }
  });
}

void CpuDevice::ImportBlocks(std::span<const int32_t> blocks, float score_factor, const KvCacheView& kv,
                             const std::byte* in) {
  const size_t block_bytes = kv.layout.block_bytes();
  pool_.ParallelFor(std::ssize(blocks), 1, [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const std::byte* from = in + i * block_bytes;
      const KvPieces pieces = KvPiecesOf(kv, blocks[i], blocks[i]);
      for (const KvPiece& to : pieces) {
        std::memcpy(to.data, from, to.bytes);
        from += to.bytes;
      }
      if (score_factor == 1.0f) continue;
      const std::span scores(static_cast<float*>(pieces[kScorePiece].data), pieces[kScorePiece].bytes / sizeof(float));
      for (float& score : scores) score *= score_factor;
    }
  });
}

void CpuDevice::ExportState(int32_t state_row, const KvCacheView& kv, std::byte* out) {
  assert(state_row >= 0 && state_row < kv.layout.state_rows);
  const size_t victims = kv.layout.state_bytes() - sizeof(int32_t);
  std::memcpy(out, kv.victim + kv.layout.victim_offset(0, state_row, 0), victims);
  std::memcpy(out + victims, &sampled_ids_[static_cast<size_t>(state_row)], sizeof(int32_t));
}

void CpuDevice::ImportState(int32_t state_row, const KvCacheView& kv, const std::byte* in) {
  assert(state_row >= 0 && state_row < kv.layout.state_rows);
  const size_t victims = kv.layout.state_bytes() - sizeof(int32_t);
  std::memcpy(kv.victim + kv.layout.victim_offset(0, state_row, 0), in, victims);
  std::memcpy(&sampled_ids_[static_cast<size_t>(state_row)], in + victims, sizeof(int32_t));
}

void CpuDevice::Shrink(std::span<const ShrinkOp> ops, const KvCacheView& kv) {
  const int64_t pairs = int64_t{kv.layout.layers} * kv.layout.kv_heads;
  pool_.ParallelFor(std::ssize(ops) * pairs, 1, [&](int64_t begin, int64_t end, int thread) {
    const ShrinkScratch scratch = shrink_->Of(thread);
    for (int64_t i = begin; i < end; ++i) {
      const ShrinkOp& op = ops[static_cast<size_t>(i / pairs)];
      assert(op.live_from <= shrink_->slots_max());
      const int32_t pair = static_cast<int32_t>(i % pairs);
      ShrinkPair(op, kv, pair / kv.layout.kv_heads, pair % kv.layout.kv_heads, scratch);
    }
  });
}

void CpuDevice::MeasurePairs(const LossOp& op, const KvCacheView& kv, std::span<double> of_pairs) {
  const size_t cuts = op.losses.size();
  assert(cuts > 0);
  assert(of_pairs.size() == static_cast<size_t>(kv.layout.layers) * static_cast<size_t>(kv.layout.kv_heads) * cuts);
  assert(op.live <= shrink_->slots_max());
  pool_.ParallelFor(std::ssize(of_pairs) / std::ssize(op.losses), 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t pair = begin; pair < end; ++pair) {
      MeasurePairLosses(op, kv, static_cast<int32_t>(pair / kv.layout.kv_heads),
                        static_cast<int32_t>(pair % kv.layout.kv_heads), shrink_->Of(thread),
                        of_pairs.subspan(static_cast<size_t>(pair) * cuts, cuts));
    }
  });
}

void CpuDevice::AwaitSample(uint64_t) {}  // Sample has chosen when it returns

uint64_t CpuDevice::Sample(Matrix logits, std::span<const SampleRequest> requests, std::span<SampleResult> results) {
  assert(requests.size() == results.size() && logits.cols <= sampling_->vocab());
  pool_.ParallelFor(std::ssize(requests), 1, [&](int64_t begin, int64_t end, int thread) {
    const SamplingScratch scratch = sampling_->Of(thread);
    for (int64_t i = begin; i < end; ++i) {
      const SampleRequest& request = requests[static_cast<size_t>(i)];
      assert(request.logits_row >= 0 && request.logits_row < logits.rows);
      const float* row = static_cast<const float*>(logits.data) + request.logits_row * logits.cols;
      SampleResult& result = results[static_cast<size_t>(i)];
      const bool counts_last = request.adjustments != nullptr && request.adjustments->counts_last;
      const int32_t last = counts_last ? sampled_ids_[static_cast<size_t>(request.state_row)] : -1;
      result = SampleRow(*kernels_.sampling, {row, static_cast<size_t>(logits.cols)}, request, last, scratch);
      if (request.state_row < 0) continue;
      sampled_ids_[static_cast<size_t>(request.state_row)] = NextId(request, result);
    }
  });
  return ++samples_;
}

void CpuDevice::ReadTile(const KvCacheView& kv, bool value, int32_t layer, int32_t block, int32_t kv_head, float* out) {
  const KvCacheLayout& layout = kv.layout;
  const std::byte* tile =
      static_cast<const std::byte*>(value ? kv.v : kv.k) + layout.tile_offset(layer, block, kv_head);
  const std::byte* elements = tile + KvScaleBytes(layout.type);
  for (int32_t slot = 0; slot < kBlockSlots; ++slot) {
    for (int32_t dim = 0; dim < layout.head_dim; ++dim) {
      const int64_t element =
          value ? VElement(layout.type, layout.head_dim, slot, dim) : KElement(layout.type, slot, dim);
      float& x = out[slot * layout.head_dim + dim];
      switch (layout.type) {
        case KvType::kF32:
          x = reinterpret_cast<const float*>(elements)[element];
          break;
        case KvType::kF16:
          x = HalfToFloat(reinterpret_cast<const uint16_t*>(elements)[element]);
          break;
        case KvType::kBF16:
          x = std::bit_cast<float>(uint32_t{reinterpret_cast<const uint16_t*>(elements)[element]} << 16);
          break;
        case KvType::kInt8:
          x = reinterpret_cast<const float*>(tile)[slot] * reinterpret_cast<const int8_t*>(elements)[element];
          break;
      }
    }
  }
}

}  // namespace hydrant
