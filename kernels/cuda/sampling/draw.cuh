// The draw from a row by one block of threads: filters, then the first id whose cumulative weight exceeds the uniform number's
// share (kernels/sampling.h).
#ifndef HYDRANT_KERNELS_CUDA_SAMPLING_DRAW_CUH_
#define HYDRANT_KERNELS_CUDA_SAMPLING_DRAW_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/sampling/logit_row.cuh"
#include "kernels/sampling.h"

namespace hydrant::cuda {

// Tokens that a block orders in shared memory; where it would have to be more, the row is read once per digit of the keys.
constexpr int32_t kCandidatesMax = 4096;

// The best tokens of a row. Invariant: `keys` are all those up to some bound.
struct Candidates {
  uint64_t* keys;  // [kCandidatesMax], in shared memory
  int32_t count;   // -1: too many

  __device__ static void Order(uint64_t* keys, int32_t count) {
    if (count <= static_cast<int32_t>(blockDim.x)) return SortFewKeys(keys, count);
    int32_t size = 1;
    while (size < count) size *= 2;
    for (int32_t i = count + static_cast<int32_t>(threadIdx.x); i < size; i += blockDim.x) keys[i] = ~uint64_t{0};
    SortKeys(keys, size);
  }
  // Has the first `n` in the order of their ids.
  __device__ void OrderByIds(int32_t n) const {
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < n; i += blockDim.x) keys[i] = keys[i] << 32 | keys[i] >> 32;
    Order(keys, n);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < n; i += blockDim.x) keys[i] = keys[i] << 32 | keys[i] >> 32;
    __syncthreads();
  }
};

// Whether every token of the row fits in.
__device__ inline bool FitsWhole(const LogitRow& row) { return row.groups * kGroupLogits <= kCandidatesMax; }

// How many groups have a best key up to `bound`. Two in turn need no barrier between them where `turn` alternates.
__device__ inline int64_t GroupsUpTo(const LogitRow& row, uint64_t bound, uint32_t turn) {
  __shared__ uint32_t of_warp[2][kWarp];
  uint32_t own = 0;
  for (int64_t group = threadIdx.x; group < row.groups; group += blockDim.x) own += row.keys[group] <= bound ? 1 : 0;
  own = __reduce_add_sync(kAllLanes, own);
  const uint32_t lane = threadIdx.x % kWarp;
  if (lane == 0) of_warp[turn % 2][threadIdx.x / kWarp] = own;
  __syncthreads();
  return __reduce_add_sync(kAllLanes, lane < blockDim.x / kWarp ? of_warp[turn % 2][lane] : 0);
}

// A key that the best ones of at least `least` groups, and not of many more, do not exceed: so at least as many tokens do not.
// REQUIRES: 1 <= least <= groups.
__device__ inline uint64_t BoundOfGroups(const LogitRow& row, int64_t least) {
  const int64_t others = row.groups - least;
  const int64_t most = least + (least / 4 + 32 < others / 2 ? least / 4 + 32 : others / 2);
  uint64_t own_best = ~uint64_t{0}, own_worst = 0;
  for (int64_t group = threadIdx.x; group < row.groups; group += blockDim.x) {
    const uint64_t key = row.keys[group];
    own_best = key < own_best ? key : own_best;
    own_worst = key < own_worst ? own_worst : key;
  }
  uint64_t high = BlockReduce(own_worst, Largest(), uint64_t{0});
  if (row.groups <= most) return high;
  uint64_t low = BlockReduce(own_best, Smallest(), ~uint64_t{0}) - 1;
  for (uint32_t turn = 0; high - low > 1; ++turn) {
    const uint64_t middle = low + (high - low) / 2;
    const int64_t count = GroupsUpTo(row, middle, turn);
    if (count < least) {
      low = middle;
    } else {
      high = middle;
      if (count <= most) break;
    }
  }
  __syncthreads();
  return high;
}

// The tokens with keys above `above` and up to `bound`, ordered.
__device__ inline Candidates TokensUpTo(const LogitRow& row, uint64_t bound, uint64_t* keys, uint64_t above = 0) {
  __shared__ int32_t count;
  __syncthreads();
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  row.ForTokensOf(bound, [&](uint64_t key) {
    if (key > bound || key <= above) return;
    const int32_t at = atomicAdd(&count, 1);
    if (at < kCandidatesMax) keys[at] = key;
  });
  __syncthreads();
  Candidates best = {keys, count <= kCandidatesMax ? count : -1};
  if (best.count > 0) Candidates::Order(keys, best.count);
  return best;
}

// The best tokens, ordered, at least min(least, vocab) of them if there is room.
// REQUIRES: least <= groups unless the row FitsWhole.
__device__ inline Candidates BestTokens(const LogitRow& row, int64_t least, uint64_t* keys) {
  return TokensUpTo(row, FitsWhole(row) ? ~uint64_t{0} : BoundOfGroups(row, least), keys);
}

class Draw {
 public:
  __device__ Draw(const LogitRow& row, const SamplingParams& params, float largest, uint64_t* keys)
      : row_(row),
        weigher_{largest, 1.0f / params.temperature, params.min_p},
        top_k_(params.top_k > 0 && params.top_k < row.vocab ? params.top_k : 0),
        top_p_(params.top_p),
        keys_(keys) {}

  // Every thread gets the id.
  __device__ int32_t Token(double uniform) const {
    int32_t id = -1;
    if (top_k_ == 0) {
      id = top_p_ < 1.0f ? InNucleus(uniform) : AmongGroups(uniform, ~uint64_t{0});
    } else if (top_k_ <= row_.groups || FitsWhole(row_)) {
      const Candidates best = BestTokens(row_, top_k_, keys_);
      if (best.count > 0) id = Among(best, 0, uniform);
    }
    return id >= 0 ? id : AmongAll(uniform);
  }

 private:
  __device__ static Mass Least(float top_p, Mass total) {
    const double wanted = static_cast<double>(top_p) * static_cast<double>(total);
    return wanted < 1.0 ? Mass{1} : static_cast<Mass>(ceil(wanted));
  }
  // Below the total, which a double of that size may not tell from its neighbour.
  __device__ static Mass Target(double uniform, Mass total) {
    const Mass share = static_cast<Mass>(uniform * static_cast<double>(total));
    return share < total ? share : total - 1;
  }

  // One of the tokens with keys up to `bound`: first the group, by what these weigh in each, then the token.
  __device__ int32_t AmongGroups(double uniform, uint64_t bound) const {
    __shared__ int64_t of_group;
    __shared__ Mass left;
    __shared__ int32_t chosen;
    const int64_t share = (row_.groups + blockDim.x - 1) / blockDim.x;
    const int64_t begin = threadIdx.x * share;
    const int64_t end = begin + share < row_.groups ? begin + share : row_.groups;
    Mass own = 0;
    for (int64_t group = begin; group < end; ++group) own += row_.masses[group];
    Mass total = 0;
    Mass below = BlockExclusiveSum(own, &total);
    const Mass target = Target(uniform, total);
    if (below <= target && target < below + own) {
      int64_t group = begin;
      while (below + row_.masses[group] <= target) below += row_.masses[group++];
      of_group = group;
      left = target - below;
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
      float x[kOfLane];
      row_.Load(of_group, x);
      Mass mass[kOfLane], of_lane = 0;
      for (int j = 0; j < kOfLane; ++j) {
        mass[j] = RankKey(x[j], LogitRow::FirstId(of_group) + j) <= bound ? weigher_.Of(x[j]) : 0;
        of_lane += mass[j];
      }
      Mass before = WarpInclusiveSum(of_lane) - of_lane;
      if (before <= left && left < before + of_lane) {
        int j = 0;
        while ((before += mass[j]) <= left) ++j;
        chosen = static_cast<int32_t>(LogitRow::FirstId(of_group)) + j;
      }
    }
    __syncthreads();
    return chosen;
  }

  // Without top_k: negative if it is larger than what can be ordered.
  __device__ int32_t InNucleus(double uniform) const {
    const Mass total = MassOfGroups(~uint64_t{0});
    if (FitsWhole(row_)) return Among(BestTokens(row_, row_.vocab, keys_), total, uniform);
    // The best of as many groups, until what they hold is enough. Most nuclei are small; the last try has, of groups that are alike,
    // nearly three tokens a group.
    const Mass least_mass = Least(top_p_, total);
    for (const int64_t groups :
         {int64_t{64}, int64_t{256}, row_.groups - row_.groups / 4, row_.groups - row_.groups / 16}) {
      const uint64_t bound = BoundOfGroups(row_, groups < row_.groups ? groups : row_.groups);
      if (MassOfGroups(bound) < least_mass) continue;
      const Candidates best = TokensUpTo(row_, bound, keys_);
      if (best.count < 0) break;
      const int32_t id = Among(best, total, uniform);
      if (id >= 0) return id;
    }
    return -1;
  }
  // What all groups with a best key up to `bound` hold.
  __device__ Mass MassOfGroups(uint64_t bound) const {
    Mass own = 0;
    for (int64_t group = threadIdx.x; group < row_.groups; group += blockDim.x) {
      if (row_.keys[group] <= bound) own += row_.masses[group];
    }
    return BlockReduce(own, Sum(), Mass{0});
  }

  // A thread's share of `n` ordered keys.
  struct Share {
    int32_t begin, end;
  };
  __device__ static Share ShareOf(int32_t n) {
    const int32_t each = (n + static_cast<int32_t>(blockDim.x) - 1) / static_cast<int32_t>(blockDim.x);
    const int32_t begin = static_cast<int32_t>(threadIdx.x) * each;
    return {begin < n ? begin : n, begin + each < n ? begin + each : n};
  }
  __device__ Mass MassOf(const Share& share) const {
    Mass own = 0;
    for (int32_t i = share.begin; i < share.end; ++i) own += weigher_.Of(LogitOf(keys_[i]));
    return own;
  }

  // `total`: of the row, without top_k. Negative: the nucleus is larger.
  __device__ int32_t Among(const Candidates& best, Mass total, double uniform) const {
    __shared__ int32_t chosen;
    int32_t kept = top_k_ > 0 && top_k_ < best.count ? top_k_ : best.count;
    if (top_p_ < 1.0f) {
      const Share share = ShareOf(kept);
      Mass all = 0;
      Mass below = BlockExclusiveSum(MassOf(share), &all);
      const Mass least = Least(top_p_, top_k_ > 0 ? all : total);
      if (all < least) return -1;
      int32_t own = 0;
      for (int32_t i = share.begin; i < share.end && below < least; ++i, ++own) below += weigher_.Of(LogitOf(keys_[i]));
      kept = BlockReduce(own, Sum(), 0);
    }
    best.OrderByIds(kept);
    const Share share = ShareOf(kept);
    const Mass own = MassOf(share);
    Mass all = 0;
    Mass below = BlockExclusiveSum(own, &all);
    const Mass target = Target(uniform, all);
    if (below <= target && target < below + own) {
      int32_t i = share.begin;
      while ((below += weigher_.Of(LogitOf(keys_[i]))) <= target) ++i;
      chosen = IdOf(keys_[i]);
    }
    __syncthreads();
    return chosen;
  }

  // For flat rows, in which too many tokens are in question to order them all: each filter reads the row some ten times.
  __device__ int32_t AmongAll(double uniform) const {
    uint64_t bound = ~uint64_t{0};
    if (top_k_ > 0) bound = KeyOf(static_cast<uint64_t>(top_k_), /*counts=*/true);
    if (top_p_ < 1.0f) bound = KeyOf(Least(top_p_, UpTo(bound).mass), /*counts=*/false);
    const int64_t warps = blockDim.x / kWarp;
    for (int64_t group = threadIdx.x / kWarp; group < row_.groups; group += warps) {
      Mass own = 0;
      if (row_.keys[group] <= bound) {
        float x[kOfLane];
        row_.Load(group, x);
        for (int j = 0; j < kOfLane; ++j) {
          own += RankKey(x[j], LogitRow::FirstId(group) + j) <= bound ? weigher_.Of(x[j]) : 0;
        }
      }
      own = WarpSumOfMasses(own);
      if (threadIdx.x % kWarp == 0) row_.masses[group] = own;
    }
    __syncthreads();
    return AmongGroups(uniform, bound);
  }

  struct Tokens {
    Mass mass;
    uint64_t count;
  };
  // What the tokens with keys up to `bound` are together.
  __device__ Tokens UpTo(uint64_t bound) const {
    Tokens own = {0, 0};
    row_.ForTokensOf(bound, [&](uint64_t key) {
      if (key > bound) return;
      own.mass += weigher_.Of(LogitOf(key));
      ++own.count;
    });
    return {BlockReduce(own.mass, Sum(), Mass{0}), BlockReduce(own.count, Sum(), uint64_t{0})};
  }

  // The smallest key up to which the tokens weigh, or count, `wanted` or more. Halves what lies between two keys, by the logits and
  // where these are equal by the keys, until it can be ordered.
  __device__ uint64_t KeyOf(uint64_t wanted, bool counts) const {
    __shared__ uint64_t found;
    // Whatever weighs less than 2^-41 of the largest weighs nothing.
    const float lightest = weigher_.largest - 29.0f / weigher_.inverse_temperature;
    uint64_t low = RankKey(weigher_.largest, 0) - 1, high = RankKey(counts ? -INFINITY : lightest, row_.vocab);
    Tokens below = {0, 0};
    uint64_t most = UpTo(high).count;
    while (most - below.count > kCandidatesMax) {
      uint64_t middle = low + (high - low) / 2;
      const float between = 0.5f * LogitOf(low) + 0.5f * LogitOf(high);
      if (fabsf(between) < INFINITY) {
        const uint64_t key = RankKey(between, 0);
        if (low < key && key < high) middle = key;
      }
      const Tokens tokens = UpTo(middle);
      if ((counts ? tokens.count : tokens.mass) < wanted) {
        low = middle;
        below = tokens;
      } else {
        high = middle;
        most = tokens.count;
      }
    }
    const Candidates rest = TokensUpTo(row_, high, keys_, low);
    const Share share = ShareOf(rest.count);
    uint64_t all = 0;
    const uint64_t own = counts ? static_cast<uint64_t>(share.end - share.begin) : MassOf(share);
    uint64_t before = BlockExclusiveSum(own, &all) + (counts ? below.count : below.mass);
    if (before < wanted && wanted <= before + own) {
      int32_t i = share.begin;
      while ((before += counts ? 1 : weigher_.Of(LogitOf(keys_[i]))) < wanted) ++i;
      found = keys_[i];
    }
    __syncthreads();
    return found;
  }

  const LogitRow& row_;
  const Weigher weigher_;
  const int32_t top_k_;  // 0: none
  const float top_p_;
  uint64_t* const keys_;  // [kCandidatesMax], in shared memory
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_SAMPLING_DRAW_CUH_
