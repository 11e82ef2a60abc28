// ThreadPool runs one function on a fixed set of threads, the calling one included, and waits for all of them. Work is
// split statically: which thread computes a row never changes the row.
//
// Thread: every public method is called by the one owner thread, except Barrier(), which all threads of a Run() call.
//
// Invariants
//  1. A waiting thread spins for a short time (kSpinCount), offering its processor to others, then sleeps: an idle pool uses no CPU.
//  2. What the owner wrote before Run() is visible in the function; what the function wrote is visible after Run(),
//     and, across threads, after Barrier().
//  3. Run() allocates nothing and takes no lock unless somebody sleeps.
//  4. What the function throws in any thread Run() throws, the first of it, once all threads are done. A function that calls
//     Barrier() throws nothing: the others would wait for ever.
#ifndef HYDRANT_KERNELS_CPU_RUNTIME_THREAD_POOL_H_
#define HYDRANT_KERNELS_CPU_RUNTIME_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace hydrant {

// A counter one can wait on: spin first, sleep later.
class WaitableCounter {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  // Adds 1 and wakes whoever waits.
  void Advance();
  // Returns once value() != old.
  void WaitWhile(uint32_t old);

 private:
  // Own cache line: waiters poll it while the neighbours are written.
  alignas(64) std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

class ThreadPool {
 public:
  // REQUIRES threads >= 1; threads == 1 starts none.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls function(thread) once for every thread in [0, threads()), at the same time; 0 is the caller.
  template <typename Function>
  void Run(Function&& function) {
    using Plain = std::remove_reference_t<Function>;
    RunRaw([](void* context, int thread) { (*static_cast<Plain*>(context))(thread); },
           const_cast<void*>(static_cast<const void*>(&function)));
  }

  // Calls function(begin, end, thread) on contiguous, disjoint, non-empty parts that cover [0, count). Part borders are
  // multiples of `grain`. A single part runs on the caller without waking anybody.
  template <typename Function>
  void ParallelFor(int64_t count, int64_t grain, Function&& function) {
    if (count <= 0) return;
    if (threads_ == 1 || count <= grain) {
      function(int64_t{0}, count, 0);
      return;
    }
    Run([&](int thread) {
      const Range range = Part(count, grain, thread);
      if (range.begin < range.end) function(range.begin, range.end, thread);
    });
  }

  struct Range {
    int64_t begin;
    int64_t end;
  };
  // The part of [0, count) that ParallelFor gives to `thread`.
  Range Part(int64_t count, int64_t grain, int thread) const;

  // Inside Run(): returns when every thread of the pool has arrived.
  void Barrier();

 private:
  using RawFunction = void (*)(void* context, int thread);

  void RunRaw(RawFunction function, void* context);
  void Call(RawFunction function, void* context, int thread);
  void WorkerLoop(int thread);

  const int threads_;

  // Written by the owner before start_ advances, read by the workers after it.
  RawFunction function_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;

  WaitableCounter start_;    // advanced by the owner: a new function is there
  WaitableCounter done_;     // advanced by the last worker to finish
  WaitableCounter barrier_;  // advanced by the last thread to arrive
  alignas(64) std::atomic<int> running_{0};
  alignas(64) std::atomic<int> arrived_{0};

  std::mutex error_mutex_;
  std::exception_ptr error_;  // of the function that runs

  std::vector<std::thread> workers_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_RUNTIME_THREAD_POOL_H_
