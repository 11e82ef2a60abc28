// What every product does with the sums of a panel, for kernel families (kernels/cpu/kernel_table.h), and what it does while
// it adds them up: pulling the weights that come next.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_LINEAR_EPILOGUE_H_
#define HYDRANT_KERNELS_CPU_LINEAR_LINEAR_EPILOGUE_H_

#include "kernels/cpu/linear/linear_kernels.h"
#include "kernels/cpu/runtime/activation.h"
#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {

// Weights to pull into the second-level cache while a tile is being worked on: the memory then streams through all the
// tiles of a panel, not just through the first, and across the 4 KiB borders at which the hardware prefetcher stops. On a
// Zen 4 core this took 16 rows from 73 to 92 % of the bf16 peak and a single row from 24 to 35 GB/s; pulling into the first
// level instead lost 20 %.
struct Ahead {
  const char* next;
  int64_t stride;  // bytes per step
};

// One row of one panel: 32 sums -> y, of which `outputs` columns exist.
[[maybe_unused]] static void Finish(const LinearCall& call, const float* sums, const float* bias, float* y,
                                    int64_t outputs) {
  F32x16 first = Load(sums);
  F32x16 second = Load(sums + kLanes);
  if (bias != nullptr) {
    first = first + Load(bias);
    second = second + Load(bias + kLanes);
  }
  if (call.epilogue == Epilogue::kGate) {
    StoreN(y, ApplyActivation(call.activation, first) * second, outputs);
    return;
  }
  if (call.epilogue == Epilogue::kActivate) {
    first = ApplyActivation(call.activation, first);
    second = ApplyActivation(call.activation, second);
  }
  const int64_t in_first = outputs < kLanes ? outputs : kLanes;
  const int64_t in_second = outputs - in_first;
  if (call.epilogue == Epilogue::kAccumulate) {
    first = LoadN(y, in_first) + first;
    second = LoadN(y + kLanes, in_second) + second;
  }
  StoreN(y, first, in_first);
  StoreN(y + kLanes, second, in_second);
}

}  // namespace hydrant::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_LINEAR_LINEAR_EPILOGUE_H_
