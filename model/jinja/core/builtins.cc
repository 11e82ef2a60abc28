#include "model/jinja/core/builtins.h"

#include <algorithm>

#include "model/jinja/core/fault.h"
#include "model/jinja/core/interpreter.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/workspace.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {
namespace {

Value Get(const BuiltinCall& call) {
  const Bound bound("get", call.arguments, {"key", "default"}, 1);
  const Value* found = call.subject.dict().Find(call.workspace, bound.at(0));
  return found != nullptr ? *found : bound.has(1) ? bound.at(1) : Value::None();
}

Value KeysView(const BuiltinCall& call) {
  Values keys(call.workspace);
  for (const auto& [key, value] : call.subject.dict().entries()) keys.push_back(key);
  return call.workspace.List(std::move(keys), Sequence::Kind::kKeys);
}

Value ValuesView(const BuiltinCall& call) {
  Values values(call.workspace);
  for (const auto& [key, value] : call.subject.dict().entries()) values.push_back(value);
  return call.workspace.List(std::move(values), Sequence::Kind::kValues);
}

Value ItemsView(const BuiltinCall& call) {
  Values pairs(call.workspace);
  for (const auto& [key, value] : call.subject.dict().entries()) pairs.push_back(call.workspace.Tuple({key, value}));
  return call.workspace.List(std::move(pairs), Sequence::Kind::kItems);
}

// Nothing can change a list or dict, so one is as good as its copy.
Value Copy(const BuiltinCall& call) { return call.subject; }

Value CountOf(const BuiltinCall& call) {
  const Bound bound("count", call.arguments, {"value"}, 1);
  const Values& items = call.subject.sequence().items();
  return Value::Int(std::count_if(items.begin(), items.end(),
                                  [&](const Value& item) { return Equal(call.workspace, item, bound.at(0)); }));
}

Value IndexOf(const BuiltinCall& call) {
  const Bound bound("index", call.arguments, {"value"}, 1);
  const Values& items = call.subject.sequence().items();
  const auto found = std::find_if(items.begin(), items.end(),
                                  [&](const Value& item) { return Equal(call.workspace, item, bound.at(0)); });
  if (found == items.end()) Fail("the value is not in the list");
  return Value::Int(found - items.begin());
}

const BuiltinTable& DictMethods() {
  static const BuiltinTable table = {
      {"get", Get}, {"keys", KeysView}, {"values", ValuesView}, {"items", ItemsView}, {"copy", Copy}};
  return table;
}

const BuiltinTable& ListMethods() {
  static const BuiltinTable table = {{"count", CountOf}, {"index", IndexOf}, {"copy", Copy}};
  return table;
}

bool IsMutator(const Value& object, std::string_view name) {
  static constexpr std::array<std::string_view, 5> kOfDict = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::array<std::string_view, 8> kOfList = {"append", "clear",  "extend",  "insert",
                                                              "pop",    "remove", "reverse", "sort"};
  const auto among = [&](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (object.is_dict()) return among(kOfDict);
  return object.is_sequence() && object.sequence().kind() == Sequence::Kind::kList && among(kOfList);
}

const BuiltinTable* MethodsOf(const Value& object) {
  if (object.is_dict()) return &DictMethods();
  const bool is_list = object.is_sequence() && object.sequence().is_subscriptable();
  return is_list ? &ListMethods() : nullptr;
}

Builtin Find(const BuiltinTable& table, std::string_view name) {
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

Bound::Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
             size_t required)
    : function_(function) {
  assert(names.size() <= kParametersMax);
  if (arguments.positional.size() > names.size()) {
    Fail(StrCat(function, "() takes at most ", names.size(), " arguments (", arguments.positional.size(), " given)"));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), name.view());
    if (found == names.end()) Fail(StrCat(function, "() got an unexpected keyword argument '", name.view(), "'"));
    const Value*& place = values_[found - names.begin()];
    if (place != nullptr) Fail(StrCat(function, "() got multiple values for argument '", name.view(), "'"));
    place = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!has(i)) Fail(StrCat(function, "() missing a required argument: '", names.begin()[i], "'"));
  }
}

const Value& Bound::at(size_t i) const {
  static const Value undefined{};
  return has(i) ? *values_[i] : undefined;
}

int64_t Bound::Int(size_t i, int64_t fallback) const {
  if (!has(i)) return fallback;
  if (!at(i).is_integral()) Fail(StrCat(function_, "() wants an integer, not '", TypeName(at(i)), "'"));
  return at(i).integer();
}

const Text& Bound::String(size_t i, std::string_view fallback) const {
  if (!has(i)) return fallbacks_.emplace_front(std::string(fallback), Origin::kTemplate);
  if (!at(i).is_string()) Fail(StrCat(function_, "() wants a str, not '", TypeName(at(i)), "'"));
  return at(i).text();
}

std::optional<Value> MethodOf(Workspace& workspace, const Value& object, std::string_view name) {
  Builtin builtin = nullptr;
  if (object.is_string()) {
    builtin = Find(StringMethods(), name);
    if (builtin == nullptr) builtin = Find(StringQueryMethods(), name);
  } else if (const BuiltinTable* methods = MethodsOf(object)) {
    builtin = Find(*methods, name);
  }
  if (builtin != nullptr) {
    workspace.Step();
    std::shared_ptr<Entity> method = MakeObject<Function>(object, builtin);
    method->Account(workspace, sizeof(Function));
    return Value::Of(std::move(method));
  }
  // What every object of Python has.
  const bool internal = name == "__class__" || name == "__init__" || name == "__dict__" || name == "__doc__" ||
                        name == "__eq__" || name == "__hash__" || name == "__str__" || name == "__repr__";
  if (!internal && !IsMutator(object, name)) return std::nullopt;
  return workspace.Missing(StrCat("access to attribute '", name, "' of '", TypeName(object), "' object is unsafe."));
}

Builtin FindFilter(std::string_view name) {
  for (const BuiltinTable* table : {&TextFilters(), &ScalarFilters(), &SequenceFilters(), &SelectionFilters()}) {
    if (const Builtin builtin = Find(*table, name)) return builtin;
  }
  return nullptr;
}

Value Function::Call(Interpreter& interpreter, Arguments& arguments) {
  return builtin_({interpreter, interpreter.workspace(), subject_, arguments});
}

}  // namespace hydrant::jinja
