// OrderedJson hands a part of a request on as a value of its own, members in the order the client wrote them: what a chat
// template gets to see.
//
// Thread: any (pure function).
#ifndef HYDRANT_API_WIRE_ORDERED_JSON_H_
#define HYDRANT_API_WIRE_ORDERED_JSON_H_

#include <optional>
#include <string_view>

#include "api/wire/json_body.h"
#include "api/wire/object_reader.h"
#include "nlohmann/json.hpp"

namespace hydrant {

// An absent view is null. Of a member written twice both are there; readers take the last. Nullopt: there is an integer
// beyond 64 bits in it, which nothing behind this would keep as it is. Recursion is bounded by RequestLimits::json_depth_max.
std::optional<nlohmann::ordered_json> OrderedJson(JsonView view);

// The same of a part of a request; where there is none, sets request's error, which names `path`, and returns null.
nlohmann::ordered_json ReadOrderedJson(ObjectReader* request, std::string_view path, JsonView view);

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_ORDERED_JSON_H_
