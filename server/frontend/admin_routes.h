// What an operator may ask of a running server: the table of endpoints of the admin listener. None of them exists on the
// tenants' port.
//
//   POST /admin/reload      reads the tenants file and the files of keys again -> {"tenants": n}; 400 with the reason when one
//                           is wrong, and what was in force stays so
//   POST /admin/drain       takes no new work; running requests go on -> {"draining": true, "in_flight": n}
//   GET  /admin/config      the configuration in force, without its secrets
//   GET  /admin/tenants     what each tenant has running, waiting, open, used up, and was refused
//   POST /admin/log_level   {"level": name}, until the process ends
//   POST /v1/load_lora_adapter    {"lora_name": name, "lora_path": folder}: requests may name it from now on
//   POST /v1/unload_lora_adapter  {"lora_name": name}: no more of them may; those that have it go on
//   POST /abort_requests    {"request_ids": [...]} and/or {"tenant": name} -> {"aborted": n}
//   POST /pause, /resume    admits nothing new / goes on -> {"paused": bool}
//   GET  /metrics, /health, /ping
//   GET  /openapi.json      these endpoints, as OpenAPI 3.1
//
// Thread: built once; handlers run on any strand.
#ifndef HYDRANT_SERVER_FRONTEND_ADMIN_ROUTES_H_
#define HYDRANT_SERVER_FRONTEND_ADMIN_ROUTES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/request/request_context.h"
#include "server/adapters/adapter_registry.h"
#include "server/engine/engine_port.h"
#include "server/frontend/admission_control.h"
#include "server/frontend/request_directory.h"
#include "server/frontend/session_transfer.h"
#include "server/http/listener_context.h"
#include "server/http/worker_pool.h"
#include "server/metrics/metrics.h"
#include "server/sessions/session_store.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {

// Everything outlives the routes.
struct AdminSources {
  TenantRegistry& tenants;
  RequestDirectory& requests;
  EnginePort& engine;
  Metrics& metrics;
  SessionStore& sessions;
  const SessionTransfer& transfer;
  AdmissionControl& admission;
  ListenerContext& service;     // of the tenants' port; /pause sets its `paused`
  WorkerPool& adapter_workers;  // one thread
  AdapterRegistry* adapters;    // null: there are none, nor the endpoints
  std::function<absl::Status()> reload;
  std::function<int64_t()> drain;       // returns the number of requests in flight
  std::function<std::string()> config;  // JSON; null: there is no such endpoint
  const RequestContext& request;
  std::string version;
};

std::vector<HttpRoute> MakeAdminRoutes(AdminSources sources);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_ADMIN_ROUTES_H_
