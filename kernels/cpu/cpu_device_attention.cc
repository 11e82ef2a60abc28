// The ops of CpuDevice over cached keys and values, and sampling.
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_scratch.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/kv_layout.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/sampling.h"
#include "kernels/cpu/shrink.h"

namespace hydrant {
namespace {

float HalfToFloat(DType dtype, uint16_t half) {
  if (dtype == DType::kBF16) return std::bit_cast<float>(uint32_t{half} << 16);
  const int exponent = (half >> 10) & 31, fraction = half & 1023;
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                               : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25));
}

}  // namespace

void CpuDevice::AttentionScratchDeleter::operator()(AttentionScratch* scratch) const { delete scratch; }

void CpuDevice::ReserveAttentionScratch(int32_t /*tokens_max*/, int32_t rows_max, int32_t slots_max,
                                        int32_t query_heads, int32_t head_dim, int64_t vocab) {
  attention_.reset(new AttentionScratch(pool_.threads(), rows_max, slots_max, query_heads, head_dim, vocab));
}

std::unique_ptr<RopeTable> CpuDevice::MakeRope(const RopeSpec& spec) {
  return std::make_unique<CpuRopeTable>(spec, pool_);
}

void CpuDevice::RopeAndWriteKv(const RopeTable* rope, int32_t layer, Matrix qkv, const KvCacheView& kv) {
  hydrant::RopeAndWriteKv({*kernels_.attention, batch_.rows, layer, qkv, kv}, static_cast<const CpuRopeTable*>(rope),
                          pool_);
}

void CpuDevice::Attention(int32_t layer, float scale, Matrix qkv, const KvCacheView& kv, Matrix out) {
  Attend({*kernels_.attention, batch_.rows, layer, qkv, kv}, scale, out, pool_, *attention_);
}

void CpuDevice::InitSides(std::span<const SideInit> inits, const KvCacheView& kv) {
  const int64_t pairs = int64_t{kv.layout.layers} * kv.layout.kv_heads;
  pool_.ParallelFor(pairs, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const int32_t layer = static_cast<int32_t>(pair / kv.layout.kv_heads);
      const int32_t head = static_cast<int32_t>(pair % kv.layout.kv_heads);
      for (const SideInit& init : inits) {
        const int64_t to = SideOffset(kv.layout, layer, init.to, head);
        if (init.from < 0) {
          std::memset(kv.score + to, 0, kBlockSlots * sizeof(float));
        } else {
          std::memcpy(kv.score + to, kv.score + SideOffset(kv.layout, layer, init.from, head),
                      kBlockSlots * sizeof(float));
        }
        std::iota(kv.position + to, kv.position + to + kBlockSlots, init.position);
      }
    }
  });
}

namespace {

// A layer of a block: its KV heads lie next to each other, so each of the four arrays has it in one piece.
struct LayerOfBlock {
  LayerOfBlock(const KvCacheLayout& layout, const KvCacheView& kv, int32_t layer, int32_t block, int32_t side)
      : k(static_cast<std::byte*>(kv.k) + KvOffset(layout, layer, block)),
        v(static_cast<std::byte*>(kv.v) + KvOffset(layout, layer, block)),
        score(kv.score + SideOffset(layout, layer, side, 0)),
        position(kv.position + SideOffset(layout, layer, side, 0)) {}

  static int64_t KvOffset(const KvCacheLayout& layout, int32_t layer, int32_t block) {
    return TileOffset(layout, layer, block, 0) * static_cast<int64_t>(DTypeBytes(layout.dtype));
  }
  static size_t KvBytes(const KvCacheLayout& layout) {
    return SideSlots(layout) * static_cast<size_t>(layout.head_dim) * DTypeBytes(layout.dtype);
  }
  static size_t SideSlots(const KvCacheLayout& layout) { return static_cast<size_t>(layout.kv_heads) * kBlockSlots; }

  std::byte* k;
  std::byte* v;
  float* score;
  int32_t* position;
};

}  // namespace

void CpuDevice::CopyBlocks(std::span<const BlockCopy> copies, const KvCacheView& kv) {
  const KvCacheLayout& layout = kv.layout;
  pool_.ParallelFor(std::ssize(copies) * layout.layers, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const BlockCopy& copy = copies[static_cast<size_t>(i / layout.layers)];
      const int32_t layer = static_cast<int32_t>(i % layout.layers);
      const LayerOfBlock from(layout, kv, layer, copy.from, copy.from_side);
      const LayerOfBlock to(layout, kv, layer, copy.to, copy.to);
      const size_t slots = LayerOfBlock::SideSlots(layout);
      std::memcpy(to.k, from.k, LayerOfBlock::KvBytes(layout));
      std::memcpy(to.v, from.v, LayerOfBlock::KvBytes(layout));
      std::memcpy(to.score, from.score, slots * sizeof(float));
      std::memcpy(to.position, from.position, slots * sizeof(int32_t));
    }
  });
}

void CpuDevice::ExportBlocks(std::span<const int32_t> blocks, std::span<const int32_t> sides, const KvCacheView& kv,
                             std::byte* out) {
  assert(blocks.size() == sides.size());
  const KvCacheLayout& layout = kv.layout;
  const size_t piece = ParkedBytes(layout, 1) / static_cast<size_t>(layout.layers);
  const size_t kv_bytes = LayerOfBlock::KvBytes(layout), slots = LayerOfBlock::SideSlots(layout);
  pool_.ParallelFor(std::ssize(blocks) * layout.layers, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t at = static_cast<size_t>(i / layout.layers);
      const LayerOfBlock from(layout, kv, static_cast<int32_t>(i % layout.layers), blocks[at], sides[at]);
      std::byte* to = out + static_cast<size_t>(i) * piece;
      std::memcpy(to, from.k, kv_bytes);
      std::memcpy(to + kv_bytes, from.v, kv_bytes);
      std::memcpy(to + 2 * kv_bytes, from.score, slots * sizeof(float));
      std::memcpy(to + 2 * kv_bytes + slots * sizeof(float), from.position, slots * sizeof(int32_t));
    }
  });
}

void CpuDevice::ImportBlocks(std::span<const int32_t> blocks, float score_factor, const KvCacheView& kv,
                             const std::byte* in) {
  const KvCacheLayout& layout = kv.layout;
  const size_t piece = ParkedBytes(layout, 1) / static_cast<size_t>(layout.layers);
  const size_t kv_bytes = LayerOfBlock::KvBytes(layout), slots = LayerOfBlock::SideSlots(layout);
  pool_.ParallelFor(std::ssize(blocks) * layout.layers, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t block = blocks[static_cast<size_t>(i / layout.layers)];
      const LayerOfBlock to(layout, kv, static_cast<int32_t>(i % layout.layers), block, block);
      const std::byte* from = in + static_cast<size_t>(i) * piece;
      std::memcpy(to.k, from, kv_bytes);
      std::memcpy(to.v, from + kv_bytes, kv_bytes);
      std::memcpy(to.score, from + 2 * kv_bytes, slots * sizeof(float));
      std::memcpy(to.position, from + 2 * kv_bytes + slots * sizeof(float), slots * sizeof(int32_t));
      if (score_factor == 1.0f) continue;
      for (size_t slot = 0; slot < slots; ++slot) to.score[slot] *= score_factor;
    }
  });
}

void CpuDevice::Shrink(std::span<const ShrinkOp> ops, const KvCacheView& kv) {
  const int64_t pairs = int64_t{kv.layout.layers} * kv.layout.kv_heads;
  pool_.ParallelFor(std::ssize(ops) * pairs, 1, [&](int64_t begin, int64_t end, int thread) {
    const ShrinkScratch scratch = attention_->ShrinkOf(thread);
    for (int64_t i = begin; i < end; ++i) {
      const ShrinkOp& op = ops[static_cast<size_t>(i / pairs)];
      assert(op.live_from <= attention_->slots_max);
      const int32_t pair = static_cast<int32_t>(i % pairs);
      ShrinkPair(op, kv, pair / kv.layout.kv_heads, pair % kv.layout.kv_heads, scratch);
    }
  });
}

void CpuDevice::Sample(Matrix logits, std::span<const SampleRequest> requests, std::span<SampleResult> results) {
  assert(requests.size() == results.size() && logits.cols <= attention_->vocab);
  pool_.ParallelFor(std::ssize(requests), 1, [&](int64_t begin, int64_t end, int thread) {
    const SamplingScratch scratch = attention_->SamplingOf(thread);
    for (int64_t i = begin; i < end; ++i) {
      const SampleRequest& request = requests[static_cast<size_t>(i)];
      assert(request.logits_row >= 0 && request.logits_row < logits.rows);
      const float* row = static_cast<const float*>(logits.data) + request.logits_row * logits.cols;
      results[static_cast<size_t>(i)] =
          SampleRow(*kernels_.attention, {row, static_cast<size_t>(logits.cols)}, request, scratch);
    }
  });
}

void CpuDevice::ReadTile(const KvCacheView& kv, bool value, int32_t layer, int32_t block, int32_t kv_head, float* out) {
  const KvCacheLayout& layout = kv.layout;
  const int64_t base = TileOffset(layout, layer, block, kv_head);
  for (int32_t slot = 0; slot < kBlockSlots; ++slot) {
    for (int32_t dim = 0; dim < layout.head_dim; ++dim) {
      const int64_t element =
          base + (value ? VElement(layout.dtype, layout.head_dim, slot, dim) : KElement(layout.dtype, slot, dim));
      const void* data = value ? kv.v : kv.k;
      float& x = out[slot * layout.head_dim + dim];
      if (layout.dtype == DType::kF32) {
        x = static_cast<const float*>(data)[element];
      } else {
        x = HalfToFloat(layout.dtype, static_cast<const uint16_t*>(data)[element]);
      }
    }
  }
}

}  // namespace hydrant
