// HttpRoute is an endpoint as a listener's table has it, and FindRoute looks a request up there. Which paths and methods there are is
// said by the table alone: for 404, 405 and `Allow` as for /openapi.json.
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_SERVER_HTTP_HTTP_ROUTE_H_
#define HYDRANT_SERVER_HTTP_HTTP_ROUTE_H_

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/wire/api_error.h"
#include "server/http/caller.h"
#include "server/http/http_message.h"
#include "server/http/request_place.h"

namespace hydrant {

class HttpExchange;

struct HttpRoute {
  std::string method;  // GET, POST, PUT or DELETE; a GET route answers HEAD too
  // "/v1/models/{model...}": as it is, a name in braces aside. That stands for one part of a path, and for all the rest of it where
  // the name ends with dots; never for nothing.
  std::string path;
  bool open = false;  // needs no key
  // Answers the exchange. Runs on the connection's strand.
  std::function<boost::asio::awaitable<void>(HttpExchange&)> handle;
  bool body = true;  // a POST or PUT that must have one; else it may come without, and what comes is not kept
  // Asked once the head has passed every check, before a byte of the body is read. Null: everything is admitted.
  std::function<Admitted(const HttpExchange&)> admit;
  // It reads its body by itself, piece by piece, and says how long that may be: HttpExchange::ReadBodyPiece. REQUIRES: `admit` refuses
  // one whose length is not known.
  bool streams_body = false;
  int64_t body_bytes_max = 0;  // of its own, where Limits::body_bytes_max is too much; 0: none
  // Also of whatever is asked for below its path, and not there. Nullopt: that of the client, which says whose it is or is OpenAI's.
  std::optional<Dialect> dialect = Dialect::kOpenAi;
  bool audited = false;                                // its requests change the server: each is logged
  Authenticate authenticate = nullptr;                 // in the place of the listener's; null: the listener's
  std::string_view content_type = "application/json";  // of the body, where its head says one

  bool probe = false;  // it says how the server is: answered on a spare place, too (connection_table.h)

  bool takes_body() const { return method == "POST" || method == "PUT"; }
};

// What `path` has in the place of each name of a route's path, decoded. Nullopt: it is another path.
std::optional<std::vector<std::string>> MatchPath(std::string_view route, std::string_view path);

// The names of a route's path, without their dots.
std::vector<std::string> PathNames(std::string_view route);

// The result of looking a request up among the routes. Those whose path has the longest text before its first name are all that
// counts: /v1/responses/input_tokens is no response.
struct FoundRoute {
  const HttpRoute* route = nullptr;      // null: none for this method
  std::vector<std::string> path_values;  // of the route's names
  std::string allow;                     // methods of the path; empty: there is nothing
  bool open = true;                      // no route of the path needs a key
  bool preflight = false;                // asks what a page may ask (Fetch standard, CORS-preflight fetch)
  Dialect dialect = Dialect::kOpenAi;
};
FoundRoute FindRoute(const std::vector<HttpRoute>& routes, const HttpHead& head);

// In whose words the errors of a path are told that no route answers, or of which nothing but the path is known. `of_client`: where the
// table does not say.
Dialect DialectOf(const std::vector<HttpRoute>& routes, std::string_view path, Dialect of_client = Dialect::kOpenAi);

// 404. The path is told that a client meant whose base address has no /v1, or a second one, or a slash too many.
ApiError NoRoute(const std::vector<HttpRoute>& routes, std::string_view path);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_HTTP_ROUTE_H_
