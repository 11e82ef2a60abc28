// The nodes of a parsed template: expressions and statements as data, one struct per kind, walked by the Interpreter.
//
// Thread: any (immutable once parsed).
#ifndef HYDRANT_MODEL_JINJA_CORE_AST_H_
#define HYDRANT_MODEL_JINJA_CORE_AST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/jinja/core/value.h"

namespace hydrant::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Body = std::vector<std::unique_ptr<const Statement>>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional;  // of `*x`, or null
  ExpressionPtr more_named;       // of `**x`, or null
};

struct ConstantExpression {
  Value value;
};
struct NameExpression {
  std::string name;
};
struct SequenceExpression {
  Sequence::Kind kind;
  std::vector<ExpressionPtr> items;
};
struct DictExpression {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
enum class UnaryOperator : uint8_t { kNot, kNegate, kPlus };
struct UnaryExpression {
  UnaryOperator op;
  ExpressionPtr operand;
};
enum class BinaryOperator : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct BinaryExpression {
  BinaryOperator op;
  ExpressionPtr left, right;
};
struct LogicExpression {  // `and`, `or`: the value of the operand that decides
  bool is_and;
  ExpressionPtr left, right;
};
struct ConcatExpression {
  std::vector<ExpressionPtr> parts;
};
enum class Comparison : uint8_t { kEqual, kUnequal, kLess, kLessOrEqual, kGreater, kGreaterOrEqual, kIn, kNotIn };
struct CompareExpression {  // a < b <= c
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct ConditionalExpression {
  ExpressionPtr condition, then;
  ExpressionPtr otherwise;  // or null: undefined
};
struct AttributeExpression {
  ExpressionPtr object;
  std::string name;
};
struct SubscriptExpression {
  ExpressionPtr object, key;
};
struct SliceExpression {  // only as the key of a subscript; each may be null
  ExpressionPtr begin, end, step;
};
struct CallExpression {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct FilterExpression {
  ExpressionPtr subject;  // null in a filter block: its body
  std::string name;
  CallArguments arguments;
};
struct TestExpression {
  ExpressionPtr subject;
  std::string name;
  CallArguments arguments;
};

struct Expression {
  int line = 0;
  int depth = 1;  // of the tree below, counting this node
  std::variant<ConstantExpression, NameExpression, SequenceExpression, DictExpression, UnaryExpression,
               BinaryExpression, LogicExpression, ConcatExpression, CompareExpression, ConditionalExpression,
               AttributeExpression, SubscriptExpression, SliceExpression, CallExpression, FilterExpression,
               TestExpression>
      node;
};

// What can stand left of `=` or between `for` and `in`.
struct Target {
  std::string name;           // "" for a tuple
  std::string attribute;      // of `namespace.attribute`, or ""
  std::vector<Target> items;  // of a tuple
  bool is_tuple = false;
};

struct DataStatement {
  Value text;
};
struct PrintStatement {
  ExpressionPtr value;
};
struct IfStatement {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct ForStatement {
  Target target;
  ExpressionPtr sequence;
  ExpressionPtr condition;  // or null
  bool is_recursive = false;
  Body body, otherwise;
};
struct SetStatement {
  Target target;
  ExpressionPtr value;  // null: the body, through the filters
  Body body;
  ExpressionPtr filter;  // or null
};
struct Signature {
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with a default, or null
  Body body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};
struct MacroStatement {
  std::string name;
  Signature signature;
};
struct CallStatement {
  ExpressionPtr call;  // a CallExpression
  Signature caller;
};
struct FilterStatement {
  ExpressionPtr filter;
  Body body;
};
struct WithStatement {
  std::vector<std::pair<Target, ExpressionPtr>> values;
  Body body;
};
// `{% generation %}`, which only marks what an assistant said.
struct ScopeStatement {
  Body body;
};
struct BreakStatement {};
struct ContinueStatement {};

struct Statement {
  int line = 0;
  std::variant<DataStatement, PrintStatement, IfStatement, ForStatement, SetStatement, MacroStatement, CallStatement,
               FilterStatement, WithStatement, ScopeStatement, BreakStatement, ContinueStatement>
      node;
};

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_AST_H_
