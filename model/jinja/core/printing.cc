#include "model/jinja/core/printing.h"

#include <utf8proc.h>

#include "absl/strings/str_format.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/numbers.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/workspace.h"
#include "model/text/str_cat.h"
#include "model/text/utf8.h"

namespace hydrant::jinja {
namespace {

constexpr Origin kBetween = Origin::kClient;

std::string ReprEscape(uint32_t code_point) {
  if (code_point == '\n') return "\\n";
  if (code_point == '\r') return "\\r";
  if (code_point == '\t') return "\\t";
  if (code_point == '\\') return "\\\\";
  if (code_point < 0x100) return absl::StrFormat("\\x%02x", code_point);
  if (code_point < 0x10000) return absl::StrFormat("\\u%04x", code_point);
  return absl::StrFormat("\\U%08x", code_point);
}

void AppendRepr(Workspace& workspace, const Text& text, Text& out) {
  const bool single = text.bytes().find('\'') != std::string::npos && text.bytes().find('"') == std::string::npos;
  const char quote = single ? '"' : '\'';
  out.Append(std::string_view(&quote, 1), kBetween);
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = NextUtf8Unit(text.view().substr(at));
    if (unit.code_point == static_cast<uint32_t>(quote)) {
      out.Append(StrCat("\\", std::string_view(&quote, 1)), text.OriginAt(at));
    } else if (unit.code_point != '\\' && IsPrintable(unit.code_point)) {
      out.AppendSlice(text, at, at + unit.bytes);
    } else {
      out.Append(ReprEscape(unit.code_point), text.OriginAt(at));
      workspace.Reserve(out.footprint_bytes());
    }
    at += unit.bytes;
  }
  out.Append(std::string_view(&quote, 1), kBetween);
}

class ReprPrinter {
 public:
  explicit ReprPrinter(Workspace& workspace) : workspace_(workspace) {}

  void Print(const Value& value) {
    workspace_.Step();
    switch (value.kind()) {
      case Value::Kind::kUndefined:
        Put("Undefined");
        break;
      case Value::Kind::kNone:
        Put("None");
        break;
      case Value::Kind::kBool:
        Put(value.integer() != 0 ? "True" : "False");
        break;
      case Value::Kind::kInt:
        Put(StrCat(value.integer()));
        break;
      case Value::Kind::kFloat:
        Put(value.is_wide() ? StrCat(value.wide()) : PrintFloat(value.number()));
        break;
      case Value::Kind::kString:
        workspace_.StepBytes(value.text().size());
        if (value.is_markup()) Put("Markup(");
        AppendRepr(workspace_, value.text(), out_);
        if (value.is_markup()) Put(")");
        break;
      case Value::Kind::kSequence:
        PrintSequence(value.sequence());
        break;
      case Value::Kind::kDict:
        PrintDict(value.dict());
        break;
      case Value::Kind::kEntity:
        Put(StrCat("<", value.entity().type_name(), ">"));
        break;
    }
    workspace_.Reserve(out_.footprint_bytes());
  }

  Text Take() { return std::move(out_); }

 private:
  void Put(std::string_view text) { out_.Append(text, kBetween); }

  void PrintSequence(const Sequence& sequence) {
    const Values& items = sequence.items();
    switch (sequence.kind()) {
      case Sequence::Kind::kTuple:
      case Sequence::Kind::kGroup:
        PrintItems("(", items, items.size() == 1 ? ",)" : ")");
        break;
      case Sequence::Kind::kRange:
        PrintRange(items);
        break;
      case Sequence::Kind::kList:
        PrintItems("[", items, "]");
        break;
      case Sequence::Kind::kKeys:
        PrintItems("dict_keys([", items, "])");
        break;
      case Sequence::Kind::kValues:
        PrintItems("dict_values([", items, "])");
        break;
      case Sequence::Kind::kItems:
        PrintItems("dict_items([", items, "])");
        break;
      case Sequence::Kind::kGenerator:
        Put("<generator object>");
        break;
    }
  }

  void PrintRange(const Values& items) {
    const int64_t first = items.empty() ? 0 : items.front().integer();
    const int64_t step = items.size() < 2 ? 1 : items[1].integer() - first;
    const int64_t stop = items.empty() ? 0 : items.back().integer() + (step > 0 ? 1 : -1);
    Put(step == 1 ? StrCat("range(", first, ", ", stop, ")") : StrCat("range(", first, ", ", stop, ", ", step, ")"));
  }

  void PrintItems(std::string_view open, const Values& items, std::string_view close) {
    Put(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Put(", ");
      Print(items[i]);
    }
    Put(close);
  }

  void PrintDict(const Dict& dict) {
    Put("{");
    for (size_t i = 0; i < dict.entries().size(); ++i) {
      if (i > 0) Put(", ");
      Print(dict.entries()[i].first);
      Put(": ");
      Print(dict.entries()[i].second);
    }
    Put("}");
  }

  Workspace& workspace_;
  Text out_;
};

}  // namespace

bool IsPrintable(uint32_t code_point) {
  if (code_point == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

Text Repr(Workspace& workspace, const Value& value) {
  ReprPrinter printer(workspace);
  printer.Print(value);
  return printer.Take();
}

Text Str(Workspace& workspace, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kString:
      workspace.StepBytes(value.text().size());
      return value.text();
    case Value::Kind::kUndefined:
      return Text();
    case Value::Kind::kNone:
      return Text("None", Origin::kTemplate);
    case Value::Kind::kBool:
    case Value::Kind::kInt:
    case Value::Kind::kFloat:
      return Text(Repr(workspace, value).bytes(), value.origin());
    default:
      return Repr(workspace, value);
  }
}

Text EscapeHtml(Workspace& workspace, const Text& text) {
  workspace.StepBytes(text.size());
  Text out;
  size_t copied = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string_view escape;
    switch (text.bytes()[i]) {
      case '&':
        escape = "&amp;";
        break;
      case '<':
        escape = "&lt;";
        break;
      case '>':
        escape = "&gt;";
        break;
      case '\'':
        escape = "&#39;";
        break;
      case '"':
        escape = "&#34;";
        break;
      default:
        continue;
    }
    out.AppendSlice(text, copied, i);
    out.Append(escape, text.OriginAt(i));
    workspace.Reserve(out.footprint_bytes());
    copied = i + 1;
  }
  out.AppendSlice(text, copied, text.size());
  return out;
}

}  // namespace hydrant::jinja
