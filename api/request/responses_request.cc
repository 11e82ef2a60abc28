#include "api/request/responses_request.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/request/refused_fields.h"
#include "api/request/response_items.h"
#include "api/request/responses_tools.h"
#include "api/request/tool_constraint.h"
#include "api/wire/json_body.h"
#include "api/wire/ordered_json.h"
#include "model/text/utf8.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

// Fields of the other endpoints that have another name here, or no place in an answer.
constexpr std::array<OtherField, 21> kResponsesOthers = {{
    {"add_generation_prompt", ""},
    {"add_special_tokens", "", NeutralValue::kFalse},
    {"best_of", ""},
    {"continue_final_message", ""},
    {"documents", ""},
    {"echo", ""},
    {"functions", "tools"},
    {"include_reasoning", ""},
    {"logprobs", "include"},
    {"max_completion_tokens", "max_output_tokens"},
    {"max_tokens", "max_output_tokens"},
    {"messages", "input"},
    {"n", ""},
    {"prompt_logprobs", ""},
    {"reasoning_effort", "reasoning.effort"},
    {"response_format", "text.format"},
    {"return_token_ids", ""},
    {"return_tokens_as_token_ids", ""},
    {"separate_reasoning", ""},
    {"session_append", "previous_response_id"},
    {"system", "instructions"},
}};

// Fields of this endpoint that are of other servers' where they come to another one.
constexpr std::array<std::string_view, 8> kResponsesOwn = {
    "metadata", "prompt_cache_key", "reasoning", "safety_identifier", "service_tier", "store", "text", "user"};

void RefuseResponsesOthers(ObjectReader* request) {
  const ObjectReader::Unlogged unlogged(request);
  RefuseOtherFields(request, "/v1/responses", kResponsesOthers);
  if (request->failed()) return;
  // What would have to be run, kept or chosen here.
  for (const std::string_view name : {"context_management", "moderation", "prompt"}) {
    const JsonView value = request->Raw(name);
    if (value.absent() || (value.is_array() && value.size() == 0)) continue;
    return request->FailUnsupported(name, absl::StrCat("'", std::string(name), "' on /v1/responses"));
  }
  if (request->Bool("background", false)) request->FailUnsupported("background", "'background': true");
}

// A member that is repeated in the answer: a string, or null.
Json EchoedString(ObjectReader* request, std::string_view name, size_t bytes_max) {
  if (!request->Has(name)) return nullptr;
  return request->String(name, "", bytes_max, /*identifier=*/true);
}

}  // namespace

// OpenAI's limits: 16 pairs of 64 and 512 characters.
Json ReadMetadata(ObjectReader* request) {
  constexpr uint32_t kPairsMax = 16;
  constexpr int32_t kKeyMax = 64, kValueMax = 512;
  const JsonView metadata = request->Raw("metadata");
  Json read = Json::object();
  if (metadata.absent()) return read;
  bool fits = metadata.is_object() && metadata.size() <= kPairsMax;
  for (JsonView pair = fits ? metadata.first() : JsonView(); pair.valid() && fits; pair = pair.next()) {
    fits = pair.is_string() && CountCharacters(pair.key()) <= kKeyMax && CountCharacters(pair.string()) <= kValueMax;
    if (fits) read[std::string(pair.key())] = std::string(pair.string());
  }
  if (!fits) {
    request->Fail("metadata",
                  "'metadata' must be an object of at most 16 strings, with names of at most 64 characters and "
                  "values of at most 512.");
  }
  return read;
}

namespace {

void ReadInclude(ObjectReader* request, ResponsesRequest* responses) {
  // The others ask for more of items that there are none of here.
  static constexpr std::array<std::string_view, 8> kKnown = {
      "message.output_text.logprobs",          "reasoning.encrypted_content", "code_interpreter_call.outputs",
      "computer_call_output.output.image_url", "file_search_call.results",    "message.input_image.image_url",
      "web_search_call.action.sources",        "web_search_call.results"};
  const JsonView include = request->Raw("include");
  if (include.absent()) return;
  if (!include.is_array()) return request->Fail("include", "'include' must be an array of strings.", "invalid_type");
  for (JsonView one = include.first(); one.valid(); one = one.next()) {
    if (!one.is_string() || std::find(kKnown.begin(), kKnown.end(), one.string()) == kKnown.end()) {
      return request->Fail("include", "'include' has a member that this server does not know.");
    }
    if (one.string() == kKnown[0]) responses->logprobs = std::max(responses->logprobs, 0);
    if (one.string() == kKnown[1]) responses->encrypts_reasoning = true;
  }
}

// Returns the member `text` of the answer.
Json ReadText(ObjectReader* request) {
  Json echo = {{"format", {{"type", "text"}}}};
  if (!request->Has("text")) return echo;
  ObjectReader text = request->Object("text");
  text.RefuseOthers({"format", "verbosity"});
  // What it asks for ReadGenerationFields reads.
  if (text.Has("format")) echo["format"] = ReadOrderedJson(request, "text.format", text.Raw("format"));
  const std::string verbosity = text.String("verbosity", "", 16, /*identifier=*/true);
  if (!verbosity.empty()) echo["verbosity"] = verbosity;
  return echo;
}

void RefuseOtherThan(std::string_view value, std::string_view name, ObjectReader* reader) {
  if (reader->String(name, value, 16, /*identifier=*/true) == value) return;
  reader->FailUnsupported(name, absl::StrCat("A '", reader->Path(name), "' other than ", std::string(value)));
}

// Returns the member `reasoning` of the answer.
Json ReadReasoning(ObjectReader* request, Conversation* conversation) {
  Json echo = {{"effort", nullptr}, {"summary", nullptr}};
  if (!request->Has("reasoning")) return echo;
  ObjectReader reasoning = request->Object("reasoning");
  reasoning.RefuseOthers({"context", "effort", "generate_summary", "mode", "summary"});
  // Which thoughts the model sees again is its template's to say, and there is one way to think.
  RefuseOtherThan("auto", "context", &reasoning);
  RefuseOtherThan("standard", "mode", &reasoning);
  const std::string effort = ReadEffort(&reasoning, "effort", conversation);
  std::string summary = reasoning.String("summary", "", 16, /*identifier=*/true);
  if (summary.empty()) summary = reasoning.String("generate_summary", "", 16, /*identifier=*/true);
  if (!effort.empty()) echo["effort"] = effort;
  if (!summary.empty()) echo["summary"] = summary;
  return echo;
}

void ReadPlace(ObjectReader* request, const RequestContext& context, ResponsesRequest* responses) {
  const size_t bytes_max = context.limits.identifier_bytes_max;
  responses->previous_response_id = request->String("previous_response_id", "", bytes_max, /*identifier=*/true);
  const JsonView conversation = request->Raw("conversation");
  if (conversation.is_object()) {
    ObjectReader named = request->Object("conversation");
    responses->conversation_id = named.String("id", "", bytes_max, /*identifier=*/true);
    if (responses->conversation_id.empty()) named.Fail("id", "'conversation.id' is required.", "missing_field");
  } else {
    responses->conversation_id = request->String("conversation", "", bytes_max, /*identifier=*/true);
  }
  if (!responses->previous_response_id.empty() && !responses->conversation_id.empty()) {
    request->Fail("conversation", "'conversation' cannot be combined with 'previous_response_id'.");
  }
  if (request->Has("store")) responses->store = request->Bool("store", true);
  if (responses->store == false && !responses->conversation_id.empty()) {
    request->FailUnsupported("store", "'store': false beside 'conversation', which keeps what is said in it,");
  }
}

// The text of an object's members, without its braces.
std::string MembersOf(const Json& object) {
  const std::string text = object.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

void ReadLength(ObjectReader* reader, const RequestContext& context, ResponsesRequest* request) {
  const std::optional<int64_t> most =
      reader->OptionalInteger("max_output_tokens", 1, std::numeric_limits<int32_t>::max());
  const int32_t own_most = context.max_tokens_max > 0 ? context.max_tokens_max : std::numeric_limits<int32_t>::max();
  if (most.has_value() && *most > own_most) {
    reader->Fail("max_output_tokens",
                 absl::StrCat("'max_output_tokens' may be at most ", own_most, " for this tenant (max_tokens_max)."));
  }
  request->max_tokens = most.has_value() ? static_cast<int32_t>(*most) : kRestOfContext;
  request->fits_context = most.has_value();
}

void ReadTruncation(ObjectReader* reader, ResponsesRequest* request) {
  const std::string truncation = reader->String("truncation", "disabled", 16, /*identifier=*/true);
  request->truncates = truncation == "auto";
  if (!request->truncates && truncation != "disabled") {
    reader->Fail("truncation", "'truncation' must be auto or disabled.");
  }
}

Json OrNull(const std::optional<int64_t>& value) { return value.has_value() ? Json(*value) : Json(nullptr); }

void ReadResponses(ObjectReader* reader, const RequestContext& context, JsonBudget* budget, ResponsesRequest* request) {
  const size_t id_bytes_max = context.limits.identifier_bytes_max;
  RefuseResponsesOthers(reader);
  ReadPlace(reader, context, request);
  request->instructions = reader->String("instructions", "", std::string::npos, /*identifier=*/false);
  request->items = ReadItems(reader, "input", context, budget);
  ResponsesTools tools = ReadResponsesTools(reader);
  request->conversation.tools = std::move(tools.offered);
  request->custom_tools = std::move(tools.custom);
  request->tools_not_offered = std::move(tools.not_offered);
  const ToolChoice choice = ReadToolChoice(reader, ToolNaming::kFlat);
  const Json said_choice =
      reader->Has("tool_choice") ? ReadOrderedJson(reader, "tool_choice", reader->Raw("tool_choice")) : Json("auto");
  // A model that is not told of tools does not call them.
  if (choice.kind == ToolChoice::Kind::kNone) request->conversation.tools = nullptr;
  request->TakeToolChoice(choice);
  const std::optional<int64_t> calls_max = reader->OptionalInteger("max_tool_calls", 1, 1 << 30);
  request->logprobs = -1;
  const std::optional<int64_t> top = reader->OptionalInteger("top_logprobs", 0, context.limits.logprobs_max);
  if (top.value_or(0) > 0) request->logprobs = static_cast<int32_t>(*top);
  ReadInclude(reader, request);
  ReadTruncation(reader, request);
  const Json text = ReadText(reader), reasoning = ReadReasoning(reader, &request->conversation);
  ReadTemplateFields(reader, &request->conversation);
  ReadLength(reader, context, request);
  request->add_special_tokens = false;
  ReadGenerationFields(reader, context, request);
  ReadToolConstraint(reader, context, request->conversation.tools, choice, request);
  request->include_usage = true;  // with which every stream ends
  const Json user = EchoedString(reader, "user", id_bytes_max);
  const Json safety = EchoedString(reader, "safety_identifier", id_bytes_max);
  const Json cache_key = EchoedString(reader, "prompt_cache_key", id_bytes_max);
  reader->String("service_tier", "", 32, /*identifier=*/true);  // there is one
  Json metadata = ReadMetadata(reader);
  RefuseGenerationFields(reader, kResponsesOwn);
  if (reader->failed()) return;
  const Json instructions = reader->Has("instructions") ? Json(request->instructions) : Json(nullptr);
  Json head = {{"instructions", instructions}, {"tools", std::move(tools.echoed)}};
  // The prompt says nothing of tools then.
  const bool without_tools = choice.kind == ToolChoice::Kind::kNone;
  if (without_tools) head["tool_choice"] = said_choice;
  request->head = MembersOf(head);
  const auto real = [](float value) { return std::strtod(absl::StrCat(value).c_str(), nullptr); };
  Json echo = without_tools ? Json::object() : Json{{"tool_choice", said_choice}};
  echo.update(Json{
      {"truncation", request->truncates ? "auto" : "disabled"},
      {"parallel_tool_calls", choice.parallel},
      {"text", text},
      {"top_p", real(request->top_p)},
      {"presence_penalty", real(request->presence_penalty)},
      {"frequency_penalty", real(request->frequency_penalty)},
      {"top_logprobs", top.value_or(0)},
      {"temperature", real(request->temperature)},
      {"reasoning", reasoning},
      {"user", user},
      {"max_output_tokens", request->max_tokens > 0 ? Json(request->max_tokens) : Json(nullptr)},
      {"max_tool_calls", OrNull(calls_max)},
      {"background", false},
      {"service_tier", "default"},
      {"metadata", std::move(metadata)},
      {"safety_identifier", safety},
      {"prompt_cache_key", cache_key},
  });
  request->echo = MembersOf(echo);
}

}  // namespace

ApiResult<ResponsesRequest> ParseResponsesRequest(std::string_view body, const RequestContext& context) {
  return ParseBody<ResponsesRequest>(body, context,
                                     [&](ObjectReader* reader, JsonBudget* budget, ResponsesRequest* request) {
                                       ReadResponses(reader, context, budget, request);
                                     });
}

}  // namespace hydrant
