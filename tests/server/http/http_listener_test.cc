#include "server/http/http_listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/process/log.h"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Takes all file descriptors of the process, but leaves `spare` of them.
class Exhaustion {
 public:
  explicit Exhaustion(int spare) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &low);
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.push_back(fd);
    for (; spare > 0; --spare) GiveOne();
  }
  ~Exhaustion() {
    while (!taken_.empty()) GiveOne();
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  void GiveOne() {
    close(taken_.back());
    taken_.pop_back();
  }

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

// What is logged while it lives.
class ScopedLog {
 public:
  ScopedLog() {
    testing::internal::CaptureStderr();
    StartLog(LogLevel::kWarning);
  }
  ~ScopedLog() { (void)Read(); }
  ScopedLog(const ScopedLog&) = delete;
  ScopedLog& operator=(const ScopedLog&) = delete;
  std::string Read() const {
    if (std::exchange(read_, true)) return "";
    StopLog();
    return testing::internal::GetCapturedStderr();
  }

 private:
  mutable bool read_ = false;
};

TEST(HttpListener, WithoutDescriptorsItShedsDoesNotSpinAndRecovers) {
  const ScopedLog scoped_log;
  auto server = std::make_unique<TestServer>();
  RawClient early(server->port());
  ASSERT_EQ(early.Ask(Get("/health")).status, 200);
  {
    Exhaustion exhaustion(/*spare=*/1);
    RawClient shed(server->port());  // takes the spare one; there is none to accept it with
    ASSERT_TRUE(shed.connected());
    shed.ReadAll();
    EXPECT_TRUE(shed.closed()) << "it must not wait in the backlog";
    EXPECT_EQ(early.Ask(Get("/health")).status, 200) << "others are served";
    const double cpu_before = CpuSeconds();
    early.ReadUntil("nothing comes", 0.4);
    EXPECT_LT(CpuSeconds() - cpu_before, 0.2);
  }
  EXPECT_EQ(server->Ask(Get("/health")).status, 200);
  server.reset();  // the log is stopped behind its threads
  const std::string log = scoped_log.Read();
  const size_t said = log.find(" warning accept: ");
  ASSERT_NE(said, std::string::npos) << log;
  EXPECT_NE(log.find("times 1\n", said), std::string::npos) << log;
  EXPECT_EQ(log.find(" accept: ", said + 20), std::string::npos) << "once, not with each of its tries: " << log;
}

TEST(HttpListener, AConnectionOverTheCapIsToldSo) {
  TestServerOptions options;
  options.http.limits.connections_max = 2;
  options.http.limits.header_timeout_s = 600;
  TestServer server(std::move(options));
  auto first = std::make_unique<RawClient>(server.port());
  RawClient second(server.port());
  first->Send("POST /v1/comp");  // one that is idle would make way
  second.Send("POST /v1/comp");
  ASSERT_TRUE(Eventually([&] { return RawClient(server.port()).Ask(Get("/v1/models")).status == 503; }));
  for (const char* sent : {"", "GET /v1/mod"}) {
    RawClient third(server.port());
    third.Send(sent);
    const RawClient::Response response = third.ReadResponse();
    EXPECT_EQ(response.status, 503) << sent;
    EXPECT_EQ(response.Field("retry-after"), "1");
    EXPECT_NE(response.body.find("connections_exceeded"), std::string::npos);
    third.ReadAll();
    EXPECT_TRUE(third.closed());
  }
  first.reset();
  EXPECT_TRUE(Eventually([&] { return server.Ask(Get("/v1/models")).status == 200; })) << "a place is free again";
}

TEST(HttpListener, WhoAsksHowItIsGetsInOverTheCap) {
  TestServerOptions options;
  options.http.limits.connections_max = 2;
  TestServer server(std::move(options));
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 2; ++i) {
    crowd.push_back(std::make_unique<RawClient>(server.port()));
    crowd.back()->Send("POST /v1/comp");
  }
  const auto ask = [&server](const char* path) {
    RawClient probe(server.port());
    const RawClient::Response answer = probe.Ask(Get(path));
    probe.ReadAll();
    EXPECT_TRUE(probe.closed()) << path << ": the place is for others too";
    return answer;
  };
  ASSERT_TRUE(Eventually([&] { return ask("/v1/models").status == 503; })) << "both have a place";
  EXPECT_EQ(ask("/v1/messages").status, 529) << "as Anthropic's clients are told";
  for (const char* path : {"/health", "/livez", "/ready"}) EXPECT_EQ(ask(path).status, 200) << path;
  const std::string metrics = ask("/metrics").body;
  const size_t refused = metrics.find("\nhydrant_connections_refused_total ");
  ASSERT_NE(refused, std::string::npos);
  EXPECT_NE(metrics.substr(refused, 40).find(" 2\n"), std::string::npos) << metrics.substr(refused, 40);
}

TEST(HttpListener, WhoComesToACrowdTakesThePlaceOfTheLongestIdle) {
  TestServerOptions options;
  options.http.limits.connections_max = 10;
  options.http.limits.keepalive_timeout_s = options.http.limits.unkeyed_keepalive_timeout_s = 600;
  TestServer server(std::move(options));
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 30; ++i) {
    idle.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(Eventually([&] {
      if (idle.back()->Ask(Get("/health")).status == 200) return true;
      idle.back() = std::make_unique<RawClient>(server.port());
      return false;
    })) << i;
  }
  idle.front()->ReadAll(30);
  EXPECT_TRUE(idle.front()->closed());
  EXPECT_EQ(idle.back()->Ask(Get("/health")).status, 200) << "the newest stays";
}

TEST(HttpListener, AnAddressHasABound) {
  TestServerOptions options;
  options.http.limits.connections_per_address_max = 2;
  TestServer server(std::move(options));
  RawClient first(server.port());
  RawClient second(server.port());
  ASSERT_EQ(first.Ask(Get("/health")).status, 200);
  ASSERT_EQ(second.Ask(Get("/health")).status, 200);
  RawClient third(server.port());
  EXPECT_NE(third.ReadResponse().body.find("connections_exceeded"), std::string::npos);
}

TEST(HttpListener, AStormOfResetsLeavesItAlive) {
  TestServer server;
  for (int i = 0; i < 500; ++i) {
    RawClient client(server.port());
    if (i % 2 == 0) client.Send("POST /v1/comp");
    client.Close(/*reset=*/true);
  }
  EXPECT_EQ(server.Ask(Get("/health")).status, 200);
}

TEST(HttpListener, WhatCannotBeBoundIsSaid) {
  TestServer server;
  boost::asio::io_context io;
  ListenerContext service;
  HttpListener taken(io, service);
  const absl::Status in_use = taken.Open("127.0.0.1", server.port());
  EXPECT_EQ(in_use.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(in_use.message()).find(std::to_string(server.port())), std::string::npos);
  HttpListener nowhere(io, service);
  EXPECT_EQ(nowhere.Open("no such name", 0).code(), absl::StatusCode::kInvalidArgument);
  HttpListener named(io, service);
  ASSERT_TRUE(named.Open("localhost", 0).ok());
  EXPECT_NE(named.port(), 0);
}

TEST(HttpListener, ASocketThatListensAlreadyServes) {
  const ListeningSocket listening;
  RawClient early(listening.port());  // connected before there is a server
  ASSERT_TRUE(early.connected());
  TestServerOptions options;
  options.http.socket = InheritedSocket{listening.fd(), "127.0.0.1", listening.port()};
  TestServer server(std::move(options));
  EXPECT_EQ(server.port(), listening.port());
  EXPECT_EQ(early.Ask(Get("/health")).status, 200);
  EXPECT_EQ(server.Ask(Get("/health")).status, 200);
}

}  // namespace
}  // namespace hydrant
