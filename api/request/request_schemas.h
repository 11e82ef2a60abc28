// RequestSchemas are JSON schemas of what the endpoints read in their bodies, with the names, kinds and limits that the readers
// themselves ask for (FieldLog): a reader is run over a body that shows it everything, and once without each member of it, to see
// which are required.
//
// Thread: any (pure functions).
#ifndef HYDRANT_API_REQUEST_REQUEST_SCHEMAS_H_
#define HYDRANT_API_REQUEST_REQUEST_SCHEMAS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/request/request_context.h"
#include "api/wire/api_error.h"
#include "nlohmann/json.hpp"

namespace hydrant {

// The reader of an endpoint's bodies.
struct RequestReader {
  const char* path;
  // The error of a body, if it has one.
  std::optional<ApiError> (*check)(std::string_view body, const RequestContext& context);
  // Bodies that the reader takes, with every object in which it looks further. What is required is in the first.
  std::vector<const char*> bodies;
};

// One for every endpoint with a body of this API's own.
std::span<const RequestReader> RequestReaders();

struct RequestSchema {
  std::string path;  // of the endpoint, which is a POST
  nlohmann::ordered_json schema;
};

// One for every reader, in their order; the limits are the context's.
std::vector<RequestSchema> RequestSchemas(const RequestContext& context);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_REQUEST_SCHEMAS_H_
