// What a logits row becomes on the device (kernels/sampling.h has the semantics). Draws and filters count weights as whole
// multiples of 2^-40 of the largest one, so that sums are exact in any order.
#ifndef HYDRANT_KERNELS_CUDA_SAMPLING_SAMPLING_H_
#define HYDRANT_KERNELS_CUDA_SAMPLING_SAMPLING_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/sampling.h"

namespace hydrant::cuda {

inline constexpr int64_t kSampleRows = 64;  // logits rows of one launch

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
  int32_t best;  // of the row as it was
  int32_t rank;
  bool finite;
  bool no_token;
};

struct TopToken {
  int32_t id;
  float logit;
};

// Bytes of the scratch memory of a launch. Zero before the first; each leaves what it needs zero.
size_t SampleScratchBytes(int64_t vocab);

// tasks [rows], at most kSampleRows: as they lie at `on_device`. tops [rows][vocab]: the best tokens by ascending id; also holds the
// adjusted rows. sampled_ids: by state row; read before it is written.
//
//   kernels  adjusted rows are written; a warp finds the best token of 128 logits, and the last block of a row its best; where weights
//            are asked for, a warp sums those of 128 logits; then a block per row draws and reports: it orders those tokens in
//            shared memory that are at least as good as the best of the 40th best group, say, where top_k is 40
//   grid     32 blocks of 256 threads a row of 128,256 logits, then one of 512
//   bound    bytes of the rows, from L2: once if greedy or with top_k, twice if weights are asked for. A row so flat that more than 4,096
//            tokens are in question is read some ten times more per filter
//   oracle   reference::Sample, same id unless its margin is below 1e-6
//   memory   96 registers, 41 KB; the first kernels 32, 128 bytes
//   rejected one block of 1,024 threads a row and a radix selection of eight passes: 35 us for the best token, 656 for top_k with
//            top_p of 64 rows (H100)
//   H100     26 November 2026, vocabulary of 128,256: best token of one row 4.7 us, of 64 rows 13; top_k 50 with top_p 0.9 16 and 27; of 64
//            rows a plain draw 32, a nucleus of some 900 tokens 232, one of 70,000 702, the best token with 20 log-probabilities 44
void LaunchSample(cudaStream_t stream, const float* logits, int64_t vocab, std::span<const SampleTask> tasks,
                  const SampleTask* on_device, SampleOutcome* outcomes, TopToken* tops, void* scratch,
                  int32_t* sampled_ids);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_SAMPLING_SAMPLING_H_
