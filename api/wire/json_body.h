// JsonBody is the parsed body of a request; JsonView is one value in it, read with checks. ObjectReader (object_reader.h) takes
// typed, ranged members out of an object.
//
// Thread: any (a document is immutable after Parse).
//
// Invariants:
//  1. Depth and node count are enforced while parsing, before memory is spent.
//  2. Strings are valid UTF-8 (Python's strict decoder's idea of it; a lone surrogate escape is refused).
//  3. A conversion never changes a value: no truncation, no wrap, no bool as number, no "5" as 5. An integer is an
//     integer literal (16.0 and 1e2 are not); a number is either.
//  4. No message holds input: a syntax error gives a byte offset.
#ifndef HYDRANT_API_WIRE_JSON_BODY_H_
#define HYDRANT_API_WIRE_JSON_BODY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/wire/api_error.h"
#include "api/wire/limits.h"

namespace hydrant {

class JsonView;

// What parsing for one request may still make. A text of JSON inside a body draws on the same budget as the body, so that a
// request costs what one body may cost, however it is cut up.
struct JsonBudget {
  explicit JsonBudget(const RequestLimits& limits)
      : depth_max(limits.json_depth_max), values_max(limits.json_nodes_max), values_left(limits.json_nodes_max) {}

  int32_t depth_max;  // of each text
  int32_t values_max;
  int32_t values_left;  // what an attempt made that failed is gone too
};

// A parsed value tree, flat in memory: freeing it does not recurse.
class JsonBody {
 public:
  // Accepts exactly one RFC 8259 value (a leading UTF-8 byte-order mark is skipped). Duplicate members: the last wins.
  // Errors: 400 invalid_json with the byte offset (also in *error_offset), json_too_deep, json_too_many_nodes.
  static ApiResult<JsonBody> Parse(std::string_view text, JsonBudget* budget, size_t* error_offset = nullptr);
  // With a budget of its own.
  static ApiResult<JsonBody> Parse(std::string_view text, const RequestLimits& limits, size_t* error_offset = nullptr);
  // The body of a request: an object. Errors: those of Parse; 400 invalid_json for another value.
  static ApiResult<JsonBody> ParseObject(std::string_view text, JsonBudget* budget);

  // The text of a file that an operator wrote. Null, and *error is "FILE:LINE: …": it is none.
  static std::optional<JsonBody> ParseFile(const std::string& file, std::string_view text, std::string* error);

  JsonView root() const;

 private:
  friend class JsonBuilder;
  friend class JsonView;

  enum class Kind : uint8_t { kNull, kFalse, kTrue, kInteger, kUnsigned, kHuge, kFloat, kString, kArray, kObject };
  struct Node {
    Kind kind = Kind::kNull;
    uint32_t key_offset = 0;  // into text_; members of objects only
    uint32_t key_bytes = 0;
    uint32_t next = 0;  // the following sibling, 0: none (node 0 is the root, nobody's sibling)
    union {
      int64_t integer = 0;
      uint64_t unsigned_integer;  // above int64's range
      double number;              // of kHuge, an integer beyond 64 bits, the nearest
      struct {
        uint32_t offset;  // into text_
        uint32_t bytes;
      } string;
      struct {
        uint32_t first;  // first child, 0: none
        uint32_t count;
      } children;
    };
  };

  std::vector<Node> nodes_;
  std::string text_;  // every key and string, unescaped
};

// Borrowed: valid as long as its document. A default one, and one of a null value, is `absent`.
class JsonView {
 public:
  JsonView() = default;

  bool absent() const;  // not there, or null
  bool is_bool() const;
  bool is_integer() const;  // an integer literal, in int64's range or not
  bool is_number() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;

  // REQUIRES: the kind asked for.
  bool boolean() const;
  std::optional<int64_t> integer() const;            // nullopt: outside int64
  std::optional<uint64_t> unsigned_integer() const;  // nullopt: outside uint64
  double number() const;                             // finite
  std::string_view string() const;
  uint32_t size() const;  // of an array or object, as written (a duplicate member counts)

  // Walks an array or object: for (JsonView v = view.first(); v.valid(); v = v.next()).
  JsonView first() const;
  JsonView next() const;
  bool valid() const { return document_ != nullptr; }
  std::string_view key() const;  // REQUIRES: a member of an object

  // The last member of that name, or an absent view. REQUIRES: is_object().
  JsonView operator[](std::string_view name) const;

 private:
  friend class JsonBody;
  JsonView(const JsonBody* document, uint32_t index) : document_(document), index_(index) {}
  const JsonBody::Node& node() const { return document_->nodes_[index_]; }

  const JsonBody* document_ = nullptr;
  uint32_t index_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_JSON_BODY_H_
