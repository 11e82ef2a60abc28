#include "model/vocabulary/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "model/files/file_error.h"
#include "model/text/str_cat.h"
#include "model/tokenizer/token_decoder.h"
#include "model/vocabulary/sentencepiece.h"

namespace hydrant {
namespace {

constexpr std::string_view kTekkenSplit =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Tekken's with contractions, and digits by threes.
constexpr std::string_view kO200kSplit =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// One after the other; the rest of it is empty.
using Splits = std::array<std::string_view, 5>;

constexpr Splits kDeepSeekCoderSplits = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                         R"([\x{0800}-\x{9FA5}\x{AC00}-\x{D7FF}]+)", R"(\p{N})"};

// How the tokenizer.json behind each name splits.
struct Pre {
  std::string_view name;
  bool digits;  // a Digits stage, one by one, before the splits
  Splits splits;
  bool nfc;
  bool ignore_merges;
  bool add_bos;  // when the file does not say
};
constexpr Pre kPres[] = {
    {"gpt-2", false, {kGpt2Split}, false, false, false},
    {"gpt2", false, {kGpt2Split}, false, false, false},
    {"phi-2", false, {kGpt2Split}, false, false, false},
    {"jais", false, {kGpt2Split}, false, false, false},
    // The vocabulary of GPT-NeoX and Pythia.
    {"olmo", false, {kGpt2Split}, true, false, false},
    {"mpt", false, {kGpt2Split}, true, false, false},
    {"smollm", true, {kGpt2Split}, false, false, false},
    {"starcoder", true, {kGpt2Split}, false, false, false},
    {"refact", true, {kGpt2Split}, false, false, false},
    {"codeshell", true, {kGpt2Split}, false, false, false},
    {"llama-bpe", false, {kLlama3Split}, false, true, true},
    {"llama3", false, {kLlama3Split}, false, true, true},
    {"llama-v3", false, {kLlama3Split}, false, true, true},
    {"falcon3", false, {kLlama3Split}, false, true, true},
    {"smaug-bpe", false, {kLlama3Split}, false, false, false},
    {"dbrx", false, {kLlama3Split}, false, false, false},
    {"tekken", false, {kTekkenSplit}, false, true, true},
    {"pixtral", false, {kTekkenSplit}, false, true, true},
    {"gpt-4o", false, {kO200kSplit}, false, false, false},
    {"qwen2", false, {kQwen2Split}, true, false, false},
    {"deepseek-r1-qwen", false, {kQwen2Split}, true, false, false},
    {"deepseek-coder", false, kDeepSeekCoderSplits, false, false, false},
    {"stablelm2", false, {kQwen2Split}, true, false, false},
    // Written by converters that did not know the model. GPT-2's split is the likeliest.
    {"default", false, {kGpt2Split}, false, false, false},
};

absl::StatusOr<std::vector<PieceType>> ReadTypes(const GgufFile& file, size_t pieces) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  std::vector<PieceType> types(pieces, PieceType::kNormal);
  HYDRANT_ASSIGN_OR_RETURN(const auto numbers, file.Ints(kKey, pieces));
  if (!numbers) return types;
  if (numbers->size() != pieces) {
    return FileError(file.name(), Quoted(kKey), "has ", numbers->size(), " elements for ", pieces, " tokens");
  }
  for (size_t id = 0; id < pieces; ++id) {
    const int64_t number = (*numbers)[id];
    if (number < 1 || number > 6) return FileError(file.name(), Quoted(kKey), "element ", id, " is ", number);
    types[id] = static_cast<PieceType>(number);
  }
  return types;
}

absl::StatusOr<std::vector<std::string_view>> ReadPieces(const GgufFile& file) {
  HYDRANT_ASSIGN_OR_RETURN(auto tokens, file.Strings("tokenizer.ggml.tokens"));
  if (!tokens || tokens->empty()) return FileError(file.name(), "'tokenizer.ggml.tokens'", "is missing or empty");
  return *std::move(tokens);
}

absl::Status ReadMerges(const GgufFile& file, TokenizerSpec& spec) {
  HYDRANT_ASSIGN_OR_RETURN(const auto merges, file.Strings("tokenizer.ggml.merges"));
  if (!merges) return FileError(file.name(), "'tokenizer.ggml.merges'", "is missing");
  spec.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    const std::string_view merge = (*merges)[i];
    const size_t space = merge.find(' ', 1);
    if (space == merge.npos || space + 1 == merge.size() || merge.find(' ', space + 1) != merge.npos) {
      return FileError(file.name(), "'tokenizer.ggml.merges'", "element ", i, " ", Quoted(merge), " is not a pair");
    }
    spec.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return absl::OkStatus();
}

absl::Status AddBosAndEos(const GgufFile& file, bool add_bos_default, TokenizerSpec& spec) {
  const int64_t last = static_cast<int64_t>(spec.pieces.size()) - 1;
  HYDRANT_ASSIGN_OR_RETURN(const auto add_bos, file.Bool("tokenizer.ggml.add_bos_token"));
  HYDRANT_ASSIGN_OR_RETURN(const auto bos, file.Int("tokenizer.ggml.bos_token_id", 0, last));
  if (add_bos.value_or(add_bos_default) && bos) spec.prefix_ids.push_back(static_cast<int32_t>(*bos));
  HYDRANT_ASSIGN_OR_RETURN(const auto add_eos, file.Bool("tokenizer.ggml.add_eos_token"));
  HYDRANT_ASSIGN_OR_RETURN(const auto eos, file.Int("tokenizer.ggml.eos_token_id", 0, last));
  if (add_eos.value_or(false) && eos) spec.suffix_ids.push_back(static_cast<int32_t>(*eos));
  return absl::OkStatus();
}

// Scores instead of merges.
absl::Status ReadSentencePiece(const GgufFile& file, TokenizerSpec& spec) {
  constexpr std::string_view kScores = "tokenizer.ggml.scores";
  SentencePieceVocabulary vocabulary;
  HYDRANT_ASSIGN_OR_RETURN(vocabulary.pieces, ReadPieces(file));
  HYDRANT_ASSIGN_OR_RETURN(vocabulary.types, ReadTypes(file, vocabulary.pieces.size()));
  // llama.cpp takes the two characters after "<0x" for a number in whatever spelling, or stops.
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    if (vocabulary.types[id] != PieceType::kByte || IsBytePiece(vocabulary.pieces[id])) continue;
    return FileError(file.name(), "'tokenizer.ggml.tokens'", "element ", id, " ", Quoted(vocabulary.pieces[id]),
                     " is a byte by its type and none of <0x00> to <0xFF>");
  }
  HYDRANT_ASSIGN_OR_RETURN(auto scores, file.Floats(kScores, vocabulary.pieces.size()));
  if (!scores || scores->size() != vocabulary.pieces.size()) {
    return FileError(file.name(), Quoted(kScores), "has ", scores ? scores->size() : 0, " elements for ",
                     vocabulary.pieces.size(), " tokens");
  }
  vocabulary.scores = *std::move(scores);
  HYDRANT_ASSIGN_OR_RETURN(const auto prefix, file.Bool("tokenizer.ggml.add_space_prefix"));
  HYDRANT_ASSIGN_OR_RETURN(const auto extra, file.Bool("tokenizer.ggml.remove_extra_whitespaces"));
  vocabulary.prefix_space = prefix.value_or(true);
  vocabulary.removes_extra_spaces = extra.value_or(false);
  return FillSentencePieceSpec(vocabulary, spec);
}

absl::Status ReadByteLevel(const GgufFile& file, TokenizerSpec& spec, bool& add_bos,
                           std::vector<std::string>& warnings) {
  HYDRANT_ASSIGN_OR_RETURN(const auto named, file.String("tokenizer.ggml.pre"));
  const std::string_view name = named.value_or("default");
  const Pre* pre = std::find_if(std::begin(kPres), std::end(kPres), [&](const Pre& p) { return p.name == name; });
  if (pre == std::end(kPres)) return FileError(file.name(), "'tokenizer.ggml.pre'", Quoted(name), " is not supported");
  if (pre->name == "default") {
    warnings.push_back(
        StrCat(file.name(), ": 'tokenizer.ggml.pre': does not say how the model splits text; assuming GPT-2's way"));
  }
  HYDRANT_ASSIGN_OR_RETURN(spec.pieces, ReadPieces(file));
  HYDRANT_ASSIGN_OR_RETURN(const auto types, ReadTypes(file, spec.pieces.size()));
  for (size_t id = 0; id < types.size(); ++id) AddTokenOfType(id, types[id], spec);
  HYDRANT_RETURN_IF_ERROR(ReadMerges(file, spec));
  SplitStage stage;
  if (pre->digits) {
    stage.kind = SplitStage::Kind::kDigits;
    spec.stages.push_back(stage);
  }
  HYDRANT_ASSIGN_OR_RETURN(const auto space_prefix, file.Bool("tokenizer.ggml.add_space_prefix"));
  if (space_prefix.value_or(false)) {
    stage.kind = SplitStage::Kind::kPrefixSpace;
    spec.stages.push_back(stage);
  }
  stage.kind = SplitStage::Kind::kRegex;
  for (const std::string_view split : pre->splits) {
    if (split.empty()) break;
    stage.pattern = std::string(split);
    spec.stages.push_back(stage);
  }
  if (pre->nfc) spec.normalizer.push_back({.kind = NormalizerStep::Kind::kNfc});
  spec.ignore_merges = pre->ignore_merges;
  spec.byte_level = true;
  spec.decoder.push_back({.kind = DecoderStep::Kind::kByteLevel});
  add_bos = pre->add_bos;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSpec> ReadGgufTokenizer(const GgufFile& file, std::vector<std::string>& warnings) {
  HYDRANT_ASSIGN_OR_RETURN(const auto model, file.String("tokenizer.ggml.model"));
  if (!model) return FileError(file.name(), "'tokenizer.ggml.model'", "is missing");
  TokenizerSpec spec;
  spec.file = file.name();
  bool add_bos = true;
  if (*model == "llama") {
    HYDRANT_RETURN_IF_ERROR(ReadSentencePiece(file, spec));
  } else if (*model == "gpt2") {
    HYDRANT_RETURN_IF_ERROR(ReadByteLevel(file, spec, add_bos, warnings));
  } else {
    return FileError(file.name(), "'tokenizer.ggml.model'", Quoted(*model),
                     " is not supported ('gpt2', byte-level BPE, and 'llama', SentencePiece, are)");
  }
  HYDRANT_RETURN_IF_ERROR(AddBosAndEos(file, add_bos, spec));
  return spec;
}

}  // namespace hydrant
