// What a logits row becomes: one token id and its log-probabilities.
//
// Before a choice, greedy or drawn, a row may be adjusted (LogitAdjustments). In vLLM's order:
//   allowed   where there are any, every other token can not be chosen (logit -inf); nor, where there are bits, a token
//             whose bit is not set
//   banned    nor can these; where that leaves no token at all, the row is adjusted as if none were banned
//   biases    are added
//   counts    penalise what is in the text already: a positive logit is divided by `repetition`, another one multiplied
//             with it, then `frequency` times the count in the output and, if that is not 0, `presence` are subtracted
// A finite logit stays finite. Log-probabilities are those of the row as it was. A row that is left without a token that can
// be chosen is an error of the row.
//
// A draw, for temperature > 0 (vLLM's order of filters; each keeps at least the best token):
//   weight[i] = exp((logit[i] - largest) / temperature)
//   min_p     keeps weight[i] >= min_p
//   top_k     keeps the first top_k by (logit descending, id ascending): exactly k, so top_k = 1 is greedy
//   top_p     keeps, in that order, every token whose better tokens hold less than top_p of the mass left so far
//   u         uniform in [0, 1) from Philox (kernels/philox.h), `key`, counter `position`
//   id        the first in ascending id order at which the cumulative weight of the kept exceeds u times their total
// A logit of -inf is a token that cannot be drawn; NaN, +inf, or a row without a finite logit is an error of the row.
#ifndef HYDRANT_KERNELS_SAMPLING_H_
#define HYDRANT_KERNELS_SAMPLING_H_

#include <cstdint>
#include <span>
#include <vector>

namespace hydrant {

// Plain data, validated by the caller: the reader of requests (api/request) writes into it. Every field is finite and
// inside its range.
struct SamplingParams {
  float temperature = 1.0f;  // [0, 2]; 0 = greedy (lowest id on a tie)
  float top_p = 1.0f;        // (0, 1]
  int32_t top_k = 0;         // <= 0 = off
  float min_p = 0.0f;        // [0, 1]
  // Philox key; the counter is the position of the sampled token, so a draw never depends on the batch.
  uint64_t key = 0;
};

// ScoringOptions says what is reported of a sequence's tokens besides their ids, and which tokens are given. Plain
// data, validated by the caller: the reader of requests (api/request) writes into it, too.
struct ScoringOptions {
  int32_t logprobs = -1;         // of generated tokens: -1 none, k >= 0 the token's own and the k best
  int32_t prompt_logprobs = -1;  // of prompt tokens 1, 2, …: likewise
  // Teacher forcing: token i is forced_ids[i] instead of a sampled one while there are any (its log-probability is
  // reported as if it had been sampled). For measuring perplexity under eviction.
  std::vector<int32_t> forced_ids;
};

struct TokenBias {
  int32_t id = 0;
  float bias = 0.0f;  // finite
};

// A token of the text so far.
struct TokenCount {
  int32_t id = 0;
  int32_t count = 0;  // in the output; 0: in the prompt alone
};

// LogitAdjustments are what a sequence asks of its next token. They are sparse, because a device is handed them at
// every step: nothing here is as long as the vocabulary but `allowed` where a client says so, and a bit per token. Every id
// is in the vocabulary; in biases and counts none is twice.
struct LogitAdjustments {
  std::span<const int32_t> allowed;  // empty: all
  std::span<const int32_t> banned;
  std::span<const TokenBias> biases;
  std::span<const TokenCount> counts;
  float repetition = 1.0f;  // > 0
  float frequency = 0.0f;
  float presence = 0.0f;
  // The id last sampled for the request's state row counts once more, in the output: that of a step on its way.
  bool counts_last = false;
  // [(vocabulary + 31) / 32], bit id % 32 of word id / 32: what an answer's shape allows. Empty: all.
  std::span<const uint32_t> allowed_bits = {};
};

struct TokenLogprob {
  int32_t id;
  float logprob;  // natural logarithm of softmax(logits), before temperature and filters
};

// One logits row to turn into a token, or to score a given one.
struct SampleRequest {
  int32_t logits_row = 0;                  // row of the logits matrix
  const SamplingParams* params = nullptr;  // null when scored_id >= 0
  // Adjustments of the row before it is sampled; null: none.
  const LogitAdjustments* adjustments = nullptr;
  int64_t position = 0;    // position of the sampled token: the Philox counter
  int32_t scored_id = -1;  // >= 0: do not sample, report this token
  int32_t logprobs = -1;   // -1: none; k >= 0: the token's log-probability and the k best
  bool rank = false;       // with logprobs: the token's rank too
  // >= 0: the id is kept as the one last sampled for it (StepBatch), 0 where the row is an error.
  int32_t state_row = -1;
  std::span<const int32_t> stop_ids = {};  // ids after which the state row has no next token
};

struct SampleResult {
  int32_t id = -1;
  bool finite = true;     // false: the row held a NaN or +inf, or no finite logit, or `no_token`; id is meaningless
  bool no_token = false;  // nothing that the model gives a chance is allowed
  float logprob = 0.0f;
  int32_t best = -1;              // the row's first by the order of `top`, as the row was; -1 without log-probabilities
  int32_t rank = 0;               // 1 = the best, by the order of `top`; 0 when not asked for
  std::vector<TokenLogprob> top;  // the k best, by (logprob descending, id ascending); empty when not asked for
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_SAMPLING_H_
