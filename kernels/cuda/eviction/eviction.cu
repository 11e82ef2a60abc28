#include <algorithm>
#include <bit>
#include <cassert>
#include <type_traits>
#include <vector>

#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/attention/prompt_tiles.cuh"
#include "kernels/cuda/eviction/eviction.h"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/select.cuh"

namespace hydrant::cuda {
namespace {

constexpr uint32_t kThreads = 256;
// A cut of a long prompt is much work for one block, one of a few thousand slots is none.
constexpr uint32_t kCutThreads = 1024;
constexpr int32_t kFewSlots = 4096;

int64_t SortSize(int32_t slots) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint32_t>(slots))); }

// Smaller is better: score descending, then position ascending. The bits of scores order as numbers do; a NaN, too, has its place, and
// what is pinned, which is the sign, comes before all.
__device__ uint64_t RankKey(float score, int32_t position) {
  return (uint64_t{~__float_as_uint(score)} << 32) | static_cast<uint32_t>(position);
}

__device__ float ScoreOf(uint64_t key) { return WithoutPin(__uint_as_float(~static_cast<uint32_t>(key >> 32))); }

// --- cuts ---------------------------------------------------------------------------------------------------------------

struct CutScratch {
  uint64_t* keys;  // [SortSize(slots)]
  float* pooled;   // [slots]; then holes and movers, of which there are as many as slots at most
};

// A recent slot's: no candidate has it.
constexpr uint64_t kRecentKey = ~uint64_t{0};

struct CutPair {
  const Cut& cut;
  HeadCache cache;
  const float* pooled;  // null: the stored scores count

  __device__ bool Recent(int64_t slot) const {
    return cache.kv.position[cache.ScoreAt(slot)] >= cut.position_end - cut.policy.recent;
  }
  __device__ uint64_t Key(int64_t slot) const {
    const int64_t at = cache.ScoreAt(slot);
    return RankKey(pooled != nullptr ? pooled[slot] : cache.kv.score[at], cache.kv.position[at]);
  }
};

// Puts (position, slot) of the wanted slots into `keys` in the order of positions and returns their number.
template <typename Wanted>
__device__ int64_t OrderByPosition(const HeadCache& cache, int64_t slots, Wanted wanted, uint64_t* keys) {
  const int64_t count = Compact(slots, wanted, [&](int64_t n, int64_t slot) {
    keys[n] =
        (uint64_t{static_cast<uint32_t>(cache.kv.position[cache.ScoreAt(slot)])} << 32) | static_cast<uint32_t>(slot);
  });
  __syncthreads();
  int unsorted = 0;  // a prompt's slots mostly are in order
  for (int64_t i = threadIdx.x; i + 1 < count; i += blockDim.x) unsorted |= keys[i] > keys[i + 1] ? 1 : 0;
  if (BlockReduce(unsorted, Largest(), 0) == 0) return count;
  int64_t size = 1;
  while (size < count) size *= 2;
  for (int64_t i = count + threadIdx.x; i < size; i += blockDim.x) keys[i] = ~uint64_t{0};
  SortKeys(keys, size);
  return count;
}

// Every candidate's pooled score is the largest of those at most `reach` candidates away, by position.
__device__ void MaxPool(const CutPair& pair, const CutScratch& scratch) {
  const auto candidate = [&](int64_t slot) { return !pair.Recent(slot); };
  const int64_t count = OrderByPosition(pair.cache, pair.cut.live_from, candidate, scratch.keys);
  const auto score = [&](int64_t i) -> float& {
    return pair.cache.kv.score[pair.cache.ScoreAt(static_cast<uint32_t>(scratch.keys[i]))];
  };
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int64_t begin = i > pair.cut.reach ? i - pair.cut.reach : 0;
    const int64_t end = i + pair.cut.reach + 1 < count ? i + pair.cut.reach + 1 : count;
    float largest = score(begin);
    for (int64_t j = begin + 1; j < end; ++j) largest = largest < score(j) ? score(j) : largest;
    scratch.pooled[static_cast<uint32_t>(scratch.keys[i])] = largest;
  }
  __syncthreads();
  if (pair.cut.policy.store_pooled) {
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      score(i) = scratch.pooled[static_cast<uint32_t>(scratch.keys[i])];
    }
  }
  __syncthreads();
}

// Keys [live_from] of the slots; returns how many are recent.
__device__ int64_t KeysOf(const CutPair& pair, uint64_t* keys) {
  constexpr int kAhead = 4;  // slots that are on their way at once
  const int64_t step = blockDim.x, live = pair.cut.live_from;
  int64_t recent = 0;
  for (int64_t first = threadIdx.x; first < live; first += kAhead * step) {
    uint64_t own[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int64_t slot = first + j * step;
      if (slot < live) own[j] = pair.Recent(slot) ? kRecentKey : pair.Key(slot);
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int64_t slot = first + j * step;
      if (slot >= live) continue;
      keys[slot] = own[j];
      recent += own[j] == kRecentKey ? 1 : 0;
    }
  }
  return BlockReduce(recent, Sum(), int64_t{0});
}

// Pieces of a slot's key and value, the largest of `Piece` that both are multiples of.
template <typename T, typename Piece>
__device__ void MovePieces(const HeadCache& cache, const int32_t* movers, const int32_t* holes, int32_t moves) {
  constexpr int kAhead = 4;
  const auto of_tile = static_cast<int32_t>(cache.kv.layout.head_dim * sizeof(T) / sizeof(Piece));
  const int64_t all = int64_t{moves} * 2 * of_tile, step = blockDim.x;
  const auto place = [&](const int32_t* slots, int64_t i) {
    const auto piece = static_cast<int32_t>(i % (2 * of_tile));
    void* tiles = piece < of_tile ? cache.kv.k : cache.kv.v;
    return reinterpret_cast<Piece*>(cache.At<T>(tiles, slots[i / (2 * of_tile)])) + piece % of_tile;
  };
  // No slot is both a mover and a hole, so that the order does not matter.
  for (int64_t first = threadIdx.x; first < all; first += kAhead * step) {
    Piece pieces[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (first + j * step < all) pieces[j] = *place(movers, first + j * step);
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (first + j * step < all) *place(holes, first + j * step) = pieces[j];
    }
  }
}

// The slots `movers` to where `holes` are.
template <typename T>
__device__ void MoveSlots(const HeadCache& cache, const int32_t* movers, const int32_t* holes, int32_t moves) {
  const KvCacheView& kv = cache.kv;
  if (kv.layout.head_dim * sizeof(T) % sizeof(uint4) == 0) {
    MovePieces<T, uint4>(cache, movers, holes, moves);
  } else {
    MovePieces<T, T>(cache, movers, holes, moves);
  }
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < moves; i += blockDim.x) {
    if constexpr (std::is_same_v<T, int8_t>) {
      for (void* tiles : {kv.k, kv.v}) *cache.ScaleAt(tiles, holes[i]) = *cache.ScaleAt(tiles, movers[i]);
    }
    const int64_t from = cache.ScoreAt(movers[i]), to = cache.ScoreAt(holes[i]);
    kv.score[to] = kv.score[from];
    kv.position[to] = kv.position[from];
    if (kv.logical_position != nullptr) kv.logical_position[to] = kv.logical_position[from];
  }
}

template <typename T>
__device__ void CutOne(const Cut& cut, const HeadCache& cache, const CutScratch& scratch) {
  const bool pools = cut.reach > 0;
  const CutPair pair = {cut, cache, pools ? scratch.pooled : nullptr};
  if (pools) MaxPool(pair, scratch);

  const int64_t recent = KeysOf(pair, scratch.keys), heavy = cut.live_to - recent;
  assert(heavy >= 0 && heavy < cut.live_from - recent);
  uint64_t worst_kept = 0;
  if (heavy > 0) {
    worst_kept =
        SelectNth(cut.live_from, static_cast<uint32_t>(heavy), [&](int64_t slot) { return scratch.keys[slot]; });
  }
  const auto survives = [&](int64_t slot) {
    const uint64_t key = scratch.keys[slot];
    return key == kRecentKey || (heavy > 0 && key <= worst_kept);
  };

  // Holes below the cut and survivors above it, as many of each, both ascending.
  const int32_t above = cut.live_from - cut.live_to;
  int32_t* holes = reinterpret_cast<int32_t*>(scratch.pooled);  // the keys have the pooled scores
  int32_t* movers = holes + (above < cut.live_to ? above : cut.live_to);
  __syncthreads();
  Compact(
      cut.live_to, [&](int64_t slot) { return !survives(slot); },
      [&](int64_t n, int64_t slot) { holes[n] = static_cast<int32_t>(slot); });
  const int64_t moves = Compact(
      above, [&](int64_t i) { return survives(cut.live_to + i); },
      [&](int64_t n, int64_t i) { movers[n] = static_cast<int32_t>(cut.live_to + i); });
  __syncthreads();
  MoveSlots<T>(cache, movers, holes, static_cast<int32_t>(moves));
  __syncthreads();
  if (!cut.policy.rolling) return;
  OrderByPosition(
      cache, cut.live_to, [](int64_t) { return true; }, scratch.keys);
  for (int64_t rank = threadIdx.x; rank < cut.live_to; rank += blockDim.x) {
    cache.kv.position[cache.ScoreAt(static_cast<uint32_t>(scratch.keys[rank]))] = static_cast<int32_t>(rank);
  }
  __syncthreads();
}

__device__ CutScratch ScratchOfBlock(std::byte* scratch, int32_t slots_max, int64_t sort_size) {
  const int64_t bytes = sort_size * static_cast<int64_t>(sizeof(uint64_t)) + int64_t{slots_max} * sizeof(float);
  auto* keys = reinterpret_cast<uint64_t*>(scratch + blockIdx.x * bytes);
  return {keys, reinterpret_cast<float*>(keys + sort_size)};
}

template <typename T>
__global__ void __launch_bounds__(kCutThreads) CutKernel(const Cut* cuts, int32_t count, int32_t slots_max,
                                                         int64_t sort_size, std::byte* scratch, KvCacheView kv) {
  AwaitEarlier();
  const CutScratch of_block = ScratchOfBlock(scratch, slots_max, sort_size);
  const int32_t pairs = kv.layout.layers * kv.layout.kv_heads;
  for (int64_t i = blockIdx.x; i < int64_t{count} * pairs; i += gridDim.x) {
    const Cut& cut = cuts[i / pairs];
    if (cut.live_from <= cut.live_to) continue;
    const auto pair = static_cast<int32_t>(i % pairs);
    const HeadCache cache = {kv, cut.blocks, cut.score_blocks, pair / kv.layout.kv_heads, pair % kv.layout.kv_heads};
    CutOne<T>(cut, cache, of_block);
    __syncthreads();
  }
}

// --- pins ---------------------------------------------------------------------------------------------------------------

// The candidates of one (row, KV head) by position, in the segments that the row divides its text into.
struct Segments {
  const uint64_t* by_position;  // [count]: OrderByPosition's
  const int32_t* starts;        // DeviceRow::segment_starts

  __device__ int32_t Position(int64_t i) const { return static_cast<int32_t>(by_position[i] >> 32); }
  __device__ int32_t Slot(int64_t i) const { return static_cast<int32_t>(by_position[i] & 0xffffffffu); }
  // Whether a segment begins behind candidate i - 1 and not behind i.
  __device__ bool Begins(int64_t i) const {
    if (i == 0) return true;
    for (int32_t from = Position(i - 1) + 1, to = Position(i); from <= to;) {
      const int32_t bit = from % 32, bits = min(32 - bit, to + 1 - from);
      const uint32_t mask = bits == 32 ? ~0u : ((1u << bits) - 1) << bit;
      if ((static_cast<uint32_t>(starts[from / 32]) & mask) != 0) return true;
      from += bits;
    }
    return false;
  }
  __device__ int64_t FirstOf(int64_t i) const {
    while (!Begins(i)) --i;
    return i;
  }
};

// `sums` [live] by slot; then A' by candidate.
__device__ void ChooseOf(const DeviceRow& row, const int32_t* starts, const HeadCache& cache, int32_t first_seen,
                         float* sums, const CutScratch& scratch) {
  const KvCacheView& kv = cache.kv;
  const int32_t end = row.prompt_length - row.policy.recent;
  const int64_t count = OrderByPosition(
      cache, row.live_after,
      [&](int64_t slot) {
        const int32_t position = kv.position[cache.ScoreAt(slot)];
        return position >= first_seen && position < end;
      },
      scratch.keys);
  const int32_t pins = static_cast<int32_t>(count < row.pins ? count : row.pins);
  if (pins <= 0) return;
  const Segments segments = {scratch.keys, starts};
  float* of = scratch.pooled;  // A of a candidate; of a segment's first one then the largest of them all
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int32_t slot = segments.Slot(i);
    of[i] = WithoutPin(PinScore(sums[slot], kv.score[cache.ScoreAt(slot)], segments.Position(i), row.prompt_length));
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    if (!segments.Begins(i)) continue;
    float largest = of[i];
    for (int64_t next = i + 1; next < count && !segments.Begins(next); ++next) {
      largest = largest < of[next] ? of[next] : largest;
    }
    of[i] = largest;
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int64_t first = segments.FirstOf(i);
    const float before = first > 0 ? kBehind * of[segments.FirstOf(first - 1)] : 0.0f;
    sums[i] = of[first] < before ? before : of[first];
  }
  __syncthreads();
  // The candidates' numbers are in the order of positions.
  const auto key = [&](int64_t i) { return RankKey(sums[i], static_cast<int32_t>(i)); };
  const uint64_t last = SelectNth(count, static_cast<uint32_t>(pins), key);
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    if (key(i) > last) continue;
    float& score = kv.score[cache.ScoreAt(segments.Slot(i))];
    score = WithPin(score);
  }
}

__global__ void __launch_bounds__(kCutThreads)
    ChoosePinsKernel(StepView step, int32_t layer, int32_t window, const int32_t* rows, int32_t count,
                     int32_t slots_max, int64_t sort_size, std::byte* scratch, float* pin_sums, KvCacheView kv) {
  AwaitEarlier();
  const CutScratch of_block = ScratchOfBlock(scratch, slots_max, sort_size);
  for (int64_t i = blockIdx.x; i < int64_t{count} * kv.layout.kv_heads; i += gridDim.x) {
    const DeviceRow& row = step.rows[rows[i / kv.layout.kv_heads]];
    const auto head = static_cast<int32_t>(i % kv.layout.kv_heads);
    ChooseOf(row, step.tables + row.segment_starts, CacheOf(step, row, kv, layer, head),
             FirstSeen(row, window, row.token_count - 1), PinSums(row, head, pin_sums), of_block);
    __syncthreads();
  }
}

// --- losses -------------------------------------------------------------------------------------------------------------

// How much of a cut stays: of slots in the order of their keys, by one warp.
__device__ double KeptOf(const Weighing& cut, const LossCase& loss, bool weighs_slots, const uint64_t* keys) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const int32_t first_recent = loss.position_end - cut.recent;
  const auto recent = [&](int32_t i) { return static_cast<int32_t>(keys[i] & 0xffffffffu) >= first_recent; };
  int32_t own = 0;
  for (int32_t i = lane; i < loss.live; i += kWarp) own += recent(i) ? 1 : 0;
  const int32_t heavy = cut.keep - WarpReduce(own, Sum());
  int32_t better = 0;  // candidates
  double kept = 0.0;
  for (int32_t first = 0; first < loss.live; first += kWarp) {
    const int32_t i = first + lane;
    const bool candidate = i < loss.live && !recent(i);
    const uint32_t all = __ballot_sync(kAllLanes, candidate ? 1 : 0);
    const bool stays = candidate ? better + __popc(all & ((1u << lane) - 1)) < heavy : i < loss.live;
    if (stays) kept += weighs_slots ? 1.0 : static_cast<double>(ScoreOf(keys[i]));
    better += __popc(all);
  }
  return WarpReduce(kept, Sum());
}

// The same of more slots than a block can order, by a block.
__device__ double KeptOfMany(const Weighing& cut, const LossCase& loss, bool weighs_slots, const HeadCache& cache) {
  const KvCacheView& kv = cache.kv;
  const auto key = [&](int64_t slot) {
    const int64_t at = cache.ScoreAt(slot);
    return kv.position[at] >= loss.position_end - cut.recent ? kRecentKey : RankKey(kv.score[at], kv.position[at]);
  };
  int64_t count = 0;
  for (int64_t slot = threadIdx.x; slot < loss.live; slot += blockDim.x) count += key(slot) == kRecentKey ? 1 : 0;
  const int64_t heavy = cut.keep - BlockReduce(count, Sum(), int64_t{0});
  uint64_t worst_kept = 0;
  if (heavy > 0) worst_kept = SelectNth(loss.live, static_cast<uint32_t>(heavy), key);
  double kept = 0.0;
  for (int64_t slot = threadIdx.x; slot < loss.live; slot += blockDim.x) {
    const uint64_t own = key(slot);
    if (own != kRecentKey && (heavy <= 0 || own > worst_kept)) continue;
    kept += weighs_slots ? 1.0 : static_cast<double>(WithoutPin(kv.score[cache.ScoreAt(slot)]));
  }
  return BlockReduce(kept, Sum(), 0.0);
}

__global__ void __launch_bounds__(kThreads) LossKernel(LossCase loss, KvCacheView kv) {
  AwaitEarlier();
  __shared__ uint64_t keys[kFewSlots];
  const auto pair = static_cast<int32_t>(blockIdx.x);
  const HeadCache cache = {kv, nullptr, loss.score_blocks, pair / kv.layout.kv_heads, pair % kv.layout.kv_heads};
  constexpr double kFinite = 1e300;
  const bool ordered = loss.live <= kFewSlots;
  double own = 0.0;
  for (int64_t slot = threadIdx.x; slot < loss.live; slot += blockDim.x) {
    const int64_t at = cache.ScoreAt(slot);
    own += static_cast<double>(WithoutPin(kv.score[at]));
    if (ordered) keys[slot] = RankKey(kv.score[at], kv.position[at]);
  }
  double total = BlockReduce(own, Sum(), 0.0);
  const bool weighs_slots = !loss.scores || !(total > 0.0) || total > kFinite;
  if (weighs_slots) total = loss.live;
  if (ordered) {
    int32_t size = 1;
    while (size < loss.live) size *= 2;
    for (int32_t i = loss.live + static_cast<int32_t>(threadIdx.x); i < size; i += blockDim.x) keys[i] = ~uint64_t{0};
    SortKeys(keys, size);
  }
  const uint32_t warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp;
  for (int32_t i = ordered ? static_cast<int32_t>(warp) : 0; i < loss.cut_count; i += ordered ? warps : 1) {
    const Weighing& cut = loss.cuts[i];
    double lost = 0.0;
    if (cut.keep < loss.live) {
      const double kept = ordered ? KeptOf(cut, loss, weighs_slots, keys) : KeptOfMany(cut, loss, weighs_slots, cache);
      lost = 1.0 - kept / total;
      lost = lost < 0.0 ? 0.0 : lost > 1.0 ? 1.0 : lost;
    }
    if (threadIdx.x % (ordered ? kWarp : blockDim.x) == 0) loss.losses[int64_t{pair} * loss.cut_count + i] = lost;
  }
}

// --- whole blocks -------------------------------------------------------------------------------------------------------

__global__ void InitScoresKernel(const ScoreInit* inits, int32_t count, KvCacheView kv) {
  AwaitEarlier();
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;  // (layer, head, slot of the block)
  const int64_t slots = int64_t{kv.layout.layers} * kv.layout.kv_heads * kBlockSlots;
  if (at >= slots) return;
  // In a grid of one row one after the other: an init may read what an earlier one wrote, in the same thread.
  for (int32_t i = static_cast<int32_t>(blockIdx.y); i < count; i += gridDim.y) {
    const ScoreInit& init = inits[i];
    const int64_t to = init.to * slots + at;
    const int32_t position = init.position + static_cast<int32_t>(at % kBlockSlots);
    kv.score[to] = init.from < 0 ? 0.0f : kv.score[init.from * slots + at];
    kv.position[to] = position;
    if (kv.logical_position != nullptr) kv.logical_position[to] = position;
  }
}

// Whether none reads or writes what another one writes.
bool Apart(std::span<const ScoreInit> inits) {
  std::vector<int32_t> written;
  for (const ScoreInit& init : inits) written.push_back(init.to);
  std::sort(written.begin(), written.end());
  if (std::adjacent_find(written.begin(), written.end()) != written.end()) return false;
  return std::none_of(inits.begin(), inits.end(), [&](const ScoreInit& init) {
    return std::binary_search(written.begin(), written.end(), init.from);
  });
}

__device__ void CopyPiece(const void* from, void* to, int64_t bytes) {
  const auto* source = static_cast<const uint4*>(from);
  auto* target = static_cast<uint4*>(to);
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes / 16; i += step) target[i] = source[i];
}

__global__ void CopyBlocksKernel(const BlockCopy* copies, int64_t bytes, KvCacheView kv) {
  AwaitEarlier();
  const BlockCopy& copy = copies[blockIdx.y];
  const int64_t slots = int64_t{kv.layout.layers} * kv.layout.kv_heads * kBlockSlots;
  auto* k = static_cast<std::byte*>(kv.k);
  auto* v = static_cast<std::byte*>(kv.v);
  CopyPiece(k + copy.from * bytes, k + copy.to * bytes, bytes);
  CopyPiece(v + copy.from * bytes, v + copy.to * bytes, bytes);
  CopyPiece(kv.score + copy.from_score_block * slots, kv.score + copy.to * slots, slots * 4);
  CopyPiece(kv.position + copy.from_score_block * slots, kv.position + copy.to * slots, slots * 4);
  if (kv.logical_position == nullptr) return;
  CopyPiece(kv.logical_position + copy.from_score_block * slots, kv.logical_position + copy.to * slots, slots * 4);
}

// Sixteen bytes of the cache, as packed blocks have them.
struct Place {
  uint4* at;
  bool scores;
};

__device__ Place PlaceOf(const PackedBlocks& range, int64_t offset, int64_t block_bytes, const KvCacheView& kv) {
  const int64_t slots = int64_t{kv.layout.layers} * kv.layout.kv_heads * kBlockSlots;
  const auto kv_bytes = static_cast<int64_t>(kv.layout.block_kv_bytes());
  const int64_t score_bytes = slots * 4;
  const int64_t i = offset / block_bytes;
  int64_t within = offset % block_bytes;
  const auto in = [&](void* array, int64_t at) {
    return reinterpret_cast<uint4*>(static_cast<std::byte*>(array) + at + within);
  };
  if (within < kv_bytes) return {in(kv.k, range.blocks[i] * kv_bytes), false};
  within -= kv_bytes;
  if (within < kv_bytes) return {in(kv.v, range.blocks[i] * kv_bytes), false};
  within -= kv_bytes;
  const int64_t score_at = range.score_blocks[i] * score_bytes;
  if (within < score_bytes) return {in(kv.score, score_at), true};
  within -= score_bytes;
  if (within < score_bytes) return {in(kv.position, score_at), false};
  within -= score_bytes;
  return {in(kv.logical_position, score_at), false};
}

__device__ uint32_t Scaled(uint32_t score, float factor) { return __float_as_uint(__uint_as_float(score) * factor); }

template <bool kToCache>
__global__ void __launch_bounds__(kThreads)
    MoveBlocksKernel(PackedBlocks range, int64_t block_bytes, float score_factor, KvCacheView kv) {
  AwaitEarlier();
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < range.bytes / 16; i += step) {
    const Place place = PlaceOf(range, range.begin + i * 16, block_bytes, kv);
    uint4& packed = reinterpret_cast<uint4*>(range.packed)[i];
    if (!kToCache) {
      packed = *place.at;
      continue;
    }
    uint4 value = packed;
    if (place.scores && score_factor != 1.0f) {
      value.x = Scaled(value.x, score_factor);
      value.y = Scaled(value.y, score_factor);
      value.z = Scaled(value.z, score_factor);
      value.w = Scaled(value.w, score_factor);
    }
    *place.at = value;
  }
}

dim3 MoveGrid(const PackedBlocks& range) {
  constexpr uint32_t kBlocksMost = 512;
  const uint32_t blocks = BlocksFor(range.bytes, 16 * kThreads);
  return {blocks < kBlocksMost ? blocks : kBlocksMost};
}

}  // namespace

size_t CutScratchBytes(int32_t slots) {
  return static_cast<size_t>(SortSize(slots)) * sizeof(uint64_t) + static_cast<size_t>(slots) * sizeof(float);
}

void LaunchCuts(cudaStream_t stream, const Cut* cuts, int32_t count, int32_t slots_max, int32_t blocks,
                std::byte* scratch, const KvCacheView& kv) {
  const int64_t triples = int64_t{count} * kv.layout.layers * kv.layout.kv_heads;
  const dim3 grid(static_cast<uint32_t>(triples < blocks ? triples : blocks));
  WithKvElement(kv.layout.type, [&](auto element) {
    Launch(stream, grid, slots_max <= kFewSlots ? kThreads : kCutThreads, CutKernel<decltype(element)>, cuts, count,
           slots_max, SortSize(slots_max), scratch, kv);
  });
}

void LaunchChoosePins(cudaStream_t stream, const StepView& step, const AttentionShape& shape, const int32_t* rows,
                      int32_t count, int32_t slots_max, int32_t blocks, std::byte* scratch, float* pin_sums,
                      const KvCacheView& kv) {
  const int64_t pairs = int64_t{count} * kv.layout.kv_heads;
  const dim3 grid(static_cast<uint32_t>(pairs < blocks ? pairs : blocks));
  Launch(stream, grid, slots_max <= kFewSlots ? kThreads : kCutThreads, ChoosePinsKernel, step, shape.layer,
         shape.window, rows, count, slots_max, SortSize(slots_max), scratch, pin_sums, kv);
}

void LaunchLosses(cudaStream_t stream, const LossCase& losses, const KvCacheView& kv) {
  const dim3 pairs(static_cast<uint32_t>(kv.layout.layers * kv.layout.kv_heads));
  Launch(stream, pairs, kThreads, LossKernel, losses, kv);
}

void LaunchInitScores(cudaStream_t stream, std::span<const ScoreInit> inits, const ScoreInit* on_device,
                      const KvCacheView& kv) {
  const int64_t slots = int64_t{kv.layout.layers} * kv.layout.kv_heads * kBlockSlots;
  const auto count = static_cast<int32_t>(inits.size());
  const uint32_t rows = Apart(inits) ? static_cast<uint32_t>(std::min(count, 65535)) : count > 0 ? 1 : 0;
  Launch(stream, dim3(BlocksFor(slots, kThreads), rows), kThreads, InitScoresKernel, on_device, count, kv);
}

void LaunchCopyBlocks(cudaStream_t stream, const BlockCopy* copies, int32_t count, const KvCacheView& kv) {
  const auto bytes = static_cast<int64_t>(kv.layout.block_kv_bytes());
  const dim3 grid(BlocksFor(bytes, kThreads * 16 * 4), static_cast<uint32_t>(count));
  Launch(stream, grid, kThreads, CopyBlocksKernel, copies, bytes, kv);
}

void LaunchPack(cudaStream_t stream, const PackedBlocks& range, const KvCacheView& kv) {
  Launch(stream, MoveGrid(range), kThreads, MoveBlocksKernel<false>, range,
         static_cast<int64_t>(kv.layout.block_bytes()), 1.0f, kv);
}

void LaunchUnpack(cudaStream_t stream, const PackedBlocks& range, float score_factor, const KvCacheView& kv) {
  Launch(stream, MoveGrid(range), kThreads, MoveBlocksKernel<true>, range,
         static_cast<int64_t>(kv.layout.block_bytes()), score_factor, kv);
}

}  // namespace hydrant::cuda
