// The one checked JSON reader. JsonDocument holds a parsed body; JsonView is one value in it; ObjectReader takes typed,
// ranged members out of an object and keeps the first error.
//
// Thread: any (a document is immutable after Parse; an ObjectReader belongs to one call).
//
// Invariants:
//  1. Depth and node count are enforced while parsing, before memory is spent.
//  2. Strings are valid UTF-8 (Python's strict decoder's idea of it; a lone surrogate escape is refused).
//  3. A conversion never changes a value: no truncation, no wrap, no bool as number, no "5" as 5. An integer field
//  takes
//     integer literals only (16.0 and 1e2 are not integers); a number field takes both.
//  4. null is the same as an absent member.
//  5. No message holds input: a syntax error gives a byte offset, a field error the field's path.
#ifndef HYDRANT_API_JSON_READER_H_
#define HYDRANT_API_JSON_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "api/limits.h"

namespace hydrant {

class JsonView;

// A parsed value tree, flat in memory: freeing it does not recurse.
class JsonDocument {
 public:
  // Accepts exactly one RFC 8259 value (a leading UTF-8 byte-order mark is skipped). Duplicate members: the last wins.
  // Errors: 400 invalid_json with the byte offset, json_too_deep, json_too_many_nodes.
  static ApiResult<JsonDocument> Parse(std::string_view text, const RequestLimits& limits);

  JsonView root() const;

 private:
  friend class JsonBuilder;
  friend class JsonView;

  enum class Kind : uint8_t { kNull, kFalse, kTrue, kInteger, kUnsigned, kFloat, kString, kArray, kObject };
  struct Node {
    Kind kind = Kind::kNull;
    uint32_t key_offset = 0;  // into text_; members of objects only
    uint32_t key_bytes = 0;
    uint32_t next = 0;  // the following sibling, 0: none (node 0 is the root, nobody's sibling)
    union {
      int64_t integer = 0;
      uint64_t unsigned_integer;  // above int64's range
      double number;
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
  std::optional<int64_t> integer() const;  // nullopt: outside int64
  double number() const;                   // finite
  std::string_view string() const;
  uint32_t size() const;  // of an array or object, as written (a duplicate member counts)

  // Iteration over an array or object: for (JsonView v = view.first(); v.valid(); v = v.next()).
  JsonView first() const;
  JsonView next() const;
  bool valid() const { return document_ != nullptr; }
  std::string_view key() const;  // REQUIRES: a member of an object

  // The last member of that name, or an absent view. REQUIRES: is_object().
  JsonView operator[](std::string_view name) const;

 private:
  friend class JsonDocument;
  JsonView(const JsonDocument* document, uint32_t index) : document_(document), index_(index) {}
  const JsonDocument::Node& node() const { return document_->nodes_[index_]; }

  const JsonDocument* document_ = nullptr;
  uint32_t index_ = 0;
};

// Takes members out of one object. After the first violation every call returns its default and changes nothing, so
// that a parser reads straight down and looks at error() once.
class ObjectReader {
 public:
  // `object` must be an object, else the error is set. `path` is put before every name: "" or "kv.".
  // `error` is shared by nested readers and outlives them.
  ObjectReader(JsonView object, std::string path, std::optional<ApiError>* error);

  bool failed() const { return error_->has_value(); }
  bool Has(std::string_view name) const;  // there and not null

  bool Bool(std::string_view name, bool otherwise);
  int64_t Integer(std::string_view name, int64_t otherwise, int64_t min, int64_t max);
  std::optional<int64_t> OptionalInteger(std::string_view name, int64_t min, int64_t max);
  // `min_open`: the range is (min, max].
  double Number(std::string_view name, double otherwise, double min, double max, bool min_open = false);
  // At most `bytes_max` bytes. `identifier`: no control characters either (an id or a name ends up in headers and
  // logs).
  std::string String(std::string_view name, std::string_view otherwise, size_t bytes_max, bool identifier);
  // Token ids in [0, vocab_size), at most count_max of them. Code token_id_out_of_range.
  std::vector<int32_t> TokenIds(std::string_view name, int32_t vocab_size, size_t count_max);
  // A string or an array of strings, none empty.
  std::vector<std::string> Strings(std::string_view name, size_t count_max, size_t bytes_max);
  // A member that must be an object; an absent one reads as empty.
  ObjectReader Object(std::string_view name);
  JsonView Raw(std::string_view name) const;

  // Sets the error (unless one is set), with this reader's path before `name`.
  void Fail(std::string_view name, std::string message, std::string_view code = "invalid_value");
  void FailUnsupported(std::string_view name, std::string_view what);
  std::string Path(std::string_view name) const;

 private:
  JsonView object_;
  std::string path_;
  std::optional<ApiError>* error_;
};

}  // namespace hydrant

#endif  // HYDRANT_API_JSON_READER_H_
