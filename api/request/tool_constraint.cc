#include "api/request/tool_constraint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ToolChoice::Kind;

constexpr size_t kToolsBytesMax = 1 << 20;

const Json* Member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool IsStrict(const Json& tool) {
  const Json* strict = Member(tool["function"], "strict");
  return strict != nullptr && *strict == true;
}

// The grammar that is asked for (grammar/tool_calls.h). Tools come in their order, so that equal requests have equal ones.
std::string SpecText(const Json& tools, const ToolChoice& choice, const std::string& format) {
  const bool required = choice.kind != Kind::kAuto;
  Json::array_t listed;
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    if (choice.kind == Kind::kNamed && function["name"] != choice.name) continue;
    Json::object_t own = {{"name", function["name"]}};
    const Json* parameters = Member(function, "parameters");
    // A function without parameters has none.
    if (required || IsStrict(tool)) {
      own.emplace_back("parameters", parameters != nullptr && parameters->is_object()
                                         ? *parameters
                                         : Json::object({{"type", "object"}, {"additionalProperties", false}}));
    }
    listed.push_back(std::move(own));
  }
  const Json spec = Json::object_t{{"format", format},
                                   {"choice", required ? "required" : "auto"},
                                   {"parallel", choice.parallel && choice.kind != Kind::kNamed},
                                   {"tools", std::move(listed)}};
  return spec.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

ToolChoice ReadToolChoice(ObjectReader* request) {
  ToolChoice choice;
  choice.field = "tool_choice";
  choice.parallel = request->Bool("parallel_tool_calls", true);
  const JsonView said = request->Raw("tool_choice");
  if (said.absent()) return choice;
  if (said.is_string() && (said.string() == "none" || said.string() == "auto" || said.string() == "required")) {
    choice.kind = said.string() == "none" ? Kind::kNone : said.string() == "auto" ? Kind::kAuto : Kind::kRequired;
    return choice;
  }
  const bool names = said.is_object() && said["type"].is_string() && said["type"].string() == "function" &&
                     said["function"].is_object() && said["function"]["name"].is_string();
  if (names) {
    choice.kind = Kind::kNamed;
    choice.name = said["function"]["name"].string();
  } else if (said.is_object() && said["type"].is_string() && said["type"].string() == "allowed_tools") {
    request->FailUnsupported("tool_choice", "A 'tool_choice' of type allowed_tools");
  } else {
    request->Fail(
        "tool_choice",
        "'tool_choice' must be none, auto, required or {\"type\": \"function\", \"function\": {\"name\": …}}.");
  }
  return choice;
}

void ReadToolConstraint(ObjectReader* request, const RequestContext& context, const Json& tools,
                        const ToolChoice& choice, GenerationFields* fields) {
  const bool required = choice.kind == Kind::kRequired || choice.kind == Kind::kNamed;
  if (request->failed() || choice.kind == Kind::kNone) return;
  if (tools.is_null()) {
    if (required)
      request->Fail(choice.field, absl::StrCat("'", choice.field, "' asks for a call, and there are no 'tools'."));
    return;
  }
  const auto is_named = [&](const Json& tool) { return tool["function"]["name"] == choice.name; };
  if (choice.kind == Kind::kNamed && std::none_of(tools.begin(), tools.end(), is_named)) {
    return request->Fail(choice.field,
                         absl::StrCat("'", choice.field, "' names a function that is none of the 'tools'."));
  }
  if (!required && std::none_of(tools.begin(), tools.end(), IsStrict)) return;
  const std::string field = required ? choice.field : "tools";
  const std::string what =
      required ? absl::StrCat("A '", field, "' that asks for a call") : "A function's 'strict': true";
  if (!context.constraints) return request->FailUnsupported(field, what);
  if (context.tool_format.empty()) {
    return request->Fail(field, absl::StrCat(what, " needs a model whose template shows how it writes calls."),
                         "no_tool_call_format");
  }
  if (fields->constraint.has_value()) {
    return request->Fail(
        field, absl::StrCat("'", fields->constraint->field, "' and '", field, "' both say what the answer has to be."),
        "conflicting_constraints");
  }
  if (required && !fields->stop.empty()) {
    return request->Fail("stop", absl::StrCat("'stop' cannot be combined with a '", field, "' that asks for a call."));
  }
  Constraint constraint;
  constraint.spec.kind = ConstraintKind::kToolCalls;
  constraint.spec.text = SpecText(tools, choice, context.tool_format);
  constraint.field = "tools";
  if (constraint.spec.text.size() > kToolsBytesMax) {
    return request->Fail("tools", absl::StrCat("'tools' have more than ", kToolsBytesMax, " bytes."),
                         "structured_output_too_large");
  }
  fields->constraint = std::move(constraint);
  CheckConstraint(request, *fields);
}

}  // namespace hydrant
