// The names that clients may give their requests: the field `request_id` and the header X-Request-Id. They stand in logs and
// response headers, so they are plain.
//
// Thread: any (a pure function).
#ifndef HYDRANT_API_WIRE_REQUEST_ID_H_
#define HYDRANT_API_WIRE_REQUEST_ID_H_

#include <cstddef>
#include <string_view>

namespace hydrant {

// True for 1..bytes_max characters of [A-Za-z0-9._:-].
bool IsRequestId(std::string_view text, size_t bytes_max);

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_REQUEST_ID_H_
