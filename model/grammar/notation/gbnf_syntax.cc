#include "model/grammar/notation/gbnf_syntax.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/grammar/regex/regex_arena.h"
#include "model/grammar/regex/steady_map.h"
#include "model/text/str_cat.h"
#include "model/text/utf8.h"

namespace hydrant::grammar {
namespace {

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

// Groups are kept on a stack, so that no text makes the reader recurse.
class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {}

  std::variant<GbnfSyntax, std::string> Read() {
    if (ValidUtf8Prefix(text_) != text_.size()) return std::string("not UTF-8");
    for (SkipSpace(true); at_ < text_.size() && !error_; SkipSpace(true)) ReadRule();
    for (const GbnfRule& rule : syntax_.rules) {
      if (!rule.is_defined) Fail(rule.place, StrCat("there is no rule '", rule.name, "'"));
    }
    if (!rule_of_.contains("root")) Fail(0, "there is no rule 'root'");
    if (error_) return *std::move(error_);
    return std::move(syntax_);
  }

 private:
  using Kind = GbnfNode::Kind;

  // A group that is open: its alternatives so far, and the parts of the last one.
  struct Group {
    size_t place = 0;
    std::vector<size_t> ways, parts;
  };

  void Fail(size_t place, std::string_view what) {
    if (!error_) error_ = AtPlace(text_, place, what);
  }
  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void SkipSpace(bool over_lines) {
    for (; at_ < text_.size(); ++at_) {
      if (Peek() == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        if (!over_lines || at_ == text_.size()) return;
      } else if (Peek() == '\n' || Peek() == '\r') {
        if (!over_lines) return;
      } else if (Peek() != ' ' && Peek() != '\t') {
        return;
      }
    }
  }
  size_t Add(GbnfNode node) {
    syntax_.nodes.push_back(std::move(node));
    return syntax_.nodes.size() - 1;
  }
  int32_t RuleOf(std::string_view name, size_t place) {
    const auto [found, added] = rule_of_.try_emplace(std::string(name), static_cast<int32_t>(syntax_.rules.size()));
    if (added) syntax_.rules.push_back({std::string(name), place});
    if (syntax_.rules.size() > kGbnfRulesMax) Fail(place, StrCat("more than ", kGbnfRulesMax, " rules"));
    return found->second;
  }
  std::string_view ReadName() {
    const size_t begin = at_;
    while (IsNameByte(Peek())) ++at_;
    if (at_ == begin) Fail(at_, "a name is expected");
    return text_.substr(begin, at_ - begin);
  }

  void ReadRule() {
    const size_t place = at_;
    const std::string_view name = ReadName();
    SkipSpace(false);
    if (!error_ && !text_.substr(at_).starts_with("::=")) Fail(at_, "'::=' is expected");
    if (error_) return;
    at_ += 3;
    SkipSpace(true);
    const auto rule = static_cast<size_t>(RuleOf(name, place));
    if (syntax_.rules[rule].is_defined) Fail(place, StrCat("the rule '", std::string(name), "' is there twice"));
    syntax_.rules[rule].is_defined = true;
    groups_.assign(1, {at_, {}, {}});
    while (!error_ && ReadPart()) {
    }
    if (error_) return;
    if (groups_.size() > 1) return Fail(groups_.back().place, "'(' is not closed");
    syntax_.rules[rule].root = CloseGroup();
    SkipSpace(false);
    if (at_ < text_.size() && Peek() != '\n' && Peek() != '\r')
      Fail(at_, "a new line, or a part of a rule, is expected");
  }

  // The alternatives of the innermost group, taken from the stack.
  size_t CloseGroup() {
    Group group = std::move(groups_.back());
    groups_.pop_back();
    group.ways.push_back(Join(Kind::kConcat, group.place, std::move(group.parts)));
    return Join(Kind::kOr, group.place, std::move(group.ways));
  }
  size_t Join(Kind kind, size_t place, std::vector<size_t> parts) {
    if (parts.size() == 1) return parts[0];
    GbnfNode node;
    node.kind = kind;
    node.place = place;
    node.parts = std::move(parts);
    return Add(std::move(node));
  }

  // False where the rule ends.
  bool ReadPart() {
    const bool inside = groups_.size() > 1;
    SkipSpace(inside);
    if (at_ >= text_.size()) return false;
    const char c = Peek();
    if (c == '\n' || c == '\r') return false;
    if (c == '|') {
      Group& group = groups_.back();
      ++at_;
      SkipSpace(true);
      group.ways.push_back(Join(Kind::kConcat, group.place, std::exchange(group.parts, {})));
      return true;
    }
    if (c == '(') {
      if (groups_.size() > kGbnfDepthMax) Fail(at_, StrCat("more than ", kGbnfDepthMax, " groups inside each other"));
      if (Peek(1) == '=' || Peek(1) == '!') Fail(at_, "look-ahead is not supported");
      groups_.push_back({at_++, {}, {}});
      return true;
    }
    if (c == ')') {
      if (!inside) {
        Fail(at_, "')' closes nothing");
        return false;
      }
      ++at_;
      AddPart(CloseGroup());
      return true;
    }
    if (c == '"') return ReadText();
    if (c == '[') return ReadClass();
    if (c == '.') {
      GbnfNode node;
      node.kind = Kind::kClass;
      node.place = at_++;
      node.characters = CharClass::All();
      node.characters.Normalise();
      AddPart(Add(std::move(node)));
      return true;
    }
    if (c == '<' || c == '!') Fail(at_, "tokens cannot be named");
    if (!IsNameByte(c))
      Fail(at_,
           StrCat("'", std::string(text_.substr(at_, NextUtf8Unit(text_.substr(at_)).bytes)), "' means nothing here"));
    if (error_) return false;
    GbnfNode node;
    node.kind = Kind::kRule;
    node.place = at_;
    const std::string_view name = ReadName();
    node.rule = RuleOf(name, node.place);
    AddPart(Add(std::move(node)));
    return true;
  }

  // Adds a part with the repetitions that stand behind it.
  void AddPart(size_t part) {
    int repeats = 0;
    for (SkipSpace(groups_.size() > 1); !error_; SkipSpace(groups_.size() > 1)) {
      GbnfNode repeat;
      repeat.kind = Kind::kRepeat;
      repeat.place = at_;
      repeat.parts = {part};
      repeat.most = kUnbounded;
      const char c = Peek();
      if (c == '?') {
        repeat.most = 1;
      } else if (c == '+') {
        repeat.least = 1;
      } else if (c == '{') {
        if (!ReadCounts(repeat)) return;
      } else if (c != '*') {
        break;
      }
      if (++repeats > kGbnfRepeatsMax) Fail(at_, StrCat("more than ", kGbnfRepeatsMax, " repetitions of each other"));
      ++at_;
      part = Add(std::move(repeat));
    }
    groups_.back().parts.push_back(part);
  }
  bool ReadCounts(GbnfNode& repeat) {
    const size_t place = at_;
    ++at_;
    const auto count = [&]() -> std::optional<int32_t> {
      SkipSpace(false);
      if (Peek() < '0' || Peek() > '9') return std::nullopt;
      int32_t value = 0;
      for (; Peek() >= '0' && Peek() <= '9'; ++at_) value = std::min(value * 10 + (Peek() - '0'), kGbnfCountMax + 1);
      SkipSpace(false);
      return value;
    };
    const std::optional<int32_t> least = count();
    repeat.least = least.value_or(0);
    repeat.most = least.value_or(0);
    if (Peek() == ',') {
      ++at_;
      repeat.most = count().value_or(kUnbounded);
    } else if (!least) {
      Fail(at_, "a number is expected");
    }
    if (Peek() != '}') Fail(at_, "'}' is expected");
    if (repeat.least > repeat.most) Fail(place, "the first count is above the second");
    if (repeat.least > kGbnfCountMax || (repeat.most > kGbnfCountMax && repeat.most != kUnbounded)) {
      Fail(place, StrCat("a count is above ", kGbnfCountMax));
    }
    return !error_;
  }

  // A character of a text or class, escaped or not. REQUIRES: there is a byte.
  uint32_t ReadCharacter() {
    if (Peek() != '\\') {
      const Utf8Unit unit = NextUtf8Unit(text_.substr(at_));
      at_ += unit.bytes;
      return unit.code_point;
    }
    const size_t place = at_++;
    const char escape = Peek();
    ++at_;
    const size_t digits = escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
    switch (escape) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
      case 'u':
      case 'U':
        break;
      default:
        // llama.cpp has these four; others escape the signs of classes, too.
        if (at_ > text_.size() || std::string_view("\"\\[]^-/'.").find(escape) == std::string_view::npos) {
          Fail(place, "no escape that is known");
        }
        return static_cast<uint8_t>(escape);
    }
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const char c = static_cast<char>(Peek() | 0x20);
      const bool is_digit = Peek() >= '0' && Peek() <= '9';
      if (!is_digit && (c < 'a' || c > 'f')) {
        Fail(place, StrCat("an escape needs ", digits, " digits"));
        return 0;
      }
      value = value * 16 + static_cast<uint32_t>(is_digit ? Peek() - '0' : c - 'a' + 10);
    }
    if (value > kLastCodePoint || (value >= 0xd800 && value < 0xe000)) Fail(place, "no character");
    return value;
  }

  bool ReadText() {
    GbnfNode node;
    node.kind = Kind::kText;
    node.place = at_++;
    while (!error_ && Peek() != '"') {
      if (at_ >= text_.size() || Peek() == '\n') {
        Fail(node.place, "the text is not closed");
        return false;
      }
      AppendUtf8(ReadCharacter(), node.text);
    }
    if (error_) return false;
    ++at_;
    AddPart(Add(std::move(node)));
    return true;
  }

  bool ReadClass() {
    GbnfNode node;
    node.kind = Kind::kClass;
    node.place = at_++;
    const bool is_negated = Peek() == '^';
    if (is_negated) ++at_;
    while (!error_ && Peek() != ']') {
      if (at_ >= text_.size() || Peek() == '\n') {
        Fail(node.place, "the class is not closed");
        return false;
      }
      const size_t place = at_;
      const uint32_t first = ReadCharacter();
      uint32_t last = first;
      if (Peek() == '-' && Peek(1) != ']' && at_ + 1 < text_.size()) {
        ++at_;
        last = ReadCharacter();
        if (last < first) Fail(place, "the range ends before it begins");
      }
      if (!error_) node.characters.Add(first, last);
    }
    if (error_) return false;
    ++at_;
    node.characters.Normalise();
    if (is_negated) node.characters = node.characters.Complement();
    AddPart(Add(std::move(node)));
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  GbnfSyntax syntax_;
  std::vector<Group> groups_;
  SteadyMap<std::string, int32_t> rule_of_;
  std::optional<std::string> error_;
};

}  // namespace

std::string AtPlace(std::string_view text, size_t place, std::string_view what) {
  const std::string_view before = text.substr(0, place);
  const size_t line = before.find_last_of('\n');
  size_t column = 1;
  for (const char c : before.substr(line == before.npos ? 0 : line + 1)) column += (c & 0xc0) != 0x80 ? 1 : 0;
  return StrCat("line ", std::ranges::count(before, '\n') + 1, ", column ", column, ": ", what);
}

std::variant<GbnfSyntax, std::string> ReadGbnfSyntax(std::string_view text) { return GbnfParser(text).Read(); }

}  // namespace hydrant::grammar
