// ReadGgufTokenizer reads tokenizer.ggml.* of a GGUF file: the models "llama" (SentencePiece) and "gpt2" (byte-level BPE). Of
// the latter `tokenizer.ggml.pre` names the pre-tokenizer; names whose split is not known here are refused.
#ifndef HYDRANT_MODEL_VOCABULARY_GGUF_TOKENIZER_H_
#define HYDRANT_MODEL_VOCABULARY_GGUF_TOKENIZER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/files/gguf_file.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace hydrant {

// Views of the result point into the file's bytes.
absl::StatusOr<TokenizerSpec> ReadGgufTokenizer(const GgufFile& file, std::vector<std::string>& warnings);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_VOCABULARY_GGUF_TOKENIZER_H_
