#include "api/response/messages_writer.h"

#include <cassert>
#include <utility>

#include "api/response/sse.h"
#include "api/wire/json_writer.h"
#include "api/wire/messages_error.h"
#include "model/text/text_pieces.h"

namespace hydrant {
namespace {

// Their SDKs take the prompt for the sum of what was read from the cache and what was not.
void AppendMessageUsage(std::string* out, const Usage& usage) {
  out->append("{\"input_tokens\":");
  AppendJsonInteger(out, usage.prompt_tokens - usage.cached_tokens);
  out->append(",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":");
  AppendJsonInteger(out, usage.cached_tokens);
  out->append(",\"output_tokens\":");
  AppendJsonInteger(out, usage.completion_tokens);
  if (usage.reasoning_tokens.has_value()) {
    out->append(",\"output_tokens_details\":{\"thinking_tokens\":");
    AppendJsonInteger(out, *usage.reasoning_tokens);
    out->push_back('}');
  }
  out->append(",\"service_tier\":\"standard\"}");
}

// `name` is also the event's type; what follows it in the object is appended by the caller, up to EndEvent.
void BeginEvent(std::string* out, std::string_view name) {
  out->append("event: ").append(name).append("\n").append(kSseData).append("{\"type\":\"").append(name).append("\"");
}
void EndEvent(std::string* out) { out->append("}\n\n"); }

void BeginBlockEvent(std::string* out, std::string_view name, int32_t block) {
  BeginEvent(out, name);
  out->append(",\"index\":");
  AppendJsonInteger(out, block);
}

// {"type":"tool_use","id":…,"name":…,"input":…}
void AppendToolUse(std::string* out, std::string_view id, std::string_view name, std::string_view input) {
  constexpr std::string_view kCallPrefix = "call_";
  out->append("{\"type\":\"tool_use\",\"id\":\"toolu_");
  AppendJsonEscaped(out, id.substr(id.starts_with(kCallPrefix) ? kCallPrefix.size() : 0));
  out->append("\",\"name\":");
  AppendJsonString(out, name);
  out->append(",\"input\":").append(input).append("}");
}

}  // namespace

void MessagesWriter::AppendMessageHead(std::string* out) const {
  out->append("{\"id\":");
  AppendJsonString(out, head_.id);
  out->append(",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
  AppendJsonString(out, head_.model);
  out->append(",\"content\":[");
}

void MessagesWriter::AppendStop(std::string* out, int64_t generated) const {
  std::string_view reason = "end_turn";
  const auto* text = std::get_if<std::string>(&stop_);
  const bool closed = std::holds_alternative<ClosedAtLimit>(stop_);
  // A call that was closed is whole: its tool is to be run.
  if (finish_ != FinishReason::kLength && parser_.has_whole_call()) {
    reason = "tool_use";
  } else if (finish_ == FinishReason::kLength || closed) {
    reason = generated < options_.asked_tokens ? "model_context_window_exceeded" : "max_tokens";
  } else if (text != nullptr) {
    reason = "stop_sequence";
  }
  out->append("\"stop_reason\":\"").append(reason).append("\",\"stop_sequence\":");
  if (reason == "stop_sequence") {
    AppendJsonString(out, *text);
  } else {
    out->append("null");
  }
  out->append(",\"stop_details\":null,\"container\":null");
}

std::string MessagesWriter::Body(const Answer& answer) {
  assert(answer.choices.size() == 1);
  const AnswerChoice& choice = answer.choices.front();
  finish_ = choice.finish_reason;
  stop_ = choice.stop_reason;
  const WholeAnswer said = Joined(parser_.Read(choice.text, /*last=*/true));
  std::string out;
  AppendMessageHead(&out);
  if (options_.include_reasoning && !choice.reasoning.empty()) {
    out.append("{\"type\":\"thinking\",\"thinking\":");
    AppendJsonString(&out, options_.omits_thinking ? std::string_view() : std::string_view(choice.reasoning));
    out.append(",\"signature\":");
    AppendJsonString(&out, head_.id);
    out.push_back('}');
  }
  if (!IsBlank(said.text)) {
    if (out.back() != '[') out.push_back(',');
    out.append("{\"type\":\"text\",\"text\":");
    AppendJsonString(&out, said.text);
    out.push_back('}');
  }
  for (const ToolCall& call : said.calls) {
    if (out.back() != '[') out.push_back(',');
    AppendToolUse(&out, call.id, call.name, call.whole ? call.arguments : WholeMembers(call.arguments));
  }
  out.append("],");
  AppendStop(&out, answer.usage.completion_tokens);
  out.append(",\"usage\":");
  AppendMessageUsage(&out, answer.usage);
  if (answer.kv.has_value()) AppendKvMember(&out, *answer.kv);
  if (answer.turn.has_value()) AppendTurnMember(&out, *answer.turn);
  out.push_back('}');
  return out;
}

void MessagesWriter::AppendText(std::string* out, std::string_view text) {
  if (text.empty()) return;
  if (!in_text_) {
    blank_.append(text);
    if (IsBlank(blank_)) return;
    CloseBlock(out);
    BeginBlockEvent(out, "content_block_start", block_);
    out->append(",\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
    EndEvent(out);
    in_text_ = true;
    text = blank_;
  }
  BeginBlockEvent(out, "content_block_delta", block_);
  out->append(",\"delta\":{\"type\":\"text_delta\",\"text\":");
  AppendJsonString(out, text);
  out->push_back('}');
  EndEvent(out);
  blank_.clear();
}

void MessagesWriter::AppendThinking(std::string* out, std::string_view thinking) {
  if (thinking.empty() || !options_.include_reasoning) return;
  if (!std::exchange(in_thinking_, true)) {
    BeginBlockEvent(out, "content_block_start", block_);
    out->append(",\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    EndEvent(out);
  }
  if (options_.omits_thinking) return;
  BeginBlockEvent(out, "content_block_delta", block_);
  out->append(",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":");
  AppendJsonString(out, thinking);
  out->push_back('}');
  EndEvent(out);
}

void MessagesWriter::CloseBlock(std::string* out) {
  if (in_thinking_) {
    BeginBlockEvent(out, "content_block_delta", block_);
    out->append(",\"delta\":{\"type\":\"signature_delta\",\"signature\":");
    AppendJsonString(out, head_.id);
    out->push_back('}');
    EndEvent(out);
  }
  if (!in_text_ && !in_thinking_ && !in_call_) return;
  in_text_ = in_thinking_ = in_call_ = false;
  BeginBlockEvent(out, "content_block_stop", block_++);
  EndEvent(out);
}

void MessagesWriter::AppendPiece(std::string* out, const AnswerPiece& piece) {
  switch (piece.kind) {
    case AnswerPiece::Kind::kText:
      return AppendText(out, piece.text);
    case AnswerPiece::Kind::kCall:
      blank_.clear();
      CloseBlock(out);
      BeginBlockEvent(out, "content_block_start", block_);
      out->append(",\"content_block\":");
      AppendToolUse(out, piece.id, piece.text, "{}");
      in_call_ = true;
      return EndEvent(out);
    case AnswerPiece::Kind::kArguments:
      BeginBlockEvent(out, "content_block_delta", block_);
      out->append(",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":");
      AppendJsonString(out, piece.text);
      out->push_back('}');
      return EndEvent(out);
    case AnswerPiece::Kind::kCallEnd:
    case AnswerPiece::Kind::kCallCut:
      return CloseBlock(out);
  }
}

void MessagesWriter::AppendChunk(std::string* out, const AnswerDelta& delta) {
  if (delta.first) {
    assert(delta.usage != nullptr);
    BeginEvent(out, "message_start");
    out->append(",\"message\":");
    AppendMessageHead(out);
    out->append("],\"stop_reason\":null,\"stop_sequence\":null,\"stop_details\":null,\"container\":null,\"usage\":");
    AppendMessageUsage(out, *delta.usage);
    out->push_back('}');
    EndEvent(out);
    BeginEvent(out, "ping");
    EndEvent(out);
  }
  const bool last = delta.finish_reason.has_value();
  AppendThinking(out, delta.reasoning);
  for (const AnswerPiece& piece : parser_.Read(delta.text, last)) AppendPiece(out, piece);
  if (!last) return;
  CloseBlock(out);
  finish_ = *delta.finish_reason;
  if (delta.stop_reason != nullptr) stop_ = *delta.stop_reason;
  if (delta.turn != nullptr) turn_ = *delta.turn;
}

void MessagesWriter::AppendUsage(std::string* out, const Usage& usage, const KvReport* kv) {
  BeginEvent(out, "message_delta");
  out->append(",\"delta\":{");
  AppendStop(out, usage.completion_tokens);
  out->append("},\"usage\":");
  AppendMessageUsage(out, usage);
  if (kv != nullptr) AppendKvMember(out, *kv);
  if (turn_.has_value()) AppendTurnMember(out, *turn_);
  EndEvent(out);
}

void MessagesWriter::AppendEnd(std::string* out) {
  BeginEvent(out, "message_stop");
  EndEvent(out);
}

void MessagesWriter::AppendError(std::string* out, const ApiError& error) {
  out->append("event: error\n").append(kSseData);
  out->append(MessagesErrorJson(error, std::string_view(head_.id).substr(id_prefix().size()))).append("\n\n");
}

}  // namespace hydrant
