#include "model/jinja/core/operators.h"

#include <algorithm>

#include "model/jinja/core/builtins.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/string_operations.h"
#include "model/jinja/core/workspace.h"
#include "model/text/str_cat.h"
#include "model/text/utf8.h"

namespace hydrant::jinja {
namespace {

// The index that Python means, a negative one counting from the end; nullopt outside.
std::optional<size_t> IndexIn(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

// The indices of a slice, as Python's slice.indices: `count` of them, `stride` apart.
struct SliceIndices {
  int64_t first, stride, count;
};

SliceIndices IndicesOf(const Value& begin, const Value& end, const Value& step, size_t size) {
  const auto count = static_cast<int64_t>(size);
  const auto bound = [&](const Value& value, int64_t fallback, int64_t low, int64_t high) {
    if (value.is_none()) return fallback;
    if (!value.is_integral()) Fail("slice indices must be integers or None or have an __index__ method");
    int64_t index = value.integer();
    if (index < 0) index = std::max<int64_t>(index, -count - 1) + count;
    return std::clamp(index, low, high);
  };
  if (!step.is_none() && !step.is_integral())
    Fail("slice indices must be integers or None or have an __index__ method");
  if (!step.is_none() && step.integer() == 0) Fail("slice step cannot be zero");
  // Past the end whatever the stride, and no overflow.
  const int64_t stride = step.is_none() ? 1 : std::clamp<int64_t>(step.integer(), -count - 1, count + 1);
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? count : count - 1;
  const int64_t first = bound(begin, stride > 0 ? 0 : count - 1, low, high);
  const int64_t stop = bound(end, stride > 0 ? count : -1, low, high);
  const int64_t span = stride > 0 ? stop - first : first - stop;
  return {first, stride, span > 0 ? (span - 1) / std::abs(stride) + 1 : 0};
}

Text SliceText(Workspace& workspace, const Text& text, const SliceIndices& indices) {
  if (indices.count == 0) return Text();
  const auto [first, stride, count] = indices;
  const auto skip = [&](size_t at, int64_t characters) {
    return at + CharacterOffset(workspace, text.view().substr(at), static_cast<size_t>(characters));
  };
  size_t at = skip(0, stride > 0 ? first : first + stride * (count - 1));
  if (stride == 1) return text.Slice(at, skip(at, count));
  Counted<ByteRange> characters(workspace);  // from left to right
  for (int64_t i = 0; i < count; ++i) {
    workspace.Step();
    const size_t end = skip(at, 1);
    characters.push_back({at, end});
    at = skip(end, std::abs(stride) - 1);
  }
  if (stride < 0) std::reverse(characters.begin(), characters.end());
  Text result;
  for (const ByteRange& character : characters) result.AppendSlice(text, character.begin, character.end);
  return result;
}

Value Character(Workspace& workspace, const Text& text, size_t index) {
  const size_t begin = CharacterOffset(workspace, text.view(), index);
  return workspace.String(text.Slice(begin, begin + NextUtf8Unit(text.view().substr(begin)).bytes));
}

// object[key] for what has it; nullopt where Python raises.
std::optional<Value> TrySubscript(Workspace& workspace, const Value& object, const Value& key) {
  if (object.is_dict()) {
    // A list cannot be a key: TypeError, which reads as absent.
    if (key.is_dict() || (key.is_sequence() && !key.sequence().is_tuple())) return std::nullopt;
    const Value* found = object.dict().Find(workspace, key);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (!key.is_integral()) return std::nullopt;
  if (object.is_sequence() && object.sequence().is_subscriptable()) {
    const auto index = IndexIn(key.integer(), object.sequence().items().size());
    return index ? std::optional<Value>(object.sequence().items()[*index]) : std::nullopt;
  }
  if (object.is_string()) {
    const auto index = IndexIn(key.integer(), CharacterCount(workspace, object.view()));
    return index ? std::optional<Value>(Character(workspace, object.text(), *index)) : std::nullopt;
  }
  return std::nullopt;
}

// The attribute that Python's type has; nullopt where it has none.
std::optional<Value> TryAttribute(Workspace& workspace, const Value& object, std::string_view name) {
  if (object.is_entity()) {
    Value value = object.entity().Attribute(workspace, name);
    return value.is_undefined() ? std::nullopt : std::optional<Value>(std::move(value));
  }
  if (object.is_sequence() && object.sequence().kind() == Sequence::Kind::kGroup) {
    if (name == "grouper") return object.sequence().items()[0];
    if (name == "list") return object.sequence().items()[1];
  }
  return MethodOf(workspace, object, name);
}

Value NoAttribute(Workspace& workspace, const Value& object, std::string_view name) {
  return workspace.Missing(StrCat("'", TypeName(object), " object' has no attribute '", name, "'"));
}

}  // namespace

void RequireDefined(const Value& value) {
  if (!value.is_undefined()) return;
  const std::string_view message = value.undefined_message();
  Fail(message.empty() ? "a value is undefined" : std::string(message));
}

bool Equal(Workspace& workspace, const Value& a, const Value& b) {
  workspace.Step();
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::kString:
      workspace.StepBytes(std::min(a.text().size(), b.text().size()));
      return a.view() == b.view();
    case Value::Kind::kSequence: {
      const Sequence &x = a.sequence(), &y = b.sequence();
      if (x.kind() == Sequence::Kind::kGenerator || x.kind() == Sequence::Kind::kValues) return &x == &y;
      if (x.is_tuple() != y.is_tuple() || (!x.is_tuple() && x.kind() != y.kind())) return false;
      return std::equal(x.items().begin(), x.items().end(), y.items().begin(), y.items().end(),
                        [&](const Value& p, const Value& q) { return Equal(workspace, p, q); });
    }
    case Value::Kind::kDict: {
      if (a.dict().entries().size() != b.dict().entries().size()) return false;
      return std::all_of(a.dict().entries().begin(), a.dict().entries().end(), [&](const Dict::Entry& entry) {
        const Value* other = b.dict().Find(workspace, entry.first);
        return other != nullptr && Equal(workspace, entry.second, *other);
      });
    }
    case Value::Kind::kEntity:
      return a.identity() == b.identity();
    default:
      return true;  // none and none, undefined and undefined
  }
}

bool Less(Workspace& workspace, const Value& a, const Value& b) {
  workspace.Step();
  RequireDefined(a);
  RequireDefined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() < b.integer();
    return a.number() < b.number();
  }
  if (a.is_string() && b.is_string()) {
    workspace.StepBytes(std::min(a.text().size(), b.text().size()));
    return a.view() < b.view();  // UTF-8 sorts as its code points do
  }
  const bool lists = a.is_sequence() && b.is_sequence() &&
                     ((a.sequence().is_tuple() && b.sequence().is_tuple()) ||
                      (a.sequence().kind() == Sequence::Kind::kList && b.sequence().kind() == Sequence::Kind::kList));
  if (!lists) {
    Fail(StrCat("'<' not supported between instances of '", TypeName(a), "' and '", TypeName(b), "'"));
  }
  const Values &x = a.sequence().items(), &y = b.sequence().items();
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!Equal(workspace, x[i], y[i])) return Less(workspace, x[i], y[i]);
  }
  return x.size() < y.size();
}

bool Contains(Workspace& workspace, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      RequireDefined(item);
      Fail(StrCat("'in <string>' requires string as left operand, not ", TypeName(item)));
    }
    return Search(workspace, container.view(), item.view()).Next().has_value();
  }
  if (container.is_dict()) {
    if (item.is_dict() || (item.is_sequence() && !item.sequence().is_tuple())) {
      Fail(StrCat("unhashable type: '", TypeName(item), "'"));
    }
    return container.dict().Find(workspace, item) != nullptr;
  }
  if (container.is_entity() || (!container.is_sequence() && !container.is_undefined())) {
    Fail(StrCat("argument of type '", TypeName(container), "' is not iterable"));
  }
  const Values items = Items(workspace, container);
  return std::any_of(items.begin(), items.end(), [&](const Value& other) { return Equal(workspace, other, item); });
}

bool Holds(Workspace& workspace, Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::kEqual:
      return Equal(workspace, a, b);
    case Comparison::kUnequal:
      return !Equal(workspace, a, b);
    case Comparison::kLess:
      return Less(workspace, a, b);
    case Comparison::kGreater:
      return Less(workspace, b, a);
    // Not the negated opposite: comparisons with a NaN are all false.
    case Comparison::kLessOrEqual:
      return Less(workspace, a, b) || Equal(workspace, a, b);
    case Comparison::kGreaterOrEqual:
      return Less(workspace, b, a) || Equal(workspace, a, b);
    case Comparison::kIn:
      return Contains(workspace, b, a);
    case Comparison::kNotIn:
      return !Contains(workspace, b, a);
  }
  return false;
}

std::optional<size_t> Length(Workspace& workspace, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return 0;
    case Value::Kind::kString:
      return CharacterCount(workspace, value.view());
    case Value::Kind::kDict:
      return value.dict().entries().size();
    case Value::Kind::kSequence:
      if (value.sequence().kind() == Sequence::Kind::kGenerator) return std::nullopt;
      return value.sequence().items().size();
    default:
      return std::nullopt;
  }
}

bool IsIterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_dict() || value.is_sequence();
}

Values Items(Workspace& workspace, const Value& value) {
  Values items(workspace);
  if (value.is_sequence()) {
    const Sequence& sequence = value.sequence();
    workspace.Step(static_cast<int64_t>(sequence.remaining() / 8));
    items.assign(sequence.items().end() - static_cast<std::ptrdiff_t>(sequence.remaining()), sequence.items().end());
    if (sequence.kind() == Sequence::Kind::kGenerator) sequence.Take(sequence.remaining());
  } else if (value.is_dict()) {
    workspace.Step(static_cast<int64_t>(value.dict().entries().size() / 8));
    for (const auto& [key, entry] : value.dict().entries()) items.push_back(key);
  } else if (value.is_string()) {
    const Text& text = value.text();
    for (size_t at = 0; at < text.size();) {
      const size_t end = at + NextUtf8Unit(text.view().substr(at)).bytes;
      items.push_back(workspace.String(text.Slice(at, end)));
      at = end;
    }
  } else if (value.is_undefined()) {
    return items;
  } else {
    Fail(StrCat("'", TypeName(value), "' object is not iterable"));
  }
  return items;
}

Value Subscript(Workspace& workspace, const Value& object, const Value& key) {
  RequireDefined(object);
  if (auto value = TrySubscript(workspace, object, key)) return *std::move(value);
  if (key.is_string()) {
    workspace.StepBytes(key.text().size());
    if (auto value = TryAttribute(workspace, object, key.view())) return *std::move(value);
    return NoAttribute(workspace, object, key.view());
  }
  return workspace.Missing(StrCat("'", TypeName(object), " object' has no such element"));
}

Value Slice(Workspace& workspace, const Value& object, const Value& begin, const Value& end, const Value& step) {
  RequireDefined(object);
  if (object.is_string()) {
    const auto count = CharacterCount(workspace, object.view());
    Text slice = SliceText(workspace, object.text(), IndicesOf(begin, end, step, count));
    return workspace.String(std::move(slice), object.is_markup());
  }
  if (!object.is_sequence() || !object.sequence().is_subscriptable()) {
    Fail(StrCat("'", TypeName(object), "' object cannot be sliced"));
  }
  const Sequence& sequence = object.sequence();
  const auto [first, stride, count] = IndicesOf(begin, end, step, sequence.items().size());
  Values items(workspace);
  items.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) items.push_back(sequence.items()[static_cast<size_t>(first + i * stride)]);
  return workspace.List(std::move(items), sequence.is_tuple() ? Sequence::Kind::kTuple : sequence.kind());
}

Value Attribute(Workspace& workspace, const Value& object, std::string_view name) {
  RequireDefined(object);
  if (auto value = TryAttribute(workspace, object, name)) return *std::move(value);
  if (object.is_dict()) {
    if (const Value* found = object.dict().Find(name)) return *found;
  }
  return NoAttribute(workspace, object, name);
}

}  // namespace hydrant::jinja
