#include "api/response/pythonic_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/response/tool_call_parser.h"
#include "model/grammar/notation/python_literal.h"
#include "model/text/text_pieces.h"

namespace hydrant {
namespace {

using grammar::PythonReader;
using PieceKind = AnswerPiece::Kind;

constexpr std::string_view kStart = "<|python_start|>";
constexpr std::string_view kEnd = "<|python_end|>";
// What stands before the first argument.
constexpr size_t kHeadBytesMax = 256;

std::string_view WithoutBlankAround(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
}

// {"key": value, …} up to the closing bracket; nullopt: those are no arguments.
std::optional<std::string> ReadArguments(PythonReader& reader) {
  std::string json = "{";
  for (bool first = true; !reader.Take(')'); first = false) {
    if (!first && !reader.Take(',')) return std::nullopt;
    if (!first && reader.Take(')')) break;
    const std::string_view key = reader.Name();
    if (key.empty() || !reader.Take('=')) return std::nullopt;
    const std::optional<std::string> value = reader.Value();
    if (!value.has_value()) return std::nullopt;
    json.append(first ? "\"" : ", \"").append(key).append("\": ").append(*value);
  }
  return json + "}";
}

}  // namespace

bool MayBePythonicCalls(std::string_view begin) {
  if (begin.size() < kStart.size() && kStart.starts_with(begin)) return true;
  if (begin.starts_with(kStart)) begin.remove_prefix(kStart.size());
  begin.remove_prefix(std::min(begin.find_first_not_of(kWhiteSpace), begin.size()));
  if (begin.empty()) return true;
  const bool may_go_on = begin.size() < kHeadBytesMax;
  PythonReader reader(begin.substr(0, kHeadBytesMax));
  if (!reader.Take('[')) return false;
  if (reader.AtEnd()) return may_go_on;
  if (!IsFunctionName(reader.Name())) return false;
  return reader.AtEnd() ? may_go_on : reader.Take('(');
}

std::optional<AnswerPieces> ReadPythonicCalls(std::string_view answer) {
  answer = WithoutBlankAround(answer);
  if (answer.starts_with(kStart)) answer.remove_prefix(kStart.size());
  if (answer.ends_with(kEnd)) answer.remove_suffix(kEnd.size());
  PythonReader reader(answer);
  AnswerPieces pieces;
  if (!reader.Take('[')) return std::nullopt;
  do {
    const std::string_view name = reader.Name();
    if (!IsFunctionName(name) || !reader.Take('(')) return std::nullopt;
    std::optional<std::string> arguments = ReadArguments(reader);
    if (!arguments.has_value()) return std::nullopt;
    pieces.push_back({PieceKind::kCall, std::string(name), 0, ""});
    pieces.push_back({PieceKind::kArguments, *std::move(arguments), 0, ""});
    pieces.push_back({PieceKind::kCallEnd, "", 0, ""});
  } while (reader.Take(','));
  if (!reader.Take(']') || !reader.AtEnd()) return std::nullopt;
  return pieces;
}

}  // namespace hydrant
