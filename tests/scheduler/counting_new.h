// Linking counting_new.cc replaces the program's operator new by one that counts.
#ifndef HYDRANT_TESTS_SCHEDULER_COUNTING_NEW_H_
#define HYDRANT_TESTS_SCHEDULER_COUNTING_NEW_H_

#include <cstdint>

namespace hydrant {

uint64_t AllocationCount();
// How much is allocated and not given back.
int64_t AllocatedBytes();

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SCHEDULER_COUNTING_NEW_H_
