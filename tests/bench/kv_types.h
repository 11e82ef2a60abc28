// The types of cached keys and values by name, for the benches' flags.
#ifndef HYDRANT_TESTS_BENCH_KV_TYPES_H_
#define HYDRANT_TESTS_BENCH_KV_TYPES_H_

#include <map>
#include <string>

#include "kernels/types.h"

namespace hydrant {

inline std::map<std::string, KvType> KvTypesByName() {
  std::map<std::string, KvType> types;
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kInt8}) types[KvTypeName(type)] = type;
  return types;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_BENCH_KV_TYPES_H_
