// SentencePiece vocabularies have a score for every piece and no merges. FillSentencePieceSpec makes the tokenizer of one as
// transformers does when it converts it.
//
// Thread: any.
#ifndef HYDRANT_MODEL_VOCABULARY_SENTENCEPIECE_H_
#define HYDRANT_MODEL_VOCABULARY_SENTENCEPIECE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace hydrant {

// Numbered as in sentencepiece_model.proto and in GGUF.
enum class PieceType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct SentencePieceVocabulary {
  std::vector<std::string_view> pieces;
  std::vector<float> scores;
  std::vector<PieceType> types;
  bool prefix_space = true;           // a space mark before a text, and before what follows a special token
  bool prefix_first_only = false;     // before the text only
  bool removes_extra_spaces = false;  // white space at the ends, and all but one of a run of spaces
  int32_t bos_id = -1, eos_id = -1;   // -1: there is none
};

// Adds the piece `id` of spec.pieces to spec.added if its type says that it is found in text before any splitting.
void AddTokenOfType(size_t id, PieceType type, TokenizerSpec& spec);

// Fills all of `spec` but file, prefix_ids and suffix_ids. The file must outlive the building. REQUIRES: as many scores and
// types as pieces.
absl::Status FillSentencePieceSpec(const SentencePieceVocabulary& vocabulary, TokenizerSpec& spec);

// Reads a tokenizer.model, the protobuf message ModelProto. Errors: not protobuf, not byte-pair encoding, a normalisation
// that is not supported. Views point into `bytes`; `file` is for messages.
absl::StatusOr<SentencePieceVocabulary> ReadSentencePieceModel(std::string_view bytes, std::string_view file);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_VOCABULARY_SENTENCEPIECE_H_
