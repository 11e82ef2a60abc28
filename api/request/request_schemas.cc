#include "api/request/request_schemas.h"

#include <cassert>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "api/request/chat_request.h"
#include "api/request/completion_request.h"
#include "api/request/embedding_request.h"
#include "api/request/messages_request.h"
#include "api/request/responses_request.h"
#include "api/request/tokenize.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

template <auto kParse>
std::optional<ApiError> ErrorOf(std::string_view body, const RequestContext& context) {
  const auto parsed = kParse(body, context);
  if (parsed.ok()) return std::nullopt;
  return parsed.error();
}

constexpr const char* kChat =
    R"({"messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":{},"kv":{},"session_id":"s"})";

}  // namespace

std::span<const RequestReader> RequestReaders() {
  static const std::vector<RequestReader> readers = {
      {"/v1/completions",
       ErrorOf<ParseCompletionRequest>,
       {R"({"prompt":"x","stream":true,"stream_options":{},"kv":{},"session_id":"s"})"}},
      {"/v1/chat/completions", ErrorOf<ParseChatRequest>, {kChat}},
      {"/v1/chat/completions/render", ErrorOf<ParseChatRequest>, {kChat}},
      {"/apply-template", ErrorOf<ParseChatRequest>, {kChat}},
      {"/v1/messages",
       ErrorOf<ParseMessagesRequest>,
       {R"({"max_tokens":64,"messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"auto"},"kv":{},)"
        R"("thinking":{"type":"enabled","budget_tokens":8},"output_config":{},"session_id":"s"})"}},
      {"/v1/messages/count_tokens",
       ErrorOf<ParseCountTokensRequest>,
       {R"({"messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"auto"},"output_config":{},)"
        R"("thinking":{"type":"enabled","budget_tokens":8}})"}},
      {"/v1/responses",
       ErrorOf<ParseResponsesRequest>,
       {R"({"input":"x","stream":true,"stream_options":{},"kv":{},"session_id":"s","reasoning":{},"text":{}})"}},
      {"/v1/responses/input_tokens", ErrorOf<ParseResponsesRequest>, {R"({"input":"x","reasoning":{},"text":{}})"}},
      {"/v1/embeddings", ErrorOf<ParseEmbeddingRequest>, {R"({"input":"x"})"}},
      {"/tokenize",
       ErrorOf<ParseTokenizeRequest>,
       {R"({"prompt":"x"})", R"({"messages":[{"role":"user","content":"x"}]})"}},
      {"/detokenize", ErrorOf<ParseDetokenizeRequest>, {R"({"tokens":[]})"}},
  };
  return readers;
}

namespace {

// A whole number without a point.
Json Bound(double value) {
  constexpr double kBeyond = 0x1p63;  // of integers of 64 bits
  if (value >= -kBeyond && value < kBeyond && value == std::trunc(value)) return static_cast<int64_t>(value);
  return value;
}

Json SchemaOf(const FieldNote& note) {
  switch (note.kind) {
    case FieldKind::kAny:
      return Json::object();
    case FieldKind::kBoolean:
      return {{"type", "boolean"}};
    case FieldKind::kInteger:
      return {{"type", "integer"}, {"minimum", Bound(note.min)}, {"maximum", Bound(note.max)}};
    case FieldKind::kNumber:
      return {{"type", "number"},
              {note.min_open ? "exclusiveMinimum" : "minimum", Bound(note.min)},
              {"maximum", Bound(note.max)}};
    case FieldKind::kString: {
      Json schema = {{"type", "string"}};
      if (note.most > 0) schema["maxLength"] = note.most;
      return schema;
    }
    case FieldKind::kStrings: {
      const Json text = {{"type", "string"}, {"minLength", 1}, {"maxLength", note.most}};
      return {{"anyOf", {text, {{"type", "array"}, {"items", text}}}}};
    }
    case FieldKind::kTokenIds: {
      const Json id = {{"type", "integer"}, {"minimum", 0}, {"maximum", Bound(note.max)}};
      Json schema = {{"type", "array"}, {"items", id}};
      if (note.most > 0) schema["maxItems"] = note.most;
      return schema;
    }
    case FieldKind::kObject:
      return {{"type", "object"}};
  }
  return Json::object();
}

// Paths in order have a parent before its members.
Json SchemaOf(const FieldLog& log) {
  Json root = {{"type", "object"}, {"properties", Json::object()}};
  for (const auto& [path, note] : log.fields()) {
    Json* at = &root;
    std::string_view rest = path;
    for (size_t dot; (dot = rest.find('.')) != std::string_view::npos; rest.remove_prefix(dot + 1)) {
      at = &(*at)["properties"][std::string(rest.substr(0, dot))];
    }
    (*at)["properties"][std::string(rest)] = SchemaOf(note);
  }
  return root;
}

bool IsRequired(const RequestReader& reader, const std::string& member, const RequestContext& context) {
  Json body = Json::parse(reader.bodies.front());
  body.erase(member);
  const std::optional<ApiError> error = reader.check(body.dump(), context);
  return error.has_value() && error->code == "missing_field" && error->param == member;
}

}  // namespace

std::vector<RequestSchema> RequestSchemas(const RequestContext& context) {
  std::vector<RequestSchema> schemas;
  RequestContext quiet = context;
  quiet.log = nullptr;
  for (const RequestReader& reader : RequestReaders()) {
    FieldLog log;
    RequestContext logging = context;
    logging.log = &log;
    for (const char* body : reader.bodies) {
      [[maybe_unused]] const std::optional<ApiError> error = reader.check(body, logging);
      assert(!error.has_value());
    }
    Json schema = SchemaOf(log);
    Json required = Json::array();
    const Json first = Json::parse(reader.bodies.front());
    for (const auto& member : first.items()) {
      if (IsRequired(reader, member.key(), quiet)) required.push_back(member.key());
    }
    // Either of two members may be there.
    if (reader.bodies.size() > 1) required.clear();
    if (!required.empty()) schema["required"] = std::move(required);
    schemas.push_back({reader.path, std::move(schema)});
  }
  return schemas;
}

}  // namespace hydrant
