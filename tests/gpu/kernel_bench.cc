// Times the kernels of kernels/cuda at the shapes of an 8B Llama against what the device can do (bench.h). Every line's result is compared
// with the oracle at some places in the same run; cuda_device_gpu_test and cuda_kv_gpu_test compare everything. Needs nothing but
// the CUDA toolkit. Prints a table; kernel_bench [--small] [FILE] writes the same to FILE as JSON.
#include <cstdio>
#include <cstring>
#include <exception>

#include "tests/gpu/bench.h"
#include "tests/gpu/bench_groups.h"

namespace hydrant::cuda {
namespace {

int Run(bool small, const char* json) {
  Bench bench(small);
  for (const auto& group : {BenchProducts, BenchPacked, BenchAttention, BenchRows, BenchCaches, BenchSampling}) {
    group(bench);
    // What was measured is kept even if the time is up before the end.
    if (json != nullptr) bench.WriteJson(json);
  }
  if (!bench.correct()) std::printf("\nresults are WRONG\n");
  return bench.correct() ? 0 : 1;
}

}  // namespace
}  // namespace hydrant::cuda

int main(int argc, char** argv) {
  const bool small = argc > 1 && std::strcmp(argv[1], "--small") == 0;
  try {
    return hydrant::cuda::Run(small, argc > 1 + small ? argv[1 + small] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_bench: %s\n", error.what());
    return 1;
  }
}
