#include "model/vocabulary/tokenizer_pipeline.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/files/file_error.h"
#include "model/text/utf8.h"

namespace hydrant {
namespace {

absl::StatusOr<std::string_view> TypeOf(const JsonValue& part) {
  HYDRANT_ASSIGN_OR_RETURN(const JsonValue type, part.At("type"));
  return type.String();
}

absl::Status Unsupported(const JsonValue& part, std::string_view type) {
  return part.Error("type ", Quoted(type), " is not supported");
}

absl::Status ReadString(const JsonValue& part, std::string_view key, std::string& out) {
  HYDRANT_ASSIGN_OR_RETURN(const JsonValue field, part.At(key));
  HYDRANT_ASSIGN_OR_RETURN(const std::string_view text, field.String());
  out = std::string(text);
  return absl::OkStatus();
}

absl::Status ReadCharacter(const JsonValue& part, std::string_view key, std::string& out) {
  HYDRANT_RETURN_IF_ERROR(ReadString(part, key, out));
  if (out.empty() || NextUtf8Unit(out).bytes != out.size()) return part.Error(Quoted(out), " is not one character");
  return absl::OkStatus();
}

absl::StatusOr<SplitStage::Behavior> ReadBehavior(const JsonValue& field) {
  static constexpr std::pair<std::string_view, SplitStage::Behavior> kBehaviors[] = {
      {"Isolated", SplitStage::Behavior::kIsolated},
      {"Removed", SplitStage::Behavior::kRemoved},
      {"MergedWithPrevious", SplitStage::Behavior::kMergedWithPrevious},
      {"MergedWithNext", SplitStage::Behavior::kMergedWithNext},
      {"Contiguous", SplitStage::Behavior::kContiguous},
  };
  HYDRANT_ASSIGN_OR_RETURN(const std::string_view name, field.String());
  const auto* known =
      std::find_if(std::begin(kBehaviors), std::end(kBehaviors), [&](const auto& b) { return b.first == name; });
  if (known == std::end(kBehaviors)) return field.Error(Quoted(name), " is not supported");
  return known->second;
}

// A pattern is a text or a regular expression.
struct Pattern {
  std::string text;
  bool is_regex = false;
};

absl::StatusOr<Pattern> ReadPattern(const JsonValue& part) {
  HYDRANT_ASSIGN_OR_RETURN(const JsonValue pattern, part.At("pattern"));
  const auto regex = pattern.Find("Regex");
  const auto literal = pattern.Find("String");
  if (!regex && !literal) return pattern.Error("is neither a Regex nor a String");
  HYDRANT_ASSIGN_OR_RETURN(const std::string_view text, (regex ? *regex : *literal).String());
  if (literal && !regex && text.size() > kLiteralBytesMax) {
    return literal->Error("is longer than ", kLiteralBytesMax, " bytes");
  }
  return Pattern{std::string(text), regex.has_value()};
}

// What the pre-tokenizer and the decoder of this name have in common.
struct Metaspace {
  std::string replacement = std::string(kSpaceMark);
  SplitStage::Prefix prefix = SplitStage::Prefix::kAlways;
  bool split = true;
};

absl::StatusOr<Metaspace> ReadMetaspace(const JsonValue& part) {
  Metaspace metaspace;
  if (part.Find("replacement")) HYDRANT_RETURN_IF_ERROR(ReadCharacter(part, "replacement", metaspace.replacement));
  bool prefix_space = true;
  HYDRANT_RETURN_IF_ERROR(part.Read("add_prefix_space", prefix_space));
  if (!prefix_space) metaspace.prefix = SplitStage::Prefix::kNever;
  if (const auto field = part.Find("prepend_scheme")) {
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view scheme, field->String());
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      return field->Error(Quoted(scheme), " is not supported");
    }
    metaspace.prefix = scheme == "always"  ? SplitStage::Prefix::kAlways
                       : scheme == "first" ? SplitStage::Prefix::kFirst
                                           : SplitStage::Prefix::kNever;
  }
  HYDRANT_RETURN_IF_ERROR(part.Read("split", metaspace.split));
  return metaspace;
}

// Its recursion is as deep as the document, which JsonLimits bounds.
class PipelineReader {
 public:
  PipelineReader(int64_t id_end, TokenizerSpec& spec) : id_end_(id_end), spec_(spec) {}

  absl::Status Run(const JsonValue& root) {
    if (const auto part = root.Find("normalizer")) HYDRANT_RETURN_IF_ERROR(ReadNormalizer(*part));
    if (const auto part = root.Find("pre_tokenizer")) HYDRANT_RETURN_IF_ERROR(ReadPreTokenizer(*part));
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue decoder, root.At("decoder"));
    HYDRANT_RETURN_IF_ERROR(ReadDecoder(decoder));
    if (const auto part = root.Find("post_processor")) HYDRANT_RETURN_IF_ERROR(ReadPostProcessor(*part));
    return absl::OkStatus();
  }

 private:
  absl::Status ForEachPart(const JsonValue& sequence, std::string_view key,
                           absl::Status (PipelineReader::*read)(const JsonValue&)) {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue parts, sequence.At(key));
    if (!parts.IsArray()) return parts.Error("is not an array");
    for (size_t i = 0; i < parts.size(); ++i) HYDRANT_RETURN_IF_ERROR((this->*read)(parts[i]));
    return absl::OkStatus();
  }

  // --- normalizer -------------------------------------------------------------------------------------------------------

  absl::Status ReadNormalizer(const JsonValue& part) {
    static constexpr std::pair<std::string_view, NormalizerStep::Kind> kPlain[] = {
        {"NFC", NormalizerStep::Kind::kNfc},
        {"NFD", NormalizerStep::Kind::kNfd},
        {"NFKC", NormalizerStep::Kind::kNfkc},
        {"NFKD", NormalizerStep::Kind::kNfkd},
        {"Lowercase", NormalizerStep::Kind::kLowercase},
        {"StripAccents", NormalizerStep::Kind::kStripAccents},
    };
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(part));
    if (type == "Sequence") return ForEachPart(part, "normalizers", &PipelineReader::ReadNormalizer);
    NormalizerStep step;
    const auto* plain =
        std::find_if(std::begin(kPlain), std::end(kPlain), [&](const auto& p) { return p.first == type; });
    if (plain != std::end(kPlain)) {
      step.kind = plain->second;
    } else if (type == "Strip") {
      step.kind = NormalizerStep::Kind::kStrip;
      step.left = step.right = true;
      HYDRANT_RETURN_IF_ERROR(part.Read("strip_left", step.left));
      HYDRANT_RETURN_IF_ERROR(part.Read("strip_right", step.right));
    } else if (type == "Replace") {
      HYDRANT_ASSIGN_OR_RETURN(Pattern pattern, ReadPattern(part));
      step.kind = pattern.is_regex ? NormalizerStep::Kind::kReplaceRegex : NormalizerStep::Kind::kReplace;
      step.pattern = std::move(pattern.text);
      HYDRANT_RETURN_IF_ERROR(ReadString(part, "content", step.content));
    } else if (type == "Prepend") {
      step.kind = NormalizerStep::Kind::kPrepend;
      HYDRANT_RETURN_IF_ERROR(ReadString(part, "prepend", step.content));
    } else {
      return Unsupported(part, type);
    }
    spec_.normalizer.push_back(std::move(step));
    return absl::OkStatus();
  }

  // --- pre-tokenizer ----------------------------------------------------------------------------------------------------

  absl::Status ReadPreTokenizer(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(part));
    if (type == "Sequence") return ForEachPart(part, "pretokenizers", &PipelineReader::ReadPreTokenizer);
    // From ByteLevel on, text is spelled in the byte alphabet, where \p{L} and the like mean something else.
    if (spec_.byte_level) return part.Error("type ", Quoted(type), " after ByteLevel is not supported");
    if (type == "ByteLevel") return ReadByteLevel(part);
    if (type == "Split") return ReadSplit(part);
    if (type == "Metaspace") return ReadMetaspaceStage(part);
    if (type == "Digits") {
      bool individual = false;
      HYDRANT_RETURN_IF_ERROR(part.Read("individual_digits", individual));
      AddStage(individual ? SplitStage::Kind::kDigits : SplitStage::Kind::kDigitRuns);
      return absl::OkStatus();
    }
    if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
      AddStage(SplitStage::Kind::kWhiteSpace).behavior = SplitStage::Behavior::kRemoved;
      if (type == "BertPreTokenizer") AddStage(SplitStage::Kind::kPunctuation);
      return absl::OkStatus();
    }
    if (type == "Whitespace") {
      // \w+|[^\w\s]+ in the words of Rust's regular expressions, where joiners are word characters too.
      SplitStage& stage = AddStage(SplitStage::Kind::kRegex);
      stage.pattern =
          R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\s]+)";
      stage.behavior = SplitStage::Behavior::kRemoved;
      stage.invert = true;
      return absl::OkStatus();
    }
    if (type == "Punctuation") {
      SplitStage& stage = AddStage(SplitStage::Kind::kPunctuation);
      if (const auto behavior = part.Find("behavior")) {
        HYDRANT_ASSIGN_OR_RETURN(stage.behavior, ReadBehavior(*behavior));
      }
      return absl::OkStatus();
    }
    if (type == "CharDelimiterSplit") {
      SplitStage& stage = AddStage(SplitStage::Kind::kLiteral);
      stage.behavior = SplitStage::Behavior::kRemoved;
      return ReadCharacter(part, "delimiter", stage.pattern);
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
    spec_.byte_level = true;
    return absl::OkStatus();
  }

  absl::Status ReadSplit(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(Pattern pattern, ReadPattern(part));
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue behavior, part.At("behavior"));
    SplitStage& stage = AddStage(pattern.is_regex ? SplitStage::Kind::kRegex : SplitStage::Kind::kLiteral);
    stage.pattern = std::move(pattern.text);
    HYDRANT_ASSIGN_OR_RETURN(stage.behavior, ReadBehavior(behavior));
    return part.Read("invert", stage.invert);
  }

  absl::Status ReadMetaspaceStage(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(Metaspace metaspace, ReadMetaspace(part));
    SplitStage& stage = AddStage(SplitStage::Kind::kMetaspace);
    stage.pattern = std::move(metaspace.replacement);
    stage.prefix = metaspace.prefix;
    stage.cuts = metaspace.split;
    return absl::OkStatus();
  }

  SplitStage& AddStage(SplitStage::Kind kind) {
    spec_.stages.emplace_back().kind = kind;
    return spec_.stages.back();
  }

  // --- decoder ----------------------------------------------------------------------------------------------------------

  absl::Status ReadDecoder(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(part));
    if (type == "Sequence") return ForEachPart(part, "decoders", &PipelineReader::ReadDecoder);
    DecoderStep step;
    if (type == "ByteLevel") {
      step.kind = DecoderStep::Kind::kByteLevel;
    } else if (type == "ByteFallback") {
      step.kind = DecoderStep::Kind::kByteFallback;
    } else if (type == "Fuse") {
      step.kind = DecoderStep::Kind::kFuse;
    } else if (type == "Replace") {
      HYDRANT_ASSIGN_OR_RETURN(Pattern pattern, ReadPattern(part));
      if (pattern.is_regex) return part.Error("Replace of a Regex is not supported");
      step.pattern = std::move(pattern.text);
      HYDRANT_RETURN_IF_ERROR(ReadString(part, "content", step.content));
    } else if (type == "Strip") {
      // More than any text has at its ends, and no work.
      constexpr int64_t kStripMax = 1 << 20;
      step.kind = DecoderStep::Kind::kStrip;
      HYDRANT_RETURN_IF_ERROR(ReadCharacter(part, "content", step.content));
      HYDRANT_RETURN_IF_ERROR(part.Read("start", 0, kStripMax, step.start));
      HYDRANT_RETURN_IF_ERROR(part.Read("stop", 0, kStripMax, step.stop));
    } else if (type == "Metaspace") {
      HYDRANT_ASSIGN_OR_RETURN(Metaspace metaspace, ReadMetaspace(part));
      step.kind = DecoderStep::Kind::kMetaspace;
      step.pattern = std::move(metaspace.replacement);
      step.drops_first = metaspace.prefix != SplitStage::Prefix::kNever;
    } else {
      return Unsupported(part, type);
    }
    spec_.decoder.push_back(std::move(step));
    return absl::OkStatus();
  }

  // --- post-processor ---------------------------------------------------------------------------------------------------

  absl::Status ReadPostProcessor(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(part));
    if (type == "ByteLevel") return absl::OkStatus();  // it moves offsets only
    if (type == "Sequence") return ForEachPart(part, "processors", &PipelineReader::ReadPostProcessor);
    if (type == "TemplateProcessing") return ReadTemplate(part);
    if (type == "RobertaProcessing" || type == "BertProcessing") {
      std::vector<int32_t> before, after;
      HYDRANT_RETURN_IF_ERROR(ReadNamedId(part, "cls", before));
      HYDRANT_RETURN_IF_ERROR(ReadNamedId(part, "sep", after));
      Wrap(before, after);
      return absl::OkStatus();
    }
    return Unsupported(part, type);
  }

  // ["<s>", 0]
  absl::Status ReadNamedId(const JsonValue& part, std::string_view key, std::vector<int32_t>& ids) const {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue pair, part.At(key));
    if (pair.size() != 2) return pair.Error("is not a pair");
    HYDRANT_ASSIGN_OR_RETURN(const int64_t id, pair[1].Int(0, id_end_ - 1));
    ids.push_back(static_cast<int32_t>(id));
    return absl::OkStatus();
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
    Wrap(before, after);
    return absl::OkStatus();
  }

  // A later processor wraps what the earlier ones made.
  void Wrap(const std::vector<int32_t>& before, const std::vector<int32_t>& after) {
    spec_.prefix_ids.insert(spec_.prefix_ids.begin(), before.begin(), before.end());
    spec_.suffix_ids.insert(spec_.suffix_ids.end(), after.begin(), after.end());
  }

  int64_t id_end_;
  TokenizerSpec& spec_;
};

}  // namespace

absl::Status ReadTokenizerPipeline(const JsonValue& root, int64_t id_end, TokenizerSpec& spec) {
  return PipelineReader(id_end, spec).Run(root);
}

}  // namespace hydrant
