#include "api/request/tool_constraint.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ToolChoice::Kind;

constexpr size_t kToolsBytesMax = 1 << 20;
constexpr size_t kAllowedMax = 128;  // as many as tools may be

const Json* Member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool IsStrict(const Json& tool) {
  const Json* strict = Member(tool["function"], "strict");
  return strict != nullptr && *strict == true;
}

std::string NameOf(const Json& tool) { return tool["function"]["name"]; }

bool MayBeCalled(const Json& tool, const ToolChoice& choice) {
  if (choice.kind == Kind::kNamed) return NameOf(tool) == choice.name;
  return choice.allowed.empty() ||
         std::find(choice.allowed.begin(), choice.allowed.end(), NameOf(tool)) != choice.allowed.end();
}

bool IsJsonForm(ConstraintKind kind) {
  return kind == ConstraintKind::kJsonSchema || kind == ConstraintKind::kJsonObject;
}

// The grammar that is asked for (grammar/tool_calls.h). Tools come in their order, so that equal requests have equal ones.
// `answer`: the schema of one that is no call, as the client wrote it; empty: there is none.
std::string SpecText(const Json& tools, const ToolChoice& choice, const RequestContext& context,
                     const std::string& answer) {
  const bool required = choice.kind != Kind::kAuto;
  Json::array_t listed;
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    if (!MayBeCalled(tool, choice)) continue;
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
  Json spec = Json::object_t{{"format", context.tool_format},
                             {"choice", required ? "required" : "auto"},
                             {"parallel", choice.parallel && choice.kind != Kind::kNamed},
                             {"tools", std::move(listed)}};
  if (!context.tool_markers.empty()) spec["markers"] = context.tool_markers;
  std::string text = spec.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (answer.empty()) return text;
  text.pop_back();
  return text.append(",\"answer\":").append(answer).append("}");
}

// Calls of any arguments, for a request that asks for nothing: text is not looked at, and a call that has begun can be read.
void HoldCalls(const RequestContext& context, const Json& tools, const ToolChoice& choice, GenerationFields* fields) {
  // A mask may allow a single token. Where that may be banned the answer would end with an error that nobody asked for.
  const bool bans = !fields->bad_words.empty() || (fields->min_tokens > 0 && !fields->stop_token_ids.empty());
  const bool excluded = bans || fields->ignore_eos || !fields->forced_ids.empty() ||
                        !fields->allowed_token_ids.empty() || fields->constraint;
  if (excluded || !context.constraints || context.call_mark == CallMark::kNone || tools.size() > kAllowedMax) return;
  Json::array_t listed;
  for (const Json& tool : tools) {
    Json own = Json::object_t{{"name", NameOf(tool)}};
    if (std::find(listed.begin(), listed.end(), own) == listed.end()) listed.push_back(std::move(own));
  }
  Json spec = Json::object_t{{"format", context.tool_format},
                             {"choice", "auto"},
                             {"parallel", choice.parallel},
                             {"loose", true},
                             {"tools", std::move(listed)}};
  if (!context.tool_markers.empty()) spec["markers"] = context.tool_markers;
  Constraint& constraint = fields->constraint.emplace();
  constraint.field = "tools";
  constraint.calls_only = true;
  constraint.from_arguments = context.call_mark == CallMark::kSpelled;
  constraint.spec.kind = ConstraintKind::kToolCalls;
  constraint.spec.text = spec.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The name that an object gives. Nullopt: none.
std::optional<std::string> NameIn(JsonView named, ToolNaming naming) {
  if (!named.is_object() || !named["type"].is_string()) return std::nullopt;
  const std::string_view type = named["type"].string();
  const bool flat = naming == ToolNaming::kFlat;
  if (type != "function" && !(flat && type == "custom")) return std::nullopt;
  const JsonView holder = flat ? named : named["function"];
  if (!holder.is_object() || !holder["name"].is_string()) return std::nullopt;
  return std::string(holder["name"].string());
}

void ReadAllowed(ObjectReader* request, JsonView said, ToolNaming naming, ToolChoice* choice) {
  const JsonView allowed = naming == ToolNaming::kFlat ? said : said["allowed_tools"];
  const JsonView mode = allowed.is_object() ? allowed["mode"] : JsonView();
  const JsonView tools = allowed.is_object() ? allowed["tools"] : JsonView();
  const bool requires_call = mode.is_string() && mode.string() == "required";
  if (!tools.is_array() || !(requires_call || (mode.is_string() && mode.string() == "auto"))) {
    return request->Fail("tool_choice",
                         "A 'tool_choice' of type allowed_tools has a 'mode', auto or required, and 'tools'.");
  }
  choice->kind = requires_call ? Kind::kRequired : Kind::kAuto;
  size_t count = 0;
  for (JsonView tool = tools.first(); tool.valid(); tool = tool.next()) {
    if (++count > kAllowedMax) {
      return request->Fail("tool_choice",
                           absl::StrCat("The 'tools' of a 'tool_choice' may have at most ", kAllowedMax, " members."));
    }
    if (std::optional<std::string> name = NameIn(tool, naming)) {
      choice->allowed.push_back(*std::move(name));
      continue;
    }
    // One that is run by a provider is not offered, and so not called.
    const std::string_view type = tool.is_object() && tool["type"].is_string() ? tool["type"].string() : "";
    if (naming == ToolNaming::kNested || type.empty() || type == "function" || type == "custom") {
      return request->Fail("tool_choice", "The 'tools' of a 'tool_choice' must be names of functions.");
    }
  }
  if (choice->allowed.empty())
    request->Fail("tool_choice", "The 'tools' of a 'tool_choice' name none that can be called here.");
}

// Whether all that may be called are the request's.
bool AreThere(const ToolChoice& choice, const Json& tools) {
  const auto is_there = [&tools](const std::string& name) {
    return std::any_of(tools.begin(), tools.end(), [&name](const Json& tool) { return NameOf(tool) == name; });
  };
  if (choice.kind == Kind::kNamed) return is_there(choice.name);
  return std::all_of(choice.allowed.begin(), choice.allowed.end(), is_there);
}

}  // namespace

ToolChoice ReadToolChoice(ObjectReader* request, ToolNaming naming) {
  ToolChoice choice;
  choice.field = "tool_choice";
  choice.parallel = request->Bool("parallel_tool_calls", true);
  const JsonView said = request->Raw("tool_choice");
  if (said.absent()) return choice;
  if (said.is_string() && (said.string() == "none" || said.string() == "auto" || said.string() == "required")) {
    choice.kind = said.string() == "none" ? Kind::kNone : said.string() == "auto" ? Kind::kAuto : Kind::kRequired;
    return choice;
  }
  const std::string_view type =
      said.is_object() && said["type"].is_string() ? said["type"].string() : std::string_view();
  if (std::optional<std::string> name = NameIn(said, naming)) {
    choice.kind = Kind::kNamed;
    choice.name = *std::move(name);
  } else if (type == "allowed_tools") {
    ReadAllowed(request, said, naming, &choice);
  } else if (!type.empty() && type != "function" && type.size() <= 64) {
    request->FailUnsupported("tool_choice", absl::StrCat("A 'tool_choice' of type ", std::string(type)));
  } else {
    request->Fail("tool_choice",
                  absl::StrCat("'tool_choice' must be none, auto, required, ",
                               naming == ToolNaming::kFlat ? "{\"type\": \"function\", \"name\": …}"
                                                           : "{\"type\": \"function\", \"function\": {\"name\": …}}",
                               " or one of type allowed_tools."));
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
    if (!choice.allowed.empty()) {
      request->Fail(choice.field, absl::StrCat("'", choice.field, "' names functions, and there are no 'tools'."));
    }
    return;
  }
  if (!AreThere(choice, tools)) {
    return request->Fail(choice.field,
                         absl::StrCat("'", choice.field, "' names a function that is none of the 'tools'."));
  }
  const bool chooses = required || !choice.allowed.empty();
  // A form in JSON is that of an answer without calls: it stands beside them.
  const bool has_form = fields->constraint.has_value() && IsJsonForm(fields->constraint->spec.kind);
  if (!chooses && !has_form && std::none_of(tools.begin(), tools.end(), IsStrict)) {
    return HoldCalls(context, tools, choice, fields);
  }
  const std::string field = chooses ? choice.field : has_form ? fields->constraint->field : "tools";
  const std::string what = required   ? absl::StrCat("A '", field, "' that asks for a call")
                           : chooses  ? absl::StrCat("A '", field, "' of type allowed_tools")
                           : has_form ? absl::StrCat("'", field, "' beside 'tools'")
                                      : "A function's 'strict': true";
  if (!context.constraints) return request->FailUnsupported(field, what);
  if (context.tool_format.empty()) {
    return request->Fail(field, absl::StrCat(what, " needs a model whose template shows how it writes calls."),
                         "no_tool_call_format");
  }
  if (fields->constraint.has_value() && !has_form) {
    return request->Fail(
        field, absl::StrCat("'", fields->constraint->field, "' and '", field, "' both say what the answer has to be."),
        "conflicting_constraints");
  }
  if (required && !fields->stop.empty()) {
    return request->Fail(choice.stop_field, absl::StrCat("'", choice.stop_field, "' cannot be combined with a '", field,
                                                         "' that asks for a call."));
  }
  Constraint constraint;
  if (has_form) constraint = *fields->constraint;
  if (!has_form || required) constraint.field = "tools";
  std::string answer;
  if (has_form && !required) {
    answer = constraint.spec.kind == ConstraintKind::kJsonObject ? R"({"type":"object"})" : constraint.spec.text;
    if (!Json::accept(answer))
      return request->Fail(constraint.field, absl::StrCat("'", constraint.field, "' is not JSON."), "invalid_schema");
  }
  // There a call is an answer in JSON, and what is read back could not tell which of both it is.
  if (!answer.empty() && context.calls_are_json_answers) {
    return request->Fail(
        fields->constraint->field,
        absl::StrCat("'", fields->constraint->field, "' beside 'tools' needs a model whose calls are no JSON answers."),
        "conflicting_constraints");
  }
  constraint.spec.kind = ConstraintKind::kToolCalls;
  constraint.spec.text = SpecText(tools, choice, context, answer);
  if (constraint.spec.text.size() > kToolsBytesMax) {
    return request->Fail("tools", absl::StrCat("'tools' have more than ", kToolsBytesMax, " bytes."),
                         "structured_output_too_large");
  }
  fields->constraint = std::move(constraint);
  CheckConstraint(request, *fields);
}

}  // namespace hydrant
