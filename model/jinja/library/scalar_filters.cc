// The filters on numbers, on what may be undefined, and on attributes.
#include <cmath>
#include <cstdint>

#include "model/jinja/core/builtins.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/numbers.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/workspace.h"

namespace hydrant::jinja {
namespace {

Value Abs(const BuiltinCall& call) {
  RequireDefined(call.subject);
  if (call.subject.is_float()) return Value::Float(std::fabs(call.subject.number()), call.subject.origin());
  if (!call.subject.is_integral()) Fail("bad operand type for abs()");
  return call.subject.integer() < 0 ? Negate(call.subject) : Positive(call.subject);
}

Value Default(const BuiltinCall& call) {
  const Bound bound("default", call.arguments, {"default_value", "boolean"});
  const bool missing = call.subject.is_undefined() || (bound.Truth(1, false) && !call.subject.Truth());
  if (!missing) return call.subject;
  return bound.has(0) ? bound.at(0) : call.workspace.String("");
}

// int(value) of a float; nullopt where it has none or 64 bits do not hold it.
std::optional<Value> Truncated(double value, Origin origin) {
  if (!(value > -9.2e18 && value < 9.2e18)) return std::nullopt;
  return Value::Int(static_cast<int64_t>(value), origin);
}

Value Int(const BuiltinCall& call) {
  const Bound bound("int", call.arguments, {"default", "base"});
  const Value fallback = bound.has(0) ? bound.at(0) : Value::Int(0);
  RequireDefined(call.subject);
  std::optional<Value> result;
  if (call.subject.is_integral()) result = Positive(call.subject);
  if (call.subject.is_float()) result = Truncated(call.subject.number(), call.subject.origin());
  if (call.subject.is_string()) {
    call.workspace.StepBytes(call.subject.text().size());
    const int64_t base = bound.Int(1, 10);
    const Origin origin = call.subject.text().origin();
    if (base >= 0 && base <= 36) result = ParseInt(call.subject.view(), static_cast<int>(base));
    if (result) return Value::Int(result->integer(), origin);
    if (const auto number = ParseFloat(call.subject.view())) result = Truncated(number->number(), origin);
  }
  return result ? *result : fallback;
}

Value Float(const BuiltinCall& call) {
  const Bound bound("float", call.arguments, {"default"});
  RequireDefined(call.subject);
  if (call.subject.is_number()) return Value::Float(call.subject.number(), call.subject.origin());
  if (call.subject.is_string()) {
    call.workspace.StepBytes(call.subject.text().size());
    if (const auto number = ParseFloat(call.subject.view())) {
      return Value::Float(number->number(), call.subject.text().origin());
    }
  }
  return bound.has(0) ? bound.at(0) : Value::Float(0);
}

// Half to even at a decimal place, as Python rounds: by the shortest decimal that reads back as the same number it would be
// wrong, so the exact value is printed with that many places.
double RoundTo(double value, int64_t places) {
  if (!std::isfinite(value) || places > 300) return value;
  if (places < -300) return 0;
  if (places < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-places));
    return std::nearbyint(value / unit) * unit;
  }
  std::string text(400 + static_cast<size_t>(places), '\0');
  const int size = std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(places), value);
  text.resize(static_cast<size_t>(size));
  return ParseFloat(text)->number();
}

Value Round(const BuiltinCall& call) {
  const Bound bound("round", call.arguments, {"precision", "method"});
  RequireDefined(call.subject);
  const int64_t places = bound.Int(0, 0);
  const Text& method = bound.String(1, "common");
  if (method.view() != "common" && method.view() != "ceil" && method.view() != "floor") {
    Fail("method must be common, ceil or floor");
  }
  if (!call.subject.is_number()) Fail("round() wants a number");
  const Origin origin = call.subject.origin();
  if (method.view() == "common") {
    // An integer stays one.
    if (call.subject.is_integral() && places >= 0) return Positive(call.subject);
    const double rounded = RoundTo(call.subject.number(), places);
    if (!call.subject.is_integral()) return Value::Float(rounded, origin);
    if (const auto integer = Truncated(rounded, origin)) return *integer;
    Fail("an integer beyond 64 bits");
  }
  const double unit = std::pow(10.0, static_cast<double>(places));
  if (!std::isfinite(unit) || unit == 0) Fail("round() wants a precision that a float can have");
  const double scaled = call.subject.number() * unit;
  return Value::Float((method.view() == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit, origin);
}

Value Attr(const BuiltinCall& call) {
  const Bound bound("attr", call.arguments, {"name"}, 1);
  const Text& name = bound.String(0);
  call.workspace.StepBytes(name.size());
  // Only attributes, never the keys of a dict.
  if (call.subject.is_dict()) {
    auto method = MethodOf(call.workspace, call.subject, name.view());
    return method ? *method : Value();
  }
  return Attribute(call.workspace, call.subject, name.view());
}

}  // namespace

const BuiltinTable& ScalarFilters() {
  static const BuiltinTable table = {
      {"abs", Abs},     {"default", Default}, {"d", Default}, {"int", Int},
      {"float", Float}, {"round", Round},     {"attr", Attr},
  };
  return table;
}

}  // namespace hydrant::jinja
