#include "model/jinja/core/workspace.h"

#include <ctime>

#include "model/jinja/core/fault.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {
namespace {

std::chrono::nanoseconds ThreadTime() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

[[noreturn]] void Over(std::string what) { throw Fault{FaultKind::kLimit, std::move(what)}; }

}  // namespace

Workspace::Workspace(const Limits& limits) : limits_(limits), started_(ThreadTime()) {}

Workspace::~Workspace() {
  for (const std::shared_ptr<Object>& object : kept_) object->Clear();
}

void Workspace::Check() {
  if (steps_ > limits_.steps_max) Over(StrCat("it takes more than ", limits_.steps_max, " steps"));
  if (ThreadTime() - started_ > limits_.time_max) {
    const auto time_max_ms = std::chrono::duration_cast<std::chrono::milliseconds>(limits_.time_max).count();
    Over(StrCat("it takes more than ", time_max_ms, " ms"));
  }
  next_check_ = steps_ + kStepsPerCheck;
}

void Workspace::TooDeep() { Over("it nests too deep"); }

void Workspace::Reserve(size_t bytes) const {
  if (bytes > limits_.bytes_max - bytes_) Over(StrCat("it needs more than ", limits_.bytes_max, " bytes"));
}

void Workspace::Hold(size_t bytes) {
  Reserve(bytes);
  bytes_ += bytes;
}

Value Workspace::String(Text text, bool markup) {
  Step();
  StepBytes(text.size());
  const size_t bytes = text.footprint_bytes();
  auto object = MakeObject<StringObject>(std::move(text), markup);
  object->Account(*this, bytes);
  return Value::Of(std::move(object));
}

Value Workspace::List(Values items, Sequence::Kind kind) {
  Step(1 + static_cast<int64_t>(items.size() / 8));
  auto object = MakeObject<Sequence>(std::move(items), kind);
  if (object->nesting() > kNestingMax) TooDeep();
  object->Account(*this, sizeof(Sequence));
  return Value::Of(std::move(object));
}

Value Workspace::Mapping(std::shared_ptr<Dict> dict) {
  Step(1 + static_cast<int64_t>(dict->entries().size() / 8));
  if (dict->nesting() > kNestingMax) TooDeep();
  dict->Account(*this, sizeof(Dict));
  return Value::Of(std::move(dict));
}

Value Workspace::Missing(std::string message) {
  Step();
  StepBytes(message.size());
  auto object = MakeObject<UndefinedObject>(std::move(message));
  object->Account(*this, sizeof(UndefinedObject) + object->message().size());
  return Value::Of(std::move(object));
}

}  // namespace hydrant::jinja
