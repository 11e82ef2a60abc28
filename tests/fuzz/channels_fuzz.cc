// However an answer of messages is cut into pieces, the same reasoning, text and calls come out of it, each byte is reasoning or not for
// good once that is said, and what begins no mark is no mark. The first byte says the pieces and where the answer begins; 0xFE stands
// before a special token.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/response/channel_reader.h"
#include "api/response/tool_call_parser.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace {

constexpr char kToken = '\xfe';

struct Answer {
  std::string text;
  std::vector<int64_t> tokens;  // where special tokens begin
};

struct Read {
  std::string reasoning, text, calls;
  std::vector<bool> is_reasoning;  // of each byte
  bool operator==(const Read&) const = default;
};

Read ReadIn(const Answer& answer, ChannelReader::Begin begin, bool are_tokens, size_t step) {
  ChannelReader reader({"<|start|>assistant", "<|channel|>", "<|message|>", "<|end|>", "analysis", are_tokens}, begin);
  ToolCallParser parser(ToolCallFormat::kHarmony, "id");
  Read read;
  AnswerPieces pieces;
  const auto add = [&](const ChannelReader::Output& output, bool last) {
    read.reasoning += output.reasoning;
    read.text += output.text;
    for (AnswerPiece& piece : parser.Read(output.text, last)) pieces.push_back(std::move(piece));
  };
  const auto decide = [&](size_t until) {
    while (read.is_reasoning.size() < until) {
      read.is_reasoning.push_back(reader.IsReasoning(static_cast<int64_t>(read.is_reasoning.size())));
    }
  };
  size_t next = 0;
  for (size_t at = 0; at < answer.text.size(); at += step) {
    for (; next < answer.tokens.size() && answer.tokens[next] < static_cast<int64_t>(at + step); ++next) {
      reader.TokenAt(answer.tokens[next]);
    }
    add(reader.Push(std::string_view(answer.text).substr(at, step)), false);
    Require(reader.decided() >= static_cast<int64_t>(read.is_reasoning.size()), "what is decided stays so");
    decide(static_cast<size_t>(reader.decided()));
  }
  add(reader.Finish(), true);
  decide(answer.text.size());
  for (size_t i = 0; i < read.is_reasoning.size(); ++i) {
    Require(read.is_reasoning[i] == reader.IsReasoning(static_cast<int64_t>(i)), "a byte stays what it was said to be");
  }
  const WholeAnswer whole = Joined(pieces);
  for (const ToolCall& call : whole.calls) read.calls += call.name + call.arguments + (call.whole ? ";" : "!");
  read.calls += whole.text;
  return read;
}

}  // namespace

void Fuzz(std::string_view input) {
  if (input.empty()) return;
  const auto first = static_cast<unsigned char>(input.front());
  const auto begin = static_cast<ChannelReader::Begin>(first % 3);
  const bool are_tokens = first >= 128;
  Answer answer;
  for (const char c : input.substr(1)) {
    if (c != kToken) {
      answer.text += c;
    } else if (answer.tokens.empty() || answer.tokens.back() < static_cast<int64_t>(answer.text.size())) {
      answer.tokens.push_back(static_cast<int64_t>(answer.text.size()));
    }
  }
  const Read whole = ReadIn(answer, begin, are_tokens, answer.text.size() + 1);
  Require(whole == ReadIn(answer, begin, are_tokens, 1 + first / 3 % 8), "pieces make no difference");
  if (are_tokens && answer.tokens.empty() && begin == ChannelReader::Begin::kText) {
    Require(whole.text == answer.text && whole.reasoning.empty(), "what only spells marks is text");
  }
}

}  // namespace hydrant
