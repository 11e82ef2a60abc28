#include "api/request/generation_fields.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "api/kv/kv_reader.h"
#include "api/request/constraint_fields.h"
#include "api/wire/request_id.h"

namespace hydrant {
namespace {

// max_tokens is the endpoint's to read, and read by now.
void ReadLengths(ObjectReader* reader, const RequestContext& context, GenerationFields* request) {
  const int32_t min_tokens_max = request->max_tokens == kRestOfContext ? context.context : request->max_tokens;
  request->min_tokens = static_cast<int32_t>(reader->Integer("min_tokens", 0, 0, min_tokens_max));
}

void ReadTruncation(ObjectReader* reader, const RequestContext& context, GenerationFields* request) {
  // -1 is vLLM's word for "as long as the context allows", which is known where the answer's length and the policy are.
  const std::optional<int64_t> truncate = reader->OptionalInteger("truncate_prompt_tokens", -1, context.context);
  if (!truncate.has_value()) return;
  if (*truncate == 0) {
    return reader->Fail("truncate_prompt_tokens",
                        absl::StrCat("'truncate_prompt_tokens' must be -1 or in [1, ", context.context, "]."));
  }
  request->truncate_prompt_tokens = static_cast<int32_t>(*truncate);
}

void ReadStops(ObjectReader* reader, const RequestContext& context, GenerationFields* request) {
  const RequestLimits& limits = context.limits;
  request->stop = reader->Strings("stop", limits.stop_max, limits.stop_bytes_max);
  request->stop_token_ids = reader->TokenIds("stop_token_ids", context.vocab_size, limits.stop_token_ids_max);
  request->include_stop_str_in_output = reader->Bool("include_stop_str_in_output", false);
  request->ignore_eos = reader->Bool("ignore_eos", false);
}

void ReadForcedTokens(ObjectReader* reader, const RequestContext& context, GenerationFields* request) {
  if (!context.debug_fields) {
    const ObjectReader::Unlogged unlogged(reader);
    if (!reader->Has("forced_token_ids")) return;
    return reader->Fail("forced_token_ids", "'forced_token_ids' needs a server started with --debug-kv-dump.");
  }
  request->forced_ids = reader->TokenIds("forced_token_ids", context.vocab_size, static_cast<size_t>(context.context));
}

void ReadStreaming(ObjectReader* reader, const RequestContext& context, GenerationFields* request) {
  request->stream = reader->Bool("stream", false);
  request->stream_interval =
      static_cast<int32_t>(reader->Integer("stream_interval", 1, 1, context.limits.stream_interval_max));
  if (!reader->Has("stream_options")) return;
  if (!request->stream) return reader->Fail("stream_options", "'stream_options' needs 'stream': true.");
  ObjectReader options = reader->Object("stream_options");
  // OpenAI pads chunks against eavesdroppers on their lengths; without padding there is nothing to switch off.
  options.RefuseOthers({"include_usage", "continuous_usage_stats", "include_obfuscation"});
  request->include_usage = options.Bool("include_usage", false);
  // As in vLLM, the usage of every chunk comes only together with the usage at the end.
  request->continuous_usage_stats = options.Bool("continuous_usage_stats", false) && request->include_usage;
}

void ReadShape(ObjectReader* reader, const RequestContext& context, GenerationFields* request) {
  request->constraint = ReadConstraint(reader);
  if (!request->constraint.has_value()) return;
  const std::string& field = request->constraint->field;
  if (!context.constraints) return reader->FailUnsupported(field, absl::StrCat("'", field, "'"));
  CheckConstraint(reader, *request);
}

// `stream` is read by now.
void ReadPromptLogprobs(ObjectReader* reader, const RequestContext& context, GenerationFields* request) {
  request->prompt_logprobs =
      static_cast<int32_t>(reader->Integer("prompt_logprobs", -1, 0, context.limits.logprobs_max));
  if (request->prompt_logprobs >= 0 && request->stream) {
    reader->Fail("prompt_logprobs", "'prompt_logprobs' cannot be combined with 'stream'.");
  }
}

void ReadIdentifiers(ObjectReader* reader, const RequestContext& context, GenerationFields* request) {
  const RequestLimits& limits = context.limits;
  request->priority = static_cast<int32_t>(reader->Integer("priority", 0, 0, context.priority_max));
  // Checked and then of no effect: nothing here is counted by user.
  reader->String("user", "", limits.identifier_bytes_max, /*identifier=*/true);
  request->cache_salt = reader->String("cache_salt", "", limits.identifier_bytes_max, /*identifier=*/true);
  request->request_id = reader->String("request_id", "", limits.request_id_bytes_max, /*identifier=*/true);
  if (reader->Has("request_id") && !IsRequestId(request->request_id, limits.request_id_bytes_max)) {
    reader->Fail("request_id", absl::StrCat("'request_id' must be 1 to ", limits.request_id_bytes_max,
                                            " characters of [A-Za-z0-9._:-]."));
  }
}

// The `timeout` of a request, or the header of the same meaning. That is a field of our own: RFC 7240's `Prefer: wait` is a wish
// that ends in a 202, and the time that OpenAI's clients send unasked, X-Stainless-Timeout, is how long they will read.
void ReadTimeLimit(ObjectReader* reader, const RequestContext& context, GenerationFields* request) {
  static constexpr const char* kField = "timeout";
  static constexpr const char* kHeader = "X-Request-Timeout";
  constexpr double kMost = 1e7;  // longer, no request takes
  const TimeLimit& limit = context.time_limit;
  TimeLimit asked = {reader->Number(kField, 0, 0, kMost, /*min_open=*/true), kField};
  request->time_limit = limit;
  if (!reader->Has(kField)) {
    if (!context.headers.timeout.has_value()) return;
    asked.name = kHeader;
    if (!absl::SimpleAtod(*context.headers.timeout, &asked.seconds) || !(asked.seconds > 0 && asked.seconds <= kMost)) {
      return reader->Fail(kHeader, absl::StrCat("'", kHeader, "' must be a number of seconds in (0, ", kMost, "]."));
    }
  }
  if (limit.seconds > 0 && asked.seconds > limit.seconds) {
    return reader->Fail(asked.name, absl::StrCat("'", asked.name, "' may be at most ", limit.seconds, " seconds here (",
                                                 limit.name, ")."));
  }
  request->time_limit = asked;
}

void ReadSession(ObjectReader* reader, const RequestContext& context, GenerationFields* request) {
  request->session_append = reader->Bool("session_append", false);
  bool is_listed = false;
  request->session_id = ReadSessionId(reader, context.headers.session, &is_listed);
  request->session_is_affinity = is_listed && !request->session_append && !context.headers.session.turn.has_value();
  if (request->session_is_affinity && request->n != 1) request->session_id.clear();
  if (request->session_id.empty()) {
    request->chat_key = ReadChatKey(reader, context.headers.session);
    if (request->session_append) reader->Fail("session_append", "'session_append' needs a 'session_id'.");
    if (context.headers.session.turn.has_value()) reader->Fail("X-Session-Turn", "X-Session-Turn needs a session.");
    return;
  }
  request->session_turn = ReadSessionTurn(reader, context.headers.session);
  if (request->n != 1) return reader->Fail("n", "A turn of a session has one answer: 'n' must be 1.");
  if (!request->session_append) return;
  // These speak of the prompt as a whole, of which the request has the end only.
  if (request->prompt_logprobs >= 0) {
    reader->Fail("prompt_logprobs", "'prompt_logprobs' cannot be combined with 'session_append'.");
  }
  if (request->echo) reader->Fail("echo", "'echo' cannot be combined with 'session_append'.");
  if (request->truncate_prompt_tokens.has_value()) {
    reader->Fail("truncate_prompt_tokens", "'truncate_prompt_tokens' cannot be combined with 'session_append'.");
  }
}

// best_of asks for the best of several samples, which this server does not rank. OpenAI refuses it with `stream`,
// except where it means nothing.
void CheckBestOf(ObjectReader* request, const GenerationFields& fields) {
  const std::optional<int64_t> best_of = request->OptionalInteger("best_of", 1, std::numeric_limits<int32_t>::max());
  if (!best_of.has_value() || *best_of == 1) return;
  if (*best_of != fields.n) return request->Fail("best_of", "'best_of' must be absent, 1 or equal to 'n'.");
  if (fields.stream) request->Fail("best_of", "'best_of' above 1 cannot be combined with 'stream'.");
}

}  // namespace

// An answer that is complete has to be able to end, and what is forced is not chosen.
void CheckConstraint(ObjectReader* request, const GenerationFields& fields) {
  for (const auto& [name, given] :
       {std::pair("ignore_eos", fields.ignore_eos), std::pair("forced_token_ids", !fields.forced_ids.empty())}) {
    if (given) {
      request->Fail(name, absl::StrCat("'", name, "' cannot be combined with '", fields.constraint->field, "'."));
    }
  }
}

void ReadPromptFields(ObjectReader* request, const RequestContext& context, GenerationFields* fields) {
  ReadTruncation(request, context, fields);
  ReadTimeLimit(request, context, fields);
  ReadIdentifiers(request, context, fields);
}

void ReadGenerationFields(ObjectReader* request, const RequestContext& context, GenerationFields* fields) {
  ReadLengths(request, context, fields);
  ReadSamplingFields(request, context, fields);
  ReadStreaming(request, context, fields);
  fields->n = static_cast<int32_t>(request->Integer("n", 1, 1, context.limits.n_max));
  CheckBestOf(request, *fields);
  ReadStops(request, context, fields);
  ReadForcedTokens(request, context, fields);
  ReadShape(request, context, fields);
  ReadPromptLogprobs(request, context, fields);
  fields->return_tokens_as_token_ids = request->Bool("return_tokens_as_token_ids", false);
  // Checked and of no effect: nothing here puts spaces between special tokens.
  request->Bool("spaces_between_special_tokens", true);
  fields->skip_special_tokens = request->Bool("skip_special_tokens", true);
  fields->return_token_ids = request->Bool("return_token_ids", false);
  fields->kv_report = request->Bool("kv_report", false);
  ReadPromptFields(request, context, fields);
  RefuseOtherKvMembers(request);
  fields->kv = ReadKvSpec(request, context.kv, context.kv_budget_max > 0 ? context.kv_budget_max : context.context);
  fields->has_kv = request->Has("kv");
  ReadSession(request, context, fields);
}

int32_t ReadMaxTokens(ObjectReader* request, const RequestContext& context, int32_t default_value, int32_t min) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const std::optional<int64_t> older = request->OptionalInteger("max_tokens", min, kMost);
  const std::optional<int64_t> newer = request->OptionalInteger("max_completion_tokens", min, kMost);
  if (older.has_value() && newer.has_value() && *older != *newer) {
    request->Fail("max_completion_tokens", "'max_tokens' and 'max_completion_tokens' must not differ.");
  }
  const std::optional<int64_t> given = newer.has_value() ? newer : older;
  const int32_t most = context.max_tokens_max > 0 ? context.max_tokens_max : std::numeric_limits<int32_t>::max();
  if (!given.has_value()) return std::min(default_value, most);
  if (*given > most) {
    const std::string_view field = newer.has_value() ? "max_completion_tokens" : "max_tokens";
    request->Fail(
        field, absl::StrCat("'", std::string(field), "' may be at most ", most, " for this tenant (max_tokens_max)."));
  }
  return static_cast<int32_t>(*given);
}

void TruncatePrompt(std::vector<int32_t>* ids, int32_t k, int32_t leading_specials) {
  assert(k >= 1 && leading_specials >= 0 && static_cast<size_t>(leading_specials) <= ids->size());
  if (ids->size() <= static_cast<size_t>(k)) return;
  const int32_t kept_front = std::min(leading_specials, k);
  const int32_t kept_back = k - kept_front;
  ids->erase(ids->begin() + kept_front, ids->end() - kept_back);
}

std::optional<ApiError> CheckPromptLength(int64_t prompt_tokens, int32_t max_tokens, int32_t context) {
  if (prompt_tokens == 0) return EmptyPrompt();
  if (prompt_tokens + max_tokens > context) return ContextLengthExceeded(context, prompt_tokens, max_tokens);
  return std::nullopt;
}

std::optional<ApiError> CheckRollingLength(int64_t prompt_tokens, int64_t tokens_at_once, int32_t context) {
  if (prompt_tokens == 0) return EmptyPrompt();
  if (tokens_at_once > context) return RollingContextExceeded(context, prompt_tokens, tokens_at_once);
  return std::nullopt;
}

}  // namespace hydrant
