// Jinja's tests: what stands after `is`.
#include "model/jinja/core/builtins.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/printing.h"
#include "model/jinja/core/workspace.h"
#include "model/jinja/library/letter_case.h"

namespace hydrant::jinja {
namespace {

template <bool (*kHolds)(const Value&)>
Value Simple(const BuiltinCall& call) {
  const Bound bound("test", call.arguments, {});
  return Value::Bool(kHolds(call.subject));
}

template <Comparison kComparison>
Value Compared(const BuiltinCall& call) {
  const Bound bound("test", call.arguments, {"other"}, 1);
  return Value::Bool(Holds(call.workspace, kComparison, call.subject, bound.at(0)));
}

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsUndefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsBoolean(const Value& value) { return value.is_bool(); }
bool IsTrue(const Value& value) { return value.is_bool() && value.Truth(); }
bool IsFalse(const Value& value) { return value.is_bool() && !value.Truth(); }
bool IsInteger(const Value& value) { return value.is_int() || value.is_wide(); }
bool IsFloat(const Value& value) { return value.is_float() && !value.is_wide(); }
bool IsNumber(const Value& value) { return value.is_number(); }
bool IsString(const Value& value) { return value.is_string(); }
bool IsMapping(const Value& value) { return value.is_dict(); }
bool IsEscaped(const Value& value) { return value.is_markup(); }
bool IsCallable(const Value& value) { return value.is_entity() && value.entity().callable(); }
// What has a length and can be indexed: a dict too, and Python's undefined as well.
bool IsSequence(const Value& value) {
  return value.is_string() || value.is_dict() || value.is_undefined() ||
         (value.is_sequence() && value.sequence().is_subscriptable());
}

template <int64_t kRemainder>
Value Parity(const BuiltinCall& call) {
  const Value remainder = Arithmetic(call.workspace, BinaryOperator::kModulo, call.subject, Value::Int(2));
  return Value::Bool(Equal(call.workspace, remainder, Value::Int(kRemainder)));
}

Value DivisibleBy(const BuiltinCall& call) {
  const Bound bound("divisibleby", call.arguments, {"num"}, 1);
  const Value remainder = Arithmetic(call.workspace, BinaryOperator::kModulo, call.subject, bound.at(0));
  return Value::Bool(Equal(call.workspace, remainder, Value::Int(0)));
}

template <LetterCase kOther>
Value InCase(const BuiltinCall& call) {
  const Value text = call.workspace.String(Str(call.workspace, call.subject));
  const Arguments none(call.workspace);
  const std::string_view method = kOther == LetterCase::kUpper ? "islower" : "isupper";
  return StringQueryMethods().at(method)({call.interpreter, call.workspace, text, none});
}

Value SameAs(const BuiltinCall& call) {
  const Bound bound("sameas", call.arguments, {"other"}, 1);
  const Value &a = call.subject, &b = bound.at(0);
  if (a.kind() != b.kind()) return Value::Bool(false);
  if (a.identity() != nullptr || b.identity() != nullptr) return Value::Bool(a.identity() == b.identity());
  return Value::Bool(Equal(call.workspace, a, b));
}

Value IsFilter(const BuiltinCall& call) {
  if (call.subject.is_string()) call.workspace.StepBytes(call.subject.text().size());
  return Value::Bool(call.subject.is_string() && FindFilter(call.subject.view()) != nullptr);
}

Value IsTest(const BuiltinCall& call) {
  if (call.subject.is_string()) call.workspace.StepBytes(call.subject.text().size());
  return Value::Bool(call.subject.is_string() && FindTest(call.subject.view()) != nullptr);
}

const BuiltinTable& Tests() {
  static const BuiltinTable table = {
      {"defined", Simple<IsDefined>},
      {"undefined", Simple<IsUndefined>},
      {"none", Simple<IsNone>},
      {"boolean", Simple<IsBoolean>},
      {"true", Simple<IsTrue>},
      {"false", Simple<IsFalse>},
      {"integer", Simple<IsInteger>},
      {"float", Simple<IsFloat>},
      {"number", Simple<IsNumber>},
      {"string", Simple<IsString>},
      {"mapping", Simple<IsMapping>},
      {"sequence", Simple<IsSequence>},
      {"iterable", Simple<IsIterable>},
      {"callable", Simple<IsCallable>},
      {"escaped", Simple<IsEscaped>},
      {"odd", Parity<1>},
      {"even", Parity<0>},
      {"divisibleby", DivisibleBy},
      {"lower", InCase<LetterCase::kUpper>},
      {"upper", InCase<LetterCase::kLower>},
      {"sameas", SameAs},
      {"filter", IsFilter},
      {"test", IsTest},
      {"in", Compared<Comparison::kIn>},
      {"==", Compared<Comparison::kEqual>},
      {"eq", Compared<Comparison::kEqual>},
      {"equalto", Compared<Comparison::kEqual>},
      {"!=", Compared<Comparison::kUnequal>},
      {"ne", Compared<Comparison::kUnequal>},
      {"<", Compared<Comparison::kLess>},
      {"lt", Compared<Comparison::kLess>},
      {"lessthan", Compared<Comparison::kLess>},
      {"<=", Compared<Comparison::kLessOrEqual>},
      {"le", Compared<Comparison::kLessOrEqual>},
      {">", Compared<Comparison::kGreater>},
      {"gt", Compared<Comparison::kGreater>},
      {"greaterthan", Compared<Comparison::kGreater>},
      {">=", Compared<Comparison::kGreaterOrEqual>},
      {"ge", Compared<Comparison::kGreaterOrEqual>},
  };
  return table;
}

}  // namespace

Builtin FindTest(std::string_view name) {
  const auto found = Tests().find(name);
  return found == Tests().end() ? nullptr : found->second;
}

}  // namespace hydrant::jinja
