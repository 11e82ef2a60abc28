// The one monotonic clock of the server.
#ifndef HYDRANT_SERVER_PROCESS_CLOCK_H_
#define HYDRANT_SERVER_PROCESS_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace hydrant {

inline int64_t MonotonicUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_CLOCK_H_
