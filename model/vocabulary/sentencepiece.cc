#include "model/vocabulary/sentencepiece.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "model/files/file_error.h"
#include "model/text/utf8.h"

namespace hydrant {
namespace {

// SentencePiece itself stops at 16 characters; runs of spaces were trained longer by hand.
constexpr size_t kMergedBytesMax = 256;

struct ScoredMerge {
  float score;
  int32_t left_characters, right_characters;
  std::string_view left, right;
};

// Every way to put a piece together from two others, the best score first. Of the ways to one piece the longest left part
// goes first, and what is still equal goes by the ids of the parts: transformers' order.
absl::Status AddMerges(const SentencePieceVocabulary& vocabulary, TokenizerSpec& spec) {
  const auto merges = [&](size_t id) {
    const PieceType type = vocabulary.types[id];
    return type == PieceType::kNormal || type == PieceType::kUserDefined || type == PieceType::kUnused;
  };
  absl::flat_hash_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < spec.pieces.size(); ++id) {
    if (merges(id) && !spec.pieces[id].empty()) ids.emplace(spec.pieces[id], static_cast<int32_t>(id));
  }
  std::vector<ScoredMerge> found;
  std::vector<std::tuple<int32_t, int32_t, ScoredMerge>> local;
  for (size_t id = 0; id < spec.pieces.size(); ++id) {
    const std::string_view piece = spec.pieces[id];
    if (!merges(id) || piece.size() > kMergedBytesMax) continue;
    local.clear();
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      if ((static_cast<unsigned char>(piece[cut]) & 0xC0) == 0x80) continue;
      const std::string_view left = piece.substr(0, cut), right = piece.substr(cut);
      const auto left_id = ids.find(left), right_id = ids.find(right);
      if (left_id == ids.end() || right_id == ids.end()) continue;
      local.emplace_back(
          left_id->second, right_id->second,
          ScoredMerge{vocabulary.scores[id], CountCharacters(left), CountCharacters(right), left, right});
    }
    std::stable_sort(local.begin(), local.end(), [](const auto& a, const auto& b) {
      return std::pair(std::get<0>(a), std::get<1>(a)) < std::pair(std::get<0>(b), std::get<1>(b));
    });
    for (const auto& entry : local) found.push_back(std::get<2>(entry));
  }
  std::stable_sort(found.begin(), found.end(), [](const ScoredMerge& a, const ScoredMerge& b) {
    return std::tuple(a.score, a.left_characters, a.right_characters) >
           std::tuple(b.score, b.left_characters, b.right_characters);
  });
  spec.merges.reserve(found.size());
  for (const ScoredMerge& merge : found) spec.merges.emplace_back(merge.left, merge.right);
  return absl::OkStatus();
}

void AddPrefix(const SentencePieceVocabulary& vocabulary, TokenizerSpec& spec) {
  if (vocabulary.removes_extra_spaces) {
    spec.normalizer.push_back({.kind = NormalizerStep::Kind::kStrip, .left = true, .right = true});
    spec.normalizer.push_back({.kind = NormalizerStep::Kind::kReplaceRegex, .pattern = " {2,}", .content = " "});
  }
  if (vocabulary.prefix_first_only) {
    SplitStage stage;
    stage.kind = SplitStage::Kind::kMetaspace;
    stage.pattern = std::string(kSpaceMark);
    stage.prefix = vocabulary.prefix_space ? SplitStage::Prefix::kFirst : SplitStage::Prefix::kNever;
    stage.cuts = false;
    spec.stages.push_back(std::move(stage));
    return;
  }
  if (vocabulary.prefix_space) {
    spec.normalizer.push_back({.kind = NormalizerStep::Kind::kPrepend, .content = std::string(kSpaceMark)});
  }
  spec.normalizer.push_back(
      {.kind = NormalizerStep::Kind::kReplace, .pattern = " ", .content = std::string(kSpaceMark)});
}

}  // namespace

void AddTokenOfType(size_t id, PieceType type, TokenizerSpec& spec) {
  if (type != PieceType::kUnknown && type != PieceType::kControl && type != PieceType::kUserDefined) return;
  AddedToken token;
  token.id = static_cast<int32_t>(id);
  token.content = spec.pieces[id];
  token.special = type != PieceType::kUserDefined;
  spec.added.push_back(token);
}

absl::Status FillSentencePieceSpec(const SentencePieceVocabulary& vocabulary, TokenizerSpec& spec) {
  spec.pieces = vocabulary.pieces;
  for (const float score : vocabulary.scores) {
    if (!(score == score)) return FileError(spec.file, "vocabulary", "a score is not a number");
  }
  for (size_t id = 0; id < spec.pieces.size(); ++id) {
    const PieceType type = vocabulary.types[id];
    if (type == PieceType::kByte) spec.byte_fallback = true;
    if (type == PieceType::kUnknown) spec.unknown_id = static_cast<int32_t>(id);
    AddTokenOfType(id, type, spec);
  }
  spec.fuse_unknown = true;
  HYDRANT_RETURN_IF_ERROR(AddMerges(vocabulary, spec));
  AddPrefix(vocabulary, spec);
  spec.decoder.push_back({.kind = DecoderStep::Kind::kReplace, .pattern = std::string(kSpaceMark), .content = " "});
  spec.decoder.push_back({.kind = DecoderStep::Kind::kByteFallback});
  spec.decoder.push_back({.kind = DecoderStep::Kind::kFuse});
  if (vocabulary.prefix_space) {
    spec.decoder.push_back({.kind = DecoderStep::Kind::kStrip, .content = " ", .start = 1});
  }
  return absl::OkStatus();
}

}  // namespace hydrant
