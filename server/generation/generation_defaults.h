// What requests that leave a field out are given: the checkpoint's defaults, and over them the operator's.
//
// Thread: any (pure functions).
#ifndef HYDRANT_SERVER_GENERATION_GENERATION_DEFAULTS_H_
#define HYDRANT_SERVER_GENERATION_GENERATION_DEFAULTS_H_

#include <string>
#include <string_view>

#include "api/request/request_context.h"
#include "model/checkpoint/checkpoint.h"

namespace hydrant {

// Sets the defaults that the checkpoint has.
void SetDefaults(const GenerationDefaults& of_checkpoint, RequestContext* request);

// Sets those of --override-generation-config: `json` is an object with members of generation_config.json, in the ranges
// that requests have. Returns what is wrong with it, or nothing.
std::string OverrideDefaults(std::string_view json, RequestContext* request);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_GENERATION_DEFAULTS_H_
