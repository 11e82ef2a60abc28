#include "model/jinja/core/formatting.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/numbers.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/printing.h"
#include "model/jinja/core/workspace.h"
#include "model/text/str_cat.h"
#include "model/text/utf8.h"

namespace hydrant::jinja {
namespace {

// Wider fields serve nobody; the value only has to be one that cannot overflow.
constexpr size_t kWidthMax = size_t{1} << 30;

size_t TakeDigits(std::string_view text, size_t& at) {
  size_t value = 0;
  for (; at < text.size() && absl::ascii_isdigit(text[at]); ++at) {
    value = std::min(kWidthMax, value * 10 + static_cast<size_t>(text[at] - '0'));
  }
  return value;
}

// `%`: the conversions of one format string.
class PercentFormatter {
 public:
  PercentFormatter(Workspace& workspace, const Text& format, const Value& values)
      : workspace_(workspace), format_(format), values_(values) {}

  Text Run() {
    const std::string_view text = format_.view();
    workspace_.StepBytes(text.size());
    size_t copied = 0;
    while ((at_ = text.find('%', copied)) != std::string_view::npos) {
      out_.AppendSlice(format_, copied, at_);
      ++at_;
      workspace_.Step();
      Conversion();
      copied = at_;
      workspace_.Reserve(out_.footprint_bytes());
    }
    out_.AppendSlice(format_, copied, text.size());
    // What could have been looked up by key may be left over.
    if (!values_.is_dict() && !is_list() && taken_ < Count())
      Fail("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  bool is_tuple() const { return values_.is_sequence() && values_.sequence().is_tuple(); }
  bool is_list() const { return values_.is_sequence() && !is_tuple(); }
  size_t Count() const { return is_tuple() ? values_.sequence().items().size() : 1; }

  Value Next() {
    if (taken_ >= Count()) Fail("not enough arguments for format string");
    return is_tuple() ? values_.sequence().items()[taken_++] : (++taken_, values_);
  }

  char Current() const {
    if (at_ >= format_.size()) Fail("incomplete format");
    return format_.bytes()[at_];
  }

  size_t Number(FieldStyle& style) {
    if (Current() != '*') return TakeDigits(format_.view(), at_);
    ++at_;
    const Value value = Next();
    if (!value.is_integral()) Fail("* wants int");
    if (value.integer() < 0) style.align = '<';
    return std::min<size_t>(kWidthMax, static_cast<size_t>(std::abs(std::max(value.integer(), -int64_t{kWidthMax}))));
  }

  void Conversion() {
    std::optional<Value> keyed;
    if (Current() == '(') {
      const size_t end = format_.bytes().find(')', at_);
      if (end == std::string::npos) Fail("incomplete format key");
      if (!values_.is_dict()) Fail("format requires a mapping");
      const std::string key = format_.bytes().substr(at_ + 1, end - at_ - 1);
      const Value* found = values_.dict().Find(key);
      if (found == nullptr) Fail(StrCat("'", key, "'"));
      keyed = *found;
      at_ = end + 1;
    }
    FieldStyle style;
    bool zero = false;
    for (;; ++at_) {
      const char flag = Current();
      if (flag == '-') {
        style.align = '<';
      } else if (flag == '+' || (flag == ' ' && style.sign != '+')) {
        style.sign = flag;
      } else if (flag == '0') {
        zero = true;
      } else if (flag == '#') {
        style.alternate = true;
      } else if (flag != ' ') {
        break;
      }
    }
    style.width = Number(style);
    if (Current() == '.') {
      ++at_;
      style.precision = static_cast<int>(Number(style));
    }
    const char type = Current();
    ++at_;
    if (type == '%') return out_.Append("%", Origin::kTemplate);
    out_.Append(Convert(type, keyed ? *keyed : Next(), style, zero));
  }

  Text Convert(char type, const Value& value, FieldStyle style, bool zero) {
    if (type == 's' || type == 'r' || type == 'a') {
      const Text text = type == 's' ? Str(workspace_, value) : Repr(workspace_, value);
      if (style.align == '\0') style.align = '>';
      style.type = 's';
      style.sign = '-';
      return FormatField(workspace_, workspace_.String(text), style);
    }
    if (type == 'c' && value.is_string()) return value.text();
    if (std::string_view("diufFeEgGxXoc").find(type) == std::string_view::npos) {
      Fail(StrCat("unsupported format character '", std::string(1, type), "'"));
    }
    RequireDefined(value);
    if (!value.is_number())
      Fail(StrCat("%", std::string(1, type), " format: a real number is required, not ", TypeName(value)));
    const bool integral = std::string_view("diuxXoc").find(type) != std::string_view::npos;
    if (zero && style.align == '\0') {
      style.align = '=';
      style.fill = Text("0", Origin::kTemplate);
    }
    style.type = type == 'i' || type == 'u' ? 'd' : type;
    if (!integral || value.is_integral()) return FormatField(workspace_, value, style);
    if (type != 'd' && type != 'i' && type != 'u')
      Fail(StrCat("%", std::string(1, type), " format: an integer is required, not float"));
    return FormatField(workspace_, ToInteger(value), style);
  }

  static Value ToInteger(const Value& value) {
    const double number = value.number();
    if (!(number > -9.2e18 && number < 9.2e18)) Fail("an integer beyond 64 bits");
    return Value::Int(static_cast<int64_t>(number), value.origin());
  }

  Workspace& workspace_;
  const Text& format_;
  const Value& values_;
  Text out_;
  size_t at_ = 0;
  size_t taken_ = 0;
};

// What stands after the colon of a field.
FieldStyle ParseStyle(const Text& spec, const Value& value) {
  FieldStyle style;
  const std::string_view text = spec.view();
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const size_t first = text.empty() ? 0 : NextUtf8Unit(text).bytes;
  if (first > 0 && first < text.size() && is_align(text[first])) {
    style.fill = spec.Slice(0, first);
    style.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    style.align = text[0];
    at = 1;
  }
  const auto take = [&](char c) {
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  };
  if (take('+')) style.sign = '+';
  if (take(' ')) style.sign = ' ';
  take('-');
  style.alternate = take('#');
  if (take('0') && style.align == '\0') {
    style.align = value.is_number() ? '=' : '<';
    style.fill = Text("0", Origin::kTemplate);
  }
  style.width = TakeDigits(text, at);
  style.thousands = take(',');
  if (take('.')) style.precision = static_cast<int>(TakeDigits(text, at));
  if (at < text.size()) style.type = text[at++];
  if (at != text.size()) Fail("Invalid format specifier");
  return style;
}

// `{}`: the fields of one format string.
class BraceFormatter {
 public:
  BraceFormatter(Workspace& workspace, const Arguments& arguments) : workspace_(workspace), arguments_(arguments) {}

  Text Run(const Text& format, int level = 0) {
    // Python allows fields in the style of a field, and no deeper.
    if (level > 1) Fail("Max string recursion exceeded");
    Text out;
    const std::string_view text = format.view();
    workspace_.StepBytes(text.size());
    for (size_t at = 0; at < text.size();) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.AppendSlice(format, at, brace);
      if (brace == text.size()) break;
      workspace_.Step();
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        out.AppendSlice(format, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (text[brace] == '}') Fail("Single '}' encountered in format string");
      const size_t end = FieldEnd(text, brace + 1);
      out.Append(Field(format.Slice(brace + 1, end), level));
      workspace_.Reserve(out.footprint_bytes());
      at = end + 1;
    }
    return out;
  }

 private:
  static size_t FieldEnd(std::string_view text, size_t at) {
    for (int open = 1; at < text.size(); ++at) {
      if (text[at] == '{') ++open;
      if (text[at] == '}' && --open == 0) return at;
    }
    Fail("expected '}' before end of string");
  }

  Text Field(const Text& field, int level) {
    const std::string_view text = field.view();
    const size_t name_end = std::min(text.find_first_of("!:"), text.size());
    Value value = Lookup(text.substr(0, name_end));
    size_t at = name_end;
    if (at < text.size() && text[at] == '!') {
      const char conversion = at + 1 < text.size() ? text[at + 1] : ' ';
      if (conversion != 's' && conversion != 'r' && conversion != 'a') Fail("Unknown conversion specifier");
      value = workspace_.String(conversion == 's' ? Str(workspace_, value) : Repr(workspace_, value));
      at += 2;
    }
    if (at >= text.size()) return FormatField(workspace_, value, {});
    if (text[at] != ':') Fail("expected ':' after conversion specifier");
    const Text spec = Run(field.Slice(at + 1, text.size()), level + 1);
    return FormatField(workspace_, value, ParseStyle(spec, value));
  }

  Value Lookup(std::string_view name) {
    const size_t head_end = std::min(name.find_first_of(".["), name.size());
    const std::string_view head = name.substr(0, head_end);
    Value value = Argument(head);
    for (size_t at = head_end; at < name.size();) {
      const bool is_attribute = name[at] == '.';
      size_t end = is_attribute ? std::min(name.find_first_of(".[", at + 1), name.size()) : name.find(']', at);
      if (end == std::string_view::npos) Fail("Missing ']' in format string");
      const std::string_view key = name.substr(at + 1, end - at - 1);
      if (is_attribute) {
        value = Attribute(workspace_, value, key);
      } else {
        const auto index = ParseInt(key, 10);
        value = Subscript(workspace_, value, index ? *index : workspace_.String(std::string(key)));
        ++end;
      }
      at = end;
    }
    return value;
  }

  Value Argument(std::string_view head) {
    const auto index = head.empty() ? std::optional(Value::Int(next_++)) : ParseInt(head, 10);
    if (index) {
      (head.empty() ? counts_ : numbers_) = true;
      if (counts_ && numbers_) Fail("cannot switch between automatic field numbering and manual field specification");
      if (index->integer() < 0 || index->integer() >= static_cast<int64_t>(arguments_.positional.size())) {
        Fail("Replacement index out of range for positional args tuple");
      }
      return arguments_.positional[static_cast<size_t>(index->integer())];
    }
    workspace_.Step(static_cast<int64_t>(arguments_.named.size() / 8));
    for (const auto& [name, value] : arguments_.named) {
      if (name.view() == head) return value;
    }
    Fail(StrCat("'", head, "'"));
  }

  Workspace& workspace_;
  const Arguments& arguments_;
  int64_t next_ = 0;
  bool counts_ = false, numbers_ = false;  // how fields without a name were spelled so far
};

}  // namespace

Value PercentFormat(Workspace& workspace, const Value& format, const Value& values) {
  return workspace.String(PercentFormatter(workspace, format.text(), values).Run(), format.is_markup());
}

Value BraceFormat(Workspace& workspace, const Value& format, const Arguments& arguments) {
  return workspace.String(BraceFormatter(workspace, arguments).Run(format.text()), format.is_markup());
}

}  // namespace hydrant::jinja
