#include "server/shapes/shape_vocabulary.h"

#include <algorithm>
#include <string>
#include <utility>

#include "model/grammar/regex/marker_bytes.h"
#include "model/text/text_pieces.h"

namespace hydrant {

ShapeVocabulary::ShapeVocabulary(std::shared_ptr<const Tokenizer> tokenizer, int32_t vocab_size,
                                 std::vector<int32_t> ends, std::span<const std::string_view> markers)
    : tokenizer_(std::move(tokenizer)), ends_(std::move(ends)) {
  std::erase_if(ends_, [vocab_size](int32_t id) { return id < 0 || id >= vocab_size; });
  for (size_t place = 0; place < std::min(markers.size(), grammar::kMarkersMax); ++place) {
    const std::vector<int32_t> ids = tokenizer_->Encode(markers[place], {.add_special_tokens = false});
    if (ids.size() != 1 || ids[0] >= vocab_size || !tokenizer_->IsSpecial(ids[0]) || IsEnd(ids[0])) continue;
    markers_.emplace_back(markers[place]);
    marker_bytes_.emplace_back(ids[0], std::string(1, grammar::MarkerByte(place)));
  }
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
  if (token >= tokenizer_->vocab_size() || IsEnd(token)) return {};
  if (tokenizer_->IsSpecial(token)) {
    const auto found = std::ranges::find(marker_bytes_, token, &std::pair<int32_t, std::string>::first);
    return found == marker_bytes_.end() ? std::string_view() : std::string_view(found->second);
  }
  const std::string_view text = tokenizer_->TokenBytes(token);
  return grammar::HasMarkerBytes(text) ? std::string_view() : text;
}

std::optional<std::string> ShapeVocabulary::AnswerBytes(std::string_view text) const {
  std::string bytes;
  for (const int32_t id : tokenizer_->Encode(text, {.add_special_tokens = false})) {
    const std::string_view own = BytesOf(id);
    if (own.empty()) return std::nullopt;
    bytes.append(own);
  }
  return bytes;
}

std::string_view ShapeVocabulary::MarkupOf(int32_t token) const {
  return token < tokenizer_->vocab_size() ? tokenizer_->TokenBytes(token) : std::string_view();
}

void ShapeVocabulary::ForbidBeyond(std::string_view text, std::span<uint32_t> bits) const {
  const std::span<const grammar::TokenTrie::Node> nodes = trie_->nodes();
  // Down to the node of its last byte, whose subtree has those that go on.
  size_t at = 0, end = nodes.size();
  for (size_t depth = 0; depth < text.size(); ++depth) {
    while (at < end && nodes[at].byte != static_cast<uint8_t>(text[depth])) at = nodes[at].below_end;
    if (at >= end) return;
    end = nodes[at].below_end;
    ++at;
  }
  while (at < end) {
    if (kWhiteSpace.find(static_cast<char>(nodes[at].byte)) != std::string_view::npos) {
      ++at;
      continue;
    }
    for (const int32_t token : trie_->TokensBelow(at)) {
      grammar::ForbidToken(bits, token);
    }
    at = nodes[at].below_end;
  }
}

bool ShapeVocabulary::IsEnd(int32_t token) const { return std::ranges::find(ends_, token) != ends_.end(); }

}  // namespace hydrant
