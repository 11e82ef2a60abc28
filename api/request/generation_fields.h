// GenerationFields is what a request for text may say on every endpoint that generates: how tokens are drawn, when the
// text ends, what is reported of it, how it is sent, and whose it is. Each endpoint's request has these fields and its
// own.
//
// Thread: any (plain data, pure functions).
//
// Invariants of fields that ReadGenerationFields has read without an error:
//  1. Every number is finite and inside its documented range; every token id is in [0, vocab_size).
//  2. With a session id, n == 1.
#ifndef HYDRANT_API_REQUEST_GENERATION_FIELDS_H_
#define HYDRANT_API_REQUEST_GENERATION_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kv/kv_spec.h"
#include "api/request/constraint.h"
#include "api/request/request_context.h"
#include "api/request/sampling_fields.h"
#include "api/wire/api_error.h"
#include "api/wire/object_reader.h"
#include "kernels/pooling.h"
#include "kernels/sampling.h"
#include "scheduler/request/request_options.h"

namespace hydrant {

// The endpoint reads RequestOptions::max_tokens: >= 1, 0 only with echo, or kRestOfContext, as many as the context has
// room for. min_tokens <= max_tokens, where that is known. ScoringOptions::prompt_logprobs excludes `stream`;
// forced_ids, the JSON member forced_token_ids, is empty without RequestContext::debug_fields.
struct GenerationFields : SamplingFields, RequestOptions, ScoringOptions {
  // The endpoint reads these two and ScoringOptions::logprobs, because each has its own names and defaults for them.
  bool echo = false;
  bool add_special_tokens = true;  // to prompts of text

  int32_t n = 1;  // samples per prompt

  std::vector<std::string> stop;
  bool include_stop_str_in_output = false;

  // What the answer has to be. Then neither ignore_eos nor forced_ids.
  std::optional<Constraint> constraint;

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage_stats = false;
  int32_t stream_interval = 1;  // tokens per chunk

  bool return_tokens_as_token_ids = false;  // in log-probabilities

  bool skip_special_tokens = true;
  std::optional<int32_t> truncate_prompt_tokens;  // in [1, context]; kRestOfContext: as many as fit

  TimeLimit time_limit;  // its own `timeout`, or else the context's

  Pooling pooling = Pooling::kNone;  // what is wanted of its prompts instead of answers: then max_tokens is 0
  // Nobody can compare what it is answered with what it was answered before.
  bool is_answered_anew() const { return draws_anew() && logprobs < 0 && pooling == Pooling::kNone; }

  bool fits_context = false;  // max_tokens is the most there may be: fewer where the context or the pool ends before

  bool return_token_ids = false;
  bool kv_report = false;
  KvSpec kv;
  bool has_kv = false;  // the request says something about it

  std::string session_id;  // empty: of no session; else IsSessionId, and n == 1
  // A gateway named it, to have what belongs together in one place, and the request does not speak of it: what the session has no room
  // for is answered without it.
  bool session_is_affinity = false;
  std::optional<uint64_t> session_turn;  // the session's last turn, as the client knows it; 0: none
  bool session_append = false;           // the prompt is what is new, after all that the session holds

  // What the client's program calls the chat that this is a turn of: one whose KV is kept, though it sends its whole history. Empty:
  // nothing, or there is a session_id.
  std::string chat_key;

  std::string model;       // the one that the request names, of RequestContext::model_names; empty: it names none
  std::string cache_salt;  // prefixes are shared between requests of equal salts only
  std::string request_id;  // empty: the server makes one; else IsRequestId
};

inline constexpr int32_t kRestOfContext = -1;

// Reads and checks what GenerationFields holds, the endpoint's own four aside; `fields` has those already. Sets
// request's error, which is a 400 that names the field.
void ReadGenerationFields(ObjectReader* request, const RequestContext& context, GenerationFields* fields);

// The part of it that speaks of prompts and of the request, and of no answer: truncate_prompt_tokens, timeout, priority, user,
// cache_salt, request_id.
void ReadPromptFields(ObjectReader* request, const RequestContext& context, GenerationFields* fields);

// Refuses fields that cannot be kept beside `fields.constraint`, which is there. Sets request's error.
void CheckConstraint(ObjectReader* request, const GenerationFields& fields);

// `max_tokens`, or `max_completion_tokens`, its newer name; sets request's error where both are there and differ, and where it is
// more than max_tokens_max, to which a default is lowered. `min`: the fewest there may be.
int32_t ReadMaxTokens(ObjectReader* request, const RequestContext& context, int32_t default_value, int32_t min);

// Keeps `k` tokens in all: the first `leading_specials` of them (BOS, if one was added), then the last ones.
// REQUIRES: k >= 1, leading_specials <= ids->size().
void TruncatePrompt(std::vector<int32_t>* ids, int32_t k, int32_t leading_specials);

// After encoding and truncation: empty_prompt, context_length_exceeded (prompt + max_tokens <= context).
std::optional<ApiError> CheckPromptLength(int64_t prompt_tokens, int32_t max_tokens, int32_t context);
// The same with rolling positions, where `tokens_at_once`, the most that the cache holds, has to fit the context: the
// prompt while it is computed (prefill budgeted: the budget and a stride), then what the budget lets it grow to.
std::optional<ApiError> CheckRollingLength(int64_t prompt_tokens, int64_t tokens_at_once, int32_t context);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_GENERATION_FIELDS_H_
