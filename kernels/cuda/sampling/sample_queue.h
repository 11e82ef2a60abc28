// SampleQueue turns logits into ids on the device, and hands the results out later: what the host does in between, such as
// queueing the next step, the device does not wait for.
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_SAMPLING_SAMPLE_QUEUE_H_
#define HYDRANT_KERNELS_CUDA_SAMPLING_SAMPLE_QUEUE_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/sampling/sampling.h"
#include "kernels/device.h"

namespace hydrant::cuda {

class SampleQueue {
 public:
  SampleQueue(cudaStream_t stream, const StepBounds& bounds);
  SampleQueue(const SampleQueue&) = delete;
  SampleQueue& operator=(const SampleQueue&) = delete;
  // Device memory that the queue takes.
  static int64_t Bytes(const StepBounds& bounds);

  // Device::Sample and Device::AwaitSample. Sample waits where more launches are on their way than two steps of generated tokens
  // have, and for results with more than kTopsMax of the best tokens.
  uint64_t Sample(const Matrix& logits, std::span<const SampleRequest> requests, std::span<SampleResult> results);
  void Await(uint64_t number);

  // [rows_max], by state row: the id last sampled, in device memory.
  const int32_t* sampled_ids() const { return static_cast<const int32_t*>(sampled_ids_.data()); }
  // One of them.
  int32_t* sampled_id(int32_t state_row) { return static_cast<int32_t*>(sampled_ids_.data()) + state_row; }

 private:
  static constexpr int32_t kTopsMax = 32;  // of a row, through pinned memory

  // One launch of the kernel, from its call to its results.
  struct Launch {
    Launch();

    Event done;
    PinnedBuffer outcomes;                    // [kSampleRows]
    PinnedBuffer tops;                        // [kSampleRows, kTopsMax]
    std::vector<std::vector<TopToken>> many;  // by row, of those who asked for more
    std::vector<int32_t> wanted;              // by row: tops; -1: no log-probabilities
    std::span<SampleResult> results = {};     // the caller's
    uint64_t number = 0;
  };
  Launch& At(uint64_t launch) { return *launches_[launch % launches_.size()]; }
  void Queue(const Matrix& logits, std::span<const SampleRequest> requests, std::span<SampleResult> results);
  void QueueTops(Launch& launch, int32_t row, int64_t vocab);
  void Collect(Launch& launch);

  cudaStream_t stream_;
  const int64_t vocab_;
  Uploads uploads_;
  CudaBuffer tops_;     // [kSampleRows, vocab] of TopToken
  CudaBuffer scratch_;  // of a launch
  bool scratch_ready_ = false;
  CudaBuffer outcomes_;                            // [kSampleRows]
  CudaBuffer sampled_ids_;                         // [rows_max]
  std::vector<std::unique_ptr<Launch>> launches_;  // in turn
  uint64_t queued_ = 0;                            // launches
  uint64_t collected_ = 0;                         // of these
  uint64_t calls_ = 0;
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_SAMPLING_SAMPLE_QUEUE_H_
