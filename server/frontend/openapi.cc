#include "server/frontend/openapi.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_replace.h"
#include "api/request/request_schemas.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchemaPath = "#/components/schemas/";

// "/v1/chat/completions" is V1ChatCompletions.
std::string SchemaName(std::string_view path) {
  std::string name;
  bool begins = true;
  for (const char c : path) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (letter) name.push_back(begins && c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c);
    begins = !letter;
  }
  return name;
}

Json Operation(const HttpRoute& route, const std::vector<RequestSchema>& schemas) {
  Json operation = {
      {"responses",
       {{"200", {{"description", "The answer."}}}, {"default", {{"$ref", "#/components/responses/Error"}}}}}};
  for (const std::string& name : PathNames(route.path)) {
    operation["parameters"].push_back(
        {{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  const auto has_path = [&](const RequestSchema& schema) { return schema.path == route.path; };
  if (route.method == "POST" && std::any_of(schemas.begin(), schemas.end(), has_path)) {
    const Json schema = {{"$ref", kSchemaPath + SchemaName(route.path)}};
    operation["requestBody"] = {{"required", true}, {"content", {{"application/json", {{"schema", schema}}}}}};
  } else if (route.takes_body() && route.body) {
    operation["requestBody"] = {{"content", {{std::string(route.content_type), Json::object()}}}};
  }
  if (!route.open) operation["security"] = {{{"key", Json::array()}}};
  return operation;
}

}  // namespace

std::string OpenApiJson(const std::vector<HttpRoute>& routes, const RequestContext& context, std::string_view version) {
  std::vector<RequestSchema> schemas = RequestSchemas(context);
  std::erase_if(schemas, [&](const RequestSchema& schema) {
    return std::none_of(routes.begin(), routes.end(),
                        [&](const HttpRoute& route) { return route.path == schema.path; });
  });
  Json document = {{"openapi", "3.1.0"}, {"info", {{"title", "Hydrant"}, {"version", std::string(version)}}}};
  Json& paths = document["paths"];
  for (const HttpRoute& route : routes) {
    if (route.path == "/" || route.path.starts_with("/ui")) continue;
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(c - 'A' + 'a');
    paths[absl::StrReplaceAll(route.path, {{"...}", "}"}})][method] = Operation(route, schemas);
  }
  Json& components = document["components"];
  components["securitySchemes"] = {{"key", {{"type", "http"}, {"scheme", "bearer"}}}};
  const Json text = {{"type", "string"}}, text_or_null = {{"type", {"string", "null"}}};
  const Json error = {
      {"type", "object"},
      {"properties",
       {{"error",
         {{"type", "object"},
          {"properties", {{"message", text}, {"type", text}, {"param", text_or_null}, {"code", text_or_null}}}}}}}};
  components["responses"] = {{"Error",
                              {{"description", "What is wrong, and with which field."},
                               {"content", {{"application/json", {{"schema", error}}}}}}}};
  for (const RequestSchema& schema : schemas) components["schemas"][SchemaName(schema.path)] = schema.schema;
  return document.dump();
}

}  // namespace hydrant
