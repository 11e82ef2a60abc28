// What this machine can do at best, memory bandwidth first: the denominators of every bench.
//
// Thread: any. Other load on the machine lowers the figures; measure them next to what is compared with them.
#ifndef HYDRANT_TESTS_BENCH_BANDWIDTH_H_
#define HYDRANT_TESTS_BENCH_BANDWIDTH_H_

#include "kernels/cpu/runtime/cpu_features.h"

namespace hydrant {

// Bytes per second that `threads` threads together read from memory (not from caches): the best of several passes over
// 512 MiB in huge pages.
double MeasureReadBandwidth(int threads);

// Operations per second of independent fp32 fused multiply-adds (an addition and a multiplication each) on the widest
// registers, all threads together.
double MeasurePeakF32(int threads);
// The same for vdpbf16ps; 0 without AVX512-BF16.
double MeasurePeakBf16(int threads);
// The same for products of bytes that are added up: vpdpbusd on 512 bits if `isa` has it, else vpmaddubsw and an addition on 256.
double MeasurePeakInt8(CpuIsa isa, int threads);

}  // namespace hydrant

#endif  // HYDRANT_TESTS_BENCH_BANDWIDTH_H_
