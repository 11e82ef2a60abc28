#include "model/gguf_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "model/file_error.h"

namespace hydrant {
namespace {

constexpr std::string_view kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// How the tokenizer.json behind each name splits.
struct Pre {
  std::string_view name;
  bool digits;  // a Digits stage, one by one, before the split
  std::string_view split;
  bool nfc;
  bool ignore_merges;
  bool add_bos;  // when the file does not say
};
constexpr Pre kPres[] = {
    {"gpt-2", false, kGpt2Split, false, false, false},
    {"gpt2", false, kGpt2Split, false, false, false},
    {"smollm", true, kGpt2Split, false, false, false},
    {"starcoder", true, kGpt2Split, false, false, false},
    {"llama-bpe", false, kLlama3Split, false, true, true},
    {"llama3", false, kLlama3Split, false, true, true},
    {"llama-v3", false, kLlama3Split, false, true, true},
    {"qwen2", false, kQwen2Split, true, false, false},
    {"deepseek-r1-qwen", false, kQwen2Split, true, false, false},
    // Written by converters that did not know the model. GPT-2's split is the likeliest.
    {"default", false, kGpt2Split, false, false, false},
};

// ggml's token types.
enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

absl::Status ReadVocabulary(const GgufFile& file, TokenizerSpec& spec) {
  HYDRANT_ASSIGN_OR_RETURN(auto tokens, file.Strings("tokenizer.ggml.tokens"));
  if (!tokens || tokens->empty()) return FileError(file.name(), "'tokenizer.ggml.tokens'", "is missing or empty");
  spec.pieces = *std::move(tokens);
  HYDRANT_ASSIGN_OR_RETURN(const auto types, file.Ints("tokenizer.ggml.token_type", spec.pieces.size()));
  if (!types) return absl::OkStatus();
  if (types->size() != spec.pieces.size()) {
    return FileError(file.name(), "'tokenizer.ggml.token_type'", "has ", types->size(), " elements for ",
                     spec.pieces.size(), " tokens");
  }
  for (size_t id = 0; id < types->size(); ++id) {
    const int64_t type = (*types)[id];
    if (type == kNormal || type == kUnused || type == kByte) continue;
    if (type != kUnknown && type != kControl && type != kUserDefined) {
      return FileError(file.name(), "'tokenizer.ggml.token_type'", "element ", id, " is ", type);
    }
    AddedToken token;
    token.id = static_cast<int32_t>(id);
    token.content = spec.pieces[id];
    token.special = type != kUserDefined;
    spec.added.push_back(token);
  }
  return absl::OkStatus();
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

}  // namespace

absl::StatusOr<TokenizerSpec> ReadGgufTokenizer(const GgufFile& file, std::vector<std::string>& warnings) {
  HYDRANT_ASSIGN_OR_RETURN(const auto model, file.String("tokenizer.ggml.model"));
  if (!model) return FileError(file.name(), "'tokenizer.ggml.model'", "is missing");
  if (*model != "gpt2") {
    return FileError(file.name(), "'tokenizer.ggml.model'", Quoted(*model),
                     " is not supported ('gpt2', byte-level BPE, is)");
  }
  HYDRANT_ASSIGN_OR_RETURN(const auto named, file.String("tokenizer.ggml.pre"));
  const std::string_view name = named.value_or("default");
  const Pre* pre = std::find_if(std::begin(kPres), std::end(kPres), [&](const Pre& p) { return p.name == name; });
  if (pre == std::end(kPres)) return FileError(file.name(), "'tokenizer.ggml.pre'", Quoted(name), " is not supported");
  if (pre->name == "default") {
    warnings.push_back(
        Cat(file.name(), ": 'tokenizer.ggml.pre': does not say how the model splits text; assuming GPT-2's way"));
  }

  TokenizerSpec spec;
  spec.file = file.name();
  HYDRANT_RETURN_IF_ERROR(ReadVocabulary(file, spec));
  HYDRANT_RETURN_IF_ERROR(ReadMerges(file, spec));
  HYDRANT_RETURN_IF_ERROR(AddBosAndEos(file, pre->add_bos, spec));
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
  stage.pattern = std::string(pre->split);
  spec.stages.push_back(stage);
  spec.nfc = pre->nfc;
  spec.ignore_merges = pre->ignore_merges;
  return spec;
}

}  // namespace hydrant
