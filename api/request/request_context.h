// RequestContext is what a request cannot know by itself: the model's sizes, the names it may be asked for by, the
// server's limits and defaults.
//
// Thread: any (plain data).
#ifndef HYDRANT_API_REQUEST_REQUEST_CONTEXT_H_
#define HYDRANT_API_REQUEST_REQUEST_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kv/kv_spec.h"
#include "api/response/tool_call_parser.h"
#include "api/session/session.h"
#include "api/wire/json_body.h"
#include "api/wire/limits.h"
#include "api/wire/object_reader.h"

namespace hydrant {

// The values of sampling fields that a request leaves out.
struct SamplingDefaults {
  double temperature = 1.0;
  double top_p = 1.0;
  int64_t top_k = 0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
};

// How long a request may take, from its head to the end of its answer, and what says so.
struct TimeLimit {
  double seconds = 0;     // 0: no limit
  const char* name = "";  // a literal
};

// What the header fields of a request say that a field of its body can say, too.
struct RequestHeaders {
  SessionHeaders session;
  std::optional<std::string> timeout;  // X-Request-Timeout
};

struct RequestContext : SamplingDefaults {
  RequestLimits limits;
  std::vector<std::string> model_names;  // names that `model` may have; the first is the one in responses
  std::function<bool(std::string_view)> is_other_model;  // whether it may have this one, too; null: it may not
  int32_t vocab_size = 0;
  int32_t context = 0;     // max_model_len
  int32_t state_cols = 0;  // numbers of a token's hidden state
  // Most tokens of an answer to a request that does not say how many and may have the rest of the context; 0: all of that.
  int32_t max_new_tokens = 0;
  KvSpec kv;                   // default of the field `kv`
  int32_t kv_budget_max = 0;   // largest budget a request may ask for; 0: the context
  int32_t priority_max = 0;    // largest `priority` a request may have
  int32_t max_tokens_max = 0;  // largest `max_tokens` a request may have; 0: the context's
  TimeLimit time_limit;        // longest `timeout` a request may have, and that of one without
  RequestHeaders headers;      // of this request
  bool constraints = false;    // answers can be held to a schema or expression
  std::string tool_format;     // how the model writes tool calls, a name of grammar::ToolFormat; empty: not known
  std::vector<std::string> tool_markers;  // its texts that are special tokens (ShapeVocabulary::markers)
  CallMark call_mark = CallMark::kNone;
  bool calls_are_json_answers = false;  // in that format a call is an answer in JSON like any other
  bool debug_fields = false;            // accept `forced_token_ids` (--debug-kv-dump)
  FieldLog* log = nullptr;              // gets every field that is read; null: none is kept
};

// Checks the member `model`: absent means the served one, an unknown one is 404 model_not_found. Sets request's error. Returns the name
// that is there; empty: none is.
std::string CheckModelField(ObjectReader* request, const RequestContext& context);

// The request that `body`, a JSON object, asks for. Its `model` is checked, then read(&reader, &budget, &request) reads the rest;
// the first error that any of them sets is returned. JSON inside members counts against the same budget.
template <typename Request, typename Read>
ApiResult<Request> ParseBody(std::string_view body, const RequestContext& context, const Read& read) {
  JsonBudget budget(context.limits);
  const ApiResult<JsonBody> document = JsonBody::ParseObject(body, &budget);
  if (!document.ok()) return document.error();
  std::optional<ApiError> error;
  ObjectReader reader(document.value().root(), "", &error, context.log);
  Request request;
  std::string model = CheckModelField(&reader, context);
  if constexpr (requires { request.model; }) request.model = std::move(model);
  read(&reader, &budget, &request);
  if (error.has_value()) return *std::move(error);
  return request;
}

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_REQUEST_CONTEXT_H_
