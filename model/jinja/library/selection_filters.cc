// map, select, reject, selectattr, rejectattr: the filters that apply another filter or a test to each item.
#include <utility>

#include "model/jinja/core/builtins.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/interpreter.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/workspace.h"
#include "model/jinja/library/attribute_path.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {
namespace {

// All of these take none, 0 and the like for an empty sequence, as Jinja's do.

// The arguments after the first `count`, for the filter or test that those name.
Arguments Behind(const BuiltinCall& call, size_t count) {
  const Values& all = call.arguments.positional;
  call.workspace.Step(static_cast<int64_t>((all.size() + call.arguments.named.size()) / 8));
  Arguments rest(call.workspace);
  rest.positional.assign(all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
  rest.named = call.arguments.named;
  return rest;
}

Value Map(const BuiltinCall& call) {
  Values mapped(call.workspace);
  if (!call.subject.Truth()) return call.workspace.List(Values(call.workspace), Sequence::Kind::kGenerator);
  if (call.arguments.positional.empty()) {
    const Bound bound("map", call.arguments, {"attribute", "default"}, 1);
    const AttributePath path(call.workspace, bound.at(0), bound.at(1));
    for (const Value& item : Items(call.workspace, call.subject)) {
      mapped.push_back(path.Get(call.workspace, item));
    }
  } else {
    const Value& name = call.arguments.positional.front();
    if (!name.is_string()) Fail("map() wants the name of a filter");
    const Arguments rest = Behind(call, 1);
    for (const Value& item : Items(call.workspace, call.subject)) {
      mapped.push_back(call.interpreter.ApplyFilter(name.view(), item, rest));
    }
  }
  return call.workspace.List(std::move(mapped), Sequence::Kind::kGenerator);
}

template <bool kByAttribute, bool kKeep>
Value Select(const BuiltinCall& call) {
  const Values& positional = call.arguments.positional;
  if (!call.subject.Truth()) return call.workspace.List(Values(call.workspace), Sequence::Kind::kGenerator);
  if (kByAttribute && positional.empty()) Fail("Missing parameter for attribute name");
  const size_t test_at = kByAttribute ? 1 : 0;
  const AttributePath path(call.workspace, kByAttribute ? positional[0] : Value());
  const bool has_test = positional.size() > test_at;
  if (has_test && !positional[test_at].is_string()) Fail("select() wants the name of a test");
  const Arguments rest = has_test ? Behind(call, test_at + 1) : Arguments(call.workspace);
  Values kept(call.workspace);
  for (Value& item : Items(call.workspace, call.subject)) {
    const Value looked_at = path.Get(call.workspace, item);
    const bool passes =
        has_test ? call.interpreter.ApplyTest(positional[test_at].view(), looked_at, rest) : looked_at.Truth();
    if (passes == kKeep) kept.push_back(std::move(item));
  }
  return call.workspace.List(std::move(kept), Sequence::Kind::kGenerator);
}

}  // namespace

const BuiltinTable& SelectionFilters() {
  static const BuiltinTable table = {
      {"map", Map},
      {"select", Select<false, true>},
      {"reject", Select<false, false>},
      {"selectattr", Select<true, true>},
      {"rejectattr", Select<true, false>},
  };
  return table;
}

}  // namespace hydrant::jinja
