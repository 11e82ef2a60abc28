#include "api/wire/json_body.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

// Offsets into the text and node indices are 32 bits wide; the server's body limit is far below.
constexpr size_t kTextBytesMax = std::numeric_limits<int32_t>::max();

ApiError InvalidJson(size_t offset) {
  return InvalidField("", absl::StrCat("The body is not valid JSON (at byte ", offset, ")."), "invalid_json");
}

}  // namespace

// Receives nlohmann's events and appends nodes. Returning false stops the parse at once.
class JsonBuilder {
 public:
  JsonBuilder(JsonBody* document, JsonBudget* budget) : document_(document), budget_(*budget) {}

  // nlohmann's SAX interface; its names are not ours to choose.
  // NOLINTBEGIN(readability-identifier-naming)
  bool null() { return AddNode(JsonBody::Kind::kNull); }
  bool boolean(bool value) { return AddNode(value ? JsonBody::Kind::kTrue : JsonBody::Kind::kFalse); }
  bool number_integer(int64_t value) {
    if (!AddNode(JsonBody::Kind::kInteger)) return false;
    Last().integer = value;
    return true;
  }
  bool number_unsigned(uint64_t value) {
    if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return number_integer(static_cast<int64_t>(value));
    }
    if (!AddNode(JsonBody::Kind::kUnsigned)) return false;
    Last().unsigned_integer = value;
    return true;
  }
  bool number_float(double value, const std::string& text) {
    const bool is_integer = text.find_first_of(".eE") == std::string::npos;
    if (!AddNode(is_integer ? JsonBody::Kind::kHuge : JsonBody::Kind::kFloat)) return false;
    Last().number = value;
    return true;
  }
  bool string(std::string& value) {
    if (!AddNode(JsonBody::Kind::kString)) return false;
    Last().string = {Store(value), static_cast<uint32_t>(value.size())};
    return true;
  }
  bool binary(std::vector<uint8_t>& /*value*/) { return false; }  // JSON text has none
  bool start_object(size_t /*count*/) { return Open(JsonBody::Kind::kObject); }
  bool start_array(size_t /*count*/) { return Open(JsonBody::Kind::kArray); }
  bool key(std::string& value) {
    key_offset_ = Store(value);
    key_bytes_ = static_cast<uint32_t>(value.size());
    return true;
  }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool parse_error(size_t position, const std::string& /*last_token*/, const nlohmann::json::exception& /*what*/) {
    // The exception's text and the last token hold raw input: neither is looked at.
    offset_ = position;
    error_ = InvalidJson(position);
    return false;
  }
  // NOLINTEND(readability-identifier-naming)

  std::optional<ApiError>& error() { return error_; }
  size_t offset() const { return offset_; }

 private:
  struct Container {
    uint32_t node;
    uint32_t last_child;  // 0: none yet
  };

  JsonBody::Node& Last() { return document_->nodes_.back(); }

  uint32_t Store(const std::string& text) {
    const auto offset = static_cast<uint32_t>(document_->text_.size());
    document_->text_.append(text);
    return offset;
  }

  bool AddNode(JsonBody::Kind kind) {
    std::vector<JsonBody::Node>& nodes = document_->nodes_;
    if (budget_.values_left == 0) {
      error_ = InvalidField("", absl::StrCat("The request has more than ", budget_.values_max, " JSON values."),
                            "json_too_many_nodes");
      return false;
    }
    --budget_.values_left;
    const auto index = static_cast<uint32_t>(nodes.size());
    JsonBody::Node node;
    node.kind = kind;
    if (!open_.empty()) {
      Container& parent = open_.back();
      if (nodes[parent.node].kind == JsonBody::Kind::kObject) {
        node.key_offset = key_offset_;
        node.key_bytes = key_bytes_;
      }
      (parent.last_child == 0 ? nodes[parent.node].children.first : nodes[parent.last_child].next) = index;
      parent.last_child = index;
      ++nodes[parent.node].children.count;
    }
    nodes.push_back(node);
    return true;
  }

  bool Open(JsonBody::Kind kind) {
    if (open_.size() >= static_cast<size_t>(budget_.depth_max)) {
      error_ = InvalidField("", absl::StrCat("The JSON is nested deeper than ", budget_.depth_max, " levels."),
                            "json_too_deep");
      return false;
    }
    if (!AddNode(kind)) return false;
    Last().children = {0, 0};
    open_.push_back({static_cast<uint32_t>(document_->nodes_.size() - 1), 0});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  JsonBody* document_;
  JsonBudget& budget_;
  std::vector<Container> open_;
  uint32_t key_offset_ = 0;
  uint32_t key_bytes_ = 0;
  std::optional<ApiError> error_;
  size_t offset_ = 0;
};

ApiResult<JsonBody> JsonBody::Parse(std::string_view text, const RequestLimits& limits, size_t* error_offset) {
  JsonBudget budget(limits);
  return Parse(text, &budget, error_offset);
}

ApiResult<JsonBody> JsonBody::ParseObject(std::string_view text, JsonBudget* budget) {
  ApiResult<JsonBody> document = Parse(text, budget);
  if (document.ok() && !document.value().root().is_object()) {
    return InvalidField("", "The body must be a JSON object.", "invalid_json");
  }
  return document;
}

ApiResult<JsonBody> JsonBody::Parse(std::string_view text, JsonBudget* budget, size_t* error_offset) {
  const auto invalid_at = [error_offset](size_t offset) {
    if (error_offset != nullptr) *error_offset = offset;
    return InvalidJson(offset);
  };
  if (text.size() > kTextBytesMax) return invalid_at(kTextBytesMax);
  // To nlohmann a NUL is the end of the text, whatever follows it; in JSON it may stand nowhere.
  if (const size_t nul = text.find('\0'); nul != text.npos) return invalid_at(nul + 1);
  JsonBody document;
  JsonBuilder builder(&document, budget);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  if (!parsed) {
    if (error_offset != nullptr) *error_offset = builder.offset();
    if (builder.error().has_value()) return *std::move(builder.error());
    return invalid_at(text.size());
  }
  assert(!document.nodes_.empty());
  return document;
}

std::optional<JsonBody> JsonBody::ParseFile(const std::string& file, std::string_view text, std::string* error) {
  size_t offset = 0;
  ApiResult<JsonBody> document = Parse(text, RequestLimits(), &offset);
  if (document.ok()) return std::move(document).value();
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  *error = absl::StrCat(file, ":", line, ": is not valid JSON (at byte ", offset, ")");
  return std::nullopt;
}

JsonView JsonBody::root() const { return JsonView(this, 0); }

bool JsonView::absent() const { return !valid() || node().kind == JsonBody::Kind::kNull; }
bool JsonView::is_bool() const {
  return valid() && (node().kind == JsonBody::Kind::kFalse || node().kind == JsonBody::Kind::kTrue);
}
bool JsonView::is_integer() const {
  return valid() && (node().kind == JsonBody::Kind::kInteger || node().kind == JsonBody::Kind::kUnsigned ||
                     node().kind == JsonBody::Kind::kHuge);
}
bool JsonView::is_number() const { return is_integer() || (valid() && node().kind == JsonBody::Kind::kFloat); }
bool JsonView::is_string() const { return valid() && node().kind == JsonBody::Kind::kString; }
bool JsonView::is_array() const { return valid() && node().kind == JsonBody::Kind::kArray; }
bool JsonView::is_object() const { return valid() && node().kind == JsonBody::Kind::kObject; }

bool JsonView::boolean() const {
  assert(is_bool());
  return node().kind == JsonBody::Kind::kTrue;
}

std::optional<int64_t> JsonView::integer() const {
  assert(is_integer());
  if (node().kind != JsonBody::Kind::kInteger) return std::nullopt;
  return node().integer;
}

std::optional<uint64_t> JsonView::unsigned_integer() const {
  assert(is_integer());
  if (node().kind == JsonBody::Kind::kUnsigned) return node().unsigned_integer;
  if (node().kind == JsonBody::Kind::kHuge || node().integer < 0) return std::nullopt;
  return static_cast<uint64_t>(node().integer);
}

double JsonView::number() const {
  assert(is_number());
  switch (node().kind) {
    case JsonBody::Kind::kInteger:
      return static_cast<double>(node().integer);
    case JsonBody::Kind::kUnsigned:
      return static_cast<double>(node().unsigned_integer);
    default:
      return node().number;
  }
}

std::string_view JsonView::string() const {
  assert(is_string());
  return std::string_view(document_->text_).substr(node().string.offset, node().string.bytes);
}

uint32_t JsonView::size() const {
  assert(is_array() || is_object());
  return node().children.count;
}

JsonView JsonView::first() const {
  assert(is_array() || is_object());
  return node().children.first == 0 ? JsonView() : JsonView(document_, node().children.first);
}

JsonView JsonView::next() const {
  assert(valid());
  return node().next == 0 ? JsonView() : JsonView(document_, node().next);
}

std::string_view JsonView::key() const {
  assert(valid());
  return std::string_view(document_->text_).substr(node().key_offset, node().key_bytes);
}

JsonView JsonView::operator[](std::string_view name) const {
  assert(is_object());
  JsonView found;
  for (JsonView member = first(); member.valid(); member = member.next()) {
    if (member.key() == name) found = member;
  }
  return found;
}

}  // namespace hydrant
