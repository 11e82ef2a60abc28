// MessagesWriter writes answers of POST /v1/messages, in Anthropic's shape: content in blocks of thinking, of text and of tool
// uses, as a body or as events.
//
//   message_start, ping, then for each block content_block_start, content_block_delta…, content_block_stop, and at last
//   message_delta and message_stop
//
// Thread: any; belongs to one request, which has one choice.
//
// Invariants
//  1. Blocks are numbered from 0 and do not overlap.
//  2. There is no block of nothing but white space: clients send blocks back, and nobody takes such a one. So white space
//     waits for what comes after it.
#ifndef HYDRANT_API_RESPONSE_MESSAGES_WRITER_H_
#define HYDRANT_API_RESPONSE_MESSAGES_WRITER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/response/answer.h"
#include "api/response/tool_call_parser.h"

namespace hydrant {

struct MessagesWriterOptions {
  ToolCallFormat tool_calls = ToolCallFormat::kNone;
  std::shared_ptr<const grammar::ArgumentTypes> argument_types;  // of the tools; null: they may be anything
  std::string call_ids;             // what ids of calls are made of: no two answers have the same
  bool parallel_tool_calls = true;  // false: the first call only
  bool include_reasoning = false;   // in blocks of thinking; else what the model thought is left out
  bool omits_thinking = false;      // such blocks are there, and empty
  int32_t asked_tokens = 0;         // `max_tokens`: an answer that ends before, for want of room, says so
};

class MessagesWriter : public AnswerWriter {
 public:
  explicit MessagesWriter(MessagesWriterOptions options)
      : options_(std::move(options)),
        parser_(options_.tool_calls, options_.call_ids, options_.parallel_tool_calls, options_.argument_types) {}

  std::string_view id_prefix() const override { return "msg_"; }
  void Begin(const AnswerHead& head) override { head_ = head; }
  // REQUIRES: delta.usage is there where delta.first is.
  void AppendChunk(std::string* out, const AnswerDelta& delta) override;
  // message_delta: it has the usage, so every stream ends with it.
  void AppendUsage(std::string* out, const Usage& usage, const KvReport* kv) override;
  void AppendEnd(std::string* out) override;
  void AppendError(std::string* out, const ApiError& error) override;
  std::string Body(const Answer& answer) override;

 private:
  void AppendThinking(std::string* out, std::string_view thinking);
  void AppendText(std::string* out, std::string_view text);
  // Ends the block that is open, if one is.
  void CloseBlock(std::string* out);
  void AppendPiece(std::string* out, const AnswerPiece& piece);
  // {"id":…, …,"content":  of a message that is there, or that begins.
  void AppendMessageHead(std::string* out) const;
  void AppendStop(std::string* out, int64_t generated) const;

  const MessagesWriterOptions options_;
  AnswerHead head_;
  ToolCallParser parser_;
  // What a stream has open.
  int32_t block_ = 0;     // the number of the block that is open, or the next one's
  bool in_text_ = false;  // a block of text is open
  bool in_thinking_ = false, in_call_ = false;
  std::string blank_;  // white space that no block has yet
  // How it ended.
  FinishReason finish_ = FinishReason::kStop;
  StopReason stop_;
  std::optional<TurnReport> turn_;
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_MESSAGES_WRITER_H_
