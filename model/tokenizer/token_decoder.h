// TokenDecoder is the decoder of a tokenizer, sorted by what it does to each token and what to the text as a whole.
//
// Thread: any (immutable).
#ifndef HYDRANT_MODEL_TOKENIZER_TOKEN_DECODER_H_
#define HYDRANT_MODEL_TOKENIZER_TOKEN_DECODER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace hydrant {

class TokenDecoder {
 public:
  // Errors: steps in an order in which the text of a token would depend on tokens other than those before it.
  static absl::StatusOr<TokenDecoder> Create(const std::vector<DecoderStep>& steps, std::string_view file);

  // Appends the bytes of a token spelled `piece`; `first`: no text stands before it.
  void AppendBytes(std::string_view piece, bool first, std::string& out) const;
  // Whether any token reads differently when it is first.
  bool first_differs() const { return first_differs_; }
  // No piece becomes more than so many times as long, in bytes.
  double growth() const { return growth_; }
  const Tokenizer::TextRules& text_rules() const { return text_rules_; }

 private:
  std::vector<DecoderStep> steps_;  // those that see token by token
  bool first_differs_ = false;
  double growth_ = 1;
  Tokenizer::TextRules text_rules_;
};

// The byte that a piece such as "<0xAB>" stands for, or -1.
int ByteOfPiece(std::string_view piece);

// Whether it is one of "<0x00>" to "<0xFF>" in capitals: text becomes these alone, decoders read small letters, too.
bool IsBytePiece(std::string_view piece);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_TOKEN_DECODER_H_
