// Interpreter walks a parsed template once and writes its text.
//
// Thread: the one that renders; an interpreter renders once.
//
// Invariants:
//   1 A scope sees the scopes around it as they are when a name is looked up, so a macro sees what was set after it.
#ifndef HYDRANT_MODEL_JINJA_CORE_INTERPRETER_H_
#define HYDRANT_MODEL_JINJA_CORE_INTERPRETER_H_

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/jinja/core/ast.h"
#include "model/jinja/core/builtins.h"
#include "model/jinja/core/value.h"
#include "model/jinja/core/workspace.h"

namespace hydrant::jinja {

// The names set in one block.
class Scope {
 public:
  Scope(Workspace& workspace, std::shared_ptr<Scope> outer) : outer_(std::move(outer)), values_(workspace) {}

  // The name outlives the scope: it is the template's, a literal or a variable's.
  void Set(std::string_view name, Value value);
  // Null where no scope has it.
  const Value* Find(std::string_view name) const;

 private:
  const std::shared_ptr<Scope> outer_;
  Counted<std::pair<std::string_view, Value>> values_;  // a handful: looked through
};

class Interpreter {
 public:
  // `now` is the time that strftime_now tells.
  Interpreter(Workspace& workspace, std::time_t now);

  void SetGlobal(std::string_view name, Value value) { scope_->Set(name, std::move(value)); }
  // Throws a Fault.
  Text Run(const Body& body);
  // The line of the statement last begun.
  int line() const { return line_; }

  // For what is built in.
  Workspace& workspace() { return workspace_; }
  std::time_t now() const { return now_; }
  Value Call(const Value& callee, Arguments& arguments);
  Value ApplyFilter(std::string_view name, const Value& subject, const Arguments& arguments);
  bool ApplyTest(std::string_view name, const Value& subject, const Arguments& arguments);

  // For macros and loops: what `body` writes in a scope of its own inside `outer`, which `prepare` fills first.
  template <typename Prepare>
  Value RunBody(const std::shared_ptr<Scope>& outer, const Body& body, Prepare prepare) {
    const Workspace::CallLevel level(workspace_);
    const auto around = std::exchange(scope_, std::make_shared<Scope>(workspace_, outer));
    prepare(*scope_);
    Text text = Capture([&] { Execute(body); });
    scope_ = around;
    return workspace_.String(std::move(text));
  }
  Value Evaluate(const Expression& expression);
  // A recursive loop called with another sequence.
  Value RunLoop(const ForStatement& loop, const std::shared_ptr<Scope>& outer, const Value& sequence, int depth);

 private:
  enum class Flow : uint8_t { kOn, kBreak, kContinue };

  // Runs `write` and returns what it wrote, which does not go to the output.
  template <typename Write>
  Text Capture(Write write) {
    Text captured;
    Text* const around = std::exchange(out_, &captured);
    write();
    out_ = around;
    return captured;
  }
  // `write` in a scope of its own.
  template <typename Write>
  Flow InScope(Write write) {
    const auto around = std::exchange(scope_, std::make_shared<Scope>(workspace_, scope_));
    const Flow flow = write();
    scope_ = around;
    return flow;
  }

  Flow Execute(const Body& body);
  Flow Execute(const DataStatement& statement);
  Flow Execute(const PrintStatement& statement);
  Flow Execute(const IfStatement& statement);
  Flow Execute(const ForStatement& statement);
  Flow Execute(const SetStatement& statement);
  Flow Execute(const MacroStatement& statement);
  Flow Execute(const CallStatement& statement);
  Flow Execute(const FilterStatement& statement);
  Flow Execute(const WithStatement& statement);
  Flow Execute(const ScopeStatement& statement);
  Flow Execute(const BreakStatement&) { return Flow::kBreak; }
  Flow Execute(const ContinueStatement&) { return Flow::kContinue; }

  void Loop(const ForStatement& loop, const Value& sequence, int depth);
  void Assign(const Target& target, const Value& value);
  void Write(const Text& text);
  // The body as a value, through the filters if there are any.
  Value Captured(const Body& body, const ExpressionPtr& filter);

  Value Evaluate(const ConstantExpression& expression) { return expression.value; }
  Value Evaluate(const NameExpression& expression);
  Value Evaluate(const SequenceExpression& expression);
  Value Evaluate(const DictExpression& expression);
  Value Evaluate(const UnaryExpression& expression);
  Value Evaluate(const BinaryExpression& expression);
  Value Evaluate(const LogicExpression& expression);
  Value Evaluate(const ConcatExpression& expression);
  Value Evaluate(const CompareExpression& expression);
  Value Evaluate(const ConditionalExpression& expression);
  Value Evaluate(const AttributeExpression& expression);
  Value Evaluate(const SubscriptExpression& expression);
  Value Evaluate(const SliceExpression& expression);
  Value Evaluate(const CallExpression& expression);
  Value Evaluate(const FilterExpression& expression);
  Value Evaluate(const TestExpression& expression);
  Arguments Evaluate(const CallArguments& arguments);

  Workspace& workspace_;
  const std::time_t now_;
  std::shared_ptr<Scope> scope_;
  Text* out_ = nullptr;
  Value filtered_;  // the subject of a filter without one: the body of the block around it
  int line_ = 0;
};

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_INTERPRETER_H_
