#include "model/jinja/core/value.h"

#include <algorithm>

#include "model/jinja/core/fault.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/workspace.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {
namespace {

template <typename T>
const T& As(const Object* object) {
  assert(object != nullptr);
  return *static_cast<const T*>(object);
}

template <typename T>
bool EndsWithoutStack(const std::shared_ptr<T>& object) {
  return object.use_count() == 0 || std::get_deleter<Object::Disposal>(object) != nullptr;
}

bool Hashable(const Value& key) {
  switch (key.kind()) {
    case Value::Kind::kDict:
      return false;
    case Value::Kind::kSequence:
      return key.sequence().hashable();
    default:
      return true;
  }
}

}  // namespace

Object::~Object() {
  if (workspace_ != nullptr) workspace_->Release(accounted_bytes_);
}

void Object::Disposal::operator()(const Object* object) const {
  thread_local const Object* dead = nullptr;  // died while another was being deleted
  thread_local bool deleting = false;
  object->next_dead_ = std::exchange(dead, object);
  if (std::exchange(deleting, true)) return;
  while (dead != nullptr) delete std::exchange(dead, dead->next_dead_);
  deleting = false;
}

void Holding::Hold(Workspace* workspace, size_t bytes) {
  if (workspace != nullptr) workspace->Hold(bytes);
}

void Holding::Release(Workspace* workspace, size_t bytes) {
  if (workspace != nullptr) workspace->Release(bytes);
}

void Object::Account(Workspace& workspace, size_t bytes) {
  assert(workspace_ == nullptr);
  workspace.Hold(bytes);
  workspace_ = &workspace;
  accounted_bytes_ = bytes;
}

Value Value::Bool(bool value, Origin origin) {
  Value result(Kind::kBool);
  result.integer_ = value ? 1 : 0;
  result.origin_ = origin;
  return result;
}

Value Value::Int(int64_t value, Origin origin) {
  Value result(Kind::kInt);
  result.integer_ = value;
  result.origin_ = origin;
  return result;
}

Value Value::Float(double value, Origin origin) {
  Value result(Kind::kFloat);
  result.float_ = value;
  result.origin_ = origin;
  return result;
}

Value Value::Wide(uint64_t value, Origin origin) {
  Value result(Kind::kFloat);
  result.is_wide_ = true;
  result.wide_ = value;
  result.origin_ = origin;
  return result;
}

Value Value::Of(std::shared_ptr<StringObject> object) {
  assert(EndsWithoutStack(object));
  Value result(Kind::kString);
  result.object_ = std::move(object);
  return result;
}

Value Value::Of(std::shared_ptr<Sequence> object) {
  assert(EndsWithoutStack(object));
  Value result(Kind::kSequence);
  result.object_ = std::move(object);
  return result;
}

Value Value::Of(std::shared_ptr<Dict> object) {
  assert(EndsWithoutStack(object));
  Value result(Kind::kDict);
  result.object_ = std::move(object);
  return result;
}

Value Value::Of(std::shared_ptr<Entity> object) {
  assert(EndsWithoutStack(object));
  Value result(Kind::kEntity);
  result.object_ = std::move(object);
  return result;
}

Value Value::Of(std::shared_ptr<UndefinedObject> object) {
  assert(EndsWithoutStack(object));
  Value result(Kind::kUndefined);
  result.object_ = std::move(object);
  return result;
}

const Text& Value::text() const {
  assert(is_string());
  return As<StringObject>(object_.get()).text();
}

bool Value::is_markup() const { return is_string() && As<StringObject>(object_.get()).markup(); }

const Sequence& Value::sequence() const {
  assert(is_sequence());
  return As<Sequence>(object_.get());
}

const Dict& Value::dict() const {
  assert(is_dict());
  return As<Dict>(object_.get());
}

Entity& Value::entity() const {
  assert(is_entity());
  return *static_cast<Entity*>(object_.get());
}

std::string_view Value::undefined_message() const {
  assert(is_undefined());
  return object_ == nullptr ? "" : std::string_view(As<UndefinedObject>(object_.get()).message());
}

int Value::nesting() const { return is_sequence() ? sequence().nesting() : is_dict() ? dict().nesting() : 0; }

bool Value::Truth() const {
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return integer_ != 0;
    case Kind::kFloat:
      return number() != 0;
    case Kind::kString:
      return !text().empty();
    case Kind::kSequence:
      // A generator is an object like any other to Python, whatever it would yield.
      return sequence().kind() == Sequence::Kind::kGenerator || !sequence().items().empty();
    case Kind::kDict:
      return !dict().entries().empty();
    case Kind::kEntity:
      return true;
  }
  return false;
}

Sequence::Sequence(Values items, Kind kind) : items_(std::move(items)), kind_(kind) {
  for (const Value& item : items_) nesting_ = std::max(nesting_, item.nesting() + 1);
  hashable_ = is_tuple() && std::all_of(items_.begin(), items_.end(), Hashable);
}

void Dict::Set(Workspace& workspace, Value key, Value value) {
  if (!Hashable(key)) Fail(StrCat("unhashable type: '", TypeName(key), "'"));
  const size_t position = Position(workspace, key);
  Put(position, std::move(key), std::move(value));
}

void Dict::SetText(Value key, Value value) {
  const size_t position = Position(key.view());
  Put(position, std::move(key), std::move(value));
}

void Dict::Clear() {
  index_.clear();
  entries_.clear();
}

void Dict::Put(size_t position, Value key, Value value) {
  nesting_ = std::max({nesting_, key.nesting() + 1, value.nesting() + 1});
  if (position != kNowhere) {
    entries_[position].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() < kIndexedFrom) return;
  // The views stay: a string lives in its object, which an entry holds wherever the entry moves.
  const size_t first = entries_.size() == kIndexedFrom ? 0 : entries_.size() - 1;
  for (size_t i = first; i < entries_.size(); ++i) {
    if (!entries_[i].first.is_string()) continue;
    index_memory_.Grow(kIndexBytes);
    index_.emplace(entries_[i].first.view(), i);
  }
}

size_t Dict::Position(std::string_view key) const {
  if (entries_.size() >= kIndexedFrom) {
    const auto found = index_.find(key);
    return found == index_.end() ? kNowhere : found->second;
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].first.is_string() && entries_[i].first.view() == key) return i;
  }
  return kNowhere;
}

size_t Dict::Position(Workspace& workspace, const Value& key) const {
  if (key.is_string()) {
    workspace.StepBytes(key.text().size());
    return Position(key.view());
  }
  workspace.Step(static_cast<int64_t>(entries_.size() / 8));
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].first.is_string() && Equal(workspace, entries_[i].first, key)) return i;
  }
  return kNowhere;
}

const Value* Dict::Find(Workspace& workspace, const Value& key) const {
  const size_t position = Position(workspace, key);
  return position == kNowhere ? nullptr : &entries_[position].second;
}

const Value* Dict::Find(std::string_view key) const {
  const size_t position = Position(key);
  return position == kNowhere ? nullptr : &entries_[position].second;
}

Value Entity::Call(Interpreter&, Arguments&) { Fail(StrCat("'", type_name(), "' object is not callable")); }

Value Entity::Attribute(Workspace&, std::string_view) const { return Value(); }

bool Entity::SetAttribute(Workspace&, std::string_view, const Value&) { return false; }

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return "Undefined";
    case Value::Kind::kNone:
      return "NoneType";
    case Value::Kind::kBool:
      return "bool";
    case Value::Kind::kInt:
      return "int";
    case Value::Kind::kFloat:
      return value.is_wide() ? "int" : "float";
    case Value::Kind::kString:
      return value.is_markup() ? "Markup" : "str";
    case Value::Kind::kDict:
      return "dict";
    case Value::Kind::kEntity:
      return value.entity().type_name();
    case Value::Kind::kSequence:
      break;
  }
  switch (value.sequence().kind()) {
    case Sequence::Kind::kList:
      return "list";
    case Sequence::Kind::kTuple:
      return "tuple";
    case Sequence::Kind::kGroup:
      return "_GroupTuple";
    case Sequence::Kind::kRange:
      return "range";
    case Sequence::Kind::kKeys:
      return "dict_keys";
    case Sequence::Kind::kValues:
      return "dict_values";
    case Sequence::Kind::kItems:
      return "dict_items";
    case Sequence::Kind::kGenerator:
      return "generator";
  }
  return "object";
}

}  // namespace hydrant::jinja
