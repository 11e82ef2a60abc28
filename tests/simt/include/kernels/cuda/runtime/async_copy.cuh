// kernels/cuda/runtime/async_copy.cuh for tests/simt: a copy is made when its thread waits for it, so that a kernel
// that forgets to wait finds what was there.
#ifndef HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_ASYNC_COPY_CUH_
#define HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_ASYNC_COPY_CUH_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "tests/simt/machine.h"

namespace hydrant::cuda {

struct AsyncCopy {
  void* to;
  const void* from;
  bool present;
};

struct AsyncCopies {
  std::vector<AsyncCopy> open;
  std::deque<std::vector<AsyncCopy>> groups;
};

// The copies of the running thread.
inline AsyncCopies& OwnCopies() {
  static auto& all = *new std::vector<AsyncCopies>(1024);
  return all[simt::place.thread.x];
}

inline void CopyAsync16(void* shared, const void* from, bool present) {
  assert(reinterpret_cast<uintptr_t>(shared) % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0);
  OwnCopies().open.push_back({shared, from, present});
}

inline void CommitCopies() {
  AsyncCopies& own = OwnCopies();
  own.groups.push_back(std::move(own.open));
  own.open.clear();
}

template <int kGroups>
void WaitForCopies() {
  AsyncCopies& own = OwnCopies();
  for (; own.groups.size() > kGroups; own.groups.pop_front()) {
    for (const AsyncCopy& copy : own.groups.front()) {
      if (copy.present) {
        std::memcpy(copy.to, copy.from, 16);
      } else {
        std::memset(copy.to, 0, 16);
      }
    }
  }
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_ASYNC_COPY_CUH_
