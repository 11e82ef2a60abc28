#include "kernels/cpu/sampling/sampling.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "kernels/philox.h"

namespace hydrant {
namespace {

// Integers in the order of the floats (no NaN); -0 counts as +0, as it does in a comparison of floats.
uint32_t Ordered(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// Better tokens are smaller: logit descending, then id ascending. A total order, so every selection below has one answer.
uint64_t Rank(std::span<const float> logits, int32_t id) {
  return (uint64_t{~Ordered(logits[static_cast<size_t>(id)])} << 32) | static_cast<uint32_t>(id);
}

// The first id in ascending order at which the running weight exceeds u times the total.
int32_t DrawFromBlocks(std::span<const float> weights, const double* block_sums, double total, double u) {
  const double target = u * total;
  const int64_t count = std::ssize(weights), blocks = (count + kWeightBlock - 1) / kWeightBlock;
  double below = 0.0;
  int64_t block = 0;
  while (block + 1 < blocks && below + block_sums[block] <= target) below += block_sums[block++];
  int64_t last = -1;
  for (int64_t i = block * kWeightBlock; i < std::min(count, (block + 1) * kWeightBlock); ++i) {
    if (weights[static_cast<size_t>(i)] == 0.0f) continue;
    last = i;
    below += static_cast<double>(weights[static_cast<size_t>(i)]);
    if (below > target) break;
  }
  // The block's sum and the running sum round differently; its last possible token stands for the difference. A block of
  // zeros is reached only when everything after it is zero too: then the last possible token before it does.
  for (int64_t i = block * kWeightBlock - 1; last < 0; --i) {
    if (weights[static_cast<size_t>(i)] != 0.0f) last = i;
  }
  return static_cast<int32_t>(last);
}

// The ids that the filters keep, in ascending order, out of `ids` that hold `count` ids with weight >= min_p.
int64_t ApplyTopKAndTopP(std::span<const float> logits, const float* weights, const SamplingParams& params,
                         int32_t* ids, int64_t count) {
  const auto better = [&](int32_t a, int32_t b) { return Rank(logits, a) < Rank(logits, b); };
  if (params.top_k > 0 && params.top_k < count) {
    std::nth_element(ids, ids + params.top_k - 1, ids + count, better);
    count = params.top_k;
    std::sort(ids, ids + count);
  }
  if (params.top_p >= 1.0f) return count;

  double total = 0.0;
  for (int64_t i = 0; i < count; ++i) total += static_cast<double>(weights[ids[i]]);
  const double wanted = static_cast<double>(params.top_p) * total;
  // The nucleus is usually small: sort a growing prefix of the best instead of everything.
  double above = 0.0;
  int64_t kept = 0;
  for (int64_t sorted = 0, step = 64; kept < count && (kept == 0 || above < wanted); step *= 4) {
    const int64_t end = std::min(count, sorted + step);
    if (end < count) std::nth_element(ids + sorted, ids + end, ids + count, better);
    std::sort(ids + sorted, ids + end, better);
    while (kept < end && (kept == 0 || above < wanted)) above += static_cast<double>(weights[ids[kept++]]);
    sorted = end;
  }
  std::sort(ids, ids + kept);
  return kept;
}

int32_t Draw(const SamplingKernels& kernels, std::span<const float> logits, float largest, const SampleRequest& request,
             const SamplingScratch& scratch) {
  const SamplingParams& params = *request.params;
  const int64_t vocab = std::ssize(logits);
  const double u = PhiloxUniform(params.key, request.position);
  const double total = kernels.exp_weights(logits.data(), vocab, largest, 1.0f / params.temperature, scratch.weights,
                                           scratch.block_sums);
  const bool filtered = params.min_p > 0.0f || params.top_p < 1.0f || (params.top_k > 0 && params.top_k < vocab);
  if (!filtered) return DrawFromBlocks({scratch.weights, logits.size()}, scratch.block_sums, total, u);

  int64_t kept = 0;
  for (int64_t id = 0; id < vocab; ++id) {
    scratch.ids[kept] = static_cast<int32_t>(id);
    kept += scratch.weights[id] >= params.min_p ? 1 : 0;
  }
  kept = ApplyTopKAndTopP(logits, scratch.weights, params, scratch.ids, kept);
  double kept_total = 0.0;
  for (int64_t i = 0; i < kept; ++i) kept_total += static_cast<double>(scratch.weights[scratch.ids[i]]);
  double below = 0.0;
  int32_t last = scratch.ids[0];
  for (int64_t i = 0; i < kept; ++i) {
    const double weight = static_cast<double>(scratch.weights[scratch.ids[i]]);
    if (weight == 0.0) continue;
    last = scratch.ids[i];
    below += weight;
    if (below > u * kept_total) break;
  }
  return last;
}

constexpr float kNever = -std::numeric_limits<float>::infinity();

// A penalty or bias never makes an infinity of a finite logit, nor a finite one of -inf.
float StayFinite(float before, float after) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  return before == kNever ? kNever : std::clamp(after, -kLargest, kLargest);
}

// The row that is chosen from, in scratch.adjusted.
std::span<const float> Adjust(const SamplingKernels& kernels, std::span<const float> logits,
                              const LogitAdjustments& adjustments, int32_t last, const SamplingScratch& scratch) {
  float* y = scratch.adjusted;
  const std::span<const uint32_t> bits = adjustments.allowed_bits;
  const auto has_bit = [&](int32_t id) {
    return bits.empty() || (bits[static_cast<size_t>(id) / 32] >> (id % 32) & 1);
  };
  const auto take_allowed = [&] {
    if (!adjustments.allowed.empty()) {
      std::fill_n(y, logits.size(), kNever);
      for (const int32_t id : adjustments.allowed) y[id] = has_bit(id) ? logits[static_cast<size_t>(id)] : kNever;
    } else if (!bits.empty()) {
      kernels.mask_logits(logits.data(), bits.data(), std::ssize(logits), y);
    } else {
      std::copy(logits.begin(), logits.end(), y);
    }
  };
  take_allowed();
  for (const int32_t id : adjustments.banned) y[id] = kNever;
  if (!adjustments.banned.empty() && std::all_of(y, y + logits.size(), [](float x) { return x == kNever; })) {
    take_allowed();
  }
  for (const TokenBias& bias : adjustments.biases) y[bias.id] = StayFinite(y[bias.id], y[bias.id] + bias.bias);
  const auto penalise = [&](int32_t id, int32_t count) {
    const float before = y[id];
    float x = before > 0.0f ? before / adjustments.repetition : before * adjustments.repetition;
    x -= adjustments.frequency * static_cast<float>(count);
    if (count > 0) x -= adjustments.presence;
    y[id] = StayFinite(before, x);
  };
  for (const TokenCount& seen : adjustments.counts) {
    penalise(seen.id, seen.id == last ? seen.count + 1 : seen.count);
    if (seen.id == last) last = -1;
  }
  if (last >= 0) penalise(last, 1);
  return {y, logits.size()};
}

// REQUIRES: request.scored_id < 0; the row is finite, `summary` of it.
SampleResult Choose(const SamplingKernels& kernels, std::span<const float> logits, LogitsSummary summary,
                    const SampleRequest& request, int32_t last, const SamplingScratch& scratch) {
  SampleResult result;
  if (request.adjustments != nullptr) {
    logits = Adjust(kernels, logits, *request.adjustments, last, scratch);
    summary = kernels.summarize_logits(logits.data(), std::ssize(logits));
    result.finite = summary.finite;  // not where the model gives no allowed token a chance
    result.no_token = !summary.finite;
    if (!result.finite) return result;
  }
  result.id = request.params->temperature == 0.0f ? summary.largest_id
                                                  : Draw(kernels, logits, summary.largest, request, scratch);
  return result;
}

int32_t RankOf(std::span<const float> logits, int32_t id) {
  const float own = logits[static_cast<size_t>(id)];
  int32_t better = 0;
  for (const float x : logits) better += x > own ? 1 : 0;
  // Equal logits rank by id.
  for (int32_t other = 0; other < id; ++other) better += logits[static_cast<size_t>(other)] == own ? 1 : 0;
  return better + 1;
}

void ReportLogprobs(const SamplingKernels& kernels, std::span<const float> logits, float largest, int32_t wanted,
                    const SamplingScratch& scratch, SampleResult& result) {
  const double total =
      kernels.exp_weights(logits.data(), std::ssize(logits), largest, 1.0f, nullptr, scratch.block_sums);
  const double log_total = std::log(total);
  // One formula for the token and for the k best: equal ids get equal bits.
  const auto logprob = [&](int32_t id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<size_t>(id)]) - static_cast<double>(largest) -
                              log_total);
  };
  result.logprob = logprob(result.id);

  const int64_t count = std::min<int64_t>(wanted, std::ssize(logits));
  if (count == 0) return;
  const auto better = [&](int32_t a, int32_t b) { return Rank(logits, a) < Rank(logits, b); };
  // A heap of the best so far with the worst of them on top: nearly every id fails the one comparison with it.
  int32_t* best = scratch.ids;
  for (int32_t id = 0; id < count; ++id) best[id] = id;
  std::make_heap(best, best + count, better);
  float threshold = logits[static_cast<size_t>(best[0])];
  for (int64_t id = count; id < std::ssize(logits); ++id) {
    // An equal logit with a higher id is worse.
    if (!(logits[static_cast<size_t>(id)] > threshold)) continue;
    std::pop_heap(best, best + count, better);
    best[count - 1] = static_cast<int32_t>(id);
    std::push_heap(best, best + count, better);
    threshold = logits[static_cast<size_t>(best[0])];
  }
  std::sort_heap(best, best + count, better);
  result.top.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) result.top.push_back({best[i], logprob(best[i])});
}

}  // namespace

SampleResult SampleRow(const SamplingKernels& kernels, std::span<const float> logits, const SampleRequest& request,
                       int32_t last, const SamplingScratch& scratch) {
  SampleResult result;
  const LogitsSummary summary = kernels.summarize_logits(logits.data(), std::ssize(logits));
  result.finite = summary.finite;
  if (!result.finite) return result;

  if (request.scored_id >= 0) {
    assert(request.scored_id < std::ssize(logits));
    result.id = request.scored_id;
  } else {
    result = Choose(kernels, logits, summary, request, last, scratch);
    if (!result.finite) return result;
  }
  if (request.logprobs >= 0) {
    result.best = summary.largest_id;
    ReportLogprobs(kernels, logits, summary.largest, request.logprobs, scratch, result);
    if (request.rank) result.rank = RankOf(logits, result.id);
  }
  return result;
}

}  // namespace hydrant
