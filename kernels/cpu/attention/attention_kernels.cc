#include "kernels/cpu/attention/attention_kernels.h"

#include "kernels/cpu/attention/attention_decode.h"
#include "kernels/cpu/attention/attention_prefill.h"
#include "kernels/cpu/attention/kv_tile.h"
#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

void Rotate(float* x, int32_t heads, int32_t head_dim, int32_t dims, const float* cosine, const float* sine) {
  const int64_t half = dims / 2;
  for (int64_t h = 0; h < heads; ++h) {
    float* first = x + h * head_dim;
    float* second = first + half;
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t n = half - i < kLanes ? half - i : kLanes;
      const F32x16 a = LoadN(first + i, n), b = LoadN(second + i, n);
      const F32x16 c = LoadN(cosine + i, n), s = LoadN(sine + i, n);
      StoreN(first + i, NegMulAdd(b, s, a * c), n);
      StoreN(second + i, MulAdd(a, s, b * c), n);
    }
  }
}

// x rounded to 16 bits, 16 elements at a time; the last ones by way of a padded copy.
void RoundTo16(KvType type, const float* x, int64_t count, uint16_t* y) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i < kLanes ? count - i : kLanes;
    alignas(32) uint16_t rounded[kLanes];
    if (type == KvType::kBF16) {
      StoreBf16(rounded, LoadN(x + i, n));
    } else {
      StoreF16(rounded, LoadN(x + i, n));
    }
    for (int64_t j = 0; j < n; ++j) y[i + j] = rounded[j];
  }
}

// x [count] by the rule of KvType::kInt8. Returns the scale.
float Quantise(const float* x, int64_t count, int8_t* codes) {
  // Bits without the sign order as sizes do, and beyond them all those of infinity and NaN.
  uint32_t largest_bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, sizeof(bits));
    bits &= 0x7fffffffu;
    largest_bits = bits > largest_bits ? bits : largest_bits;
  }
  float largest;
  __builtin_memcpy(&largest, &largest_bits, sizeof(largest));
  if (!(largest >= kInt8Smallest) || largest_bits >= 0x7f800000u) {
    for (int64_t i = 0; i < count; ++i) codes[i] = 0;
    return largest_bits >= 0x7f800000u ? __builtin_nanf("") : 0.0f;
  }
  const F32x16 factor = Set(127.0f / largest);
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i < kLanes ? count - i : kLanes;
    float rounded[kLanes];
    Store(rounded, Round(LoadN(x + i, n) * factor));
    for (int64_t j = 0; j < n; ++j) codes[i + j] = static_cast<int8_t>(rounded[j]);
  }
  return largest / 127.0f;
}

void WriteInt8(const float* k, const float* v, int64_t head_dim, std::byte* k_tile, std::byte* v_tile, int64_t slot) {
  int8_t codes[kHeadDimMax];
  reinterpret_cast<float*>(k_tile)[slot] = Quantise(k, head_dim, codes);
  int8_t* k_out = reinterpret_cast<int8_t*>(k_tile) + kTileScaleBytes<Int8Tile>;
  for (int64_t d = 0; d < head_dim; ++d) k_out[d * kBlockSlots + slot] = codes[d];
  int8_t* v_out = reinterpret_cast<int8_t*>(v_tile) + kTileScaleBytes<Int8Tile>;
  reinterpret_cast<float*>(v_tile)[slot] = Quantise(v, head_dim, v_out + slot * head_dim);
}

void WriteKv(KvType type, const float* k, const float* v, int32_t head_dim, std::byte* k_tile, std::byte* v_tile,
             int32_t offset, bool fresh_tile) {
  assert(head_dim <= kHeadDimMax && head_dim % 2 == 0 && 0 <= offset && offset < kBlockSlots);
  const int64_t slot = offset, dim_count = head_dim;
  if (fresh_tile) __builtin_memset(v_tile, 0, KvTileBytes(type, head_dim));
  if (type == KvType::kInt8) return WriteInt8(k, v, dim_count, k_tile, v_tile, slot);
  if (type == KvType::kF32) {
    float* k_out = reinterpret_cast<float*>(k_tile);
    float* v_out = reinterpret_cast<float*>(v_tile) + slot * dim_count;
    for (int64_t d = 0; d < dim_count; ++d) k_out[d * kBlockSlots + slot] = k[d];
    for (int64_t d = 0; d < dim_count; ++d) v_out[d] = v[d];
    return;
  }
  uint16_t k16[kHeadDimMax], v16[kHeadDimMax];
  RoundTo16(type, k, dim_count, k16);
  RoundTo16(type, v, dim_count, v16);
  uint16_t* k_out = reinterpret_cast<uint16_t*>(k_tile);
  uint16_t* v_out = reinterpret_cast<uint16_t*>(v_tile);
  if (type == KvType::kF16) {
    for (int64_t d = 0; d < dim_count; ++d) k_out[d * kBlockSlots + slot] = k16[d];
    for (int64_t d = 0; d < dim_count; ++d) v_out[slot * dim_count + d] = v16[d];
    return;
  }
  for (int64_t i = 0; i < dim_count / 2; ++i) __builtin_memcpy(k_out + 2 * (i * kBlockSlots + slot), k16 + 2 * i, 4);
  uint16_t* v_pair = v_out + slot / 2 * 2 * dim_count + slot % 2;
  for (int64_t d = 0; d < dim_count; ++d) v_pair[2 * d] = v16[d];
}

void AddScores(const ScoreView& scores, const float* sums, int32_t blocks, int32_t first_seen) {
  for (int64_t block = 0; block < blocks; ++block) {
    float* score = scores.score + scores.score_table[block] * scores.stride;
    // Without the sign that a NaN may have: signs are pins.
    const F32x16 sum = Abs(FlushScore(Abs(Load(score)) + Load(sums + block * kLanes)));
    Store(score, first_seen > 0 ? Select(AtLeast(PositionsOf(scores, block), first_seen), sum, Zero()) : sum);
  }
}

}  // namespace

extern const AttentionKernels kAttentionKernels;
const AttentionKernels kAttentionKernels = {
    .rotate = Rotate,
    .write_kv = WriteKv,
    .decode_split = RunDecodeSplit,
    .decode_join = RunDecodeJoin,
    .prefill_tile = RunPrefillTile,
    .add_scores = AddScores,
};

}  // namespace hydrant::HYDRANT_ISA
