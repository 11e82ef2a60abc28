#include "loadgen/results/request_record.h"

namespace hydrant {

const char* RequestErrorName(RequestError error) {
  static constexpr const char* kNames[kRequestErrors] = {
      "none", "connect", "timeout", "http_429", "http_503", "http_other", "stream_error", "protocol", "cancelled"};
  return kNames[static_cast<size_t>(error)];
}

}  // namespace hydrant
