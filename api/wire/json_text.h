// JsonText writes a part of a request as JSON again, without white space, members in the order the client wrote them: what is compiled
// or compared as a text.
//
// Thread: any (pure function).
#ifndef HYDRANT_API_WIRE_JSON_TEXT_H_
#define HYDRANT_API_WIRE_JSON_TEXT_H_

#include <optional>
#include <string>

#include "api/wire/json_body.h"

namespace hydrant {

// Numbers in their shortest form. A member written twice is there twice. Nullopt: there is an integer beyond 64 bits in it, which
// parsing did not keep as it was. Recursion is bounded by RequestLimits::json_depth_max.
std::optional<std::string> JsonText(JsonView view);

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_JSON_TEXT_H_
