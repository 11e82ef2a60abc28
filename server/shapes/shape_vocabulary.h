// ShapeVocabulary is what shapes know of a model's tokens: the bytes that each adds to an answer, and which of them end it. Special
// tokens add none, so none is ever part of an answer that has a shape, but for the markers of a format of calls (marker_bytes.h).
//
// Thread: any (immutable).
#ifndef HYDRANT_SERVER_SHAPES_SHAPE_VOCABULARY_H_
#define HYDRANT_SERVER_SHAPES_SHAPE_VOCABULARY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/grammar/token_trie.h"
#include "model/tokenizer/tokenizer.h"

namespace hydrant {

class ShapeVocabulary {
 public:
  // `vocab_size`: of the model, whose last ids may be no tokens. 0.3 s for 150,000 tokens. `markers`: a format's, of which those that are
  // special tokens, and no ends, have their byte.
  ShapeVocabulary(std::shared_ptr<const Tokenizer> tokenizer, int32_t vocab_size, std::vector<int32_t> ends,
                  std::span<const std::string_view> markers = {});

  const std::shared_ptr<const grammar::TokenTrie>& trie() const { return trie_; }
  // None also of text that has a marker's bytes, which is in no UTF-8.
  std::string_view BytesOf(int32_t token) const;
  const std::vector<std::string>& markers() const { return markers_; }  // those that there are
  // What text that has markers adds, special tokens as the tokenizer reads them; nullopt: one of them is none of the markers.
  std::optional<std::string> AnswerBytes(std::string_view text) const;
  // The same of every token, special or not: what a template's markers are made of.
  std::string_view MarkupOf(int32_t token) const;
  bool IsEnd(int32_t token) const;
  std::span<const int32_t> ends() const { return ends_; }
  // Every byte of text is a token by itself, so that whatever is allowed can be said: all but control characters, what is in no UTF-8,
  // and the first bytes of planes that have no characters (f1, f2), which vocabularies lack.
  bool spells_text() const;
  int32_t ByteToken(char byte) const { return byte_tokens_[static_cast<uint8_t>(byte)]; }  // -1: there is none
  // Tokens of one line end or two, and nothing else.
  std::span<const int32_t> line_ends() const { return line_ends_; }
  // Clears the bits of tokens of text that begin with `text` and go on with more than white space.
  void ForbidBeyond(std::string_view text, std::span<uint32_t> bits) const;
  size_t words() const { return trie_->words(); }  // of a mask

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<int32_t> ends_;  // in the vocabulary
  std::vector<int32_t> line_ends_;
  std::vector<std::string> markers_;
  std::vector<std::pair<int32_t, std::string>> marker_bytes_;  // token, and what it adds
  std::shared_ptr<const grammar::TokenTrie> trie_;
  std::array<int32_t, 256> byte_tokens_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHAPES_SHAPE_VOCABULARY_H_
