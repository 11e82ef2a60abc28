// A connection or one GET, waited for: what a load generator asks of a server before it starts.
//
// Thread: any (blocks).
#ifndef HYDRANT_LOADGEN_CLIENT_HTTP_GET_H_
#define HYDRANT_LOADGEN_CLIENT_HTTP_GET_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "loadgen/client/connection.h"
#include "loadgen/client/http_request.h"

namespace hydrant {

// Whether a connection can be had, TLS included. Errors: UNAVAILABLE, DEADLINE_EXCEEDED; one line.
absl::Status TryConnection(Peer* peer, double timeout_s);

// The body of a 200, at most 64 MiB. Errors: UNAVAILABLE (no connection), PERMISSION_DENIED (401 and 403),
// FAILED_PRECONDITION (another status), DEADLINE_EXCEEDED, DATA_LOSS (not HTTP); one line.
absl::StatusOr<std::string> HttpGet(Peer* peer, std::string_view path, std::string_view key, const HttpFields& fields,
                                    double timeout_s);

// The id of the first model of GET /v1/models. Errors: as above, NOT_FOUND (an empty list), DATA_LOSS (no list of models).
absl::StatusOr<std::string> FirstModel(Peer* peer, std::string_view key, const HttpFields& fields, double timeout_s);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_CLIENT_HTTP_GET_H_
