#include "kernels/cuda/sampling/sample_queue.h"

#include <algorithm>
#include <cassert>
#include <new>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/philox.h"

namespace hydrant::cuda {
namespace {

// Launches of kStepsInFlight steps in which every row samples.
size_t LaunchesOf(const StepBounds& bounds) {
  const int64_t of_step = std::max<int64_t>(1, (int64_t{bounds.rows_max} + kSampleRows - 1) / kSampleRows);
  return static_cast<size_t>(kStepsInFlight * of_step);
}

int64_t TopBytes(const StepBounds& bounds) {
  return kSampleRows * bounds.vocab * static_cast<int64_t>(sizeof(TopToken));
}

int64_t IdBytes(const StepBounds& bounds) { return int64_t{bounds.rows_max} * static_cast<int64_t>(sizeof(int32_t)); }

constexpr int64_t kOutcomeBytes = kSampleRows * static_cast<int64_t>(sizeof(SampleOutcome));
// Most tasks adjust nothing.
constexpr int64_t kTaskBytes = kSampleRows * static_cast<int64_t>(sizeof(SampleTask)) + 4096;

size_t AdjustmentBytes(const LogitAdjustments& adjustments) {
  return Uploads::PacketBytes(adjustments.allowed) + Uploads::PacketBytes(adjustments.banned) +
         Uploads::PacketBytes(adjustments.biases) + Uploads::PacketBytes(adjustments.counts) +
         Uploads::PacketBytes(adjustments.allowed_bits);
}

SampleTask TaskOf(const SampleRequest& request, Uploads& uploads) {
  SampleTask task = {};
  task.logits_row = request.logits_row;
  task.scored_id = request.scored_id;
  task.state_row = request.state_row;
  task.top = request.logprobs;
  task.rank = request.rank;
  task.stop_ids = uploads.Add(request.stop_ids);
  task.stop_count = static_cast<int32_t>(request.stop_ids.size());
  if (request.scored_id >= 0) return task;
  task.params = *request.params;
  task.uniform = PhiloxUniform(request.params->key, request.position);
  if (request.adjustments == nullptr) return task;
  const LogitAdjustments& adjustments = *request.adjustments;
  task.adjusts = true;
  task.allowed = uploads.Add(adjustments.allowed);
  task.allowed_count = static_cast<int32_t>(adjustments.allowed.size());
  task.banned = uploads.Add(adjustments.banned);
  task.banned_count = static_cast<int32_t>(adjustments.banned.size());
  task.biases = uploads.Add(adjustments.biases);
  task.bias_count = static_cast<int32_t>(adjustments.biases.size());
  task.counts = uploads.Add(adjustments.counts);
  task.count_count = static_cast<int32_t>(adjustments.counts.size());
  task.repetition = adjustments.repetition;
  task.frequency = adjustments.frequency;
  task.presence = adjustments.presence;
  task.counts_last = adjustments.counts_last;
  if (!adjustments.allowed_bits.empty()) task.allowed_bits = uploads.Add(adjustments.allowed_bits);
  return task;
}

// `top`: by ascending ids. Null: no log-probabilities are wanted. Takes no memory: result->top has room.
void SetResult(const SampleOutcome& outcome, const std::span<TopToken>* top, SampleResult* result) {
  result->finite = outcome.finite;
  result->no_token = outcome.no_token;
  if (!result->finite) return;
  result->id = outcome.id;
  if (top == nullptr) return;
  // One formula for the token and for the k best: equal ids get equal bits.
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(outcome.largest) - outcome.log_total);
  };
  result->logprob = logprob(outcome.logit);
  result->best = outcome.best;
  result->rank = outcome.rank;
  std::stable_sort(top->begin(), top->end(), [](const TopToken& a, const TopToken& b) { return a.logit > b.logit; });
  assert(result->top.empty() && result->top.capacity() >= top->size());
  for (const TopToken& token : *top) result->top.push_back({token.id, logprob(token.logit)});
}

}  // namespace

SampleQueue::Launch::Launch()
    : outcomes(static_cast<size_t>(kOutcomeBytes)), tops(kSampleRows * kTopsMax * sizeof(TopToken)) {}

SampleQueue::SampleQueue(cudaStream_t stream, const StepBounds& bounds)
    : stream_(stream),
      vocab_(bounds.vocab),
      uploads_(stream, static_cast<size_t>(kTaskBytes), LaunchesOf(bounds)),
      tops_(static_cast<size_t>(TopBytes(bounds))),
      scratch_(SampleScratchBytes(bounds.vocab)),
      outcomes_(static_cast<size_t>(kOutcomeBytes)),
      sampled_ids_(static_cast<size_t>(IdBytes(bounds))),
      launches_(LaunchesOf(bounds)) {
  for (std::unique_ptr<Launch>& launch : launches_) launch = std::make_unique<Launch>();
  CheckCuda(cudaMemsetAsync(sampled_ids_.data(), 0, sampled_ids_.bytes(), stream_), "cudaMemsetAsync");
}

int64_t SampleQueue::Bytes(const StepBounds& bounds) {
  return TopBytes(bounds) + static_cast<int64_t>(SampleScratchBytes(bounds.vocab)) + kOutcomeBytes + IdBytes(bounds) +
         kTaskBytes;
}

uint64_t SampleQueue::Sample(const Matrix& logits, std::span<const SampleRequest> requests,
                             std::span<SampleResult> results) {
  assert(requests.size() == results.size() && logits.cols <= vocab_);
  ++calls_;
  const uint64_t queued_before = queued_;
  try {
    for (size_t begin = 0; begin == 0 || begin < requests.size(); begin += kSampleRows) {
      const size_t count = std::min<size_t>(kSampleRows, requests.size() - begin);
      Queue(logits, requests.subspan(begin, count), results.subspan(begin, count));
    }
  } catch (const std::bad_alloc&) {
    for (uint64_t i = std::max(queued_before, collected_); i < queued_; ++i) At(i).results = {};
    throw;
  }
  return calls_;
}

void SampleQueue::Await(uint64_t number) {
  while (collected_ < queued_ && At(collected_).number <= number) Collect(At(collected_++));
}

void SampleQueue::Queue(const Matrix& logits, std::span<const SampleRequest> requests,
                        std::span<SampleResult> results) {
  if (queued_ - collected_ == launches_.size()) Collect(At(collected_++));
  Launch& launch = At(queued_);
  launch.number = calls_;
  launch.results = results;
  launch.wanted.clear();
  const auto count = static_cast<int32_t>(requests.size());
  if (count > 0) {
    std::vector<SampleTask> tasks(requests.size());
    size_t bytes = Uploads::PacketBytes(std::span(tasks));
    for (const SampleRequest& request : requests) {
      bytes += Uploads::PacketBytes(request.stop_ids);
      if (request.adjustments != nullptr) bytes += AdjustmentBytes(*request.adjustments);
    }
    uploads_.Begin(bytes);
    for (size_t i = 0; i < requests.size(); ++i) {
      assert(requests[i].logits_row >= 0 && requests[i].logits_row < logits.rows);
      tasks[i] = TaskOf(requests[i], uploads_);
    }
    const SampleTask* at = uploads_.Add<SampleTask>(tasks);
    uploads_.Send();
    auto* outcomes = static_cast<SampleOutcome*>(outcomes_.data());
    // After a launch that failed half-way the scratch memory is not what the next one expects.
    if (!scratch_ready_) CheckCuda(cudaMemsetAsync(scratch_.data(), 0, scratch_.bytes(), stream_), "cudaMemsetAsync");
    scratch_ready_ = false;
    LaunchSample(stream_, static_cast<const float*>(logits.data), logits.cols, tasks, at, outcomes,
                 static_cast<TopToken*>(tops_.data()), scratch_.data(), static_cast<int32_t*>(sampled_ids_.data()));
    scratch_ready_ = true;
    CheckCuda(cudaMemcpyAsync(launch.outcomes.data(), outcomes, requests.size() * sizeof(SampleOutcome),
                              cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync");
  }
  launch.many.resize(requests.size());
  for (int32_t row = 0; row < count; ++row) {
    const int32_t wanted = requests[static_cast<size_t>(row)].logprobs;
    launch.wanted.push_back(static_cast<int32_t>(std::min<int64_t>(wanted, logits.cols)));
    SampleResult& result = results[static_cast<size_t>(row)] = {};
    result.top.reserve(static_cast<size_t>(std::max(launch.wanted.back(), 0)));
    if (wanted > 0) QueueTops(launch, row, logits.cols);
  }
  CheckCuda(cudaEventRecord(launch.done, stream_), "cudaEventRecord");
  ++queued_;  // complete
}

void SampleQueue::QueueTops(Launch& launch, int32_t row, int64_t vocab) {
  const auto wanted = static_cast<size_t>(launch.wanted[static_cast<size_t>(row)]);
  TopToken* to = reinterpret_cast<TopToken*>(launch.tops.data()) + int64_t{row} * kTopsMax;
  if (wanted > kTopsMax) {
    std::vector<TopToken>& many = launch.many[static_cast<size_t>(row)];
    many.resize(wanted);
    to = many.data();
  }
  CheckCuda(cudaMemcpyAsync(to, static_cast<const TopToken*>(tops_.data()) + row * vocab, wanted * sizeof(TopToken),
                            cudaMemcpyDeviceToHost, stream_),
            "cudaMemcpyAsync");
}

void SampleQueue::Collect(Launch& launch) {
  CheckCuda(cudaEventSynchronize(launch.done), "cudaEventSynchronize");
  const auto* outcomes = reinterpret_cast<const SampleOutcome*>(launch.outcomes.data());
  for (size_t row = 0; row < launch.results.size(); ++row) {
    const int32_t wanted = launch.wanted[row];
    TopToken* at = wanted > kTopsMax ? launch.many[row].data()
                                     : reinterpret_cast<TopToken*>(launch.tops.data()) + row * size_t{kTopsMax};
    const std::span<TopToken> top(at, static_cast<size_t>(std::max(wanted, 0)));
    SetResult(outcomes[row], wanted >= 0 ? &top : nullptr, &launch.results[row]);
  }
}

}  // namespace hydrant::cuda
