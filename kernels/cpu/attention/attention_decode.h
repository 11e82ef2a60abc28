// Decode attention of one instruction set: a split of one token's slots, and the join of the splits.
//
// For kernel families only (kernels/cpu/kernel_table.h has the rules): everything is in the family's own namespace.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_DECODE_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_DECODE_H_

#include <cassert>

#include "kernels/cpu/attention/attention_kernels.h"
#include "kernels/cpu/attention/key_rotation.h"
#include "kernels/cpu/attention/kv_tile.h"
#include "kernels/cpu/runtime/activation.h"
#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

// Sized so that the accumulators of one pass stay in registers: 16 of 32 (AVX-512), 8 of 16 in half-width pairs (AVX2).
// Instrumented, the narrower passes take half the time to compile; no bit depends on them.
#if defined(__AVX512F__) && !defined(HYDRANT_INSTRUMENTED)
#define HYDRANT_WIDE_PASSES
#endif
#ifdef HYDRANT_WIDE_PASSES
constexpr int kScoreTiles = 2;    // key tiles at once: independent chains that hide the latency of the products
constexpr int kDecodeHeads = 4;   // query heads per pass over a tile
constexpr int kDecodeChunks = 4;  // 16-element chunks of V at once
#else
constexpr int kScoreTiles = 1;
constexpr int kDecodeHeads = 2;
constexpr int kDecodeChunks = 2;
#endif

// The logit of a slot that is not there: its weight is exactly 0, and no infinity can turn into a NaN on the way.
constexpr float kHidden = -1e30f;

// exp((x - largest) * scale) for x <= largest, as 2^((x - largest) * factor) with factor = scale * log2(e): two roundings of
// the exponent (2^-24 of its size each, as the logits have anyway), then 1.3 ulp. Exactly 1 at the largest.
HYDRANT_SIMD F32x16 SoftmaxWeight(F32x16 x, F32x16 largest, F32x16 factor) {
  const F32x16 t = (x - largest) * factor;
  const F32x16 n = Round(t);
  const F32x16 f = t - n;
  // Minimax polynomial of 2^f on [-1/2, 1/2] through (0, 1), relative error below 2^-28.
  F32x16 p = Set(1.5353361959569156e-4f);
  p = MulAdd(p, f, Set(1.3398875016719103e-3f));
  p = MulAdd(p, f, Set(9.61843691766262e-3f));
  p = MulAdd(p, f, Set(5.5503323674201965e-2f));
  p = MulAdd(p, f, Set(0.24022647738456726f));
  p = MulAdd(p, f, Set(0.6931471824645996f));
  p = MulAdd(p, f, Set(1.0f));
  return ScalePow2(p, n);
}

constexpr float kLog2E = 1.44269504f;

// A sink's logit in units of products, no lower than that of a slot that is not there, and no infinity, of which a
// difference would make a NaN; a NaN stays one.
HYDRANT_SIMD float SinkProduct(float sink, float scale) {
  const float product = sink / scale;
  if (product > -kHidden) return -kHidden;
  return product < kHidden ? kHidden : product;
}

// SoftmaxWeight of one number.
HYDRANT_SIMD float SoftmaxWeight1(float x, float largest, F32x16 factor) {
  return _mm_cvtss_f32(_mm256_castps256_ps128(LowHalf(SoftmaxWeight(Set(x), Set(largest), factor))));
}

// `rows` rows of `count` products, a multiple of 16, `stride` elements apart. Every error is below 12 * 2^-24 of the cap.
void CapProducts(float cap, int64_t rows, int64_t count, int64_t stride, float* products) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = products + r * stride;
    for (int64_t i = 0; i < count; i += kLanes) Store(row + i, SoftCap(Load(row + i), cap));
  }
}

// Where the elements of a block's tile begin.
template <typename Tile>
HYDRANT_SIMD const typename Tile::Element* TileOf(const std::byte* base, const TileView& tiles, int64_t block) {
  const std::byte* tile = base + tiles.block_table[block] * tiles.tile_stride;
  return reinterpret_cast<const typename Tile::Element*>(tile + kTileScaleBytes<Tile>);
}

// [16] of a block's slots.
HYDRANT_SIMD const int32_t* PositionsOf(const ScoreView& scores, int64_t block) {
  return scores.position + scores.score_table[block] * scores.stride;
}

// The tiles of a split in the order they are read: K of every block, then V of every block. Tiles lie scattered in memory, so
// the processor's own prefetching ends with each; the kernels ask for the tile kAhead places further on as they go.
constexpr int64_t kAhead = 8;

class TileStream {
 public:
  HYDRANT_SIMD TileStream Of(const DecodeSplit& split, int64_t block_begin, int64_t block_end) {
    TileStream stream;
    stream.split_ = &split;
    stream.begin_ = block_begin;
    stream.count_ = block_end - block_begin;
    return stream;
  }
  // The address to prefetch when tile `i` of the stream is read.
  HYDRANT_SIMD const char* Ahead(const TileStream& stream, int64_t i) {
    i += kAhead;
    const bool value = i >= stream.count_;
    if (value) i -= stream.count_;
    if (i >= stream.count_) i = stream.count_ - 1;
    const TileView& tiles = stream.split_->tiles;
    const int64_t block = tiles.block_table[stream.begin_ + i];
    return reinterpret_cast<const char*>((value ? tiles.v : tiles.k) + block * tiles.tile_stride);
  }
  HYDRANT_SIMD int64_t Count(const TileStream& stream) { return stream.count_; }

 private:
  const DecodeSplit* split_;
  int64_t begin_;
  int64_t count_;
};

constexpr int64_t kLineBytes = 64;

HYDRANT_SIMD void Prefetch(const char* p, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kLineBytes) _mm_prefetch(p + i, _MM_HINT_T2);
}

// weights[h][16 t ...] = q[h] . k for kTiles tiles. Even and odd elements have chains of their own, so an element's sum is
// the same for every kTiles and kHeads. `Cached` is what the tiles ahead are made of.
template <typename Tile, typename Cached, int kHeads, int kTiles>
HYDRANT_SIMD void ScoreTiles(const typename Tile::Element* const* k, const char* const* ahead, const float* q,
                             int64_t head_dim, float* weights, int64_t weights_stride) {
  constexpr int64_t kPairBytes = 2 * kLanes * sizeof(typename Cached::Element);
  constexpr int64_t kPairsOfLine = kPairBytes < kLineBytes ? kLineBytes / kPairBytes : 1;
  for (int t = 0; t < kTiles; ++t) Prefetch(ahead[t], 0, kTileScaleBytes<Cached>);
  F32x16 even[kTiles][kHeads], odd[kTiles][kHeads];
  for (int t = 0; t < kTiles; ++t) {
    for (int h = 0; h < kHeads; ++h) even[t][h] = odd[t][h] = Zero();
  }
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    VecPair pair[kTiles];
    for (int t = 0; t < kTiles; ++t) {
      pair[t] = Tile::LoadK(k[t], i);
      if (i % kPairsOfLine == 0) Prefetch(ahead[t] + kTileScaleBytes<Cached> + i * kPairBytes, 0, kPairBytes);
    }
    for (int h = 0; h < kHeads; ++h) {
      const F32x16 q_even = Set(q[h * head_dim + 2 * i]), q_odd = Set(q[h * head_dim + 2 * i + 1]);
      for (int t = 0; t < kTiles; ++t) {
        even[t][h] = MulAdd(pair[t].first, q_even, even[t][h]);
        odd[t][h] = MulAdd(pair[t].second, q_odd, odd[t][h]);
      }
    }
  }
  for (int t = 0; t < kTiles; ++t) {
    for (int h = 0; h < kHeads; ++h) {
      Store(weights + h * weights_stride + t * kLanes, Tile::Scaled(k[t], even[t][h] + odd[t][h]));
    }
  }
}

// out[h] = sum over the split's slots of weight times V, for kChunks chunks from `dim` on.
template <typename Tile, int kHeads, int kChunks>
HYDRANT_SIMD void SumValues(const DecodeSplit& split, const TileStream& stream, int64_t block_begin,
                            const float* weights, int64_t dim, float* out) {
  const int64_t head_dim = split.tiles.head_dim, count = TileStream::Count(stream);
  const int64_t row_bytes = 2 * head_dim * static_cast<int64_t>(sizeof(typename Tile::Element));
  F32x16 acc[kHeads][kChunks];
  for (int h = 0; h < kHeads; ++h) {
    for (int c = 0; c < kChunks; ++c) acc[h][c] = Zero();
  }
  for (int64_t tile = 0; tile < count; ++tile) {
    const auto* v = TileOf<Tile>(split.tiles.v, split.tiles, block_begin + tile);
    const float* w = weights + tile * kLanes;
    const char* ahead = TileStream::Ahead(stream, count + tile);
    if (dim == 0 && split.scores.score != nullptr) {
      const int64_t score_at = split.scores.score_table[block_begin + tile] * split.scores.stride;
      _mm_prefetch(reinterpret_cast<const char*>(split.scores.score + score_at), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(split.scores.position + score_at), _MM_HINT_T0);
    }
    // The weights of the values as they are stored: their scales are part of them.
    float scaled[kHeads][kLanes];
    int64_t stride = split.weights_stride;
    if constexpr (Tile::kScaled) {
      if (dim == 0) Prefetch(ahead, 0, kTileScaleBytes<Tile>);
      for (int h = 0; h < kHeads; ++h) Store(scaled[h], Tile::Scaled(v, Load(w + h * stride)));
      w = scaled[0];
      stride = kLanes;
    }
    for (int64_t i = 0; i < kLanes / 2; ++i) {
      if (dim == 0) Prefetch(ahead + kTileScaleBytes<Tile> + i * row_bytes, 0, row_bytes);
      VecPair pair[kChunks];
      for (int c = 0; c < kChunks; ++c) pair[c] = Tile::LoadV(v, head_dim, i, dim + c * kLanes);
      for (int h = 0; h < kHeads; ++h) {
        const F32x16 w_even = Set(w[h * stride + 2 * i]), w_odd = Set(w[h * stride + 2 * i + 1]);
        for (int c = 0; c < kChunks; ++c) acc[h][c] = MulAdd(pair[c].first, w_even, acc[h][c]);
        for (int c = 0; c < kChunks; ++c) acc[h][c] = MulAdd(pair[c].second, w_odd, acc[h][c]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int c = 0; c < kChunks; ++c) Store(out + h * head_dim + dim + c * kLanes, acc[h][c]);
  }
}

// The last head_dim % 16 elements.
template <typename Tile>
void SumValueTail(const DecodeSplit& split, int64_t block_begin, int64_t block_end, int64_t heads, const float* weights,
                  int64_t dim, float* out) {
  const int64_t head_dim = split.tiles.head_dim;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t d = dim; d < head_dim; ++d) {
      float sum = 0.0f;
      for (int64_t block = block_begin; block < block_end; ++block) {
        const auto* v = TileOf<Tile>(split.tiles.v, split.tiles, block);
        float w[kLanes];
        Store(w, Tile::Scaled(v, Load(weights + h * split.weights_stride + (block - block_begin) * kLanes)));
        for (int64_t s = 0; s < kLanes; ++s) sum += w[s] * Tile::V1(v, head_dim, s, d);
      }
      out[h * head_dim + d] = sum;
    }
  }
}

// The products of kTiles tiles from `block` on, with keys as they are cached or, kRolling, rotated to their ranks.
template <typename Tile, int kHeads, int kTiles, bool kRolling>
HYDRANT_SIMD void ScoreBlocks(const DecodeSplit& split, const TileStream& stream, int64_t block_begin, int64_t block,
                              const float* q, float* weights) {
  const int64_t head_dim = split.tiles.head_dim;
  const typename Tile::Element* k[kTiles];
  const char* ahead[kTiles];
  for (int t = 0; t < kTiles; ++t) {
    k[t] = TileOf<Tile>(split.tiles.k, split.tiles, block + t);
    ahead[t] = TileStream::Ahead(stream, block - block_begin + t);
  }
  float* out = weights + (block - block_begin) * kLanes;
  if constexpr (kRolling) {
    RotatedTile rotated[kTiles];
    const float* keys[kTiles];
    for (int t = 0; t < kTiles; ++t) {
      RotateTile<Tile>(k[t], split.rope, PositionsOf(split.scores, block + t), split.slot_end - (block + t) * kLanes,
                       head_dim, rotated[t].key);
      keys[t] = rotated[t].key;
    }
    ScoreTiles<F32Tile, Tile, kHeads, kTiles>(keys, ahead, q, head_dim, out, split.weights_stride);
  } else {
    ScoreTiles<Tile, Tile, kHeads, kTiles>(k, ahead, q, head_dim, out, split.weights_stride);
  }
}

// Hidden slots get the logit of a slot that is not there.
template <int kHeads>
HYDRANT_SIMD void HideSlots(const DecodeSplit& split, int64_t block_begin, int64_t block_end, float* weights) {
  for (int64_t block = block_begin; block < block_end; ++block) {
    const Mask16 seen = AtLeast(PositionsOf(split.scores, block), split.first_seen);
    for (int h = 0; h < kHeads; ++h) {
      float* w = weights + h * split.weights_stride + (block - block_begin) * kLanes;
      Store(w, Select(seen, Load(w), Set(kHidden)));
    }
  }
}

template <typename Tile, int kHeads, bool kRolling>
void DecodeHeads(const DecodeSplit& split, int64_t head) {
  const int64_t head_dim = split.tiles.head_dim;
  const int64_t block_begin = split.slot_begin / kLanes, block_end = (split.slot_end + kLanes - 1) / kLanes;
  const float* q = split.q + head * head_dim;
  float* weights = split.weights + head * split.weights_stride;

  const TileStream stream = TileStream::Of(split, block_begin, block_end);
  int64_t block = block_begin;
  for (; block + kScoreTiles <= block_end; block += kScoreTiles) {
    ScoreBlocks<Tile, kHeads, kScoreTiles, kRolling>(split, stream, block_begin, block, q, weights);
  }
  for (; block < block_end; ++block) {
    ScoreBlocks<Tile, kHeads, 1, kRolling>(split, stream, block_begin, block, q, weights);
  }

  if (split.cap > 0.0f)
    CapProducts(split.cap, kHeads, (block_end - block_begin) * kLanes, split.weights_stride, weights);
  if (split.first_seen > 0) HideSlots<kHeads>(split, block_begin, block_end, weights);

  const int64_t tail = split.slot_end % kLanes, count = (block_end - block_begin) * kLanes;
  const F32x16 factor = Set(split.scale * kLog2E);
  for (int h = 0; h < kHeads; ++h) {
    float* w = weights + h * split.weights_stride;
    if (tail != 0) Store(w + count - kLanes, Select(FirstN(tail), Load(w + count - kLanes), Set(kHidden)));
    F32x16 largest = Set(kHidden);
    for (int64_t i = 0; i < count; i += kLanes) largest = Max(largest, Load(w + i));
    const float split_largest = ReduceMax(largest);
    const F32x16 shift = Set(split_largest);
    F32x16 total = Zero();
    for (int64_t i = 0; i < count; i += kLanes) {
      const F32x16 weight = SoftmaxWeight(Load(w + i), shift, factor);
      Store(w + i, weight);
      total = total + weight;
    }
    split.largest[head + h] = split_largest;
    split.total[head + h] = ReduceAdd(total);
  }

  float* out = split.out + head * head_dim;
  int64_t dim = 0;
  for (; dim + kDecodeChunks * kLanes <= head_dim; dim += kDecodeChunks * kLanes) {
    SumValues<Tile, kHeads, kDecodeChunks>(split, stream, block_begin, weights, dim, out);
  }
  for (; dim + kLanes <= head_dim; dim += kLanes) {
    SumValues<Tile, kHeads, 1>(split, stream, block_begin, weights, dim, out);
  }
  if (dim < head_dim) SumValueTail<Tile>(split, block_begin, block_end, kHeads, weights, dim, out);
}

template <typename Tile, bool kRolling>
void DecodeSplitOf(const DecodeSplit& split) {
  int64_t head = 0;
  for (; head + kDecodeHeads <= split.group; head += kDecodeHeads) {
    DecodeHeads<Tile, kDecodeHeads, kRolling>(split, head);
  }
  switch (split.group - head) {
    case 1:
      return DecodeHeads<Tile, 1, kRolling>(split, head);
#ifdef HYDRANT_WIDE_PASSES
    case 2:
      return DecodeHeads<Tile, 2, kRolling>(split, head);
    case 3:
      return DecodeHeads<Tile, 3, kRolling>(split, head);
#endif
    default:
      return;
  }
}

template <bool kRolling>
void DecodeSplitOfType(const DecodeSplit& split) {
  switch (split.tiles.type) {
    case KvType::kF32:
      return DecodeSplitOf<F32Tile, kRolling>(split);
    case KvType::kF16:
      return DecodeSplitOf<F16Tile, kRolling>(split);
    case KvType::kBF16:
      return DecodeSplitOf<Bf16Tile, kRolling>(split);
    case KvType::kInt8:
      return DecodeSplitOf<Int8Tile, kRolling>(split);
  }
}

void RunDecodeSplit(const DecodeSplit& split) {
  assert(split.slot_begin % kLanes == 0 && split.scale > 0.0f);
  if (split.slot_begin >= split.slot_end) {
    for (int64_t h = 0; h < split.group; ++h) {
      split.largest[h] = kHidden;
      split.total[h] = 0.0f;
    }
    for (int64_t i = 0; i < int64_t{split.group} * split.tiles.head_dim; ++i) split.out[i] = 0.0f;
    return;
  }
  if (split.rope.table != nullptr) {
    DecodeSplitOfType<true>(split);
  } else {
    DecodeSplitOfType<false>(split);
  }
}

// The best victim per lane: lowest score, highest position on a tie. Pinned slots, whose scores have a sign, are passed over.
// The others' bits order as integers do, and a NaN still gives some slot.
struct VictimSearch {
#ifdef __AVX512F__
  __m512i score = _mm512_set1_epi32(0x7fffffff);
  __m512i position = _mm512_set1_epi32(-1);
  __m512i slot = _mm512_set1_epi32(-1);

  HYDRANT_SIMD void Visit(VictimSearch& best, F32x16 scores, const int32_t* positions, int32_t first_slot,
                          int64_t count, int32_t candidates_end) {
    const __m512i s = _mm512_castps_si512(scores.v);
    const __m512i p = _mm512_loadu_si512(positions);
    const __mmask16 free = _mm512_mask_cmpge_epi32_mask(FirstN(count).m, s, _mm512_setzero_si512());
    const __mmask16 candidate = _mm512_mask_cmplt_epi32_mask(free, p, _mm512_set1_epi32(candidates_end));
    const __mmask16 lower = _mm512_mask_cmplt_epi32_mask(candidate, s, best.score);
    const __mmask16 equal = _mm512_mask_cmpeq_epi32_mask(candidate, s, best.score);
    const __mmask16 take = static_cast<__mmask16>(lower | _mm512_mask_cmpgt_epi32_mask(equal, p, best.position));
    const __m512i slots = _mm512_add_epi32(_mm512_set1_epi32(first_slot),
                                           _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    best.score = _mm512_mask_mov_epi32(best.score, take, s);
    best.position = _mm512_mask_mov_epi32(best.position, take, p);
    best.slot = _mm512_mask_mov_epi32(best.slot, take, slots);
  }
#else
  alignas(64) int32_t score[kLanes];
  alignas(64) int32_t position[kLanes];
  alignas(64) int32_t slot[kLanes];

  VictimSearch() {
    for (int i = 0; i < kLanes; ++i) {
      score[i] = 0x7fffffff;
      position[i] = slot[i] = -1;
    }
  }
  HYDRANT_SIMD void VisitHalf(VictimSearch& best, __m256 scores, const int32_t* positions, int half, int32_t first_slot,
                              __m256 valid, int32_t candidates_end) {
    __m256i* best_score = reinterpret_cast<__m256i*>(best.score + 8 * half);
    __m256i* best_position = reinterpret_cast<__m256i*>(best.position + 8 * half);
    __m256i* best_slot = reinterpret_cast<__m256i*>(best.slot + 8 * half);
    const __m256i s = _mm256_castps_si256(scores);
    const __m256i p = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(positions));
    const __m256i free = _mm256_andnot_si256(_mm256_srai_epi32(s, 31), _mm256_castps_si256(valid));
    const __m256i candidate = _mm256_and_si256(free, _mm256_cmpgt_epi32(_mm256_set1_epi32(candidates_end), p));
    const __m256i lower = _mm256_cmpgt_epi32(*best_score, s);
    const __m256i equal = _mm256_and_si256(_mm256_cmpeq_epi32(*best_score, s), _mm256_cmpgt_epi32(p, *best_position));
    const __m256i take = _mm256_and_si256(candidate, _mm256_or_si256(lower, equal));
    const __m256i slots =
        _mm256_add_epi32(_mm256_set1_epi32(first_slot + 8 * half), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    *best_score = _mm256_blendv_epi8(*best_score, s, take);
    *best_position = _mm256_blendv_epi8(*best_position, p, take);
    *best_slot = _mm256_blendv_epi8(*best_slot, slots, take);
  }
  HYDRANT_SIMD void Visit(VictimSearch& best, F32x16 scores, const int32_t* positions, int32_t first_slot,
                          int64_t count, int32_t candidates_end) {
    const Mask16 valid = FirstN(count);
    VisitHalf(best, scores.lo, positions, 0, first_slot, valid.lo, candidates_end);
    VisitHalf(best, scores.hi, positions + 8, 1, first_slot, valid.hi, candidates_end);
  }
#endif

  // The slot of the overall best; -1 when there was no candidate.
  HYDRANT_SIMD int32_t Best(const VictimSearch& search) {
    alignas(64) int32_t scores[kLanes], positions[kLanes], slots[kLanes];
    __builtin_memcpy(scores, &search.score, sizeof(scores));
    __builtin_memcpy(positions, &search.position, sizeof(positions));
    __builtin_memcpy(slots, &search.slot, sizeof(slots));
    int best = 0;
    for (int i = 1; i < kLanes; ++i) {
      if (slots[i] < 0) continue;
      const bool better = scores[i] < scores[best] || (scores[i] == scores[best] && positions[i] > positions[best]);
      if (slots[best] < 0 || better) best = i;
    }
    return slots[best];
  }
};

// 0 below kScoreMin; a NaN stays one.
HYDRANT_SIMD F32x16 FlushScore(F32x16 score) { return Select(Less(score, Set(kScoreMin)), Zero(), score); }

// What the join does to the scores of 16 slots, with everything that does not change from block to block at hand.
template <bool kSquare>
struct ScoreUpdate {
  const DecodeJoin& join;
  int64_t heads;
  F32x16 decay, mean;
  VictimSearch search;

  explicit ScoreUpdate(const DecodeJoin& of)
      : join(of),
        heads(of.policy->gqa_reduce == GqaReduce::kFirst ? 1 : of.group),
        decay(Set(of.policy->decay)),
        mean(Set(of.policy->gqa_reduce == GqaReduce::kMean ? 1.0f / static_cast<float>(of.group) : 1.0f)) {}

  // Slots [16 block, 16 block + count); factor[h] turns the split's weights into probabilities.
  HYDRANT_SIMD void Block(ScoreUpdate& update, int64_t block, int64_t count, const float* factor) {
    const DecodeJoin& join = update.join;
    const ScoreView& view = join.scores;
    const int64_t score_at = view.score_table[block] * view.stride;
    float* at = join.draft_scores != nullptr ? join.draft_scores + block * kLanes : view.score + score_at;
    const F32x16 stored = Load(at);
    F32x16 score = update.join.pins_hold ? stored : Abs(stored);
    if (factor != nullptr) {
      const float* w = join.weights + block * kLanes;
      F32x16 sum = Zero();
      for (int64_t h = 0; h < update.heads; ++h) {
        const F32x16 weight = Load(w + h * join.weights_stride);
        if constexpr (kSquare) {
          const F32x16 p = weight * Set(factor[h]);
          sum = MulAdd(p, p, sum);
        } else {
          sum = MulAdd(weight, Set(factor[h]), sum);
        }
      }
      // Without the sign that a NaN may have: signs are pins.
      score = Abs(FlushScore(MulAdd(update.decay, Abs(stored), sum * update.mean)));
      if (join.pins_hold) score = WithSign(score, stored);
      if (join.first_seen > 0) score = Select(AtLeast(view.position + score_at, join.first_seen), score, Zero());
      if (count == kLanes) {
        Store(at, score);
      } else {
        StoreN(at, score, count);
      }
    }
    if (join.choose_victim) {
      VictimSearch::Visit(update.search, score, view.position + score_at, static_cast<int32_t>(block * kLanes), count,
                          join.candidates_end);
    }
  }
};

template <bool kSquare>
void ScoreAndChooseVictim(const DecodeJoin& join, const float* factor) {
  ScoreUpdate<kSquare> update(join);
  const bool scores = join.policy->scores();
  for (int32_t split = 0; split < join.splits; ++split) {
    const int64_t block_begin = int64_t{split} * (kDecodeSplitSlots / kLanes);
    const int64_t slot_end = DecodeSplitEnd(kDecodeSplitSlots, split, join.splits, join.live);
    const float* split_factor = scores ? factor + split * join.group : nullptr;
    for (int64_t block = block_begin; block < slot_end / kLanes; ++block) {
      ScoreUpdate<kSquare>::Block(update, block, kLanes, split_factor);
    }
    if (slot_end % kLanes != 0) {
      ScoreUpdate<kSquare>::Block(update, slot_end / kLanes, slot_end % kLanes, split_factor);
    }
  }
  if (join.choose_victim) {
    *join.victim = VictimSearch::Best(update.search);
    assert(*join.victim >= 0);
  }
}

void RunDecodeJoin(const DecodeJoin& join) {
  const int64_t group = join.group, head_dim = join.head_dim;
  const F32x16 exponent = Set(join.scale * kLog2E);
  // largest[split][h] becomes the factor from the split's weights to probabilities.
  for (int64_t h = 0; h < group; ++h) {
    float largest = join.largest[h];
    for (int64_t i = 1; i < join.splits; ++i) {
      const float other = join.largest[i * group + h];
      largest = other > largest ? other : largest;
    }
    float total = 0.0f;
    if (join.sinks != nullptr) {
      const float sink = SinkProduct(join.sinks[h], join.scale);
      largest = sink > largest ? sink : largest;
      total = SoftmaxWeight1(sink, largest, exponent);
    }
    for (int64_t i = 0; i < join.splits; ++i) {
      float* factor = &join.largest[i * group + h];
      *factor = SoftmaxWeight1(*factor, largest, exponent);
      total += *factor * join.total[i * group + h];
    }
    const float inverse = 1.0f / total;
    for (int64_t i = 0; i < join.splits; ++i) join.largest[i * group + h] *= inverse;

    float* out = join.out + h * head_dim;
    for (int64_t d = 0; d < head_dim; d += kLanes) {
      const int64_t n = head_dim - d < kLanes ? head_dim - d : kLanes;
      F32x16 sum = Zero();
      for (int64_t i = 0; i < join.splits; ++i) {
        sum = MulAdd(LoadN(join.split_out + (i * group + h) * head_dim + d, n), Set(join.largest[i * group + h]), sum);
      }
      StoreN(out + d, sum, n);
    }
  }
  if (!join.policy->evicts || !(join.policy->scores() || join.choose_victim)) return;
  if (join.policy->square) {
    ScoreAndChooseVictim<true>(join, join.largest);
  } else {
    ScoreAndChooseVictim<false>(join, join.largest);
  }
}

}  // namespace
}  // namespace hydrant::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_DECODE_H_
