// The body of GET /openapi.json: the endpoints as the table of routes has them, and what their bodies may hold as the readers ask
// for it. Nothing of it is written by hand but the sentences.
//
// Thread: any (pure function).
#ifndef HYDRANT_SERVER_FRONTEND_OPENAPI_H_
#define HYDRANT_SERVER_FRONTEND_OPENAPI_H_

#include <string>
#include <string_view>
#include <vector>

#include "api/request/request_context.h"
#include "server/http/listener_context.h"

namespace hydrant {

// OpenAPI 3.1. Routes of the live view are left out: they are no API.
std::string OpenApiJson(const std::vector<HttpRoute>& routes, const RequestContext& context, std::string_view version);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_OPENAPI_H_
