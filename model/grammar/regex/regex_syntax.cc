#include "model/grammar/regex/regex_syntax.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "model/text/str_cat.h"
#include "model/text/utf8.h"

namespace hydrant::grammar {
namespace {

// What ECMA-262 calls white space and line ends: \s.
const CharClass& SpaceClass() {
  static const CharClass spaces = {{9, 13},          {32, 32},         {0xa0, 0xa0},     {0x1680, 0x1680},
                                   {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                   {0x3000, 0x3000}, {0xfeff, 0xfeff}};
  return spaces;
}
CharClass NamedClass(char letter) {
  switch (letter) {
    case 'd':
      return {{'0', '9'}};
    case 'w':
      return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    case 's':
      return SpaceClass();
    default:
      return NamedClass(static_cast<char>(letter - 'A' + 'a')).Complement();
  }
}

bool IsAlnum(uint32_t c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
int HexValue(uint32_t c) {
  if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A' + 10);
  return -1;
}

class Reader {
 public:
  explicit Reader(std::u32string_view text) : text_(text) {}

  std::variant<std::vector<SyntaxNode>, RegexRefusal> Read() {
    open_.push_back({});
    while (!refusal_ && at_ < text_.size()) ReadTerm();
    if (!refusal_ && open_.size() > 1) Refuse("a group without its ')'", open_.back().column);
    if (refusal_) return std::move(*refusal_);
    CloseAlternatives(1);
    return std::move(nodes_);
  }

 private:
  // A group that is being read: alternatives that are complete, and the terms of the one that is not.
  struct Open {
    std::vector<size_t> alternatives, terms;
    size_t column = 0;
  };

  void Refuse(std::string text, size_t column) {
    if (!refusal_) refusal_ = RegexRefusal{column, std::move(text)};
  }
  size_t column() const { return at_ + 1; }
  bool Ahead(std::u32string_view text) const { return text_.substr(at_, text.size()) == text; }

  size_t AddNode(SyntaxNode node) {
    nodes_.push_back(std::move(node));
    return nodes_.size() - 1;
  }
  void AddTerm(SyntaxNode node) { open_.back().terms.push_back(AddNode(std::move(node))); }
  void AddClass(CharClass characters, size_t where) {
    characters.Normalise();
    AddTerm({SyntaxKind::kClass, false, false, false, where, std::move(characters)});
  }

  void CloseTerms(size_t where) {
    Open& group = open_.back();
    SyntaxNode node{SyntaxKind::kConcat, true, false, false, where};
    for (const size_t part : group.terms) {
      node.nullable &= nodes_[part].nullable;
      node.has_begin |= nodes_[part].has_begin;
      node.has_end |= nodes_[part].has_end;
    }
    if (group.terms.empty()) node.kind = SyntaxKind::kEmpty;
    node.parts = std::move(group.terms);
    group.terms.clear();
    const size_t made = node.parts.size() == 1 ? node.parts[0] : AddNode(std::move(node));
    group.alternatives.push_back(made);
  }
  // Leaves the group as the last node, and returns it.
  size_t CloseAlternatives(size_t where) {
    CloseTerms(where);
    SyntaxNode node{SyntaxKind::kOr, false, false, false, where};
    node.parts = std::move(open_.back().alternatives);
    for (const size_t part : node.parts) {
      node.nullable |= nodes_[part].nullable;
      node.has_begin |= nodes_[part].has_begin;
      node.has_end |= nodes_[part].has_end;
    }
    open_.pop_back();
    return AddNode(std::move(node));
  }

  void ReadTerm() {
    const size_t where = column();
    const char32_t c = text_[at_++];
    switch (c) {
      case '|':
        CloseTerms(where);
        return;
      case '(':
        OpenGroup(where);
        return;
      case ')':
        return CloseGroup(where);
      case '^':
        return AddTerm({SyntaxKind::kBegin, true, true, false, where});
      case '$':
        return AddTerm({SyntaxKind::kEnd, true, false, true, where});
      case '*':
      case '+':
      case '?':
        return Refuse(StrCat("nothing stands before '", std::string(1, static_cast<char>(c)), "' that it could repeat"),
                      where);
      case '.':
        AddClass(AnyOfLine(), where);
        break;
      case '[':
        ReadClass(where);
        break;
      case '\\':
        ReadEscape(where);
        break;
      case '{':
        if (CountAt(where - 1)) return Refuse("nothing stands before '{' that it could repeat", where);
        [[fallthrough]];
      default:
        AddClass({{c, c}}, where);
    }
    ReadQuantifier(where);
  }

  void CloseGroup(size_t where) {
    if (open_.size() == 1) return Refuse("')' without its '('", where);
    const size_t begin = open_.back().column;
    const size_t group = CloseAlternatives(begin);
    open_.back().terms.push_back(group);
    ReadQuantifier(begin);
  }

  void OpenGroup(size_t where) {
    if (open_.size() > kPatternDepthMax) return Refuse(StrCat("groups nested deeper than ", kPatternDepthMax), where);
    if (Ahead(U"?")) {
      if (Ahead(U"?:")) {
        at_ += 2;
      } else if (Ahead(U"?=") || Ahead(U"?!") || Ahead(U"?<=") || Ahead(U"?<!")) {
        return Refuse("look-around is not supported", where);
      } else if (Ahead(U"?<")) {
        const size_t end = text_.find(U'>', at_);
        if (end == std::u32string_view::npos) return Refuse("a group's name without its '>'", where);
        at_ = end + 1;
      } else {
        return Refuse("groups that begin with '(?' and none of ':', '<name>' are not supported", where);
      }
    }
    open_.push_back({{}, {}, where});
  }

  void ReadQuantifier(size_t where) {
    if (refusal_ || at_ >= text_.size()) return;
    int32_t least = 0, most = kUnbounded;
    const char32_t c = text_[at_];
    if (c == '*' || c == '+' || c == '?') {
      ++at_;
      least = c == '+' ? 1 : 0;
      if (c == '?') most = 1;
    } else if (c != '{' || !ReadCounts(least, most)) {
      return;
    }
    if (refusal_) return;
    if (Ahead(U"?")) ++at_;  // lazy: another way to look for the same
    if (least > most) return Refuse("a repetition whose least count is above its most", where);
    const size_t part = open_.back().terms.back();
    const SyntaxNode& what = nodes_[part];
    if (what.kind == SyntaxKind::kBegin || what.kind == SyntaxKind::kEnd)
      return Refuse("an anchor that is repeated", where);
    SyntaxNode node{SyntaxKind::kRepeat, least == 0 || what.nullable, what.has_begin, what.has_end, where};
    node.parts = {part};
    node.least = least;
    node.most = most;
    open_.back().terms.back() = AddNode(std::move(node));
    if (Ahead(U"*") || Ahead(U"+") || Ahead(U"?") || CountAt(at_)) {
      Refuse("a repetition of a repetition", column());
    }
  }

  // "{2}", "{2,}", "{2,5}", and "{,5}" as other notations have it; anything else is an ordinary '{'.
  bool CountAt(size_t at) const {
    const auto is = [&](char32_t c) { return at < text_.size() && text_[at] == c; };
    const auto skip_digits = [&] {
      const size_t begin = at;
      while (at < text_.size() && text_[at] >= '0' && text_[at] <= '9') ++at;
      return at > begin;
    };
    if (!is('{')) return false;
    ++at;
    bool has_count = skip_digits();
    if (is(',')) {
      ++at;
      skip_digits();
      has_count = true;
    }
    return has_count && is('}');
  }
  bool ReadCounts(int32_t& least, int32_t& most) {
    if (!CountAt(at_)) return false;
    const size_t where = column();
    const auto number = [&](int32_t& value) {
      const size_t begin = column();
      int64_t sum = 0;
      for (; text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        sum = std::min<int64_t>(sum * 10 + (text_[at_] - '0'), kCountMax + int64_t{1});
      }
      if (sum > kCountMax) Refuse(StrCat("a count above ", kCountMax), begin);
      value = static_cast<int32_t>(sum);
      return column() > begin;
    };
    ++at_;
    const bool has_least = number(least);
    most = least;
    if (text_[at_] == ',') {
      ++at_;
      if (!number(most)) most = kUnbounded;
    }
    ++at_;
    if (has_least) return true;
    // ECMAScript has these characters themselves, Python a count; who wrote it meant the count.
    const std::string instead = most == kUnbounded ? "*" : StrCat("{0,", most, "}");
    Refuse(StrCat("a count without its least is read in several ways: write '", instead, "'"), where);
    return false;
  }

  // The code of `digits` hexadecimal digits, or nothing where they are not there.
  std::optional<uint32_t> ReadHex(size_t digits) {
    if (text_.size() - at_ < digits) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const int digit = HexValue(text_[at_ + i]);
      if (digit < 0) return std::nullopt;
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    at_ += digits;
    return value;
  }
  std::optional<uint32_t> ReadUnicodeEscape(size_t where) {
    if (Ahead(U"{")) {
      const size_t end = text_.find(U'}', at_);
      const size_t digits = end == std::u32string_view::npos ? 0 : end - at_ - 1;
      ++at_;
      const auto code = digits >= 1 && digits <= 6 ? ReadHex(digits) : std::nullopt;
      if (!code || *code > kLastCodePoint) {
        Refuse("'\\u{' without a character's number and '}'", where);
        return std::nullopt;
      }
      ++at_;
      return code;
    }
    std::optional<uint32_t> code = ReadHex(4);
    if (!code) Refuse("'\\u' without four hexadecimal digits", where);
    if (code && *code >= 0xd800 && *code < 0xdc00 && Ahead(U"\\u")) {
      const size_t back = at_;
      at_ += 2;
      const auto low = ReadHex(4);
      if (low && *low >= 0xdc00 && *low < 0xe000) return 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
      at_ = back;
    }
    return code;
  }

  // Behind the backslash: a single character, or a class in `named`.
  std::optional<uint32_t> ReadEscaped(size_t where, bool in_class, CharClass& named) {
    if (at_ >= text_.size()) {
      Refuse("a backslash at the end", where);
      return std::nullopt;
    }
    const char32_t c = text_[at_++];
    switch (c) {
      case 'd':
      case 'D':
      case 'w':
      case 'W':
      case 's':
      case 'S':
        named.Add(NamedClass(static_cast<char>(c)));
        return std::nullopt;
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'v':
        return '\v';
      case 'f':
        return '\f';
      case 'r':
        return '\r';
      case 'x':
        if (const auto code = ReadHex(2)) return code;
        break;
      case 'u':
        return ReadUnicodeEscape(where);
      case 'c':
        if (at_ < text_.size() && IsAlnum(text_[at_]) && text_[at_] > '9') return text_[at_++] & 31;
        break;
      case '0':
        if (at_ == text_.size() || text_[at_] < '0' || text_[at_] > '9') return 0;
        break;
      case 'b':
        if (in_class) return '\b';
        Refuse("the word boundary '\\b' is not supported", where);
        return std::nullopt;
      default:
        if (!IsAlnum(c)) return c;
    }
    if (c >= '1' && c <= '9') {
      Refuse(StrCat("the back-reference '\\", std::string(1, static_cast<char>(c)), "' is not supported"), where);
    } else {
      Refuse(StrCat("the escape '\\", std::string(1, static_cast<char>(c)), "' is not supported"), where);
    }
    return std::nullopt;
  }
  void ReadEscape(size_t where) {
    CharClass named;
    if (const auto code = ReadEscaped(where, false, named)) named.Add(*code, *code);
    if (!refusal_) AddClass(std::move(named), where);
  }

  // One end of a range, or a class of its own in `named`.
  std::optional<uint32_t> ReadClassAtom(CharClass& named) {
    const size_t where = column();
    const char32_t c = text_[at_++];
    return c == '\\' ? ReadEscaped(where, true, named) : std::optional<uint32_t>(c);
  }
  void ReadClass(size_t where) {
    const bool complement = Ahead(U"^");
    if (complement) ++at_;
    // ECMAScript's class ends here; Python's and others' goes on to the next ']'.
    if (Ahead(U"]") && text_.find(U']', at_ + 1) != std::u32string_view::npos) {
      return Refuse(
          "a class that begins with ']' is read in several ways: write '\\]' for a bracket, or '[\\s\\S]' for any "
          "character",
          where);
    }
    CharClass characters;
    while (!refusal_ && at_ < text_.size() && text_[at_] != ']') {
      const size_t atom = column();
      const std::optional<uint32_t> first = ReadClassAtom(characters);
      if (!first) continue;
      if (at_ + 1 >= text_.size() || text_[at_] != '-' || text_[at_ + 1] == ']') {
        characters.Add(*first, *first);
        continue;
      }
      ++at_;
      const std::optional<uint32_t> last = ReadClassAtom(characters);
      if (refusal_) return;
      if (!last) {  // as in [+-\d]: the sign is one of them
        characters.Add(*first, *first);
        characters.Add('-', '-');
      } else if (*first > *last) {
        return Refuse("a range of characters that ends before it begins", atom);
      } else {
        characters.Add(*first, *last);
      }
    }
    if (refusal_) return;
    if (at_ >= text_.size()) return Refuse("a class without its ']'", where);
    ++at_;
    characters.Normalise();
    AddClass(complement ? characters.Complement() : std::move(characters), where);
  }

  static constexpr int32_t kCountMax = 1'000'000'000;

  std::u32string_view text_;
  size_t at_ = 0;
  std::vector<SyntaxNode> nodes_;
  std::vector<Open> open_;
  std::optional<RegexRefusal> refusal_;
};

}  // namespace

CharClass AnyOfLine() { return CharClass{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.Complement(); }

std::variant<std::vector<SyntaxNode>, RegexRefusal> ReadRegexSyntax(std::string_view pattern) {
  if (pattern.size() > kPatternBytesMax) return RegexRefusal{1, StrCat("a pattern above ", kPatternBytesMax, " bytes")};
  std::u32string characters;
  while (!pattern.empty()) {
    const Utf8Unit unit = NextUtf8Unit(pattern);
    if (unit.kind != Utf8Kind::kCharacter) return RegexRefusal{characters.size() + 1, "bytes that are not UTF-8"};
    characters += static_cast<char32_t>(unit.code_point);
    pattern.remove_prefix(unit.bytes);
  }
  return Reader(characters).Read();
}

}  // namespace hydrant::grammar
