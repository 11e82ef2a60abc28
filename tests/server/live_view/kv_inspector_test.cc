// GET /v1/sessions/{id}/kv over a whole server, whose executor holds token i in slot i of every pair, with score i + 1.
#include "server/live_view/kv_inspector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/process/clock.h"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using Response = RawClient::Response;

std::string Turn(int max_tokens, const std::string& more = "") {
  return CompletionPost(
      R"({"session_id":"s","prompt":"Once upon a time","kv":{"policy":"h2o","budget":64},"max_tokens":)" +
      std::to_string(max_tokens) + more + "}");
}

Response Ask(TestServer& server, const std::string& query = "") { return server.Ask(Get("/v1/sessions/s/kv" + query)); }

TEST(KvInspector, AParkedSessionShowsTheStateOfItsLastTurn) {
  TestServer server;
  ASSERT_EQ(server.Ask(Turn(4)).status, 200);
  const Response response = Ask(server, "?after=14&limit=3&layer=1&head=2");
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.Field("cache-control"), "no-store");
  EXPECT_THAT(response.body, HasSubstr(R"("state":"parked","policy":"h2o","budget":64)"));
  EXPECT_THAT(response.body, HasSubstr(R"("known":20,"logical":19,"live":19,"blocks":2,"after":14,"has_more":true)"));
  EXPECT_THAT(response.body, HasSubstr(R"("pieces":["m","e","q"],)"));
  EXPECT_THAT(response.body, HasSubstr(R"("held":[6,6,6])"));
  EXPECT_THAT(response.body, HasSubstr(R"("positions":[14,15,16],"scores":[15,16,17])"));
}

TEST(KvInspector, ABusySessionShowsTheStepThatEndedLast) {
  TestServer server;
  server.executor().Hold(3);
  RawClient client(server.port());
  client.Send(Turn(2000, R"(,"stream":true)"));
  ASSERT_TRUE(Eventually([&] { return server.executor().launches == 4; }));
  // The engine thread is inside a step: the answer comes between that one and one of the next.
  RawClient asks(server.port());
  asks.Send(Get("/v1/sessions/s/kv?after=0&limit=2"));
  std::string answer;
  ASSERT_TRUE(Eventually([&] {
    server.executor().Hold(1);
    answer += asks.ReadUntil("}", 0.01);
    return answer.ends_with("}");
  }));
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr(R"("state":"busy","policy":"h2o","budget":64)"));
  EXPECT_THAT(answer, HasSubstr(R"("pieces":["O","n"])"));
  EXPECT_THAT(answer, HasSubstr(R"("held":[6,6])"));
  server.executor().Release();
}

TEST(KvInspector, WhatIsNotThereOrNotTheirsIsNotFound) {
  TestServer server;
  const Response absent = Ask(server);
  EXPECT_EQ(absent.status, 404);
  EXPECT_THAT(absent.body, HasSubstr("session_not_found"));
  EXPECT_EQ(server.Ask(Get("/v1/sessions/a%20b/kv")).status, 400);
  EXPECT_EQ(server.Ask(Get("/v1/sessions/s/kv/x")).status, 404);
  EXPECT_EQ(Ask(server, "?limit=0").status, 400);
}

TEST(KvInspector, AForgottenSessionIsCold) {
  TestServerOptions options;
  options.parked_blocks = 0;
  TestServer server(std::move(options));
  ASSERT_EQ(server.Ask(Turn(4)).status, 200);
  const Response response = Ask(server);
  EXPECT_THAT(response.body, HasSubstr(R"("state":"cold")"));
  EXPECT_THAT(response.body, HasSubstr(R"("held":null,"scores":null,"unknown":"cold")"));
}

TEST(KvInspector, ATenantHasAFewRequestsAtOnce) {
  TestServer server;
  ASSERT_EQ(server.Ask(Turn(4)).status, 200);
  server.executor().Hold();
  RawClient holds(server.port());
  holds.Send(CompletionPost(R"({"prompt":"x","max_tokens":4})"));
  ASSERT_TRUE(Eventually([&] { return server.executor().launches > server.executor().steps; }));
  // The engine cannot answer: whoever asks waits, but for the one too many.
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i <= KvInspector::kOpenMax; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->Send(Get("/v1/sessions/s/kv"));
  }
  ASSERT_TRUE(Eventually([&] {
    return std::erase_if(clients, [](const auto& client) {
             return client->ReadUntil("too_many_kv_requests", 0.01).find("HTTP/1.1 429") == 0;
           }) == 1;
  }));
  server.executor().Release();
  for (const auto& client : clients) EXPECT_EQ(client->ReadResponse().status, 200);
  EXPECT_EQ(Ask(server).status, 200);
}

// A copy whose thread was put aside for 300 ms is no reason to answer nobody for 30 s.
TEST(KvInspector, ASlowCopyHoldsUpTheNextForAMomentOnly) {
  TestServer server;
  ASSERT_EQ(server.Ask(Turn(4)).status, 200);
  server.executor().read_ms = 300;
  ASSERT_EQ(Ask(server).status, 200);
  server.executor().read_ms = 0;
  const int64_t answered_us = MonotonicUs();
  ASSERT_TRUE(Eventually([&] { return MonotonicUs() - answered_us > KvInspector::kFreshUs; }));
  const int64_t asked_us = MonotonicUs();
  ASSERT_EQ(Ask(server).status, 200);
  EXPECT_LT(MonotonicUs() - asked_us, 15'000'000);
}

TEST(KvInspector, ACopyThatThereIsNoMemoryForHoldsUpNoOther) {
  TestServer server;
  ASSERT_EQ(server.Ask(Turn(4)).status, 200);
  server.engine().read_fails = true;
  const Response failed = Ask(server);
  EXPECT_EQ(failed.status, 503);
  EXPECT_THAT(failed.body, HasSubstr("out_of_memory"));
  EXPECT_EQ(Ask(server).status, 200);
}

TEST(KvInspector, IsAnsweredAlsoWhenTheEngineHasEnded) {
  TestServer server;
  ASSERT_EQ(server.Ask(Turn(4)).status, 200);
  server.executor().Hold();
  RawClient holds(server.port());
  holds.Send(CompletionPost(R"({"prompt":"x","max_tokens":4})"));
  ASSERT_TRUE(Eventually([&] { return server.executor().launches > server.executor().steps; }));
  RawClient asks(server.port());
  asks.Send(Get("/v1/sessions/s/kv"));
  server.executor().fails = true;
  server.executor().Release();
  server.Join();  // nothing waits for the dead engine
}

}  // namespace
}  // namespace hydrant
