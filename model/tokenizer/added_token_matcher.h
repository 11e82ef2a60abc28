// AddedTokenMatcher finds added tokens in text: leftmost first, longest at a place, in time linear in the text (times the
// longest token in the worst case).
//
// Thread: any (immutable).
#ifndef HYDRANT_MODEL_TOKENIZER_ADDED_TOKEN_MATCHER_H_
#define HYDRANT_MODEL_TOKENIZER_ADDED_TOKEN_MATCHER_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace hydrant {

class AddedTokenMatcher {
 public:
  // Keeps what it needs of the tokens. Of two with the same content the first counts.
  explicit AddedTokenMatcher(const std::vector<AddedToken>& tokens);

  bool empty() const { return nodes_.size() == 1; }

  struct Segment {
    int32_t id = -1;        // -1: text without added tokens
    std::string_view text;  // of a token: with the white space it swallowed
  };

  // Cuts `text` into tokens and the text between them. A special token that would take a byte of `client_ranges` (ascending,
  // disjoint) is text; as in Hugging Face, one that begins there still hides what lies inside it and in that range. What
  // lies outside the ranges is found whatever is in them: untrusted text cannot lengthen a token or hide the next one.
  std::vector<Segment> Cut(std::string_view text, std::span<const ByteRange> client_ranges) const;

 private:
  struct Node {
    int32_t token = -1;  // index into tokens_
    std::vector<std::pair<unsigned char, uint32_t>> children;
  };
  struct Token {
    int32_t id;
    size_t bytes;
    bool special, single_word, lstrip, rstrip;
  };

  // The longest token at the front of `text`, special ones only up to `special_bytes_max`; null if none.
  const Token* LongestAt(std::string_view text, size_t special_bytes_max) const;

  std::vector<Node> nodes_;
  std::vector<Token> tokens_;
  std::array<bool, 256> first_{};  // bytes some token begins with
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_ADDED_TOKEN_MATCHER_H_
