#include "server/engine/mask_pool.h"

#include <pthread.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace hydrant {

int32_t MaskPool::WorkersFor(int32_t cores) { return std::clamp(cores / 2, 1, 4); }

MaskPool::MaskPool(int32_t workers) {
  assert(workers > 0);
  workers_.reserve(static_cast<size_t>(workers));
  for (int32_t i = 0; i < workers; ++i) {
    workers_.emplace_back([this] {
      pthread_setname_np(pthread_self(), "masks");
      Work();
    });
  }
}

MaskPool::~MaskPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  wakes_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void MaskPool::Run(std::span<const std::shared_ptr<AnswerMask>> masks) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::shared_ptr<AnswerMask>& mask : masks) {
      try {
        queue_.push_back(mask);
      } catch (const std::bad_alloc&) {
        mask->Refuse();
      }
    }
  }
  for (size_t i = 0; i < std::min(masks.size(), workers_.size()); ++i) wakes_.notify_one();
}

void MaskPool::Work() {
  for (;;) {
    std::shared_ptr<AnswerMask> mask;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wakes_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (closed_) return;
      mask = std::move(queue_.front());
      queue_.pop_front();
    }
    mask->Compute();
  }
}

}  // namespace hydrant
