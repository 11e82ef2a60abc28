// ReadTokenizerPipeline reads what a tokenizer.json does around its model: normalizer, pre-tokenizer, decoder and
// post-processor. Every part that is not supported is refused by its name.
#ifndef HYDRANT_MODEL_VOCABULARY_TOKENIZER_PIPELINE_H_
#define HYDRANT_MODEL_VOCABULARY_TOKENIZER_PIPELINE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "model/files/json_document.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace hydrant {

// Ids are in [0, id_end).
absl::Status ReadTokenizerPipeline(const JsonValue& root, int64_t id_end, TokenizerSpec& spec);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_VOCABULARY_TOKENIZER_PIPELINE_H_
