// Workspace makes the values of one render and counts what the render costs; over a limit it throws a Fault of kind kLimit.
//
// Thread: the one that renders (its processor time is what is measured, so a busy machine fails nobody).
#ifndef HYDRANT_MODEL_JINJA_CORE_WORKSPACE_H_
#define HYDRANT_MODEL_JINJA_CORE_WORKSPACE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/jinja/core/text.h"
#include "model/jinja/core/value.h"

namespace hydrant::jinja {

struct Limits {
  // Every node evaluated, and every 64 bytes copied or searched, is a step. The longest recorded template takes about 3000
  // for six messages.
  int64_t steps_max = 1'000'000;
  // Held at one time by values made while rendering, the result included; what the client sent is not counted.
  size_t bytes_max = size_t{16} << 20;
  // Macro calls (and recursive loops) inside each other. Templates recurse once per level of a tool's JSON schema, and the
  // request reader allows 64 levels.
  int calls_max = 64;
  // Expressions and statements inside each other at run time, over all calls: about 12 to a call of a recursive macro, so
  // 64 calls fit. One takes about half a KiB of stack.
  int depth_max = 1000;
  std::chrono::microseconds time_max = std::chrono::milliseconds(100);
};

class Workspace {
 public:
  explicit Workspace(const Limits& limits);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void Step(int64_t count = 1) {
    steps_ += std::min(count, limits_.steps_max + 1);  // an absurd count is over the limit, not over the type
    if (steps_ >= next_check_) Check();
  }
  // Steps for looking at so many bytes.
  void StepBytes(size_t bytes) { Step(static_cast<int64_t>(bytes / 64)); }
  // Fails if so many more bytes cannot be held; what makes something large asks before it does.
  void Reserve(size_t bytes) const;
  int64_t steps() const { return steps_; }

  Value String(Text text, bool markup = false);
  Value String(std::string bytes, Origin origin = Origin::kTemplate) { return String(Text(std::move(bytes), origin)); }
  Value List(Values items, Sequence::Kind kind = Sequence::Kind::kList);
  Value Tuple(Values items) { return List(std::move(items), Sequence::Kind::kTuple); }
  Value Tuple(std::initializer_list<Value> items) { return Tuple(Values(items, *this)); }
  // REQUIRES: nothing else holds the dict.
  Value Mapping(std::shared_ptr<Dict> dict);
  // Undefined, and why.
  Value Missing(std::string message);
  // Takes the object over; it lives until the render ends, so objects may refer to each other in a circle.
  template <typename T>
  Value Keep(std::shared_ptr<T> object) {
    Step();
    object->Account(*this, kObjectBytes);
    kept_.push_back(object);
    return Value::Of(object);
  }

  // One level of evaluation, for as long as it lives.
  class Level {
   public:
    explicit Level(Workspace& workspace) : workspace_(workspace) {
      if (++workspace_.depth_ > workspace_.limits_.depth_max) workspace_.TooDeep();
    }
    ~Level() { --workspace_.depth_; }

   private:
    Workspace& workspace_;
  };
  // One macro call, for as long as it lives.
  class CallLevel {
   public:
    explicit CallLevel(Workspace& workspace) : workspace_(workspace) {
      if (++workspace_.calls_ > workspace_.limits_.calls_max) workspace_.TooDeep();
    }
    ~CallLevel() { --workspace_.calls_; }

   private:
    Workspace& workspace_;
  };

 private:
  friend class Holding;
  friend class Object;
  // Namespaces, macros and the like: a few pointers and an allocation.
  static constexpr size_t kObjectBytes = 256;
  // Between two looks at the clock, which cost a system call of about half a microsecond each.
  static constexpr int64_t kStepsPerCheck = 256;

  void Check();
  [[noreturn]] void TooDeep();
  void Hold(size_t bytes);
  void Release(size_t bytes) { bytes_ -= bytes; }

  const Limits limits_;
  const std::chrono::nanoseconds started_;
  int64_t steps_ = 0;
  int64_t next_check_ = kStepsPerCheck;
  size_t bytes_ = 0;
  int depth_ = 0;
  int calls_ = 0;
  std::vector<std::shared_ptr<Object>> kept_;
};

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_WORKSPACE_H_
