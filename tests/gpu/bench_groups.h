// The groups of lines in kernel_bench's table, at the shapes of an 8B Llama or, for Bench::small, at such as a test has time for.
#ifndef HYDRANT_TESTS_GPU_BENCH_GROUPS_H_
#define HYDRANT_TESTS_GPU_BENCH_GROUPS_H_

#include "tests/gpu/bench.h"

namespace hydrant::cuda {

void BenchProducts(Bench& bench);   // of one to 2,048 rows
void BenchPacked(Bench& bench);     // with weights as they are stored
void BenchRows(Bench& bench);       // embedding, norms, what stands between products
void BenchAttention(Bench& bench);  // rotation and writes, generated tokens, prompts
void BenchCaches(Bench& bench);     // cuts, losses, score blocks, copies, parking
void BenchSampling(Bench& bench);

}  // namespace hydrant::cuda

#endif  // HYDRANT_TESTS_GPU_BENCH_GROUPS_H_
