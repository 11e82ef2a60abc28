// A tokenizer.model is refused in one line or makes a tokenizer.
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/vocabulary/sentencepiece.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {

void Fuzz(std::string_view input) {
  const auto vocabulary = ReadSentencePieceModel(input, "m");
  if (!vocabulary.ok()) {
    Require(vocabulary.status().message().find('\n') == absl::string_view::npos, "a refusal is one line");
    return;
  }
  TokenizerSpec spec;
  if (!FillSentencePieceSpec(*vocabulary, spec).ok()) return;
  const auto tokenizer = BpeTokenizer::Create(spec, 0);
  if (!tokenizer.ok()) return;
  for (const int32_t id : (*tokenizer)->Encode("a ab\n\xff<s>", {}))
    Require(id >= 0 && id < (*tokenizer)->vocab_size(), "ids are in the vocabulary");
}

}  // namespace hydrant
