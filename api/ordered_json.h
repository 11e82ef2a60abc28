// OrderedJson hands a part of a request on as a value of its own, members in the order the client wrote them: what a chat
// template gets to see.
//
// Thread: any (pure function).
#ifndef HYDRANT_API_ORDERED_JSON_H_
#define HYDRANT_API_ORDERED_JSON_H_

#include "api/json_reader.h"
#include "nlohmann/json.hpp"

namespace hydrant {

// An absent view is null. Of a member written twice both are there; readers take the last. Recursion is bounded by
// RequestLimits::json_depth_max.
nlohmann::ordered_json OrderedJson(JsonView view);

}  // namespace hydrant

#endif  // HYDRANT_API_ORDERED_JSON_H_
