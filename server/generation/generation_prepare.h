// What has to happen to a request before the engine can have it: parse, tokenise, resolve its KV policy, check that it can
// ever fit. Each endpoint has a function for its own bodies; what they have in common is PreparePrompts.
//
// Thread: any. Linear in the body and a session's past; pure but for beginning the turn of a session, which ends with the
// result.
#ifndef HYDRANT_SERVER_GENERATION_GENERATION_PREPARE_H_
#define HYDRANT_SERVER_GENERATION_GENERATION_PREPARE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/request/completion_request.h"
#include "api/response/answer.h"
#include "api/response/reasoning_splitter.h"
#include "model/tokenizer/sentence_ends.h"
#include "model/tokenizer/tokenizer.h"
#include "scheduler/request/token_ids.h"
#include "server/adapters/adapter_registry.h"
#include "server/audit/kv_audit.h"
#include "server/drafts/ngram_drafter.h"
#include "server/engine/logit_shaper.h"
#include "server/generation/chat_setup.h"
#include "server/kv/kv_resolution.h"
#include "server/process/limits.h"
#include "server/sessions/session_prompt.h"
#include "server/sessions/session_store.h"
#include "server/shapes/grammar_shape.h"
#include "server/shapes/shape_cache.h"
#include "server/tenants/prefix_salts.h"
#include "server/tenants/tenant_config.h"

namespace hydrant {

// ServingContext is what every request is checked against and answered with: the model, its tokenizer, the limits.
struct ServingContext {
  RequestContext request;
  KvModelFacts kv;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const SentenceEnds> sentence_ends;  // of the tokenizer
  std::vector<int32_t> eos_ids;
  ChatSetup chat;
  Limits limits;
  bool prefix_caching = false;
  int32_t ranks = 1;    // that compute the model together
  NgramOptions drafts;  // of every sequence
  PrefixSalts prefix_salts;
  SessionStore* sessions = nullptr;                     // never null in a server; outlives it
  AdapterRegistry* adapters = nullptr;                  // null: there are none; outlives it
  KvAudit* audit = nullptr;                             // null: no turn is audited; outlives it
  std::shared_ptr<ShapeCache> shapes;                   // null: no request has a constraint
  Durability session_durability = Durability::kTokens;  // of tenants that say nothing else
  std::string system_fingerprint;
  std::vector<std::string> session_headers;  // Config's
};

// The rules for requests of one tenant, beside the server's own.
struct TenantRules {
  std::optional<KvSpec> kv;    // default of the field `kv`; nullopt: the server's
  int32_t kv_budget_max = 0;   // most slots a sequence may keep; 0: the context
  int32_t priority_max = 0;    // largest `priority`
  int64_t blocks_max = 0;      // most blocks a sequence can be given; 0: the pool
  int64_t tokens_max = 0;      // most tokens a request can ever be given (tpm); 0: no limit
  int32_t max_tokens_max = 0;  // longest answer; 0: no limit
  double seconds_max = 0;      // of a request; 0: no limit
  SessionOwner sessions;
  std::shared_ptr<const AdapterNames> adapters;  // that it may ask for; null: all
  std::string tenant;                            // its name, which is the same after the tenants file was read again
};

// A prompt as the engine will see it.
struct PreparedPrompt : PromptText {
  TokenIds ids;
  bool show_specials = false;  // an echo shows special tokens: they were sent as text
  KvSpec spec;                 // what `kv` was made of
  KvResolution kv;
  uint64_t resumes = 0;  // Request::resumes
  int32_t parked = 0;    // SequenceRequest::parked_tokens
  int32_t history = -1;  // Request::history
  // Tokens of the turn, where it recalls: these choose what it keeps. 0: those of the whole prompt may.
  int32_t turn_tokens = 0;
  // DecodeOptions::shaper of every sample, before its first token; null when nothing is asked of tokens.
  std::shared_ptr<const LogitShaper> shaper;
};

// Where an answer stands before its first token, and how it has begun already.
struct AnswerStart : ShapeStart {
  std::string prefix;
  std::optional<grammar::MessageMarks> messages = std::nullopt;  // that the answer is made of
};

struct PreparedGeneration {
  GenerationFields fields;
  std::vector<PreparedPrompt> prompts;
  std::optional<SessionTurn> turn;               // of a session; it has one prompt
  std::shared_ptr<const LoadedAdapter> adapter;  // that computes it; null: none does
  AnswerStart shape_start;                       // of every answer, where fields.constraint
  std::unique_ptr<AnswerWriter> writer;          // never null: how this endpoint answers
  ReasoningSplitter reasoning;                   // that every answer begins with; has taken nothing yet
  std::string answer_id;           // of its answer, without the endpoint's prefix; empty: that of the request
  std::optional<TurnNotes> notes;  // of turns before this one, which leaves one as well (AnswerWriter::Note)
  std::string note_head;           // TurnNote::head of that
  std::vector<std::pair<std::string, std::string>> response_fields;  // header fields of the answer, in lower case
};

// The largest text that is tokenized whole although it need not fit the context: what a context's worth of anything takes, and no less
// than a mebibyte.
constexpr int64_t TextBytesMax(int32_t context) { return std::max<int64_t>(1 << 20, int64_t{16} * context); }

// The tokens in the whole blocks of a prompt, but for its last token: what a turn that recalls leaves, if it can.
constexpr int32_t WholePromptBlocks(int32_t tokens) { return (tokens - 1) / kBlockSlots * kBlockSlots; }

// How an endpoint prepares its requests.
using PrepareFunction = ApiResult<PreparedGeneration> (*)(std::string_view body, const ServingContext& context,
                                                          const TenantRules& rules, const RequestHeaders& headers);

// POST /v1/completions. Errors: those of ParseCompletionRequest and PreparePrompts.
ApiResult<PreparedGeneration> PrepareCompletion(std::string_view body, const ServingContext& context,
                                                const TenantRules& rules = {}, const RequestHeaders& headers = {});

// The adapters that a request of this tenant may name; `allowed` null: all that there are.
std::vector<std::shared_ptr<const LoadedAdapter>> AdaptersOf(const ServingContext& context,
                                                             const AdapterNames* allowed);
// RequestContext::is_other_model for it. The context outlives it.
std::function<bool(std::string_view)> AdapterCheck(const ServingContext& context,
                                                   std::shared_ptr<const AdapterNames> allowed);

// The limits and defaults with which a request of this tenant is read, and the names that its `model` may have.
RequestContext RequestContextOf(const ServingContext& context, const TenantRules& rules, const RequestHeaders& headers);

// Begins the turn of a session and makes the engine's prompts, with their KV policies; settles max_tokens where that is
// kRestOfContext, for which there has to be one prompt. `prepared` has its fields; a turn of a session has one prompt.
// Errors: those of SessionStore::Begin, CheckPromptLength and ResolveKvPolicy; kv_capacity_exceeded; 400 for a request that
// is too large as a whole.
std::optional<ApiError> PreparePrompts(std::vector<RequestPrompt> prompts, const ServingContext& context,
                                       const TenantRules& tenant, PreparedGeneration* prepared);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_GENERATION_PREPARE_H_
