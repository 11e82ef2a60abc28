#include "server/generation/call_probe.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/response/channel_reader.h"
#include "nlohmann/json.hpp"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

// What no template says by itself.
constexpr const char* kTool = "hydrant_calls";
constexpr const char* kPassed = "hydrant passes";
constexpr int kDays = 31415;
constexpr const char* kAnswered = "hydrant answers";
// Mistral's templates refuse other ids than nine letters and digits.
constexpr const char* kCallId = "hydrant01";

Json ToolsToCall() {
  Json properties = {{"place", {{"type", "string"}, {"description", "a place"}}},
                     {"days", {{"type", "integer"}, {"description", "a number"}}}};
  Json parameters = {{"type", "object"}, {"properties", std::move(properties)}};
  Json function = {{"name", kTool}, {"description", "a tool"}, {"parameters", std::move(parameters)}};
  return Json::array({{{"type", "function"}, {"function", std::move(function)}}});
}

Json Message(const char* role, Json content) { return {{"role", role}, {"content", std::move(content)}}; }

Json Asked() { return Json::array({Message("user", "hydrant asks")}); }

Json Called(const Json& arguments) {
  Json call = {{"id", kCallId}, {"type", "function"}, {"function", {{"name", kTool}, {"arguments", arguments}}}};
  Json messages = Asked();
  messages.push_back(Message("assistant", nullptr));
  messages.back()["tool_calls"] = Json::array({std::move(call)});
  return messages;
}

Json GoingOn(Json messages) {
  messages.push_back(Message("tool", "hydrant returns"));
  messages.back()["tool_call_id"] = kCallId;
  messages.back()["name"] = kTool;
  messages.push_back(Message("assistant", kAnswered));
  messages.push_back(Message("user", "hydrant asks again"));
  return messages;
}

// Nothing: the template refuses the conversation.
std::optional<std::string> RenderWithTools(const ChatTemplate& chat, const Json& tools, const Json& messages,
                                           bool prompt = false) {
  static const Json none = nullptr;
  absl::StatusOr<ChatTemplate::Prompt> rendered = chat.Render({messages, tools, none, none, prompt});
  if (!rendered.ok()) return std::nullopt;
  return std::move(rendered->text);
}

// What stands around an answer.
struct AnswerPlace {
  std::vector<std::string> before;  // the first with which a text begins, or else what it has in common with the last
  std::string behind;               // empty: not known
};

AnswerPlace PlaceOfAnswers(const ChatTemplate& chat, const Json& tools) {
  constexpr const char* kSpace = " \t\r\n";
  AnswerPlace place;
  Json messages = Asked();
  const std::optional<std::string> asked = RenderWithTools(chat, tools, messages);
  const std::optional<std::string> prompt = RenderWithTools(chat, tools, messages, /*prompt=*/true);
  messages.push_back(Message("assistant", kAnswered));
  std::string answered = RenderWithTools(chat, tools, messages).value_or("");
  const size_t at = answered.rfind(kAnswered);
  if (at != answered.npos) {
    place.behind = answered.substr(at + std::string_view(kAnswered).size());
    place.behind.erase(0, place.behind.find_first_not_of(kSpace));
    place.behind.erase(place.behind.find_last_not_of(kSpace) + 1);
    place.before.push_back(answered.substr(0, at));
  }
  // A prompt may go on with what past answers do not begin with, and these with what it does not end with.
  if (prompt.has_value()) place.before.push_back(*prompt);
  std::ranges::sort(place.before, std::ranges::greater(), &std::string::size);
  if (asked.has_value()) place.before.push_back(*asked);
  return place;
}

// What the assistant says in a rendered conversation, from the first answer on. Calls that are all of an answer are read in nothing else.
std::string_view AnswerIn(std::string_view text, const AnswerPlace& place) {
  size_t begin = 0;
  for (const std::string& before : place.before) {
    begin = static_cast<size_t>(std::ranges::mismatch(text, before).in1 - text.begin());
    if (begin == before.size()) break;
  }
  text.remove_prefix(begin);
  return text.substr(0, place.behind.empty() ? text.npos : text.find(place.behind));
}

std::string CallMessages(std::string_view answer, const ChannelFormat& channels) {
  ChannelReader reader({channels.start, channels.channel, channels.message, channels.end, channels.thought},
                       ChannelReader::Begin::kHead);
  std::string text = reader.Push(answer).text;
  return text + reader.Finish().text;
}

struct ShownCall {
  Json arguments;
  std::string answer;  // in which the template has the call
};

bool IsReadBack(const ShownCall& shown, ToolCallFormat format, const Json& tools) {
  ToolCallParser parser(format, "", /*parallel=*/true, ArgumentTypesOf(format, tools));
  const WholeAnswer read = Joined(parser.Read(shown.answer, /*last=*/true));
  return std::ranges::any_of(read.calls, [&](const ToolCall& call) {
    return call.name == kTool && call.whole && Json::parse(call.arguments, nullptr, false) == shown.arguments;
  });
}

}  // namespace

ToolCallFormat FormatThatReads(const ChatTemplate& chat, const ReasoningFormat& reasoning,
                               std::span<const ToolCallFormat> formats) {
  const Json tools = ToolsToCall();
  const AnswerPlace place = PlaceOfAnswers(chat, tools);
  std::vector<ShownCall> shown;
  // One argument at a time: ToolACE's template writes strings without their quotes, Llama 4's numbers as strings.
  for (const Json& arguments : {Json{{"place", kPassed}}, Json{{"days", kDays}}}) {
    const std::string spelled = arguments.contains("days") ? std::to_string(kDays) : kPassed;
    const Json called = Called(arguments);
    // Some templates show calls only where something follows.
    for (const Json& messages : {called, GoingOn(called)}) {
      const std::optional<std::string> text = RenderWithTools(chat, tools, messages);
      if (!text.has_value()) continue;
      const std::string_view answer = AnswerIn(*text, place);
      if (answer.find(spelled) == answer.npos) continue;
      const bool is_messages = reasoning.channels.known();
      shown.push_back({arguments, is_messages ? CallMessages(answer, reasoning.channels) : std::string(answer)});
    }
  }
  if (shown.empty()) return formats.front();
  for (const ToolCallFormat format : formats) {
    const auto reads = [&](const ShownCall& one) { return IsReadBack(one, format, tools); };
    if (std::ranges::any_of(shown, reads)) return format;
  }
  return ToolCallFormat::kNone;
}

}  // namespace hydrant
