#include "api/request/completion_request.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "api/request/refused_fields.h"
#include "api/wire/json_body.h"
#include "api/wire/object_reader.h"

namespace hydrant {
namespace {

// Reads the prompts of one member.
struct PromptReader {
  ObjectReader* reader;
  std::string name;
  const RequestContext& context;
  std::vector<RequestPrompt>* prompts;

  void FailType() {
    reader->Fail(name,
                 absl::StrCat("'", name, "' must be a string, an array of strings, an array of token ids, or an array ",
                              "of such arrays."),
                 "invalid_type");
  }
  void FailEmpty() {
    reader->Fail(name, absl::StrCat("'", name, "' is empty, or has no tokens after tokenization."), "empty_prompt");
  }

  void AddText(JsonView value) {
    if (!value.is_string()) return FailType();
    if (value.string().empty()) return FailEmpty();
    prompts->push_back({.is_ids = false, .text = std::string(value.string()), .ids = {}});
  }

  void AddIds(JsonView value) {
    if (!value.is_array()) return FailType();
    if (value.size() == 0) return FailEmpty();
    std::vector<int32_t> ids = reader->TokenIdsIn(name, value, context.vocab_size, std::numeric_limits<size_t>::max());
    prompts->push_back({.is_ids = true, .text = {}, .ids = std::move(ids)});
  }

  // The first element says which of the four shapes was meant; the rest must agree.
  void Read() {
    const JsonView prompt = reader->Raw(name);
    if (!prompt.valid()) return reader->Fail(name, absl::StrCat("'", name, "' is required."), "missing_field");
    if (prompt.is_string()) return AddText(prompt);
    if (!prompt.is_array()) return FailType();
    if (prompt.size() == 0) return FailEmpty();
    const JsonView first = prompt.first();
    const bool texts = first.is_string();
    if (!texts && !first.is_array()) return AddIds(prompt);
    if (prompt.size() > static_cast<uint32_t>(context.limits.prompts_max)) {
      return reader->Fail(name,
                          absl::StrCat("'", name, "' may have at most ", context.limits.prompts_max, " elements."));
    }
    for (JsonView element = first; element.valid() && !reader->failed(); element = element.next()) {
      if (texts) {
        AddText(element);
      } else {
        AddIds(element);
      }
    }
  }
};

}  // namespace

void ReadPrompts(ObjectReader* request, std::string_view name, const RequestContext& context,
                 std::vector<RequestPrompt>* prompts) {
  PromptReader{request, std::string(name), context, prompts}.Read();
}

ApiResult<CompletionRequest> ParseCompletionRequest(std::string_view body, const RequestContext& context) {
  return ParseBody<CompletionRequest>(
      body, context, [&](ObjectReader* reader, JsonBudget*, CompletionRequest* request) {
        RefuseCompletionFields(reader);
        ReadPrompts(reader, "prompt", context, &request->prompts);
        request->echo = reader->Bool("echo", false);
        // With echo, 0 scores the prompt and generates nothing.
        request->max_tokens = ReadMaxTokens(reader, context, 16, request->echo ? 0 : 1);
        request->logprobs = static_cast<int32_t>(reader->Integer("logprobs", -1, 0, context.limits.logprobs_max));
        request->add_special_tokens = reader->Bool("add_special_tokens", true);
        ReadGenerationFields(reader, context, request);
        if (request->session_is_affinity && request->prompts.size() != 1) request->session_id.clear();
        if (!request->session_id.empty() && request->prompts.size() != 1) {
          reader->Fail("prompt", "A turn of a session has exactly one prompt.");
        }
        RefuseGenerationFields(reader);
      });
}

}  // namespace hydrant
