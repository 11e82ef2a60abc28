// Inbox is the one way into the engine thread: a bounded queue of many writers and one reader.
//
// Thread: TryPush, PushCancels, PushResume, PushCall, Close and has_news any; Drain, WaitAndDrain and WaitAndDrainFor engine.
//
// Calls are orders (other tenants, a pause, a session that is done with): the reader runs them before the items of the same
// batch, so that an item finds what was ordered before it was pushed.
//
// Cancels and resumes are not bounded by the capacity, so that giving memory back never fails. Their number is bounded
// by the work that was accepted: a request is cancelled by its client and by the operator at most once each, and resumed
// once per time it was paused. Who cancels brings the list node, which may have been made long before: it takes no memory.
#ifndef HYDRANT_SERVER_ENGINE_INBOX_H_
#define HYDRANT_SERVER_ENGINE_INBOX_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "server/engine/engine_types.h"

namespace hydrant {

template <typename Item>
class Inbox {
 public:
  struct Batch {
    std::vector<Item> items;
    std::list<IdRange> cancels;
    std::vector<IdRange> resumes;
    std::vector<std::function<void()>> calls;
    bool closed = false;

    bool empty() const { return items.empty() && cancels.empty() && resumes.empty() && calls.empty() && !closed; }
  };

  explicit Inbox(size_t capacity) : capacity_(capacity) {}

  // False: full or closed; `item` is untouched then.
  bool TryPush(Item&& item) {
    return Put([&] {
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
      return true;
    });
  }

  void PushCancels(std::list<IdRange> ids) noexcept {
    Put([&] {
      cancels_.splice(cancels_.end(), ids);
      return true;
    });
  }

  void PushResume(IdRange ids) {
    Put([&] {
      resumes_.push_back(ids);
      return true;
    });
  }

  // Dropped when closed.
  void PushCall(std::function<void()> call) {
    Put([&] {
      if (!closed_) calls_.push_back(std::move(call));
      return !closed_;
    });
  }

  // Nothing is accepted any more; the reader is woken.
  void Close() {
    Put([&] { return closed_ = true; });
  }

  // True while there is something that was not taken: for the reader, who looks up from long work.
  const std::atomic<bool>& has_news() const { return has_news_; }

  // Takes everything; the batch's old content is dropped and its memory used again.
  void Drain(Batch* batch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    TakeAll(batch);
  }

  // The same, after waiting until there is something or the inbox is closed.
  void WaitAndDrain(Batch* batch) {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_.wait(lock, [this] { return HasAny(); });
    TakeAll(batch);
  }

  // The same, but after `us` microseconds also with nothing.
  void WaitAndDrainFor(Batch* batch, int64_t us) {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_.wait_for(lock, std::chrono::microseconds(us), [this] { return HasAny(); });
    TakeAll(batch);
  }

 private:
  // Tells the reader, if `put`, which is called with the lock held, says that there is something new. Returns what it says.
  template <typename Function>
  bool Put(Function put) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!put()) return false;
      has_news_.store(true, std::memory_order_relaxed);
    }
    arrived_.notify_one();
    return true;
  }

  // REQUIRES: mutex_ held.
  bool HasAny() const {
    return closed_ || !items_.empty() || !cancels_.empty() || !resumes_.empty() || !calls_.empty();
  }

  // REQUIRES: mutex_ held.
  void TakeAll(Batch* batch) {
    batch->items.clear();
    batch->cancels.clear();
    batch->resumes.clear();
    batch->calls.clear();
    std::swap(batch->items, items_);
    std::swap(batch->cancels, cancels_);
    std::swap(batch->resumes, resumes_);
    std::swap(batch->calls, calls_);
    batch->closed = closed_;
    has_news_.store(false, std::memory_order_relaxed);
  }

  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  // Guarded by mutex_.
  std::vector<Item> items_;
  std::list<IdRange> cancels_;
  std::vector<IdRange> resumes_;
  std::vector<std::function<void()>> calls_;
  bool closed_ = false;

  // Written under mutex_.
  std::atomic<bool> has_news_{false};
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_INBOX_H_
