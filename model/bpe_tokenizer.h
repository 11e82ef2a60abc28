// BpeTokenizer is byte-level byte-pair encoding, id for id what Hugging Face `tokenizers` produces for the same tokenizer.
//
// Thread: any (immutable).
//
// What Hugging Face leaves open, because its text is always UTF-8: bytes that are not UTF-8 are cut out of their text, become
// a word of their own, and merge as bytes do. So every byte string whose bytes all have tokens decodes to itself.
#ifndef HYDRANT_MODEL_BPE_TOKENIZER_H_
#define HYDRANT_MODEL_BPE_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "model/added_token_matcher.h"
#include "model/merge_table.h"
#include "model/text_splitter.h"
#include "model/tokenizer.h"
#include "model/tokenizer_spec.h"

namespace hydrant {

class BpeTokenizer final : public Tokenizer {
 public:
  // Ids below `vocab_size_min` exist even if no token has them (a padded embedding table); they have no text.
  // Errors name the file and the token or merge: a merge of unknown tokens, an id out of range, a pattern that is refused.
  static absl::StatusOr<std::shared_ptr<const BpeTokenizer>> Create(const TokenizerSpec& spec, int32_t vocab_size_min);

  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  int32_t leading_specials() const override { return static_cast<int32_t>(prefix_ids_.size()); }
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override;
  std::string_view TokenBytes(int32_t id) const override { return bytes_[Index(id)].In(byte_text_); }
  std::string_view TokenPiece(int32_t id) const override { return pieces_[Index(id)].In(piece_text_); }
  bool IsSpecial(int32_t id) const override { return special_[Index(id)]; }
  std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override;

 private:
  struct Extent {
    uint32_t begin = 0, length = 0;
    std::string_view In(const std::string& text) const { return std::string_view(text).substr(begin, length); }
  };
  struct Call;  // scratch of one Encode

  BpeTokenizer(const TokenizerSpec& spec, TextSplitter splitter);
  absl::Status Fill(const TokenizerSpec& spec, int32_t vocab_size_min);
  absl::Status AddMerges(const TokenizerSpec& spec);
  size_t Index(int32_t id) const;
  void EncodeText(std::string_view text, std::vector<TextRange> plain, Call& call) const;
  void EncodeSegment(std::string_view text, Call& call) const;
  void EncodeWord(std::string_view word, Call& call) const;

  TextSplitter splitter_;
  AddedTokenMatcher raw_added_, normalized_added_;
  bool nfc_, ignore_merges_, fuse_unknown_;
  int32_t unknown_id_;
  std::vector<int32_t> prefix_ids_, suffix_ids_;

  std::string piece_text_, byte_text_;  // all pieces, and all tokens' bytes, end to end
  std::vector<Extent> pieces_, bytes_;  // by id
  std::vector<bool> special_;           // by id
  std::array<int32_t, 256> byte_ids_;   // the token of a single byte, or -1
  MergeTable merges_;
  absl::flat_hash_map<std::string_view, int32_t> words_;  // bytes -> id; only with ignore_merges_
};

// Normalisation form C of valid UTF-8, in time linear in the text but for O(n log n) in runs of combining marks.
std::string NormalizeNfc(std::string_view text);
// The same for any bytes, with `ranges` (ascending, disjoint) moved along. Where characters that may compose lie across a
// border, the range grows by them; ranges that come to touch so become one.
std::string NormalizeNfc(std::string_view text, std::vector<TextRange>& ranges);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_BPE_TOKENIZER_H_
