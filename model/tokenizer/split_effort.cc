#include "model/tokenizer/split_effort.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "model/files/file_error.h"
#include "model/text/str_cat.h"
#include "model/text/utf8.h"
#include "model/tokenizer/pcre2_code.h"

namespace hydrant {
namespace {

// Characters of each text, and the pattern items that may be tried on it. Published patterns try up to 50 per character, a
// quadratic one at least half as many as the text has characters.
constexpr size_t kTextCharacters = 512;
constexpr int64_t kItemsMax = 192 * kTextCharacters;
// And on all texts together, for the texts are three times the square of the units: published patterns try up to 2.5 million.
constexpr int64_t kAllItemsMax = int64_t{1} << 25;
// Longer words are not repeated in the texts.
constexpr size_t kWordCharactersMax = kTextCharacters / 8;
// Published patterns have up to 10 classes and 26 units.
constexpr size_t kClassesMax = 64;
constexpr size_t kUnitsMax = 96;

// One of every general category, several of the frequent ones.
constexpr std::string_view kSamples[] = {
    "a", "A", "1", " ", "\n",     "\r",     "\t",     "_",      "'",      "!",      "-",      "(",
    ")", "+", "$", "^", "\x01",   "é",      "ǅ",      "ʰ",      "中",     "あ",     "ア",     "한",
    "ж", "ω", "ش", "ש", "अ",      "ไ",      "\u0301", "\u0903", "\u20DD", "Ⅷ",      "²",      "٣",
    "«", "»", "©", "😀", "\u00A0", "\u0085", "\u2028", "\u2029", "\u200D", "\u180E", "\uE000", "\U000E0FFF"};

std::string Utf8(uint32_t code_point) {
  std::string bytes;
  AppendUtf8(code_point, bytes);
  return bytes;
}

// Reads a translated pattern for the classes it has and the characters it spells.
class Reader {
 public:
  explicit Reader(std::string_view pattern) : in_(pattern) {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        Escape();
      } else if (c == '[') {
        Class();
      } else if (c == '.') {
        AddClass(at_, at_ + 1);
        ++at_;
      } else if (c == '{') {
        EndWord();
        at_ = std::min(in_.find('}', at_), in_.size() - 1) + 1;
      } else if (c == '(') {
        Group();
      } else if (std::string_view("*+?|)").find(c) != std::string_view::npos) {
        EndWord();
        ++at_;
      } else {
        Spell(TakeCharacter());
      }
    }
    EndWord();
  }

  std::set<std::string> classes;
  std::set<std::string> spelled;  // characters outside of classes
  std::set<std::string> members;  // characters named inside of classes
  std::set<std::string> words;    // two and more characters in a row
  bool caseless = false;

 private:
  std::string TakeCharacter() {
    const size_t bytes = NextUtf8Unit(in_.substr(at_)).bytes;
    at_ += bytes;
    return std::string(in_.substr(at_ - bytes, bytes));
  }

  // An escape that is one character, taken; "" for a class, which is left.
  std::string TakeEscape() {
    const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\\';
    if (c == 'p' || c == 'P') return "";
    if (c == 'x') {
      const size_t close = std::min(in_.find('}', at_), in_.size());
      const std::string digits(in_.substr(at_ + 3, close - at_ - 3));
      at_ = close + 1;
      return Utf8(static_cast<uint32_t>(std::strtoul(digits.c_str(), nullptr, 16)));
    }
    ++at_;
    const std::string character = TakeCharacter();
    return c == 'n' ? "\n" : c == 'r' ? "\r" : c == 't' ? "\t" : c == 'f' ? "\f" : character;
  }

  void SkipProperty() { at_ = std::min(in_.find('}', at_), in_.size() - 1) + 1; }

  void Escape() {
    const size_t begin = at_;
    const std::string character = TakeEscape();
    if (!character.empty()) return Spell(character);
    SkipProperty();
    AddClass(begin, at_);
  }

  void Class() {
    const size_t begin = at_++;
    if (at_ < in_.size() && in_[at_] == '^') ++at_;
    while (at_ < in_.size() && in_[at_] != ']') {
      const std::string character = in_[at_] == '\\' ? TakeEscape() : TakeCharacter();
      if (character.empty()) {
        SkipProperty();
      } else {
        members.insert(character);
      }
    }
    at_ = std::min(at_ + 1, in_.size());
    AddClass(begin, at_);
  }

  void Group() {
    EndWord();
    ++at_;
    if (at_ == in_.size() || in_[at_] != '?') return;
    caseless = caseless || in_.substr(at_, 3) == "?i:";
    while (at_ < in_.size() && std::string_view(":=!>").find(in_[at_]) == std::string_view::npos) ++at_;
    at_ = std::min(at_ + 1, in_.size());
  }

  void AddClass(size_t begin, size_t end) {
    EndWord();
    classes.emplace(in_.substr(begin, end - begin));
  }

  void Spell(const std::string& character) {
    spelled.insert(character);
    word_ += character;
    ++word_characters_;
  }

  void EndWord() {
    if (word_characters_ > 1 && word_characters_ <= kWordCharactersMax) words.insert(word_);
    word_.clear();
    word_characters_ = 0;
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string word_;
  size_t word_characters_ = 0;
};

// Whether a class has a character.
class Membership {
 public:
  explicit Membership(Pcre2Code code) : code_(std::move(code)), data_(pcre2_match_data_create(1, nullptr)) {}
  bool Has(std::string_view character) const {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR8>(character.data()), character.size(), 0,
                       PCRE2_NO_UTF_CHECK, data_.get(), nullptr) >= 0;
  }
  // The first character of Unicode that it has; "" if there is none.
  std::string First() const {
    for (uint32_t c = 1; c <= 0x10FFFF; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      if (std::string character = Utf8(c); Has(character)) return character;
    }
    return "";
  }

 private:
  Pcre2Code code_;
  Pcre2MatchData data_;
};

// PCRE2 calls it before every item of the pattern it tries; its own step count starts anew at every place of the text.
int CountItem(pcre2_callout_block*, void* left) {
  return --*static_cast<int64_t*>(left) < 0 ? PCRE2_ERROR_MATCHLIMIT : 0;
}

// Finds all matches in texts and counts. Items tried are counted, not time: the verdict is the same on every machine.
// Without JIT and without the shortcuts that see from afar that there is no match, which do not work in long texts.
class Trial {
 public:
  explicit Trial(Pcre2Code code)
      : code_(std::move(code)),
        data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    pcre2_set_callout(context_.get(), CountItem, &left_);
  }

  // 0, or PCRE2's error.
  int Run(std::string_view prefix, std::string_view unit, std::string_view end) {
    text_ = prefix;
    for (size_t characters = 0; characters < kTextCharacters;
         characters += static_cast<size_t>(CountCharacters(unit))) {
      text_ += unit;
    }
    text_ += end;
    const int64_t allowed = std::min(kItemsMax, all_left_);
    left_ = allowed;
    const int error = FindAll();
    all_left_ -= allowed - std::max<int64_t>(left_, 0);
    return error;
  }

 private:
  int FindAll() {
    for (size_t at = 0; at < text_.size();) {
      const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR8>(text_.data()), text_.size(), at,
                                    PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
      if (found == PCRE2_ERROR_NOMATCH) return 0;
      if (found < 0) return found;
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data_.get());
      at = ends[1] > at ? ends[1] : at + NextUtf8Unit(std::string_view(text_).substr(at)).bytes;
    }
    return 0;
  }

  Pcre2Code code_;
  Pcre2MatchData data_;
  Pcre2MatchContext context_;
  int64_t left_ = 0;
  int64_t all_left_ = kAllItemsMax;
  std::string text_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitAlphabet(std::string_view translated, std::string_view pattern,
                                                       std::string_view file) {
  const Reader reader(translated);
  if (reader.classes.size() > kClassesMax) {
    return FileError(file, "split pattern", "has ", reader.classes.size(), " classes of characters; at most ",
                     kClassesMax, " are supported");
  }
  std::set<std::string> candidates(std::begin(kSamples), std::end(kSamples));
  candidates.insert(reader.spelled.begin(), reader.spelled.end());
  candidates.insert(reader.members.begin(), reader.members.end());
  std::vector<Membership> classes;
  for (const std::string& source : reader.classes) {
    HYDRANT_ASSIGN_OR_RETURN(Pcre2Code code, CompilePcre2(StrCat("\\A", source, "\\z"),
                                                          reader.caseless ? PCRE2_CASELESS : 0, pattern, file));
    classes.emplace_back(std::move(code));
    const auto in_class = [&](const std::string& character) { return classes.back().Has(character); };
    if (std::any_of(candidates.begin(), candidates.end(), in_class)) continue;
    if (std::string first = classes.back().First(); !first.empty()) candidates.insert(std::move(first));
  }
  std::map<std::pair<uint64_t, std::string>, std::string> kinds;  // by the classes, and the character if it is spelled
  for (const std::string& candidate : candidates) {
    uint64_t in = 0;
    for (size_t i = 0; i < classes.size(); ++i) in |= uint64_t{classes[i].Has(candidate)} << i;
    kinds.emplace(std::pair(in, reader.spelled.contains(candidate) ? candidate : ""), candidate);
  }
  std::vector<std::string> units(reader.words.begin(), reader.words.end());
  for (const auto& [kind, character] : kinds) units.push_back(character);
  if (units.size() > kUnitsMax) {
    return FileError(file, "split pattern", "tells ", units.size(), " words and kinds of characters apart; at most ",
                     kUnitsMax, " are supported");
  }
  return units;
}

absl::Status CheckSplitEffort(std::string_view translated, std::string_view pattern, std::string_view file) {
  HYDRANT_ASSIGN_OR_RETURN(Pcre2Code code,
                           CompilePcre2(translated, PCRE2_NO_START_OPTIMIZE | PCRE2_AUTO_CALLOUT, pattern, file));
  HYDRANT_ASSIGN_OR_RETURN(const std::vector<std::string> units, SplitAlphabet(translated, pattern, file));
  Trial trial(std::move(code));
  const auto run = [&](std::string_view prefix, const std::string& unit, std::string_view end) {
    const int error = trial.Run(prefix, unit, end);
    if (error == 0) return absl::OkStatus();
    return FileError(file, "split pattern", "needs too many steps on a run of ", Quoted(unit), " (",
                     Pcre2Message(error), ") in ", Quoted(pattern));
  };
  for (const std::string& unit : units) {
    for (const std::string_view end : {"", "a", "!", "\x01"}) HYDRANT_RETURN_IF_ERROR(run("", unit, end));
    for (const std::string& other : units) {
      if (unit != other) HYDRANT_RETURN_IF_ERROR(run("", unit + other, "\x01"));
      for (const std::string_view end : {"", "\x01"}) HYDRANT_RETURN_IF_ERROR(run(other, unit, end));
    }
  }
  return absl::OkStatus();
}

}  // namespace hydrant
