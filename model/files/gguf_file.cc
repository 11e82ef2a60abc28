#include "model/files/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "model/files/file_error.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is read as it lies in memory");

// Real files have some 40 keys and at most a few thousand tensors; the caps keep a hostile count from costing memory.
constexpr uint64_t kKeysMax = 65536;
constexpr uint64_t kTensorsMax = 65536;
constexpr uint64_t kNameBytesMax = 1024;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kAlignmentMax = 1 << 20;

// ggml's numbers of tensor types. Those without a WeightFormat are here to be refused by name.
struct GgmlType {
  uint32_t number;
  std::string_view name;
  std::optional<WeightFormat> stored;
};
constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", WeightFormat::kF32},
    {1, "F16", WeightFormat::kF16},
    {2, "Q4_0", WeightFormat::kQ4_0},
    {3, "Q4_1", WeightFormat::kQ4_1},
    {6, "Q5_0", WeightFormat::kQ5_0},
    {7, "Q5_1", WeightFormat::kQ5_1},
    {8, "Q8_0", WeightFormat::kQ8_0},
    {9, "Q8_1", {}},
    {10, "Q2_K", WeightFormat::kQ2_K},
    {11, "Q3_K", WeightFormat::kQ3_K},
    {12, "Q4_K", WeightFormat::kQ4_K},
    {13, "Q5_K", WeightFormat::kQ5_K},
    {14, "Q6_K", WeightFormat::kQ6_K},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", WeightFormat::kIQ4_NL},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", WeightFormat::kIQ4_XS},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", {}},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {30, "BF16", WeightFormat::kBF16},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {39, "MXFP4", WeightFormat::kMXFP4},
};

constexpr std::string_view kSupported =
    "F32, F16, BF16, Q8_0, Q4_0 to Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS and MXFP4 are";

template <typename T>
T LoadAs(std::string_view data, uint64_t index) {
  T value;
  std::memcpy(&value, data.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

// A place in the file that never passes its end.
class GgufFile::Cursor {
 public:
  Cursor(std::string_view bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }

  absl::StatusOr<std::string_view> Take(uint64_t count, std::string_view what) {
    if (count > left()) return FileError(name_, what, "passes the end of the file");
    const std::string_view taken = bytes_.substr(position_, count);
    position_ += count;
    return taken;
  }

  template <typename T>
  absl::StatusOr<T> Number(std::string_view what) {
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view taken, Take(sizeof(T), what));
    return LoadAs<T>(taken, 0);
  }

  absl::StatusOr<std::string_view> String(std::string_view what) {
    HYDRANT_ASSIGN_OR_RETURN(const uint64_t length, Number<uint64_t>(what));
    return Take(length, what);
  }

 private:
  std::string_view bytes_;
  std::string_view name_;
  size_t position_ = 0;
};

absl::StatusOr<GgufFile> GgufFile::Parse(std::string_view bytes, std::string name) {
  GgufFile file(std::move(name));
  Cursor cursor(bytes, file.name_);
  if (bytes.substr(0, 4) != "GGUF") return FileError(file.name_, "", "is not a GGUF file (no magic)");
  HYDRANT_RETURN_IF_ERROR(cursor.Take(4, "magic").status());
  HYDRANT_ASSIGN_OR_RETURN(const uint32_t version, cursor.Number<uint32_t>("version"));
  if ((version & 0xFFFF) == 0 && version != 0)
    return FileError(file.name_, "version", "big-endian files are not supported");
  if (version != 2 && version != 3) return FileError(file.name_, "version", version, " is not supported (2 and 3 are)");
  HYDRANT_ASSIGN_OR_RETURN(const uint64_t tensor_count, cursor.Number<uint64_t>("tensor_count"));
  HYDRANT_ASSIGN_OR_RETURN(const uint64_t key_count, cursor.Number<uint64_t>("metadata_kv_count"));
  if (tensor_count > kTensorsMax) {
    return FileError(file.name_, "tensor_count", tensor_count, " is out of range [0, ", kTensorsMax, "]");
  }
  if (key_count > kKeysMax) {
    return FileError(file.name_, "metadata_kv_count", key_count, " is out of range [0, ", kKeysMax, "]");
  }
  HYDRANT_RETURN_IF_ERROR(file.ParseMetadata(cursor, key_count));
  HYDRANT_RETURN_IF_ERROR(file.ParseTensors(cursor, tensor_count));

  HYDRANT_ASSIGN_OR_RETURN(const std::optional<int64_t> alignment, file.Int("general.alignment", 1, kAlignmentMax));
  const uint64_t align = static_cast<uint64_t>(alignment.value_or(kDefaultAlignment));
  if (!std::has_single_bit(align)) return FileError(file.name_, "general.alignment", align, " is not a power of two");
  const uint64_t data_begin = (cursor.position() + align - 1) / align * align;
  HYDRANT_RETURN_IF_ERROR(file.PlaceTensors(bytes.substr(std::min<uint64_t>(data_begin, bytes.size())), align));
  return file;
}

absl::StatusOr<size_t> GgufFile::ScalarBytes(Type type) {
  switch (type) {
    case Type::kUint8:
    case Type::kInt8:
    case Type::kBool:
      return 1;
    case Type::kUint16:
    case Type::kInt16:
      return 2;
    case Type::kUint32:
    case Type::kInt32:
    case Type::kFloat32:
      return 4;
    case Type::kUint64:
    case Type::kInt64:
    case Type::kFloat64:
      return 8;
    case Type::kString:
    case Type::kArray:
      break;
  }
  return absl::InvalidArgumentError("no scalar");
}

absl::Status GgufFile::ParseMetadata(Cursor& cursor, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view key, cursor.String(StrCat("metadata key ", i)));
    if (key.empty() || key.size() > kNameBytesMax) {
      return FileError(name_, StrCat("metadata key ", i), "has ", key.size(), " bytes, not 1 to ", kNameBytesMax);
    }
    HYDRANT_ASSIGN_OR_RETURN(const Value value, ParseValue(cursor, key));
    if (!values_.emplace(key, value).second) return FileError(name_, Quoted(key), "appears twice");
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufFile::Value> GgufFile::ParseValue(Cursor& cursor, std::string_view key) const {
  const std::string what = Quoted(key);
  HYDRANT_ASSIGN_OR_RETURN(const uint32_t number, cursor.Number<uint32_t>(what));
  Value value{static_cast<Type>(number), false, 1, {}};
  if (value.type == Type::kArray) {
    HYDRANT_ASSIGN_OR_RETURN(const uint32_t element, cursor.Number<uint32_t>(what));
    HYDRANT_ASSIGN_OR_RETURN(value.count, cursor.Number<uint64_t>(what));
    value.type = static_cast<Type>(element);
    value.array = true;
    if (value.type == Type::kArray) return FileError(name_, what, "arrays of arrays are not supported");
  }
  if (value.type == Type::kString) {
    if (!value.array) {
      HYDRANT_ASSIGN_OR_RETURN(value.data, cursor.String(what));
      return value;
    }
    Cursor start = cursor;
    for (uint64_t i = 0; i < value.count; ++i) HYDRANT_RETURN_IF_ERROR(cursor.String(what).status());
    HYDRANT_ASSIGN_OR_RETURN(value.data, start.Take(cursor.position() - start.position(), what));
    return value;
  }
  const absl::StatusOr<size_t> size = ScalarBytes(value.type);
  if (!size.ok()) return FileError(name_, what, "value type ", static_cast<uint32_t>(value.type), " is not known");
  if (value.count > cursor.left() / *size) return FileError(name_, what, "passes the end of the file");
  HYDRANT_ASSIGN_OR_RETURN(value.data, cursor.Take(value.count * *size, what));
  if (value.type == Type::kBool) {
    for (const char byte : value.data) {
      if (byte != 0 && byte != 1) return FileError(name_, what, "a bool is neither 0 nor 1");
    }
  }
  return value;
}

absl::Status GgufFile::ParseTensors(Cursor& cursor, uint64_t count) {
  // 24 bytes: an empty name, no dimensions, type and offset.
  if (count > cursor.left() / 24) return FileError(name_, "tensor_count", count, " tensors pass the end of the file");
  absl::flat_hash_map<std::string, uint64_t> seen;
  for (uint64_t i = 0; i < count; ++i) {
    RawTensor tensor;
    tensor.file = name_;
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view tensor_name, cursor.String(StrCat("tensor ", i)));
    if (tensor_name.empty() || tensor_name.size() > kNameBytesMax) {
      return FileError(name_, StrCat("tensor ", i), "its name has ", tensor_name.size(), " bytes, not 1 to ",
                       kNameBytesMax);
    }
    tensor.name = std::string(tensor_name);
    if (!seen.emplace(tensor.name, i).second) return FileError(name_, "tensor " + Quoted(tensor_name), "appears twice");
    HYDRANT_RETURN_IF_ERROR(ParseTensor(cursor, tensor));
    HYDRANT_ASSIGN_OR_RETURN(const uint64_t offset, cursor.Number<uint64_t>("tensor " + Quoted(tensor_name)));
    tensors_.push_back(std::move(tensor));
    offsets_.push_back(offset);
  }
  return absl::OkStatus();
}

// Shape and type; leaves `data` with a null pointer and the size it must have.
absl::Status GgufFile::ParseTensor(Cursor& cursor, RawTensor& tensor) const {
  const std::string what = "tensor " + Quoted(tensor.name);
  HYDRANT_ASSIGN_OR_RETURN(const uint32_t rank, cursor.Number<uint32_t>(what));
  if (rank < 1 || rank > 4) return FileError(name_, what, "has ", rank, " dimensions, not 1 to 4");
  int64_t elements = 1;
  for (uint32_t d = 0; d < rank; ++d) {
    HYDRANT_ASSIGN_OR_RETURN(const uint64_t extent, cursor.Number<uint64_t>(what));
    if (extent == 0 || extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return FileError(name_, what, "dimension ", d, " is ", extent);
    }
    if (__builtin_mul_overflow(elements, static_cast<int64_t>(extent), &elements)) {
      return FileError(name_, what, "its shape has too many elements");
    }
    tensor.shape.push_back(static_cast<int64_t>(extent));
  }
  const int64_t cols = tensor.shape.front();
  std::reverse(tensor.shape.begin(), tensor.shape.end());  // ggml lists the fastest dimension first
  HYDRANT_ASSIGN_OR_RETURN(const uint32_t number, cursor.Number<uint32_t>(what));
  const auto* type =
      std::find_if(std::begin(kGgmlTypes), std::end(kGgmlTypes), [&](const GgmlType& t) { return t.number == number; });
  if (type == std::end(kGgmlTypes)) return FileError(name_, what, "type ", number, " is not known (", kSupported, ")");
  if (!type->stored) return FileError(name_, what, "type ", type->name, " is not supported (", kSupported, ")");
  tensor.format = *type->stored;
  const WeightFormatInfo& info = InfoOf(tensor.format);
  if (cols % info.block_elements != 0) {
    return FileError(name_, what, "rows of ", cols, " elements are not whole ", info.name, " blocks of ",
                     info.block_elements);
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / info.block_elements, info.block_bytes, &bytes)) {
    return FileError(name_, what, "its shape has too many elements");
  }
  tensor.data = std::string_view(nullptr, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status GgufFile::PlaceTensors(std::string_view data, uint64_t alignment) {
  uint64_t end = 0;  // of the tensor before, padded
  for (size_t i = 0; i < tensors_.size(); ++i) {
    RawTensor& tensor = tensors_[i];
    const std::string what = "tensor " + Quoted(tensor.name);
    const uint64_t offset = offsets_[i];
    if (offset % alignment != 0) return FileError(name_, what, "offset ", offset, " is not a multiple of ", alignment);
    if (offset > data.size() || tensor.data.size() > data.size() - offset) {
      return FileError(name_, what, "offset ", offset, " and ", tensor.data.size(), " bytes pass the end of the file");
    }
    if (offset != end) return FileError(name_, what, "offset ", offset, " is not ", end, ", where its neighbour ends");
    end = offset + (tensor.data.size() + alignment - 1) / alignment * alignment;
    tensor.data = data.substr(offset, tensor.data.size());
  }
  offsets_.clear();
  return absl::OkStatus();
}

absl::Status GgufFile::Mismatch(std::string_view key, std::string_view wanted) const {
  return FileError(name_, Quoted(key), "is not ", wanted);
}

absl::Status GgufFile::TooLong(std::string_view key, uint64_t count, uint64_t count_max) const {
  return FileError(name_, Quoted(key), "has ", count, " elements; at most ", count_max, " make sense");
}

bool GgufFile::IsArray(std::string_view key) const {
  const auto found = values_.find(key);
  return found != values_.end() && found->second.array;
}

std::optional<int64_t> GgufFile::IntAt(const Value& value, uint64_t index) {
  switch (value.type) {
    case Type::kUint8:
      return LoadAs<uint8_t>(value.data, index);
    case Type::kInt8:
      return LoadAs<int8_t>(value.data, index);
    case Type::kUint16:
      return LoadAs<uint16_t>(value.data, index);
    case Type::kInt16:
      return LoadAs<int16_t>(value.data, index);
    case Type::kUint32:
      return LoadAs<uint32_t>(value.data, index);
    case Type::kInt32:
      return LoadAs<int32_t>(value.data, index);
    case Type::kInt64:
      return LoadAs<int64_t>(value.data, index);
    case Type::kUint64: {
      const uint64_t number = LoadAs<uint64_t>(value.data, index);
      // Clamped: no caller's range reaches that far.
      return static_cast<int64_t>(std::min<uint64_t>(number, std::numeric_limits<int64_t>::max()));
    }
    default:
      return std::nullopt;
  }
}

absl::StatusOr<std::optional<int64_t>> GgufFile::Int(std::string_view key, int64_t min, int64_t max) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  const std::optional<int64_t> number = found->second.array ? std::nullopt : IntAt(found->second, 0);
  if (!number) return Mismatch(key, "an integer");
  if (*number < min || *number > max) {
    return FileError(name_, Quoted(key), *number, " is out of range [", min, ", ", max, "]");
  }
  return number;
}

absl::StatusOr<std::optional<double>> GgufFile::Float(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  const Value& value = found->second;
  if (!value.array && value.type == Type::kFloat32) return LoadAs<float>(value.data, 0);
  if (!value.array && value.type == Type::kFloat64) return LoadAs<double>(value.data, 0);
  return Mismatch(key, "a floating-point number");
}

absl::StatusOr<std::optional<bool>> GgufFile::Bool(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  if (found->second.array || found->second.type != Type::kBool) return Mismatch(key, "a bool");
  return found->second.data.front() != 0;
}

absl::StatusOr<std::optional<std::string_view>> GgufFile::String(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  if (found->second.array || found->second.type != Type::kString) return Mismatch(key, "a string");
  return found->second.data;
}

absl::StatusOr<std::optional<std::vector<std::string_view>>> GgufFile::Strings(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  const Value& value = found->second;
  if (!value.array || value.type != Type::kString) return Mismatch(key, "an array of strings");
  std::vector<std::string_view> strings;
  strings.reserve(value.count);  // each took at least 8 bytes of the file
  // The lengths are read again, and checked again: somebody may be rewriting the file.
  Cursor cursor(value.data, name_);
  for (uint64_t i = 0; i < value.count; ++i) {
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view string, cursor.String(Quoted(key)));
    strings.push_back(string);
  }
  return strings;
}

absl::StatusOr<std::optional<std::vector<int64_t>>> GgufFile::Ints(std::string_view key, uint64_t count_max) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  const Value& value = found->second;
  if (!value.array || (value.count > 0 && !IntAt(value, 0))) return Mismatch(key, "an array of integers");
  if (value.count > count_max) return TooLong(key, value.count, count_max);
  std::vector<int64_t> numbers(value.count);
  for (uint64_t i = 0; i < value.count; ++i) numbers[i] = *IntAt(value, i);
  return numbers;
}

absl::StatusOr<std::optional<std::vector<bool>>> GgufFile::Bools(std::string_view key, uint64_t count_max) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  const Value& value = found->second;
  if (!value.array || value.type != Type::kBool) return Mismatch(key, "an array of bools");
  if (value.count > count_max) return TooLong(key, value.count, count_max);
  std::vector<bool> flags(value.count);
  for (uint64_t i = 0; i < value.count; ++i) flags[i] = value.data[i] != 0;
  return flags;
}

absl::StatusOr<std::optional<std::vector<float>>> GgufFile::Floats(std::string_view key, uint64_t count_max) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  const Value& value = found->second;
  if (!value.array || value.type != Type::kFloat32) return Mismatch(key, "an array of 32-bit floating-point numbers");
  if (value.count > count_max) return TooLong(key, value.count, count_max);
  std::vector<float> numbers(value.count);
  for (uint64_t i = 0; i < value.count; ++i) numbers[i] = LoadAs<float>(value.data, i);
  return numbers;
}

}  // namespace hydrant
