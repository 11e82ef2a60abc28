#include "api/request/embedding_request.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/request/foreign_fields.h"
#include "api/request/refused_fields.h"
#include "api/wire/object_reader.h"

namespace hydrant {
namespace {

// What would make other vectors. What an answer alone would show (`max_tokens`, `temperature`) changes nothing here, and is ignored.
constexpr std::string_view kNever[] = {
    "messages", "chat_template", "chat_template_kwargs", "add_generation_prompt", "prompt_embeds", "multi_modal_data",
    "kv",       "session_id",    "session_append",       "conversation_id",
};
constexpr OtherField kOthersOfEmbeddings[] = {
    {"continue_final_message", "", NeutralValue::kFalse},
    {"conversation", ""},
    {"documents", "input", NeutralValue::kEmpty},
    {"enable_thinking", ""},
    {"instructions", "input"},
    {"previous_response_id", ""},
    {"prompt", "input"},
    {"reasoning_effort", ""},
    {"system", "input"},
    {"tokens", "input"},
    {"tools", "", NeutralValue::kEmpty},
    {"truncation", "truncate_prompt_tokens", NeutralValue::kDisabled},
};

// The words that a member of text may have, the first where it is absent. Returns which it is.
size_t Word(ObjectReader* reader, std::string_view name, std::initializer_list<std::string_view> words) {
  constexpr size_t kBytesMax = 32;
  const std::string word = reader->String(name, *words.begin(), kBytesMax, /*identifier=*/true);
  std::string list;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view known = words.begin()[i];
    if (word == known) return i;
    list.append(i == 0 ? "" : " or ").append(known);
  }
  reader->Fail(name, absl::StrCat(QuotedField(name), " must be ", list, "."));
  return 0;
}

void RefuseEmbeddingFields(ObjectReader* reader) {
  const ObjectReader::Unlogged unlogged(reader);
  RefuseOtherFields(reader, "/v1/embeddings", kOthersOfEmbeddings);
  for (const std::string_view name : kNever) {
    if (reader->Has(name)) reader->FailUnsupported(name, QuotedField(name));
  }
  if (reader->Bool("stream", false)) reader->FailUnsupported("stream", "'stream'");
  // vLLM's two names of it.
  for (const std::string_view name : {"normalize", "use_activation"}) {
    if (!reader->Bool(name, true)) reader->FailUnsupported(name, absl::StrCat(QuotedField(name), " false"));
  }
  // llama.cpp's: the 2-norm is the one that there is.
  constexpr int64_t kNormMax = 1 << 30;
  if (reader->Integer("embd_normalize", 2, -1, kNormMax) != 2) {
    reader->FailUnsupported("embd_normalize", "'embd_normalize' other than 2");
  }
  constexpr std::pair<std::string_view, std::string_view> kUsual[] = {
      {"embed_dtype", "float32"}, {"endianness", "little"}, {"truncation_side", "left"}};
  for (const auto& [name, usual] : kUsual) {
    const JsonView value = reader->Raw(name);
    if (!value.valid() || (value.is_string() && value.string() == usual)) continue;
    // vLLM's default, which is `little` on every machine that this runs on.
    if (name == "endianness" && value.is_string() && value.string() == "native") continue;
    reader->FailUnsupported(name, absl::StrCat("A ", QuotedField(name), " other than ", std::string(usual)));
  }
  RefuseForeignFields(reader);
}

// A model that was not trained for it has nothing of use in the first numbers of a state.
void CheckDimensions(ObjectReader* reader, const RequestContext& context) {
  constexpr int64_t kMost = 1 << 30;
  const std::optional<int64_t> dimensions = reader->OptionalInteger("dimensions", 1, kMost);
  if (!dimensions.has_value() || *dimensions == context.state_cols) return;
  reader->FailUnsupported(
      "dimensions", absl::StrCat("'dimensions' other than ", context.state_cols, ", which is what this model has,"));
}

}  // namespace

ApiResult<EmbeddingRequest> ParseEmbeddingRequest(std::string_view body, const RequestContext& context) {
  return ParseBody<EmbeddingRequest>(body, context, [&](ObjectReader* reader, JsonBudget*, EmbeddingRequest* request) {
    ReadPrompts(reader, "input", context, &request->prompts);
    request->max_tokens = 0;
    request->add_special_tokens = reader->Bool("add_special_tokens", true);
    request->pooling = Word(reader, "pooling", {"last", "mean"}) == 0 ? Pooling::kLast : Pooling::kMean;
    request->as_base64 = Word(reader, "encoding_format", {"float", "base64"}) == 1;
    CheckDimensions(reader, context);
    ReadPromptFields(reader, context, request);
    if (std::ssize(request->prompts) * int64_t{context.state_cols} > kEmbeddingNumbersMax) {
      reader->Fail("input",
                   absl::StrCat("All embeddings of a request may have at most ", kEmbeddingNumbersMax,
                                " numbers, of this model ", kEmbeddingNumbersMax / context.state_cols, " embeddings."));
    }
    RefuseEmbeddingFields(reader);
  });
}

}  // namespace hydrant
