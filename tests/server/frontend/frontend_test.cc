#include "server/frontend/frontend.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/engine/stream_mailbox.h"
#include "server/process/clock.h"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

constexpr const char* kFrontendLong = R"({"prompt":"hi","max_tokens":4000,"stream":true})";
constexpr const char* kFrontendShort = R"({"prompt":"hi","max_tokens":3,"stream":true})";

bool Drains(TestServer& server) {
  return Eventually([&] { return server.Ask(Get("/ready")).status == 503; });
}

TEST(Frontend, WithNothingToDoItStopsAtOnce) {
  TestServerOptions options;
  options.http.shutdown_timeout_s = 60;
  options.http.limits.keepalive_timeout_s = options.http.limits.unkeyed_keepalive_timeout_s = 60;
  TestServer server(std::move(options));
  RawClient idle(server.port());
  ASSERT_EQ(idle.Ask(Get("/health")).status, 200);
  const int64_t started_us = MonotonicUs();
  server.http().Shutdown();
  EXPECT_EQ(server.Join(), 0);
  EXPECT_LT(MonotonicUs() - started_us, 20'000'000) << "it waits for no connection";
}

TEST(FrontendDeathTest, AStepThatNeverReturnsDoesNotOutlastTheShutdown) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto shut_down = [] {
    TestServerOptions options;
    options.http.limits.engine_stall_s = 0.1;
    options.http.shutdown_timeout_s = 0.1;
    TestServer server(std::move(options));
    server.executor().Hold();
    RawClient running(server.port());
    running.Send(CompletionPost(kFrontendShort));
    Eventually([&] { return server.engine().stalled(); });
    server.http().Shutdown();
    server.Join();
  };
  EXPECT_EXIT(shut_down(), testing::ExitedWithCode(70), "");
}

TEST(Frontend, ADrainLetsStreamsFinishAndTurnsNewOnesAway) {
  TestServer server;
  server.executor().Hold();
  RawClient running(server.port());
  running.Send(CompletionPost(kFrontendShort));
  ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == 1; }));
  server.http().Shutdown();
  ASSERT_TRUE(Drains(server));
  EXPECT_EQ(server.Ask(Get("/health")).status, 200) << "alive, but not ready";
  const RawClient::Response late = server.Ask(CompletionPost(kFrontendShort));
  EXPECT_EQ(late.status, 503);
  EXPECT_NE(late.Field("retry-after"), "");
  EXPECT_EQ(late.Field("connection"), "close");
  server.executor().Release();
  const RawClient::Response response = running.ReadResponse();
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(server.Join(), 0);
}

TEST(Frontend, ARequestWhoseBodyIsOnItsWayIsAnsweredBeforeTheEnd) {
  TestServer server;
  RawClient idle(server.port());
  ASSERT_EQ(idle.Ask(Get("/health")).status, 200);
  const std::string body = R"({"prompt":"hi"})";
  const auto begin = [&](RawClient& client, const std::string& path) {
    client.Send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\nExpect: 100-continue\r\n\r\n");
    EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("100 Continue"));
  };
  RawClient generation(server.port());
  RawClient work(server.port());
  begin(generation, "/v1/completions");
  begin(work, "/tokenize");
  server.http().Shutdown();
  ASSERT_TRUE(Drains(server));
  EXPECT_EQ(generation.Ask(body).status, 503);
  EXPECT_EQ(work.Ask(body).status, 200);
  EXPECT_EQ(server.Join(), 0) << "and who is idle is not waited for";
}

TEST(Frontend, UntilTheDelayIsOverItServesBalancersThatHaveNotNoticed) {
  TestServerOptions options;
  options.http.shutdown_delay_s = 60;
  TestServer server(std::move(options));
  server.http().Shutdown();
  ASSERT_TRUE(Drains(server));
  const RawClient::Response late = server.Ask(CompletionPost(kFrontendShort));
  EXPECT_EQ(late.status, 200);
  EXPECT_THAT(late.body, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_EQ(late.Field("connection"), "close") << "the next request is to go elsewhere";
  server.http().Fail(0);  // ends it at once
  EXPECT_EQ(server.Join(), 0);
}

TEST(Frontend, AnIdleServerStaysUntilTheDelayIsOver) {
  TestServerOptions options;
  options.http.shutdown_delay_s = 0.3;
  TestServer server(std::move(options));
  const int64_t started_us = MonotonicUs();
  server.http().Shutdown();
  EXPECT_EQ(server.Join(), 0);
  EXPECT_GE(MonotonicUs() - started_us, 300'000) << "others may still be on their way";
}

TEST(Frontend, UntilTheDelayOfAnOperatorsDrainIsOverItServes) {
  TestServerOptions options;
  options.http.shutdown_delay_s = 60;
  TestServer server(std::move(options));
  EXPECT_EQ(server.http().Drain(), 0);
  EXPECT_EQ(server.Ask(Get("/ready")).status, 503);
  EXPECT_EQ(server.Ask(CompletionPost(kFrontendShort)).status, 200);
}

// How long a server takes to stop that an operator has drained before, with a delay of `delay_s`.
int64_t StopAfterDrainUs(double delay_s) {
  TestServerOptions options;
  options.http.shutdown_delay_s = delay_s;
  TestServer server(std::move(options));
  EXPECT_EQ(server.http().Drain(), 0);
  EXPECT_TRUE(Eventually([&] { return server.Ask(CompletionPost(kFrontendShort)).status == 503; }));
  EXPECT_EQ(server.Ask(Get("/health")).status, 200);
  const int64_t started_us = MonotonicUs();
  server.http().Shutdown();
  EXPECT_EQ(server.Join(), 0);
  return MonotonicUs() - started_us;
}

TEST(Frontend, AnOperatorsDrainRefusesAfterTheDelayAndTheProcessStays) {
  // A slow machine may take as long as the delay once; a second delay takes as long each time.
  EXPECT_TRUE(Eventually([] { return StopAfterDrainUs(0.5) < 500'000; })) << "the delay is over already";
}

// What a service manager is told, in order.
class Told {
 public:
  std::function<void(std::string_view)> hook() {
    return [this](std::string_view lines) {
      const std::lock_guard<std::mutex> lock(mutex_);
      lines_.emplace_back(lines);
    };
  }
  int64_t Count(std::string_view word) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::count_if(lines_.begin(), lines_.end(),
                         [&](const std::string& lines) { return lines.find(word) != std::string::npos; });
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST(Frontend, SystemdHearsOfEveryStage) {
  Told told;
  TestServerOptions options;
  options.http.notify = told.hook();
  TestServer server(std::move(options));
  EXPECT_EQ(told.Count("READY=1"), 1);
  EXPECT_EQ(told.Count("STOPPING=1"), 0);
  server.http().Shutdown();
  EXPECT_EQ(server.Join(), 0);
  EXPECT_EQ(told.Count("STOPPING=1"), 1);
  EXPECT_EQ(told.Count("WATCHDOG=1"), 0) << "nobody watches";
}

TEST(Frontend, TheWatchdogIsFedWhileTheEngineMovesAndOnlyThen) {
  Told told;
  TestServerOptions options;
  options.http.notify = told.hook();
  options.http.watchdog_us = 2'000;
  options.http.limits.engine_stall_s = 0.1;
  TestServer server(std::move(options));
  ASSERT_TRUE(Eventually([&] { return told.Count("WATCHDOG=1") >= 5; })) << "idle is not stalled";
  server.executor().Hold();
  RawClient running(server.port());
  running.Send(CompletionPost(kFrontendShort));
  ASSERT_TRUE(Eventually([&] { return server.engine().stalled(); }));
  const int64_t before = told.Count("WATCHDOG=1");
  const int64_t until_us = MonotonicUs() + 100'000;
  Eventually([&] { return MonotonicUs() > until_us; });
  EXPECT_LE(told.Count("WATCHDOG=1"), before + 1);
  server.executor().Release();
  EXPECT_TRUE(Eventually([&] { return told.Count("WATCHDOG=1") >= before + 5; })) << "it moves again";
}

TEST(Frontend, OnAnInheritedSocketItLeavesTheBacklogToTheNextProcess) {
  const ListeningSocket listening;
  const auto start = [&] {
    TestServerOptions options;
    options.http.socket = InheritedSocket{fcntl(listening.fd(), F_DUPFD_CLOEXEC, 0), "127.0.0.1", listening.port()};
    return std::make_unique<TestServer>(std::move(options));
  };
  auto first = start();
  first->executor().Hold();
  RawClient running(first->port());
  running.Send(CompletionPost(kFrontendShort));
  ASSERT_TRUE(Eventually([&] { return first->engine().backlog().sequences == 1; }));
  first->http().Shutdown();
  ASSERT_TRUE(Eventually([&] {
    RawClient next(first->port());
    next.Send(Get("/health"));
    return next.ReadUntil("200 OK", 0.05).empty();
  }));
  RawClient waiting(first->port());
  waiting.Send(Get("/health"));
  first->executor().Release();
  EXPECT_THAT(running.ReadResponse().body, HasSubstr("[DONE]"));
  EXPECT_EQ(first->Join(), 0);
  first.reset();
  auto second = start();
  EXPECT_EQ(waiting.ReadResponse().status, 200);
  close(listening.fd());
}

TEST(Frontend, AtTheDeadlineRunningRequestsAreEndedProperly) {
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

TEST(Frontend, SigtermDrainsASecondOneEndsWhatRuns) {
  TestServerOptions options;
  options.http.handle_signals = true;
  TestServer server(std::move(options));
  server.executor().Hold();
  RawClient running(server.port());
  running.Send(CompletionPost(kFrontendLong));
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

TEST(Frontend, SigintIsLikeSigterm) {
  TestServerOptions options;
  options.http.handle_signals = true;
  TestServer server(std::move(options));
  kill(getpid(), SIGINT);
  EXPECT_EQ(server.Join(), 0);
}

TEST(Frontend, AFailureEndsItWithItsCode) {
  TestServer server;
  server.executor().Hold(3);
  RawClient running(server.port());
  running.Send(CompletionPost(kFrontendLong));
  running.ReadUntil("data: ");
  server.http().Fail(70);
  server.executor().Release();
  EXPECT_EQ(server.Join(), 70);
}

// Keeps the io threads busy for as long as it lives.
class BusyIoThreads {
 public:
  explicit BusyIoThreads(TestServer& server) {
    const std::shared_future<void> end = end_.get_future().share();
    for (int i = 0; i < 2; ++i) {
      server.http().fan_out()({std::make_shared<StreamMailbox>(1, 1024, [this, end] {
        ++busy_;
        end.wait();
      })});
    }
    EXPECT_TRUE(Eventually([this] { return busy_ == 2; }));
  }
  ~BusyIoThreads() { end_.set_value(); }

 private:
  std::promise<void> end_;
  std::atomic<int> busy_ = 0;
};

TEST(Frontend, TheOperatorsListenerHasTheSameNamesAndNoPages) {
  TestServerOptions options;
  options.http.origins = OriginPolicy("127.0.0.1", {"hydrant.internal"}, {"https://ui.example"});
  options.http.admin.port = 0;
  options.http.admin.keys = RotatingKeys::Of("admin-key");
  TestServer server(std::move(options));
  const auto ask = [&](const std::string& host, const std::string& fields = "") {
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: " + host + "\r\n" + fields;
    return RawClient(server.http().admin_port()).Ask(request + "Authorization: Bearer admin-key\r\n\r\n").status;
  };
  EXPECT_EQ(ask("hydrant.internal:8001"), 200);
  EXPECT_EQ(ask("evil.example"), 403);
  EXPECT_EQ(ask("hydrant.internal:8001", "Origin: https://ui.example\r\n"), 403);
}

TEST(Frontend, TheOperatorIsHeardWhateverClientsDo) {
  Told told;
  TestServerOptions options;
  options.http.handle_signals = true;
  options.http.notify = told.hook();
  options.http.watchdog_us = 2'000;
  options.http.admin.port = 0;
  options.http.admin.keys = RotatingKeys::Of("admin-key");
  TestServer server(std::move(options));
  {
    const BusyIoThreads busy(server);
    EXPECT_EQ(RawClient(server.http().admin_port()).Ask(Get("/health"), 5).status, 200);
    const int64_t fed = told.Count("WATCHDOG=1");
    kill(getpid(), SIGTERM);
    EXPECT_TRUE(Eventually([&] { return told.Count("STOPPING=1") == 1; }));
    EXPECT_LE(told.Count("WATCHDOG=1"), fed + 1) << "but threads that do not come back are no sign of life";
  }
  EXPECT_EQ(server.Join(), 0);
}

}  // namespace
}  // namespace hydrant
