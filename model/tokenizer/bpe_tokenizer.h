// BpeTokenizer is byte-pair encoding over bytes (GPT-2's way) or over characters (SentencePiece's), id for id what Hugging
// Face `tokenizers` produces for the same tokenizer.
//
// Thread: any (immutable).
//
// What Hugging Face leaves open, because its text is always UTF-8: bytes that are not UTF-8 are cut out of their text, become
// a word of their own, and merge as bytes do. So every byte string whose bytes all have tokens decodes to itself, but for what
// normalisation changes.
//
// One difference in decoding: where tokens of single bytes ("<0xAB>") together are no UTF-8, Hugging Face replaces every one
// of them, here characters among them stay. A stream could not show any of them before their run ends otherwise.
#ifndef HYDRANT_MODEL_TOKENIZER_BPE_TOKENIZER_H_
#define HYDRANT_MODEL_TOKENIZER_BPE_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "model/tokenizer/added_token_matcher.h"
#include "model/tokenizer/merge_table.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/text_splitter.h"
#include "model/tokenizer/token_decoder.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace hydrant {

class BpeTokenizer final : public Tokenizer {
 public:
  // Ids below `vocab_size_min` exist even if no token has them (a padded embedding table); they have no text.
  // Errors name the file and the token or merge: a merge of unknown tokens, an id out of range, a pattern that is refused.
  static absl::StatusOr<std::shared_ptr<const BpeTokenizer>> Create(const TokenizerSpec& spec, int32_t vocab_size_min);

  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  int32_t leading_specials() const override { return static_cast<int32_t>(prefix_ids_.size()); }
  size_t ids_min(std::string_view text) const override;
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override;
  std::string_view TokenBytes(int32_t id) const override { return bytes_[Index(id)].In(byte_text_); }
  std::string_view FirstTokenBytes(int32_t id) const override {
    return (first_bytes_.empty() ? bytes_ : first_bytes_)[Index(id)].In(byte_text_);
  }
  std::string_view TokenPiece(int32_t id) const override { return pieces_[Index(id)].In(piece_text_); }
  bool IsSpecial(int32_t id) const override { return special_[Index(id)]; }
  TextRules text_rules() const override { return text_rules_; }
  std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override;

 private:
  struct Extent {
    uint32_t begin = 0, length = 0;
    std::string_view In(const std::string& text) const { return std::string_view(text).substr(begin, length); }
  };
  struct Call;  // scratch of one Encode

  BpeTokenizer(const TokenizerSpec& spec, Normalizer normalizer, TextSplitter splitter);
  absl::Status MakeMatchers(const TokenizerSpec& spec);
  absl::Status Fill(const TokenizerSpec& spec, const TokenDecoder& decoder, int32_t vocab_size_min);
  void FillAlphabet(const TokenizerSpec& spec);
  void MeasureIds(const TokenizerSpec& spec);
  absl::Status AddMerges(const TokenizerSpec& spec);
  std::string_view MultiCharacterText(std::string_view piece, std::string& spelled) const;
  size_t Index(int32_t id) const;
  void EncodeText(std::string_view text, bool first, std::vector<ByteRange> client_ranges, Call& call) const;
  void EncodeSegment(std::string_view text, bool first, Call& call) const;
  void EncodeWord(std::string_view word, Call& call) const;
  void EncodeNewWord(std::string_view word, Call& call) const;
  void AppendByteSymbols(std::string_view word, std::vector<int32_t>& symbols) const;
  void AppendCharacterSymbols(std::string_view word, std::vector<int32_t>& symbols) const;
  int32_t CharacterId(uint32_t code_point) const;

  Normalizer normalizer_;
  TextSplitter splitter_;
  AddedTokenMatcher raw_added_{std::vector<AddedToken>()}, normalized_added_{std::vector<AddedToken>()};
  TextRules text_rules_;
  bool byte_level_, byte_fallback_, ignore_merges_, fuse_unknown_;
  bool cuts_at_marks_ = false;  // no merge goes from another character to a space mark: words may be cut there
  int32_t unknown_id_;
  size_t symbols_per_id_max_ = 1;  // how many of a word's first symbols merges can make one of
  size_t bytes_per_id_max_ = 0;    // of bytes that have tokens; 0: bytes go without a trace otherwise too
  std::vector<int32_t> prefix_ids_, suffix_ids_;

  std::string piece_text_, byte_text_;                    // all pieces, and all tokens' bytes, end to end
  std::vector<Extent> pieces_, bytes_;                    // by id
  std::vector<Extent> first_bytes_;                       // by id; empty when tokens read the same everywhere
  std::vector<bool> special_;                             // by id
  std::array<int32_t, 256> byte_ids_;                     // the token of a single byte, or -1
  std::array<int32_t, 128> ascii_ids_;                    // of a single character, or -1; over characters only
  absl::flat_hash_map<uint32_t, int32_t> character_ids_;  // the same beyond ASCII
  MergeTable merges_;
  absl::flat_hash_map<std::string, int32_t> words_;  // text -> id; only with ignore_merges_
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_BPE_TOKENIZER_H_
