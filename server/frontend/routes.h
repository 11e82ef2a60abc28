// The table of endpoints: what is neither a generation nor a session is answered here in a line or two.
//
// Thread: built once; handlers run on any strand.
#ifndef HYDRANT_SERVER_FRONTEND_ROUTES_H_
#define HYDRANT_SERVER_FRONTEND_ROUTES_H_

#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <string>
#include <vector>

#include "api/response/models.h"
#include "server/frontend/generation_service.h"
#include "server/http/http_service.h"
#include "server/live_view/kv_inspector.h"

namespace hydrant {

// What the small endpoints ask of the server. Everything outlives the routes.
struct RouteSources {
  const ServingContext& context;
  GenerationService& generations;
  KvInspector& inspector;
  boost::asio::thread_pool& workers;
  ModelCard model;
  std::string version;
  std::function<bool()> stalled;         // the engine does not move
  std::function<bool()> draining;        // a balancer should send new requests elsewhere
  std::function<std::string()> metrics;  // Prometheus text; null: not served here
  bool ui = true;
};

std::vector<HttpRoute> MakeRoutes(RouteSources sources);

// GET /health, GET and POST /ping; GET /metrics. The operator's listener has them as well.
void AddHealthRoutes(std::function<bool()> stalled, std::vector<HttpRoute>* routes);
void AddMetricsRoute(std::function<std::string()> metrics, bool open, std::vector<HttpRoute>* routes);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_ROUTES_H_
