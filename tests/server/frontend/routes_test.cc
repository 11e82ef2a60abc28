#include "server/frontend/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

using OrderedValue = nlohmann::ordered_json;
using testing::HasSubstr;

std::string PostTo(const std::string& path, const std::string& json) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(json.size()) +
         "\r\n\r\n" + json;
}

TEST(Routes, HealthReadyAndPingAreEmpty200) {
  TestServer server;
  for (const std::string& request :
       {Get("/health"), Get("/ready"), Get("/ping"), std::string("POST /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        Get("/health?verbose=1"), Get("/healthz"), Get("/v1/health"), Get("/live"), Get("/livez"), Get("/readyz")}) {
    const RawClient::Response response = server.Ask(request);
    EXPECT_EQ(response.status, 200) << request;
    EXPECT_EQ(response.body, "");
  }
}

TEST(Routes, TheModelIsListedAndFoundByItsName) {
  TestServer server;
  const RawClient::Response list = server.Ask(Get("/v1/models"));
  EXPECT_EQ(list.status, 200);
  for (const char* part : {R"("object":"list")", R"("id":"test-model")", R"("root":"test-model.gguf")",
                           R"("max_model_len":4096)", R"("parent":null)", R"("permission":[)"}) {
    EXPECT_NE(list.body.find(part), std::string::npos) << part << " in " << list.body;
  }
  EXPECT_EQ(server.Ask(Get("/v1/models/test-model")).status, 200);
  EXPECT_EQ(server.Ask(Get("/v1/models/test%2Dmodel")).status, 200);
  for (const char* other : {"other", "test-model/", "%2e%2e", "test-model%00", "%", "%zz"}) {
    const RawClient::Response response = server.Ask(Get(std::string("/v1/models/") + other));
    EXPECT_EQ(response.status, 404) << other;
    EXPECT_NE(response.body.find("model_not_found"), std::string::npos) << other;
  }
}

TEST(Routes, APathHasTheMethodsOfItsOwnRoutes) {
  TestServer server;
  const struct {
    const char* path;
    const char* allow;
  } cases[] = {
      {"/v1/sessions", "GET, HEAD"},
      {"/v1/sessions/s", "GET, HEAD, DELETE"},
      {"/v1/sessions/s/kv", "GET, HEAD"},
      {"/v1/sessions/s/state", "GET, HEAD, PUT"},
      {"/v1/responses/input_tokens", "POST"},
      {"/v1/responses/r", "GET, HEAD, DELETE"},
      {"/v1/responses/r/input_items", "GET, HEAD"},
      {"/v1/responses/r/cancel", "POST"},
      {"/v1/conversations", "POST"},
      {"/v1/conversations/c", "GET, HEAD, POST, DELETE"},
      {"/v1/conversations/c/items", "GET, HEAD, POST"},
      {"/v1/conversations/c/items/i", "GET, HEAD, DELETE"},
  };
  for (const auto& test : cases) {
    const RawClient::Response response =
        server.Ask(std::string("PATCH ") + test.path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(response.status, 405) << test.path;
    EXPECT_EQ(response.Field("allow"), test.allow) << test.path;
  }
  for (const char* none : {"/v1/sessions/s/other", "/v1/sessions/s/state/x", "/v1/responses/r/input_items/x",
                           "/v1/conversations/c/items/i/x", "/v1/conversations//items", "/v1/sessions/"}) {
    EXPECT_NE(server.Ask(Get(none)).body.find("route_not_found"), std::string::npos) << none;
  }
}

TEST(Routes, TokenStringsAreForTextsOfAModestNumberOfTokens) {
  TestServerOptions options;
  options.context = 16;  // so 16 x 16 tokens
  TestServer server(std::move(options));
  const auto ask = [&](int characters, const char* strings) {
    const std::string body = R"({"prompt":")" + std::string(static_cast<size_t>(characters), 'x') +
                             R"(","return_token_strs":)" + strings + "}";
    return server
        .Ask("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
             "\r\n\r\n" + body)
        .status;
  };
  EXPECT_EQ(ask(256, "true"), 200);
  EXPECT_EQ(ask(257, "true"), 400);
  EXPECT_EQ(ask(257, "false"), 200);
}

TEST(Routes, RoutersFindOutWhatServesAndHowBusyItIs) {
  TestServerOptions options;
  options.http.replica_id = "replica-1:8000";
  TestServer server(std::move(options));
  for (const char* path : {"/server_info", "/get_server_info"}) {
    const RawClient::Response response = server.Ask(Get(path));
    const OrderedValue info = OrderedValue::parse(response.body);
    EXPECT_EQ(info["served_model_name"], "test-model") << path;
    EXPECT_EQ(info["model_path"], "test-model.gguf") << "a name, not a place";
    EXPECT_EQ(info["context_length"], 4096);
    EXPECT_EQ(info["max_total_num_tokens"], 1024 * 16);
    EXPECT_EQ(response.Field("x-hydrant-replica"), "replica-1:8000");
  }
  for (const char* path : {"/model_info", "/get_model_info"}) {
    EXPECT_EQ(OrderedValue::parse(server.Ask(Get(path)).body)["is_generation"], true) << path;
  }
  EXPECT_EQ(server.Ask(Get("/nowhere")).Field("x-hydrant-replica"), "replica-1:8000");
  const RawClient::Response no_http = server.Ask("GET\r\n\r\n");
  EXPECT_EQ(no_http.status, 400);
  EXPECT_EQ(no_http.Field("x-hydrant-replica"), "replica-1:8000") << "of whatever is no request";
  EXPECT_EQ(server.Ask(CompletionPost(R"({"prompt":"a","session_id":"s"})")).status, 200);
  EXPECT_TRUE(Eventually([&] {
    const OrderedValue rank = OrderedValue::parse(server.Ask(Get("/v1/loads?include=core")).body)["loads"][0];
    return rank["num_total_reqs"] == 0 && rank["num_used_tokens"] == 0 && rank["num_parked_tokens"] == 16 &&
           rank["max_total_num_tokens"] == 1024 * 16;
  })) << server.Ask(Get("/v1/loads")).body;
}

TEST(Routes, WhatServesIsForWhoHasAKey) {
  TestServerOptions options;
  options.tenants = TwoTenants();
  TestServer server(std::move(options));
  const std::string key = "Authorization: Bearer key-a\r\n";
  EXPECT_EQ(server.Ask(Get("/server_info")).status, 401);
  EXPECT_EQ(server.Ask(Get("/server_info", key)).status, 200);
  EXPECT_EQ(server.Ask(Get("/server_info", key)).Field("x-hydrant-replica"), "") << "nobody asked for it";
}

TEST(Routes, VersionAndLoadAreJson) {
  TestServer server;
  EXPECT_EQ(server.Ask(Get("/version")).body, R"({"version":"1.2.3"})");
  EXPECT_EQ(server.Ask(Get("/load")).body, R"({"server_load":0})");
  server.executor().Hold();
  RawClient busy(server.port());
  busy.Send(CompletionPost(R"({"prompt":"a"})"));
  EXPECT_TRUE(Eventually([&] { return server.Ask(Get("/load")).body == R"({"server_load":1})"; }));
  server.executor().Release();
}

TEST(Routes, MetricsAreTextAndNeverWaitForTheEngine) {
  TestServer server;
  server.executor().Hold();
  RawClient busy(server.port());
  busy.Send(CompletionPost(R"({"prompt":"a"})"));
  const RawClient::Response response = server.Ask(Get("/metrics"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Field("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(response.body.find("vllm:num_requests_running"), std::string::npos);
  server.executor().Release();
}

TEST(Routes, TextBecomesTokensAndTokensText) {
  TestServer server;
  EXPECT_EQ(server.Ask(PostTo("/tokenize", R"({"prompt":"hi","return_token_strs":true})")).body,
            R"({"count":2,"max_model_len":4096,"tokens":[104,105],"token_strs":["h","i"]})");
  EXPECT_EQ(server.Ask(PostTo("/detokenize", R"({"tokens":[104,105,256]})")).body, R"({"prompt":"hi<eos>"})");
  // Long ones are worked on off the io threads; the answer is the same.
  const std::string text(100'000, 'x');
  const RawClient::Response large = server.Ask(PostTo("/tokenize", R"({"prompt":")" + text + R"("})"));
  EXPECT_TRUE(large.body.starts_with(R"({"count":100000,)")) << large.body.substr(0, 100);
  EXPECT_EQ(server.Ask(PostTo("/tokenize", R"({"prompt":5})")).status, 400);
  EXPECT_EQ(server.Ask(PostTo("/detokenize", R"({"tokens":[258]})")).status, 400);
}

TEST(Routes, TokenizingCountsAmongTheRequestsOfItsTenant) {
  TestServerOptions options;
  options.tenants.tenants.front().limits.rpm = 4;
  TestServer server(std::move(options));
  EXPECT_EQ(server.Ask(PostTo("/tokenize", R"({"prompt":"hi"})")).Field("x-ratelimit-remaining-requests"), "3");
  EXPECT_EQ(server.Ask(PostTo("/detokenize", R"({"tokens":[104]})")).Field("x-ratelimit-remaining-requests"), "2");
  EXPECT_EQ(server.Ask(CompletionPost(R"({"prompt":"a","max_tokens":1})")).status, 200);
  EXPECT_EQ(server.Ask(PostTo("/tokenize", R"({"prompt":5})")).status, 400) << "one that is wrong counts too";
  for (const char* path : {"/tokenize", "/detokenize"}) {
    const RawClient::Response refused = server.Ask(PostTo(path, R"({"prompt":"hi"})"));
    EXPECT_EQ(refused.status, 429) << path;
    EXPECT_NE(refused.body.find(R"("param":"rpm")"), std::string::npos) << refused.body;
    EXPECT_EQ(refused.Field("retry-after"), "15") << path;
  }
  EXPECT_EQ(server.Ask(CompletionPost(R"({"prompt":"a"})")).status, 429);
  EXPECT_EQ(server.Ask(Get("/v1/models")).status, 200) << "what costs nothing is not counted";
  const std::string metrics = server.Ask(Get("/metrics")).body;
  for (const char* line : {"hydrant_requests_total{tenant=\"default\"} 2\n",
                           "hydrant_rejected_total{reason=\"rpm\",tenant=\"default\"} 1\n",
                           "hydrant_work_rejected_total{reason=\"rpm\",tenant=\"default\"} 2\n"}) {
    EXPECT_NE(metrics.find(line), std::string::npos) << line;
  }
}

TEST(Routes, AStalledEngineIsUnhealthy) {
  TestServerOptions options;
  options.http.limits.engine_stall_s = 0.1;
  TestServer server(std::move(options));
  server.executor().Hold();
  RawClient busy(server.port());
  busy.Send(CompletionPost(R"({"prompt":"a"})"));
  EXPECT_TRUE(Eventually([&] { return server.Ask(Get("/health")).status == 503; }));
  const RawClient::Response ready = server.Ask(Get("/ready"));
  EXPECT_EQ(ready.status, 503);
  EXPECT_NE(ready.Field("retry-after"), "");
  server.executor().Release();
  EXPECT_TRUE(Eventually([&] { return server.Ask(Get("/health")).status == 200; })) << "it came back";
}

// Through a trusted proxy each client has its own address: for wrong keys, for the number of its requests, and in the log.
// Otherwise nobody has but the address it comes from, whatever it says.
class ForwardedTest : public testing::Test {
 protected:
  void Start(const std::vector<std::string>& trusted) {
    TestServerOptions options;
    options.tenants = SingleTenant("right");
    std::string wrong;
    options.http.proxies = *TrustedProxies::Parse(trusted, TrustedProxies::Field::kXForwardedFor, &wrong);
    options.http.limits.connections_max = 8;  // two of one address
    server_ = std::make_unique<TestServer>(std::move(options));
  }
  // The status that a wrong key gets at last, sent once more than one address may.
  int Guess(const std::function<std::string(int)>& forwarded_for) const {
    int status = 0;
    for (int i = 0; i <= AuthLimiter::kFailuresMax; ++i) {
      RawClient client(server_->port());
      status =
          client.Ask(Get("/v1/models", "Authorization: Bearer wrong\r\nX-Forwarded-For: " + forwarded_for(i) + "\r\n"))
              .status;
    }
    return status;
  }
  std::unique_ptr<TestServer> server_;
};

TEST_F(ForwardedTest, AClientThatIsNoProxyCannotChooseItsAddress) {
  Start({"10.0.0.0/8"});
  EXPECT_EQ(Guess([](int i) { return "203.0.113." + std::to_string(i); }), 429);
}

TEST_F(ForwardedTest, WhatAClientWroteBeforeTheProxyCountsForNothing) {
  Start({"127.0.0.1"});
  EXPECT_EQ(Guess([](int i) { return "203.0.113." + std::to_string(i); }), 401) << "so many clients";
  EXPECT_EQ(Guess([](int i) { return "203.0.113." + std::to_string(i) + ", 198.51.100.1"; }), 429) << "one client";
}

TEST_F(ForwardedTest, OneClientsRequestsThroughAProxyAreBoundedAsItsConnectionsAre) {
  Start({"127.0.0.1"});
  server_->executor().Hold();
  const auto ask = [](const char* address) {
    return CompletionPost(R"({"prompt":"hi","max_tokens":2})",
                          std::string("Authorization: Bearer right\r\nX-Forwarded-For: ") + address + "\r\n");
  };
  RawClient first(server_->port()), second(server_->port()), third(server_->port()), another(server_->port());
  first.Send(ask("203.0.113.1"));
  second.Send(ask("203.0.113.1"));
  ASSERT_TRUE(Eventually([&] { return server_->tenants().table()->entries()[0]->account->snapshot(0).open == 2; }));
  const RawClient::Response refused = third.Ask(ask("9.9.9.9, 203.0.113.1"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("connections_exceeded"));
  another.Send(ask("203.0.113.2"));
  ASSERT_TRUE(Eventually([&] { return server_->tenants().table()->entries()[0]->account->snapshot(0).open == 3; }));
  server_->executor().Release();
  EXPECT_EQ(first.ReadResponse().status, 200);
  EXPECT_EQ(second.ReadResponse().status, 200);
  EXPECT_EQ(another.ReadResponse().status, 200);
  EXPECT_EQ(RawClient(server_->port()).Ask(ask("203.0.113.1")).status, 200) << "given back";
}

TEST(Routes, ThePromptOfAChatCanBeSeen) {
  TestServer server(WithChats());
  const std::string hi = R"("messages":[{"role":"user","content":"hi"}])";
  const RawClient::Response response = server.Ask(PostTo("/v1/chat/completions/render", "{" + hi + "}"));
  EXPECT_EQ(response.status, 200) << response.body;
  const OrderedValue body = OrderedValue::parse(response.body);
  const OrderedValue tokenized = OrderedValue::parse(server.Ask(PostTo("/tokenize", "{" + hi + "}")).body);
  EXPECT_EQ(body["token_ids"], tokenized["tokens"]);
  EXPECT_EQ(body["count"], tokenized["count"]);
  EXPECT_NE(body["prompt"].get<std::string>().find("hi"), std::string::npos);
  EXPECT_EQ(server.Ask(PostTo("/v1/chat/completions/render", "{" + hi + R"(,"n":0})")).status, 400);
  EXPECT_EQ(server.Ask(PostTo("/apply-template", "{" + hi + "}")).body, response.body) << "llama.cpp's name for it";
}

// A model that thinks before it answers, and a template that leaves what it thought out of later prompts.
TEST(Routes, ReasoningComesApartAndStaysInTheSession) {
  TestServerOptions options;
  std::vector<std::string> warnings;
  options.http.context.chat = MakeChatSetup(
      {"{% for m in messages %}[{{ m.role }}]{{ m.content.split('</think>')[-1] }};{% endfor %}[assistant]", ""}, "",
      "", "auto", &warnings);
  options.next = Recite("<think>\nhm, so\n</think>\n\nyes");
  TestServer server(std::move(options));
  const std::string user = R"({"role":"user","content":"hi"})";
  const auto body = [](const std::string& messages, const std::string& more) {
    return R"({"session_id":"s","messages":[)" + messages + "]" + more + "}";
  };
  const OrderedValue first = OrderedValue::parse(server.Ask(PostTo("/v1/chat/completions", body(user, ""))).body);
  const OrderedValue& message = first["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "hm, so");
  EXPECT_EQ(message["content"], "yes");
  EXPECT_EQ(first["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(first["usage"]["completion_tokens_details"]["reasoning_tokens"], 23);
  EXPECT_EQ(first["usage"]["completion_tokens"], 29) << "with the token that ends it";

  // What the client has seen comes back, and the KV of all that was generated is gone on from.
  const std::string history = user + R"(,{"role":"assistant","content":"yes"},)" + user;
  const std::string stream =
      server
          .Ask(PostTo("/v1/chat/completions",
                      body(history, R"(,"stream":true,"stream_options":{"include_usage":true})")))
          .body;
  std::string thought, said;
  OrderedValue usage;
  for (size_t at = 0; (at = stream.find("data: {", at)) != std::string::npos; ++at) {
    const OrderedValue event = OrderedValue::parse(stream.substr(at + 6, stream.find('\n', at) - at - 6));
    if (!event["choices"].empty()) {
      thought += event["choices"][0]["delta"].value("reasoning", "");
      said += event["choices"][0]["delta"].value("content", "");
    }
    if (event.contains("usage")) usage = event["usage"];
  }
  EXPECT_EQ(thought, "hm, so");
  EXPECT_EQ(said, "yes");
  const int64_t past = first["usage"]["prompt_tokens"].get<int64_t>() + 28;
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], past) << "the token that ends an answer is none of it";
  EXPECT_EQ(usage["prompt_tokens"], past + 21) << "all of the past, and ;[user]hi;[assistant]";
}

TEST(Routes, MessagesAreAnsweredCountedAndStreamed) {
  TestServer server(WithChats());
  const std::string hi = R"("messages":[{"role":"user","content":"hi"}])";
  const RawClient::Response body = server.Ask(PostTo("/v1/messages?beta=true", R"({"max_tokens":3,)" + hi + "}"));
  EXPECT_EQ(body.status, 200) << body.body;
  EXPECT_THAT(body.body, HasSubstr(R"("stop_reason":"max_tokens")"));
  EXPECT_THAT(body.body, HasSubstr(R"("usage":{"input_tokens":8,)"));
  EXPECT_EQ(body.Field("request-id"), body.Field("x-request-id"));
  EXPECT_THAT(body.body, HasSubstr("\"id\":\"msg_" + body.Field("request-id")));

  EXPECT_EQ(server.Ask(PostTo("/v1/messages/count_tokens", "{" + hi + "}")).body, R"({"input_tokens":8})");

  const RawClient::Response stream = server.Ask(PostTo("/v1/messages", R"({"max_tokens":3,"stream":true,)" + hi + "}"));
  EXPECT_TRUE(stream.body.starts_with("event: message_start\ndata: {\"type\":\"message_start\"")) << stream.body;
  EXPECT_THAT(stream.body, HasSubstr(R"("usage":{"input_tokens":8,)"));
  EXPECT_THAT(stream.body, HasSubstr(R"("output_tokens":3,)"));
  EXPECT_TRUE(stream.body.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")) << stream.body;
}

TEST(Routes, MessagesTellTheirErrorsInAnthropicsWords) {
  TestServerOptions options = WithChats();
  options.tenants = SingleTenant("secret");
  TestServer server(std::move(options));
  const auto ask = [&](const std::string& fields, const std::string& json) {
    return server.Ask("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + fields +
                      "Content-Length: " + std::to_string(json.size()) + "\r\n\r\n" + json);
  };
  const std::string good = R"({"max_tokens":3,"messages":[{"role":"user","content":"hi"}]})";
  const RawClient::Response stranger = ask("", good);
  EXPECT_EQ(stranger.status, 401);
  EXPECT_THAT(stranger.body, HasSubstr(R"({"type":"error","error":{"type":"authentication_error")"));
  EXPECT_EQ(ask("x-api-key: wrong\r\n", good).status, 401);
  EXPECT_EQ(ask("x-api-key: secret\r\nanthropic-version: 2023-06-01\r\n", good).status, 200);
  EXPECT_EQ(ask("Authorization: Bearer secret\r\nx-api-key: wrong\r\n", good).status, 200);
  const RawClient::Response bad = ask("x-api-key: secret\r\n", "{}");
  EXPECT_EQ(bad.status, 400);
  EXPECT_THAT(bad.body, HasSubstr(R"("type":"invalid_request_error","message":"'max_tokens' is required.")"));
  EXPECT_THAT(bad.body, HasSubstr("\"request_id\":\"" + bad.Field("request-id")));
  // The other endpoints keep theirs.
  EXPECT_THAT(server.Ask(Get("/v1/models")).body, HasSubstr(R"({"error":{"message")"));
}

// Also those that nobody makes who knows of messages: HTTP's own.
TEST(Routes, WhatAPathSpeaksIsSaidByTheTable) {
  TestServer server(WithChats());
  const auto request = [](const std::string& line, const std::string& fields = "") {
    return line + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
  };
  std::string many;
  for (int i = 0; i < 101; ++i) many += "a: b\r\n";
  const std::string version = "anthropic-version: 2023-06-01\r\n";
  const struct {
    std::string request;
    int status;
    const char* type;  // Anthropic's; null: OpenAI's shape
  } cases[] = {
      {request("GET /v1/messages"), 405, "invalid_request_error"},
      {request("POST /v1/messages/batches"), 404, "not_found_error"},
      {request("POST /messages"), 404, "not_found_error"},
      {request("POST /v1/v1/messages/"), 404, "not_found_error"},
      {request("FOO /v1/messages"), 501, "api_error"},
      {request("POST /v1/messages"), 411, "invalid_request_error"},
      {request("POST /v1/messages", "Content-Length: 1099511627776\r\n"), 413, "request_too_large"},
      {request("POST /v1/messages", "Content-Type: text/plain\r\nContent-Length: 0\r\n"), 415, "invalid_request_error"},
      {request("POST /v1/messages?x=" + std::string(20'000, 'a')), 414, "invalid_request_error"},
      {request("POST http://localhost/v1/messages", many), 431, "invalid_request_error"},
      {request("POST /v1/messages/count_tokens", "Host: b\r\n"), 400, "invalid_request_error"},
      {request("GET /v1/models/none", version), 404, "not_found_error"},
      {request("GET /v1/files", version), 404, "not_found_error"},
      {request("GET /v1/models/none"), 404, nullptr},
      {request("GET /v1/files"), 404, nullptr},
      {request("GET /v1/messages-of-somebody"), 404, nullptr},
      {request("GET /v1/chat/completions", version), 405, nullptr},
      {request("GET /v1/models", many), 431, nullptr},
  };
  for (const auto& test : cases) {
    const RawClient::Response response = server.Ask(test.request);
    const std::string line = test.request.substr(0, 60);
    EXPECT_EQ(response.status, test.status) << line;
    const std::string begin =
        test.type == nullptr ? R"({"error":{)" : R"({"type":"error","error":{"type":")" + std::string(test.type) + "\"";
    EXPECT_TRUE(response.body.starts_with(begin)) << line << response.body;
    EXPECT_EQ(response.Field("request-id").empty(), test.type == nullptr) << line;
  }
}

TEST(Routes, AnthropicsClientsListModelsInTheirShape) {
  TestServer server;
  const std::string version = "anthropic-version: 2023-06-01\r\n";
  const RawClient::Response list = server.Ask(Get("/v1/models?limit=20", version));
  EXPECT_THAT(list.body, HasSubstr(R"({"data":[{"type":"model","id":"test-model","display_name":"test-model",)"));
  EXPECT_THAT(list.body, HasSubstr(R"("first_id":"test-model","last_id":"test-model","has_more":false})"));
  EXPECT_THAT(server.Ask(Get("/v1/models/test-model", version)).body, HasSubstr(R"({"type":"model",)"));
}

}  // namespace
}  // namespace hydrant
