// TokenizerSpec is a tokenizer as plain data: what the readers of tokenizer.json and of GGUF metadata produce and
// BpeTokenizer is built from. Byte-level BPE only.
//
// Views point into the file it was read from, which must outlive the building.
#ifndef HYDRANT_MODEL_TOKENIZER_SPEC_H_
#define HYDRANT_MODEL_TOKENIZER_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrant {

// A token that is found in text before any splitting.
struct AddedToken {
  int32_t id = -1;
  std::string_view content;
  bool special = false;      // has no text of its own: parsed and decoded on request only
  bool single_word = false;  // matches only between characters that are not part of words
  bool lstrip = false;       // swallows white space before it
  bool rstrip = false;       // swallows white space after it
  bool normalized = false;   // is looked for in normalised text
};

// One stage of cutting text into the words that merges never cross. Every stage cuts the pieces of the one before.
struct SplitStage {
  enum class Kind : uint8_t {
    kRegex,        // `pattern`, a regular expression
    kLiteral,      // `pattern`, the text itself
    kDigits,       // characters of Unicode category N, one by one
    kDigitRuns,    // runs of them
    kPrefixSpace,  // no cut: a space before every piece that does not begin with one
  };
  // What becomes of a match: its own piece, dropped, joined to the text before or after, or joined to adjacent matches.
  enum class Behavior : uint8_t { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

  Kind kind = Kind::kRegex;
  std::string pattern;
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;  // the text between matches is what matches
};

struct TokenizerSpec {
  std::string file;                      // for messages
  std::vector<std::string_view> pieces;  // by id, in the byte-level alphabet; empty: no token has this id
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // best first
  std::vector<AddedToken> added;
  bool nfc = false;
  std::vector<SplitStage> stages;
  bool ignore_merges = false;                   // a word that is a token becomes it whatever the merges say
  int32_t unknown_id = -1;                      // stands for bytes without a token; -1: they are dropped
  bool fuse_unknown = false;                    // one for a run of such bytes
  std::vector<int32_t> prefix_ids, suffix_ids;  // what add_special_tokens puts around the text
};

// The split of GPT-2 and of the ByteLevel pre-tokenizer.
inline constexpr std::string_view kGpt2Split =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_SPEC_H_
