// FieldLog collects which members the readers of a request ask for and what each may be, so that a description of the API is
// made by the readers themselves: a field that is read cannot be missing from it.
//
// Thread: any (belongs to one call).
#ifndef HYDRANT_API_WIRE_FIELD_LOG_H_
#define HYDRANT_API_WIRE_FIELD_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace hydrant {

enum class FieldKind : uint8_t {
  kAny,  // of several shapes, or of one that the reader checks by itself
  kBoolean,
  kInteger,
  kNumber,
  kString,
  kStrings,  // a string or an array of strings
  kTokenIds,
  kObject,
};

struct FieldNote {
  FieldKind kind = FieldKind::kAny;
  double min = 0, max = 0;  // of numbers, both included; of token ids the smallest and the largest
  bool min_open = false;    // the smallest is not included
  int64_t most = 0;         // bytes of a string, or of each, or elements of token ids; 0: no limit worth telling
};

class FieldLog {
 public:
  // `path`: "kv.budget". What is known of a field's kind outweighs kAny.
  void Add(std::string path, const FieldNote& note) {
    const auto [at, added] = fields_.try_emplace(std::move(path), note);
    if (!added && at->second.kind == FieldKind::kAny) at->second = note;
  }
  // By path.
  const std::map<std::string, FieldNote>& fields() const { return fields_; }

 private:
  std::map<std::string, FieldNote> fields_;
};

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_FIELD_LOG_H_
