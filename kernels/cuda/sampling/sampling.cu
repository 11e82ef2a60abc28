#include <algorithm>

#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/select.cuh"
#include "kernels/cuda/sampling/draw.cuh"
#include "kernels/cuda/sampling/logit_row.cuh"
#include "kernels/cuda/sampling/sampling.h"
#include "kernels/step_batch.h"

namespace hydrant::cuda {
namespace {

// Threads of a block. A row of a few thousand logits is no work for many.
constexpr uint32_t kFewThreads = 128, kGroupThreads = 256, kRowThreads = 512, kAdjustThreads = 1024;
constexpr int64_t kFewLogits = 4096;

constexpr int64_t GroupsOf(int64_t vocab) { return (vocab + kGroupLogits - 1) / kGroupLogits; }

// Places in the scratch memory of a launch. Twice each: of rows as they are, then of adjusted ones.
struct Scratch {
  uint64_t* best;  // [2][rows]: the complement of the best token's key, and zero between launches
  uint64_t* done;  // [rows]: parts of the row that are; zero between launches
  uint64_t* keys;  // [2][rows][groups]
  Mass* masses;    // [2][rows][groups]: the weights of draws, then those of log-probabilities
  int32_t rows;
  int64_t groups;

  __device__ int64_t At(int which, uint32_t row) const { return (which * int64_t{rows} + row) * groups; }
};
constexpr int64_t kWordsPerRow = 3;  // before the arrays of groups

Scratch ScratchAt(void* memory, int32_t rows, int64_t vocab) {
  auto* words = static_cast<uint64_t*>(memory);
  const int64_t groups = GroupsOf(vocab), arrays = 2 * rows * groups;
  uint64_t* of_groups = words + kWordsPerRow * kSampleRows;
  return {words, words + 2 * kSampleRows, of_groups, of_groups + arrays, rows, groups};
}

// Everything that a kernel is told.
struct Job {
  const float* logits;
  int64_t vocab;
  const SampleTask* tasks;
  SampleOutcome* outcomes;
  TopToken* tops;
  int32_t* sampled_ids;
  Scratch scratch;
  bool wide;

  __device__ TopToken* TopsOf(uint32_t row) const { return tops + int64_t{row} * vocab; }
  __device__ float* AdjustedOf(uint32_t row) const { return reinterpret_cast<float*>(TopsOf(row)); }
  __device__ LogitRow RowOf(const SampleTask& task, uint32_t row, bool adjusted) const {
    const float* at = adjusted ? AdjustedOf(row) : logits + task.logits_row * vocab;
    return {at,  scratch.keys + scratch.At(adjusted, row), scratch.masses + scratch.At(0, row), vocab, scratch.groups,
            wide};
  }
};

// What is done when the best token is known.
__host__ __device__ bool WantsBestAlone(const SampleTask& task) {
  return !task.adjusts && task.top < 0 && (task.scored_id >= 0 || !(task.params.temperature > 0.0f));
}
// What reads every weight. top_k comes first, and where it has been few are left.
__host__ __device__ bool WeighsDraw(const SampleTask& task, int64_t vocab) {
  return task.scored_id < 0 && task.params.temperature > 0.0f && (task.params.top_k <= 0 || task.params.top_k >= vocab);
}
__host__ __device__ bool WeighsScores(const SampleTask& task) { return task.top >= 0; }

struct Summary {
  float largest = 0.0f;
  int32_t id = 0;  // lowest on a tie
  bool finite = false;
};

__device__ Summary SummaryOf(uint64_t best) {
  Summary summary;
  if (best == kBadKey) return summary;
  summary.largest = LogitOf(best);
  summary.id = IdOf(best);
  summary.finite = summary.largest > -INFINITY;
  return summary;
}

__device__ SampleOutcome OutcomeOf(const SampleTask& task, const Summary& summary) {
  SampleOutcome outcome = {0.0, summary.largest, 0.0f, task.scored_id, summary.id, 0, summary.finite, false};
  if (summary.finite && task.scored_id < 0) outcome.id = summary.id;
  return outcome;
}

// By one thread.
__device__ void Report(const Job& job, const SampleTask& task, uint32_t row, const SampleOutcome& outcome) {
  job.outcomes[row] = outcome;
  if (task.state_row < 0) return;
  // The next step may read it before the host has heard of an error: some row of the embedding.
  int32_t next = outcome.finite ? outcome.id : 0;
  for (int32_t i = 0; i < task.stop_count; ++i) {
    if (outcome.finite && task.stop_ids[i] == outcome.id) next = kNoNextId;
  }
  job.sampled_ids[task.state_row] = next;
}

// A penalty or bias never makes an infinity of a finite logit, nor a finite one of -inf.
__device__ float StayFinite(float before, float after) {
  constexpr float kMost = 3.402823466e38f;
  return before == -INFINITY ? before : fminf(fmaxf(after, -kMost), kMost);
}

__device__ bool HasBit(const SampleTask& task, int64_t id) {
  return task.allowed_bits == nullptr || (task.allowed_bits[id / 32] >> (id % 32) & 1) != 0;
}

__device__ void TakeAllowed(const LogitRow& row, const SampleTask& task, float* y) {
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
__device__ void Adjust(const LogitRow& row, const SampleTask& task, int32_t last, float* y) {
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

// --- kernels ------------------------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(kAdjustThreads) AdjustKernel(Job job) {
  AwaitEarlier();
  const uint32_t row = blockIdx.x;
  const SampleTask& task = job.tasks[row];
  if (!task.adjusts) return;
  const int32_t last = task.counts_last ? job.sampled_ids[task.state_row] : -1;
  Adjust(job.RowOf(task, row, false), task, last, job.AdjustedOf(row));
}

// atomicMax of what one thread of each block knows.
__device__ void Offer(uint64_t* best, uint64_t key) {
  atomicMax(reinterpret_cast<unsigned long long*>(best), static_cast<unsigned long long>(~key));
}
__device__ uint64_t Taken(uint64_t* best) {
  return ~static_cast<uint64_t>(atomicMax(reinterpret_cast<unsigned long long*>(best), 0ull));
}

// The best token of every group and row. A row that wants no more is reported by the last of its blocks.
__global__ void __launch_bounds__(kGroupThreads) GroupKernel(Job job) {
  AwaitEarlier();
  const uint32_t row = blockIdx.y;
  const bool adjusted = blockIdx.z == 1;
  const SampleTask& task = job.tasks[row];
  if (adjusted && !task.adjusts) return;
  const LogitRow logits = job.RowOf(task, row, adjusted);
  const uint32_t lane = threadIdx.x % kWarp;
  const int64_t warp = int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const int64_t first = warp * kGroupsAhead;
  float x[kGroupsAhead][kOfLane];
#pragma unroll
  for (int i = 0; i < kGroupsAhead; ++i) logits.Load(first + i, x[i]);
  uint64_t own = ~uint64_t{0};
  uint64_t* keys = job.scratch.keys + job.scratch.At(adjusted, row);
#pragma unroll
  for (int i = 0; i < kGroupsAhead; ++i) {
    const uint64_t key = BestOfGroup(x[i], first + i);
    if (first + i >= logits.groups) continue;
    if (lane == 0) keys[first + i] = key;
    own = key < own ? key : own;
  }
  __shared__ uint64_t of_warp[kGroupThreads / kWarp];
  if (lane == 0) of_warp[threadIdx.x / kWarp] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (uint32_t i = 1; i < blockDim.x / kWarp; ++i) own = of_warp[i] < own ? of_warp[i] : own;
  uint64_t* best = job.scratch.best + adjusted * int64_t{kSampleRows} + row;
  Offer(best, own);
  if (!WantsBestAlone(task)) return;
  __threadfence();
  auto* done = reinterpret_cast<unsigned long long*>(job.scratch.done + row);
  if (atomicAdd(done, 1ull) + 1 != gridDim.x) return;
  const Summary summary = SummaryOf(Taken(best));
  *done = 0;
  *best = 0;
  Report(job, task, row, OutcomeOf(task, summary));
}

// The weights of every group: for the draw, and for log-probabilities.
__global__ void __launch_bounds__(kGroupThreads) MassKernel(Job job) {
  AwaitEarlier();
  const uint32_t row = blockIdx.y;
  const bool scores = blockIdx.z == 1;
  const SampleTask& task = job.tasks[row];
  if (scores ? !WeighsScores(task) : !WeighsDraw(task, job.vocab)) return;
  const bool adjusted = !scores && task.adjusts;
  const LogitRow logits = job.RowOf(task, row, adjusted);
  const uint64_t best = ~job.scratch.best[adjusted * int64_t{kSampleRows} + row];
  Weigher weigher = {LogitOf(best), 1.0f, 0.0f};
  if (!scores) {
    weigher.inverse_temperature = 1.0f / task.params.temperature;
    weigher.min_p = task.params.min_p;
  }
  const int64_t warp = int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const int64_t first = warp * kGroupsAhead;
  float x[kGroupsAhead][kOfLane];
  bool weighs[kGroupsAhead];
#pragma unroll
  for (int i = 0; i < kGroupsAhead; ++i) {
    weighs[i] = first + i < logits.groups && weigher.Of(LogitOf(logits.keys[first + i])) != 0;
  }
#pragma unroll
  for (int i = 0; i < kGroupsAhead; ++i) {
    if (weighs[i]) logits.Load(first + i, x[i]);
  }
  Mass* masses = job.scratch.masses + job.scratch.At(scores, row);
#pragma unroll
  for (int i = 0; i < kGroupsAhead; ++i) {
    Mass mass = 0;
    if (weighs[i]) {
      for (int j = 0; j < kOfLane; ++j) mass += weigher.Of(x[i][j]);
      mass = WarpSumOfMasses(mass);
    }
    if (first + i < logits.groups && threadIdx.x % kWarp == 0) masses[first + i] = mass;
  }
}

__device__ void ReportTop(const LogitRow& row, int32_t wanted, uint64_t* keys, TopToken* tops) {
  const auto count = static_cast<int32_t>(wanted < row.vocab ? wanted : row.vocab);
  if (count == 0) return;
  Candidates best = {keys, -1};
  if (count <= row.groups || FitsWhole(row)) best = BestTokens(row, count, keys);
  if (best.count < 0) {
    const uint64_t worst = row.Nth(count);
    Compact(
        row.vocab, [&](int64_t id) { return row.Key(id) <= worst; },
        [&](int64_t n, int64_t id) {
          tops[n] = {static_cast<int32_t>(id), row.logits[id]};
        });
    return;
  }
  best.OrderByIds(count);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += blockDim.x) {
    const int32_t id = IdOf(keys[i]);
    tops[i] = {id, row.logits[id]};
  }
}

__device__ void ReportLogprobs(const Job& job, const SampleTask& task, uint32_t row, uint64_t* keys,
                               SampleOutcome* outcome) {
  const LogitRow logits = job.RowOf(task, row, false);
  outcome->logit = logits.logits[outcome->id];
  const Mass* masses = job.scratch.masses + job.scratch.At(1, row);
  Mass own = 0;
  for (int64_t group = threadIdx.x; group < logits.groups; group += blockDim.x) own += masses[group];
  outcome->log_total = log(static_cast<double>(BlockReduce(own, Sum(), Mass{0})) / static_cast<double>(kUnit));
  if (task.rank) {
    const uint64_t key = RankKey(outcome->logit, outcome->id);
    int32_t better = 0;
    logits.ForTokensOf(key, [&](uint64_t other) { better += other < key ? 1 : 0; });
    outcome->rank = BlockReduce(better, Sum(), 0) + 1;
  }
  __syncthreads();  // the adjusted row, in the same memory, has been read
  ReportTop(logits, task.top, keys, job.TopsOf(row));
}

// The rest of a row that wants more than its best token.
__global__ void __launch_bounds__(kRowThreads, 1) RowKernel(Job job) {
  AwaitEarlier();
  __shared__ uint64_t keys[kCandidatesMax];
  const uint32_t row = blockIdx.x;
  const SampleTask& task = job.tasks[row];
  if (WantsBestAlone(task)) return;
  uint64_t* const best = job.scratch.best + row;
  const Summary summary = SummaryOf(~best[0]);
  const Summary adjusted = task.adjusts ? SummaryOf(~best[kSampleRows]) : summary;
  __syncthreads();
  if (threadIdx.x == 0) best[0] = best[kSampleRows] = 0;
  SampleOutcome outcome = OutcomeOf(task, summary);
  if (outcome.finite && task.scored_id < 0) {
    outcome.finite = adjusted.finite;  // not where the model gives no allowed token a chance
    outcome.no_token = !adjusted.finite;
    outcome.id = adjusted.id;
    if (adjusted.finite && task.params.temperature > 0.0f) {
      const LogitRow logits = job.RowOf(task, row, task.adjusts);
      outcome.id = Draw(logits, task.params, adjusted.largest, keys).Token(task.uniform);
    }
  }
  if (outcome.finite && task.top >= 0) ReportLogprobs(job, task, row, keys, &outcome);
  if (threadIdx.x == 0) Report(job, task, row, outcome);
}

}  // namespace

size_t SampleScratchBytes(int64_t vocab) {
  return static_cast<size_t>(kSampleRows * (kWordsPerRow + 4 * GroupsOf(vocab))) * sizeof(uint64_t);
}

void LaunchSample(cudaStream_t stream, const float* logits, int64_t vocab, std::span<const SampleTask> tasks,
                  const SampleTask* on_device, SampleOutcome* outcomes, TopToken* tops, void* scratch,
                  int32_t* sampled_ids) {
  assert(static_cast<int64_t>(tasks.size()) <= kSampleRows);
  const auto rows = static_cast<uint32_t>(tasks.size());
  const bool wide = vocab % kOfLane == 0 && Aligned(logits);
  const Job job = {
      logits, vocab, on_device, outcomes, tops, sampled_ids, ScratchAt(scratch, static_cast<int32_t>(rows), vocab),
      wide};
  const bool few = vocab <= kFewLogits;
  const uint32_t threads = few ? kFewThreads : kGroupThreads;
  const uint32_t parts = BlocksFor(vocab, int64_t{threads} * kOfLane * kGroupsAhead);
  const bool adjusts = std::any_of(tasks.begin(), tasks.end(), [](const SampleTask& task) { return task.adjusts; });
  const bool scores = std::any_of(tasks.begin(), tasks.end(), WeighsScores);
  const bool draws =
      std::any_of(tasks.begin(), tasks.end(), [&](const SampleTask& task) { return WeighsDraw(task, vocab); });
  if (adjusts) Launch(stream, dim3(rows), few ? kFewThreads : kAdjustThreads, AdjustKernel, job);
  Launch(stream, dim3(parts, rows, adjusts ? 2 : 1), threads, GroupKernel, job);
  if (scores || draws) Launch(stream, dim3(parts, rows, scores ? 2 : 1), threads, MassKernel, job);
  if (!std::all_of(tasks.begin(), tasks.end(), WantsBestAlone)) {
    Launch(stream, dim3(rows), few ? kFewThreads : kRowThreads, RowKernel, job);
  }
}

}  // namespace hydrant::cuda
