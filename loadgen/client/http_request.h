// The bytes of a request.
//
// Thread: any (pure function).
#ifndef HYDRANT_LOADGEN_CLIENT_HTTP_REQUEST_H_
#define HYDRANT_LOADGEN_CLIENT_HTTP_REQUEST_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadgen/client/url.h"

namespace hydrant {

using HttpFields = std::vector<std::pair<std::string, std::string>>;

// `path` is put after the URL's own. A bearer token unless `key` is empty; no body: GET. REQUIRES: no line ends in the
// fields.
std::string HttpRequest(const Url& url, std::string_view path, std::string_view key, const HttpFields& fields,
                        std::string_view body);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_CLIENT_HTTP_REQUEST_H_
