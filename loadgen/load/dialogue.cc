#include "loadgen/load/dialogue.h"

#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/wire/json_writer.h"
#include "nlohmann/json.hpp"

namespace hydrant {
namespace {

void AppendMessage(std::string_view role, std::string_view escaped, std::string* out) {
  if (!out->empty()) out->push_back(',');
  absl::StrAppend(out, "{\"role\":\"", std::string(role), "\",\"content\":\"", std::string(escaped), "\"}");
}

std::string Escaped(std::string_view text) {
  std::string out;
  AppendJsonEscaped(&out, text);
  return out;
}

}  // namespace

absl::StatusOr<RequestStyle> MakeRequestStyle(bool chat, std::string_view model, std::string_view sampling_json,
                                              std::string_view extra_json) {
  nlohmann::ordered_json members;
  members["model"] = std::string(model);
  members["stream"] = true;
  members["stream_options"] = {{"include_usage", true}};
  for (const std::string_view text : {sampling_json, extra_json}) {
    if (text.empty()) continue;
    const auto object = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return absl::InvalidArgumentError("must be a JSON object");
    for (const auto& [name, value] : object.items()) members[name] = value;
  }
  RequestStyle style;
  style.chat = chat;
  style.fixed_output = members.contains("max_tokens") || members.contains("max_completion_tokens");
  const std::string text = members.dump();
  style.members = text.substr(1, text.size() - 2);
  return style;
}

Dialogue::Dialogue(const RequestStyle* style, Conversation conversation)
    : style_(style), conversation_(std::move(conversation)) {
  if (conversation_.system.empty()) return;
  prompt_tokens_ = conversation_.system_tokens;
  if (style_->chat) {
    AppendMessage("system", Escaped(conversation_.system), &said_);
  } else {
    said_ = Escaped(conversation_.system);
  }
}

std::string Dialogue::NextBody() {
  assert(next_turn_ < conversation_.turns.size());
  const Turn& turn = conversation_.turns[next_turn_++];
  prompt_tokens_ += turn.input_tokens;
  std::string body = absl::StrCat("{", style_->members);
  if (style_->chat) {
    AppendMessage("user", Escaped(turn.text), &said_);
    absl::StrAppend(&body, ",\"messages\":[", said_, "]");
  } else if (!turn.token_ids.empty()) {
    absl::StrAppend(&body, ",\"prompt\":");
    AppendJsonIntegers(&body, turn.token_ids);
  } else {
    absl::StrAppend(&said_, next_turn_ > 1 ? "\\n" : "", Escaped(turn.text));
    absl::StrAppend(&body, ",\"prompt\":\"", said_, "\"");
  }
  if (!style_->fixed_output) {
    absl::StrAppend(&body, style_->chat ? ",\"max_completion_tokens\":" : ",\"max_tokens\":", turn.output_tokens_max);
  }
  body.push_back('}');
  return body;
}

void Dialogue::AddAnswer(std::string_view escaped) {
  prompt_tokens_ += conversation_.turns[next_turn_ - 1].output_tokens_max;
  if (style_->chat) {
    AppendMessage("assistant", escaped, &said_);
  } else {
    absl::StrAppend(&said_, "\\n", std::string(escaped));
  }
}

}  // namespace hydrant
