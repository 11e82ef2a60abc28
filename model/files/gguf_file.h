// GgufFile is the container of one .gguf file (version 2 or 3, little-endian), checked in full: metadata and tensor table.
// It knows nothing about what they mean.
//
// Thread: any (immutable). Views point into the bytes it was parsed from and live as long as those.
//
// Invariants
//  1. Every string, array and tensor lies inside the file; every product of sizes was formed without overflow.
//  2. Keys are unique, and so are tensor names.
//  3. Tensors lie one after the other in the order of the table, each padded to the alignment, as the format demands.
#ifndef HYDRANT_MODEL_FILES_GGUF_FILE_H_
#define HYDRANT_MODEL_FILES_GGUF_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "model/files/raw_tensor.h"

namespace hydrant {

class GgufFile {
 public:
  // `name` is for messages.
  static absl::StatusOr<GgufFile> Parse(std::string_view bytes, std::string name);

  const std::string& name() const { return name_; }
  const std::vector<RawTensor>& tensors() const { return tensors_; }

  bool Has(std::string_view key) const { return values_.contains(key); }
  bool IsArray(std::string_view key) const;  // false, too, when there is no such key

  // Metadata by key. The value is empty when there is no such key; a value of another type or outside [min, max] is an error.
  absl::StatusOr<std::optional<int64_t>> Int(std::string_view key, int64_t min, int64_t max) const;
  absl::StatusOr<std::optional<double>> Float(std::string_view key) const;
  absl::StatusOr<std::optional<bool>> Bool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string_view>> String(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<std::string_view>>> Strings(std::string_view key) const;
  // An array of more than `count_max` is an error.
  absl::StatusOr<std::optional<std::vector<int64_t>>> Ints(std::string_view key, uint64_t count_max) const;
  absl::StatusOr<std::optional<std::vector<bool>>> Bools(std::string_view key, uint64_t count_max) const;
  absl::StatusOr<std::optional<std::vector<float>>> Floats(std::string_view key, uint64_t count_max) const;

 private:
  // The numbers of the format.
  enum class Type : uint32_t {
    kUint8,
    kInt8,
    kUint16,
    kInt16,
    kUint32,
    kInt32,
    kFloat32,
    kBool,
    kString,
    kArray,
    kUint64,
    kInt64,
    kFloat64,
  };
  struct Value {
    Type type;  // of the value, or of an array's elements
    bool array;
    uint64_t count;         // elements; 1 when not an array
    std::string_view data;  // a string without its length prefix; everything else as it lies in the file
  };
  class Cursor;

  explicit GgufFile(std::string name) : name_(std::move(name)) {}
  static absl::StatusOr<size_t> ScalarBytes(Type type);
  absl::Status ParseMetadata(Cursor& cursor, uint64_t count);
  absl::StatusOr<Value> ParseValue(Cursor& cursor, std::string_view key) const;
  absl::Status ParseTensors(Cursor& cursor, uint64_t count);
  absl::Status ParseTensor(Cursor& cursor, RawTensor& tensor) const;
  absl::Status PlaceTensors(std::string_view data, uint64_t alignment);
  absl::Status Mismatch(std::string_view key, std::string_view wanted) const;
  absl::Status TooLong(std::string_view key, uint64_t count, uint64_t count_max) const;
  static std::optional<int64_t> IntAt(const Value& value, uint64_t index);

  std::string name_;
  absl::flat_hash_map<std::string_view, Value> values_;
  std::vector<RawTensor> tensors_;
  std::vector<uint64_t> offsets_;  // of tensors_, from the start of the data part; used while parsing only
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_GGUF_FILE_H_
