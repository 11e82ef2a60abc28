// What a request says about calls of its tools, made into a Constraint: one grammar of text and calls in the model's format.
//
// Thread: any (pure functions).
#ifndef HYDRANT_API_REQUEST_TOOL_CONSTRAINT_H_
#define HYDRANT_API_REQUEST_TOOL_CONSTRAINT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/request/generation_fields.h"
#include "api/request/request_context.h"
#include "api/wire/object_reader.h"
#include "nlohmann/json.hpp"

namespace hydrant {

struct ToolChoice {
  enum class Kind : uint8_t { kNone, kAuto, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;                 // kNamed
  std::string field;                // that says it, for errors
  std::string stop_field = "stop";  // that says at which texts to stop
  bool parallel = true;             // false: one call at most
  // What may be called, whatever the model is told of; empty: all tools. Of kAuto and kRequired.
  std::vector<std::string> allowed;
};

// How an endpoint writes the name of a tool: {"type": "function", "function": {"name": …}}, or {"type": "function", "name": …},
// which custom tools have, too.
enum class ToolNaming : uint8_t { kNested, kFlat };

// `tool_choice` and `parallel_tool_calls` of a chat or a response: none, auto, required, a tool's name, or allowed_tools, {"type":
// "allowed_tools", "allowed_tools": {"mode": …, "tools": [names]}}, where names are flat without the object within. Sets request's
// error.
ToolChoice ReadToolChoice(ObjectReader* request, ToolNaming naming);

// Sets `fields->constraint` where answers have to be held to something: a call is required, a tool is `strict`, or not all of them may be
// called. Then a call's name is one of those, and its arguments keep to the schema: of strict tools, and of all where a call is required. `tools` is null or
// what ReadTools returns; `fields` is read else. A form in JSON that they have is joined: the answer is calls, or a value of that form; where
// a call is required the form has nothing to say. Sets request's error, a 400.
void ReadToolConstraint(ObjectReader* request, const RequestContext& context, const nlohmann::ordered_json& tools,
                        const ToolChoice& choice, GenerationFields* fields);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_TOOL_CONSTRAINT_H_
