// ReadPastArguments reads the arguments of a call that the assistant made earlier: what a client sends back is what a model wrote, which may
// have been cut off, or have more in it than a template's values hold. It is shown to the model all the same.
//
// Thread: any (pure function).
#ifndef HYDRANT_API_REQUEST_PAST_ARGUMENTS_H_
#define HYDRANT_API_REQUEST_PAST_ARGUMENTS_H_

#include <string_view>

#include "api/wire/api_error.h"
#include "api/wire/json_body.h"
#include "nlohmann/json.hpp"

namespace hydrant {

// The object that `text` writes, members in their order; an empty one for no text. Of one that is cut off, the members that came whole. An
// integer beyond 64 bits, and what stands deeper than the budget allows, is there as a string with its text.
// Errors: 400 invalid_type where no object begins; json_too_many_nodes.
ApiResult<nlohmann::ordered_json> ReadPastArguments(std::string_view text, JsonBudget* budget);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_PAST_ARGUMENTS_H_
