// RequestSchemas are JSON schemas of what the endpoints read in their bodies, with the names, kinds and limits that the readers
// themselves ask for (FieldLog): a reader is run over a body that shows it everything, and once without each member of it, to see
// which are required.
//
// Thread: any (pure functions).
#ifndef HYDRANT_API_REQUEST_REQUEST_SCHEMAS_H_
#define HYDRANT_API_REQUEST_REQUEST_SCHEMAS_H_

#include <string>
#include <vector>

#include "api/request/request_context.h"
#include "nlohmann/json.hpp"

namespace hydrant {

struct RequestSchema {
  std::string path;  // of the endpoint, which is a POST
  nlohmann::ordered_json schema;
};

// One for every endpoint with a body of this API's own; the limits are the context's.
std::vector<RequestSchema> RequestSchemas(const RequestContext& context);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_REQUEST_SCHEMAS_H_
