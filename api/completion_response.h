// Bodies and stream chunks of POST /v1/completions, in OpenAI's shape with vLLM's members.
//
// Thread: any. A CompletionStream is immutable after construction; its functions append to the caller's buffer.
//
// Invariants:
//  1. Everything written is valid UTF-8 JSON on one line, whatever bytes the model produced.
//  2. A log-probability of a token is written with the same digits wherever it appears, and reads back as the same
//     float;
//     minus infinity is -9999.0.
//  3. No chunk carries `usage` unless it was handed one.
#ifndef HYDRANT_API_COMPLETION_RESPONSE_H_
#define HYDRANT_API_COMPLETION_RESPONSE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/api_error.h"

namespace hydrant {

enum class CompletionFinish : uint8_t { kStop, kLength, kAbort };

std::string_view CompletionFinishName(CompletionFinish reason);

// The matched stop string, the matched stop token id, or nothing (end of sequence, length).
using StopReason = std::variant<std::monostate, std::string, int32_t>;

struct LogprobCandidate {
  int32_t id = 0;
  float logprob = 0.0f;
  std::string text;  // LogprobTokenText
};

// One position.
struct PositionLogprobs {
  int32_t id = 0;
  std::string text;              // LogprobTokenText
  std::optional<float> logprob;  // nullopt: the first echoed token; `top` is then null too
  int32_t text_offset = 0;       // characters (code points) of the choice's text before this token
  // The k best, best first; the token itself need not be among them (it is added when it is not).
  std::vector<LogprobCandidate> top;
};

// How a token is shown in logprobs: its bytes if they are valid UTF-8, else bytes:\xe2\x80 so that different tokens
// stay different.
std::string LogprobTokenText(std::string_view bytes);

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
};

// Answer to "kv_report": true.
struct KvReport {
  int32_t live = 0;
  int32_t budget = 0;  // 0: no budget (null)
  int64_t evicted = 0;
  int32_t blocks = 0;
  std::string session;  // empty: null
};

struct CompletionChoice {
  int32_t index = 0;  // sample + prompt_index * n
  std::string text;
  std::optional<std::vector<PositionLogprobs>> logprobs;
  CompletionFinish finish_reason = CompletionFinish::kStop;
  StopReason stop_reason;
  std::optional<std::vector<int32_t>> token_ids;         // with return_token_ids
  std::optional<std::vector<int32_t>> prompt_token_ids;  // with return_token_ids
};

// The members all bodies and chunks of one request share.
struct CompletionHead {
  std::string id;       // "cmpl-…"
  int64_t created = 0;  // Unix seconds
  std::string model;
  std::string system_fingerprint;  // empty: null
};

struct CompletionResponse {
  CompletionHead head;
  std::vector<CompletionChoice> choices;  // by index
  Usage usage;
  std::optional<KvReport> kv;
};

std::string CompletionJson(const CompletionResponse& response);

// What one chunk carries; the pointers and views are read during the call only.
struct CompletionDelta {
  int32_t index = 0;
  std::string_view text;
  const std::vector<PositionLogprobs>* logprobs = nullptr;  // null: null
  std::optional<CompletionFinish> finish_reason;            // on the chunk of the last token
  const StopReason* stop_reason = nullptr;
  const std::vector<int32_t>* token_ids = nullptr;         // with return_token_ids: those of this chunk
  const std::vector<int32_t>* prompt_token_ids = nullptr;  // with return_token_ids: on the choice's first chunk
  const Usage* usage = nullptr;                            // with continuous_usage_stats
  const KvReport* kv = nullptr;                            // with kv_report, on the final chunk
};

// Writer of one stream's events. The members that never change are formatted once.
class CompletionStream {
 public:
  explicit CompletionStream(const CompletionHead& head);

  // One event: data: {…}\n\n.
  void AppendChunk(std::string* out, const CompletionDelta& delta) const;
  // The chunk of include_usage: choices [] and usage, before [DONE].
  void AppendUsage(std::string* out, const Usage& usage, const KvReport* kv = nullptr) const;

 private:
  std::string prefix_;              // data: {"id":…,"choices":[
  std::string fingerprint_member_;  // ,"system_fingerprint":…
};

}  // namespace hydrant

#endif  // HYDRANT_API_COMPLETION_RESPONSE_H_
