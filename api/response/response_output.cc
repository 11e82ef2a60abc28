#include "api/response/response_output.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "api/response/sse.h"
#include "api/wire/json_body.h"
#include "api/wire/json_writer.h"
#include "model/text/text_pieces.h"

namespace hydrant {
namespace {

std::string Quoted(std::string_view text) {
  std::string quoted;
  AppendJsonString(&quoted, text);
  return quoted;
}

std::string LogprobsText(const PositionLogprobs& position) {
  std::string text;
  AppendTokenLogprob(&text, LogprobTokenText(position.bytes), position.bytes, position.logprob.value_or(0.0f));
  text.append(",\"top_logprobs\":[");
  for (size_t i = 0; i < position.top.size(); ++i) {
    if (i > 0) text.push_back(',');
    AppendTokenLogprob(&text, LogprobTokenText(position.top[i].bytes), position.top[i].bytes, position.top[i].logprob);
    text.push_back('}');
  }
  return text.append("]}");
}

// What a custom tool is given: the argument `input`, or all of them where the model wrote others.
std::string CustomInput(const std::string& arguments) {
  const ApiResult<JsonBody> parsed = JsonBody::Parse(arguments, RequestLimits());
  if (!parsed.ok() || !parsed.value().root().is_object()) return arguments;
  const JsonView input = parsed.value().root()["input"];
  return input.is_string() ? std::string(input.string()) : arguments;
}

// The same of arguments that were cut off: `input` as far as it came.
std::string CutCustomInput(const std::string& arguments) {
  // The end may be within a character: two escapes at most.
  constexpr size_t kCharacterBytesMax = 12;
  for (size_t left_out = 0; left_out < std::min(kCharacterBytesMax, arguments.size()); ++left_out) {
    const std::string closed = arguments.substr(0, arguments.size() - left_out) + "\"}";
    if (std::string input = CustomInput(closed); input != closed) return input;
  }
  std::string begin = arguments;
  std::erase_if(begin, [](char c) { return kWhiteSpace.find(c) != std::string_view::npos; });
  return std::string_view("{\"input\":\"").starts_with(begin) ? "" : arguments;
}

}  // namespace

void ResponseEvents::Begin(std::string* out, std::string_view type) {
  out->append("event: ").append(type).append("\n").append(kSseData).append("{\"type\":\"").append(type);
  out->append("\",\"sequence_number\":");
  AppendJsonInteger(out, number_++);
}

void ResponseOutput::Tell(std::string_view type, std::string_view members) {
  if (events_ == nullptr) return;
  events_->Begin(out_, type);
  out_->append(members);
  ResponseEvents::End(out_);
}

void ResponseOutput::AddItem(std::string_view item) {
  if (!items_.empty()) items_.push_back(',');
  items_.append(item);
  Tell("response.output_item.done", absl::StrCat(",\"output_index\":", index_, ",\"item\":", std::string(item)));
  ++index_;
}

std::string ResponseOutput::Place(bool content) const {
  std::string place = absl::StrCat(",\"item_id\":\"", id_, "\",\"output_index\":", index_);
  if (content) place.append(",\"content_index\":0");
  return place;
}

void ResponseOutput::AppendPart(std::string* out, bool begins) const {
  out->append("{\"type\":\"output_text\",\"text\":");
  AppendJsonString(out, begins ? std::string_view() : text_);
  out->append(",\"annotations\":[],\"logprobs\":[").append(begins ? std::string() : logprobs_).append("]}");
}

void ResponseOutput::AppendMessage(std::string* out, std::string_view status, bool begins) const {
  out->append("{\"id\":\"").append(id_).append("\",\"type\":\"message\",\"status\":\"").append(status);
  out->append("\",\"role\":\"assistant\",\"content\":[");
  if (!begins) AppendPart(out, false);
  out->append("]}");
}

void ResponseOutput::OpenMessage() {
  in_message_ = true;
  id_ = absl::StrCat("msg_", options_.ids, "_", index_);
  if (events_ == nullptr) return;
  std::string item, part;
  AppendMessage(&item, "in_progress", /*begins=*/true);
  AppendPart(&part, /*begins=*/true);
  Tell("response.output_item.added", absl::StrCat(",\"output_index\":", index_, ",\"item\":", item));
  Tell("response.content_part.added", absl::StrCat(Place(true), ",\"part\":", part));
}

void ResponseOutput::PushReasoning(std::string_view text, ResponseEvents* events, std::string* out) {
  events_ = events;
  out_ = out;
  if (text.empty()) return;
  if (!in_reasoning_) {
    in_reasoning_ = true;
    id_ = absl::StrCat("rs_", options_.ids, "_", index_);
    Tell("response.output_item.added",
         absl::StrCat(",\"output_index\":", index_, ",\"item\":{\"id\":\"", id_,
                      "\",\"type\":\"reasoning\",\"status\":\"in_progress\",\"summary\":[],\"content\":[]}"));
  }
  text_.append(text);
  Tell("response.reasoning_text.delta", absl::StrCat(Place(true), ",\"delta\":", Quoted(text)));
}

void ResponseOutput::CloseReasoning(std::string_view status) {
  if (!std::exchange(in_reasoning_, false)) return;
  const std::string text = Quoted(text_);
  Tell("response.reasoning_text.done", absl::StrCat(Place(true), ",\"text\":", text));
  std::string item = absl::StrCat("{\"id\":\"", id_, "\",\"type\":\"reasoning\",\"status\":\"", std::string(status),
                                  "\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":", text, "}]");
  if (options_.encrypts_reasoning) {
    item.append(",\"encrypted_content\":\"").append(absl::Base64Escape(text_)).append("\"");
  }
  text_.clear();
  AddItem(item.append("}"));
}

std::string ResponseOutput::TakeLogprobs(int64_t begin, int64_t end) {
  std::string taken;
  begin += text_begin_;
  end += text_begin_;
  for (; !waiting_.empty() && waiting_.front().begin < end; waiting_.pop_front()) {
    const Token& token = waiting_.front();
    if (token.end <= begin && token.begin < begin) continue;
    taken.append(taken.empty() ? "" : ",").append(token.logprobs);
  }
  return taken;
}

void ResponseOutput::AddText(std::string_view text, int64_t begin) {
  if (text.empty()) return;
  if (blank_.empty()) blank_begin_ = begin;
  blank_.append(text);
  if (!in_message_) {
    if (IsBlank(blank_)) return;
    CloseReasoning("completed");
    OpenMessage();
  }
  text_.append(blank_);
  const std::string told = TakeLogprobs(blank_begin_, begin + std::ssize(text));
  if (!logprobs_.empty() && !told.empty()) logprobs_.push_back(',');
  logprobs_.append(told);
  Tell("response.output_text.delta",
       absl::StrCat(Place(true), ",\"delta\":", Quoted(blank_), ",\"logprobs\":[", told, "]"));
  blank_.clear();
}

void ResponseOutput::CloseMessage(std::string_view status) {
  blank_.clear();
  if (!std::exchange(in_message_, false)) return;
  std::string part, item;
  AppendPart(&part, /*begins=*/false);
  AppendMessage(&item, status, /*begins=*/false);
  Tell("response.output_text.done",
       absl::StrCat(Place(true), ",\"text\":", Quoted(text_), ",\"logprobs\":[", logprobs_, "]"));
  Tell("response.content_part.done", absl::StrCat(Place(true), ",\"part\":", part));
  AddItem(item);
  text_.clear();
  logprobs_.clear();
}

std::string ResponseOutput::CallItem(std::string_view status, std::string_view text) const {
  return absl::StrCat("{\"id\":\"", id_, "\",\"type\":\"", is_custom_ ? "custom_tool_call" : "function_call",
                      "\",\"status\":\"", std::string(status), "\",\"call_id\":", Quoted(call_id_),
                      ",\"name\":", Quoted(name_), ",\"", is_custom_ ? "input" : "arguments", "\":", Quoted(text), "}");
}

void ResponseOutput::OpenCall(const AnswerPiece& piece) {
  CloseReasoning("completed");
  CloseMessage("completed");
  const std::vector<std::string>& names = options_.custom_tools;
  is_custom_ = std::find(names.begin(), names.end(), piece.text) != names.end();
  name_ = piece.text;
  call_id_ = piece.id;
  id_ = absl::StrCat(is_custom_ ? "ctc_" : "fc_", options_.ids, "_", index_);
  Tell("response.output_item.added",
       absl::StrCat(",\"output_index\":", index_, ",\"item\":", CallItem("in_progress", "")));
}

// What a custom tool is given is a member of the arguments, and known when they are whole.
void ResponseOutput::AddArguments(std::string_view arguments) {
  text_.append(arguments);
  if (is_custom_) return;
  Tell("response.function_call_arguments.delta", absl::StrCat(Place(false), ",\"delta\":", Quoted(arguments)));
}

void ResponseOutput::CloseCall(std::string_view status) {
  std::string text = std::exchange(text_, {});
  std::string event = "response.function_call_arguments";
  if (is_custom_) {
    text = status == "completed" ? CustomInput(text) : CutCustomInput(text);
    event = "response.custom_tool_call_input";
    Tell(event + ".delta", absl::StrCat(Place(false), ",\"delta\":", Quoted(text)));
  }
  Tell(event + ".done", absl::StrCat(Place(false), ",\"name\":", Quoted(name_), ",\"",
                                     is_custom_ ? "input" : "arguments", "\":", Quoted(text)));
  AddItem(CallItem(status, text));
}

void ResponseOutput::AddPiece(const AnswerPiece& piece, int64_t begin) {
  switch (piece.kind) {
    case AnswerPiece::Kind::kText:
      return AddText(piece.text, begin);
    case AnswerPiece::Kind::kCall:
      return OpenCall(piece);
    case AnswerPiece::Kind::kArguments:
      return AddArguments(piece.text);
    case AnswerPiece::Kind::kCallEnd:
      return CloseCall("completed");
    case AnswerPiece::Kind::kCallCut:
      return CloseCall("incomplete");
  }
}

void ResponseOutput::AddLogprobs(const std::vector<PositionLogprobs>& positions, int64_t text_begin) {
  has_logprobs_ = true;
  text_begin_ = text_begin;
  for (const PositionLogprobs& position : positions) {
    waiting_.push_back({position.begin, position.end, LogprobsText(position)});
  }
}

void ResponseOutput::PlacePieces(AnswerPieces pieces, std::vector<PlacedPiece>* out) {
  for (AnswerPiece& piece : pieces) {
    has_calls_ = has_calls_ || piece.kind == AnswerPiece::Kind::kCall;
    const bool is_text = piece.kind == AnswerPiece::Kind::kText;
    // Before a call nothing is left out.
    if (is_text && has_calls_) said_ = read_ - static_cast<int64_t>(parser_.held_bytes() + piece.text.size());
    const int64_t begin = is_text ? said_ : 0;
    if (is_text) said_ += std::ssize(piece.text);
    PlacedPiece* before = out->empty() ? nullptr : &out->back();
    const bool is_same = before != nullptr && before->piece.kind == piece.kind;
    const bool goes_on = is_same && is_text && before->begin + std::ssize(before->piece.text) == begin;
    if (goes_on || (is_same && piece.kind == AnswerPiece::Kind::kArguments)) {
      before->piece.text += piece.text;
    } else {
      out->push_back({std::move(piece), begin});
    }
  }
}

// Byte by byte: so it is known where a text ends that is passed on.
std::vector<ResponseOutput::PlacedPiece> ResponseOutput::ReadPlaced(std::string_view text, bool last) {
  std::vector<PlacedPiece> placed;
  for (size_t i = 0; i < text.size(); ++i) {
    ++read_;
    PlacePieces(parser_.Push(text.substr(i, 1)), &placed);
  }
  if (last) PlacePieces(parser_.Finish(), &placed);
  return placed;
}

void ResponseOutput::Push(std::string_view text, bool last, bool incomplete, ResponseEvents* events, std::string* out) {
  events_ = events;
  out_ = out;
  if (has_logprobs_) {
    for (const PlacedPiece& placed : ReadPlaced(text, last)) AddPiece(placed.piece, placed.begin);
  } else {
    for (const AnswerPiece& piece : parser_.Read(text, last)) AddPiece(piece, 0);
  }
  if (!last) return;
  const bool thinks = in_reasoning_;
  CloseReasoning(incomplete ? "incomplete" : "completed");
  if (thinks) return;
  if (!in_message_ && index_ == 0) {
    OpenMessage();
    text_ = std::exchange(blank_, {});
    logprobs_ = TakeLogprobs(blank_begin_, blank_begin_ + std::ssize(text_));
    Tell("response.output_text.delta",
         absl::StrCat(Place(true), ",\"delta\":", Quoted(text_), ",\"logprobs\":[", logprobs_, "]"));
  }
  CloseMessage(incomplete ? "incomplete" : "completed");
}

}  // namespace hydrant
