#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/select.cuh"
#include "kernels/cuda/sampling/sampling.h"
#include "kernels/step_batch.h"

namespace hydrant::cuda {
namespace {

// A block works on a row, and a row of a few thousand logits is no work for many threads.
constexpr uint32_t kThreads = 1024, kFewThreads = 128;
constexpr int64_t kFewLogits = 4096;
constexpr double kUnit = 0x1p40;  // of weights

// Integers in the order of the floats (no NaN); -0 counts as +0, as it does in a comparison of floats.
__device__ uint32_t Ordered(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// Better tokens are smaller: logit descending, then id ascending.
__device__ uint64_t RankKey(float logit, int64_t id) {
  return (uint64_t{~Ordered(logit)} << 32) | static_cast<uint32_t>(id);
}

struct Row {
  const float* logits;
  int64_t vocab;

  __device__ uint64_t Key(int64_t id) const { return RankKey(logits[id], id); }
  // The key of the n-th best token.
  __device__ uint64_t Nth(int64_t n) const {
    return SelectByMass(
        vocab, static_cast<Mass>(n), [&](int64_t id) { return Key(id); }, [](int64_t) { return Mass{1}; });
  }
};

struct Summary {
  float largest;
  int32_t id;  // lowest on a tie
  bool finite;
};

__device__ Summary Summarize(const Row& row) {
  int bad = 0;
  uint64_t best = ~uint64_t{0};
  for (int64_t id = threadIdx.x; id < row.vocab; id += blockDim.x) {
    const float x = row.logits[id];
    if (!(x < INFINITY)) {
      bad = 1;
    } else {
      const uint64_t key = RankKey(x, id);
      best = key < best ? key : best;
    }
  }
  best = BlockReduce(best, Smallest(), ~uint64_t{0});
  bad = BlockReduce(bad, Largest(), 0);
  Summary summary = {0.0f, 0, false};
  if (bad != 0 || best == ~uint64_t{0}) return summary;
  summary.id = static_cast<int32_t>(best & 0xffffffffu);
  summary.largest = row.logits[summary.id];
  summary.finite = summary.largest > -INFINITY;
  return summary;
}

// A penalty or bias never makes an infinity of a finite logit, nor a finite one of -inf.
__device__ float StayFinite(float before, float after) {
  constexpr float kMost = 3.402823466e38f;
  return before == -INFINITY ? before : fminf(fmaxf(after, -kMost), kMost);
}

__device__ bool HasBit(const SampleTask& task, int64_t id) {
  return task.allowed_bits == nullptr || (task.allowed_bits[id / 32] >> (id % 32) & 1) != 0;
}

__device__ void TakeAllowed(const Row& row, const SampleTask& task, float* y) {
  const bool all = task.allowed_count == 0;
  for (int64_t id = threadIdx.x; id < row.vocab; id += blockDim.x) {
    y[id] = all && HasBit(task, id) ? row.logits[id] : -INFINITY;
  }
  __syncthreads();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < task.allowed_count; i += blockDim.x) {
    const int32_t id = task.allowed[i];
    if (HasBit(task, id)) y[id] = row.logits[id];
  }
  __syncthreads();
}

__device__ void Penalise(const SampleTask& task, int32_t id, int32_t count, float* y) {
  const float before = y[id];
  float x = before > 0.0f ? before / task.repetition : before * task.repetition;
  x -= task.frequency * static_cast<float>(count);
  if (count > 0) x -= task.presence;
  y[id] = StayFinite(before, x);
}

// y [vocab] becomes the row that is chosen from. `last`: the id that counts once more; negative: none.
__device__ void Adjust(const Row& row, const SampleTask& task, int32_t last, float* y) {
  TakeAllowed(row, task, y);
  if (task.banned_count > 0) {
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < task.banned_count; i += blockDim.x) {
      y[task.banned[i]] = -INFINITY;
    }
    __syncthreads();
    int any = 0;
    for (int64_t id = threadIdx.x; id < row.vocab; id += blockDim.x) any |= y[id] != -INFINITY ? 1 : 0;
    if (BlockReduce(any, Largest(), 0) == 0) TakeAllowed(row, task, y);
  }
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < task.bias_count; i += blockDim.x) {
    float& x = y[task.biases[i].id];
    x = StayFinite(x, x + task.biases[i].bias);
  }
  __syncthreads();
  int found = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < task.count_count; i += blockDim.x) {
    const TokenCount seen = task.counts[i];
    Penalise(task, seen.id, seen.id == last ? seen.count + 1 : seen.count, y);
    found |= seen.id == last ? 1 : 0;
  }
  if (last >= 0) {
    found = BlockReduce(found, Largest(), 0);
    if (found == 0 && threadIdx.x == 0) Penalise(task, last, 1, y);
  }
  __syncthreads();
}

// The draw from a row: weights, filters, and the first id whose cumulative weight exceeds the uniform number's share.
struct Draw {
  const Row& row;
  const SamplingParams& params;
  float largest;
  uint64_t worst_kept = ~uint64_t{0};

  __device__ Mass MassOf(int64_t id) const {
    const float weight = expf((row.logits[id] - largest) * (1.0f / params.temperature));
    if (weight < params.min_p || row.Key(id) > worst_kept) return 0;
    return static_cast<Mass>(static_cast<double>(weight) * kUnit + 0.5);
  }
  __device__ Mass Total() const {
    Mass own = 0;
    for (int64_t id = threadIdx.x; id < row.vocab; id += blockDim.x) own += MassOf(id);
    return BlockReduce(own, Sum(), Mass{0});
  }

  __device__ void Filter() {
    if (params.top_k > 0 && params.top_k < row.vocab) worst_kept = row.Nth(params.top_k);
    if (params.top_p >= 1.0f) return;
    const double wanted = static_cast<double>(params.top_p) * static_cast<double>(Total());
    const Mass least = wanted < 1.0 ? Mass{1} : static_cast<Mass>(ceil(wanted));
    worst_kept = SelectByMass(
        row.vocab, least, [&](int64_t id) { return row.Key(id); }, [&](int64_t id) { return MassOf(id); });
  }

  // Every thread gets the id.
  __device__ int32_t Choose(double uniform) const {
    __shared__ int32_t chosen;
    const int64_t share = (row.vocab + blockDim.x - 1) / blockDim.x;
    const int64_t begin = threadIdx.x * share;
    const int64_t end = begin + share < row.vocab ? begin + share : row.vocab;
    Mass own = 0;
    for (int64_t id = begin; id < end; ++id) own += MassOf(id);
    Mass total = 0;
    Mass below = BlockExclusiveSum(own, &total);
    // Below the total, which a double of that size may not tell from its neighbour.
    const Mass share_of_total = static_cast<Mass>(uniform * static_cast<double>(total));
    const Mass target = share_of_total < total ? share_of_total : total - 1;
    if (below <= target && target < below + own) {
      int64_t id = begin;
      while ((below += MassOf(id)) <= target) ++id;
      chosen = static_cast<int32_t>(id);
    }
    __syncthreads();
    return chosen;
  }
};

__device__ void ReportTop(const Row& row, int32_t wanted, TopToken* tops) {
  const int64_t count = wanted < row.vocab ? wanted : row.vocab;
  if (count == 0) return;
  const uint64_t worst = row.Nth(count);
  Compact(
      row.vocab, [&](int64_t id) { return row.Key(id) <= worst; },
      [&](int64_t n, int64_t id) {
        tops[n] = {static_cast<int32_t>(id), row.logits[id]};
      });
}

__global__ void __launch_bounds__(kThreads)
    SampleKernel(const float* logits, int64_t vocab, const SampleTask* tasks, SampleOutcome* outcomes, TopToken* tops,
                 int32_t* sampled_ids) {
  AwaitEarlier();
  const SampleTask& task = tasks[blockIdx.x];
  const Row row = {logits + task.logits_row * vocab, vocab};
  TopToken* own_tops = tops + int64_t{blockIdx.x} * vocab;
  SampleOutcome outcome = {0.0, 0.0f, 0.0f, task.scored_id, 0, false, false};
  const Summary summary = Summarize(row);
  outcome.largest = summary.largest;
  outcome.finite = summary.finite;
  if (outcome.finite && task.scored_id < 0) {
    Row adjusted = row;
    Summary best = summary;
    if (task.adjusts) {
      auto* y = reinterpret_cast<float*>(own_tops);
      Adjust(row, task, task.counts_last ? sampled_ids[task.state_row] : -1, y);
      adjusted.logits = y;
      best = Summarize(adjusted);
    }
    outcome.finite = best.finite;  // not where the model gives no allowed token a chance
    outcome.no_token = !best.finite;
    outcome.id = best.id;
    if (best.finite && task.params.temperature > 0.0f) {
      Draw draw = {adjusted, task.params, best.largest};
      draw.Filter();
      outcome.id = draw.Choose(task.uniform);
    }
  }
  if (outcome.finite && task.top >= 0) {
    outcome.logit = row.logits[outcome.id];
    double own = 0.0;
    for (int64_t id = threadIdx.x; id < vocab; id += blockDim.x) {
      own += static_cast<double>(expf(row.logits[id] - summary.largest));
    }
    outcome.log_total = log(BlockReduce(own, Sum(), 0.0));
    if (task.rank) {
      int32_t better = 0;
      const uint64_t key = RankKey(outcome.logit, outcome.id);
      for (int64_t id = threadIdx.x; id < vocab; id += blockDim.x) better += row.Key(id) < key ? 1 : 0;
      outcome.rank = BlockReduce(better, Sum(), 0) + 1;
    }
    __syncthreads();  // the adjusted row, in the same memory, has been read
    ReportTop(row, task.top, own_tops);
  }
  if (threadIdx.x != 0) return;
  outcomes[blockIdx.x] = outcome;
  if (task.state_row < 0) return;
  // The next step may read it before the host has heard of an error: some row of the embedding.
  int32_t next = outcome.finite ? outcome.id : 0;
  for (int32_t i = 0; i < task.stop_count; ++i) {
    if (outcome.finite && task.stop_ids[i] == outcome.id) next = kNoNextId;
  }
  sampled_ids[task.state_row] = next;
}

}  // namespace

void LaunchSample(cudaStream_t stream, const float* logits, int64_t vocab, const SampleTask* tasks, int32_t count,
                  SampleOutcome* outcomes, TopToken* tops, int32_t* sampled_ids) {
  const uint32_t threads = vocab <= kFewLogits ? kFewThreads : kThreads;
  Launch(stream, dim3(static_cast<uint32_t>(count)), threads, SampleKernel, logits, vocab, tasks, outcomes, tops,
         sampled_ids);
}

}  // namespace hydrant::cuda
