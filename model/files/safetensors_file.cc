#include "model/files/safetensors_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "model/files/file_error.h"
#include "model/files/json_document.h"

namespace hydrant {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is read as it lies in memory");

constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit
// A tensor takes 10 values and keys: room for 100,000 of them.
constexpr JsonLimits kHeaderLimits{1'000'000, 8};
constexpr size_t kRankMax = 8;

struct Dtype {
  std::string_view name;
  int64_t bytes;
  std::optional<WeightFormat> stored;
};
constexpr Dtype kDtypes[] = {
    {"F32", 4, WeightFormat::kF32},
    {"F16", 2, WeightFormat::kF16},
    {"BF16", 2, WeightFormat::kBF16},
    {"F64", 8, {}},
    {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},
    {"I64", 8, {}},
    {"I32", 4, {}},
    {"I16", 2, {}},
    {"I8", 1, {}},
    {"U64", 8, {}},
    {"U32", 4, {}},
    {"U16", 2, {}},
    {"U8", 1, {}},
    {"BOOL", 1, {}},
};

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

// One entry of the header.
absl::StatusOr<RawTensor> ParseTensor(std::string_view name, const JsonValue& entry, std::string_view data,
                                      const std::string& file) {
  RawTensor tensor;
  tensor.file = file;
  tensor.name = std::string(name);
  const std::string what = "tensor " + Quoted(name);
  HYDRANT_ASSIGN_OR_RETURN(const JsonValue dtype_field, entry.At("dtype"));
  HYDRANT_ASSIGN_OR_RETURN(const std::string_view dtype_name, dtype_field.String());
  const auto* dtype =
      std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const Dtype& d) { return d.name == dtype_name; });
  if (dtype == std::end(kDtypes)) return FileError(file, what, "dtype ", Quoted(dtype_name), " is not known");
  tensor.format = dtype->stored.value_or(WeightFormat::kF32);
  if (!dtype->stored) tensor.refused_type = dtype->name;

  HYDRANT_ASSIGN_OR_RETURN(const JsonValue shape, entry.At("shape"));
  if (!shape.IsArray() || shape.size() > kRankMax)
    return FileError(file, what, "shape is not an array of at most ", kRankMax, " sizes");
  int64_t bytes = dtype->bytes;
  for (size_t d = 0; d < shape.size(); ++d) {
    HYDRANT_ASSIGN_OR_RETURN(const int64_t extent, shape[d].Int(0, kInt64Max));
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return FileError(file, what, "its shape has too many elements");
    tensor.shape.push_back(extent);
  }
  // A scalar: one element, as the vector it is read as.
  if (tensor.shape.empty()) tensor.shape.push_back(1);

  HYDRANT_ASSIGN_OR_RETURN(const JsonValue offsets, entry.At("data_offsets"));
  if (!offsets.IsArray() || offsets.size() != 2)
    return FileError(file, what, "data_offsets is not an array of two numbers");
  HYDRANT_ASSIGN_OR_RETURN(const int64_t begin, offsets[0].Int(0, kInt64Max));
  HYDRANT_ASSIGN_OR_RETURN(const int64_t end, offsets[1].Int(0, kInt64Max));
  if (begin > end || static_cast<uint64_t>(end) > data.size()) {
    return FileError(file, what, "data_offsets [", begin, ", ", end, "] are not inside the ", data.size(),
                     " bytes of data");
  }
  if (end - begin != bytes) {
    return FileError(file, what, "data_offsets span ", end - begin, " bytes; its dtype and shape take ", bytes);
  }
  tensor.data = data.substr(static_cast<size_t>(begin), static_cast<size_t>(bytes));
  return tensor;
}

absl::Status CheckMetadata(const JsonValue& metadata) {
  return metadata.ForEachMember([](std::string_view, const JsonValue& value) { return value.String().status(); });
}

absl::Status CheckContiguous(const std::vector<RawTensor>& tensors, std::string_view data, const std::string& file) {
  std::vector<const RawTensor*> order;
  order.reserve(tensors.size());
  for (const RawTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const RawTensor* a, const RawTensor* b) {
    return std::pair(a->data.data(), a->data.size()) < std::pair(b->data.data(), b->data.size());
  });
  const char* at = data.data();
  for (const RawTensor* tensor : order) {
    if (tensor->data.data() != at) {
      return FileError(file, "tensor " + Quoted(tensor->name),
                       "data_offsets overlap another tensor or leave a gap before it");
    }
    at += tensor->data.size();
  }
  if (at != data.data() + data.size()) {
    return FileError(file, "", "its tensors end ", data.data() + data.size() - at, " bytes before the file does");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<RawTensor>> ParseSafetensors(std::string_view bytes, const std::string& name) {
  if (bytes.size() < 8)
    return FileError(name, "header length", "the file has ", bytes.size(), " bytes; the length alone takes 8");
  uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > kHeaderBytesMax) {
    return FileError(name, "header length", header_bytes, " bytes; at most ", kHeaderBytesMax, " are allowed");
  }
  if (header_bytes > bytes.size() - 8) {
    return FileError(name, "header length", header_bytes, " bytes pass the end of the file");
  }
  const std::string_view text = bytes.substr(8, header_bytes), data = bytes.substr(8 + header_bytes);
  HYDRANT_ASSIGN_OR_RETURN(const JsonDocument header, JsonDocument::Parse(text, kHeaderLimits, name));
  std::vector<RawTensor> tensors;
  HYDRANT_RETURN_IF_ERROR(
      header.root().ForEachMember([&](std::string_view key, const JsonValue& entry) -> absl::Status {
        if (key == "__metadata__")
          return header.root().Find(key) ? CheckMetadata(entry) : absl::OkStatus();  // may be null
        HYDRANT_ASSIGN_OR_RETURN(RawTensor tensor, ParseTensor(key, entry, data, name));
        tensors.push_back(std::move(tensor));
        return absl::OkStatus();
      }));
  // The safetensors library passes over white space here. The format's description does not allow it, so that whoever looks
  // at byte 8 can tell such a file from others; a writer that pads does so after the header.
  if (text.front() != '{') return FileError(name, "header", "begins with white space and not with '{'");
  HYDRANT_RETURN_IF_ERROR(CheckContiguous(tensors, data, name));
  return tensors;
}

}  // namespace hydrant
