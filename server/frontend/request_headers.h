// What the header fields of a request say beside its body.
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_FRONTEND_REQUEST_HEADERS_H_
#define HYDRANT_SERVER_FRONTEND_REQUEST_HEADERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "api/request/request_context.h"
#include "server/http/http_message.h"

namespace hydrant {

// The session that a gateway's `value` names: itself where it is a session id, else "header_" and 32 hexadecimal digits of its SHA-256,
// the same on every server, so that a session that moves is found. REQUIRES: it is not empty.
std::string SessionIdOfHeader(std::string_view value);

// `session_headers`: names in lower case; the first that is there and not empty is SessionHeaders::listed. One of them is no longer what
// it is without being listed.
RequestHeaders ReadRequestHeaders(const HttpHead& head, const std::vector<std::string>& session_headers);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_REQUEST_HEADERS_H_
