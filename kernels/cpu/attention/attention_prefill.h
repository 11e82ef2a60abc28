// Prefill attention of one instruction set: 16 query rows, one after the other query head of a KV head's group, against
// every key they see. Two passes over the keys (products, then values) with the weights of one head in scratch; the tile of
// a row and the order of its sums follow from its slot alone, so chunking cannot change them. Keys of a rolling policy are
// rotated into scratch first, once for the whole group.
//
// For kernel families only (kernels/cpu/kernel_table.h has the rules): everything is in the family's own namespace.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_PREFILL_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_PREFILL_H_

#include <cassert>

#include "kernels/cpu/attention/attention_decode.h"
#include "kernels/cpu/attention/attention_kernels.h"
#include "kernels/cpu/attention/kv_tile.h"
#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

// Rows x chunks of accumulators that stay in registers.
#ifdef __AVX512F__
constexpr int kScoreRows = 8;
constexpr int kPrefillTiles = 2;
constexpr int kValueRows = 4;
constexpr int kValueChunks = 4;
#else
constexpr int kScoreRows = 4;
constexpr int kPrefillTiles = 1;
constexpr int kValueRows = 2;
constexpr int kValueChunks = 2;
#endif
static_assert(kLanes % kScoreRows == 0 && kLanes % kValueRows == 0);

// V tiles that are read once per group of rows: 8 tiles of 64 elements are 16 KiB in bf16, so they stay in L1 between groups.
constexpr int64_t kValueBlock = 8;
constexpr int64_t kTileWeights = kLanes * kLanes;

// The keys that products read: the cached ones or, under a rolling policy, rotated copies in fp32.
template <typename Cached, bool kRolling>
struct KeysOf {
  using Tile = Cached;
};
template <typename Cached>
struct KeysOf<Cached, true> {
  using Tile = F32Tile;
};

// A plain row group: products in fp32, whatever the cache holds.
template <typename TileT, bool kRollingT>
struct PlainMath {
  static constexpr bool kRolling = kRollingT;
  using Tile = TileT;
  using Keys = typename KeysOf<Tile, kRolling>::Tile;
  using Element = typename Tile::Element;
  using Key = typename Keys::Element;
  using Query = float;
  using Weight = float;

  // `rotated` [head_dim][16] becomes a tile of keys.
  HYDRANT_SIMD void StoreKeys(const float* rotated, int64_t head_dim, Key* k) {
    for (int64_t dim = 0; dim < head_dim; ++dim) Store(k + dim * kLanes, Load(rotated + dim * kLanes));
  }
  template <int kTiles>
  HYDRANT_SIMD void AddProducts(const Key* const* k, const Query* q, int64_t head_dim,
                                F32x16 (&acc)[kScoreRows][kTiles]) {
    for (int64_t i = 0; i < head_dim / 2; ++i) {
      VecPair pair[kTiles];
      for (int t = 0; t < kTiles; ++t) pair[t] = Keys::LoadK(k[t], i);
      for (int r = 0; r < kScoreRows; ++r) {
        const F32x16 q_even = Set(q[r * head_dim + 2 * i]), q_odd = Set(q[r * head_dim + 2 * i + 1]);
        for (int t = 0; t < kTiles; ++t) acc[r][t] = MulAdd(pair[t].first, q_even, acc[r][t]);
        for (int t = 0; t < kTiles; ++t) acc[r][t] = MulAdd(pair[t].second, q_odd, acc[r][t]);
      }
    }
  }
  // `weights` [rows][16] of one tile.
  template <int kChunks>
  HYDRANT_SIMD void AddValues(const Element* v, const Weight* weights, int64_t head_dim, int64_t dim,
                              F32x16 (&acc)[kValueRows][kChunks]) {
    for (int64_t i = 0; i < kLanes / 2; ++i) {
      VecPair pair[kChunks];
      for (int c = 0; c < kChunks; ++c) pair[c] = Tile::LoadV(v, head_dim, i, dim + c * kLanes);
      for (int r = 0; r < kValueRows; ++r) {
        const F32x16 w_even = Set(weights[r * kLanes + 2 * i]), w_odd = Set(weights[r * kLanes + 2 * i + 1]);
        for (int c = 0; c < kChunks; ++c) acc[r][c] = MulAdd(pair[c].first, w_even, acc[r][c]);
        for (int c = 0; c < kChunks; ++c) acc[r][c] = MulAdd(pair[c].second, w_odd, acc[r][c]);
      }
    }
  }
  HYDRANT_SIMD float WeightOf(Weight w) { return w; }
};

#ifdef __AVX512BF16__
// bf16 dot products: q, rotated keys and the weights are rounded to bf16, sums are fp32. Scores use the weights before
// rounding.
template <bool kRollingT>
struct Bf16Math {
  static constexpr bool kRolling = kRollingT;
  using Tile = Bf16Tile;
  using Keys = Bf16Tile;
  using Element = uint16_t;
  using Key = uint16_t;
  using Query = uint16_t;
  using Weight = uint16_t;

  HYDRANT_SIMD __m512bh Pairs(const uint16_t* p) { return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p)); }
  HYDRANT_SIMD __m512bh Broadcast(const uint16_t* p) {
    int pair;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }

  HYDRANT_SIMD void StoreKeys(const float* rotated, int64_t head_dim, Key* k) {
    for (int64_t dim = 0; dim < head_dim; dim += 2) {
      const __m512i even = _mm512_srli_epi32(RoundBf16Bits(Load(rotated + dim * kLanes)), 16);
      const __m512i odd = RoundBf16Bits(Load(rotated + (dim + 1) * kLanes));
      _mm512_storeu_si512(k + dim * kLanes, _mm512_or_si512(even, odd));
    }
  }
  template <int kTiles>
  HYDRANT_SIMD void AddProducts(const Key* const* k, const Query* q, int64_t head_dim,
                                F32x16 (&acc)[kScoreRows][kTiles]) {
    for (int64_t i = 0; i < head_dim / 2; ++i) {
      __m512bh keys[kTiles];
      for (int t = 0; t < kTiles; ++t) keys[t] = Pairs(k[t] + 32 * i);
      for (int r = 0; r < kScoreRows; ++r) {
        const __m512bh pair = Broadcast(q + r * head_dim + 2 * i);
        for (int t = 0; t < kTiles; ++t) acc[r][t].v = _mm512_dpbf16_ps(acc[r][t].v, keys[t], pair);
      }
    }
  }
  template <int kChunks>
  HYDRANT_SIMD void AddValues(const Element* v, const Weight* weights, int64_t head_dim, int64_t dim,
                              F32x16 (&acc)[kValueRows][kChunks]) {
    for (int64_t i = 0; i < kLanes / 2; ++i) {
      __m512bh values[kChunks];
      for (int c = 0; c < kChunks; ++c) values[c] = Pairs(v + 2 * (i * head_dim + dim + c * kLanes));
      for (int r = 0; r < kValueRows; ++r) {
        const __m512bh pair = Broadcast(weights + r * kLanes + 2 * i);
        for (int c = 0; c < kChunks; ++c) acc[r][c].v = _mm512_dpbf16_ps(acc[r][c].v, values[c], pair);
      }
    }
  }
  HYDRANT_SIMD float WeightOf(Weight w) { return Bf16ToFloat(w); }
};
#endif

// Where things lie in PrefillTile::scratch.
struct PrefillScratch {
  float* weights;    // [tiles][16 rows][16 slots]
  uint16_t* packed;  // the same in bf16
  std::byte* q;      // [16][head_dim] of Query
  float* out;        // [16][head_dim]
  std::byte* keys;   // [tiles][16 head_dim] of Key, rotated; rolling policies only
};

HYDRANT_SIMD PrefillScratch Carve(const PrefillTile& work) {
  const int64_t tiles = work.tile + 1, head_dim = work.tiles.head_dim;
  const int64_t rows_bytes = (kLanes * head_dim * 4 + 63) / 64 * 64;
  std::byte* p = work.scratch;
  PrefillScratch scratch;
  scratch.weights = reinterpret_cast<float*>(p);
  p += tiles * kTileWeights * 4;
  scratch.packed = reinterpret_cast<uint16_t*>(p);
  p += tiles * kTileWeights * 2;
  scratch.q = p;
  scratch.out = reinterpret_cast<float*>(p + rows_bytes);
  scratch.keys = p + 2 * rows_bytes;
  return scratch;
}

HYDRANT_SIMD void StoreQuery(float* q, float x) { *q = x; }
HYDRANT_SIMD void StoreQuery(uint16_t* q, float x) {
  alignas(32) uint16_t rounded[kLanes];
  StoreBf16(rounded, Set(x));
  *q = rounded[0];
}

// The head's query rows, zero where the tile has none.
template <typename Query>
void PackQuery(const PrefillTile& work, int64_t head, Query* q) {
  const int64_t head_dim = work.tiles.head_dim;
  for (int64_t r = 0; r < kLanes; ++r) {
    const bool present = r >= work.row_begin && r < work.row_end;
    const float* source = work.q + (present ? r - work.row_begin : 0) * work.q_stride + head * head_dim;
    int64_t d = 0;
    if constexpr (sizeof(Query) == 2) {
      for (; d + kLanes <= head_dim; d += kLanes) {
        StoreBf16(q + r * head_dim + d, present ? Load(source + d) : Zero());
      }
    }
    for (; d < head_dim; ++d) StoreQuery(q + r * head_dim + d, present ? source[d] : 0.0f);
  }
}

// Every key that the rows see, rotated to its rank.
template <typename Math>
void RotateKeys(const PrefillTile& work) {
  const int64_t head_dim = work.tiles.head_dim;
  auto* keys = reinterpret_cast<typename Math::Key*>(Carve(work).keys);
  for (int64_t tile = work.tile_begin; tile <= work.tile; ++tile) {
    RotatedTile rotated;
    RotateTile<typename Math::Tile>(TileOf<typename Math::Tile>(work.tiles.k, work.tiles, tile), work.rope,
                                    PositionsOf(work.scores, tile), tile == work.tile ? work.row_end : kLanes, head_dim,
                                    rotated.key);
    Math::StoreKeys(rotated.key, head_dim, keys + tile * kLanes * head_dim);
  }
}

template <typename Math, int kTiles>
HYDRANT_SIMD void ScoreRows(const PrefillTile& work, const PrefillScratch& scratch, const typename Math::Query* q,
                            int64_t first_tile) {
  float* weights = scratch.weights;
  const typename Math::Key* k[kTiles];
  for (int t = 0; t < kTiles; ++t) {
    if constexpr (Math::kRolling) {
      k[t] =
          reinterpret_cast<const typename Math::Key*>(scratch.keys) + (first_tile + t) * kLanes * work.tiles.head_dim;
    } else {
      k[t] = TileOf<typename Math::Tile>(work.tiles.k, work.tiles, first_tile + t);
    }
  }
  for (int64_t row = 0; row < kLanes; row += kScoreRows) {
    if (row + kScoreRows <= work.row_begin || row >= work.row_end) continue;
    F32x16 acc[kScoreRows][kTiles];
    for (int r = 0; r < kScoreRows; ++r) {
      for (int t = 0; t < kTiles; ++t) acc[r][t] = Zero();
    }
    Math::template AddProducts<kTiles>(k, q + row * work.tiles.head_dim, work.tiles.head_dim, acc);
    for (int t = 0; t < kTiles; ++t) {
      for (int r = 0; r < kScoreRows; ++r) {
        Store(weights + (first_tile + t) * kTileWeights + (row + r) * kLanes, Math::Keys::Scaled(k[t], acc[r][t]));
      }
    }
  }
}

HYDRANT_SIMD void PackWeights(uint16_t* p, F32x16 weights) {
#ifdef __AVX512BF16__
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(weights.v)));
#else
  StoreBf16(p, weights);
#endif
}

// Slots behind the window of a row get the logit of one that is not there.
HYDRANT_SIMD void HideSlots(const PrefillTile& work, float* weights) {
  for (int64_t tile = work.tile_begin; tile <= work.tile; ++tile) {
    const int32_t* positions = PositionsOf(work.scores, tile);
    for (int32_t r = work.row_begin; r < work.row_end; ++r) {
      float* w = weights + tile * kTileWeights + r * kLanes;
      Store(w, Select(AtLeast(positions, work.first_seen + r), Load(w), Set(kHidden)));
    }
  }
}

// weights = exp((q k - row's largest) * scale), 0 where the causal mask or a window hides the slot; inverse[r] = 1 / row's sum.
// A sink counts in both.
template <bool kPacked>
HYDRANT_SIMD void Softmax(const PrefillTile& work, int64_t head, float* weights, uint16_t* packed, float* inverse) {
  const F32x16 nothing = Set(kHidden), factor = Set(work.scale * kLog2E);
  float* diagonal = weights + work.tile * kTileWeights;
  if (work.cap > 0.0f) {
    CapProducts(work.cap, work.tile + 1 - work.tile_begin, (work.row_end - work.row_begin) * kLanes, kTileWeights,
                weights + work.tile_begin * kTileWeights + work.row_begin * kLanes);
  }
  for (int64_t r = work.row_begin; r < work.row_end; ++r) {
    Store(diagonal + r * kLanes, Select(FirstN(r + 1), Load(diagonal + r * kLanes), nothing));
  }
  if (work.first_seen + work.row_end > 1) HideSlots(work, weights);
  F32x16 largest[kLanes], total[kLanes];
  for (int64_t r = 0; r < kLanes; ++r) {
    largest[r] = nothing;
    total[r] = Zero();
  }
  for (int64_t tile = work.tile_begin; tile <= work.tile; ++tile) {
    const float* w = weights + tile * kTileWeights;
    for (int64_t r = work.row_begin; r < work.row_end; ++r) largest[r] = Max(largest[r], Load(w + r * kLanes));
  }
  const bool sinks = work.sinks != nullptr;
  const float sink = sinks ? SinkProduct(work.sinks[head], work.scale) : kHidden;
  float most[kLanes];
  for (int64_t r = work.row_begin; r < work.row_end; ++r) {
    most[r] = ReduceMax(largest[r]);
    most[r] = sink > most[r] ? sink : most[r];
    largest[r] = Set(most[r]);
  }
  for (int64_t tile = work.tile_begin; tile <= work.tile; ++tile) {
    float* w = weights + tile * kTileWeights;
    for (int64_t r = work.row_begin; r < work.row_end; ++r) {
      const F32x16 e = SoftmaxWeight(Load(w + r * kLanes), largest[r], factor);
      Store(w + r * kLanes, e);
      if constexpr (kPacked) PackWeights(packed + tile * kTileWeights + r * kLanes, e);
      total[r] = total[r] + e;
    }
  }
  for (int64_t r = work.row_begin; r < work.row_end; ++r) {
    float sum = ReduceAdd(total[r]);
    if (sinks) sum += SoftmaxWeight1(sink, most[r], factor);
    inverse[r] = 1.0f / sum;
  }
}

// column_sums += over the rows, in order: probability (squared when the policy says so) times the row's weight.
template <bool kSquare>
HYDRANT_SIMD void AddColumns(const PrefillTile& work, const float* weights, const float* inverse,
                             const float* row_weights, float* column_sums) {
  float factor[kLanes];  // from a weight to the row's share, unless squares come between
  for (int64_t r = work.row_begin; r < work.row_end; ++r) factor[r] = inverse[r] * (kSquare ? 1.0f : row_weights[r]);
  for (int64_t tile = work.tile_begin; tile <= work.tile; ++tile) {
    const float* w = weights + tile * kTileWeights;
    F32x16 sum = Load(column_sums + tile * kLanes);
    for (int64_t r = work.row_begin; r < work.row_end; ++r) {
      if constexpr (kSquare) {
        const F32x16 p = Load(w + r * kLanes) * Set(factor[r]);
        sum = MulAdd(p * p, Set(row_weights[r]), sum);
      } else {
        sum = MulAdd(Load(w + r * kLanes), Set(factor[r]), sum);
      }
    }
    Store(column_sums + tile * kLanes, sum);
  }
}

// The weights become those of the values as they are stored: scales of values are part of them.
template <typename Math>
HYDRANT_SIMD void ScaleWeights(const PrefillTile& work, float* weights) {
  for (int64_t tile = work.tile_begin; tile <= work.tile; ++tile) {
    const auto* v = TileOf<typename Math::Tile>(work.tiles.v, work.tiles, tile);
    float* w = weights + tile * kTileWeights;
    for (int64_t r = work.row_begin; r < work.row_end; ++r) {
      Store(w + r * kLanes, Math::Tile::Scaled(v, Load(w + r * kLanes)));
    }
  }
}

template <typename Math, int kChunks>
HYDRANT_SIMD void SumRows(const PrefillTile& work, const typename Math::Weight* weights, int64_t tile_begin,
                          int64_t tile_end, int64_t dim, float* out) {
  const int64_t head_dim = work.tiles.head_dim;
  for (int64_t row = 0; row < kLanes; row += kValueRows) {
    if (row + kValueRows <= work.row_begin || row >= work.row_end) continue;
    F32x16 acc[kValueRows][kChunks];
    for (int r = 0; r < kValueRows; ++r) {
      for (int c = 0; c < kChunks; ++c) {
        acc[r][c] = tile_begin == work.tile_begin ? Zero() : Load(out + (row + r) * head_dim + dim + c * kLanes);
      }
    }
    for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
      Math::template AddValues<kChunks>(TileOf<typename Math::Tile>(work.tiles.v, work.tiles, tile),
                                        weights + tile * kTileWeights + row * kLanes, head_dim, dim, acc);
    }
    for (int r = 0; r < kValueRows; ++r) {
      for (int c = 0; c < kChunks; ++c) Store(out + (row + r) * head_dim + dim + c * kLanes, acc[r][c]);
    }
  }
}

// The last head_dim % 16 elements of every row.
template <typename Math>
void SumRowTails(const PrefillTile& work, const typename Math::Weight* weights, int64_t dim, float* out) {
  const int64_t head_dim = work.tiles.head_dim;
  for (int64_t r = work.row_begin; r < work.row_end; ++r) {
    for (int64_t d = dim; d < head_dim; ++d) {
      float sum = 0.0f;
      for (int64_t tile = work.tile_begin; tile <= work.tile; ++tile) {
        const auto* v = TileOf<typename Math::Tile>(work.tiles.v, work.tiles, tile);
        for (int64_t s = 0; s < kLanes; ++s) {
          sum += Math::WeightOf(weights[tile * kTileWeights + r * kLanes + s]) * Math::Tile::V1(v, head_dim, s, d);
        }
      }
      out[r * head_dim + d] = sum;
    }
  }
}

template <typename Math>
void PrefillHead(const PrefillTile& work, int64_t head) {
  constexpr bool kPacked = sizeof(typename Math::Weight) == 2;
  const int64_t head_dim = work.tiles.head_dim, tiles = work.tile + 1;
  const PrefillScratch scratch = Carve(work);
  auto* q = reinterpret_cast<typename Math::Query*>(scratch.q);
  PackQuery(work, head, q);
  int64_t tile = work.tile_begin;
  for (; tile + kPrefillTiles <= tiles; tile += kPrefillTiles) {
    ScoreRows<Math, kPrefillTiles>(work, scratch, q, tile);
  }
  for (; tile < tiles; ++tile) ScoreRows<Math, 1>(work, scratch, q, tile);

  float inverse[kLanes];
  Softmax<kPacked>(work, head, scratch.weights, scratch.packed, inverse);
  if (work.row_weights != nullptr && (head == 0 || work.policy->gqa_reduce != GqaReduce::kFirst)) {
    if (work.policy->square) {
      AddColumns<true>(work, scratch.weights, inverse, work.row_weights, work.column_sums);
    } else {
      AddColumns<false>(work, scratch.weights, inverse, work.row_weights, work.column_sums);
    }
  }
  if (work.pin_weights != nullptr) AddColumns<true>(work, scratch.weights, inverse, work.pin_weights, work.pin_sums);

  const typename Math::Weight* weights;
  if constexpr (Math::Tile::kScaled) ScaleWeights<Math>(work, scratch.weights);
  if constexpr (kPacked) {
    weights = scratch.packed;
  } else {
    weights = scratch.weights;
  }
  int64_t dim = 0;
  for (int64_t begin = work.tile_begin; begin < tiles; begin += kValueBlock) {
    const int64_t end = begin + kValueBlock < tiles ? begin + kValueBlock : tiles;
    for (dim = 0; dim + kValueChunks * kLanes <= head_dim; dim += kValueChunks * kLanes) {
      SumRows<Math, kValueChunks>(work, weights, begin, end, dim, scratch.out);
    }
    for (; dim + kLanes <= head_dim; dim += kLanes) SumRows<Math, 1>(work, weights, begin, end, dim, scratch.out);
  }
  if (dim < head_dim) SumRowTails<Math>(work, weights, dim, scratch.out);

  for (int64_t r = work.row_begin; r < work.row_end; ++r) {
    float* out = work.out + (r - work.row_begin) * work.out_stride + head * head_dim;
    for (int64_t d = 0; d < head_dim; d += kLanes) {
      const int64_t n = head_dim - d < kLanes ? head_dim - d : kLanes;
      StoreN(out + d, LoadN(scratch.out + r * head_dim + d, n) * Set(inverse[r]), n);
    }
  }
}

template <typename Math>
void PrefillHeads(const PrefillTile& work) {
  if constexpr (Math::kRolling) RotateKeys<Math>(work);
  for (int64_t head = 0; head < work.group; ++head) PrefillHead<Math>(work, head);
}

template <bool kRolling>
void PrefillHeadsOfType(const PrefillTile& work) {
  switch (work.tiles.type) {
    case KvType::kF32:
      return PrefillHeads<PlainMath<F32Tile, kRolling>>(work);
    case KvType::kF16:
      return PrefillHeads<PlainMath<F16Tile, kRolling>>(work);
    case KvType::kBF16:
#ifdef __AVX512BF16__
      return PrefillHeads<Bf16Math<kRolling>>(work);
#else
      return PrefillHeads<PlainMath<Bf16Tile, kRolling>>(work);
#endif
    case KvType::kInt8:
      return PrefillHeads<PlainMath<Int8Tile, kRolling>>(work);
  }
}

void RunPrefillTile(const PrefillTile& work) {
  assert(0 <= work.row_begin && work.row_begin < work.row_end && work.row_end <= kLanes && work.scale > 0.0f);
  if (work.row_weights != nullptr) {
    for (int64_t tile = 0; tile <= work.tile; ++tile) Store(work.column_sums + tile * kLanes, Zero());
  }
  if (work.rope.table != nullptr) {
    PrefillHeadsOfType<true>(work);
  } else {
    PrefillHeadsOfType<false>(work);
  }
  if (work.row_weights != nullptr && work.policy->gqa_reduce == GqaReduce::kMean) {
    const F32x16 mean = Set(1.0f / static_cast<float>(work.group));
    for (int64_t tile = work.tile_begin; tile <= work.tile; ++tile) {
      Store(work.column_sums + tile * kLanes, Load(work.column_sums + tile * kLanes) * mean);
    }
  }
}

}  // namespace
}  // namespace hydrant::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_PREFILL_H_
