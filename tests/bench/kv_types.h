// The types of cached keys and values by name, for the benches' flags.
#ifndef HYDRANT_TESTS_BENCH_KV_TYPES_H_
#define HYDRANT_TESTS_BENCH_KV_TYPES_H_

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "kernels/types.h"

namespace hydrant {

inline std::map<std::string, KvType> KvTypesByName() {
  std::map<std::string, KvType> types;
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kInt8}) types[KvTypeName(type)] = type;
  return types;
}

// Checks and reads the name of one. CLI::CheckedTransformer would print the values too, which are bytes.
inline CLI::Validator ReadsKvType() {
  std::string names;
  for (const auto& [name, type] : KvTypesByName()) names += (names.empty() ? "" : ", ") + name;
  const auto read = [names](std::string& text) -> std::string {
    const std::map<std::string, KvType> types = KvTypesByName();
    const auto found = types.find(text);
    if (found == types.end()) return text + " is none of " + names;
    text = std::to_string(static_cast<int>(found->second));
    return "";
  };
  return CLI::Validator(read, "{" + names + "}");
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_BENCH_KV_TYPES_H_
