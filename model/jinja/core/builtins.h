// What templates find built in: the methods of Python's types that the sandbox allows, and Jinja's filters, tests and
// functions.
//
// Thread: any for the tables (constant); the one that renders for calls.
#ifndef HYDRANT_MODEL_JINJA_CORE_BUILTINS_H_
#define HYDRANT_MODEL_JINJA_CORE_BUILTINS_H_

#include <array>
#include <cstdint>
#include <forward_list>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "model/jinja/core/value.h"

namespace hydrant::jinja {

struct Arguments {
  explicit Arguments(Workspace& workspace) : positional(workspace), named(workspace) {}

  Values positional;
  // The name is a Text because dict(**x) makes keys of it, which are the client's where x is.
  Counted<std::pair<Text, Value>> named;
};

struct BuiltinCall {
  Interpreter& interpreter;
  Workspace& workspace;
  const Value& subject;  // what is filtered, tested, or has the method; undefined for functions
  const Arguments& arguments;
};
using Builtin = Value (*)(const BuiltinCall&);
using BuiltinTable = absl::flat_hash_map<std::string_view, Builtin>;

// Arguments by the names of the parameters. Fails as Python does where one is missing, unknown or given twice.
class Bound {
 public:
  // REQUIRES: at most kParametersMax names.
  Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
        size_t required = 0);

  bool has(size_t i) const { return values_[i] != nullptr; }
  // Undefined where it is absent.
  const Value& at(size_t i) const;
  int64_t Int(size_t i, int64_t fallback) const;
  bool Truth(size_t i, bool fallback) const { return has(i) ? at(i).Truth() : fallback; }
  // The string given, or else a fallback from the template; it lives as long as this. Fails for other values.
  const Text& String(size_t i, std::string_view fallback = "") const;

 private:
  static constexpr size_t kParametersMax = 8;

  std::array<const Value*, kParametersMax> values_ = {};
  const std::string_view function_;
  mutable std::forward_list<Text> fallbacks_;
};

// A method as an attribute, ready to be called; nullopt where Python's type has none of that name. A method that would change
// the object is undefined, and so fails when it is called.
std::optional<Value> MethodOf(Workspace& workspace, const Value& object, std::string_view name);

// Null where there is none.
Builtin FindFilter(std::string_view name);
Builtin FindTest(std::string_view name);  // returns a bool
// Undefined where there is none.
Value FindFunction(Workspace& workspace, std::string_view name);

// The parts of the tables.
const BuiltinTable& StringMethods();
const BuiltinTable& StringQueryMethods();
const BuiltinTable& TextFilters();
const BuiltinTable& ScalarFilters();
const BuiltinTable& SequenceFilters();
const BuiltinTable& SelectionFilters();

// A function of the template language.
class Function final : public Entity {
 public:
  Function(Value subject, Builtin builtin) : subject_(std::move(subject)), builtin_(builtin) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Value Call(Interpreter& interpreter, Arguments& arguments) override;

 private:
  const Value subject_;
  const Builtin builtin_;
};

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_BUILTINS_H_
