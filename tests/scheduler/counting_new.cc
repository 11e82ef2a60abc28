#include "tests/scheduler/counting_new.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
// Relaxed: the tests that read it have one thread.
std::atomic<uint64_t> allocations{0};
std::atomic<int64_t> allocated_bytes{0};

void Free(void* memory) {
  allocated_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}
}  // namespace

namespace hydrant {
uint64_t AllocationCount() { return allocations.load(std::memory_order_relaxed); }
int64_t AllocatedBytes() { return allocated_bytes.load(std::memory_order_relaxed); }
}  // namespace hydrant

void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  allocated_bytes.fetch_add(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  return memory;
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
