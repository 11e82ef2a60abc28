#include "server/shapes/shape_vocabulary.h"

#include <algorithm>
#include <string>
#include <utility>

namespace hydrant {

ShapeVocabulary::ShapeVocabulary(std::shared_ptr<const Tokenizer> tokenizer, int32_t vocab_size,
                                 std::vector<int32_t> ends)
    : tokenizer_(std::move(tokenizer)), ends_(std::move(ends)) {
  std::erase_if(ends_, [vocab_size](int32_t id) { return id < 0 || id >= vocab_size; });
  std::vector<std::string> tokens(static_cast<size_t>(vocab_size));
  byte_tokens_.fill(-1);
  for (int32_t id = 0; id < vocab_size; ++id) {
    std::string& token = tokens[static_cast<size_t>(id)] = std::string(BytesOf(id));
    if (token.size() == 1) byte_tokens_[static_cast<uint8_t>(token[0])] = id;
    if (token == "\n" || token == "\n\n") line_ends_.push_back(id);
  }
  trie_ = std::make_shared<const grammar::TokenTrie>(tokens);
}

bool ShapeVocabulary::spells_text() const {
  for (int byte = 0x20; byte <= 0xf4; ++byte) {
    const bool is_text = byte != 0x7f && byte != 0xc0 && byte != 0xc1 && byte != 0xf1 && byte != 0xf2;
    if (is_text && byte_tokens_[static_cast<size_t>(byte)] < 0) return false;
  }
  return true;
}

std::string_view ShapeVocabulary::BytesOf(int32_t token) const {
  const bool is_text = token < tokenizer_->vocab_size() && !tokenizer_->IsSpecial(token) && !IsEnd(token);
  return is_text ? tokenizer_->TokenBytes(token) : std::string_view();
}

std::string_view ShapeVocabulary::MarkupOf(int32_t token) const {
  return token < tokenizer_->vocab_size() ? tokenizer_->TokenBytes(token) : std::string_view();
}

bool ShapeVocabulary::IsEnd(int32_t token) const { return std::ranges::find(ends_, token) != ends_.end(); }

}  // namespace hydrant
