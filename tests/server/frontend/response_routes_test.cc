// What is kept of responses and conversations, over HTTP.
#include "server/frontend/response_routes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

using Json = nlohmann::json;

std::string Request(const std::string& method, const std::string& path, const std::string& body = "") {
  return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

class Kept : public testing::Test {
 protected:
  Json Ask(const std::string& method, const std::string& path, const std::string& body = "", int status = 200) {
    const RawClient::Response response =
        method == "POST" ? server_.Ask(Request(method, path, body))
                         : server_.Ask(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(response.status, status) << path << response.body.substr(0, 1000);
    return Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  }
  std::string CodeOf(const std::string& method, const std::string& path, int status, const std::string& body = "{}") {
    return Ask(method, path, body, status)["error"]["code"];
  }

  static TestServerOptions Options() {
    TestServerOptions options;
    std::vector<std::string> warnings;
    options.http.context.chat = MakeChatSetup({"{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}", ""},
                                              "<bos>", "<eos>", "auto", &warnings);
    return options;
  }

  TestServer server_{Options()};
};

TEST_F(Kept, WhatIsNotThereIsToldByName) {
  EXPECT_EQ(CodeOf("GET", "/v1/responses/resp_1", 404), "response_not_found");
  EXPECT_EQ(CodeOf("GET", "/v1/responses/resp_0123456789abcdef_s/input_items", 404), "response_not_found");
  EXPECT_EQ(CodeOf("DELETE", "/v1/responses/resp_1", 404), "response_not_found");
  EXPECT_EQ(CodeOf("POST", "/v1/responses/resp_1/cancel", 400), "unsupported");
  EXPECT_EQ(CodeOf("GET", "/v1/conversations/conv_1", 404), "conversation_not_found");
  EXPECT_EQ(CodeOf("POST", "/v1/conversations/conv_1/items", 404), "conversation_not_found");
  EXPECT_EQ(CodeOf("DELETE", "/v1/conversations/s", 404), "conversation_not_found");
}

TEST_F(Kept, AConversationHasItemsThatComeAndGo) {
  const std::string hi = R"({"role":"user","content":"hi"})",
                    call = R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})";
  const Json made = Ask("POST", "/v1/conversations", R"({"metadata":{"a":"b"},"items":[)" + hi + "]}");
  const std::string path = "/v1/conversations/" + made["id"].get<std::string>();
  EXPECT_EQ(Ask("GET", path), made);
  EXPECT_EQ(made["metadata"], (Json{{"a", "b"}}));
  const Json added = Ask("POST", path + "/items", R"({"items":[)" + call + "," + hi + "]}");
  ASSERT_EQ(added["data"].size(), 2u);
  EXPECT_EQ(added["data"][0]["type"], "function_call");
  const std::string item = added["data"][0]["id"];
  EXPECT_EQ(Ask("GET", path + "/items/" + item)["name"], "f");
  const Json page = Ask("GET", path + "/items?order=asc&limit=2");
  EXPECT_EQ(page["data"].size(), 2u);
  EXPECT_TRUE(page["has_more"]);
  EXPECT_EQ(Ask("GET", path + "/items?after=" + page["last_id"].get<std::string>() + "&order=asc")["data"].size(), 1u);
  EXPECT_EQ(CodeOf("GET", path + "/items?limit=0", 400), "invalid_value");
  EXPECT_EQ(CodeOf("POST", path + "/items", 400, R"({"items":[{"type":"item_reference","id":"x"}]})"),
            "unsupported_item");
  EXPECT_EQ(Ask("DELETE", path + "/items/" + item)["id"], made["id"]);
  EXPECT_EQ(CodeOf("GET", path + "/items/" + item, 404), "conversation_not_found");
  EXPECT_EQ(Ask("GET", path + "/items")["data"].size(), 2u);
  EXPECT_EQ(Ask("POST", path, R"({"metadata":{"c":"d"}})")["metadata"], (Json{{"c", "d"}}));
  EXPECT_TRUE(Ask("DELETE", path)["deleted"]);
  EXPECT_EQ(CodeOf("GET", path, 404), "conversation_not_found");
}

TEST_F(Kept, OnlyTheResponseItselfIsDeletedAndNothingBelowIt) {
  const auto make = [this](const std::string& more) {
    return Ask("POST", "/v1/responses", R"({"input":"hi","max_output_tokens":4)" + more + "}")["id"].get<std::string>();
  };
  const std::string first = make(""), path = "/v1/responses/" + first, session = "/v1/sessions/" + first.substr(22);
  EXPECT_EQ(CodeOf("DELETE", path + "/input_items", 404), "route_not_found");
  EXPECT_EQ(CodeOf("GET", path + "/output", 404), "route_not_found");
  EXPECT_EQ(Ask("GET", path)["id"], first);
  EXPECT_EQ(Ask("GET", path + "/input_items")["data"].size(), 1u);
  // A branch has nothing but its own, once the one that it goes on from is found in its own session.
  const std::string after = R"(,"previous_response_id":")" + first + "\"";
  const std::string second = make(after), branch = make(after);
  ASSERT_NE(branch.substr(22), first.substr(22));
  EXPECT_TRUE(Ask("DELETE", "/v1/responses/" + branch)["deleted"]);
  Ask("GET", "/v1/sessions/" + branch.substr(22), "", 404);
  // The last of a chain takes the session with it, in whichever order.
  EXPECT_TRUE(Ask("DELETE", path)["deleted"]);
  EXPECT_EQ(CodeOf("GET", path, 404), "response_not_found");
  Ask("GET", session);
  EXPECT_TRUE(Ask("DELETE", "/v1/responses/" + second)["deleted"]);
  Ask("GET", session, "", 404);
  // A session that the client named is the client's.
  const std::string named = make(R"(,"session_id":"mine")");
  EXPECT_TRUE(Ask("DELETE", "/v1/responses/" + named)["deleted"]);
  Ask("GET", "/v1/sessions/mine");
}

TEST_F(Kept, AConversationTakesSoMuchAndNoMore) {
  const std::string path = "/v1/conversations/" + Ask("POST", "/v1/conversations")["id"].get<std::string>() + "/items";
  const std::string items = R"({"items":[{"role":"user","content":")" + std::string(900'000, 'a') + R"("}]})";
  for (int32_t i = 0; i < 4; ++i) Ask("POST", path, items);
  EXPECT_EQ(CodeOf("POST", path, 413, items), "payload_too_large");
  EXPECT_EQ(Ask("GET", path)["data"].size(), 4u);
}

}  // namespace
}  // namespace hydrant
