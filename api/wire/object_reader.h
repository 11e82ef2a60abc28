// ObjectReader takes typed, ranged members out of one JSON object and keeps the first error. It is the only way request
// fields are read (with JsonView for the few that have several shapes).
//
// Thread: any (belongs to one call).
//
// Invariants:
//  1. null is the same as an absent member.
//  2. Every error is a 400 whose `param` is the member's path ("kv.budget").
//  3. After the first violation every call returns its default and changes nothing.
#ifndef HYDRANT_API_WIRE_OBJECT_READER_H_
#define HYDRANT_API_WIRE_OBJECT_READER_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "api/wire/api_error.h"
#include "api/wire/field_log.h"
#include "api/wire/json_body.h"

namespace hydrant {

// Takes members out of one object. After the first violation every call returns its default and changes nothing, so
// that a parser reads straight down and looks at error() once.
class ObjectReader {
 public:
  // `object` must be an object, else the error is set. `path` is put before every name: "" or "kv.".
  // `error` is shared by nested readers and outlives them.
  // `log`, which may be null and outlives the readers, gets every member that is asked for.
  ObjectReader(JsonView object, std::string path, std::optional<ApiError>* error, FieldLog* log = nullptr);

  bool failed() const { return error_->has_value(); }
  bool Has(std::string_view name) const;  // there and not null

  bool Bool(std::string_view name, bool default_value);
  int64_t Integer(std::string_view name, int64_t default_value, int64_t min, int64_t max);
  std::optional<int64_t> OptionalInteger(std::string_view name, int64_t min, int64_t max);
  // `min_open`: the range is (min, max].
  double Number(std::string_view name, double default_value, double min, double max, bool min_open = false);
  // At most `bytes_max` bytes. `identifier`: no control characters either (an id or a name ends up in headers and
  // logs).
  std::string String(std::string_view name, std::string_view default_value, size_t bytes_max, bool identifier);
  // Token ids in [0, vocab_size), at most count_max of them. Code token_id_out_of_range.
  std::vector<int32_t> TokenIds(std::string_view name, int32_t vocab_size, size_t count_max);
  // The same of any value; `name` is what errors call it.
  std::vector<int32_t> TokenIdsIn(std::string_view name, JsonView value, int32_t vocab_size, size_t count_max);
  // A string or an array of strings, none empty.
  std::vector<std::string> Strings(std::string_view name, size_t count_max, size_t bytes_max);
  // A member that must be an object; an absent one reads as empty.
  ObjectReader Object(std::string_view name);
  JsonView Raw(std::string_view name) const;
  // For objects of this server's own: a member that is none of `known` and not null is an error. Code unknown_field.
  void RefuseOthers(std::span<const std::string_view> known);
  void RefuseOthers(std::initializer_list<std::string_view> known) {
    RefuseOthers(std::span(known.begin(), known.size()));
  }

  // Sets the error (unless one is set), with this reader's path before `name`.
  void Fail(std::string_view name, std::string message, ErrorCode<400> code = kInvalidValue);
  void FailUnsupported(std::string_view name, std::string_view what);
  void FailWith(ApiError error);
  std::string Path(std::string_view name) const;

  // While it lives nothing is logged: what is asked for is asked only to be refused.
  class Unlogged {
   public:
    explicit Unlogged(ObjectReader* reader) : reader_(*reader), log_(std::exchange(reader->log_, nullptr)) {}
    ~Unlogged() { reader_.log_ = log_; }
    Unlogged(const Unlogged&) = delete;
    Unlogged& operator=(const Unlogged&) = delete;

   private:
    ObjectReader& reader_;
    FieldLog* const log_;
  };

 private:
  JsonView Find(std::string_view name) const;
  // The member, which is logged as one of this kind.
  JsonView Logged(std::string_view name, const FieldNote& note) const;

  absl::flat_hash_map<std::string_view, JsonView> members_;  // a map: 200,000 unknown members must not cost 60 scans
  std::string path_;
  std::optional<ApiError>* error_;
  FieldLog* log_;
};

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_OBJECT_READER_H_
