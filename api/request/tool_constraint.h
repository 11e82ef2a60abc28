// What a request says about calls of its tools, made into a Constraint: one grammar of text and calls in the model's format.
//
// Thread: any (pure functions).
#ifndef HYDRANT_API_REQUEST_TOOL_CONSTRAINT_H_
#define HYDRANT_API_REQUEST_TOOL_CONSTRAINT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "api/request/generation_fields.h"
#include "api/request/request_context.h"
#include "api/wire/object_reader.h"
#include "nlohmann/json.hpp"

namespace hydrant {

struct ToolChoice {
  enum class Kind : uint8_t { kNone, kAuto, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;      // kNamed
  std::string field;     // that says it, for errors
  bool parallel = true;  // false: one call at most
};

// `tool_choice` of a chat: none, auto, required, or {"type": "function", "function": {"name": …}}. Sets request's error.
ToolChoice ReadToolChoice(ObjectReader* request);

// Sets `fields->constraint` where answers have to be held to something: a call is required, or a tool is `strict`. Then a call's name is
// one of the tools', and its arguments keep to the schema: of strict tools, and of all where a call is required. `tools` is null or
// what ReadTools returns; `fields` is read else. Sets request's error, a 400.
void ReadToolConstraint(ObjectReader* request, const RequestContext& context, const nlohmann::ordered_json& tools,
                        const ToolChoice& choice, GenerationFields* fields);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_TOOL_CONSTRAINT_H_
