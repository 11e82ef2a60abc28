#include "api/request/chat_tools.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/request/past_arguments.h"
#include "api/request/schema_pattern.h"
#include "api/response/tool_call_parser.h"
#include "api/wire/ordered_json.h"

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

// Why a schema is none; empty: it is one. The recursion is bounded by the depth of a body.
std::string SchemaFault(JsonView schema);

// The first fault among the members of an array or an object.
std::string MembersFault(JsonView members) {
  for (JsonView member = members.first(); member.valid(); member = member.next()) {
    if (std::string fault = SchemaFault(member); !fault.empty()) return fault;
  }
  return "";
}

std::string NamedPatternFault(std::string_view pattern) {
  const std::string fault(PatternFault(pattern));
  return fault.empty() ? "" : "a pattern " + fault;
}

std::string TypeFault(JsonView type) {
  if (type.absent() || IsTypeName(type)) return "";
  bool names = type.is_array();
  if (names) {
    for (JsonView one = type.first(); one.valid(); one = one.next()) names = names && IsTypeName(one);
  }
  return names ? "" : "a 'type' must be object, array, string, number, integer, boolean, null or a list of them";
}

std::string SchemaFault(JsonView schema) {
  if (schema.is_bool()) return "";
  if (!schema.is_object()) return "a schema must be an object or a boolean";
  if (std::string fault = TypeFault(schema["type"]); !fault.empty()) return fault;
  const JsonView pattern = schema["pattern"];
  if (!pattern.absent()) {
    if (!pattern.is_string()) return "a 'pattern' must be a string";
    if (std::string fault = NamedPatternFault(pattern.string()); !fault.empty()) return fault;
  }
  const JsonView named = schema["patternProperties"];
  if (named.is_object()) {
    for (JsonView member = named.first(); member.valid(); member = member.next()) {
      if (std::string fault = NamedPatternFault(member.key()); !fault.empty()) return fault;
    }
  }
  for (const char* name : {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}) {
    const JsonView members = schema[name];
    if (members.absent()) continue;
    if (!members.is_object()) return absl::StrCat("'", name, "' must be an object");
    if (std::string fault = MembersFault(members); !fault.empty()) return fault;
  }
  for (const char* name : {"anyOf", "oneOf", "allOf", "prefixItems"}) {
    const JsonView choices = schema[name];
    if (choices.absent()) continue;
    if (!choices.is_array()) return absl::StrCat("'", name, "' must be an array");
    if (std::string fault = MembersFault(choices); !fault.empty()) return fault;
  }
  for (const char* name : {"additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
                           "additionalItems", "unevaluatedProperties", "unevaluatedItems"}) {
    const JsonView inner = schema[name];
    if (inner.absent()) continue;
    if (std::string fault = SchemaFault(inner); !fault.empty()) return fault;
  }
  // Older drafts have a list of schemas here.
  const JsonView items = schema["items"];
  if (items.absent()) return "";
  return items.is_array() ? MembersFault(items) : SchemaFault(items);
}

}  // namespace

std::string FunctionFault(JsonView function, const std::string& parameters) {
  if (!HasFunctionName(function)) {
    return "A function's 'name' must be 1 to 64 characters of [A-Za-z0-9_.-].";
  }
  const JsonView description = function["description"];
  if (!description.absent() && !description.is_string()) return "A function's 'description' must be a string.";
  const JsonView schema = function[parameters];
  if (schema.absent()) return "";
  const std::string what = absl::StrCat("A function's '", parameters, "' must be a JSON schema");
  if (!schema.is_object()) return what + ".";
  const std::string fault = SchemaFault(schema);
  return fault.empty() ? "" : absl::StrCat(what, ": ", fault, ".");
}

namespace {

// Why a tool is none; empty: it is one.
std::string Fault(JsonView tool) {
  if (!tool.is_object() || !tool["type"].is_string()) return "A tool must be an object with a 'type'.";
  if (tool["type"].string() != "function") return "A tool's 'type' must be function.";
  const JsonView function = tool["function"];
  return function.is_object() ? FunctionFault(function, "parameters") : "A tool must have an object 'function'.";
}

// The same of a tool of Anthropic's.
std::string MessagesToolFault(JsonView tool) {
  if (!tool.is_object()) return "A tool must be an object.";
  if (std::string fault = FunctionFault(tool, "input_schema"); !fault.empty()) return fault;
  return tool["input_schema"].absent() ? "A tool must have an 'input_schema'." : "";
}

}  // namespace

void CheckStrict(ObjectReader* request, JsonView function, const std::string& path) {
  const JsonView strict = function["strict"];
  if (strict.absent() || strict.is_bool()) return;
  request->Fail(path + ".strict", "A function's 'strict' must be a boolean.", "invalid_type");
}

JsonView ToolArray(ObjectReader* request) {
  const JsonView tools = request->Raw("tools");
  if (tools.absent()) return JsonView();
  if (!tools.is_array()) {
    request->Fail("tools", "'tools' must be an array.", "invalid_type");
    return JsonView();
  }
  if (tools.size() > kToolsMax) {
    request->Fail("tools", absl::StrCat("'tools' may have at most ", kToolsMax, " members."));
    return JsonView();
  }
  return tools.size() == 0 ? JsonView() : tools;
}

namespace {

// Arguments as an object. Sets request's error.
Json Arguments(ObjectReader* request, JsonView arguments, const std::string& path, JsonBudget* budget) {
  if (arguments.absent()) return Json::object();
  if (arguments.is_object()) return ReadOrderedJson(request, path, arguments);
  if (arguments.is_string()) {
    ApiResult<Json> read = ReadPastArguments(arguments.string(), budget);
    if (read.ok()) return std::move(read.value());
    ApiError error = read.error();
    error.param = request->Path(path);
    request->FailWith(std::move(error));
    return nullptr;
  }
  request->Fail(path, "A tool call's 'arguments' must be the text of a JSON object.", "invalid_type");
  return nullptr;
}

}  // namespace

Json ReadTools(ObjectReader* request) {
  const JsonView tools = ToolArray(request);
  if (tools.absent()) return nullptr;
  size_t i = 0;
  for (JsonView tool = tools.first(); tool.valid(); tool = tool.next(), ++i) {
    const std::string path = absl::StrCat("tools[", i, "]");
    std::string fault = Fault(tool);
    if (fault.empty()) {
      CheckStrict(request, tool["function"], path + ".function");
    } else {
      request->Fail(path, std::move(fault));
    }
    if (request->failed()) return nullptr;
  }
  return ReadOrderedJson(request, "tools", tools);
}

Json ReadMessagesTools(ObjectReader* request) {
  const JsonView tools = ToolArray(request);
  if (tools.absent()) return nullptr;
  Json::array_t read;
  for (JsonView tool = tools.first(); tool.valid(); tool = tool.next()) {
    const std::string path = absl::StrCat("tools[", read.size(), "]");
    // One of another type has its schema, and perhaps its program, with the provider.
    if (tool.is_object() && !tool["type"].absent() &&
        !(tool["type"].is_string() && tool["type"].string() == "custom")) {
      request->FailUnsupported(path + ".type", "A tool's 'type' other than custom");
    } else if (std::string fault = MessagesToolFault(tool); !fault.empty()) {
      request->Fail(path, std::move(fault));
    } else {
      CheckStrict(request, tool, path);
    }
    if (request->failed()) return nullptr;
    Json::object_t function = {{"name", std::string(tool["name"].string())}};
    if (tool["description"].is_string())
      function.emplace_back("description", std::string(tool["description"].string()));
    function.emplace_back("parameters", ReadOrderedJson(request, path + ".input_schema", tool["input_schema"]));
    if (tool["strict"].is_bool()) function.emplace_back("strict", tool["strict"].boolean());
    read.push_back(Json::object_t{{"type", "function"}, {"function", std::move(function)}});
  }
  if (request->failed()) return nullptr;
  return read;
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
