#include "server/frontend/openapi.h"

#include <gtest/gtest.h>

#include <string>

#include "nlohmann/json.hpp"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

TEST(OpenApi, HasEveryRouteAndSchemasOfTheirBodies) {
  TestServer server;
  const RawClient::Response response = server.Ask(Get("/openapi.json"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Field("content-type"), "application/json");
  const nlohmann::json document = nlohmann::json::parse(response.body);
  EXPECT_EQ(document["info"]["version"], "1.2.3");
  const nlohmann::json& paths = document["paths"];
  for (const char* path :
       {"/v1/models", "/v1/models/{model}", "/v1/sessions/{session_id}", "/v1/sessions/{session_id}/kv",
        "/v1/responses/{response_id}/input_items", "/v1/conversations/{conversation_id}/items/{item_id}", "/health",
        "/metrics", "/openapi.json"}) {
    EXPECT_TRUE(paths.contains(path) && paths[path].contains("get")) << path;
  }
  const nlohmann::json& names = paths["/v1/conversations/{conversation_id}/items/{item_id}"]["get"]["parameters"];
  ASSERT_EQ(names.size(), 2);
  EXPECT_EQ(names[1]["name"], "item_id");
  for (const auto& path : paths.items()) {
    EXPECT_FALSE(path.key().starts_with("/ui")) << path.key();
    // Bodies without a schema: none at all, and conversations', whose reader is of no generation.
    const bool without =
        path.key() == "/ping" || path.key().ends_with("/cancel") || path.key().starts_with("/v1/conversations");
    if (!path.value().contains("post") || without) continue;
    const std::string reference =
        path.value()["post"]["requestBody"]["content"]["application/json"]["schema"].value("$ref", "");
    ASSERT_TRUE(reference.starts_with("#/components/schemas/")) << path.key() << " has no schema: request_schemas.cc";
    EXPECT_TRUE(document["components"]["schemas"].contains(reference.substr(21))) << reference;
  }
}

}  // namespace
}  // namespace hydrant
