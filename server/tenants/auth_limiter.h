// AuthLimiter counts wrong keys per peer address, so that a client that tries keys is answered 429. It only changes the
// answer to a failure: a valid key always enters, so no client can lock out another one behind the same address.
//
// Thread: any. Time is an argument, monotonic microseconds.
#ifndef HYDRANT_SERVER_TENANTS_AUTH_LIMITER_H_
#define HYDRANT_SERVER_TENANTS_AUTH_LIMITER_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace hydrant {

class AuthLimiter {
 public:
  // More failures than this from one address within the window, and the rest of the window answers 429.
  static constexpr int32_t kFailuresMax = 20;
  static constexpr int64_t kWindowUs = 10'000'000;

  // Counts a failure of `peer`. 0: below the limit; else the seconds, rounded up, until its window ends.
  int32_t Fail(const std::string& peer, int64_t now_us);

 private:
  struct Window {
    int64_t began_us = 0;
    int32_t failures = 0;
  };
  void MakeRoom(int64_t now_us);

  std::mutex mutex_;
  absl::flat_hash_map<std::string, Window> windows_;  // guarded by mutex_; at most kPeersMax
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_TENANTS_AUTH_LIMITER_H_
