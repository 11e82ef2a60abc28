// GET /v1/sessions; GET and DELETE /v1/sessions/{id}; GET /v1/sessions/{id}/kv; GET and PUT /v1/sessions/{id}/state: of the caller's
// tenant, which alone can tell that they are there. The operator has them, without the second last, below /admin/sessions, of the
// tenant that `tenant` names.
//
// Thread: built once; handlers run on any strand.
#ifndef HYDRANT_SERVER_FRONTEND_SESSION_ROUTES_H_
#define HYDRANT_SERVER_FRONTEND_SESSION_ROUTES_H_

#include <vector>

#include "server/frontend/admission_control.h"
#include "server/frontend/session_transfer.h"
#include "server/http/listener_context.h"
#include "server/live_view/kv_inspector.h"
#include "server/sessions/session_store.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {

// Both outlive the routes.
struct SessionRouteSources {
  SessionStore& sessions;
  const SessionTransfer& transfer;
};

// The arguments outlive the routes.
void AddSessionRoutes(const SessionRouteSources& sources, AdmissionControl& admission, KvInspector& inspector,
                      std::vector<HttpRoute>* routes);
void AddAdminSessionRoutes(const SessionRouteSources& sources, AdmissionControl& admission, TenantRegistry& tenants,
                           std::vector<HttpRoute>* routes);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_SESSION_ROUTES_H_
