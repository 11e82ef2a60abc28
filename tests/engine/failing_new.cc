#include "tests/engine/failing_new.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

// Relaxed: they order nothing.
constexpr int kNever = std::numeric_limits<int>::max();
std::atomic<int> countdown{kNever};
std::atomic<bool> counts{false};

// This thread's allocations that succeed, how many fail after them, and how many have.
thread_local int left = kNever;
thread_local int failing = 0;
thread_local int failures = 0;

bool FailsHere() {
  if (left == kNever || --left >= 0) return false;
  ++failures;
  if (--failing == 0) left = kNever;
  return true;
}

}  // namespace

namespace hydrant {

void FailNewAfter(int calls) { countdown.store(calls, std::memory_order_relaxed); }

bool NewFailed() { return countdown.exchange(kNever, std::memory_order_relaxed) < 0; }

void FailNewHere(int calls, int fails) {
  failing = fails;
  left = calls;
}

int NewFailedHere() { return failures; }

MemoryRunsOut::MemoryRunsOut() { counts.store(true, std::memory_order_relaxed); }
MemoryRunsOut::~MemoryRunsOut() { counts.store(false, std::memory_order_relaxed); }

}  // namespace hydrant

// This one, too: std::stable_sort asks it, and gives back by the others.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  const bool fails = counts.load(std::memory_order_relaxed) && countdown.fetch_sub(1, std::memory_order_relaxed) == 0;
  return fails || FailsHere() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
