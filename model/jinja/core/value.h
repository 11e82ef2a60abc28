// Value is what an expression of a template evaluates to, with Python's semantics: a scalar, a string with the origin of its
// characters, a sequence, a dict, or an object (namespace, macro, function, loop).
//
// Thread: any for the constants of a template; otherwise the one that renders.
//
// Invariants:
//   1 Strings, sequences and dicts never change once made (the sandbox of Hugging Face is an immutable one), except that a
//     generator is used up.
//   2 Their nesting is at most kNestingMax, so walking one by recursion is safe.
#ifndef HYDRANT_MODEL_JINJA_CORE_VALUE_H_
#define HYDRANT_MODEL_JINJA_CORE_VALUE_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "model/jinja/core/counted.h"
#include "model/jinja/core/text.h"

namespace hydrant::jinja {

class Dict;
class Entity;
class Interpreter;
class Sequence;
class StringObject;
class UndefinedObject;
class Value;
class Workspace;
struct Arguments;

// The request reader allows 64 levels of JSON; templates wrap a few more around them.
inline constexpr int kNestingMax = 128;

// Object is a value on the heap. Its bytes are counted in a workspace, but for the constants of a template, which have
// none.
class Object {
 public:
  Object() = default;
  virtual ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  void Account(Workspace& workspace, size_t bytes);
  // Gives up what it refers to; called once, when the render ends.
  virtual void Clear() {}

  // The deleter of objects that MakeObject made.
  struct Disposal {
    void operator()(const Object* object) const;
  };

 private:
  mutable const Object* next_dead_ = nullptr;
  Workspace* workspace_ = nullptr;
  size_t accounted_bytes_ = 0;
};

// Makes an object whose end takes no stack: what it alone holds is deleted after it, not inside it, so a chain of objects
// may be as long as it likes. Whatever becomes a Value is made here.
template <typename T, typename... A>
std::shared_ptr<T> MakeObject(A&&... arguments) {
  return std::shared_ptr<T>(new T(std::forward<A>(arguments)...), Object::Disposal());
}

class Value {
 public:
  enum class Kind : uint8_t { kUndefined, kNone, kBool, kInt, kFloat, kString, kSequence, kDict, kEntity };

  Value() = default;  // undefined
  static Value None() { return Value(Kind::kNone); }
  static Value Bool(bool value, Origin origin = Origin::kTemplate);
  static Value Int(int64_t value, Origin origin = Origin::kTemplate);
  static Value Float(double value, Origin origin = Origin::kTemplate);
  // An integer above int64, of the client's: to arithmetic it is a float, where it is printed all of its digits are there.
  static Value Wide(uint64_t value, Origin origin);
  // A string, sequence, dict, entity or undefined by its object. REQUIRES: MakeObject made it, or the pointer does not own
  // it (the method of an object that the workspace keeps).
  static Value Of(std::shared_ptr<StringObject> object);
  static Value Of(std::shared_ptr<Sequence> object);
  static Value Of(std::shared_ptr<Dict> object);
  static Value Of(std::shared_ptr<Entity> object);
  static Value Of(std::shared_ptr<UndefinedObject> object);

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_int() const { return kind_ == Kind::kInt; }
  bool is_float() const { return kind_ == Kind::kFloat; }
  bool is_wide() const { return is_wide_; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_sequence() const { return kind_ == Kind::kSequence; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_entity() const { return kind_ == Kind::kEntity; }
  // Python's numbers: a bool is one.
  bool is_integral() const { return is_bool() || is_int(); }
  bool is_number() const { return is_integral() || is_float(); }

  // REQUIRES: the kind fits.
  int64_t integer() const {
    assert(is_integral());
    return integer_;
  }
  double number() const {
    return is_wide_ ? static_cast<double>(wide_) : is_float() ? float_ : static_cast<double>(integer());
  }
  uint64_t wide() const {
    assert(is_wide());
    return wide_;
  }
  const Text& text() const;
  std::string_view view() const { return text().view(); }
  bool is_markup() const;  // a string that `safe` or `escape` made
  const Sequence& sequence() const;
  const Dict& dict() const;
  Entity& entity() const;
  // Why it is undefined; "" for the constant one.
  std::string_view undefined_message() const;

  // Whether the client's data decided a scalar.
  Origin origin() const { return origin_; }
  const Object* identity() const { return object_.get(); }
  int nesting() const;  // 0 for what holds nothing
  bool Truth() const;

 private:
  explicit Value(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::kUndefined;
  Origin origin_ = Origin::kTemplate;
  bool is_wide_ = false;  // of kind kFloat
  union {
    int64_t integer_ = 0;
    double float_;
    uint64_t wide_;
  };
  std::shared_ptr<Object> object_;
};

using Values = Counted<Value>;

class StringObject final : public Object {
 public:
  explicit StringObject(Text text, bool markup = false) : text_(std::move(text)), markup_(markup) {}
  const Text& text() const { return text_; }
  bool markup() const { return markup_; }

 private:
  const Text text_;
  const bool markup_;
};

class UndefinedObject final : public Object {
 public:
  explicit UndefinedObject(std::string message) : message_(std::move(message)) {}
  const std::string& message() const { return message_; }

 private:
  const std::string message_;
};

class Sequence final : public Object {
 public:
  enum class Kind : uint8_t { kList, kTuple, kGroup, kRange, kKeys, kValues, kItems, kGenerator };

  Sequence(Values items, Kind kind);
  Kind kind() const { return kind_; }
  // A tuple, or the pair (grouper, list) that groupby makes.
  bool is_tuple() const { return kind_ == Kind::kTuple || kind_ == Kind::kGroup; }
  // True if `value[i]` has a meaning.
  bool is_subscriptable() const { return kind_ <= Kind::kRange; }
  const Values& items() const { return items_; }
  int nesting() const { return nesting_; }
  // Whether it can be a key. Known from the start: a tuple that holds another one twice, and so on, has more paths than
  // could be walked.
  bool hashable() const { return hashable_; }
  // Items not yet taken from a generator; all of them for the others.
  size_t remaining() const { return items_.size() - taken_; }
  // The next item of a generator is gone.
  void Take(size_t count) const { taken_ += count; }

 private:
  const Values items_;
  const Kind kind_;
  int nesting_ = 1;
  bool hashable_ = false;
  mutable size_t taken_ = 0;
};

class Dict final : public Object {
 public:
  using Entry = std::pair<Value, Value>;

  // Null: it does not count.
  explicit Dict(Workspace* workspace)
      : entries_(workspace == nullptr ? CountingAllocator<Entry>(nullptr) : CountingAllocator<Entry>(*workspace)),
        index_memory_(workspace) {}

  // Replaces the value of an equal key. REQUIRES: not yet part of a Value. Fails for a key that Python cannot hash.
  void Set(Workspace& workspace, Value key, Value value);
  // The same for a string key, without counting steps: how the client's objects come in.
  void SetText(Value key, Value value);
  const Counted<Entry>& entries() const { return entries_; }
  // Null where there is none.
  const Value* Find(Workspace& workspace, const Value& key) const;
  const Value* Find(std::string_view key) const;
  int nesting() const { return nesting_; }
  void Clear() override;

 private:
  static constexpr size_t kNowhere = ~size_t{0};
  // From so many entries on looking through all costs more than hashing.
  static constexpr size_t kIndexedFrom = 9;
  // A place in the index: a view, a position, a control byte, and what a hash table leaves empty.
  static constexpr size_t kIndexBytes = 40;

  size_t Position(Workspace& workspace, const Value& key) const;
  size_t Position(std::string_view key) const;
  void Put(size_t position, Value key, Value value);

  Counted<Entry> entries_;
  absl::flat_hash_map<std::string_view, size_t> index_;  // of the string keys, once there are kIndexedFrom entries
  Holding index_memory_;
  int nesting_ = 1;
};

// Entity is an object with behaviour: namespaces, macros, functions, loops.
class Entity : public Object {
 public:
  // What Python's type(x).__name__ would say.
  virtual std::string_view type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual Value Call(Interpreter& interpreter, Arguments& arguments);
  // Undefined where there is none.
  virtual Value Attribute(Workspace& workspace, std::string_view name) const;
  // Carries out `{% set x.name = value %}`. False: the object has no attributes that can be set.
  virtual bool SetAttribute(Workspace& workspace, std::string_view name, const Value& value);
};

// What Python calls the type of a value, as its error messages name it.
std::string_view TypeName(const Value& value);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_VALUE_H_
