#include "api/request/tokenize.h"

#include <limits>

#include "api/request/refused_fields.h"
#include "api/wire/json_body.h"
#include "api/wire/json_writer.h"
#include "api/wire/object_reader.h"

namespace hydrant {
namespace {

using enum NeutralValue;

// What would make other tokens. What speaks of an answer alone changes nothing here, and is ignored, so that any request's body
// can be sent.
constexpr OtherField kOthers[] = {
    {"reasoning", "reasoning_effort"}, {"thinking", "enable_thinking"}, {"tokens", "prompt"},
    {"truncate_prompt_tokens", ""},    {"truncation", "", kDisabled},
};
// A prompt, which no template is rendered with, has none of these.
constexpr OtherField kOthersOfPrompts[] = {
    {"add_generation_prompt", "messages", kTrue},
    {"chat_template_kwargs", "messages", kEmpty},
    {"continue_final_message", "messages", kFalse},
    {"conversation", ""},
    {"documents", "messages", kEmpty},
    {"enable_thinking", "messages"},
    {"input", "prompt"},
    {"instructions", "prompt"},
    {"previous_response_id", ""},
    {"reasoning_effort", "messages"},
    {"system", "prompt"},
    {"tools", "messages", kEmpty},
};

}  // namespace

ApiResult<TokenizeRequest> ParseTokenizeRequest(std::string_view body, const RequestContext& context) {
  return ParseBody<TokenizeRequest>(
      body, context, [&](ObjectReader* reader, JsonBudget* budget, TokenizeRequest* request) {
        RefuseOtherFields(reader, "/tokenize", kOthers);
        if (reader->Has("messages")) {
          if (reader->Has("prompt")) reader->Fail("messages", "'messages' cannot be combined with 'prompt'.");
          RefuseChatFields(reader);
          ReadConversation(reader, context, budget, &request->conversation.emplace());
          // A model that is not told of tools does not call them.
          const ToolChoice choice = ReadToolChoice(reader, ToolNaming::kNested);
          if (choice.kind == ToolChoice::Kind::kNone) request->conversation->tools = nullptr;
        } else if (!reader->Has("prompt")) {
          reader->Fail("prompt", "'prompt' or 'messages' is required.", "missing_field");
        } else {
          RefuseOtherFields(reader, "/tokenize", kOthersOfPrompts);
        }
        request->prompt = reader->String("prompt", "", std::numeric_limits<size_t>::max(), /*identifier=*/false);
        request->add_special_tokens = reader->Bool("add_special_tokens", !request->conversation.has_value());
        request->return_token_strs = reader->Bool("return_token_strs", false);
      });
}

std::string TokenizeJson(const std::vector<int32_t>& tokens, const std::optional<std::vector<std::string>>& token_strs,
                         int32_t max_model_len) {
  std::string out = "{\"count\":";
  AppendJsonInteger(&out, static_cast<int64_t>(tokens.size()));
  out.append(",\"max_model_len\":");
  AppendJsonInteger(&out, max_model_len);
  out.append(",\"tokens\":");
  AppendJsonIntegers(&out, tokens);
  out.append(",\"token_strs\":");
  if (token_strs.has_value()) {
    out.push_back('[');
    for (size_t i = 0; i < token_strs->size(); ++i) {
      if (i > 0) out.push_back(',');
      AppendJsonString(&out, (*token_strs)[i]);
    }
    out.push_back(']');
  } else {
    out.append("null");
  }
  out.push_back('}');
  return out;
}

std::string RenderedJson(std::string_view model, std::string_view prompt, const std::vector<int32_t>& token_ids) {
  std::string out = "{\"model\":";
  AppendJsonString(&out, model);
  out.append(",\"prompt\":");
  AppendJsonString(&out, prompt);
  out.append(",\"token_ids\":");
  AppendJsonIntegers(&out, token_ids);
  out.append(",\"count\":");
  AppendJsonInteger(&out, static_cast<int64_t>(token_ids.size()));
  out.append(",\"features\":null}");
  return out;
}

std::string TokenizerInfoJson(const TokenizerInfo& info) {
  std::string out = "{\"bos_token\":";
  AppendJsonStringOrNull(&out, info.bos_token);
  out.append(",\"eos_token\":");
  AppendJsonStringOrNull(&out, info.eos_token);
  out.append(",\"chat_template\":");
  AppendJsonStringOrNull(&out, info.chat_template);
  out.append(",\"vocab_size\":");
  AppendJsonInteger(&out, info.vocab_size);
  out.append(",\"model_max_length\":");
  AppendJsonInteger(&out, info.context);
  out.push_back('}');
  return out;
}

ApiResult<DetokenizeRequest> ParseDetokenizeRequest(std::string_view body, const RequestContext& context) {
  return ParseBody<DetokenizeRequest>(
      body, context, [&](ObjectReader* reader, JsonBudget*, DetokenizeRequest* request) {
        if (!reader->Has("tokens")) reader->Fail("tokens", "'tokens' is required.", "missing_field");
        request->tokens = reader->TokenIds("tokens", context.vocab_size, std::numeric_limits<size_t>::max());
      });
}

std::string DetokenizeJson(std::string_view prompt) {
  std::string out = "{\"prompt\":";
  AppendJsonString(&out, prompt);
  out.push_back('}');
  return out;
}

}  // namespace hydrant
