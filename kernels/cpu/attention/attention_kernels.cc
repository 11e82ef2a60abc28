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
void RoundTo16(DType dtype, const float* x, int64_t count, uint16_t* y) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i < kLanes ? count - i : kLanes;
    alignas(32) uint16_t rounded[kLanes];
    if (dtype == DType::kBF16) {
      StoreBf16(rounded, LoadN(x + i, n));
    } else {
      StoreF16(rounded, LoadN(x + i, n));
    }
    for (int64_t j = 0; j < n; ++j) y[i + j] = rounded[j];
  }
}

void WriteKv(DType dtype, const float* k, const float* v, int32_t head_dim, std::byte* k_tile, std::byte* v_tile,
             int32_t offset, bool fresh_tile) {
  assert(head_dim <= kHeadDimMax && head_dim % 2 == 0 && 0 <= offset && offset < kBlockSlots);
  const int64_t slot = offset, dim_count = head_dim;
  if (fresh_tile) __builtin_memset(v_tile, 0, static_cast<size_t>(dim_count) * kBlockSlots * DTypeBytes(dtype));
  if (dtype == DType::kF32) {
    float* k_out = reinterpret_cast<float*>(k_tile);
    float* v_out = reinterpret_cast<float*>(v_tile) + slot * dim_count;
    for (int64_t d = 0; d < dim_count; ++d) k_out[d * kBlockSlots + slot] = k[d];
    for (int64_t d = 0; d < dim_count; ++d) v_out[d] = v[d];
    return;
  }
  uint16_t k16[kHeadDimMax], v16[kHeadDimMax];
  RoundTo16(dtype, k, dim_count, k16);
  RoundTo16(dtype, v, dim_count, v16);
  uint16_t* k_out = reinterpret_cast<uint16_t*>(k_tile);
  uint16_t* v_out = reinterpret_cast<uint16_t*>(v_tile);
  if (dtype == DType::kF16) {
    for (int64_t d = 0; d < dim_count; ++d) k_out[d * kBlockSlots + slot] = k16[d];
    for (int64_t d = 0; d < dim_count; ++d) v_out[slot * dim_count + d] = v16[d];
    return;
  }
  for (int64_t i = 0; i < dim_count / 2; ++i) __builtin_memcpy(k_out + 2 * (i * kBlockSlots + slot), k16 + 2 * i, 4);
  uint16_t* v_pair = v_out + slot / 2 * 2 * dim_count + slot % 2;
  for (int64_t d = 0; d < dim_count; ++d) v_pair[2 * d] = v16[d];
}

void AddScores(const ScoreView& scores, const float* sums, int32_t blocks) {
  for (int64_t block = 0; block < blocks; ++block) {
    float* score = scores.score + scores.score_table[block] * scores.stride;
    Store(score, FlushScore(Load(score) + Load(sums + block * kLanes)));
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
