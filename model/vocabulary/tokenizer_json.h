// ReadTokenizerJson reads a Hugging Face tokenizer.json whose model is byte-pair encoding. Every part that would change ids
// and is not supported is refused by its name.
#ifndef HYDRANT_MODEL_VOCABULARY_TOKENIZER_JSON_H_
#define HYDRANT_MODEL_VOCABULARY_TOKENIZER_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "model/files/json_document.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace hydrant {

// What JsonDocument::Parse should allow for a tokenizer.json.
inline constexpr size_t kTokenizerJsonBytesMax = size_t{128} << 20;  // Gemma's, among the largest, has 33 MB
inline constexpr JsonLimits kTokenizerJsonLimits{4'000'000, 64};     // and 2.1 million values and keys

// Views of the result point into `document`.
absl::StatusOr<TokenizerSpec> ReadTokenizerJson(const JsonDocument& document, const std::string& file);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_VOCABULARY_TOKENIZER_JSON_H_
