// ReadDirectoryTokenizer reads whichever tokenizer a Hugging Face model directory has: tokenizer.json, or tokenizer.model, or
// vocab.json with merges.txt. tokenizer.json is the truth as it stands; the others are completed from tokenizer_config.json,
// special_tokens_map.json and added_tokens.json as transformers does.
#ifndef HYDRANT_MODEL_VOCABULARY_DIRECTORY_TOKENIZER_H_
#define HYDRANT_MODEL_VOCABULARY_DIRECTORY_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/files/mapped_file.h"
#include "model/tokenizer/tokenizer.h"

namespace hydrant {

// `vocab`: rows of the embedding table. Tokens without one are ignored with a warning. `control_ids`: of TokenizerSpec.
absl::StatusOr<std::shared_ptr<const Tokenizer>> ReadDirectoryTokenizer(const WeightDirectory& directory, int32_t vocab,
                                                                        std::vector<int32_t> control_ids,
                                                                        std::vector<std::string>& warnings);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_VOCABULARY_DIRECTORY_TOKENIZER_H_
