#include "server/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "server/clock.h"
#include "test_server.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

constexpr const char* kLong = R"({"prompt":"hi","max_tokens":4000,"stream":true})";
constexpr const char* kShort = R"({"prompt":"hi","max_tokens":3,"stream":true})";

bool Drains(TestServer& server) {
  return Eventually([&] { return server.Ask(Get("/ready")).status == 503; });
}

TEST(HttpServer, WithNothingToDoItStopsAtOnce) {
  TestServer server;
  RawClient idle(server.port());
  ASSERT_EQ(idle.Ask(Get("/health")).status, 200);
  const int64_t started_us = MonotonicUs();
  server.http().Shutdown();
  EXPECT_EQ(server.Join(), 0);
  EXPECT_LT(MonotonicUs() - started_us, 2'000'000);
}

TEST(HttpServerDeathTest, AStepThatNeverReturnsDoesNotOutlastTheShutdown) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto shut_down = [] {
    TestServerOptions options;
    options.http.limits.engine_stall_s = 0.1;
    options.http.shutdown_timeout_s = 0.1;
    TestServer server(std::move(options));
    server.executor().Hold();
    RawClient running(server.port());
    running.Send(CompletionPost(kShort));
    Eventually([&] { return server.engine().stalled(); });
    server.http().Shutdown();
    server.Join();
  };
  EXPECT_EXIT(shut_down(), testing::ExitedWithCode(70), "");
}

TEST(HttpServer, ADrainLetsStreamsFinishAndTurnsNewOnesAway) {
  TestServer server;
  server.executor().Hold();
  RawClient running(server.port());
  running.Send(CompletionPost(kShort));
  ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == 1; }));
  server.http().Shutdown();
  ASSERT_TRUE(Drains(server));
  EXPECT_EQ(server.Ask(Get("/health")).status, 200) << "alive, but not ready";
  const RawClient::Response late = server.Ask(CompletionPost(kShort));
  EXPECT_EQ(late.status, 503);
  EXPECT_NE(late.Field("retry-after"), "");
  EXPECT_EQ(late.Field("connection"), "close");
  server.executor().Release();
  const RawClient::Response response = running.ReadResponse();
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(server.Join(), 0);
}

TEST(HttpServer, AtTheDeadlineRunningRequestsAreEndedProperly) {
  TestServerOptions options;
  options.http.shutdown_timeout_s = 0.1;
  TestServer server(std::move(options));
  server.executor().Hold(3);
  RawClient running(server.port());
  running.Send(CompletionPost(R"({"prompt":"hi","max_tokens":4000})"));
  ASSERT_TRUE(Eventually([&] { return server.executor().steps == 3; }));
  server.http().Shutdown();
  ASSERT_TRUE(Eventually([&] { return server.stopping(); }));
  server.executor().Release();
  const RawClient::Response response = running.ReadResponse();
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"abort")"));
  EXPECT_EQ(server.Join(), 0);
}

TEST(HttpServer, SigtermDrainsASecondOneEndsWhatRuns) {
  TestServerOptions options;
  options.http.handle_signals = true;
  TestServer server(std::move(options));
  server.executor().Hold();
  RawClient running(server.port());
  running.Send(CompletionPost(kLong));
  ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == 1; }));
  kill(getpid(), SIGHUP);  // nothing to reload: ignored
  kill(getpid(), SIGTERM);
  ASSERT_TRUE(Drains(server));
  EXPECT_FALSE(server.stopping());
  kill(getpid(), SIGTERM);
  ASSERT_TRUE(Eventually([&] { return server.stopping(); }));
  server.executor().Release();
  const RawClient::Response response = running.ReadResponse();
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"abort")"));
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(server.Join(), 0);
}

TEST(HttpServer, SigintIsLikeSigterm) {
  TestServerOptions options;
  options.http.handle_signals = true;
  TestServer server(std::move(options));
  kill(getpid(), SIGINT);
  EXPECT_EQ(server.Join(), 0);
}

TEST(HttpServer, AFailureEndsItWithItsCode) {
  TestServer server;
  server.executor().Hold(3);
  RawClient running(server.port());
  running.Send(CompletionPost(kLong));
  running.ReadUntil("data: ");
  server.http().Fail(70);
  server.executor().Release();
  EXPECT_EQ(server.Join(), 70);
}

}  // namespace
}  // namespace hydrant
