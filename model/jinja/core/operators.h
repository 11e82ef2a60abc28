// The operators of Python on values, as a sandboxed template sees them.
//
// Thread: the one that renders. All fail with a Fault of kind kData where Python raises.
#ifndef HYDRANT_MODEL_JINJA_CORE_OPERATORS_H_
#define HYDRANT_MODEL_JINJA_CORE_OPERATORS_H_

#include <optional>
#include <string_view>
#include <vector>

#include "model/jinja/core/ast.h"
#include "model/jinja/core/value.h"

namespace hydrant::jinja {

bool Equal(Workspace& workspace, const Value& a, const Value& b);
// a < b.
bool Less(Workspace& workspace, const Value& a, const Value& b);
bool Contains(Workspace& workspace, const Value& container, const Value& item);
bool Holds(Workspace& workspace, Comparison comparison, const Value& a, const Value& b);

Value Arithmetic(Workspace& workspace, BinaryOperator op, const Value& a, const Value& b);
Value Negate(const Value& value);
Value Positive(const Value& value);

// len(value); nullopt where it has none.
std::optional<size_t> Length(Workspace& workspace, const Value& value);
// What iterating yields: characters of a string, keys of a dict, the rest of a generator, nothing for undefined.
Values Items(Workspace& workspace, const Value& value);
bool IsIterable(const Value& value);

// object[key]; undefined where there is none.
Value Subscript(Workspace& workspace, const Value& object, const Value& key);
// object[begin:end:step], each none or an integer.
Value Slice(Workspace& workspace, const Value& object, const Value& begin, const Value& end, const Value& step);
// object.name: a method of Python's type goes before a key of a dict.
Value Attribute(Workspace& workspace, const Value& object, std::string_view name);

// Fails, naming why, if the value is undefined.
void RequireDefined(const Value& value);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_OPERATORS_H_
