// The clocks of the server.
#ifndef HYDRANT_SERVER_PROCESS_CLOCK_H_
#define HYDRANT_SERVER_PROCESS_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <ctime>

namespace hydrant {

inline int64_t MonotonicUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// When this process began to serve or to load, Unix time: what the first call found.
inline int64_t ProcessStartS() {
  static const int64_t start_s = std::time(nullptr);
  return start_s;
}

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_CLOCK_H_
