#include "model/jinja/parse/lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/text.h"
#include "model/text/str_cat.h"
#include "model/text/string_literal.h"
#include "model/text/utf8.h"

namespace hydrant::jinja {
namespace {

// Longest first, so that the first that fits is the longest.
constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Letters outside ASCII are taken as they come: which of them Python allows in a name matters to no template.
bool IsNameByte(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80) != 0; }

// One newline for each of \r\n, \r and \n, and none at the very end.
std::string NormalizeNewlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text.push_back(source[i]);
    }
  }
  if (text.ends_with("\n")) text.pop_back();
  return text;
}

class Scanner {
 public:
  explicit Scanner(std::string_view source) : source_(NormalizeNewlines(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) Data();
    Add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  [[noreturn]] void Error(std::string_view what) const {
    throw Fault{FaultKind::kSyntax, StrCat(what, " (line ", line_, ")")};
  }

  void Add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void Advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + bytes, '\n'));
    at_ += bytes;
  }

  // Skips all white space, newlines too.
  void SkipSpace() { Advance(TrimSpace(rest(), true, false).begin); }

  // Data up to the next tag, and what the tag opens.
  void Data() {
    size_t tag = at_;
    while ((tag = source_.find('{', tag)) != std::string::npos) {
      const char next = tag + 1 < source_.size() ? source_[tag + 1] : ' ';
      if (next == '%' || next == '{' || next == '#') break;
      ++tag;
    }
    if (tag == std::string::npos) {
      AddData(rest());
      Advance(source_.size() - at_);
      return;
    }
    const char opener = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    AddData(Stripped(rest().substr(0, tag - at_), sign, opener != '{'));
    Advance(tag + 2 - at_);
    if (sign == '-' || sign == '+') Advance(1);
    if (opener == '#') {
      Comment();
    } else if (opener == '{') {
      Add(Token::Kind::kPrintBegin, "");
      Expression("}}");
    } else if (!Raw()) {
      Add(Token::Kind::kBlockBegin, "");
      Expression("%}");
    }
  }

  void AddData(std::string_view data) {
    if (!data.empty()) Add(Token::Kind::kData, std::string(data));
  }

  // Data before a tag: `-` strips its end; without `+` a block tag takes the blanks before it on its line along.
  std::string_view Stripped(std::string_view data, char sign, bool of_block) const {
    if (sign == '-') return data.substr(0, TrimSpace(data, false, true).end);
    if (sign == '+' || !of_block) return data;
    const size_t newline = data.rfind('\n');
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    const bool at_line_begin = line_begin > 0 || at_ == 0 || source_[at_ - 1] == '\n';
    if (!at_line_begin || TrimSpace(data.substr(line_begin), true, false).begin != data.size() - line_begin)
      return data;
    return data.substr(0, line_begin);
  }

  // After the end of a block tag or comment, whose sign was `sign`.
  void AfterBlock(char sign) {
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && rest().starts_with("\n")) {
      Advance(1);
    }
  }

  void Comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) Error("a comment has no end");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    Advance(end + 2 - at_);
    AfterBlock(sign);
  }

  // `{% raw %}` up to its end; false if this block is another.
  bool Raw() {
    size_t end = TagEnd(at_, "raw");
    if (end == 0) return false;
    const char sign = source_[end - 3];
    Advance(end - at_);
    if (sign == '-') SkipSpace();
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string::npos; ++tag) {
      size_t name = tag + 2;
      const char begin_sign = name < source_.size() ? source_[name] : ' ';
      if (begin_sign == '-' || begin_sign == '+') ++name;
      end = TagEnd(name, "endraw");
      if (end == 0) continue;
      AddData(Stripped(rest().substr(0, tag - at_), begin_sign, true));
      const char end_sign = source_[end - 3];
      Advance(end - at_);
      AfterBlock(end_sign);
      return true;
    }
    Error("a raw block has no end");
  }

  // After `name %}` at `at`, with its blanks and sign; 0 if something else is there.
  size_t TagEnd(size_t at, std::string_view name) const {
    const std::string_view text = source_;
    const auto skip = [&] { at += TrimSpace(text.substr(at), true, false).begin; };
    skip();
    if (!text.substr(at).starts_with(name)) return 0;
    at += name.size();
    skip();
    if (text.substr(at).starts_with("-") || text.substr(at).starts_with("+")) ++at;
    return text.substr(at).starts_with("%}") ? at + 2 : 0;
  }

  // The tokens up to `closer`, which does not count inside brackets: `{{ {'a': {}} }}`.
  void Expression(std::string_view closer) {
    std::string open;  // the closing brackets awaited
    for (;;) {
      SkipSpace();
      if (at_ == source_.size()) Error("a tag has no end");
      if (open.empty() && Close(closer)) return;
      const char c = source_[at_];
      if (c == '\'' || c == '"') {
        String();
      } else if (IsDigit(c)) {
        Number();
      } else if (IsNameByte(c)) {
        const size_t begin = at_;
        while (at_ < source_.size() && IsNameByte(source_[at_])) ++at_;
        Add(Token::Kind::kName, source_.substr(begin, at_ - begin));
      } else {
        Operator(open);
      }
    }
  }

  bool Close(std::string_view closer) {
    const bool is_block = closer == "%}";
    const char sign = source_[at_];
    const bool has_sign = sign == '-' || (is_block && sign == '+');
    if (!rest().substr(has_sign ? 1 : 0).starts_with(closer)) return false;
    Add(is_block ? Token::Kind::kBlockEnd : Token::Kind::kPrintEnd, "");
    Advance(2 + (has_sign ? 1 : 0));
    if (is_block) {
      AfterBlock(sign);
    } else if (sign == '-') {
      SkipSpace();
    }
    return true;
  }

  void Operator(std::string& open) {
    const auto found = std::find_if(kOperators.begin(), kOperators.end(),
                                    [&](std::string_view name) { return rest().starts_with(name); });
    if (found == kOperators.end()) Error("a character that starts no token");
    const char c = found->size() == 1 ? found->front() : ' ';
    if (c == '(') open.push_back(')');
    if (c == '[') open.push_back(']');
    if (c == '{') open.push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) Error(StrCat("unexpected '", *found, "'"));
      open.pop_back();
    }
    Add(Token::Kind::kOperator, std::string(*found));
    Advance(found->size());
  }

  void String() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) Error("a string has no end");
    const auto decoded = DecodeStringLiteral(rest().substr(1, end - at_ - 1));
    if (!decoded) Error("a string with a broken escape");
    Add(Token::Kind::kString, *decoded);
    Advance(end + 1 - at_);
  }

  // Digits with single underscores between them, appended to `digits` without.
  void Digits(std::string& digits) {
    while (at_ < source_.size() &&
           (IsDigit(source_[at_]) || (source_[at_] == '_' && at_ + 1 < source_.size() && IsDigit(source_[at_ + 1])))) {
      if (source_[at_] != '_') digits.push_back(source_[at_]);
      ++at_;
    }
  }

  bool DigitAt(size_t offset) const { return at_ + offset < source_.size() && IsDigit(source_[at_ + offset]); }

  void Number() {
    const char base =
        at_ + 1 < source_.size() ? absl::ascii_tolower(static_cast<unsigned char>(source_[at_ + 1])) : ' ';
    std::string digits;
    if (source_[at_] == '0' && (base == 'x' || base == 'o' || base == 'b')) {
      digits = {'0', base};
      at_ += 2;
      for (; at_ < source_.size() && (absl::ascii_isxdigit(source_[at_]) || source_[at_] == '_'); ++at_) {
        if (source_[at_] != '_') digits.push_back(source_[at_]);
      }
      Add(Token::Kind::kInt, std::move(digits));
      return;
    }
    Digits(digits);
    bool is_float = false;
    // Not after a dot: in `a.0.1` the 0 and the 1 are indices.
    const bool may_be_float = tokens_.empty() || !tokens_.back().IsOperator(".");
    if (may_be_float && rest().substr(0, 1) == "." && DigitAt(1)) {
      digits.push_back('.');
      ++at_;
      Digits(digits);
      is_float = true;
    }
    if (may_be_float && (rest().starts_with("e") || rest().starts_with("E"))) {
      const size_t sign = at_ + 1 < source_.size() && (source_[at_ + 1] == '+' || source_[at_ + 1] == '-') ? 1 : 0;
      if (DigitAt(1 + sign)) {
        digits.append(source_, at_, 1 + sign);
        at_ += 1 + sign;
        Digits(digits);
        is_float = true;
      }
    }
    Add(is_float ? Token::Kind::kFloat : Token::Kind::kInt, std::move(digits));
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) { return Scanner(source).Run(); }

}  // namespace hydrant::jinja
