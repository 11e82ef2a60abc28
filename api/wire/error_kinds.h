// ErrorKinds are all errors that leave the server: the one table of code, HTTP status and type, with cause and remedy for
// docs/api.md. An ErrorCode names a row of it; a code that the table lacks does not compile.
//
// Thread: any (constants).
//
// Invariants:
//  1. (code, status) occurs once. A code has one cause; where it has two statuses, each has its own row.
//  2. docs/api.md has these rows in this order (tests/api/wire/error_kinds_test.cc compares).
#ifndef HYDRANT_API_WIRE_ERROR_KINDS_H_
#define HYDRANT_API_WIRE_ERROR_KINDS_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace hydrant {

enum class ErrorType : uint8_t {
  kInvalidRequest,  // invalid_request_error
  kNotFound,        // not_found_error
  kAuthentication,  // authentication_error
  kPermission,      // permission_error
  kConflict,        // conflict_error
  kRateLimit,       // rate_limit_error
  kOverloaded,      // overloaded_error
  kTimeout,         // timeout_error
  kServer,          // server_error
};

std::string_view ErrorTypeName(ErrorType type);

struct ErrorKind {
  std::string_view code;
  int status = 0;
  ErrorType type = ErrorType::kServer;
  std::string_view cause;   // Markdown, one line
  std::string_view remedy;  // the same
};

// By status, then by code.
std::span<const ErrorKind> ErrorKinds();

namespace error_kinds {

inline constexpr ErrorType kInvalid = ErrorType::kInvalidRequest;

// clang-format off
inline constexpr ErrorKind kTable[] = {
    {"chat_template_missing", 400, kInvalid, "The model has no chat template.", "Use `/v1/completions`, or start the server with `--chat-template FILE`."},
    {"conflicting_constraints", 400, kInvalid, "Two fields say what the answer has to be. The message names both.", "Send one of them."},
    {"context_length_exceeded", 400, kInvalid, "Prompt and answer, or with rolling positions what is held at once, exceed the context.", "Shorten the prompt or `max_tokens`; with rolling positions lower `kv.budget` or set `kv.prefill` to `budgeted`."},
    {"empty_prompt", 400, kInvalid, "The prompt is empty, or has no tokens after tokenization.", "Send at least one token."},
    {"invalid_grammar", 400, kInvalid, "The grammar, or a tag, is none that can be enforced. The message has the place.", "Mend it."},
    {"invalid_json", 400, kInvalid, "The body is not JSON, or not an object. The message has the byte.", "Send a JSON object in UTF-8."},
    {"invalid_regex", 400, kInvalid, "The expression, or a `pattern` of the schema, is none that can be enforced. The message has the column.", "Mend it; look-around and back-references are not regular."},
    {"invalid_schema", 400, kInvalid, "The schema is no JSON schema. The message has the place.", "Mend it."},
    {"invalid_session_state", 400, kInvalid, "`PUT /v1/sessions/{id}/state`: the body is not what `GET` of it gave, or not all of it. The message names the part.", "Fetch the state again."},
    {"invalid_tenants_file", 400, kInvalid, "`POST /admin/reload`: the tenants file or a file of keys is wrong. The message names the place. What was in force stays so.", "Mend the file and reload."},
    {"invalid_type", 400, kInvalid, "The field that `param` names has a value of the wrong JSON type.", "Send the type that the message asks for."},
    {"invalid_value", 400, kInvalid, "The field that `param` names is out of its range, or contradicts another one.", "Keep to the range that the message states."},
    {"json_too_deep", 400, kInvalid, "The body nests deeper than the server reads.", "Nest less."},
    {"json_too_many_nodes", 400, kInvalid, "The body has more values than the server reads.", "Send token ids or prompts in fewer, smaller requests."},
    {"kv_capacity_exceeded", 400, kInvalid, "The request needs more KV blocks than the pool, or its tenant, can ever have.", "Shorten the prompt, lower `max_tokens`, or set a smaller `kv.budget`."},
    {"malformed_http", 400, kInvalid, "The request is not valid HTTP/1.1. The connection is closed.", "Use an HTTP library; look at the proxy between."},
    {"missing_field", 400, kInvalid, "The field that `param` names is required.", "Send it."},
    {"no_token_allowed", 400, kInvalid, "The answer came to a place where its form, `allowed_token_ids` and the model leave no token.", "Allow more tokens, or leave one of the two out."},
    {"no_tool_call_format", 400, kInvalid, "A call is required, or a tool is `strict`, and the model's template shows no format of calls that is known.", "Name it with `--tool-call-parser`, or leave the choice to the model."},
    {"prefix_not_allowed", 400, kInvalid, "The message that the answer goes on with is not how an answer of this form begins.", "Send a beginning that fits, or none."},
    {"structured_output_too_complex", 400, kInvalid, "The schema or expression takes more work than one may. The message has the place.", "Simplify it: fewer alternatives that begin alike, smaller counts."},
    {"structured_output_too_large", 400, kInvalid, "The schema, expression or list of choices is larger than one may be.", "Send less; the message has the bound."},
    {"template_error", 400, kInvalid, "The chat template refused the messages, or does not fit them.", "Follow the message: it has the template's words."},
    {"token_id_out_of_range", 400, kInvalid, "A token id is not in the vocabulary.", "Send ids of this model's tokenizer (`POST /tokenize`)."},
    {"tpm_exceeded", 400, kInvalid, "The request alone asks for more tokens than the tenant's `tpm` can ever give.", "Shorten the prompt or `max_tokens`."},
    {"unknown_field", 400, kInvalid, "An object of this server's own (`kv`, `stream_options`, `structured_outputs`) has a member that the server does not know.", "Look for a typing error; the message has the members."},
    {"unprovable_one_of", 400, kInvalid, "Branches of a `oneOf` may both match, which cannot be enforced. The message names them.", "Use `anyOf`, or a required property with a `const` in each branch."},
    {"unsatisfiable_schema", 400, kInvalid, "No value fits the schema, at the place that the message names.", "Mend it."},
    {"unsupported", 400, kInvalid, "The field that `param` names is known, but this server cannot do it.", "Leave the field out ([compatibility.md](compatibility.md))."},
    {"unsupported_item", 400, kInvalid, "`/v1/responses`: an item, or a part of one, is of a type that this server does not read. `param` names it.", "Leave it out ([responses.md](responses.md))."},
    {"unsupported_schema_keyword", 400, kInvalid, "The schema uses a keyword that is not enforced here, or not at the place that the message names.", "Remove it, and check it yourself."},
    {"invalid_api_key", 401, ErrorType::kAuthentication, "The key is missing or wrong.", "Send `Authorization: Bearer KEY`."},
    {"admin_key_required", 403, ErrorType::kPermission, "A tenant's key was sent to the admin listener, or to a `/metrics` that has keys of its own.", "Use the operator's key."},
    {"host_not_allowed", 403, ErrorType::kPermission, "The `Host` header names a host that this server does not serve.", "Start the server with `--allowed-hosts NAME`, or call it by its address."},
    {"origin_not_allowed", 403, ErrorType::kPermission, "A web page of another origin called.", "Start the server with `--allowed-origins ORIGIN`."},
    {"conversation_not_found", 404, ErrorType::kNotFound, "The tenant has no conversation, or none with an item, of this id, on this replica; or it was forgotten.", "Make another one (`POST /v1/conversations`)."},
    {"model_not_found", 404, ErrorType::kNotFound, "`model` is not the name that this server serves.", "Ask `GET /v1/models`, or leave `model` out."},
    {"previous_response_not_found", 404, ErrorType::kNotFound, "The tenant has no response of the id that `previous_response_id` names, on this replica; or it was forgotten with its session.", "Send the whole history as `input`."},
    {"response_not_found", 404, ErrorType::kNotFound, "The tenant has no response, or none with an item, of this id, on this replica; or it was forgotten with its session.", "Send the whole history as `input`."},
    {"route_not_found", 404, kInvalid, "There is no such path.", "See the endpoints above."},
    {"session_damaged", 404, ErrorType::kNotFound, "What the server has of the session on disk is not what it wrote, or is of another model.", "Send the whole history, without `session_append`."},
    {"session_expired", 404, ErrorType::kNotFound, "The session was forgotten after `--session-ttl`, or made room for others.", "Send the whole history, without `session_append`."},
    {"session_not_found", 404, ErrorType::kNotFound, "The tenant has no session of this id, on this replica.", "Send the whole history, without `session_append`."},
    {"method_not_allowed", 405, kInvalid, "The path exists, with other methods.", "Use one of the methods in the `Allow` header."},
    {"request_timeout", 408, ErrorType::kTimeout, "Header or body did not arrive within `--header-timeout-s` or `--body-timeout-s`.", "Send faster, or raise the limit."},
    {"conversation_locked", 409, ErrorType::kConflict, "A response of this conversation is in progress.", "Wait for its end; a conversation has one at a time."},
    {"session_busy", 409, ErrorType::kConflict, "A turn of this session is in progress.", "Wait for its end; a session has one turn at a time."},
    {"session_other_model", 409, ErrorType::kConflict, "`PUT /v1/sessions/{id}/state`: the session's tokens are another model's.", "Send the whole history to this model, without `session_append`."},
    {"turn_conflict", 409, ErrorType::kConflict, "The session's last turn is not the one that `X-Session-Turn` names. The message says which it is.", "Look whether the turn that you would send has been answered already."},
    {"length_required", 411, kInvalid, "A POST without `Content-Length` or chunked coding; a PUT without the former.", "Send one of them."},
    {"session_exists", 412, ErrorType::kConflict, "`PUT /v1/sessions/{id}/state`: there is a session of this id. The message has its last turn.", "Compare the two; delete the one that is not wanted."},
    {"turn_changed", 412, ErrorType::kConflict, "`DELETE /v1/sessions/{id}`: the session's last turn is not the one that `If-Match` names. The message says which it is.", "Fetch the state again."},
    {"payload_too_large", 413, kInvalid, "The body is larger than `--max-body-bytes`, or than what `/tokenize` and `/detokenize` read.", "Send less, or raise the limit."},
    {"session_disk_exceeded", 413, ErrorType::kRateLimit, "`PUT /v1/sessions/{id}/state`: the session is larger than what the tenant has left of its `session_disk_bytes`.", "Delete sessions; ask the operator for more."},
    {"uri_too_long", 414, kInvalid, "The request target is too long.", "Shorten the path or query."},
    {"unsupported_media_type", 415, kInvalid, "The body is compressed, or not of the media type that the path wants: `application/json`, or for a session's state `application/vnd.hydrant.session`.", "Send plain bytes of that type."},
    {"expectation_failed", 417, kInvalid, "An `Expect` header other than `100-continue`.", "Leave it out."},
    {"rate_limit_exceeded", 429, ErrorType::kRateLimit, "A limit of the tenant: `param` says `concurrency_max`, `rpm`, `tpm`, `queue_max`, `sequences_max`, `queue` (its part of the server's queue), or `held_bytes` (its part of the memory for bodies and answers).", "Wait for `Retry-After` seconds; ask the operator for more."},
    {"session_limit_exceeded", 429, ErrorType::kRateLimit, "All `sessions_max` sessions of the tenant have a turn in progress; or one more is to be imported, which takes nobody's place.", "Wait for one to end; delete some."},
    {"too_many_auth_failures", 429, ErrorType::kRateLimit, "Too many wrong keys came from this address. A valid key still enters.", "Send a valid key."},
    {"too_many_kv_requests", 429, ErrorType::kRateLimit, "The tenant has four requests for `/v1/sessions/{id}/kv` open.", "Wait for one to end."},
    {"headers_too_large", 431, kInvalid, "The header block is too large or has too many fields.", "Send fewer or shorter headers."},
    {"engine_failed", 500, ErrorType::kServer, "The engine stopped while the request ran.", "Try again; the operator finds the reason in the log."},
    {"internal_error", 500, ErrorType::kServer, "A defect of the server; the log has it.", "Report it."},
    {"numerical_error", 500, ErrorType::kServer, "The model computed NaN or Inf.", "Operator: check the checkpoint, or use `--dtype bfloat16` instead of `float16`."},
    {"structured_output_limit", 500, ErrorType::kServer, "Following the form of the answer took more work than it may.", "Simplify the schema or expression."},
    {"template_error", 500, ErrorType::kServer, "The chat template does not parse, or exceeded its limits.", "Operator: mend the template, or give another one with `--chat-template`."},
    {"not_implemented", 501, kInvalid, "An unknown method or transfer coding.", "Use the methods of this page and chunked coding."},
    {"aborted", 503, ErrorType::kOverloaded, "An embedding, a message or a response was ended before its time: by the operator (`POST /abort_requests`), or by a shutdown that waits no longer. Chats and completions say `finish_reason: \"abort\"` instead.", "Try again, elsewhere or later."},
    {"connections_exceeded", 503, ErrorType::kOverloaded, "More than `--max-connections` connections are open, or more than `--max-connections-per-address` from this address.", "Try again after `Retry-After` seconds; reuse connections."},
    {"disk_behind", 503, ErrorType::kOverloaded, "A session or conversation is not taken, or not changed: as much waits to be written to `--session-dir` as may, in all or of this tenant.", "Try again after `Retry-After` seconds. Operator: see `hydrant_session_log_waiting_bytes`."},
    {"draining", 503, ErrorType::kOverloaded, "The server is shutting down.", "Try again, elsewhere or later."},
    {"engine_refused", 503, ErrorType::kOverloaded, "The engine could not accept the request; the log says why.", "Report it: the checks before the engine should have named the field."},
    {"engine_stalled", 503, ErrorType::kOverloaded, "`GET /ready`: a step takes longer than `--engine-stall-s`.", "Operator: see the alert HydrantStalled."},
    {"held_bytes_exceeded", 503, ErrorType::kOverloaded, "Bodies and answers of all requests take `--max-held-bytes`.", "Try again after `Retry-After` seconds; read answers as they come."},
    {"limits_unavailable", 503, ErrorType::kOverloaded, "What this tenant has used of its limits cannot be looked up: the store of `--shared-limits` does not answer, and `--shared-limits-fail` says `closed`.", "Retry after `Retry-After`. Operator: the log says why; see `hydrant_shared_limits_away`."},
    {"loading", 503, ErrorType::kOverloaded, "The model is loading.", "Try again after `Retry-After` seconds; `GET /ready` says when."},
    {"not_durable", 503, ErrorType::kOverloaded, "`DELETE` of a session, a response, a conversation or an item: it is gone, but not from `--session-dir`: that cannot be written, so a restart may bring it back, or a file of its KV cannot be removed.", "Delete it again, until the answer is 200 or 404: it is there to be deleted for so long. Operator: see `hydrant_session_log_errors_total` and `hydrant_session_kv_errors_total`."},
    {"not_purged", 503, ErrorType::kOverloaded, "`DELETE /v1/sessions/{id}?purge=now`: the session is gone for good, but files that have its text cannot be written anew.", "Send it again, to the same process, until they are. Operator: see `hydrant_session_log_errors_total`, and `hydrantd sessions verify`."},
    {"out_of_memory", 503, ErrorType::kOverloaded, "There was no memory for the step or the request.", "Try again after `Retry-After` seconds. Operator: leave more memory free."},
    {"paused", 503, ErrorType::kOverloaded, "`GET /ready`: admission is paused (`POST /pause`).", "Operator: `POST /resume`."},
    {"queue_full", 503, ErrorType::kOverloaded, "The server's queue is full.", "Try again after `Retry-After` seconds."},
    {"session_kv_busy", 503, ErrorType::kOverloaded, "The session was promised its KV, which is in its file, and the memory that it would be read into holds what other turns wait for. Nothing of the session is lost.", "Try again after `Retry-After` seconds. Operator: raise `--session-memory-bytes`."},
    {"too_many_sessions", 503, ErrorType::kOverloaded, "All sessions that the server keeps have a turn in progress; or it keeps as many as it can, and one more is to be imported.", "Try again after `Retry-After` seconds."},
    {"weights_unreadable", 503, ErrorType::kOverloaded, "A weight could not be read from the image that `--weights-memory` streams from.", "Try again after `Retry-After` seconds. Operator: the log has the error; see docs/streaming-weights.md."},
    {"queue_time_exceeded", 504, ErrorType::kTimeout, "None of the request's sequences was admitted within `--queue-timeout-s`.", "Try again after `Retry-After` seconds."},
    {"request_time_exceeded", 504, ErrorType::kTimeout, "The request took longer, its wait included, than its own `timeout`, its tenant's `request_seconds_max` or `--request-timeout-s`: the message says which.", "Ask for fewer tokens, or for more time; ask the operator for more."},
};
// clang-format on

// Not found: not a constant expression, so the compiler names the line that asked.
consteval const ErrorKind* Find(int status, std::string_view code) {
  for (const ErrorKind& kind : kTable) {
    if (kind.status == status && kind.code == code) return &kind;
  }
  throw "kTable has no such code with this status";
}

}  // namespace error_kinds

// The row of a code that is sent with this status.
template <int kStatus>
class ErrorCode {
 public:
  consteval ErrorCode(const char* code)
      : kind_(error_kinds::Find(kStatus, code)) {}  // NOLINT: implicit, from a literal

  const ErrorKind& kind() const { return *kind_; }

 private:
  const ErrorKind* kind_;
};

inline constexpr ErrorCode<400> kInvalidValue = "invalid_value";

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_ERROR_KINDS_H_
