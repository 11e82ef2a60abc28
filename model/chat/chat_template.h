// ChatTemplate makes a prompt of a conversation, as the model's checkpoint says, and tells which bytes of it a client wrote:
// those never become special tokens.
//
// Thread: any (immutable).
#ifndef HYDRANT_MODEL_CHAT_CHAT_TEMPLATE_H_
#define HYDRANT_MODEL_CHAT_CHAT_TEMPLATE_H_

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/jinja/template.h"
#include "model/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace hydrant {

class ChatTemplate {
 public:
  struct Inputs {
    // A non-empty array of objects, whose `role`s are words that the caller knows: they may become special tokens.
    const nlohmann::ordered_json& messages;
    const nlohmann::ordered_json& tools;             // null: none
    const nlohmann::ordered_json& documents;         // null: none
    const nlohmann::ordered_json& reasoning_effort;  // null: not said
    bool add_generation_prompt = true;
    // The prompt ends where the content of the last message does, so that the model goes on with it.
    bool continue_final_message = false;
    std::time_t now = 0;
    std::optional<bool> enable_thinking = {};  // empty: not said
    // More variables, by name, of which none is IsOwnVariable; null: none.
    const nlohmann::ordered_json* arguments = nullptr;
  };
  struct Prompt {
    std::string text;
    std::vector<ByteRange> client;  // ascending, disjoint
  };

  // `bos` and `eos` are the tokens' texts, empty where the model has none. kInvalidArgument: not a template.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source, std::string_view bos, std::string_view eos);

  // Content that is null is passed as it is: some templates know a call by it. To one that fails there, or would write "None",
  // it is empty text. kInvalidArgument: the template refuses the conversation, in its own words. kFailedPrecondition: the template does not fit
  // the conversation. kResourceExhausted: it goes over its limits (jinja::Limits).
  absl::StatusOr<Prompt> Render(const Inputs& inputs) const;

  // Whether the template asks for a variable of this name, if only in a branch.
  bool Reads(std::string_view name) const { return template_.Reads(name); }
  // Whether a variable of this name is what the members of Inputs are to the template, or the tokenizer's; those that say how it
  // reasons aside.
  static bool IsOwnVariable(std::string_view name);

 private:
  ChatTemplate(jinja::Template parsed, std::string_view bos, std::string_view eos)
      : template_(std::move(parsed)), bos_(bos), eos_(eos) {}

  absl::StatusOr<jinja::Rendering> RenderMessages(const nlohmann::ordered_json& messages, const Inputs& inputs) const;

  jinja::Template template_;
  nlohmann::ordered_json bos_, eos_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHAT_CHAT_TEMPLATE_H_
