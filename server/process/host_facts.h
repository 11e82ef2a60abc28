// What this machine (or the container around us) has to offer.
//
// Thread: any.
#ifndef HYDRANT_SERVER_PROCESS_HOST_FACTS_H_
#define HYDRANT_SERVER_PROCESS_HOST_FACTS_H_

#include <cstdint>

namespace hydrant {

// Physical cores this process may run on, not above its cgroup's CPU quota; at least 1.
int32_t UsableCores();

// Memory that can be taken without swapping: MemAvailable, and not more than the cgroup still allows.
int64_t AvailableMemoryBytes();

// Raises the soft limit of open files to the hard one and returns it.
int64_t RaiseOpenFileLimit();

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_HOST_FACTS_H_
