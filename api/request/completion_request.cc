#include "api/request/completion_request.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "api/request/refused_fields.h"
#include "api/wire/json_body.h"
#include "api/wire/object_reader.h"

namespace hydrant {
namespace {

void FailPromptType(ObjectReader* reader) {
  reader->Fail("prompt",
               "'prompt' must be a string, an array of strings, an array of token ids, or an array of such arrays.",
               "invalid_type");
}

void AddTextPrompt(ObjectReader* reader, JsonView value, CompletionRequest* request) {
  if (!value.is_string()) return FailPromptType(reader);
  if (value.string().empty()) return reader->FailWith(EmptyPrompt());
  request->prompts.push_back({.is_ids = false, .text = std::string(value.string()), .ids = {}});
}

void AddIdsPrompt(ObjectReader* reader, JsonView value, const RequestContext& context, CompletionRequest* request) {
  if (!value.is_array()) return FailPromptType(reader);
  if (value.size() == 0) return reader->FailWith(EmptyPrompt());
  std::vector<int32_t> ids =
      reader->TokenIdsIn("prompt", value, context.vocab_size, std::numeric_limits<size_t>::max());
  request->prompts.push_back({.is_ids = true, .text = {}, .ids = std::move(ids)});
}

// The first element says which of the four shapes was meant; the rest must agree.
void ReadPrompts(ObjectReader* reader, const RequestContext& context, CompletionRequest* request) {
  const JsonView prompt = reader->Raw("prompt");
  if (!prompt.valid()) return reader->Fail("prompt", "'prompt' is required.", "missing_field");
  if (prompt.is_string()) return AddTextPrompt(reader, prompt, request);
  if (!prompt.is_array()) return FailPromptType(reader);
  if (prompt.size() == 0) return reader->FailWith(EmptyPrompt());
  const JsonView first = prompt.first();
  const bool texts = first.is_string();
  if (!texts && !first.is_array()) return AddIdsPrompt(reader, prompt, context, request);
  if (prompt.size() > static_cast<uint32_t>(context.limits.prompts_max)) {
    return reader->Fail("prompt", absl::StrCat("A request may have at most ", context.limits.prompts_max, " prompts."));
  }
  for (JsonView element = first; element.valid() && !reader->failed(); element = element.next()) {
    if (texts) {
      AddTextPrompt(reader, element, request);
    } else {
      AddIdsPrompt(reader, element, context, request);
    }
  }
}

}  // namespace

ApiResult<CompletionRequest> ParseCompletionRequest(std::string_view body, const RequestContext& context) {
  return ParseBody<CompletionRequest>(
      body, context, [&](ObjectReader* reader, JsonBudget*, CompletionRequest* request) {
        ReadPrompts(reader, context, request);
        request->echo = reader->Bool("echo", false);
        // With echo, 0 scores the prompt and generates nothing.
        request->max_tokens = ReadMaxTokens(reader, context, 16, request->echo ? 0 : 1);
        request->logprobs = static_cast<int32_t>(reader->Integer("logprobs", -1, 0, context.limits.logprobs_max));
        request->add_special_tokens = reader->Bool("add_special_tokens", true);
        ReadGenerationFields(reader, context, request);
        if (!request->session_id.empty() && request->prompts.size() != 1) {
          reader->Fail("prompt", "A turn of a session has exactly one prompt.");
        }
        RefuseGenerationFields(reader);
        RefuseCompletionFields(reader);
      });
}

}  // namespace hydrant
