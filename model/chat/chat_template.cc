#include "model/chat/chat_template.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

// Marks the end of the last message's content, so that the prompt can be cut there; no template or client writes it. The
// blank at its end shows whether the template trims.
constexpr std::string_view kContentEnd = "\x01\x02hydrant continues here\x02\x01 ";

absl::StatusOr<Json> Marked(const Json& messages) {
  Json marked = messages;
  Json& last = marked.back();
  const auto content = last.find("content");
  if (content == last.end() || !content->is_string()) {
    return absl::FailedPreconditionError("the final message has no content to continue");
  }
  std::string text = *content;
  *content = text.append(kContentEnd);
  return marked;
}

// Cuts the rendering at the mark. A template that trims content trims what comes before the mark's blank as well.
absl::Status CutAtMark(std::string& text) {
  const std::string_view mark = kContentEnd.substr(0, kContentEnd.size() - 1);
  const size_t at = text.rfind(mark);
  if (at == std::string::npos) {
    return absl::FailedPreconditionError("the final message does not appear in the prompt, so it cannot be continued");
  }
  const bool keeps_space = std::string_view(text).substr(at).starts_with(kContentEnd);
  text.resize(keeps_space ? at : jinja::TrimSpace(std::string_view(text).substr(0, at), false, true).end);
  return absl::OkStatus();
}

// The messages with empty text in place of content that is null; nothing when there is none.
std::optional<Json> WithoutNulls(const Json& messages) {
  std::optional<Json> changed;
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto content = messages[i].find("content");
    if (content == messages[i].end() || !content->is_null()) continue;
    if (!changed) changed = messages;
    (*changed)[i]["content"] = "";
  }
  return changed;
}

// How often a template wrote what it was given none of.
size_t Nones(std::string_view text) {
  constexpr std::string_view kNone = "None";
  size_t count = 0;
  for (size_t at = 0; (at = text.find(kNone, at)) != text.npos; at += kNone.size()) ++count;
  return count;
}

// What every message adds to the limits of a render: a thousand calls and their results take gpt-oss's template 1e7 steps.
constexpr int64_t kStepsOfMessage = 10'000;
constexpr auto kTimeOfMessage = std::chrono::milliseconds(1);

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source, std::string_view bos, std::string_view eos) {
  absl::StatusOr<jinja::Template> parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return ChatTemplate(*std::move(parsed), bos, eos);
}

absl::StatusOr<jinja::Rendering> ChatTemplate::RenderMessages(const Json& messages, const Inputs& inputs) const {
  const Json add_generation_prompt = inputs.add_generation_prompt;
  // Some templates make a token of the role: '<|' + message.role + '|>'.
  std::vector<jinja::Variable> variables = {{"messages", &messages, jinja::Origin::kClient, "role"},
                                            {"tools", &inputs.tools},
                                            {"documents", &inputs.documents},
                                            {"add_generation_prompt", &add_generation_prompt},
                                            {"bos_token", &bos_, jinja::Origin::kTemplate},
                                            {"eos_token", &eos_, jinja::Origin::kTemplate}};
  if (!inputs.reasoning_effort.is_null()) variables.push_back({"reasoning_effort", &inputs.reasoning_effort});
  const Json enable_thinking = inputs.enable_thinking.value_or(false);
  if (inputs.enable_thinking.has_value()) variables.push_back({"enable_thinking", &enable_thinking});
  if (inputs.arguments != nullptr) {
    for (const auto& [name, value] : inputs.arguments->items()) variables.push_back({name, &value});
  }
  // Some templates look at all later messages for each call, so that a long conversation takes many more steps than a short one.
  jinja::Limits limits;
  limits.steps_max += kStepsOfMessage * static_cast<int64_t>(messages.size());
  limits.time_max += kTimeOfMessage * static_cast<int64_t>(messages.size());
  return template_.Render(variables, inputs.now, limits);
}

bool ChatTemplate::IsOwnVariable(std::string_view name) {
  // Beside those that are given, names of a tokenizer's own and of the renderer's that published templates read.
  static constexpr std::array<std::string_view, 12> kOwn = {"messages",
                                                            "tools",
                                                            "documents",
                                                            "add_generation_prompt",
                                                            "continue_final_message",
                                                            "bos_token",
                                                            "eos_token",
                                                            "pad_token",
                                                            "unk_token",
                                                            "sep_token",
                                                            "cls_token",
                                                            "mask_token"};
  return std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end();
}

absl::StatusOr<ChatTemplate::Prompt> ChatTemplate::Render(const Inputs& inputs) const {
  const Json* messages = &inputs.messages;
  absl::StatusOr<Json> marked;
  if (inputs.continue_final_message) {
    marked = Marked(inputs.messages);
    if (!marked.ok()) return marked.status();
    messages = &*marked;
  }
  absl::StatusOr<jinja::Rendering> rendering = RenderMessages(*messages, inputs);
  if (!absl::IsResourceExhausted(rendering.status()) && (!rendering.ok() || Nones(rendering->text) > 0)) {
    if (const std::optional<Json> filled = WithoutNulls(*messages)) {
      absl::StatusOr<jinja::Rendering> other = RenderMessages(*filled, inputs);
      if (!rendering.ok() || (other.ok() && Nones(other->text) < Nones(rendering->text))) rendering = std::move(other);
    }
  }
  if (!rendering.ok()) return rendering.status();
  Prompt prompt;
  prompt.text = std::move(rendering->text);
  if (inputs.continue_final_message) {
    const absl::Status status = CutAtMark(prompt.text);
    if (!status.ok()) return status;
  }
  prompt.client = std::move(rendering->client);
  while (!prompt.client.empty() && prompt.client.back().begin >= prompt.text.size()) prompt.client.pop_back();
  if (!prompt.client.empty()) prompt.client.back().end = std::min(prompt.client.back().end, prompt.text.size());
  return prompt;
}

}  // namespace hydrant
