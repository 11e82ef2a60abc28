// The server that tests of request readers speak to.
#ifndef HYDRANT_TESTS_API_REQUEST_SMALL_CONTEXT_H_
#define HYDRANT_TESTS_API_REQUEST_SMALL_CONTEXT_H_

#include <cstdint>

#include "api/request/request_context.h"

namespace hydrant {

inline RequestContext SmallContext(int32_t context = 512) {
  RequestContext small;
  small.model_names = {"smol"};
  small.vocab_size = 100;
  small.context = context;
  return small;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_API_REQUEST_SMALL_CONTEXT_H_
