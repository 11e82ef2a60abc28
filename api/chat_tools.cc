#include "api/chat_tools.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/ordered_json.h"
#include "api/tool_call_parser.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

// OpenAI's limits.
constexpr uint32_t kToolsMax = 128;

bool HasFunctionName(JsonView function) {
  return function["name"].is_string() && IsFunctionName(function["name"].string());
}

bool IsTypeName(JsonView type) {
  static constexpr std::array<std::string_view, 7> kTypes = {"object",  "array",   "string", "number",
                                                             "integer", "boolean", "null"};
  return type.is_string() && std::find(kTypes.begin(), kTypes.end(), type.string()) != kTypes.end();
}

bool IsSchema(JsonView schema);

// Of an array or an object.
bool MembersAreSchemas(JsonView members) {
  for (JsonView member = members.first(); member.valid(); member = member.next()) {
    if (!IsSchema(member)) return false;
  }
  return true;
}

// Whether every `type` in a JSON schema is one. Patterns are text to us: nothing here runs them. The recursion is bounded by
// the depth of a body.
bool IsSchema(JsonView schema) {
  if (schema.is_bool()) return true;
  if (!schema.is_object()) return false;
  const JsonView type = schema["type"];
  if (type.is_array()) {
    for (JsonView one = type.first(); one.valid(); one = one.next()) {
      if (!IsTypeName(one)) return false;
    }
  } else if (!type.absent() && !IsTypeName(type)) {
    return false;
  }
  for (const std::string_view name : {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}) {
    const JsonView members = schema[name];
    if (!members.absent() && !(members.is_object() && MembersAreSchemas(members))) return false;
  }
  for (const std::string_view name : {"anyOf", "oneOf", "allOf", "prefixItems"}) {
    const JsonView choices = schema[name];
    if (!choices.absent() && !(choices.is_array() && MembersAreSchemas(choices))) return false;
  }
  for (const std::string_view name : {"additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
                                      "additionalItems", "unevaluatedProperties", "unevaluatedItems"}) {
    const JsonView inner = schema[name];
    if (!inner.absent() && !IsSchema(inner)) return false;
  }
  // Older drafts have a list of schemas here.
  const JsonView items = schema["items"];
  return items.absent() || (items.is_array() ? MembersAreSchemas(items) : IsSchema(items));
}

// Why a tool is none; empty: it is one.
std::string_view Fault(JsonView tool) {
  if (!tool.is_object() || !tool["type"].is_string()) return "A tool must be an object with a 'type'.";
  if (tool["type"].string() != "function") return "A tool's 'type' must be function.";
  const JsonView function = tool["function"];
  if (!function.is_object()) return "A tool must have an object 'function'.";
  if (!HasFunctionName(function)) {
    return "A function's 'name' must be 1 to 64 characters of [A-Za-z0-9_.-].";
  }
  const JsonView description = function["description"];
  if (!description.absent() && !description.is_string()) return "A function's 'description' must be a string.";
  const JsonView parameters = function["parameters"];
  if (!parameters.absent() && !(parameters.is_object() && IsSchema(parameters))) {
    return "A function's 'parameters' must be a JSON schema.";
  }
  return "";
}

// Arguments as an object. Sets request's error.
Json Arguments(ObjectReader* request, JsonView arguments, const std::string& path, JsonBudget* budget) {
  if (arguments.absent()) return Json::object();
  if (arguments.is_object()) return ReadOrderedJson(request, path, arguments);
  if (arguments.is_string()) {
    if (arguments.string().empty()) return Json::object();
    const ApiResult<JsonBody> parsed = JsonBody::Parse(arguments.string(), budget);
    if (parsed.ok() && parsed.value().root().is_object()) return ReadOrderedJson(request, path, parsed.value().root());
    // Of a text that is none the client need not know where; what a request may cost in all it could not guess.
    if (!parsed.ok() && parsed.error().code != "invalid_json") {
      request->Fail(path, parsed.error().message, parsed.error().code);
    }
  }
  request->Fail(path, "A tool call's 'arguments' must be the text of a JSON object.", "invalid_type");
  return nullptr;
}

}  // namespace

Json ReadTools(ObjectReader* request) {
  const JsonView tools = request->Raw("tools");
  if (!tools.valid()) return nullptr;
  if (!tools.is_array()) {
    request->Fail("tools", "'tools' must be an array.", "invalid_type");
    return nullptr;
  }
  if (tools.size() == 0) return nullptr;
  if (tools.size() > kToolsMax) {
    request->Fail("tools", absl::StrCat("'tools' may have at most ", kToolsMax, " members."));
    return nullptr;
  }
  size_t i = 0;
  for (JsonView tool = tools.first(); tool.valid(); tool = tool.next(), ++i) {
    const std::string_view fault = Fault(tool);
    if (fault.empty()) continue;
    request->Fail(absl::StrCat("tools[", i, "]"), std::string(fault));
    return nullptr;
  }
  return ReadOrderedJson(request, "tools", tools);
}

Json ReadToolCalls(ObjectReader* request, JsonView calls, const std::string& path, JsonBudget* budget) {
  const auto fail = [&](std::string_view message) {
    request->Fail(path, std::string(message), "invalid_type");
    return Json();
  };
  if (!calls.is_array()) return fail("'tool_calls' must be an array.");
  Json::array_t read;
  for (JsonView call = calls.first(); call.valid(); call = call.next()) {
    if (!call.is_object() || !call["function"].is_object()) return fail("A tool call must have an object 'function'.");
    const JsonView function = call["function"];
    if (!HasFunctionName(function)) return fail("A tool call must name its function.");
    Json arguments = Arguments(request, function["arguments"], path, budget);
    if (request->failed()) return nullptr;
    Json::object_t named = {{"name", std::string(function["name"].string())}, {"arguments", std::move(arguments)}};
    Json::object_t members;
    if (call["id"].is_string()) members.emplace_back("id", std::string(call["id"].string()));
    members.emplace_back("type", "function");
    members.emplace_back("function", std::move(named));
    read.push_back(std::move(members));
  }
  return read;
}

}  // namespace hydrant
