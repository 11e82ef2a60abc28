// ChatWriter writes answers of POST /v1/chat/completions, in OpenAI's shape with vLLM's members, and turns what the model
// wrote into tool calls where the request has tools. Reasoning is written under two names: `reasoning_content`, which most servers and
// clients have, and `reasoning`, which vLLM has now.
//
// Thread: any; belongs to one request.
#ifndef HYDRANT_API_RESPONSE_CHAT_WRITER_H_
#define HYDRANT_API_RESPONSE_CHAT_WRITER_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/response/answer.h"
#include "api/response/tool_call_parser.h"

namespace hydrant {

struct ChatWriterOptions {
  ToolCallFormat tool_calls = ToolCallFormat::kNone;
  std::shared_ptr<const grammar::ArgumentTypes> argument_types;  // of the tools; null: they may be anything
  std::string call_ids;             // what ids of calls are made of: no two answers have the same
  bool parallel_tool_calls = true;  // false: the first call only
  bool named_tool = false;          // the request names the tool to call, so that the answer just stops
  bool tokens_as_ids = false;       // log-probabilities name tokens token_id:N
  bool include_reasoning = true;    // false: what the model thought is left out
  std::string echoed;               // what every answer begins with
};

class ChatWriter : public AnswerWriter {
 public:
  explicit ChatWriter(ChatWriterOptions options) : options_(std::move(options)) {}

  std::string_view id_prefix() const override { return "chatcmpl-"; }
  bool tells_aborts() const override { return true; }  // vLLM's finish_reason
  void Begin(const AnswerHead& head) override;
  void AppendChunk(std::string* out, const AnswerDelta& delta) override;
  void AppendUsage(std::string* out, const Usage& usage, const KvReport* kv) override;
  std::string Body(const Answer& answer) override;

 private:
  ToolCallParser MakeParser(int32_t index) const;
  void AppendChoice(std::string* out, const AnswerChoice& choice) const;
  void AppendRoleChunk(std::string* out, const AnswerDelta& delta) const;

  const ChatWriterOptions options_;
  // Formatted once.
  std::string id_;
  std::string body_prefix_, chunk_prefix_;     // {"id":…,"choices":[
  std::string fingerprint_member_;             // ,"system_fingerprint":…
  std::map<int32_t, ToolCallParser> parsers_;  // of a stream's choices, by index
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_CHAT_WRITER_H_
