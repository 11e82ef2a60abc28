// However an answer is cut into pieces, the same reasoning, the same calls and the same text come out of it, and no text is lost
// where there are no calls. The first byte says the format and the pieces.
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "api/response/reasoning_splitter.h"
#include "api/response/tool_call_parser.h"
#include "api/wire/json_body.h"
#include "model/text/utf8.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace {

struct Parsed {
  std::string text;
  std::string calls;
  bool operator==(const Parsed&) const = default;
};

Parsed Parse(ToolCallFormat format, std::string_view answer, size_t step) {
  static const auto types = [] {
    auto made = std::make_shared<grammar::ArgumentTypes>();
    made->Add(
        R"({"name":"f","parameters":{"properties":{"a":{"type":"string"},"b":{"type":["number","null"]},"c":{"type":"boolean"}}}})");
    return made;
  }();
  ToolCallParser parser(format, "id", /*parallel=*/true, types);
  Parsed parsed;
  AnswerPieces pieces;
  const auto add = [&](AnswerPieces more) {
    for (AnswerPiece& piece : more) pieces.push_back(std::move(piece));
  };
  for (size_t at = 0; at < answer.size(); at += step) add(parser.Push(answer.substr(at, step)));
  add(parser.Finish());
  const WholeAnswer whole = Joined(pieces);
  parsed.text = whole.text;
  for (const ToolCall& call : whole.calls) {
    Require(IsFunctionName(call.name), "a call names its function");
    Require(!call.arguments.empty() && call.arguments.front() == '{', "arguments begin an object");
    parsed.calls += call.id + call.name + call.arguments + (call.whole ? "" : "!");
    if (!call.whole) continue;
    const ApiResult<JsonBody> arguments = JsonBody::Parse(call.arguments, RequestLimits());
    // The client may have other limits than a request has here, and may be sent what is no UTF-8 by no model.
    Require((arguments.ok() && arguments.value().root().is_object()) || arguments.error().code != "invalid_json" ||
                ValidUtf8Prefix(call.arguments) != call.arguments.size(),
            "arguments are an object");
  }
  bool open = false;
  for (const AnswerPiece& piece : pieces) {
    const bool begins = piece.kind == AnswerPiece::Kind::kCall, text = piece.kind == AnswerPiece::Kind::kText;
    Require(open == (!begins && !text), "the pieces of a call stand together");
    open = begins || piece.kind == AnswerPiece::Kind::kArguments;
  }
  Require(!open, "a call ends");
  return parsed;
}

// Reasoning and the rest, with a byte between them that is in neither.
std::string Split(bool opened, std::string_view answer, size_t step) {
  ReasoningSplitter splitter({"<think>", "</think>", "[lead]"}, opened);
  std::string reasoning, text;
  const auto add = [&](const ReasoningSplitter::Output& output) {
    Require(output.reasoning.empty() || text.empty(), "reasoning comes before any text");
    reasoning += output.reasoning;
    text += output.text;
  };
  for (size_t at = 0; at < answer.size(); at += step) add(splitter.Push(answer.substr(at, step)));
  add(splitter.Finish());
  Require(reasoning.size() + text.size() <= answer.size(), "nothing is made up");
  Require(splitter.reasoning_end() > 0 || text == answer, "without reasoning all is text");
  return reasoning + "\xff" + text;
}

}  // namespace

void Fuzz(std::string_view input) {
  if (input.empty()) return;
  const auto first = static_cast<unsigned char>(input.front());
  static const size_t formats = ToolCallFormatNames().size();
  const auto format = static_cast<ToolCallFormat>(first % formats);
  const std::string_view answer = input.substr(1);
  const Parsed whole = Parse(format, answer, answer.size() + 1);
  Require(whole == Parse(format, answer, 1 + first / formats % 16), "pieces make no difference");
  Require(!whole.calls.empty() || whole.text == answer, "without calls all is text");
  const bool opened = first >= 128;
  Require(Split(opened, answer, answer.size() + 1) == Split(opened, answer, 1 + first / 4 % 16),
          "pieces make no difference to reasoning");
}

}  // namespace hydrant
