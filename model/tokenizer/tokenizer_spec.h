// TokenizerSpec is a tokenizer as plain data: what the readers of tokenizer.json, tokenizer.model, vocab.json with merges.txt
// and GGUF metadata produce and BpeTokenizer is built from. Byte-pair encoding only, over bytes or over characters.
//
// Views point into the file it was read from, which must outlive the building.
#ifndef HYDRANT_MODEL_TOKENIZER_TOKENIZER_SPEC_H_
#define HYDRANT_MODEL_TOKENIZER_TOKENIZER_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrant {

// Bytes of a text that is looked for at every place of another: the longest published ones have a tenth of it.
inline constexpr size_t kLiteralBytesMax = 512;

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

// One step of changing text before it is cut.
struct NormalizerStep {
  enum class Kind : uint8_t {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,
    kStripAccents,  // drops combining marks
    kStrip,         // drops white space at the ends named by `left` and `right`
    kReplace,       // every `pattern` by `content`
    kReplaceRegex,  // the same, `pattern` being a regular expression
    kPrepend,       // `content` before text that is not empty
  };
  Kind kind = Kind::kNfc;
  std::string pattern = {}, content = {};
  bool left = false, right = false;
};

// One stage of cutting text into the words that merges never cross. Every stage cuts the pieces of the one before.
struct SplitStage {
  enum class Kind : uint8_t {
    kRegex,        // `pattern`, a regular expression
    kLiteral,      // `pattern`, the text itself
    kDigits,       // characters of Unicode category N, one by one
    kDigitRuns,    // runs of them
    kWhiteSpace,   // characters of White_Space, one by one
    kPunctuation,  // ASCII punctuation and characters of category P, one by one
    kPrefixSpace,  // no cut: a space before every piece that does not begin with one
    kMetaspace,    // spaces become `pattern`, which `prefix` may put in front; pieces begin at it if `cuts`
  };
  // What becomes of a match: its own piece, dropped, joined to the text before or after, or joined to adjacent matches.
  enum class Behavior : uint8_t { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prefix : uint8_t { kNever, kFirst, kAlways };  // kFirst: only where the piece begins the whole text

  Kind kind = Kind::kRegex;
  std::string pattern = {};
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;  // the text between matches is what matches
  Prefix prefix = Prefix::kNever;
  bool cuts = true;
};

// One step of turning the spellings of tokens into text. Steps before kFuse see token by token, those after it the whole.
struct DecoderStep {
  enum class Kind : uint8_t {
    kReplace,       // every `pattern` by `content`
    kByteLevel,     // spellings in the byte alphabet become bytes
    kByteFallback,  // "<0xAB>" becomes a byte
    kFuse,
    kStrip,      // drops up to `start` `content` at the front and up to `stop` at the end
    kMetaspace,  // `pattern` becomes a space, and nothing in the first token if `drops_first`
  };
  Kind kind = Kind::kReplace;
  std::string pattern = {}, content = {};
  int32_t start = 0, stop = 0;
  bool drops_first = false;
};

struct TokenizerSpec {
  std::string file;                                                   // for messages
  std::vector<std::string_view> pieces;                               // by id; empty: no token has this id
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // best first
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  std::vector<SplitStage> stages;
  bool byte_level =
      false;  // merges begin with the bytes of a word, spelled in the byte alphabet; else with its characters
  bool byte_fallback = false;  // a character without a token becomes the tokens "<0xAB>" of its bytes
  bool ignore_merges = false;  // a word that is a token becomes it whatever the merges say
  int32_t unknown_id = -1;     // stands for what has no token; -1: it is dropped
  bool fuse_unknown = false;   // one for a run of such
  std::vector<DecoderStep> decoder;
  std::vector<int32_t> prefix_ids, suffix_ids;  // what add_special_tokens puts around the text
  // Tokens that begin a text or end a turn, by the model's configuration: special whatever the vocabulary calls them, unless
  // they are single characters, for a model whose texts end at a line break has to read line breaks. -1: none.
  std::vector<int32_t> control_ids;
};

// The split of GPT-2 and of the ByteLevel pre-tokenizer.
inline constexpr std::string_view kGpt2Split =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// U+2581, which stands for a space in the pieces of SentencePiece.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_TOKENIZER_SPEC_H_
