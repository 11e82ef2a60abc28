// The functions every template finds: Jinja's and the two of Hugging Face.
#include <array>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "model/jinja/core/builtins.h"
#include "model/jinja/core/entities.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/printing.h"
#include "model/jinja/core/workspace.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {
namespace {

// Jinja's sandbox has the same bound.
constexpr int64_t kRangeMax = 100'000;

Value Range(const BuiltinCall& call) {
  const Bound bound("range", call.arguments, {"start", "stop", "step"}, 1);
  const int64_t begin = bound.has(1) ? bound.Int(0, 0) : 0;
  const int64_t end = bound.has(1) ? bound.Int(1, 0) : bound.Int(0, 0);
  const int64_t step = bound.Int(2, 1);
  if (step == 0) Fail("range() arg 3 must not be zero");
  const double count = (static_cast<double>(end) - static_cast<double>(begin)) / static_cast<double>(step);
  if (count > kRangeMax) {
    throw Fault{FaultKind::kLimit, StrCat("it counts over a range of more than ", kRangeMax)};
  }
  Values items(call.workspace);
  call.workspace.Step(count > 0 ? static_cast<int64_t>(count) : 0);
  items.reserve(count > 0 ? static_cast<size_t>(count) + 1 : 0);
  // The last step may leave 64 bits; no item comes after it then.
  for (int64_t at = begin; step > 0 ? at < end : at > end;) {
    items.push_back(Value::Int(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return call.workspace.List(std::move(items), Sequence::Kind::kRange);
}

// dict(pairs or mapping, name=value, …).
Value MakeDict(const BuiltinCall& call) {
  auto dict = MakeObject<Dict>(&call.workspace);
  if (call.arguments.positional.size() > 1) Fail("dict expected at most 1 argument");
  for (const Value& from : call.arguments.positional) {
    if (from.is_dict()) {
      for (const auto& [key, value] : from.dict().entries()) dict->Set(call.workspace, key, value);
      continue;
    }
    for (const Value& pair : Items(call.workspace, from)) {
      const Values items = Items(call.workspace, pair);
      if (items.size() != 2) Fail("dictionary update sequence element has not length 2");
      dict->Set(call.workspace, items[0], items[1]);
    }
  }
  for (const auto& [name, value] : call.arguments.named) dict->Set(call.workspace, call.workspace.String(name), value);
  return call.workspace.Mapping(std::move(dict));
}

Value MakeNamespace(const BuiltinCall& call) {
  const Value initial = MakeDict(call);
  auto result = MakeObject<Namespace>(call.workspace);
  for (const auto& [key, value] : initial.dict().entries()) {
    if (!key.is_string()) Fail("namespace() wants names");
    result->SetAttribute(call.workspace, key.view(), value);
  }
  return call.workspace.Keep(std::move(result));
}

Value MakeCycler(const BuiltinCall& call) {
  if (call.arguments.positional.empty()) Fail("at least one item has to be provided");
  return call.workspace.Keep(MakeObject<Cycler>(Values(call.arguments.positional, call.workspace)));
}

Value MakeJoiner(const BuiltinCall& call) {
  const Bound bound("joiner", call.arguments, {"sep"});
  return call.workspace.Keep(MakeObject<Joiner>(call.workspace.String(bound.String(0, ", "))));
}

Value RaiseException(const BuiltinCall& call) {
  const Bound bound("raise_exception", call.arguments, {"message"}, 1);
  throw Fault{FaultKind::kRaised, Str(call.workspace, bound.at(0)).bytes()};
}

Value StrftimeNow(const BuiltinCall& call) {
  const Bound bound("strftime_now", call.arguments, {"format"}, 1);
  const Text& format = bound.String(0);
  // A date, a time and words around them; longer ones come out empty.
  std::array<char, 1024> buffer = {};
  const std::time_t now = call.interpreter.now();
  std::tm local = {};
  localtime_r(&now, &local);
  const size_t size = std::strftime(buffer.data(), buffer.size(), format.bytes().c_str(), &local);
  return call.workspace.String(std::string(buffer.data(), size), format.origin());
}

}  // namespace

Value FindFunction(Workspace& workspace, std::string_view name) {
  static const BuiltinTable table = {
      {"range", Range},
      {"dict", MakeDict},
      {"namespace", MakeNamespace},
      {"cycler", MakeCycler},
      {"joiner", MakeJoiner},
      {"raise_exception", RaiseException},
      {"strftime_now", StrftimeNow},
  };
  const auto found = table.find(name);
  if (found == table.end()) return Value();
  std::shared_ptr<Entity> function = MakeObject<Function>(Value(), found->second);
  function->Account(workspace, sizeof(Function));
  return Value::Of(std::move(function));
}

}  // namespace hydrant::jinja
