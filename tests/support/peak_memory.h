// PeakMemory measures how far the heap grows above where it stood. Linking peak_memory.cc replaces the program's operator
// new by one that keeps the balance.
//
// Thread: measure with one thread at a time; other threads' allocations count too.
#ifndef HYDRANT_TESTS_SUPPORT_PEAK_MEMORY_H_
#define HYDRANT_TESTS_SUPPORT_PEAK_MEMORY_H_

#include <cstdint>

namespace hydrant {

class PeakMemory {
 public:
  PeakMemory();
  // The most bytes that were in use at once since construction, beyond those in use then.
  int64_t bytes() const;

 private:
  int64_t before_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SUPPORT_PEAK_MEMORY_H_
