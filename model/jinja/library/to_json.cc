#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/numbers.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/printing.h"
#include "model/jinja/core/workspace.h"
#include "model/text/json_escape.h"
#include "model/text/str_cat.h"
#include "model/text/utf8.h"

namespace hydrant::jinja {
namespace {

constexpr Origin kPunctuation = Origin::kClient;

std::string JsonEscape(uint32_t code_point) {
  if (const std::string_view escape = ShortJsonEscape(code_point); !escape.empty()) return std::string(escape);
  if (code_point < 0x10000) return absl::StrFormat("\\u%04x", code_point);
  const uint32_t rest = code_point - 0x10000;
  return absl::StrFormat("\\u%04x\\u%04x", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
}

class JsonPrinter {
 public:
  JsonPrinter(Workspace& workspace, const JsonStyle& style) : workspace_(workspace), style_(style) {}

  void Print(const Value& value) {
    workspace_.Step();
    switch (value.kind()) {
      case Value::Kind::kString:
        PrintString(value.text());
        break;
      case Value::Kind::kSequence:
        PrintSequence(value);
        break;
      case Value::Kind::kDict:
        PrintDict(value.dict());
        break;
      case Value::Kind::kUndefined:
      case Value::Kind::kEntity:
        NotSerializable(value);
      default:
        Put(Scalar(value));
    }
    workspace_.Reserve(out_.footprint_bytes());
  }

  Text Take() { return std::move(out_); }

 private:
  [[noreturn]] static void NotSerializable(const Value& value) {
    Fail(StrCat("Object of type ", TypeName(value), " is not JSON serializable"));
  }

  void Put(std::string_view text) { out_.Append(text, kPunctuation); }

  static std::string Scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.integer() != 0 ? "true" : "false";
    if (value.is_int()) return StrCat(value.integer());
    if (value.is_wide()) return StrCat(value.wide());
    const double number = value.number();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return PrintFloat(number);
  }

  void PrintString(const Text& text) {
    workspace_.StepBytes(text.size());
    Put("\"");
    size_t copied = 0;
    for (size_t at = 0; at < text.size();) {
      const Utf8Unit unit = NextUtf8Unit(text.view().substr(at));
      const uint32_t c = unit.code_point;
      if (c < 0x20 || c == '"' || c == '\\' || (style_.ensure_ascii && c > 0x7E)) {
        out_.AppendSlice(text, copied, at);
        out_.Append(JsonEscape(c), text.OriginAt(at));
        workspace_.Reserve(out_.footprint_bytes());
        copied = at + unit.bytes;
      }
      at += unit.bytes;
    }
    out_.AppendSlice(text, copied, text.size());
    Put("\"");
  }

  void NewLine() {
    if (!style_.indented) return;
    const size_t bytes = static_cast<size_t>(level_) * style_.indent.size() + 1;
    workspace_.StepBytes(bytes);
    workspace_.Reserve(out_.footprint_bytes() + bytes);
    Put("\n");
    for (int i = 0; i < level_; ++i) Put(style_.indent);
  }

  void PrintSequence(const Value& value) {
    const Sequence& sequence = value.sequence();
    if (sequence.kind() != Sequence::Kind::kList && !sequence.is_tuple()) NotSerializable(value);
    if (sequence.items().empty()) return Put("[]");
    Put("[");
    ++level_;
    for (size_t i = 0; i < sequence.items().size(); ++i) {
      if (i > 0) Put(style_.item_separator);
      NewLine();
      Print(sequence.items()[i]);
    }
    --level_;
    NewLine();
    Put("]");
  }

  void PrintDict(const Dict& dict) {
    if (dict.entries().empty()) return Put("{}");
    Counted<const Dict::Entry*> entries(workspace_);
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const Dict::Entry* a, const Dict::Entry* b) {
        return Less(workspace_, a->first, b->first);
      });
    }
    Put("{");
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) Put(style_.item_separator);
      NewLine();
      PrintKey(entries[i]->first);
      Put(style_.key_separator);
      Print(entries[i]->second);
    }
    --level_;
    NewLine();
    Put("}");
  }

  void PrintKey(const Value& key) {
    if (key.is_string()) return PrintString(key.text());
    if (!key.is_number() && !key.is_none()) {
      Fail(StrCat("keys must be str, int, float, bool or None, not ", TypeName(key)));
    }
    Put(StrCat("\"", Scalar(key), "\""));
  }

  Workspace& workspace_;
  const JsonStyle& style_;
  Text out_;
  int level_ = 0;
};

}  // namespace

Text ToJson(Workspace& workspace, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(workspace, style);
  printer.Print(value);
  return printer.Take();
}

}  // namespace hydrant::jinja
