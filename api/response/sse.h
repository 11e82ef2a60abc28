// Server-sent events as OpenAI's clients read them: every event is exactly `data: <one line>` and a blank line. No
// event names or ids, and comments only where a stream would be cut without them: some clients crash on them.
//
// Thread: any (pure functions).
#ifndef HYDRANT_API_RESPONSE_SSE_H_
#define HYDRANT_API_RESPONSE_SSE_H_

#include <string>
#include <string_view>

#include "api/wire/api_error.h"

namespace hydrant {

inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";
// What an event begins with, for those that write its line straight into a buffer; it ends with a blank line.
inline constexpr std::string_view kSseData = "data: ";
// A comment, which clients pass over: what a stream says that has begun and had nothing to say for Limits::stream_quiet_s.
inline constexpr std::string_view kSseComment = ": still here\n\n";
// The last event of every stream, also after an error.
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// REQUIRES: `line` has no CR or LF.
void AppendSseEvent(std::string* out, std::string_view line);
// data: {"error":{…}}; the caller sends kSseDone after it.
void AppendSseError(std::string* out, const ApiError& error);

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_SSE_H_
