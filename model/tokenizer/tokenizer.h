// Tokenizer turns text into token ids and back, exactly as Hugging Face `tokenizers` does for the same checkpoint.
//
// Thread: any (immutable).
#ifndef HYDRANT_MODEL_TOKENIZER_TOKENIZER_H_
#define HYDRANT_MODEL_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/byte_range.h"

namespace hydrant {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int32_t vocab_size() const = 0;  // ids are in [0, vocab_size)

  struct EncodeOptions {
    bool add_special_tokens = true;    // BOS/EOS as the checkpoint's post-processor says
    bool parse_special_tokens = true;  // the text of a special token becomes that token; false: it is plain text
    // Where the text is not to be trusted: a special token that would take a byte of these ranges is plain text, as if
    // parse_special_tokens were false there. Borders change nothing else: words, merges and tokens that are added but not
    // special go across them. REQUIRES: ascending, disjoint, within the text; empty ones have no effect.
    std::span<const ByteRange> client_ranges;
    // Encoding stops once there are more ids than this: who asks has no use for a longer text, and learns that it is longer.
    // There are no more ids then than without this limit, and those of a last word that is very long are not its own.
    size_t ids_max = std::numeric_limits<size_t>::max();
  };
  // No encoding of `text` has fewer ids than this, which is known without encoding it; 0: nothing is known.
  virtual size_t ids_min(std::string_view /*text*/) const { return 0; }
  // How many ids Encode puts before those of the text when add_special_tokens: not what the text itself may begin with.
  virtual int32_t leading_specials() const = 0;
  // `text` may be any bytes; linear in its length. Bytes that have no token are dropped, so the result may be empty.
  virtual std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const = 0;

  // The bytes of one token in running text (not necessarily whole UTF-8 characters). REQUIRES: id in vocabulary.
  virtual std::string_view TokenBytes(int32_t id) const = 0;
  // The bytes of a token before which no text stands: SentencePiece decoders drop the space of a first word.
  virtual std::string_view FirstTokenBytes(int32_t id) const { return TokenBytes(id); }
  // The token as the vocabulary spells it.
  virtual std::string_view TokenPiece(int32_t id) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  // What the decoder does to a text as a whole.
  struct TextRules {
    int32_t leading_dropped = 0;  // at most this many `leading` at the front of the text are dropped
    char leading = ' ';           // ASCII
    bool replaces_each_byte =
        false;  // every byte that is in no character becomes U+FFFD; else every maximal invalid piece
  };
  virtual TextRules text_rules() const { return {}; }
  // The concatenated bytes by the text rules; invalid UTF-8 becomes U+FFFD.
  virtual std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const = 0;
};

// Streaming decoder of one sequence: Push returns the text that has become certain, whole UTF-8 characters only; Finish
// returns the rest, an incomplete character as U+FFFD. The concatenation equals Tokenizer::Decode of all ids.
class Detokenizer {
 public:
  // `first`: no text stands before these tokens. Where they go on from others it is false, and the space of a first word stays.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens, bool first = true);
  std::string Push(int32_t id);
  void PushTo(int32_t id, std::string& text);  // appends what Push returns
  std::string Finish();
  // How many characters the bytes that are held back become before the text of the next token; 0 where that goes on with theirs. Without
  // a token: at the end.
  int32_t CharactersBefore(std::optional<int32_t> id) const;
  // Whether the bytes so far end inside a character.
  bool pending() const { return !pending_.empty(); }

 private:
  const Tokenizer& tokenizer_;
  Tokenizer::TextRules rules_;
  bool skip_special_tokens_;
  bool first_;           // no token has been taken yet
  std::string pending_;  // at most 3 bytes: the start of a character
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_TOKENIZER_H_
