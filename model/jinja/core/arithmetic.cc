#include <cmath>
#include <cstdint>

#include "model/jinja/core/fault.h"
#include "model/jinja/core/formatting.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/printing.h"
#include "model/jinja/core/workspace.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {
namespace {

std::string_view Symbol(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd:
      return "+";
    case BinaryOperator::kSubtract:
      return "-";
    case BinaryOperator::kMultiply:
      return "*";
    case BinaryOperator::kDivide:
      return "/";
    case BinaryOperator::kFloorDivide:
      return "//";
    case BinaryOperator::kModulo:
      return "%";
    case BinaryOperator::kPower:
      return "** or pow()";
  }
  return "";
}

[[noreturn]] void Overflow() { Fail("an integer beyond 64 bits"); }

int64_t Power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) Overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) Overflow();
  }
  return result;
}

// Python rounds towards minus infinity, and the remainder has the divisor's sign.
int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == -1) {
    int64_t negated = 0;
    if (__builtin_sub_overflow(int64_t{0}, a, &negated)) Overflow();
    return negated;
  }
  const int64_t quotient = a / b;
  return a % b != 0 && (a % b < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t Modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double FloatModulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double FloatFloorDivide(double a, double b) {
  const double quotient = (a - FloatModulo(a, b)) / b;
  return quotient == 0 ? std::copysign(0.0, a / b) : std::floor(quotient + 0.5);
}

Value Integers(BinaryOperator op, int64_t a, int64_t b, Origin origin) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOperator::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOperator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOperator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOperator::kDivide:
      if (b == 0) Fail("division by zero");
      return Value::Float(static_cast<double>(a) / static_cast<double>(b), origin);
    case BinaryOperator::kFloorDivide:
      if (b == 0) Fail("integer division or modulo by zero");
      result = FloorDivide(a, b);
      break;
    case BinaryOperator::kModulo:
      if (b == 0) Fail("integer modulo by zero");
      result = Modulo(a, b);
      break;
    case BinaryOperator::kPower:
      if (b < 0) {
        if (a == 0) Fail("0.0 cannot be raised to a negative power");
        return Value::Float(std::pow(static_cast<double>(a), static_cast<double>(b)), origin);
      }
      result = Power(a, b);
      break;
  }
  if (overflow) Overflow();
  return Value::Int(result, origin);
}

Value Floats(BinaryOperator op, double a, double b, Origin origin) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value::Float(a + b, origin);
    case BinaryOperator::kSubtract:
      return Value::Float(a - b, origin);
    case BinaryOperator::kMultiply:
      return Value::Float(a * b, origin);
    case BinaryOperator::kDivide:
      if (b == 0) Fail("float division by zero");
      return Value::Float(a / b, origin);
    case BinaryOperator::kFloorDivide:
      if (b == 0) Fail("float floor division by zero");
      return Value::Float(FloatFloorDivide(a, b), origin);
    case BinaryOperator::kModulo:
      if (b == 0) Fail("float modulo");
      return Value::Float(FloatModulo(a, b), origin);
    case BinaryOperator::kPower: {
      const double result = std::pow(a, b);
      if ((a == 0 && b < 0) || (std::isnan(result) && !std::isnan(a) && !std::isnan(b)))
        Fail("a power that has no value");
      return Value::Float(result, origin);
    }
  }
  return Value();
}

Value AddStrings(Workspace& workspace, const Value& a, const Value& b) {
  // What `safe` marked escapes what it is joined with, as markupsafe does.
  const bool markup = a.is_markup() || b.is_markup();
  workspace.Reserve(a.text().footprint_bytes() + b.text().footprint_bytes());
  Text result;
  for (const Value* part : {&a, &b})
    result.Append(markup && !part->is_markup() ? EscapeHtml(workspace, part->text()) : part->text());
  return workspace.String(std::move(result), markup);
}

Value AddLists(Workspace& workspace, const Value& a, const Value& b) {
  Values items(a.sequence().items(), workspace);
  items.insert(items.end(), b.sequence().items().begin(), b.sequence().items().end());
  return workspace.List(std::move(items), a.sequence().is_tuple() ? Sequence::Kind::kTuple : Sequence::Kind::kList);
}

Value Repeat(Workspace& workspace, const Value& value, int64_t times) {
  const size_t count = times < 0 ? 0 : static_cast<size_t>(times);
  const size_t unit =
      value.is_string() ? value.text().footprint_bytes() : value.sequence().items().size() * sizeof(Value);
  size_t bytes = 0;
  if (__builtin_mul_overflow(unit, count, &bytes)) bytes = SIZE_MAX;
  workspace.Reserve(bytes);
  if (value.is_string()) {
    Text result;
    for (size_t i = 0; i < count && !value.text().empty(); ++i) result.Append(value.text());
    return workspace.String(std::move(result), value.is_markup());
  }
  Values items(workspace);
  const Values& once = value.sequence().items();
  for (size_t i = 0; i < count && !once.empty(); ++i) items.insert(items.end(), once.begin(), once.end());
  return workspace.List(std::move(items), value.sequence().is_tuple() ? Sequence::Kind::kTuple : Sequence::Kind::kList);
}

bool IsList(const Value& value) {
  return value.is_sequence() && (value.sequence().kind() == Sequence::Kind::kList || value.sequence().is_tuple());
}

}  // namespace

Value Arithmetic(Workspace& workspace, BinaryOperator op, const Value& a, const Value& b) {
  RequireDefined(a);
  if (op == BinaryOperator::kModulo && a.is_string()) return PercentFormat(workspace, a, b);
  RequireDefined(b);
  if (a.is_number() && b.is_number()) {
    const Origin origin = Either(a.origin(), b.origin());
    if (a.is_integral() && b.is_integral()) return Integers(op, a.integer(), b.integer(), origin);
    return Floats(op, a.number(), b.number(), origin);
  }
  if (op == BinaryOperator::kAdd) {
    if (a.is_string() && b.is_string()) return AddStrings(workspace, a, b);
    if (IsList(a) && IsList(b) && a.sequence().is_tuple() == b.sequence().is_tuple()) return AddLists(workspace, a, b);
    if (a.is_string() || IsList(a)) {
      Fail(StrCat("can only concatenate ", TypeName(a), " (not \"", TypeName(b), "\") to ", TypeName(a)));
    }
  }
  if (op == BinaryOperator::kMultiply) {
    if ((a.is_string() || IsList(a)) && b.is_integral()) return Repeat(workspace, a, b.integer());
    if ((b.is_string() || IsList(b)) && a.is_integral()) return Repeat(workspace, b, a.integer());
  }
  Fail(StrCat("unsupported operand type(s) for ", Symbol(op), ": '", TypeName(a), "' and '", TypeName(b), "'"));
}

Value Negate(const Value& value) {
  RequireDefined(value);
  if (value.is_float()) return Value::Float(-value.number(), value.origin());
  if (!value.is_integral()) Fail(StrCat("bad operand type for unary -: '", TypeName(value), "'"));
  int64_t negated = 0;
  if (__builtin_sub_overflow(int64_t{0}, value.integer(), &negated)) Overflow();
  return Value::Int(negated, value.origin());
}

Value Positive(const Value& value) {
  RequireDefined(value);
  if (value.is_float()) return value;
  if (!value.is_integral()) Fail(StrCat("bad operand type for unary +: '", TypeName(value), "'"));
  return Value::Int(value.integer(), value.origin());
}

}  // namespace hydrant::jinja
