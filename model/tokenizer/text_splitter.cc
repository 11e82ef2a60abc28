#include "model/tokenizer/text_splitter.h"

#include <algorithm>
#include <utility>

#include "model/files/file_error.h"
#include "model/text/unicode_class.h"
#include "model/text/utf8.h"

namespace hydrant {
namespace {

// Whether a character is a match of a stage that matches characters one by one.
bool IsMatch(SplitStage::Kind kind, const Utf8Unit& unit) {
  switch (kind) {
    case SplitStage::Kind::kWhiteSpace:
      return IsWhiteSpace(unit.code_point);
    case SplitStage::Kind::kPunctuation:
      return IsPunctuation(unit.code_point);
    default:
      return IsNumber(unit.code_point);
  }
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
    Stage stage{from.kind, from.behavior, from.invert, from.prefix, from.cuts, {}, nullptr, KnownSplit::kNone};
    if (from.kind == SplitStage::Kind::kRegex) {
      const bool isolated = from.behavior == SplitStage::Behavior::kIsolated;
      if (isolated && !from.invert) stage.known = FindKnownSplit(from.pattern);
      if (stage.known == KnownSplit::kNone) {
        HYDRANT_ASSIGN_OR_RETURN(SplitRegex regex, SplitRegex::Create(from.pattern, file));
        stage.regex = std::make_unique<SplitRegex>(std::move(regex));
      }
    } else if (from.kind == SplitStage::Kind::kLiteral) {
      if (from.pattern.empty()) return FileError(file, "pre_tokenizer", "splits at an empty string");
      stage.literal = from.pattern;
    } else if (from.kind == SplitStage::Kind::kMetaspace) {
      if (from.pattern.empty()) return FileError(file, "pre_tokenizer", "replaces spaces by an empty string");
      stage.literal = from.pattern;
      stage.behavior = SplitStage::Behavior::kMergedWithNext;
    } else if (from.kind == SplitStage::Kind::kDigitRuns) {
      stage.behavior = SplitStage::Behavior::kContiguous;
    }
    // In front of every piece, which may be one byte, or for every space.
    if (stage.kind == SplitStage::Kind::kPrefixSpace) splitter.growth_ *= 2;
    if (stage.kind == SplitStage::Kind::kMetaspace) splitter.growth_ *= 1 + static_cast<double>(stage.literal.size());
    splitter.stages_.push_back(std::move(stage));
  }
  return splitter;
}

TextSplitter::Scratch::Scratch(const TextSplitter& splitter) {
  for (const Stage& stage : splitter.stages_) {
    matchers_.push_back(stage.regex == nullptr ? nullptr : std::make_unique<SplitRegex::Matcher>(*stage.regex));
  }
}

const std::vector<std::string_view>& TextSplitter::Split(std::string_view text, bool first, Scratch& scratch) const {
  scratch.words_.assign(text.empty() ? 0 : 1, text);
  scratch.owned_.clear();
  for (size_t s = 0; s < stages_.size(); ++s) {
    scratch.next_.clear();
    for (size_t i = 0; i < scratch.words_.size(); ++i) {
      const std::string_view piece = scratch.words_[i];
      const size_t before = scratch.next_.size();
      RunStage(s, piece, first && i == 0, scratch);
      // The first piece of the next stage stands first only if nothing before it was dropped.
      const bool whole = stages_[s].behavior != SplitStage::Behavior::kRemoved;
      const bool leads = scratch.next_.size() > before && scratch.next_[before].data() == piece.data();
      if (i == 0) first = first && (whole || leads);
    }
    scratch.words_.swap(scratch.next_);
  }
  return scratch.words_;
}

void TextSplitter::RunStage(size_t index, std::string_view piece, bool first, Scratch& scratch) const {
  const Stage& stage = stages_[index];
  if (stage.known != KnownSplit::kNone) {
    while (!piece.empty()) {
      const size_t end = FirstWordEnd(stage.known, piece);
      scratch.next_.push_back(piece.substr(0, end));
      piece.remove_prefix(end);
    }
    return;
  }
  if (stage.kind == SplitStage::Kind::kPrefixSpace || stage.kind == SplitStage::Kind::kMetaspace) {
    piece = MarkSpaces(stage, piece, first, scratch);
    if (stage.kind == SplitStage::Kind::kPrefixSpace || !stage.cuts) {
      scratch.next_.push_back(piece);
      return;
    }
  }
  FindRanges(index, piece, scratch);
  EmitPieces(stage, piece, scratch);
}

// The piece with what kPrefixSpace or kMetaspace puts into it.
std::string_view TextSplitter::MarkSpaces(const Stage& stage, std::string_view piece, bool first, Scratch& scratch) {
  auto marked = std::make_unique<std::string>();
  if (stage.kind == SplitStage::Kind::kPrefixSpace) {
    if (piece.starts_with(' ')) return piece;
    marked->append(" ").append(piece);
  } else {
    const bool prefix =
        stage.prefix == SplitStage::Prefix::kAlways || (stage.prefix == SplitStage::Prefix::kFirst && first);
    if (prefix && !piece.starts_with(' ') && !piece.starts_with(stage.literal)) marked->append(stage.literal);
    for (size_t at = 0; at < piece.size();) {
      const size_t space = std::min(piece.find(' ', at), piece.size());
      marked->append(piece.substr(at, space - at));
      if (space < piece.size()) marked->append(stage.literal);
      at = space + 1;
    }
  }
  scratch.owned_.push_back(std::move(marked));
  return *scratch.owned_.back();
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
    case SplitStage::Kind::kMetaspace:
      for (size_t at = piece.find(stage.literal); at != piece.npos;
           at = piece.find(stage.literal, at + stage.literal.size())) {
        add_match(at, at + stage.literal.size());
      }
      break;
    case SplitStage::Kind::kDigits:
    case SplitStage::Kind::kDigitRuns:
    case SplitStage::Kind::kWhiteSpace:
    case SplitStage::Kind::kPunctuation:
      for (size_t at = 0; at < piece.size();) {
        const Utf8Unit unit = NextUtf8Unit(piece.substr(at));
        if (IsMatch(stage.kind, unit)) add_match(at, at + unit.bytes);
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
