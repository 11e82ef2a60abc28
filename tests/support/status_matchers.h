// RefusedWith(a, b, …): the status is an error of one line that contains every part.
#ifndef HYDRANT_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define HYDRANT_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hydrant {

inline absl::Status StatusOf(const absl::Status& status) { return status; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER_P(RefusedWithParts, parts, "is refused in one line that contains " + testing::PrintToString(parts)) {
  const absl::Status status = StatusOf(arg);
  const std::string message(status.message());
  *result_listener << (status.ok() ? "was accepted" : message);
  if (status.ok() || message.find('\n') != message.npos) return false;
  for (const std::string& part : parts) {
    if (message.find(part) == message.npos) return false;
  }
  return true;
}

template <typename... Parts>
auto RefusedWith(const Parts&... parts) {
  return RefusedWithParts(std::vector<std::string>{parts...});
}

MATCHER(IsOk, "is OK") {
  const absl::Status status = StatusOf(arg);
  *result_listener << std::string(status.message());
  return status.ok();
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SUPPORT_STATUS_MATCHERS_H_
