// The tools of a request to /v1/responses, made into what /v1/chat/completions has. Those that would have to be run here (a web
// search, a shell) the model is not told of: Codex sends some always, and can do without.
//
// Thread: any (pure function).
#ifndef HYDRANT_API_REQUEST_RESPONSES_TOOLS_H_
#define HYDRANT_API_REQUEST_RESPONSES_TOOLS_H_

#include <string>
#include <vector>

#include "api/wire/object_reader.h"
#include "nlohmann/json.hpp"

namespace hydrant {

struct ResponsesTools {
  nlohmann::ordered_json offered;   // null: none
  nlohmann::ordered_json echoed;    // those that are offered, as the answer repeats them
  std::vector<std::string> custom;  // names of those whose input is a text
  std::string not_offered;          // types of the others, with commas between
};

// The member `tools`. Sets request's error, a 400 that names the field.
ResponsesTools ReadResponsesTools(ObjectReader* request);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_RESPONSES_TOOLS_H_
