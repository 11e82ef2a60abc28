// JsonDocument is the only way model/ reads JSON; JsonValue is one value in it, read with checks. Numbers are never cast, nothing throws,
// and every refusal names the file and the field.
//
// Thread: any (immutable once parsed).
#ifndef HYDRANT_MODEL_FILES_JSON_DOCUMENT_H_
#define HYDRANT_MODEL_FILES_JSON_DOCUMENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/files/file_error.h"

namespace hydrant {

class JsonDocument;

// A value inside a JsonDocument, which must outlive it.
class JsonValue {
 public:
  bool IsArray() const;

  // Typed reads; an error when the value is of another type. An integer is a JSON number without fraction or exponent.
  absl::StatusOr<int64_t> Int(int64_t min, int64_t max) const;
  absl::StatusOr<double> Number() const;
  absl::StatusOr<bool> Bool() const;
  absl::StatusOr<std::string_view> String() const;

  // Elements of an array; 0 and nothing for anything else.
  size_t size() const;
  JsonValue operator[](size_t index) const;  // REQUIRES: index < size()
  // Every member of an object, in the order of their keys; stops at the first error.
  absl::Status ForEachMember(const std::function<absl::Status(std::string_view key, JsonValue value)>& visit) const;

  // A member; nothing when this is no object, has no such member, or the member is null.
  std::optional<JsonValue> Find(std::string_view key) const;
  absl::StatusOr<JsonValue> At(std::string_view key) const;  // the same, as an error
  bool Has(std::string_view key) const;                      // there is such a member, null or not

  // Optional members: `out` keeps its value when Find finds nothing.
  absl::Status Read(std::string_view key, int64_t min, int64_t max, int32_t& out) const;
  absl::Status Read(std::string_view key, double& out) const;
  absl::Status Read(std::string_view key, bool& out) const;

  // "config.json: 'rope_scaling.factor': message"
  template <typename... Parts>
  absl::Status Error(const Parts&... message) const {
    const std::string path = Path();
    return FileError(file(), path.empty() ? "" : Quoted(path), message...);
  }

 private:
  friend class JsonDocument;
  JsonValue(const JsonDocument* document, const nlohmann::json* node) : document_(document), node_(node) {}
  const std::string& file() const;
  std::string Path() const;
  absl::Status WrongType(std::string_view wanted) const;

  const JsonDocument* document_;
  const nlohmann::json* node_;
};

struct JsonLimits {
  size_t nodes_max;    // values and keys
  int depth_max = 64;  // far below where nlohmann's recursive parts would run out of stack
};

class JsonDocument {
 public:
  // Errors, each with the byte offset: not JSON, not UTF-8, a key twice in one object, over a limit. `file` is for messages.
  static absl::StatusOr<JsonDocument> Parse(std::string_view text, const JsonLimits& limits, std::string file);

  JsonDocument(JsonDocument&&) noexcept;
  ~JsonDocument();

  // Valid until the document is moved or destroyed.
  JsonValue root() const;

 private:
  friend class JsonValue;
  JsonDocument(std::unique_ptr<nlohmann::json> root, std::string file);
  std::unique_ptr<nlohmann::json> root_;
  std::string file_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_JSON_DOCUMENT_H_
