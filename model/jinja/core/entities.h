// The objects of the template language: macros, loops, namespaces, cyclers and joiners.
//
// Thread: the one that renders.
#ifndef HYDRANT_MODEL_JINJA_CORE_ENTITIES_H_
#define HYDRANT_MODEL_JINJA_CORE_ENTITIES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/jinja/core/ast.h"
#include "model/jinja/core/interpreter.h"
#include "model/jinja/core/value.h"

namespace hydrant::jinja {

class Macro final : public Entity {
 public:
  // `name` and `signature` outlive the macro: they are the template's.
  Macro(std::string_view name, const Signature& signature, std::shared_ptr<Scope> scope)
      : name_(name), signature_(signature), scope_(std::move(scope)) {}
  std::string_view type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  Value Call(Interpreter& interpreter, Arguments& arguments) override;
  Value Attribute(Workspace& workspace, std::string_view name) const override;
  void Clear() override { scope_ = nullptr; }

 private:
  struct Bound;
  Bound Bind(Workspace& workspace, Arguments& arguments) const;

  const std::string_view name_;
  const Signature& signature_;
  std::shared_ptr<Scope> scope_;  // where it was defined
};

// `loop` inside of a for.
class LoopState final : public Entity {
 public:
  LoopState(Workspace& workspace, Values items, const ForStatement& loop, std::shared_ptr<Scope> scope, int depth)
      : items_(std::move(items)), loop_(loop), scope_(std::move(scope)), depth_(depth), last_seen_(workspace) {}
  const Values& items() const { return items_; }
  void MoveTo(size_t index) { index_ = index; }
  std::string_view type_name() const override { return "LoopContext"; }
  bool callable() const override { return loop_.is_recursive; }
  // One level deeper, for a recursive loop.
  Value Call(Interpreter& interpreter, Arguments& arguments) override;
  Value Attribute(Workspace& workspace, std::string_view name) const override;
  // loop.cycle and loop.changed.
  Value Cycle(const Arguments& arguments) const;
  bool Changed(Workspace& workspace, const Arguments& arguments);
  void Clear() override;

 private:
  Values items_;
  const ForStatement& loop_;
  std::shared_ptr<Scope> scope_;  // around the loop
  const int depth_;
  size_t index_ = 0;
  Values last_seen_;  // by changed
  bool seen_ = false;
};

class Namespace final : public Entity {
 public:
  explicit Namespace(Workspace& workspace) : values_(&workspace) {}
  std::string_view type_name() const override { return "TemplateNamespace"; }
  Value Attribute(Workspace& workspace, std::string_view name) const override;
  bool SetAttribute(Workspace& workspace, std::string_view name, const Value& value) override;
  void Clear() override { values_.Clear(); }

 private:
  Dict values_;
};

// `cycler('a', 'b')`: next() and current.
class Cycler final : public Entity {
 public:
  explicit Cycler(Values items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  Value Attribute(Workspace& workspace, std::string_view name) const override;
  Value Next();
  void Reset() { at_ = 0; }
  void Clear() override { items_.clear(); }

 private:
  Values items_;
  size_t at_ = 0;
};

// `joiner(', ')`: nothing the first time it is called, its separator afterwards.
class Joiner final : public Entity {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value Call(Interpreter& interpreter, Arguments& arguments) override;

 private:
  const Value separator_;
  bool used_ = false;
};

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_ENTITIES_H_
