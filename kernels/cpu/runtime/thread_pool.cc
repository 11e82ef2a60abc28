#include "kernels/cpu/runtime/thread_pool.h"

#include <emmintrin.h>
#include <pthread.h>

#include <cassert>
#include <thread>
#include <utility>

namespace hydrant {
namespace {

// `pause` takes 40–140 cycles, so this is 30–150 us: longer than the gap between two ops of a step and between two
// steps of a busy engine, short enough not to matter when the engine goes idle.
constexpr int kSpinCount = 4000;
// Who is waited for may be waiting for this very processor, where others have the rest of the machine. After so many spins it is
// offered, again and again; a processor that nobody wants is back within a microsecond.
constexpr int kSpinsAlone = 64, kSpinsBetweenYields = 16;

}  // namespace

void WaitableCounter::Advance() {
  // Sequentially consistent, as are the two accesses in WaitWhile: either this thread sees the sleeper, or the sleeper
  // sees the new value. It also releases everything written before.
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  // With the lock taken once, a sleeper is either before its check of value_ or already waiting.
  { std::lock_guard<std::mutex> lock(mutex_); }
  changed_.notify_all();
}

void WaitableCounter::WaitWhile(uint32_t old) {
  for (int spin = 0; spin < kSpinCount; ++spin) {
    // Acquire pairs with the release in Advance.
    if (value_.load(std::memory_order_acquire) != old) return;
    _mm_pause();
    if (spin >= kSpinsAlone && spin % kSpinsBetweenYields == 0) std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  changed_.wait(lock, [&] { return value_.load(std::memory_order_seq_cst) != old; });
  // Relaxed: an overestimate costs a needless notify only.
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  assert(threads >= 1);
  for (int thread = 1; thread < threads_; ++thread) {
    workers_.emplace_back([this, thread] {
      pthread_setname_np(pthread_self(), "compute");
      WorkerLoop(thread);
    });
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  start_.Advance();
  for (std::thread& worker : workers_) worker.join();
}

ThreadPool::Range ThreadPool::Part(int64_t count, int64_t grain, int thread) const {
  const int64_t grains = (count + grain - 1) / grain;
  const int64_t begin = grains * thread / threads_ * grain;
  const int64_t end = grains * (thread + 1) / threads_ * grain;
  return {begin < count ? begin : count, end < count ? end : count};
}

void ThreadPool::RunRaw(RawFunction function, void* context) {
  if (threads_ == 1) {
    function(context, 0);
    return;
  }
  function_ = function;
  context_ = context;
  const uint32_t done = done_.value();
  // Relaxed: Advance releases it to the workers.
  running_.store(threads_ - 1, std::memory_order_relaxed);
  start_.Advance();
  Call(function, context, 0);
  done_.WaitWhile(done);
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::Call(RawFunction function, void* context, int thread) {
  try {
    function(context, thread);
  } catch (...) {
    const std::lock_guard<std::mutex> lock(error_mutex_);
    if (error_ == nullptr) error_ = std::current_exception();
  }
}

void ThreadPool::WorkerLoop(int thread) {
  // The first function is number 0: a worker that starts late must not skip it.
  for (uint32_t started = 0;; ++started) {
    start_.WaitWhile(started);
    if (stop_) return;
    Call(function_, context_, thread);
    // Acquire-release: the last worker hands over what all of them wrote.
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.Advance();
  }
}

void ThreadPool::Barrier() {
  if (threads_ == 1) return;
  const uint32_t generation = barrier_.value();
  // Acquire-release: the last to arrive hands over what all of them wrote.
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
    // Relaxed: nobody arrives again before the counter advances.
    arrived_.store(0, std::memory_order_relaxed);
    barrier_.Advance();
    return;
  }
  barrier_.WaitWhile(generation);
}

}  // namespace hydrant
