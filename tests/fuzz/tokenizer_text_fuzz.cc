// Any bytes are tokens and text again: byte-level tokens spell the text they were made of, a stream decodes as the whole, and
// what is plain never becomes a special token.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/text/utf8.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/vocabulary/tokenizer_json.h"
#include "tests/fuzz/fuzz.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/model/vocabulary/sentencepiece_builder.h"

namespace hydrant {
namespace {

using nlohmann::json;

std::shared_ptr<const Tokenizer> Make(const json& from) {
  const auto document = JsonDocument::Parse(from.dump(), kTokenizerJsonLimits, "t.json");
  return *BpeTokenizer::Create(*ReadTokenizerJson(*document, "t.json"), 0);
}

// Merges of letters and spaces, tokens that are special, and one that is not.
json ByteLevel() {
  json from = GrowingTokenizerJson();
  int32_t id = 258;
  for (const auto& [left, right] : {std::pair("Ġ", "Ġ"), std::pair("a", "b"), std::pair("Ġ", "a"), std::pair("a", "a"),
                                    std::pair("aa", "aa"), std::pair("Ã", "©"), std::pair("Ċ", "Ċ")}) {
    from["model"]["merges"].push_back({left, right});
    from["model"]["vocab"][std::string(left) + right] = id++;
  }
  from["added_tokens"].push_back({{"id", id}, {"content", "   "}, {"special", false}, {"normalized", true}});
  return from;
}

std::shared_ptr<const Tokenizer> SentencePiece() {
  static const std::string kBytes = TinySentencePiece().Build();
  TokenizerSpec spec;
  if (!FillSentencePieceSpec(*ReadSentencePieceModel(kBytes, "m"), spec).ok()) std::abort();
  return *BpeTokenizer::Create(spec, 0);
}

std::string Lossy(std::string_view bytes) {
  std::string text;
  if (AppendUtf8Lossy(bytes, text) > 0) text += kReplacementCharacter;
  return text;
}

// The ids of a text, once everything that holds for every tokenizer has been checked.
std::vector<int32_t> Checked(const Tokenizer& tokenizer, std::string_view text,
                             const std::vector<ByteRange>& client_ranges) {
  const ByteRange all{0, text.size()};
  const auto none_parsed = tokenizer.Encode(text, {.add_special_tokens = false, .parse_special_tokens = false});
  Require(none_parsed == tokenizer.Encode(text, {.add_special_tokens = false, .client_ranges = std::span(&all, 1)}),
          "all plain is none parsed");
  for (const int32_t id : none_parsed) Require(!tokenizer.IsSpecial(id), "plain text has no special tokens");
  const auto ids = tokenizer.Encode(text, {.add_special_tokens = false, .client_ranges = client_ranges});
  Require(ids.size() <= 3 * text.size() + 3, "tokens are no more than bytes, a space being three");
  for (const bool skip : {false, true}) {
    Detokenizer stream(tokenizer, skip);
    std::string streamed;
    for (const int32_t id : ids) {
      Require(id >= 0 && id < tokenizer.vocab_size(), "ids are in the vocabulary");
      const std::string piece = stream.Push(id);
      Require(ValidUtf8Prefix(piece) == piece.size(), "a stream is whole characters");
      streamed += piece;
    }
    Require(streamed + stream.Finish() == tokenizer.Decode(ids, skip), "a stream is the whole");
  }
  return ids;
}

}  // namespace

void Fuzz(std::string_view input) {
  static const std::vector<std::shared_ptr<const Tokenizer>> kByteLevel = [] {
    json split = ByteLevel(), digits = ByteLevel();
    split["pre_tokenizer"] = {{"type", "Sequence"},
                              {"pretokenizers",
                               {{{"type", "Split"}, {"pattern", {{"Regex", kLlama3Split}}}, {"behavior", "Isolated"}},
                                {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    digits["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers",
                                {{{"type", "Digits"}, {"individual_digits", true}},
                                 {{"type", "Punctuation"}, {"behavior", "MergedWithNext"}},
                                 {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
    return std::vector{Make(ByteLevel()), Make(split), Make(digits)};
  }();
  static const std::shared_ptr<const Tokenizer> kNormalizing = [] {
    json from = ByteLevel();
    from["added_tokens"][1]["normalized"] = true;
    from["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFKC"}}, {{"type", "Lowercase"}}}}};
    return Make(from);
  }();
  static const std::shared_ptr<const Tokenizer> kSentencePiece = SentencePiece();
  if (input.size() < 2) return;
  // The first two bytes say where a plain range begins and how long it is.
  const std::string_view text = input.substr(2);
  const size_t begin = std::min<size_t>(static_cast<unsigned char>(input[0]), text.size());
  const size_t end = std::min<size_t>(begin + static_cast<unsigned char>(input[1]), text.size());
  const std::vector<ByteRange> client_ranges = {{begin, end}};
  for (const auto& tokenizer : kByteLevel) {
    const auto ids = Checked(*tokenizer, text, client_ranges);
    std::string bytes;
    for (const int32_t id : ids) bytes += tokenizer->TokenBytes(id);
    Require(bytes == text, "byte-level tokens spell their text");
    Require(tokenizer->Decode(ids, false) == Lossy(text), "decoding gives the text back");
  }
  Checked(*kNormalizing, text, client_ranges);
  const auto ids = Checked(*kSentencePiece, text, {{0, text.size()}});
  std::string bytes;
  for (const int32_t id : ids) bytes += kSentencePiece->TokenBytes(id);
  std::string marked(text);
  for (size_t at = marked.find(kSpaceMark); at != marked.npos; at = marked.find(kSpaceMark, at))
    marked.replace(at, 3, " ");
  Require(bytes == (text.empty() ? "" : " ") + marked, "SentencePiece spells its text, spaces for marks");
}

}  // namespace hydrant
