// The header `traceparent` of W3C Trace Context: the id under which a client's own tracing knows a request.
//
// Thread: any (a pure function).
#ifndef HYDRANT_API_WIRE_TRACE_CONTEXT_H_
#define HYDRANT_API_WIRE_TRACE_CONTEXT_H_

#include <optional>
#include <string_view>

namespace hydrant {

// The 32 lower-case hexadecimal digits of the trace id, a part of `traceparent`. Nothing for a field that the
// specification calls invalid, which a receiver must ignore: version ff, upper case, an id of zeros, a length that the
// version does not have. A version above 00 may add parts after another '-'; they are not looked at.
std::optional<std::string_view> TraceIdOf(std::string_view traceparent);

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_TRACE_CONTEXT_H_
