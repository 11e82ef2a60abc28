#include "api/request/constraint_fields.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/request/refused_fields.h"
#include "api/wire/json_text.h"

namespace hydrant {
namespace {

// Whether `size`, a number of bytes or of `what`, is allowed; else the request fails.
bool Fits(ObjectReader* request, const std::string& path, size_t size, size_t most, std::string_view what = "bytes") {
  if (size <= most) return true;
  request->Fail(path, absl::StrCat("'", path, "' may have at most ", most, " ", std::string(what), "."),
                "structured_output_too_large");
  return false;
}

// The code for a value that is not what it has to be.
ErrorCode<400> MissingOrWrong(JsonView value) {
  return value.absent() ? ErrorCode<400>("missing_field") : ErrorCode<400>("invalid_type");
}

Constraint Of(ConstraintKind kind, std::string text, const std::string& path) {
  Constraint constraint;
  constraint.spec.kind = kind;
  constraint.spec.text = std::move(text);
  constraint.field = path;
  return constraint;
}

// A schema as JSON, or as a text of JSON.
std::optional<Constraint> ReadSchema(ObjectReader* request, JsonView schema, const std::string& path) {
  std::optional<std::string> text;
  if (schema.is_string()) {
    text = std::string(schema.string());
  } else if (schema.is_object() || schema.is_bool()) {
    text = JsonText(schema);
    if (!text.has_value()) request->Fail(path, QuotedField(path) + " holds an integer of more than 64 bits.");
  } else if (schema.absent()) {
    request->Fail(path, QuotedField(path) + " is required.", "missing_field");
  } else {
    request->Fail(path, QuotedField(path) + " must be a JSON schema: an object, or its text.", "invalid_type");
  }
  if (!text.has_value() || !Fits(request, path, text->size(), kConstraintBytesMax)) return std::nullopt;
  return Of(ConstraintKind::kJsonSchema, *std::move(text), path);
}

std::optional<Constraint> ReadRegex(ObjectReader* request, JsonView regex, const std::string& path) {
  if (!regex.is_string()) {
    request->Fail(path, QuotedField(path) + " must be a string.", MissingOrWrong(regex));
    return std::nullopt;
  }
  if (!Fits(request, path, regex.string().size(), kRegexBytesMax)) return std::nullopt;
  return Of(ConstraintKind::kRegex, std::string(regex.string()), path);
}

std::optional<Constraint> ReadChoice(ObjectReader* request, JsonView choices, const std::string& path) {
  Constraint constraint = Of(ConstraintKind::kChoice, "", path);
  const auto fail = [&](std::string message, ErrorCode<400> code) {
    request->Fail(path, std::move(message), code);
    return std::nullopt;
  };
  if (!choices.is_array()) return fail(QuotedField(path) + " must be an array of strings.", "invalid_type");
  if (choices.size() == 0) return fail(QuotedField(path) + " must not be empty.", kInvalidValue);
  if (!Fits(request, path, choices.size(), kConstraintChoicesMax, "members")) return std::nullopt;
  size_t bytes = 0;
  for (JsonView choice = choices.first(); choice.valid(); choice = choice.next()) {
    if (!choice.is_string()) return fail(QuotedField(path) + " must be an array of strings.", "invalid_type");
    if (choice.string().empty()) return fail(absl::StrCat("A member of '", path, "' is empty."), kInvalidValue);
    bytes += choice.string().size();
    constraint.spec.choices.emplace_back(choice.string());
  }
  if (!Fits(request, path, bytes, kConstraintBytesMax)) return std::nullopt;
  return constraint;
}

// {"name", "schema", "strict", "description"}
std::optional<Constraint> ReadNamedSchema(ObjectReader* request, JsonView named, const std::string& path) {
  const auto check = [&](const char* member, bool fits, const char* what) {
    if (!named[member].absent() && !fits) {
      request->Fail(absl::StrCat(path, ".", member), absl::StrCat("'", path, ".", member, "' must be ", what, "."),
                    "invalid_type");
    }
  };
  check("name", named["name"].is_string(), "a string");
  check("description", named["description"].is_string(), "a string");
  check("strict", named["strict"].is_bool(), "true or false");
  const std::string of_schema = path + ".schema";
  if (!request->failed() && named["strict"].is_bool() && named["strict"].boolean()) {
    if (std::string fault = StrictFault(named["schema"]); !fault.empty()) {
      request->Fail(of_schema, absl::StrCat("'", of_schema, "' is not what 'strict' asks for: ", fault, "."));
    }
  }
  return request->failed() ? std::nullopt : ReadSchema(request, named["schema"], of_schema);
}

// As JSON, or as a text of JSON.
std::optional<Constraint> ReadStructuralTag(ObjectReader* request, JsonView tag, const std::string& path) {
  std::optional<Constraint> constraint = ReadSchema(request, tag, path);
  if (constraint.has_value()) constraint->spec.kind = ConstraintKind::kStructuralTag;
  return constraint;
}

// In llama.cpp's notation, where an empty one is none.
std::optional<Constraint> ReadGrammar(ObjectReader* request, JsonView grammar, const std::string& path) {
  if (!grammar.is_string()) request->Fail(path, QuotedField(path) + " must be a string.", "invalid_type");
  if (!grammar.is_string() || grammar.string().empty()) return std::nullopt;
  if (!Fits(request, path, grammar.string().size(), kConstraintBytesMax)) return std::nullopt;
  return Of(ConstraintKind::kGrammar, std::string(grammar.string()), path);
}

std::optional<Constraint> ReadAnyObject(ObjectReader* request, JsonView value, const std::string& path) {
  if (!value.is_bool()) request->Fail(path, QuotedField(path) + " must be true or false.", "invalid_type");
  if (!value.is_bool() || !value.boolean()) return std::nullopt;
  return Of(ConstraintKind::kJsonObject, "", path);
}

using Reader = std::optional<Constraint> (*)(ObjectReader* request, JsonView value, const std::string& path);

struct NamedReader {
  const char* name;
  Reader read;
};

constexpr std::array<NamedReader, 6> kStructuredOutputs = {{
    {"json", ReadSchema},
    {"regex", ReadRegex},
    {"choice", ReadChoice},
    {"grammar", ReadGrammar},
    {"structural_tag", ReadStructuralTag},
    {"json_object", ReadAnyObject},
}};

// By what servers had and have them; each is a whole constraint.
constexpr std::array<NamedReader, 11> kAliases = {{
    {"response_format", ReadTextFormat},
    {"output_format", ReadTextFormat},  // of /v1/messages, before `output_config.format`
    {"guided_json", ReadSchema},
    {"guided_regex", ReadRegex},
    {"guided_choice", ReadChoice},
    {"guided_grammar", ReadGrammar},
    {"json_schema", ReadSchema},
    {"regex", ReadRegex},
    {"grammar", ReadGrammar},
    {"ebnf", ReadGrammar},
    {"structural_tag", ReadStructuralTag},
}};

// Members of `structured_outputs` that say how, not what.
struct Options {
  std::optional<int32_t> white_space_max;
  bool close_at_max_tokens = false;
  bool in_reasoning = false;
  bool unknown_formats_pass = false;
};

Options ReadOptions(ObjectReader* members) {
  members->RefuseOthers({"json", "regex", "choice", "grammar", "structural_tag", "json_object", "max_whitespace",
                         "close_at_max_tokens", "in_reasoning", "format", "disable_any_whitespace", "disable_fallback",
                         "disable_additional_properties", "whitespace_pattern"});
  Options options;
  if (const auto most = members->OptionalInteger("max_whitespace", 0, kWhiteSpaceMax)) {
    options.white_space_max = static_cast<int32_t>(*most);
  }
  if (members->Bool("disable_any_whitespace", false)) options.white_space_max = 0;
  // Nothing falls back here: what cannot be enforced is refused.
  members->Bool("disable_fallback", true);
  for (const char* name : {"disable_additional_properties", "whitespace_pattern"}) {
    const JsonView value = members->Raw(name);
    const bool neutral = value.absent() || (value.is_bool() && !value.boolean());
    if (!neutral) members->FailUnsupported(name, QuotedField(members->Path(name)));
  }
  options.close_at_max_tokens = members->Bool("close_at_max_tokens", false);
  options.in_reasoning = members->Bool("in_reasoning", false);
  const std::string format = members->String("format", "enforce", 16, /*identifier=*/true);
  if (format != "enforce" && format != "annotation") {
    members->Fail("format", absl::StrCat("'", members->Path("format"), "' must be enforce or annotation."));
  }
  options.unknown_formats_pass = format == "annotation";
  return options;
}

// Keeps the first of several; the second is an error.
struct Found {
  ObjectReader* request;
  std::optional<Constraint> first;

  void Add(std::optional<Constraint> constraint) {
    if (!constraint.has_value() || request->failed()) return;
    if (!first.has_value()) {
      first = std::move(constraint);
      return;
    }
    request->Fail(constraint->field,
                  absl::StrCat("'", first->field, "' and '", constraint->field,
                               "' both say what the answer has to be: send one of them."),
                  "conflicting_constraints");
  }
};

// Pointers into a schema have their own escapes.
void AppendPointer(std::string* pointer, std::string_view name) {
  pointer->push_back('/');
  for (const char c : name) {
    if (c == '~' || c == '/') {
      pointer->append(c == '~' ? "~0" : "~1");
    } else {
      pointer->push_back(c);
    }
  }
}

std::string FaultBelow(JsonView schema, const std::string& pointer);

std::string FaultAmong(JsonView members, const std::string& pointer) {
  size_t i = 0;
  for (JsonView member = members.first(); member.valid(); member = member.next(), ++i) {
    std::string inner = pointer;
    AppendPointer(&inner, members.is_object() ? member.key() : std::to_string(i));
    if (std::string fault = FaultBelow(member, inner); !fault.empty()) return fault;
  }
  return "";
}

bool SaysObject(JsonView type) {
  if (type.is_string()) return type.string() == "object";
  bool says = false;
  for (JsonView one = type.is_array() ? type.first() : JsonView(); one.valid(); one = one.next()) {
    says |= one.is_string() && one.string() == "object";
  }
  return says;
}

std::string ObjectFault(JsonView schema, const std::string& pointer) {
  const std::string where = absl::StrCat(" at '", pointer, "'");
  const JsonView others = schema["additionalProperties"];
  if (!others.is_bool() || others.boolean()) return "'additionalProperties' must be false" + where;
  const JsonView properties = schema["properties"], required = schema["required"];
  std::vector<std::string_view> names;
  for (JsonView name = required.is_array() ? required.first() : JsonView(); name.valid(); name = name.next()) {
    if (name.is_string()) names.push_back(name.string());
  }
  std::sort(names.begin(), names.end());
  for (JsonView one = properties.is_object() ? properties.first() : JsonView(); one.valid(); one = one.next()) {
    if (!std::binary_search(names.begin(), names.end(), one.key())) {
      return "'required' must name every property" + where;
    }
  }
  return "";
}

// The recursion is bounded by the depth of a body.
std::string FaultBelow(JsonView schema, const std::string& pointer) {
  if (!schema.is_object()) return "";
  if (SaysObject(schema["type"]) || schema["properties"].is_object()) {
    if (std::string fault = ObjectFault(schema, pointer); !fault.empty()) return fault;
  }
  for (const char* name : {"properties", "$defs", "definitions", "anyOf", "allOf", "prefixItems"}) {
    const JsonView inner = schema[name];
    if (!inner.is_object() && !inner.is_array()) continue;
    if (std::string fault = FaultAmong(inner, absl::StrCat(pointer, "/", name)); !fault.empty()) return fault;
  }
  return FaultBelow(schema["items"], pointer + "/items");
}

}  // namespace

std::string StrictFault(JsonView schema) {
  if (!schema.is_object() || !schema["type"].is_string() || schema["type"].string() != "object") {
    return "the root must be of type object";
  }
  return FaultBelow(schema, "");
}

namespace {

// What a type does not have would be dropped in silence, and the answer held to something else.
bool HasNoOthers(ObjectReader* request, JsonView object, const std::string& path,
                 std::initializer_list<std::string_view> known) {
  std::optional<ApiError> error;
  ObjectReader(object, path + ".", &error).RefuseOthers(known);
  if (error.has_value()) request->FailWith(*std::move(error));
  return !request->failed();
}

// OpenAI's chats have the schema one level deeper than its responses and Anthropic.
std::optional<Constraint> ReadSchemaFormat(ObjectReader* request, JsonView format, const std::string& path) {
  const std::string deeper = path + ".json_schema";
  const JsonView inner = format["json_schema"];
  if (inner.absent() && (path != "response_format" || !format["schema"].absent())) {
    if (!HasNoOthers(request, format, path, {"type", "name", "description", "schema", "strict"})) return std::nullopt;
    return ReadNamedSchema(request, format, path);
  }
  if (!inner.is_object()) {
    request->Fail(deeper, QuotedField(deeper) + " must be an object with a 'schema'.", MissingOrWrong(inner));
    return std::nullopt;
  }
  if (!HasNoOthers(request, format, path, {"type", "json_schema"})) return std::nullopt;
  return ReadNamedSchema(request, inner, deeper);
}

}  // namespace

std::optional<Constraint> ReadTextFormat(ObjectReader* request, JsonView format, const std::string& path) {
  if (!format.is_object()) {
    if (format.valid()) request->Fail(path, QuotedField(path) + " must be an object.", "invalid_type");
    return std::nullopt;
  }
  const JsonView type = format["type"];
  if (!type.is_string()) {
    request->Fail(path + ".type", absl::StrCat("'", path, ".type' must be a string."), MissingOrWrong(type));
    return std::nullopt;
  }
  const std::string_view name = type.string();
  const auto alone = [&](std::initializer_list<std::string_view> known) {
    return HasNoOthers(request, format, path, known);
  };
  if (name == "text") {
    alone({"type"});
    return std::nullopt;
  }
  if (name == "json_schema") return ReadSchemaFormat(request, format, path);
  if (name == "json_object") {
    if (!alone({"type", "schema"})) return std::nullopt;
    const JsonView schema = format["schema"];  // llama.cpp's
    if (!schema.absent()) return ReadSchema(request, schema, path + ".schema");
    return Of(ConstraintKind::kJsonObject, "", path);
  }
  if (name == "regex") {
    // Some have called it by its kind, some by what it is.
    const char* member = format["regex"].absent() && !format["pattern"].absent() ? "pattern" : "regex";
    if (!alone({"type", member})) return std::nullopt;
    return ReadRegex(request, format[member], absl::StrCat(path, ".", member));
  }
  if (name == "structural_tag") return ReadStructuralTag(request, format, path);
  if (name == "grammar") {
    if (!alone({"type", "grammar"})) return std::nullopt;
    return ReadGrammar(request, format["grammar"], path + ".grammar");
  }
  request->Fail(
      path + ".type",
      absl::StrCat("'", path, ".type' must be text, json_object, json_schema, regex, grammar or structural_tag."));
  return std::nullopt;
}

std::optional<Constraint> ReadConstraint(ObjectReader* request) {
  Found found{request, std::nullopt};
  for (const NamedReader& alias : kAliases) {
    if (request->Has(alias.name)) found.Add(alias.read(request, request->Raw(alias.name), alias.name));
  }
  for (const std::string_view name : {"output_config", "text"}) {
    if (!request->Has(name)) continue;
    ObjectReader object = request->Object(name);
    if (object.Has("format")) found.Add(ReadTextFormat(request, object.Raw("format"), object.Path("format")));
  }
  Options options;
  if (request->Has("structured_outputs")) {
    ObjectReader members = request->Object("structured_outputs");
    options = ReadOptions(&members);
    for (const NamedReader& one : kStructuredOutputs) {
      if (!members.Has(one.name)) continue;
      found.Add(one.read(request, members.Raw(one.name), members.Path(one.name)));
    }
    if (!found.first.has_value()) {
      members.Fail(
          "json", "'structured_outputs' must have one of json, regex, choice, grammar, structural_tag and json_object.",
          "missing_field");
    }
  }
  // Servers had several engines to choose from.
  request->String("guided_decoding_backend", "", 64, /*identifier=*/true);
  for (const char* name : {"guided_whitespace_pattern", "whitespace_pattern"}) {
    if (request->Has(name)) request->FailUnsupported(name, QuotedField(name));
  }
  if (request->failed() || !found.first.has_value()) return std::nullopt;
  Constraint& constraint = *found.first;
  if (options.white_space_max.has_value()) constraint.spec.white_space_max = *options.white_space_max;
  constraint.spec.unknown_formats_pass = options.unknown_formats_pass;
  constraint.close_at_max_tokens = options.close_at_max_tokens;
  constraint.in_reasoning = options.in_reasoning;
  return std::move(found.first);
}

}  // namespace hydrant
