// MaskPool computes masks on threads of its own, first come first served.
//
// Thread: Run on the engine's; made and destroyed by whoever owns it, without an engine that still waits for a mask.
//
// Bound: a step waits for the masks of its rows, so the queue has at most those of one step's rows, and abandoned ones before
// them, which take no time.
#ifndef HYDRANT_SERVER_ENGINE_MASK_POOL_H_
#define HYDRANT_SERVER_ENGINE_MASK_POOL_H_

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "server/engine/answer_mask.h"

namespace hydrant {

class MaskPool : public MaskRunner {
 public:
  // At least one, and of a large machine no more than four: a mask takes microseconds, and a step milliseconds.
  static int32_t WorkersFor(int32_t cores);

  explicit MaskPool(int32_t workers);  // > 0
  ~MaskPool() override;

  void Run(std::span<const std::shared_ptr<AnswerMask>> masks) noexcept override;

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable wakes_;
  std::deque<std::shared_ptr<AnswerMask>> queue_;  // guarded by mutex_
  bool closed_ = false;                            // guarded by mutex_
  std::vector<std::thread> workers_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_MASK_POOL_H_
