// WorkerPool runs what would hold up an io thread (a large body to parse, a long prompt to tokenize, a chat template that takes its
// time) on threads of its own, and resumes the coroutine on its own executor. It is fair between tenants: each has a line, the
// lines take turns, and of each line one piece of work runs at a time.
//
// Thread: any; a short lock.
//
// Invariants
//  1. A tenant's work waits for its own and for at most one piece of each other tenant.
//  2. A tenant whose small bodies took long lately has them run here: what takes long is on an io thread once in kSlowUs at most.
#ifndef HYDRANT_SERVER_HTTP_WORKER_POOL_H_
#define HYDRANT_SERVER_HTTP_WORKER_POOL_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace hydrant {

class WorkerPool {
 public:
  explicit WorkerPool(int32_t threads) : threads_(static_cast<size_t>(threads)) {}
  ~WorkerPool() { Join(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // `work` may refer to the awaiting coroutine's frame, which stays until it is resumed. What it throws is rethrown there.
  boost::asio::awaitable<void> Run(int32_t tenant, std::function<void()> work);
  // The same, but where it is awaited when it is of a body so small that it is expected to take a millisecond or two.
  boost::asio::awaitable<void> RunHereIfSmall(size_t body_bytes, int32_t tenant, std::function<void()> work);
  // Waits for the end of all work; no more may come.
  void Join() { threads_.join(); }

 private:
  struct Line {
    std::deque<std::function<void()>> waiting;
    bool running = false;
    int64_t slow_until_us = 0;
  };

  void Post(int32_t tenant, std::function<void()> task);
  void RunOne();
  Line& Of(int32_t tenant);  // REQUIRES: mutex_ held
  void NoteTime(int32_t tenant, int64_t cpu_us);

  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<Line> lines_;   // by tenant
  std::deque<int32_t> turn_;  // tenants that have work waiting and none running; RunOne is posted once for each
  boost::asio::thread_pool threads_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_WORKER_POOL_H_
