#include "model/tokenizer_json.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "model/file_error.h"

namespace hydrant {
namespace {

// Ids may leave holes, for example between the vocabulary and the added tokens, but not at the price of memory.
constexpr int64_t kHolesMax = 65536;

class SpecReader {
 public:
  SpecReader(const JsonValue& root, const std::string& file) : root_(root) { spec_.file = file; }

  absl::StatusOr<TokenizerSpec> Run() {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue version, root_.At("version"));
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view number, version.String());
    if (number != "1.0") return version.Error(Quoted(number), " is not supported ('1.0' is)");
    HYDRANT_RETURN_IF_ERROR(ReadModel());
    HYDRANT_RETURN_IF_ERROR(ReadAddedTokens());
    if (const auto part = root_.Find("normalizer")) HYDRANT_RETURN_IF_ERROR(ReadNormalizer(*part));
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue pre_tokenizer, root_.At("pre_tokenizer"));
    HYDRANT_RETURN_IF_ERROR(ReadPreTokenizer(pre_tokenizer));
    if (!byte_level_) return pre_tokenizer.Error("has no ByteLevel part; only byte-level tokenizers are supported");
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue decoder, root_.At("decoder"));
    HYDRANT_RETURN_IF_ERROR(CheckDecoder(decoder));
    if (const auto part = root_.Find("post_processor")) HYDRANT_RETURN_IF_ERROR(ReadPostProcessor(*part));
    return std::move(spec_);
  }

 private:
  static absl::StatusOr<std::string_view> TypeOf(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue type, part.At("type"));
    return type.String();
  }

  static absl::Status Unsupported(const JsonValue& part, std::string_view type) {
    return part.Error("type ", Quoted(type), " is not supported");
  }

  // --- model ------------------------------------------------------------------------------------------------------------

  absl::Status ReadModel() {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue model, root_.At("model"));
    if (model.Find("type")) {
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(model));
      if (type != "BPE") return model.Error("type ", Quoted(type), " is not supported ('BPE' is)");
    }
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto affix = model.Find(key);
      if (!affix) continue;
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view text, affix->String());
      if (!text.empty()) return affix->Error(Quoted(text), " is not supported");
    }
    double dropout = 0;
    HYDRANT_RETURN_IF_ERROR(model.Read("dropout", dropout));
    if (dropout != 0) return model.Error("dropout ", dropout, " is not supported");
    bool byte_fallback = false;
    HYDRANT_RETURN_IF_ERROR(model.Read("byte_fallback", byte_fallback));
    if (byte_fallback) return model.Error("byte_fallback is not supported; only byte-level tokenizers are");
    HYDRANT_RETURN_IF_ERROR(model.Read("fuse_unk", spec_.fuse_unknown));
    HYDRANT_RETURN_IF_ERROR(model.Read("ignore_merges", spec_.ignore_merges));
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue vocab, model.At("vocab"));
    HYDRANT_RETURN_IF_ERROR(ReadVocabulary(vocab));
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue merges, model.At("merges"));
    HYDRANT_RETURN_IF_ERROR(ReadMerges(merges));
    if (const auto unknown = model.Find("unk_token")) {
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view piece, unknown->String());
      const auto found = std::find(spec_.pieces.begin(), spec_.pieces.end(), piece);
      // Hugging Face fails when it first needs the token; a byte-level vocabulary that lacks it never does.
      if (!piece.empty() && found != spec_.pieces.end())
        spec_.unknown_id = static_cast<int32_t>(found - spec_.pieces.begin());
    }
    return absl::OkStatus();
  }

  absl::Status ReadVocabulary(const JsonValue& vocab) {
    int64_t count = 0;
    HYDRANT_RETURN_IF_ERROR(vocab.ForEachMember([&](std::string_view, const JsonValue&) {
      ++count;
      return absl::OkStatus();
    }));
    id_end_ = count + kHolesMax;
    return vocab.ForEachMember([&](std::string_view piece, const JsonValue& value) -> absl::Status {
      HYDRANT_ASSIGN_OR_RETURN(const int64_t id, value.Int(0, id_end_ - 1));
      const auto index = static_cast<size_t>(id);
      if (piece.empty()) return absl::OkStatus();  // no text ever becomes it
      if (index >= spec_.pieces.size()) spec_.pieces.resize(index + 1);
      if (!spec_.pieces[index].empty()) return value.Error("id ", id, " is also that of ", Quoted(spec_.pieces[index]));
      spec_.pieces[index] = piece;
      return absl::OkStatus();
    });
  }

  // Either "left right" or ["left", "right"].
  absl::Status ReadMerges(const JsonValue& merges) {
    if (!merges.IsArray()) return merges.Error("is not an array");
    spec_.merges.reserve(merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
      const JsonValue merge = merges[i];
      if (merge.size() == 2) {
        HYDRANT_ASSIGN_OR_RETURN(const std::string_view left, merge[0].String());
        HYDRANT_ASSIGN_OR_RETURN(const std::string_view right, merge[1].String());
        if (left.empty() || right.empty()) return merge.Error("is not a pair");
        spec_.merges.emplace_back(left, right);
        continue;
      }
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view pair, merge.String());
      const size_t space = pair.find(' ');
      if (space == pair.npos || space == 0 || space + 1 == pair.size() || pair.find(' ', space + 1) != pair.npos) {
        return merge.Error(Quoted(pair), " is not a pair");
      }
      spec_.merges.emplace_back(pair.substr(0, space), pair.substr(space + 1));
    }
    return absl::OkStatus();
  }

  absl::Status ReadAddedTokens() {
    const auto added = root_.Find("added_tokens");
    if (!added) return absl::OkStatus();
    if (!added->IsArray()) return added->Error("is not an array");
    id_end_ += static_cast<int64_t>(added->size());
    for (size_t i = 0; i < added->size(); ++i) {
      const JsonValue entry = (*added)[i];
      AddedToken token;
      HYDRANT_ASSIGN_OR_RETURN(const JsonValue id, entry.At("id"));
      HYDRANT_ASSIGN_OR_RETURN(const int64_t number, id.Int(0, id_end_ - 1));
      token.id = static_cast<int32_t>(number);
      HYDRANT_ASSIGN_OR_RETURN(const JsonValue content, entry.At("content"));
      HYDRANT_ASSIGN_OR_RETURN(token.content, content.String());
      HYDRANT_RETURN_IF_ERROR(entry.Read("special", token.special));
      HYDRANT_RETURN_IF_ERROR(entry.Read("single_word", token.single_word));
      HYDRANT_RETURN_IF_ERROR(entry.Read("lstrip", token.lstrip));
      HYDRANT_RETURN_IF_ERROR(entry.Read("rstrip", token.rstrip));
      token.normalized = !token.special;
      HYDRANT_RETURN_IF_ERROR(entry.Read("normalized", token.normalized));
      spec_.added.push_back(token);
    }
    return CheckAddedIds(*added);
  }

  // Where an added token is in the vocabulary too, Hugging Face goes by the vocabulary's id; no sound file has two.
  absl::Status CheckAddedIds(const JsonValue& added) const {
    absl::flat_hash_map<std::string_view, int32_t> ids;
    for (const AddedToken& token : spec_.added) {
      const auto [entry, fresh] = ids.emplace(token.content, token.id);
      if (!fresh && entry->second != token.id) return added.Error(Quoted(token.content), " has two ids");
    }
    for (size_t id = 0; id < spec_.pieces.size(); ++id) {
      const auto entry = ids.find(spec_.pieces[id]);
      if (entry == ids.end() || static_cast<size_t>(entry->second) == id || spec_.pieces[id].empty()) continue;
      return added.Error(Quoted(spec_.pieces[id]), " has id ", entry->second, ", and ", id, " in the vocabulary");
    }
    return absl::OkStatus();
  }

  // --- parts that may be a Sequence -------------------------------------------------------------------------------------
  // Their recursion is as deep as the document, which JsonLimits bounds.

  absl::Status ReadNormalizer(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(part));
    if (type == "NFC") {
      spec_.nfc = true;
      return absl::OkStatus();
    }
    if (type == "Sequence") return ForEachPart(part, "normalizers", &SpecReader::ReadNormalizer);
    return Unsupported(part, type);
  }

  absl::Status ReadPreTokenizer(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(part));
    if (type == "Sequence") return ForEachPart(part, "pretokenizers", &SpecReader::ReadPreTokenizer);
    // From ByteLevel on, text is spelled in the byte alphabet, where \p{L} and the like mean something else.
    if (byte_level_) return part.Error("type ", Quoted(type), " after ByteLevel is not supported");
    if (type == "ByteLevel") return ReadByteLevel(part);
    if (type == "Split") return ReadSplit(part);
    if (type == "Digits") {
      bool individual = false;
      HYDRANT_RETURN_IF_ERROR(part.Read("individual_digits", individual));
      AddStage(individual ? SplitStage::Kind::kDigits : SplitStage::Kind::kDigitRuns);
      return absl::OkStatus();
    }
    return Unsupported(part, type);
  }

  absl::Status ReadByteLevel(const JsonValue& part) {
    bool prefix_space = true;
    bool use_regex = true;
    HYDRANT_RETURN_IF_ERROR(part.Read("add_prefix_space", prefix_space));
    HYDRANT_RETURN_IF_ERROR(part.Read("use_regex", use_regex));
    if (prefix_space) AddStage(SplitStage::Kind::kPrefixSpace);
    if (use_regex) AddStage(SplitStage::Kind::kRegex).pattern = std::string(kGpt2Split);
    byte_level_ = true;
    return absl::OkStatus();
  }

  absl::Status ReadSplit(const JsonValue& part) {
    static constexpr std::pair<std::string_view, SplitStage::Behavior> kBehaviors[] = {
        {"Isolated", SplitStage::Behavior::kIsolated},
        {"Removed", SplitStage::Behavior::kRemoved},
        {"MergedWithPrevious", SplitStage::Behavior::kMergedWithPrevious},
        {"MergedWithNext", SplitStage::Behavior::kMergedWithNext},
        {"Contiguous", SplitStage::Behavior::kContiguous},
    };
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue pattern, part.At("pattern"));
    const auto regex = pattern.Find("Regex");
    const auto literal = pattern.Find("String");
    if (!regex && !literal) return pattern.Error("is neither a Regex nor a String");
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view text, (regex ? *regex : *literal).String());
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue behavior, part.At("behavior"));
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view name, behavior.String());
    const auto* known =
        std::find_if(std::begin(kBehaviors), std::end(kBehaviors), [&](const auto& b) { return b.first == name; });
    if (known == std::end(kBehaviors)) return behavior.Error(Quoted(name), " is not supported");
    SplitStage& stage = AddStage(regex ? SplitStage::Kind::kRegex : SplitStage::Kind::kLiteral);
    stage.pattern = std::string(text);
    stage.behavior = known->second;
    return part.Read("invert", stage.invert);
  }

  absl::Status CheckDecoder(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(part));
    if (type == "ByteLevel") return absl::OkStatus();
    if (type == "Sequence") return ForEachPart(part, "decoders", &SpecReader::CheckDecoder);
    return Unsupported(part, type);
  }

  absl::Status ReadPostProcessor(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(part));
    if (type == "ByteLevel") return absl::OkStatus();  // it moves offsets only
    if (type == "Sequence") return ForEachPart(part, "processors", &SpecReader::ReadPostProcessor);
    if (type == "TemplateProcessing") return ReadTemplate(part);
    return Unsupported(part, type);
  }

  absl::Status ReadTemplate(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue single, part.At("single"));
    const auto tokens = part.Find("special_tokens");
    std::vector<int32_t> before, after;
    bool text_seen = false;
    for (size_t i = 0; i < single.size(); ++i) {
      if (single[i].Find("Sequence")) {
        if (text_seen) return single.Error("repeats its text");
        text_seen = true;
        continue;
      }
      HYDRANT_ASSIGN_OR_RETURN(const JsonValue special, single[i].At("SpecialToken"));
      HYDRANT_ASSIGN_OR_RETURN(const JsonValue name_field, special.At("id"));
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view name, name_field.String());
      const auto entry = tokens ? tokens->Find(name) : std::nullopt;
      if (!entry) return name_field.Error(Quoted(name), " is not in special_tokens");
      HYDRANT_ASSIGN_OR_RETURN(const JsonValue ids, entry->At("ids"));
      for (size_t k = 0; k < ids.size(); ++k) {
        HYDRANT_ASSIGN_OR_RETURN(const int64_t id, ids[k].Int(0, id_end_ - 1));
        (text_seen ? after : before).push_back(static_cast<int32_t>(id));
      }
    }
    if (!text_seen) return single.Error("has no text");
    // A later processor wraps what the earlier ones made.
    spec_.prefix_ids.insert(spec_.prefix_ids.begin(), before.begin(), before.end());
    spec_.suffix_ids.insert(spec_.suffix_ids.end(), after.begin(), after.end());
    return absl::OkStatus();
  }

  absl::Status ForEachPart(const JsonValue& sequence, std::string_view key,
                           absl::Status (SpecReader::*read)(const JsonValue&)) {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue parts, sequence.At(key));
    if (!parts.IsArray()) return parts.Error("is not an array");
    for (size_t i = 0; i < parts.size(); ++i) HYDRANT_RETURN_IF_ERROR((this->*read)(parts[i]));
    return absl::OkStatus();
  }

  SplitStage& AddStage(SplitStage::Kind kind) {
    spec_.stages.emplace_back().kind = kind;
    return spec_.stages.back();
  }

  JsonValue root_;
  TokenizerSpec spec_;
  int64_t id_end_ = 0;
  bool byte_level_ = false;
};

}  // namespace

absl::StatusOr<TokenizerSpec> ReadTokenizerJson(const JsonDocument& document, const std::string& file) {
  return SpecReader(document.root(), file).Run();
}

}  // namespace hydrant
