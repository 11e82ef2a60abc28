// A tokenizer in which every byte is its own token: id = byte. 256 is the end of a sequence, 257 its beginning, which
// Encode adds when asked to, and which a text may begin with as "<bos>".
#ifndef HYDRANT_TESTS_SUPPORT_BYTE_TOKENIZER_H_
#define HYDRANT_TESTS_SUPPORT_BYTE_TOKENIZER_H_

#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace hydrant {

class ByteTokenizer : public Tokenizer {
 public:
  static constexpr int32_t kEos = 256;
  static constexpr int32_t kBos = 257;
  static constexpr int32_t kVocab = 258;

  ByteTokenizer() {
    for (int32_t i = 0; i < 256; ++i) bytes_.push_back(std::string(1, static_cast<char>(i)));
    bytes_.push_back("<eos>");
    bytes_.push_back("<bos>");
  }

  int32_t vocab_size() const override { return kVocab; }
  int32_t leading_specials() const override { return add_bos ? 1 : 0; }
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<int32_t> ids;
    if (options.add_special_tokens && add_bos) ids.push_back(kBos);
    const bool is_client = !options.client_ranges.empty() && options.client_ranges.front().begin < bos_text.size();
    if (options.parse_special_tokens && !is_client && text.starts_with(bos_text)) {
      ids.push_back(kBos);
      text.remove_prefix(bos_text.size());
    }
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string_view TokenBytes(int32_t id) const override { return bytes_[static_cast<size_t>(id)]; }
  std::string_view TokenPiece(int32_t id) const override { return bytes_[static_cast<size_t>(id)]; }
  bool IsSpecial(int32_t id) const override { return id >= 256; }
  std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override {
    Detokenizer detokenizer(*this, skip_special_tokens);
    std::string text;
    for (const int32_t id : ids) text += detokenizer.Push(id);
    return text + detokenizer.Finish();
  }

  bool add_bos = false;
  std::string bos_text = "<bos>";  // what it is written as

 private:
  std::vector<std::string> bytes_;
};

inline std::vector<int32_t> ByteIds(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SUPPORT_BYTE_TOKENIZER_H_
