// Times the kernels of kernels/cuda at the shapes of an 8B Llama against what the device can do (bench.h). Every line's result is compared
// with the oracle at some places in the same run; cuda_device_gpu_test and cuda_kv_gpu_test compare everything. Needs nothing but
// the CUDA toolkit. Prints a table; kernel_bench [--small] [--only GROUP[,GROUP…]] [FILE] writes the same to FILE as JSON. A group is
// one of those in bench_groups.h: products, packed, attention, rows, caches, sampling.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>

#include "tests/gpu/bench.h"
#include "tests/gpu/bench_groups.h"

namespace hydrant::cuda {
namespace {

struct Group {
  std::string_view name;
  void (*run)(Bench& bench);
};
constexpr Group kGroups[] = {{"products", BenchProducts}, {"packed", BenchPacked}, {"attention", BenchAttention},
                             {"rows", BenchRows},         {"caches", BenchCaches}, {"sampling", BenchSampling}};

// Whether `list`, of names between commas, has `name`.
bool Has(std::string_view list, std::string_view name) {
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    if (list.substr(at, end - at) == name) return true;
    at = end + 1;
  }
  return false;
}

int Run(bool small, const char* only, const char* json) {
  Bench bench(small);
  for (const Group& group : kGroups) {
    if (only != nullptr && !Has(only, group.name)) continue;
    group.run(bench);
    // What was measured is kept even if the time is up before the end.
    if (json != nullptr) bench.WriteJson(json);
  }
  if (!bench.correct()) std::printf("\nresults are WRONG\n");
  return bench.correct() ? 0 : 1;
}

}  // namespace
}  // namespace hydrant::cuda

int main(int argc, char** argv) {
  bool small = false;
  const char *only = nullptr, *json = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--small") == 0) {
      small = true;
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      only = argv[++i];
    } else {
      json = argv[i];
    }
  }
  try {
    return hydrant::cuda::Run(small, only, json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_bench: %s\n", error.what());
    return 1;
  }
}
