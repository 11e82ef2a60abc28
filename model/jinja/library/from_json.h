// FromJson makes the values a template sees of JSON.
//
// Thread: any.
#ifndef HYDRANT_MODEL_JINJA_LIBRARY_FROM_JSON_H_
#define HYDRANT_MODEL_JINJA_LIBRARY_FROM_JSON_H_

#include <string_view>

#include "model/jinja/core/text.h"
#include "model/jinja/core/value.h"
#include "nlohmann/json.hpp"

namespace hydrant::jinja {

// All strings and numbers get the origin. Fails with kind kLimit for JSON nested deeper than kNestingMax. The member `checked_member` of the objects in an array is the template's; "" for none.
Value FromJson(const nlohmann::ordered_json& json, Origin origin, std::string_view checked_member = "");

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_LIBRARY_FROM_JSON_H_
