// The table of endpoints: everything that is not a generation is answered here in a line or two.
//
// Thread: built once; handlers run on any strand.
#ifndef HYDRANT_SERVER_ROUTES_H_
#define HYDRANT_SERVER_ROUTES_H_

#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <string>
#include <vector>

#include "api/models.h"
#include "server/completion_service.h"
#include "server/http_service.h"

namespace hydrant {

// What the small endpoints ask of the server. Everything outlives the routes.
struct RouteSources {
  const ServingContext& context;
  CompletionService& completions;
  boost::asio::thread_pool& workers;
  ModelCard model;
  std::string version;
  std::function<bool()> stalled;         // the engine does not move
  std::function<std::string()> metrics;  // Prometheus text
};

std::vector<HttpRoute> MakeRoutes(RouteSources sources);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ROUTES_H_
