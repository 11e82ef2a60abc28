#include "tests/support/peak_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

// Relaxed: sums on their own, read by the thread whose allocations matter.
std::atomic<int64_t> in_use{0};
std::atomic<int64_t> peak{0};

}  // namespace

namespace hydrant {

PeakMemory::PeakMemory() : before_(in_use.load(std::memory_order_relaxed)) {
  peak.store(before_, std::memory_order_relaxed);
}

int64_t PeakMemory::bytes() const { return peak.load(std::memory_order_relaxed) - before_; }

}  // namespace hydrant

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) return nullptr;
  const auto size = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t now = in_use.fetch_add(size, std::memory_order_relaxed) + size;
  int64_t highest = peak.load(std::memory_order_relaxed);
  while (now > highest && !peak.compare_exchange_weak(highest, now, std::memory_order_relaxed)) {
  }
  return memory;
}

void* operator new(size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  in_use.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
