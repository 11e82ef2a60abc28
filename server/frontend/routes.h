// The table of endpoints: what is neither a generation nor a session is answered here in a line or two.
//
// Thread: built once; handlers run on any strand.
#ifndef HYDRANT_SERVER_FRONTEND_ROUTES_H_
#define HYDRANT_SERVER_FRONTEND_ROUTES_H_

#include <string>
#include <vector>

#include "api/response/models.h"
#include "server/engine/engine_port.h"
#include "server/frontend/admission_control.h"
#include "server/frontend/generation_service.h"
#include "server/frontend/session_transfer.h"
#include "server/http/listener_context.h"
#include "server/http/worker_pool.h"
#include "server/live_view/kv_inspector.h"
#include "server/metrics/metrics.h"
#include "server/sessions/session_store.h"

namespace hydrant {

// RouteSources are the objects that the handlers of the small endpoints use. All of them outlive the routes.
struct RouteSources {
  const ServingContext& context;
  GenerationService& generations;
  KvInspector& inspector;
  const SessionTransfer& transfer;
  AdmissionControl& admission;
  WorkerPool& workers;
  WorkerPool& disk_workers;  // whose work may wait for the disk
  bool shared = false;       // by several tenants: what one does is not the others' business
  ModelCard model;
  std::string version;
  const EnginePort& engine;
  const ListenerContext& service;  // whose `unready` and `paused` /ready tells
  Metrics& metrics;
  bool ui = true;
  // Who may read /metrics here. Null: everybody, where the server is not shared, and else nobody.
  Authenticate metrics_reader;
};

std::vector<HttpRoute> MakeRoutes(RouteSources sources);

// GET /health and its other names, GET and POST /ping; GET /metrics. The operator's listener has them as well. The arguments outlive the routes.
void AddHealthRoutes(const EnginePort& engine, std::vector<HttpRoute>* routes);
void AddMetricsRoute(Metrics& metrics, const EnginePort& engine, SessionStore& sessions, bool open,
                     std::vector<HttpRoute>* routes);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_ROUTES_H_
