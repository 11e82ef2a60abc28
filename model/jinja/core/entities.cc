#include "model/jinja/core/entities.h"

#include <algorithm>
#include <array>

#include "model/jinja/core/fault.h"
#include "model/jinja/core/operators.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {
namespace {

// A method of `object`; the Function holds it.
Value MethodValue(Workspace& workspace, const Entity& object, Builtin builtin) {
  // The object is one that the workspace keeps until the render ends.
  const std::shared_ptr<Entity> self(std::shared_ptr<Entity>(), const_cast<Entity*>(&object));
  std::shared_ptr<Entity> method = MakeObject<Function>(Value::Of(self), builtin);
  method->Account(workspace, sizeof(Function));
  return Value::Of(std::move(method));
}

template <typename T>
T& As(const BuiltinCall& call) {
  return static_cast<T&>(call.subject.entity());
}

Value LoopCycle(const BuiltinCall& call) { return As<LoopState>(call).Cycle(call.arguments); }

Value LoopChanged(const BuiltinCall& call) {
  return Value::Bool(As<LoopState>(call).Changed(call.workspace, call.arguments));
}

Value CyclerNext(const BuiltinCall& call) { return As<Cycler>(call).Next(); }

Value CyclerReset(const BuiltinCall& call) {
  As<Cycler>(call).Reset();
  return Value::None();
}

}  // namespace

// What a call gives each parameter, and what is left over.
struct Macro::Bound {
  explicit Bound(Workspace& workspace) : varargs(workspace), kwargs(MakeObject<Dict>(&workspace)) {}

  std::vector<const Value*> values;  // by parameter; null where absent
  Values varargs;
  std::shared_ptr<Dict> kwargs;
  Value caller;
};

Macro::Bound Macro::Bind(Workspace& workspace, Arguments& arguments) const {
  Bound bound(workspace);
  bound.values.resize(signature_.parameters.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < bound.values.size()) {
      bound.values[i] = &arguments.positional[i];
    } else if (signature_.uses_varargs) {
      bound.varargs.push_back(arguments.positional[i]);
    } else {
      Fail(StrCat("macro '", name_, "' takes not more than ", bound.values.size(), " argument(s)"));
    }
  }
  for (auto& [name, value] : arguments.named) {
    workspace.Step(1 + static_cast<int64_t>(signature_.parameters.size() / 8));
    const auto found = std::find_if(signature_.parameters.begin(), signature_.parameters.end(),
                                    [&name = name](const auto& parameter) { return parameter.first == name.view(); });
    if (found != signature_.parameters.end()) {
      const Value*& place = bound.values[static_cast<size_t>(found - signature_.parameters.begin())];
      if (place != nullptr) Fail(StrCat("macro '", name_, "' got multiple values for argument '", name.view(), "'"));
      place = &value;
    } else if (name.view() == "caller" && signature_.uses_caller) {
      bound.caller = value;
    } else if (signature_.uses_kwargs && name.view() != "caller") {
      bound.kwargs->Set(workspace, workspace.String(name), value);
    } else {
      Fail(StrCat("macro '", name_, "' takes no keyword argument '", name.view(), "'"));
    }
  }
  return bound;
}

Value Macro::Call(Interpreter& interpreter, Arguments& arguments) {
  Workspace& workspace = interpreter.workspace();
  Bound bound = Bind(workspace, arguments);
  return interpreter.RunBody(scope_, signature_.body, [&](Scope& scope) {
    if (signature_.uses_caller) {
      scope.Set("caller", bound.caller.is_undefined() ? workspace.Missing("No caller defined") : bound.caller);
    }
    if (signature_.uses_varargs) scope.Set("varargs", workspace.Tuple(std::move(bound.varargs)));
    if (signature_.uses_kwargs) scope.Set("kwargs", workspace.Mapping(std::move(bound.kwargs)));
    for (size_t i = 0; i < bound.values.size(); ++i) {
      const auto& [name, fallback] = signature_.parameters[i];
      if (bound.values[i] != nullptr) {
        scope.Set(name, *bound.values[i]);
      } else if (fallback) {
        scope.Set(name, interpreter.Evaluate(*fallback));
      } else {
        scope.Set(name, workspace.Missing(StrCat("parameter '", name, "' was not provided")));
      }
    }
  });
}

Value Macro::Attribute(Workspace& workspace, std::string_view name) const {
  if (name == "name") return workspace.String(std::string(name_));
  if (name == "caller") return Value::Bool(signature_.uses_caller);
  if (name == "catch_varargs") return Value::Bool(signature_.uses_varargs);
  if (name == "catch_kwargs") return Value::Bool(signature_.uses_kwargs);
  if (name != "arguments") return Value();
  Values names(workspace);
  for (const auto& [parameter, fallback] : signature_.parameters) names.push_back(workspace.String(parameter));
  return workspace.Tuple(std::move(names));
}

Value LoopState::Call(Interpreter& interpreter, Arguments& arguments) {
  if (!loop_.is_recursive) Fail("The loop must have the 'recursive' marker to be called recursively.");
  const jinja::Bound bound("loop", arguments, {"iterable"}, 1);
  return interpreter.RunLoop(loop_, scope_, bound.at(0), depth_ + 1);
}

Value LoopState::Attribute(Workspace& workspace, std::string_view name) const {
  const auto index = static_cast<int64_t>(index_), count = static_cast<int64_t>(items_.size());
  if (name == "index") return Value::Int(index + 1);
  if (name == "index0") return Value::Int(index);
  if (name == "revindex") return Value::Int(count - index);
  if (name == "revindex0") return Value::Int(count - index - 1);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 == count);
  if (name == "length") return Value::Int(count);
  if (name == "depth") return Value::Int(depth_ + 1);
  if (name == "depth0") return Value::Int(depth_);
  if (name == "previtem") return index > 0 ? items_[index_ - 1] : workspace.Missing("there is no previous item");
  if (name == "nextitem") return index + 1 < count ? items_[index_ + 1] : workspace.Missing("there is no next item");
  if (name == "cycle") return MethodValue(workspace, *this, LoopCycle);
  if (name == "changed") return MethodValue(workspace, *this, LoopChanged);
  return Value();
}

void LoopState::Clear() {
  scope_ = nullptr;
  items_.clear();
  last_seen_.clear();
}

Value LoopState::Cycle(const Arguments& arguments) const {
  if (arguments.positional.empty()) Fail("no items for cycling given");
  return arguments.positional[index_ % arguments.positional.size()];
}

bool LoopState::Changed(Workspace& workspace, const Arguments& arguments) {
  const bool same = seen_ && std::equal(last_seen_.begin(), last_seen_.end(), arguments.positional.begin(),
                                        arguments.positional.end(),
                                        [&](const Value& a, const Value& b) { return Equal(workspace, a, b); });
  last_seen_ = arguments.positional;
  seen_ = true;
  return !same;
}

Value Namespace::Attribute(Workspace&, std::string_view name) const {
  const Value* value = values_.Find(name);
  return value == nullptr ? Value() : *value;
}

bool Namespace::SetAttribute(Workspace& workspace, std::string_view name, const Value& value) {
  if (!name.empty() && name.front() == '_') {
    Fail("Chat templates cannot store underscore-prefixed attributes on a namespace.");
  }
  values_.SetText(workspace.String(std::string(name)), value);
  return true;
}

Value Cycler::Attribute(Workspace& workspace, std::string_view name) const {
  if (name == "current") return items_.empty() ? Value() : items_[at_];
  if (name == "next") return MethodValue(workspace, *this, CyclerNext);
  if (name == "reset") return MethodValue(workspace, *this, CyclerReset);
  return Value();
}

Value Cycler::Next() {
  Value item = items_[at_];
  at_ = (at_ + 1) % items_.size();
  return item;
}

Value Joiner::Call(Interpreter& interpreter, Arguments& arguments) {
  const jinja::Bound bound("joiner", arguments, {});
  return std::exchange(used_, true) ? separator_ : interpreter.workspace().String("");
}

}  // namespace hydrant::jinja
