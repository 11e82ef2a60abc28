#include "model/vocabulary/directory_tokenizer.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "model/files/file_error.h"
#include "model/files/json_document.h"
#include "model/text/str_cat.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/vocabulary/sentencepiece.h"
#include "model/vocabulary/tokenizer_json.h"

namespace hydrant {
namespace {

constexpr std::string_view kTokenizerJson = "tokenizer.json";
constexpr size_t kSmallJsonBytesMax = 16 << 20;
constexpr JsonLimits kSmallJsonLimits{200'000, 64};
// The largest published tokenizer.model, Gemma's, has 4 MB; the largest vocab.json 3 MB.
constexpr size_t kVocabularyBytesMax = 64 << 20;
constexpr size_t kPiecesMax = 1 << 20;

// The tokenizer that is not a tokenizer.json, from the files that make it up. Owns what the spec's views point into.
class LegacyReader {
 public:
  LegacyReader(const WeightDirectory& directory, std::vector<std::string>& warnings)
      : directory_(directory), warnings_(warnings) {}

  absl::StatusOr<TokenizerSpec> ReadSentencePiece() {
    constexpr std::string_view kFile = "tokenizer.model";
    spec_.file = std::string(kFile);
    HYDRANT_RETURN_IF_ERROR(ReadConfigs());
    HYDRANT_ASSIGN_OR_RETURN(text_, directory_.Read(kFile, kVocabularyBytesMax));
    HYDRANT_ASSIGN_OR_RETURN(SentencePieceVocabulary vocabulary, ReadSentencePieceModel(text_, kFile));
    bool legacy = true, prefix_space = vocabulary.prefix_space;
    if (config_) HYDRANT_RETURN_IF_ERROR(config_->root().Read("legacy", legacy));
    if (config_) HYDRANT_RETURN_IF_ERROR(config_->root().Read("add_prefix_space", prefix_space));
    vocabulary.prefix_first_only = !legacy;
    vocabulary.prefix_space = prefix_space;
    HYDRANT_RETURN_IF_ERROR(FillSentencePieceSpec(vocabulary, spec_));
    HYDRANT_RETURN_IF_ERROR(ReadAddedTokens());
    HYDRANT_ASSIGN_OR_RETURN(const std::optional<int32_t> bos, NamedId("bos_token"));
    HYDRANT_ASSIGN_OR_RETURN(const std::optional<int32_t> eos, NamedId("eos_token"));
    return Finish(bos.value_or(vocabulary.bos_id), true, eos.value_or(vocabulary.eos_id));
  }

  absl::StatusOr<TokenizerSpec> ReadVocabAndMerges() {
    constexpr std::string_view kVocab = "vocab.json", kMerges = "merges.txt";
    spec_.file = std::string(kVocab);
    HYDRANT_RETURN_IF_ERROR(ReadConfigs());
    HYDRANT_ASSIGN_OR_RETURN(const std::string vocab, directory_.Read(kVocab, kVocabularyBytesMax));
    HYDRANT_ASSIGN_OR_RETURN(JsonDocument parsed,
                             JsonDocument::Parse(vocab, kTokenizerJsonLimits, std::string(kVocab)));
    vocab_.emplace(std::move(parsed));
    HYDRANT_RETURN_IF_ERROR(ReadVocabulary());
    HYDRANT_ASSIGN_OR_RETURN(text_, directory_.Read(kMerges, kVocabularyBytesMax));
    HYDRANT_RETURN_IF_ERROR(ReadMerges(kMerges));
    bool prefix_space = false;
    if (config_) HYDRANT_RETURN_IF_ERROR(config_->root().Read("add_prefix_space", prefix_space));
    SplitStage stage;
    stage.kind = SplitStage::Kind::kPrefixSpace;
    if (prefix_space) spec_.stages.push_back(stage);
    stage.kind = SplitStage::Kind::kRegex;
    stage.pattern = std::string(kGpt2Split);
    spec_.stages.push_back(std::move(stage));
    spec_.byte_level = true;
    spec_.decoder.push_back({.kind = DecoderStep::Kind::kByteLevel});
    HYDRANT_RETURN_IF_ERROR(ReadAddedTokens());
    // What GPT-2's tokenizer calls all its special tokens unless told otherwise.
    const auto fallback = IdOf("<|endoftext|>");
    if (fallback) Entry(*fallback, "<|endoftext|>").special = true;
    HYDRANT_ASSIGN_OR_RETURN(const std::optional<int32_t> bos, NamedId("bos_token"));
    HYDRANT_ASSIGN_OR_RETURN(const std::optional<int32_t> eos, NamedId("eos_token"));
    return Finish(bos.value_or(fallback.value_or(-1)), false, eos.value_or(fallback.value_or(-1)));
  }

 private:
  absl::Status ReadOptional(std::string_view name, std::optional<JsonDocument>& out) const {
    if (!directory_.Contains(name)) return absl::OkStatus();
    HYDRANT_ASSIGN_OR_RETURN(const std::string text, directory_.Read(name, kSmallJsonBytesMax));
    HYDRANT_ASSIGN_OR_RETURN(JsonDocument document, JsonDocument::Parse(text, kSmallJsonLimits, std::string(name)));
    out.emplace(std::move(document));
    return absl::OkStatus();
  }

  absl::Status ReadConfigs() {
    HYDRANT_RETURN_IF_ERROR(ReadOptional("tokenizer_config.json", config_));
    HYDRANT_RETURN_IF_ERROR(ReadOptional("special_tokens_map.json", special_map_));
    return ReadOptional("added_tokens.json", added_);
  }

  absl::Status ReadVocabulary() {
    return vocab_->root().ForEachMember([&](std::string_view piece, const JsonValue& value) -> absl::Status {
      HYDRANT_ASSIGN_OR_RETURN(const int64_t id, value.Int(0, kPiecesMax - 1));
      const auto index = static_cast<size_t>(id);
      if (piece.empty()) return absl::OkStatus();
      if (index >= spec_.pieces.size()) spec_.pieces.resize(index + 1);
      if (!spec_.pieces[index].empty()) return value.Error("id ", id, " is also that of ", Quoted(spec_.pieces[index]));
      spec_.pieces[index] = piece;
      return absl::OkStatus();
    });
  }

  // One pair a line, after a line with the version.
  absl::Status ReadMerges(std::string_view file) {
    size_t number = 0;
    for (std::string_view rest = text_; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      ++number;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
      const size_t space = line.find(' ');
      if (space == line.npos || space == 0 || space + 1 == line.size() || line.find(' ', space + 1) != line.npos) {
        return FileError(file, StrCat("line ", number), Quoted(line), " is not a pair");
      }
      spec_.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    }
    return absl::OkStatus();
  }

  std::optional<int32_t> IdOf(std::string_view piece) const {
    for (const AddedToken& token : spec_.added) {
      if (token.content == piece) return token.id;
    }
    const auto found = std::find(spec_.pieces.begin(), spec_.pieces.end(), piece);
    if (found == spec_.pieces.end() || piece.empty()) return std::nullopt;
    return static_cast<int32_t>(found - spec_.pieces.begin());
  }

  // The entry of a token in spec_.added, made when there is none.
  AddedToken& Entry(int32_t id, std::string_view content) {
    for (; entries_seen_ < spec_.added.size(); ++entries_seen_)
      entries_.emplace(spec_.added[entries_seen_].id, entries_seen_);
    if (const auto found = entries_.find(id); found != entries_.end()) return spec_.added[found->second];
    AddedToken token;
    token.id = id;
    token.content = owned_.emplace_back(content);
    spec_.added.push_back(token);
    return spec_.added.back();
  }

  static absl::Status ReadFlags(const JsonValue& from, AddedToken& token) {
    HYDRANT_RETURN_IF_ERROR(from.Read("single_word", token.single_word));
    HYDRANT_RETURN_IF_ERROR(from.Read("lstrip", token.lstrip));
    HYDRANT_RETURN_IF_ERROR(from.Read("rstrip", token.rstrip));
    HYDRANT_RETURN_IF_ERROR(from.Read("normalized", token.normalized));
    return from.Read("special", token.special);
  }

  // added_tokens_decoder (id -> token), or the older added_tokens.json (text -> id); then the special tokens by their names.
  absl::Status ReadAddedTokens() {
    const auto decoder = config_ ? config_->root().Find("added_tokens_decoder") : std::nullopt;
    if (decoder) {
      HYDRANT_RETURN_IF_ERROR(decoder->ForEachMember([&](std::string_view key, const JsonValue& value) -> absl::Status {
        int32_t id = 0;
        if (key.empty() || key.size() > 7 ||
            !std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; }))
          return value.Error("is not an id");
        for (const char c : key) id = id * 10 + (c - '0');
        HYDRANT_ASSIGN_OR_RETURN(const JsonValue field, value.At("content"));
        HYDRANT_ASSIGN_OR_RETURN(const std::string_view content, field.String());
        return ReadFlags(value, Entry(id, content));
      }));
    } else if (added_) {
      HYDRANT_RETURN_IF_ERROR(
          added_->root().ForEachMember([&](std::string_view content, const JsonValue& value) -> absl::Status {
            HYDRANT_ASSIGN_OR_RETURN(const int64_t id, value.Int(0, kPiecesMax - 1));
            Entry(static_cast<int32_t>(id), content);
            return absl::OkStatus();
          }));
    }
    for (const std::string_view name : {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token"}) {
      HYDRANT_ASSIGN_OR_RETURN(const auto token, Named(name));
      if (!token) continue;
      const auto id = IdOf(token->content);
      if (id) {
        // What added_tokens_decoder says of a token wins.
        AddedToken& entry = Entry(*id, token->content);
        if (token->flags && !decoder) HYDRANT_RETURN_IF_ERROR(ReadFlags(*token->flags, entry));
        entry.special = true;
      } else {
        warnings_.push_back(
            StrCat(spec_.file, ": ", name, " ", Quoted(token->content), " is not in the vocabulary; ignored"));
      }
    }
    return absl::OkStatus();
  }

  struct NamedToken {
    std::string_view content;
    std::optional<JsonValue> flags;
  };

  // A special token of tokenizer_config.json, else of special_tokens_map.json: a text, or an object with its `content`.
  absl::StatusOr<std::optional<NamedToken>> Named(std::string_view name) const {
    auto field = config_ ? config_->root().Find(name) : std::nullopt;
    if (!field && special_map_) field = special_map_->root().Find(name);
    if (!field) return std::optional<NamedToken>();
    const auto content = field->Find("content");
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view text, (content ? *content : *field).String());
    return std::optional<NamedToken>({text, content ? field : std::nullopt});
  }

  absl::StatusOr<std::optional<int32_t>> NamedId(std::string_view name) const {
    HYDRANT_ASSIGN_OR_RETURN(const auto token, Named(name));
    return token ? IdOf(token->content) : std::nullopt;
  }

  absl::StatusOr<TokenizerSpec> Finish(int32_t bos, bool add_bos, int32_t eos) {
    bool add_eos = false;
    if (config_) HYDRANT_RETURN_IF_ERROR(config_->root().Read("add_bos_token", add_bos));
    if (config_) HYDRANT_RETURN_IF_ERROR(config_->root().Read("add_eos_token", add_eos));
    if (add_bos && bos >= 0) spec_.prefix_ids.push_back(bos);
    if (add_eos && eos >= 0) spec_.suffix_ids.push_back(eos);
    return std::move(spec_);
  }

  const WeightDirectory& directory_;
  std::vector<std::string>& warnings_;
  TokenizerSpec spec_;
  absl::flat_hash_map<int32_t, size_t> entries_;  // id -> index into spec_.added, of the first entries_seen_
  size_t entries_seen_ = 0;
  std::string text_;  // of tokenizer.model or merges.txt
  std::optional<JsonDocument> vocab_, config_, special_map_, added_;
  std::deque<std::string> owned_;
};

absl::StatusOr<std::shared_ptr<const Tokenizer>> Build(TokenizerSpec& spec, int32_t vocab,
                                                       std::vector<std::string>& warnings) {
  const auto rows = static_cast<size_t>(vocab);
  if (spec.pieces.size() > rows) {
    return FileError(spec.file, spec.file == kTokenizerJson ? "'model.vocab'" : "vocabulary", "has ids up to ",
                     spec.pieces.size() - 1, "; vocab_size in config.json is ", rows);
  }
  // Checkpoints often add a padding token for which no embedding was trained; it can never be used.
  const auto outside = std::stable_partition(spec.added.begin(), spec.added.end(),
                                             [&](const AddedToken& token) { return token.id < vocab; });
  for (auto token = outside; token != spec.added.end(); ++token) {
    warnings.push_back(
        StrCat(spec.file, ": added token ", Quoted(token->content), ": id ", token->id, " has no embedding; ignored"));
  }
  spec.added.erase(outside, spec.added.end());
  return BpeTokenizer::Create(spec, vocab);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Tokenizer>> ReadDirectoryTokenizer(const WeightDirectory& directory, int32_t vocab,
                                                                        std::vector<int32_t> control_ids,
                                                                        std::vector<std::string>& warnings) {
  const std::string name(kTokenizerJson);
  LegacyReader legacy(directory, warnings);
  const auto build = [&](TokenizerSpec& spec) {
    spec.control_ids = std::move(control_ids);
    return Build(spec, vocab, warnings);
  };
  if (!directory.Contains(name) && directory.Contains("tokenizer.model")) {
    HYDRANT_ASSIGN_OR_RETURN(TokenizerSpec spec, legacy.ReadSentencePiece());
    return build(spec);
  }
  if (!directory.Contains(name) && directory.Contains("vocab.json") && directory.Contains("merges.txt")) {
    HYDRANT_ASSIGN_OR_RETURN(TokenizerSpec spec, legacy.ReadVocabAndMerges());
    return build(spec);
  }
  HYDRANT_ASSIGN_OR_RETURN(const std::string text, directory.Read(name, kTokenizerJsonBytesMax));
  HYDRANT_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text, kTokenizerJsonLimits, name));
  HYDRANT_ASSIGN_OR_RETURN(TokenizerSpec spec, ReadTokenizerJson(document, name));
  return build(spec);
}

}  // namespace hydrant
