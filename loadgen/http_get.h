// One GET, waited for: what a load generator asks of a server before it starts.
//
// Thread: any (blocks).
#ifndef HYDRANT_LOADGEN_HTTP_GET_H_
#define HYDRANT_LOADGEN_HTTP_GET_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "loadgen/connection.h"
#include "loadgen/http_request.h"

namespace hydrant {

// The body of a 200, at most 64 MiB. Errors: UNAVAILABLE (no connection), FAILED_PRECONDITION (another status),
// DEADLINE_EXCEEDED, DATA_LOSS (not HTTP); one line.
absl::StatusOr<std::string> HttpGet(Peer* peer, std::string_view path, std::string_view key, const HttpFields& fields,
                                    double timeout_s);

// The id of the first model of GET /v1/models; errors as above, or DATA_LOSS where there is none.
absl::StatusOr<std::string> FirstModel(Peer* peer, std::string_view key, const HttpFields& fields, double timeout_s);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_HTTP_GET_H_
