// What an answer to a generation says, whatever the endpoint, and how an endpoint writes it: AnswerWriter is the shape of
// one endpoint's bodies and stream chunks.
//
// Thread: any. A writer belongs to one request.
//
// Invariants of everything written:
//  1. It is valid UTF-8 JSON on one line, whatever bytes the model produced.
//  2. A log-probability of a token is written with the same digits wherever it appears, and reads back as the same float;
//     minus infinity is -9999.0.
//  3. No chunk carries `usage` unless it was handed one.
#ifndef HYDRANT_API_RESPONSE_ANSWER_H_
#define HYDRANT_API_RESPONSE_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/response/sse.h"
#include "api/wire/api_error.h"
#include "api/wire/durability.h"
#include "scheduler/request/sequence_event.h"

namespace hydrant {

// The word for how a choice ended. Only ends by itself and "abort" are ever answered with; the others are errors.
std::string_view AnswerFinishName(FinishReason reason);

// The answer was completed because there may be no more tokens.
struct ClosedAtLimit {};

// The matched stop string, the matched stop token id, that it was closed, or nothing (end of sequence, length).
using StopReason = std::variant<std::monostate, std::string, int32_t, ClosedAtLimit>;

struct LogprobCandidate {
  int32_t id = 0;
  float logprob = 0.0f;
  std::string bytes;  // of the token; not always whole characters
};

// One position.
struct PositionLogprobs {
  int32_t id = 0;
  std::string bytes;             // of the token; not always whole characters
  std::optional<float> logprob;  // nullopt: the first echoed token; `top` is then null too
  int32_t rank = 0;              // among all tokens, 1 = the best; only of prompt tokens
  int32_t text_offset = 0;       // characters (code points) of the choice's text before this token
  int64_t begin = 0;             // bytes of what was generated before it
  int64_t end = 0;               // and with it; a character is the token's that ends it
  // The k best, best first; the token itself need not be among them (it is added when it is not).
  std::vector<LogprobCandidate> top;
};

// How a token is shown in logprobs: its bytes if they are valid UTF-8, else bytes:\xe2\x80 so that different tokens
// stay different.
std::string LogprobTokenText(std::string_view bytes);
// `token` with its log-probability as chats and responses have it: an object whose end is the caller's to write.
void AppendTokenLogprob(std::string* out, std::string_view token, std::string_view bytes, float logprob);
// With return_tokens_as_token_ids: token_id:N.
std::string LogprobTokenId(int32_t id);

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
  std::optional<int64_t> reasoning_tokens;  // of completion_tokens; nullopt: nothing is split off
};

// Answer to "kv_report": true.
struct KvReport {
  int32_t live = 0;
  int32_t budget = 0;  // 0: no budget (null)
  int64_t evicted = 0;
  int32_t blocks = 0;
  std::string session;  // empty: null
};

// How a session's turn has ended.
struct TurnReport {
  uint64_t turn = 0;
  Durability durable = Durability::kNone;
  bool resumed = false;  // it began with the KV that the turn before left
};

// The members all bodies and chunks of one request share.
struct AnswerHead {
  std::string id;
  int64_t created = 0;  // Unix seconds
  std::string model;
  std::string system_fingerprint;  // empty: null
};

struct AnswerChoice {
  int32_t index = 0;  // sample + prompt_index * n
  std::string reasoning;
  std::string text;
  std::optional<std::vector<PositionLogprobs>> logprobs;
  int64_t text_begin = 0;                                        // bytes of what was generated before `text`
  std::optional<std::vector<PositionLogprobs>> prompt_logprobs;  // with prompt_logprobs; of all prompt tokens
  FinishReason finish_reason = FinishReason::kStop;
  StopReason stop_reason;
  std::optional<std::vector<int32_t>> token_ids;         // with return_token_ids
  std::optional<std::vector<int32_t>> prompt_token_ids;  // with return_token_ids
  std::vector<float> embedding;                          // of its prompt, with GenerationFields::pooling
};

// A whole answer.
struct Answer {
  std::vector<AnswerChoice> choices;  // by index
  Usage usage;
  std::optional<KvReport> kv;
  std::optional<TurnReport> turn;
};

// What has become visible of one choice; the pointers and views are read during the call only.
struct AnswerDelta {
  int32_t index = 0;
  bool first = false;          // nothing of this choice was sent before
  std::string_view reasoning;  // all of it comes before any text
  std::string_view text;
  const std::vector<PositionLogprobs>* logprobs = nullptr;  // null: null
  int64_t text_begin = 0;                     // bytes of what was generated before all text: known once there is some
  std::optional<FinishReason> finish_reason;  // on the chunk of the last token
  const StopReason* stop_reason = nullptr;
  const std::vector<int32_t>* token_ids = nullptr;         // with return_token_ids: those of this chunk
  const std::vector<int32_t>* prompt_token_ids = nullptr;  // with return_token_ids: on the choice's first chunk
  const Usage* usage = nullptr;                            // with continuous_usage_stats
  const KvReport* kv = nullptr;                            // with kv_report, on the final chunk
  const TurnReport* turn = nullptr;                        // of a session, on the chunk of the last token
};

// What a session keeps of an answer beside its tokens.
struct AnswerNote {
  std::string text;      // empty: nothing
  bool says_all = true;  // false: the tokens have something that the client was not told of
};

// Begin, then either Body once, or AppendChunk for what becomes visible of each choice, then, where include_usage asked for
// it, AppendUsage, and at last AppendEnd, or AppendError wherever it fails. The functions append to the caller's buffer.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // What the ids of this endpoint's answers begin with: "cmpl-".
  virtual std::string_view id_prefix() const = 0;
  // Whether an answer can say that it was ended before its time. Where not, that is an error: what there is would be taken for all.
  virtual bool tells_aborts() const { return false; }
  // Once, before the functions below.
  virtual void Begin(const AnswerHead& head) = 0;

  // One event or several: data: {…}\n\n.
  virtual void AppendChunk(std::string* out, const AnswerDelta& delta) = 0;
  // The chunk of include_usage: choices [] and usage, before [DONE]. `kv` may be null.
  virtual void AppendUsage(std::string* out, const Usage& usage, const KvReport* kv) = 0;
  // The end of a stream.
  virtual void AppendEnd(std::string* out) { out->append(kSseDone); }
  // The same of one that fails.
  virtual void AppendError(std::string* out, const ApiError& error) {
    AppendSseError(out, error);
    out->append(kSseDone);
  }

  virtual std::string Body(const Answer& answer) = 0;
  // For whoever asks for the answer by its id. Before the end is told.
  virtual AnswerNote Note(const Answer&) const { return {}; }
};

// Members that the endpoints' answers have in common.
void AppendStopReason(std::string* out, const StopReason& reason);
// vLLM's shape: null for the first token, then by id the token itself and its betters, with rank and text.
void AppendPromptLogprobs(std::string* out, const std::vector<PositionLogprobs>& positions);
void AppendIdsOrNull(std::string* out, const std::vector<int32_t>* ids);
// Each begins with a comma.
void AppendUsageMember(std::string* out, const Usage& usage);
void AppendKvMember(std::string* out, const KvReport& kv);
// "hydrant":{"turn":7,"durable":"tokens","resumed":true}, or "kv", or false.
void AppendTurnMember(std::string* out, const TurnReport& turn);
void AppendFingerprintMember(std::string* out, const AnswerHead& head);
// How a body and a usage chunk end: what comes after the choices and what is of their prompt. `kv` and `turn` may be null; `fingerprint` is that member.
void AppendAnswerEnd(std::string* out, const Usage& usage, const KvReport* kv, std::string_view fingerprint,
                     const TurnReport* turn = nullptr);
// What vLLM says of a prompt is in each choice of completions, which may have several, and beside the choices of a chat.
enum class PromptPlace : uint8_t { kChoice, kAnswer };
// How a stream chunk ends: what comes after its choice's text and log-probabilities. `finish`: "" is null. `fingerprint`:
// that member, or "" for a chunk without.
void AppendChunkEnd(std::string* out, const AnswerDelta& delta, std::string_view finish, std::string_view fingerprint,
                    PromptPlace place);
// {"id":…,"object":…,"created":…,"model":…
void AppendAnswerHead(std::string* out, const AnswerHead& head, std::string_view object);

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_ANSWER_H_
