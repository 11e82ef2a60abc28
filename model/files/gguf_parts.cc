#include "model/files/gguf_parts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "model/files/file_error.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

constexpr const char* kNumber = "split.no";  // from 0
constexpr const char* kCount = "split.count";
constexpr const char* kTensors = "split.tensors.count";
constexpr int64_t kPartsMax = 1000;  // each is a mapping of its own; the largest published have some 100
constexpr int64_t kPartTensorsMax = 65536;

// What the name of part `number` of `count` ends with; `number` is from 1, as in the name.
std::string Ending(int64_t number, int64_t count) {
  std::array<char, 48> text;
  const int bytes = std::snprintf(text.data(), text.size(), "-%05lld-of-%05lld.gguf", static_cast<long long>(number),
                                  static_cast<long long>(count));
  return std::string(text.data(), static_cast<size_t>(bytes));
}

absl::StatusOr<int64_t> Said(const GgufFile& part, std::string_view key, int64_t max) {
  HYDRANT_ASSIGN_OR_RETURN(const auto value, part.Int(key, 0, max));
  if (!value) return FileError(part.name(), Quoted(key), "is missing");
  return *value;
}

// The path before the ending of a first part.
absl::StatusOr<std::string> StemOf(const std::string& path, const GgufFile& first, int64_t count) {
  HYDRANT_ASSIGN_OR_RETURN(const int64_t number, Said(first, kNumber, kPartsMax));
  if (number != 0) {
    return FileError(first.name(), Quoted(kNumber), "is part ", number + 1, " of ", count, "; name the first one");
  }
  const std::string ending = Ending(1, count);
  if (!path.ends_with(ending)) {
    return FileError(first.name(), Quoted(kCount), "is the first of ", count, " parts, so its name must end with ",
                     ending);
  }
  return path.substr(0, path.size() - ending.size());
}

}  // namespace

absl::StatusOr<GgufParts> GgufParts::Open(const std::string& path) {
  HYDRANT_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapped, MappedFile::Open(path));
  HYDRANT_ASSIGN_OR_RETURN(GgufFile first, GgufFile::Parse(mapped->bytes(), mapped->name()));
  HYDRANT_ASSIGN_OR_RETURN(const auto split, first.Int(kCount, 0, kPartsMax));
  const int64_t count = std::max<int64_t>(1, split.value_or(1));
  GgufParts parts(std::move(first));
  parts.files_.push_back(std::move(mapped));
  parts.tensors_ = parts.metadata_.tensors();
  if (count == 1) return parts;

  HYDRANT_ASSIGN_OR_RETURN(const std::string stem, StemOf(path, parts.metadata_, count));
  for (int64_t number = 2; number <= count; ++number) {
    HYDRANT_ASSIGN_OR_RETURN(mapped, MappedFile::Open(stem + Ending(number, count)));
    HYDRANT_ASSIGN_OR_RETURN(const GgufFile part, GgufFile::Parse(mapped->bytes(), mapped->name()));
    HYDRANT_ASSIGN_OR_RETURN(const int64_t said_number, Said(part, kNumber, kPartsMax));
    HYDRANT_ASSIGN_OR_RETURN(const int64_t said_count, Said(part, kCount, kPartsMax));
    if (said_number != number - 1 || said_count != count) {
      return FileError(part.name(), Quoted(kNumber), "says that it is part ", said_number + 1, " of ", said_count);
    }
    parts.tensors_.insert(parts.tensors_.end(), part.tensors().begin(), part.tensors().end());
    parts.files_.push_back(std::move(mapped));
  }

  HYDRANT_ASSIGN_OR_RETURN(const int64_t tensors, Said(parts.metadata_, kTensors, kPartTensorsMax));
  if (std::ssize(parts.tensors_) != tensors) {
    return FileError(parts.metadata_.name(), Quoted(kTensors), tensors, " differs from the ", parts.tensors_.size(),
                     " tensors of all parts");
  }
  absl::flat_hash_set<std::string_view> seen;
  for (const RawTensor& tensor : parts.tensors_) {
    if (!seen.insert(tensor.name).second) {
      return FileError(tensor.file, "tensor " + Quoted(tensor.name), "is in another part, too");
    }
  }
  return parts;
}

}  // namespace hydrant
