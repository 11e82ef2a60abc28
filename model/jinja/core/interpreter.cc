// The statements; the expressions are in evaluation.cc.
#include "model/jinja/core/interpreter.h"

#include <variant>

#include "model/jinja/core/entities.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/printing.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {

void Scope::Set(std::string_view name, Value value) {
  for (auto& [known, current] : values_) {
    if (known == name) {
      current = std::move(value);
      return;
    }
  }
  values_.emplace_back(name, std::move(value));
}

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer_.get()) {
    for (const auto& [known, value] : scope->values_) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

Interpreter::Interpreter(Workspace& workspace, std::time_t now)
    : workspace_(workspace), now_(now), scope_(std::make_shared<Scope>(workspace, nullptr)) {}

Text Interpreter::Run(const Body& body) {
  return Capture([&] { Execute(body); });
}

Interpreter::Flow Interpreter::Execute(const Body& body) {
  const Workspace::Level level(workspace_);
  for (const auto& statement : body) {
    workspace_.Step();
    line_ = statement->line;
    const Flow flow = std::visit([&](const auto& node) { return Execute(node); }, statement->node);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

void Interpreter::Write(const Text& text) {
  workspace_.StepBytes(text.size());
  out_->Append(text);
  workspace_.Reserve(out_->footprint_bytes());
}

Interpreter::Flow Interpreter::Execute(const DataStatement& statement) {
  Write(statement.text.text());
  return Flow::kOn;
}

Interpreter::Flow Interpreter::Execute(const PrintStatement& statement) {
  const Value value = Evaluate(*statement.value);
  if (value.is_string()) {
    Write(value.text());
  } else {
    Write(Str(workspace_, value));
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::Execute(const IfStatement& statement) {
  for (const auto& [condition, body] : statement.branches) {
    if (Evaluate(*condition).Truth()) return Execute(body);
  }
  return Execute(statement.otherwise);
}

Interpreter::Flow Interpreter::Execute(const ForStatement& statement) {
  Loop(statement, Evaluate(*statement.sequence), 0);
  return Flow::kOn;
}

Value Interpreter::RunLoop(const ForStatement& loop, const std::shared_ptr<Scope>& outer, const Value& sequence,
                           int depth) {
  const Workspace::CallLevel level(workspace_);
  const auto around = std::exchange(scope_, outer);
  Text text = Capture([&] { Loop(loop, sequence, depth); });
  scope_ = around;
  return workspace_.String(std::move(text));
}

void Interpreter::Loop(const ForStatement& loop, const Value& sequence, int depth) {
  Values items = Items(workspace_, sequence);
  if (loop.condition) {
    Values kept(workspace_);
    for (Value& item : items) {
      InScope([&] {
        workspace_.Step();
        Assign(loop.target, item);
        if (Evaluate(*loop.condition).Truth()) kept.push_back(std::move(item));
        return Flow::kOn;
      });
    }
    items = std::move(kept);
  }
  bool has_ended = false;  // some pass reached the end of the body
  const auto state = MakeObject<LoopState>(workspace_, std::move(items), loop, scope_, depth);
  const Value loop_value = workspace_.Keep(state);
  for (size_t i = 0; i < state->items().size(); ++i) {
    workspace_.Step();
    state->MoveTo(i);
    const Flow flow = InScope([&] {
      scope_->Set("loop", loop_value);
      Assign(loop.target, state->items()[i]);
      return Execute(loop.body);
    });
    has_ended = has_ended || flow == Flow::kOn;
    if (flow == Flow::kBreak) break;
  }
  // As Jinja has it, also where the first pass broke off.
  if (!has_ended) InScope([&] { return Execute(loop.otherwise); });
}

void Interpreter::Assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    const Values items = Items(workspace_, value);
    if (items.size() != target.items.size()) {
      Fail(StrCat(items.size() < target.items.size() ? "not enough" : "too many", " values to unpack (expected ",
                  target.items.size(), ")"));
    }
    for (size_t i = 0; i < items.size(); ++i) Assign(target.items[i], items[i]);
    return;
  }
  if (target.attribute.empty()) return scope_->Set(target.name, value);
  const Value* object = scope_->Find(target.name);
  if (object == nullptr) Fail(StrCat("'", target.name, "' is undefined"));
  if (!object->is_entity() || !object->entity().SetAttribute(workspace_, target.attribute, value)) {
    Fail("cannot assign attribute on non-namespace object");
  }
}

Value Interpreter::Captured(const Body& body, const ExpressionPtr& filter) {
  Text text = Capture([&] {
    InScope([&] {
      Execute(body);
      return Flow::kOn;
    });
  });
  Value value = workspace_.String(std::move(text));
  if (!filter) return value;
  const Value around = std::exchange(filtered_, value);
  value = Evaluate(*filter);
  filtered_ = around;
  return value;
}

Interpreter::Flow Interpreter::Execute(const SetStatement& statement) {
  Assign(statement.target, statement.value ? Evaluate(*statement.value) : Captured(statement.body, statement.filter));
  return Flow::kOn;
}

Interpreter::Flow Interpreter::Execute(const FilterStatement& statement) {
  Write(Str(workspace_, Captured(statement.body, statement.filter)));
  return Flow::kOn;
}

Interpreter::Flow Interpreter::Execute(const MacroStatement& statement) {
  scope_->Set(statement.name, workspace_.Keep(MakeObject<Macro>(statement.name, statement.signature, scope_)));
  return Flow::kOn;
}

Interpreter::Flow Interpreter::Execute(const CallStatement& statement) {
  const auto& call = std::get<CallExpression>(statement.call->node);
  const Value callee = Evaluate(*call.callee);
  Arguments arguments = Evaluate(call.arguments);
  arguments.named.emplace_back(Text("caller", Origin::kTemplate),
                               workspace_.Keep(MakeObject<Macro>("caller", statement.caller, scope_)));
  Write(Str(workspace_, Call(callee, arguments)));
  return Flow::kOn;
}

Interpreter::Flow Interpreter::Execute(const WithStatement& statement) {
  // The values are those outside; none sees the others.
  Values values(workspace_);
  for (const auto& [target, value] : statement.values) values.push_back(Evaluate(*value));
  return InScope([&] {
    for (size_t i = 0; i < values.size(); ++i) Assign(statement.values[i].first, values[i]);
    return Execute(statement.body);
  });
}

Interpreter::Flow Interpreter::Execute(const ScopeStatement& statement) {
  return InScope([&] { return Execute(statement.body); });
}

}  // namespace hydrant::jinja
