// What a logits row becomes on the device (kernels/sampling.h has the semantics). Draws and filters count weights as whole
// multiples of 2^-40 of the largest one, so that sums are exact in any order.
#ifndef HYDRANT_KERNELS_CUDA_SAMPLING_SAMPLING_H_
#define HYDRANT_KERNELS_CUDA_SAMPLING_SAMPLING_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/sampling.h"

namespace hydrant::cuda {

// SampleRequest as the kernel reads it; pointers are to device memory.
struct SampleTask {
  int32_t logits_row;
  int32_t scored_id;  // >= 0: is reported
  int32_t state_row;  // >= 0: the id is kept for it, or kNoNextId where it is one of `stop_ids`
  int32_t top;        // best tokens to report; -1: no log-probabilities at all
  bool rank;
  bool adjusts;
  SamplingParams params;
  double uniform;  // of the draw
  const int32_t* stop_ids;
  int32_t stop_count;
  // The adjustments:
  const int32_t* allowed;
  const int32_t* banned;
  const TokenBias* biases;
  const TokenCount* counts;
  int32_t allowed_count, banned_count, bias_count, count_count;
  float repetition, frequency, presence;
  bool counts_last;
  const uint32_t* allowed_bits;  // null: all
};

struct SampleOutcome {
  double log_total;  // logarithm of the sum of exp(logit - largest)
  float largest;     // of the row as it was
  float logit;       // of the token, in the row as it was
  int32_t id;
  int32_t rank;
  bool finite;
  bool no_token;
};

struct TopToken {
  int32_t id;
  float logit;
};

// tops [count][vocab]: the best tokens by ascending id; also the kernel's scratch memory. sampled_ids: by state row;
// read before it is written.
//
//   kernel   a block of threads per row; filters by radix selection, eight passes over a row that is in the L2 cache
//   grid     a block of 1,024 threads per row, of 128 where a row has up to 4,096 logits
//   bound    bytes of the rows, as often as they are read, from L2: once if greedy, once more to draw, eight or nine times more for
//            each filter and for the best tokens
//   oracle   reference::Sample, same id unless its margin is below 1e-6
//   memory   56 registers, 11.8 KB (nvcc 13.0, sm_90)
//   not yet measured on a device
void LaunchSample(cudaStream_t stream, const float* logits, int64_t vocab, const SampleTask* tasks, int32_t count,
                  SampleOutcome* outcomes, TopToken* tops, int32_t* sampled_ids);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_SAMPLING_SAMPLING_H_
