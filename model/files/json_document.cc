#include "model/files/json_document.h"

#include <cassert>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "model/text/str_cat.h"

namespace hydrant {
namespace {

using nlohmann::json;

// Builds the tree from parser events, so that limits and duplicate keys stop the parse where they occur.
class TreeBuilder : public nlohmann::json_sax<json> {
 public:
  TreeBuilder(const JsonLimits& limits, json& root) : limits_(limits), root_(root) {}

  // Why parsing stopped; "is not valid JSON" unless a limit said otherwise.
  const std::string& reason() const { return reason_; }
  size_t position() const { return position_; }

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return Add(value) != nullptr; }
  bool string(string_t& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(json::object()); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (!Count()) return false;
    const auto [member, fresh] = open_.back()->emplace(std::move(name), nullptr);
    member_ = &*member;
    if (!fresh) reason_ = "the key " + Quoted(member.key()) + " appears twice";
    return fresh;
  }

  // Must not throw and must not repeat the text: what() holds raw input.
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    position_ = position;
    return false;
  }

 private:
  bool Count() {
    if (++nodes_ <= limits_.nodes_max) return true;
    reason_ = StrCat("has more than ", limits_.nodes_max, " values");
    return false;
  }

  json* Add(json value) {
    if (!Count()) return nullptr;
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_object()) {
      *member_ = std::move(value);
      return member_;
    }
    open_.back()->push_back(std::move(value));
    return &open_.back()->back();
  }

  bool Open(json empty) {
    if (open_.size() >= static_cast<size_t>(limits_.depth_max)) {
      reason_ = StrCat("is nested deeper than ", limits_.depth_max);
      return false;
    }
    json* const opened = Add(std::move(empty));
    if (opened != nullptr) open_.push_back(opened);
    return opened != nullptr;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  json& root_;
  std::vector<json*> open_;  // the containers around the place of the parse; growing one never moves those above it
  json* member_ = nullptr;   // where the value of the last key goes
  size_t nodes_ = 0;
  std::string reason_ = "is not valid JSON";
  size_t position_ = 0;
};

// The path of `wanted` below `node`, found by its address: paths are for messages only and cost nothing until then.
bool FindPath(const json& node, const json* wanted, std::string& path) {
  if (&node == wanted) return true;
  const size_t length = path.size();
  if (node.is_object()) {
    for (const auto& member : node.items()) {
      path += StrCat(length == 0 ? "" : ".", member.key());
      if (FindPath(member.value(), wanted, path)) return true;
      path.resize(length);
    }
  } else if (node.is_array()) {
    for (size_t i = 0; i < node.size(); ++i) {
      path += StrCat("[", i, "]");
      if (FindPath(node[i], wanted, path)) return true;
      path.resize(length);
    }
  }
  return false;
}

}  // namespace

bool JsonValue::IsArray() const { return node_->is_array(); }

absl::StatusOr<int64_t> JsonValue::Int(int64_t min, int64_t max) const {
  if (!node_->is_number_integer()) return WrongType("an integer");
  // nlohmann keeps what does not fit in int64 as uint64; nothing here has a use for it.
  const auto* wide = node_->get_ptr<const json::number_unsigned_t*>();
  if (wide != nullptr && *wide > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Error(*wide, " is out of range [", min, ", ", max, "]");
  }
  const int64_t value =
      wide != nullptr ? static_cast<int64_t>(*wide) : *node_->get_ptr<const json::number_integer_t*>();
  if (value < min || value > max) return Error(value, " is out of range [", min, ", ", max, "]");
  return value;
}

absl::StatusOr<double> JsonValue::Number() const {
  if (const auto* number = node_->get_ptr<const json::number_float_t*>()) return *number;
  if (const auto* number = node_->get_ptr<const json::number_unsigned_t*>()) return static_cast<double>(*number);
  if (const auto* number = node_->get_ptr<const json::number_integer_t*>()) return static_cast<double>(*number);
  return WrongType("a number");
}

absl::StatusOr<bool> JsonValue::Bool() const {
  if (const auto* value = node_->get_ptr<const json::boolean_t*>()) return *value;
  return WrongType("true or false");
}

absl::StatusOr<std::string_view> JsonValue::String() const {
  if (const auto* value = node_->get_ptr<const json::string_t*>()) return std::string_view(*value);
  return WrongType("a string");
}

size_t JsonValue::size() const { return node_->is_array() ? node_->size() : 0; }

JsonValue JsonValue::operator[](size_t index) const {
  assert(index < size());
  return {document_, &(*node_)[index]};
}

absl::Status JsonValue::ForEachMember(const std::function<absl::Status(std::string_view, JsonValue)>& visit) const {
  if (!node_->is_object()) return WrongType("an object");
  for (auto member = node_->begin(); member != node_->end(); ++member) {
    HYDRANT_RETURN_IF_ERROR(visit(member.key(), JsonValue(document_, &*member)));
  }
  return absl::OkStatus();
}

std::optional<JsonValue> JsonValue::Find(std::string_view key) const {
  if (!node_->is_object()) return std::nullopt;
  const auto found = node_->find(key);
  if (found == node_->end() || found->is_null()) return std::nullopt;
  return JsonValue(document_, &*found);
}

absl::StatusOr<JsonValue> JsonValue::At(std::string_view key) const {
  if (!node_->is_object()) return WrongType("an object");
  if (const std::optional<JsonValue> found = Find(key)) return *found;
  const std::string path = Path();
  return FileError(file(), Quoted(StrCat(path, path.empty() ? "" : ".", key)), "is missing");
}

bool JsonValue::Has(std::string_view key) const { return node_->is_object() && node_->contains(key); }

absl::Status JsonValue::Read(std::string_view key, int64_t min, int64_t max, int32_t& out) const {
  assert(min >= std::numeric_limits<int32_t>::min() && max <= std::numeric_limits<int32_t>::max());
  const std::optional<JsonValue> found = Find(key);
  if (!found) return absl::OkStatus();
  HYDRANT_ASSIGN_OR_RETURN(const int64_t value, found->Int(min, max));
  out = static_cast<int32_t>(value);
  return absl::OkStatus();
}

absl::Status JsonValue::Read(std::string_view key, double& out) const {
  const std::optional<JsonValue> found = Find(key);
  if (!found) return absl::OkStatus();
  HYDRANT_ASSIGN_OR_RETURN(out, found->Number());
  return absl::OkStatus();
}

absl::Status JsonValue::Read(std::string_view key, bool& out) const {
  const std::optional<JsonValue> found = Find(key);
  if (!found) return absl::OkStatus();
  HYDRANT_ASSIGN_OR_RETURN(out, found->Bool());
  return absl::OkStatus();
}

const std::string& JsonValue::file() const { return document_->file_; }

std::string JsonValue::Path() const {
  std::string path;
  FindPath(*document_->root_, node_, path);
  return path;
}

absl::Status JsonValue::WrongType(std::string_view wanted) const { return Error("is not ", wanted); }

JsonDocument::JsonDocument(std::unique_ptr<json> root, std::string file)
    : root_(std::move(root)), file_(std::move(file)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

absl::StatusOr<JsonDocument> JsonDocument::Parse(std::string_view text, const JsonLimits& limits, std::string file) {
  auto root = std::make_unique<json>();
  TreeBuilder builder(limits, *root);
  // To nlohmann a NUL is the end of the text, whatever follows it; in JSON it may stand nowhere.
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    return FileError(file, "", "is not valid JSON at byte ", nul + 1);
  }
  // It passes over a byte order mark too, which the readers of safetensors, tokenizers and transformers all refuse.
  if (text.starts_with("\xEF\xBB\xBF")) return FileError(file, "", "begins with a byte order mark");
  bool parsed = false;
  try {
    parsed = json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const json::exception&) {
    // Reported like any other bad text.
  }
  if (!parsed) {
    const std::string where = builder.position() > 0 ? StrCat(" at byte ", builder.position()) : "";
    return FileError(file, "", builder.reason(), where);
  }
  return JsonDocument(std::move(root), std::move(file));
}

JsonValue JsonDocument::root() const { return {this, root_.get()}; }

}  // namespace hydrant
