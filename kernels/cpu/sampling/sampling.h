// One logits row becomes a token id and its log-probabilities; kernels/sampling.h defines the result.
//
// Thread: any one per request; scratch belongs to the call.
#ifndef HYDRANT_KERNELS_CPU_SAMPLING_SAMPLING_H_
#define HYDRANT_KERNELS_CPU_SAMPLING_SAMPLING_H_

#include <cstdint>
#include <span>

#include "kernels/cpu/sampling/sampling_kernels.h"
#include "kernels/cpu/sampling/sampling_scratch.h"
#include "kernels/sampling.h"

namespace hydrant {

// `last`: the id that LogitAdjustments::counts_last means; negative: none.
SampleResult SampleRow(const SamplingKernels& kernels, std::span<const float> logits, const SampleRequest& request,
                       int32_t last, const SamplingScratch& scratch);

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_SAMPLING_SAMPLING_H_
