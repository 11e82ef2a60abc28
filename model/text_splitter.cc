#include "model/text_splitter.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "model/file_error.h"
#include "model/utf8.h"

namespace hydrant {
namespace {

bool IsNumeric(uint32_t code_point) {
  if (code_point < 0x80) return code_point >= '0' && code_point <= '9';
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

}  // namespace

absl::StatusOr<TextSplitter> TextSplitter::Create(const std::vector<SplitStage>& stages, std::string_view file) {
  // Published pre-tokenizers have at most five.
  constexpr size_t kStagesMax = 16;
  if (stages.size() > kStagesMax) {
    return FileError(file, "pre_tokenizer", "has ", stages.size(), " stages; at most ", kStagesMax, " are supported");
  }
  TextSplitter splitter;
  for (const SplitStage& from : stages) {
    Stage stage{from.kind, from.behavior, from.invert, {}, nullptr};
    if (from.kind == SplitStage::Kind::kRegex) {
      HYDRANT_ASSIGN_OR_RETURN(SplitRegex regex, SplitRegex::Create(from.pattern, file));
      stage.regex = std::make_unique<SplitRegex>(std::move(regex));
    } else if (from.kind == SplitStage::Kind::kLiteral) {
      if (from.pattern.empty()) return FileError(file, "pre_tokenizer", "splits at an empty string");
      stage.literal = from.pattern;
    } else if (from.kind == SplitStage::Kind::kDigitRuns) {
      stage.behavior = SplitStage::Behavior::kContiguous;
    }
    splitter.stages_.push_back(std::move(stage));
  }
  return splitter;
}

TextSplitter::Scratch::Scratch(const TextSplitter& splitter) {
  for (const Stage& stage : splitter.stages_) {
    matchers_.push_back(stage.regex == nullptr ? nullptr : std::make_unique<SplitRegex::Matcher>(*stage.regex));
  }
}

const std::vector<std::string_view>& TextSplitter::Split(std::string_view text, Scratch& scratch) const {
  scratch.words_.assign(text.empty() ? 0 : 1, text);
  scratch.owned_.clear();
  for (size_t s = 0; s < stages_.size(); ++s) {
    scratch.next_.clear();
    for (const std::string_view piece : scratch.words_) {
      if (stages_[s].kind == SplitStage::Kind::kPrefixSpace) {
        if (!piece.starts_with(' ')) scratch.owned_.push_back(std::make_unique<std::string>(" " + std::string(piece)));
        scratch.next_.push_back(piece.starts_with(' ') ? piece : std::string_view(*scratch.owned_.back()));
        continue;
      }
      FindRanges(s, piece, scratch);
      EmitPieces(stages_[s], piece, scratch);
    }
    scratch.words_.swap(scratch.next_);
  }
  return scratch.words_;
}

// Fills scratch.ranges_ with matches and what lies between them; together they cover the piece.
void TextSplitter::FindRanges(size_t index, std::string_view piece, Scratch& scratch) const {
  const Stage& stage = stages_[index];
  auto& ranges = scratch.ranges_;
  ranges.clear();
  size_t done = 0;
  const auto add_match = [&](size_t begin, size_t end) {
    if (begin > done) ranges.push_back({done, begin, stage.invert});
    ranges.push_back({begin, end, !stage.invert});
    done = end;
  };
  switch (stage.kind) {
    case SplitStage::Kind::kRegex: {
      size_t at = 0;
      SplitRegex::Match match;
      while (at <= piece.size() && scratch.matchers_[index]->Find(piece, at, match)) {
        add_match(match.begin, match.end);
        // After an empty match the search goes on one character further.
        at = match.end > match.begin    ? match.end
             : match.end < piece.size() ? match.end + NextUtf8Unit(piece.substr(match.end)).bytes
                                        : piece.size() + 1;
      }
      break;
    }
    case SplitStage::Kind::kLiteral:
      for (size_t at = piece.find(stage.literal); at != piece.npos;
           at = piece.find(stage.literal, at + stage.literal.size())) {
        add_match(at, at + stage.literal.size());
      }
      break;
    case SplitStage::Kind::kDigits:
    case SplitStage::Kind::kDigitRuns:
      for (size_t at = 0; at < piece.size();) {
        const Utf8Unit unit = NextUtf8Unit(piece.substr(at));
        if (IsNumeric(unit.code_point)) add_match(at, at + unit.bytes);
        at += unit.bytes;
      }
      break;
    case SplitStage::Kind::kPrefixSpace:
      break;
  }
  if (done < piece.size()) ranges.push_back({done, piece.size(), stage.invert});
}

// The same rules as Hugging Face's NormalizedString::split, applied to scratch.ranges_.
void TextSplitter::EmitPieces(const Stage& stage, std::string_view piece, Scratch& scratch) {
  auto& ranges = scratch.ranges_;
  const auto emit = [&](size_t begin, size_t end) {
    if (end > begin) scratch.next_.push_back(piece.substr(begin, end - begin));
  };
  switch (stage.behavior) {
    case SplitStage::Behavior::kIsolated:
      for (const auto& range : ranges) emit(range.begin, range.end);
      return;
    case SplitStage::Behavior::kRemoved:
      for (const auto& range : ranges) {
        if (!range.match) emit(range.begin, range.end);
      }
      return;
    case SplitStage::Behavior::kContiguous:
      for (size_t i = 0; i < ranges.size();) {
        size_t j = i + 1;
        while (j < ranges.size() && ranges[j].match == ranges[i].match) ++j;
        emit(ranges[i].begin, ranges[j - 1].end);
        i = j;
      }
      return;
    case SplitStage::Behavior::kMergedWithPrevious:
      // A match right after a match stands alone.
      for (size_t i = 0; i < ranges.size();) {
        const bool joins = !ranges[i].match && i + 1 < ranges.size() && ranges[i + 1].match;
        emit(ranges[i].begin, ranges[i + (joins ? 1 : 0)].end);
        i += joins ? 2 : 1;
      }
      return;
    case SplitStage::Behavior::kMergedWithNext:
      for (size_t i = 0; i < ranges.size();) {
        const bool joins = ranges[i].match && i + 1 < ranges.size() && !ranges[i + 1].match;
        emit(ranges[i].begin, ranges[i + (joins ? 1 : 0)].end);
        i += joins ? 2 : 1;
      }
      return;
  }
}

}  // namespace hydrant
