#include <memory>
#include <variant>

#include "model/jinja/core/fault.h"
#include "model/jinja/core/interpreter.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/printing.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {
Value Interpreter::Evaluate(const Expression& expression) {
  const Workspace::Level level(workspace_);
  workspace_.Step();
  return std::visit([&](const auto& node) { return Evaluate(node); }, expression.node);
}

Value Interpreter::Evaluate(const NameExpression& expression) {
  if (const Value* value = scope_->Find(expression.name)) return *value;
  Value function = FindFunction(workspace_, expression.name);
  if (!function.is_undefined()) return function;
  return workspace_.Missing(StrCat("'", expression.name, "' is undefined"));
}

Value Interpreter::Evaluate(const SequenceExpression& expression) {
  Values items(workspace_);
  items.reserve(expression.items.size());
  for (const ExpressionPtr& item : expression.items) items.push_back(Evaluate(*item));
  return workspace_.List(std::move(items), expression.kind);
}

Value Interpreter::Evaluate(const DictExpression& expression) {
  auto dict = MakeObject<Dict>(&workspace_);
  for (const auto& [key, value] : expression.entries) {
    Value evaluated = Evaluate(*key);
    dict->Set(workspace_, std::move(evaluated), Evaluate(*value));
  }
  return workspace_.Mapping(std::move(dict));
}

Value Interpreter::Evaluate(const UnaryExpression& expression) {
  const Value value = Evaluate(*expression.operand);
  switch (expression.op) {
    case UnaryOperator::kNot:
      return Value::Bool(!value.Truth());
    case UnaryOperator::kNegate:
      return Negate(value);
    case UnaryOperator::kPlus:
      return Positive(value);
  }
  return Value();
}

Value Interpreter::Evaluate(const BinaryExpression& expression) {
  const Value left = Evaluate(*expression.left);
  const Value right = Evaluate(*expression.right);
  return Arithmetic(workspace_, expression.op, left, right);
}

Value Interpreter::Evaluate(const LogicExpression& expression) {
  Value left = Evaluate(*expression.left);
  return left.Truth() == expression.is_and ? Evaluate(*expression.right) : left;
}

Value Interpreter::Evaluate(const ConcatExpression& expression) {
  Text text;
  for (const ExpressionPtr& part : expression.parts) {
    text.Append(Str(workspace_, Evaluate(*part)));
    workspace_.Reserve(text.footprint_bytes());
  }
  return workspace_.String(std::move(text));
}

Value Interpreter::Evaluate(const CompareExpression& expression) {
  Value left = Evaluate(*expression.first);
  for (const auto& [comparison, operand] : expression.rest) {
    Value right = Evaluate(*operand);
    if (!Holds(workspace_, comparison, left, right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Interpreter::Evaluate(const ConditionalExpression& expression) {
  if (Evaluate(*expression.condition).Truth()) return Evaluate(*expression.then);
  if (expression.otherwise) return Evaluate(*expression.otherwise);
  return workspace_.Missing("the inline if-expression evaluated to false and no else section was defined.");
}

Value Interpreter::Evaluate(const AttributeExpression& expression) {
  return Attribute(workspace_, Evaluate(*expression.object), expression.name);
}

Value Interpreter::Evaluate(const SubscriptExpression& expression) {
  const Value object = Evaluate(*expression.object);
  if (const auto* slice = std::get_if<SliceExpression>(&expression.key->node)) {
    const auto bound = [&](const ExpressionPtr& part) { return part ? Evaluate(*part) : Value::None(); };
    const Value begin = bound(slice->begin), end = bound(slice->end), step = bound(slice->step);
    return Slice(workspace_, object, begin, end, step);
  }
  return Subscript(workspace_, object, Evaluate(*expression.key));
}

// In a tuple of keys, which nothing that templates hold can be indexed by.
Value Interpreter::Evaluate(const SliceExpression&) { Fail("a slice among other keys"); }

Arguments Interpreter::Evaluate(const CallArguments& arguments) {
  Arguments evaluated(workspace_);
  for (const ExpressionPtr& value : arguments.positional) evaluated.positional.push_back(Evaluate(*value));
  for (const auto& [name, value] : arguments.named) {
    evaluated.named.emplace_back(Text(name, Origin::kTemplate), Evaluate(*value));
  }
  if (arguments.more_positional) {
    for (Value& value : Items(workspace_, Evaluate(*arguments.more_positional))) {
      evaluated.positional.push_back(std::move(value));
    }
  }
  if (arguments.more_named) {
    const Value more = Evaluate(*arguments.more_named);
    if (!more.is_dict()) Fail("argument after ** must be a mapping");
    for (const auto& [key, value] : more.dict().entries()) {
      if (!key.is_string()) Fail("keywords must be strings");
      workspace_.StepBytes(key.text().size());
      evaluated.named.emplace_back(key.text(), value);
    }
  }
  return evaluated;
}

Value Interpreter::Call(const Value& callee, Arguments& arguments) {
  RequireDefined(callee);
  if (!callee.is_entity()) Fail(StrCat("'", TypeName(callee), "' object is not callable"));
  // The callee may be replaced while it runs.
  const Value held = callee;
  return held.entity().Call(*this, arguments);
}

Value Interpreter::Evaluate(const CallExpression& expression) {
  const Value callee = Evaluate(*expression.callee);
  Arguments arguments = Evaluate(expression.arguments);
  return Call(callee, arguments);
}

Value Interpreter::Evaluate(const FilterExpression& expression) {
  const Value subject = expression.subject ? Evaluate(*expression.subject) : filtered_;
  return ApplyFilter(expression.name, subject, Evaluate(expression.arguments));
}

Value Interpreter::Evaluate(const TestExpression& expression) {
  const Value subject = Evaluate(*expression.subject);
  return Value::Bool(ApplyTest(expression.name, subject, Evaluate(expression.arguments)));
}

Value Interpreter::ApplyFilter(std::string_view name, const Value& subject, const Arguments& arguments) {
  const Workspace::Level level(workspace_);
  workspace_.Step();
  workspace_.StepBytes(name.size());
  const Builtin filter = FindFilter(name);
  if (filter == nullptr) Fail(StrCat("No filter named '", name, "'."));
  return filter({*this, workspace_, subject, arguments});
}

bool Interpreter::ApplyTest(std::string_view name, const Value& subject, const Arguments& arguments) {
  const Workspace::Level level(workspace_);
  workspace_.Step();
  workspace_.StepBytes(name.size());
  const Builtin test = FindTest(name);
  if (test == nullptr) Fail(StrCat("No test named '", name, "'."));
  return test({*this, workspace_, subject, arguments}).Truth();
}

}  // namespace hydrant::jinja
