#include "tests/scheduler/counting_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
// Relaxed: the tests that read it have one thread.
std::atomic<uint64_t> allocations{0};
}  // namespace

namespace hydrant {
uint64_t AllocationCount() { return allocations.load(std::memory_order_relaxed); }
}  // namespace hydrant

void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
