#include "model/chat/reasoning_format.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSpace = " \t\r\n";
// What no template says by itself.
constexpr std::string_view kQuestion = "hydrant asks", kThought = "hydrant thinks", kAnswer = "hydrant answers";
// The longest marker has some 50 bytes.
constexpr size_t kMarkerBytesMax = 80;

// The names under which templates read an assistant's reasoning.
constexpr const char* kUsual = "reasoning_content";
constexpr const char* kParts = "content";
constexpr std::array<const char*, 4> kMembers = {kUsual, "thinking", "reasoning", kParts};

// The markers of templates that show no past reasoning, but take it out of what an assistant said, or begin answers with it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kPairs = {{
    {"<think>", "</think>"},
    {"<thinking>", "</thinking>"},
    {"<reasoning>", "</reasoning>"},
    {"<seed:think>", "</seed:think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|channel>thought", "<channel|>"},
    {"◁think▷", "◁/think▷"},
}};

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

bool IsMarker(std::string_view text) {
  return !text.empty() && text.size() <= kMarkerBytesMax && text.find_first_of(kSpace) == std::string_view::npos;
}

// How a tag begins and ends: <think>, [THINK], ◁think▷.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kBrackets = {{
    {"<", ">"},
    {"[", "]"},
    {"◁", "▷"},
}};

// The tag that `text` begins with, after white space; empty: none.
std::string_view FirstTag(std::string_view text) {
  text = Trimmed(text);
  for (const auto& [begin, end] : kBrackets) {
    if (!text.starts_with(begin)) continue;
    const size_t at = text.find(end, begin.size());
    if (at == std::string_view::npos) return {};
    const std::string_view tag = text.substr(0, at + end.size());
    return IsMarker(tag) ? tag : std::string_view();
  }
  return {};
}

// The same of the tag that `text` ends with.
std::string_view LastTag(std::string_view text) {
  text = Trimmed(text);
  for (const auto& [begin, end] : kBrackets) {
    if (!text.ends_with(end)) continue;
    const size_t at = text.rfind(begin, text.size() - end.size());
    if (at == std::string_view::npos) return {};
    const std::string_view tag = text.substr(at);
    return IsMarker(tag) ? tag : std::string_view();
  }
  return {};
}

// Nothing: the template refuses the conversation.
std::optional<ChatTemplate::Prompt> Render(const ChatTemplate& chat, const Json& messages, bool prompt,
                                           std::optional<bool> thinks = std::nullopt) {
  static const Json none = nullptr;
  absl::StatusOr<ChatTemplate::Prompt> rendered = chat.Render({messages, none, none, none, prompt, false, 0, thinks});
  if (!rendered.ok()) return std::nullopt;
  return *std::move(rendered);
}

Json Question() { return {{{"role", "user"}, {"content", std::string(kQuestion)}}}; }

// Moves what the message says as kUsual to `member`.
void Place(const char* member, Json* message) {
  Json reasoning = std::move(message->at(kUsual));
  message->erase(kUsual);
  if (member != std::string_view(kParts)) {
    (*message)[member] = std::move(reasoning);
    return;
  }
  Json parts = {{{"type", "thinking"}, {"thinking", std::move(reasoning)}}};
  Json& content = (*message)[kParts];
  if (content.is_string() && content != "") parts.push_back({{"type", "text"}, {"text", std::move(content)}});
  content = std::move(parts);
}

// `open` is a channel's tag, its name and another tag; `lead` is the same of another channel behind what prompts end with.
ChannelFormat ChannelsOf(const ReasoningFormat& format, std::string_view prompt) {
  const std::string_view open = format.open, lead = format.lead;
  const std::string_view channel = FirstTag(open), message = LastTag(open);
  if (channel.empty() || open.size() <= channel.size() + message.size()) return {};
  const std::string_view thought = open.substr(channel.size(), open.size() - channel.size() - message.size());
  const size_t at = lead.rfind(channel);
  if (at == std::string_view::npos || at == 0 || !lead.ends_with(message)) return {};
  const std::string_view start = lead.substr(0, at), said = lead.substr(at + channel.size());
  if (said.size() <= message.size() || !Trimmed(prompt).ends_with(start)) return {};
  return {.start = std::string(start),
          .channel = std::string(channel),
          .message = std::string(message),
          .end = format.close,
          .thought = std::string(thought),
          .answer = std::string(said.substr(0, said.size() - message.size()))};
}

// The format that a conversation shows which has reasoning as `member` of its last message. `prompt`: the same conversation
// up to where the model would begin.
ReasoningFormat Shown(const ChatTemplate& chat, std::string_view prompt, const char* member,
                      std::optional<bool> thinks) {
  Json messages = Question();
  messages.push_back({{"role", "assistant"}, {"content", std::string(kAnswer)}, {kUsual, std::string(kThought)}});
  Place(member, &messages.back());
  const std::optional<ChatTemplate::Prompt> rendered = Render(chat, messages, /*prompt=*/false, thinks);
  if (!rendered.has_value()) return {};
  const std::string_view text = rendered->text;
  const size_t thought = text.find(kThought);
  if (thought == std::string_view::npos) return {};
  const size_t answer = text.find(kAnswer, thought);
  if (answer == std::string_view::npos) return {};
  const std::string_view before = text.substr(0, thought);
  const std::string_view between = text.substr(thought + kThought.size(), answer - thought - kThought.size());
  ReasoningFormat format;
  const std::string_view tag = LastTag(before), close = FirstTag(between);
  if (tag.empty() || close.empty()) return {};
  format.open = tag;
  format.close = close;
  // Where a model writes more than one tag to begin with, that is all that the prompt does not end with.
  const size_t common = static_cast<size_t>(
      std::mismatch(before.begin(), before.end(), prompt.begin(), prompt.end()).first - before.begin());
  const std::string_view written = Trimmed(before.substr(common));
  if (written.size() > tag.size() && IsMarker(written)) format.open = written;
  const std::string_view after = Trimmed(between);
  const std::string_view lead = Trimmed(after.substr(close.size()));
  if (IsMarker(lead)) format.lead = lead;
  format.member = member;
  format.channels = ChannelsOf(format, prompt);
  return format;
}

ReasoningFormat Find(const ChatTemplate& chat, std::string_view source, std::string_view prompt) {
  for (const std::optional<bool> thinks : {std::optional<bool>(), std::optional<bool>(true)}) {
    for (const char* member : kMembers) {
      ReasoningFormat format = Shown(chat, prompt, member, thinks);
      if (format.known()) return format;
    }
  }
  for (const auto& [open, close] : kPairs) {
    if (source.find(close) == std::string_view::npos && prompt.find(open) == std::string_view::npos) continue;
    return {.open = std::string(open), .close = std::string(close), .lead = "", .member = ""};
  }
  return {};
}

}  // namespace

std::optional<Json> WithReasoningPlaced(const ReasoningFormat& format, const Json& messages, bool continues) {
  if (format.member.empty() || format.member == kUsual) return std::nullopt;
  std::optional<Json> placed;
  for (size_t i = 0; i + (continues ? 1 : 0) < messages.size(); ++i) {
    if (!messages[i].contains(kUsual)) continue;
    if (!placed.has_value()) placed = messages;
    Place(format.member.c_str(), &(*placed)[i]);
  }
  return placed;
}

ReasoningFormat DetectReasoning(const ChatTemplate& chat, std::string_view source) {
  const std::optional<ChatTemplate::Prompt> prompt = Render(chat, Question(), /*prompt=*/true);
  if (!prompt.has_value()) return {};
  ReasoningFormat format = Find(chat, source, prompt->text);
  format.open_in_prompt = OpensReasoning(format, prompt->text, prompt->client, /*continues=*/false);
  return format;
}

bool EndsWithStart(const ChannelFormat& channels, std::string_view prompt) {
  return channels.known() && Trimmed(prompt).ends_with(channels.start);
}

bool OpensReasoning(const ReasoningFormat& format, std::string_view prompt, std::span<const ByteRange> client,
                    bool continues) {
  if (!format.known()) return false;
  size_t begin = 0;
  if (!client.empty()) begin = continues ? client.back().begin : client.back().end;
  const std::string_view last = prompt.substr(begin);
  // What a client says of a marker in the middle of a message opens nothing.
  if (continues && !client.empty() && client.back().end == prompt.size() && !Trimmed(last).starts_with(format.open)) {
    return false;
  }
  const size_t open = last.rfind(format.open), close = last.rfind(format.close);
  if (open == std::string_view::npos) return false;
  return close == std::string_view::npos || close < open;
}

}  // namespace hydrant
