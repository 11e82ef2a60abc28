// The filters that take whole sequences.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "model/jinja/core/builtins.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/printing.h"
#include "model/jinja/core/workspace.h"
#include "model/jinja/library/attribute_path.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {
namespace {

Values Subject(const BuiltinCall& call) { return Items(call.workspace, call.subject); }

Value Generator(const BuiltinCall& call, Values items) {
  return call.workspace.List(std::move(items), Sequence::Kind::kGenerator);
}

Value Count(const BuiltinCall& call) {
  const Bound bound("length", call.arguments, {});
  const auto length = Length(call.workspace, call.subject);
  if (!length) Fail(StrCat("object of type '", TypeName(call.subject), "' has no len()"));
  return Value::Int(static_cast<int64_t>(*length));
}

Value First(const BuiltinCall& call) {
  if (call.subject.is_sequence() && call.subject.sequence().kind() == Sequence::Kind::kGenerator) {
    const Sequence& generator = call.subject.sequence();
    if (generator.remaining() == 0) return call.workspace.Missing("No first item, sequence was empty.");
    generator.Take(1);
    return generator.items()[generator.items().size() - generator.remaining() - 1];
  }
  const Values items = Subject(call);
  return items.empty() ? call.workspace.Missing("No first item, sequence was empty.") : items.front();
}

Value Last(const BuiltinCall& call) {
  if (call.subject.is_sequence() && call.subject.sequence().kind() == Sequence::Kind::kGenerator) {
    Fail("'generator' object is not reversible");
  }
  const Values items = Subject(call);
  return items.empty() ? call.workspace.Missing("No last item, sequence was empty.") : items.back();
}

Value List(const BuiltinCall& call) { return call.workspace.List(Subject(call)); }

Value Reverse(const BuiltinCall& call) {
  if (call.subject.is_string()) {
    return Slice(call.workspace, call.subject, Value::None(), Value::None(), Value::Int(-1));
  }
  Values items = Subject(call);
  std::reverse(items.begin(), items.end());
  return Generator(call, std::move(items));
}

Value Join(const BuiltinCall& call) {
  const Bound bound("join", call.arguments, {"d", "attribute"});
  const Text separator = bound.has(0) ? Str(call.workspace, bound.at(0)) : Text();
  const AttributePath path(call.workspace, bound.at(1));
  Text out;
  bool first = true;
  for (const Value& item : Subject(call)) {
    if (!first) out.Append(separator);
    first = false;
    out.Append(Str(call.workspace, path.Get(call.workspace, item)));
    call.workspace.Reserve(out.footprint_bytes());
  }
  return call.workspace.String(std::move(out));
}

Value Items(const BuiltinCall& call) {
  if (call.subject.is_undefined()) return Generator(call, Values(call.workspace));
  if (!call.subject.is_dict()) Fail("Can only get item pairs from a mapping.");
  Values pairs(call.workspace);
  for (const auto& [key, value] : call.subject.dict().entries()) pairs.push_back(call.workspace.Tuple({key, value}));
  return Generator(call, std::move(pairs));
}

struct Keyed {
  Value key, item;
};

// Sorts stably; equal ones keep their order also when reversed.
Values SortBy(Workspace& workspace, Counted<Keyed> entries, bool reverse) {
  std::stable_sort(entries.begin(), entries.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? Less(workspace, b.key, a.key) : Less(workspace, a.key, b.key);
  });
  Values sorted(workspace);
  for (Keyed& entry : entries) sorted.push_back(std::move(entry.item));
  return sorted;
}

Value DictSort(const BuiltinCall& call) {
  const Bound bound("dictsort", call.arguments, {"case_sensitive", "by", "reverse"});
  const Text& by = bound.String(1, "key");
  if (by.view() != "key" && by.view() != "value") Fail("You can only sort by either \"key\" or \"value\"");
  RequireDefined(call.subject);
  if (!call.subject.is_dict()) Fail("dictsort() wants a dict");
  Counted<Keyed> entries(call.workspace);
  for (const auto& [key, value] : call.subject.dict().entries()) {
    const Value& sorted_by = by.view() == "key" ? key : value;
    entries.push_back({SortKey(call.workspace, sorted_by, bound.Truth(0, false)), call.workspace.Tuple({key, value})});
  }
  return call.workspace.List(SortBy(call.workspace, std::move(entries), bound.Truth(2, false)));
}

// The key of each item: one attribute, or several with commas between them as a list.
Counted<Keyed> WithKeys(const BuiltinCall& call, const Value& attribute, bool case_sensitive) {
  Counted<AttributePath> paths(call.workspace);
  if (attribute.is_string()) {
    for (std::string_view rest = attribute.view();;) {
      const size_t comma = std::min(rest.find(','), rest.size());
      paths.emplace_back(call.workspace, call.workspace.String(std::string(rest.substr(0, comma))));
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    paths.emplace_back(call.workspace, attribute);
  }
  Counted<Keyed> entries(call.workspace);
  for (Value& item : Subject(call)) {
    Values keys(call.workspace);
    for (const AttributePath& path : paths) {
      keys.push_back(SortKey(call.workspace, path.Get(call.workspace, item), case_sensitive));
    }
    Value key = keys.size() == 1 ? keys.front() : call.workspace.List(std::move(keys));
    entries.push_back({std::move(key), std::move(item)});
  }
  return entries;
}

Value Sort(const BuiltinCall& call) {
  const Bound bound("sort", call.arguments, {"reverse", "case_sensitive", "attribute"});
  return call.workspace.List(
      SortBy(call.workspace, WithKeys(call, bound.at(2), bound.Truth(1, false)), bound.Truth(0, false)));
}

Value Unique(const BuiltinCall& call) {
  const Bound bound("unique", call.arguments, {"case_sensitive", "attribute"});
  const AttributePath path(call.workspace, bound.at(1));
  Dict seen(&call.workspace);
  Values items(call.workspace);
  for (Value& item : Subject(call)) {
    Value key = SortKey(call.workspace, path.Get(call.workspace, item), bound.Truth(0, false));
    const size_t before = seen.entries().size();
    seen.Set(call.workspace, std::move(key), Value::None());
    if (seen.entries().size() > before) items.push_back(std::move(item));
  }
  return Generator(call, std::move(items));
}

template <bool kMax>
Value Extreme(const BuiltinCall& call) {
  const Bound bound(kMax ? "max" : "min", call.arguments, {"case_sensitive", "attribute"});
  const AttributePath path(call.workspace, bound.at(1));
  std::optional<Keyed> best;
  for (Value& item : Subject(call)) {
    Value key = SortKey(call.workspace, path.Get(call.workspace, item), bound.Truth(0, false));
    const bool better = !best || (kMax ? Less(call.workspace, best->key, key) : Less(call.workspace, key, best->key));
    if (better) best = {std::move(key), std::move(item)};
  }
  return best ? best->item : call.workspace.Missing("No aggregated item, sequence was empty.");
}

Value Sum(const BuiltinCall& call) {
  const Bound bound("sum", call.arguments, {"attribute", "start"});
  const AttributePath path(call.workspace, bound.at(0));
  Value sum = bound.has(1) ? bound.at(1) : Value::Int(0);
  if (sum.is_string()) Fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : Subject(call)) {
    sum = Arithmetic(call.workspace, BinaryOperator::kAdd, sum, path.Get(call.workspace, item));
  }
  return sum;
}

Value GroupBy(const BuiltinCall& call) {
  const Bound bound("groupby", call.arguments, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = bound.Truth(2, false);
  const AttributePath path(call.workspace, bound.at(0), bound.at(1));
  Counted<Keyed> entries(call.workspace);
  for (Value& item : Subject(call)) {
    Value key = path.Get(call.workspace, item);
    entries.push_back({std::move(key), std::move(item)});
  }
  const auto key_of = [&](const Keyed& entry) { return SortKey(call.workspace, entry.key, case_sensitive); };
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const Keyed& a, const Keyed& b) { return Less(call.workspace, key_of(a), key_of(b)); });
  Values groups(call.workspace);
  for (size_t i = 0; i < entries.size();) {
    Values members(call.workspace);
    const size_t first = i;
    for (; i < entries.size() && Equal(call.workspace, key_of(entries[first]), key_of(entries[i])); ++i) {
      members.push_back(entries[i].item);
    }
    Value list = call.workspace.List(std::move(members));
    groups.push_back(
        call.workspace.List(Values({entries[first].key, std::move(list)}, call.workspace), Sequence::Kind::kGroup));
  }
  return call.workspace.List(std::move(groups));
}

Value Batch(const BuiltinCall& call) {
  const Bound bound("batch", call.arguments, {"linecount", "fill_with"}, 1);
  const int64_t size = bound.Int(0, 1);
  if (size < 1) Fail("batch() wants a positive count");
  Values batches(call.workspace), batch(call.workspace);
  const auto finish = [&] { batches.push_back(call.workspace.List(std::exchange(batch, Values(call.workspace)))); };
  for (Value& item : Subject(call)) {
    if (static_cast<int64_t>(batch.size()) == size) finish();
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    const bool fill = bound.has(1) && !bound.at(1).is_none();
    if (fill) call.workspace.Reserve(static_cast<size_t>(std::min<int64_t>(size, 1 << 30)) * sizeof(Value));
    if (fill) batch.resize(static_cast<size_t>(size), bound.at(1));
    finish();
  }
  return Generator(call, std::move(batches));
}

Value SliceInto(const BuiltinCall& call) {
  const Bound bound("slice", call.arguments, {"slices", "fill_with"}, 1);
  const int64_t slices = bound.Int(0, 1);
  if (slices < 1) Fail("slice() wants a positive count");
  const Values items = Subject(call);
  const auto count = static_cast<int64_t>(items.size());
  call.workspace.Step(slices);
  Values result(call.workspace);
  int64_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool has_extra = i < count % slices;
    const int64_t end = at + count / slices + (has_extra ? 1 : 0);
    Values part(items.begin() + at, items.begin() + end, call.workspace);
    if (!has_extra && bound.has(1) && !bound.at(1).is_none()) part.push_back(bound.at(1));
    result.push_back(call.workspace.List(std::move(part)));
    at = end;
  }
  return Generator(call, std::move(result));
}

}  // namespace

const BuiltinTable& SequenceFilters() {
  static const BuiltinTable table = {
      {"count", Count},     {"length", Count},       {"first", First},       {"last", Last}, {"list", List},
      {"reverse", Reverse}, {"join", Join},          {"items", Items},       {"sort", Sort}, {"dictsort", DictSort},
      {"unique", Unique},   {"min", Extreme<false>}, {"max", Extreme<true>}, {"sum", Sum},   {"groupby", GroupBy},
      {"batch", Batch},     {"slice", SliceInto},
  };
  return table;
}

}  // namespace hydrant::jinja
