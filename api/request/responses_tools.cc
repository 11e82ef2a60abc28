#include "api/request/responses_tools.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/request/chat_tools.h"
#include "api/response/tool_call_parser.h"
#include "api/wire/json_body.h"
#include "api/wire/ordered_json.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

// The tool as templates read it: its input is a member of its arguments.
Json CustomFunction(const std::string& name, const Json& description) {
  Json function = {{"name", name}};
  if (!description.is_null()) function["description"] = description;
  function["parameters"] = {
      {"type", "object"}, {"properties", {{"input", {{"type", "string"}}}}}, {"required", Json::array({"input"})}};
  return {{"type", "function"}, {"function", std::move(function)}};
}

class ToolReader {
 public:
  explicit ToolReader(ObjectReader* request) : request_(request) {}

  void Read(JsonView tool, const std::string& path) {
    if (!tool.is_object() || !tool["type"].is_string()) {
      return request_->Fail(path, "A tool must be an object with a 'type'.", "invalid_type");
    }
    const std::string_view type = tool["type"].string();
    if (type == "function") return ReadFunction(tool, path);
    if (type == "custom") return ReadCustom(tool, path);
    if (type.empty() || type.size() > 64 || type.find_first_not_of(kTypeCharacters) != std::string_view::npos) {
      return request_->Fail(path + ".type", "A tool's 'type' must be 1 to 64 characters of [a-z0-9_.-].");
    }
    if (!tools_.not_offered.empty()) tools_.not_offered.append(", ");
    tools_.not_offered.append(type);
  }

  ResponsesTools Take() {
    if (!offered_.empty()) tools_.offered = std::move(offered_);
    tools_.echoed = std::move(echoed_);
    return std::move(tools_);
  }

 private:
  // It becomes a header's value.
  static constexpr std::string_view kTypeCharacters = "abcdefghijklmnopqrstuvwxyz0123456789_.-";

  void ReadFunction(JsonView tool, const std::string& path) {
    std::string fault = FunctionFault(tool, "parameters");
    if (!fault.empty()) return request_->Fail(path, std::move(fault));
    CheckStrict(request_, tool, path);
    if (request_->failed()) return;
    const std::string name(tool["name"].string());
    const JsonView description = tool["description"];
    Json parameters = ReadOrderedJson(request_, path + ".parameters", tool["parameters"]);
    const Json said = description.absent() ? Json(nullptr) : Json(std::string(description.string()));
    Json function = {{"name", name}};
    if (!said.is_null()) function["description"] = said;
    if (!parameters.is_null()) function["parameters"] = parameters;
    const bool strict = tool["strict"].is_bool() && tool["strict"].boolean();
    if (strict) function["strict"] = true;
    offered_.push_back({{"type", "function"}, {"function", std::move(function)}});
    echoed_.push_back({{"type", "function"},
                       {"name", name},
                       {"description", said},
                       {"parameters", std::move(parameters)},
                       {"strict", strict}});
  }

  void ReadCustom(JsonView tool, const std::string& path) {
    if (!tool["name"].is_string() || !IsFunctionName(tool["name"].string())) {
      return request_->Fail(path + ".name", "A tool's 'name' must be 1 to 64 characters of [A-Za-z0-9_.-].");
    }
    const JsonView format = tool["format"], description = tool["description"];
    const bool text =
        format.absent() || (format.is_object() && format["type"].is_string() && format["type"].string() == "text");
    if (!text) return request_->FailUnsupported(path + ".format", "A custom tool's 'format' other than text");
    if (!description.absent() && !description.is_string()) {
      return request_->Fail(path + ".description", "A tool's 'description' must be a string.", "invalid_type");
    }
    const std::string name(tool["name"].string());
    const Json said = description.absent() ? Json(nullptr) : Json(std::string(description.string()));
    offered_.push_back(CustomFunction(name, said));
    echoed_.push_back({{"type", "custom"}, {"name", name}, {"description", said}, {"format", {{"type", "text"}}}});
    tools_.custom.push_back(name);
  }

  ObjectReader* const request_;
  ResponsesTools tools_;
  Json::array_t offered_, echoed_;
};

}  // namespace

ResponsesTools ReadResponsesTools(ObjectReader* request) {
  const JsonView tools = ToolArray(request);
  ToolReader reader(request);
  size_t i = 0;
  for (JsonView tool = tools.valid() ? tools.first() : JsonView(); tool.valid() && !request->failed();
       tool = tool.next()) {
    reader.Read(tool, absl::StrCat("tools[", i++, "]"));
  }
  return reader.Take();
}

}  // namespace hydrant
