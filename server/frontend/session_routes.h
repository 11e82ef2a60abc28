// GET /v1/sessions, GET and DELETE /v1/sessions/{id}, GET /v1/sessions/{id}/kv: of the caller's tenant, which alone can tell that they are there.
//
// Thread: built once; handlers run on any strand.
#ifndef HYDRANT_SERVER_FRONTEND_SESSION_ROUTES_H_
#define HYDRANT_SERVER_FRONTEND_SESSION_ROUTES_H_

#include <vector>

#include "server/http/listener_context.h"
#include "server/live_view/kv_inspector.h"
#include "server/sessions/session_store.h"

namespace hydrant {

// The arguments outlive the routes.
void AddSessionRoutes(SessionStore& sessions, KvInspector& inspector, std::vector<HttpRoute>* routes);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_SESSION_ROUTES_H_
