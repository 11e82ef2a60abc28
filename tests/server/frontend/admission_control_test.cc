#include "server/frontend/admission_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/test_server.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using Response = RawClient::Response;

constexpr const char* kShort = R"({"prompt":"hi","max_tokens":2})";

TestServerOptions One(const TenantLimits& limits) {
  TestServerOptions options;
  options.tenants = SingleTenant("");
  options.tenants.tenants[0].limits = limits;
  // What waits for its body waits for as long as the test does.
  options.http.limits.body_timeout_s = options.http.limits.body_grace_s = 600;
  return options;
}

std::string HeadOf(const std::string& path, int64_t length) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
}

std::string Post(const std::string& path, const std::string& body) {
  return HeadOf(path, static_cast<int64_t>(body.size())) + body;
}

TEST(AdmissionControl, ABodyOnItsWayHoldsItsPlace) {
  TestServer server(One({.concurrency_max = 1}));
  for (const char* path : {"/v1/completions", "/tokenize"}) {
    std::optional<RawClient> slow;
    // Whoever asks meanwhile may have the place when the head comes, which is refused then: it is sent again.
    ASSERT_TRUE(Eventually([&] {
      slow.emplace(server.port());
      slow->Send(HeadOf(path, 100) + "{");
      return server.Ask(CompletionPost(kShort)).status == 429;
    }));
    EXPECT_THAT(server.Ask(Post("/tokenize", R"({"prompt":"hi"})")).body, HasSubstr("concurrency_max"));
    slow.reset();
    EXPECT_TRUE(Eventually([&] { return server.Ask(CompletionPost(kShort)).status == 200; }));
  }
}

TEST(AdmissionControl, RoomForABodyIsAskedForByItsHeadAlone) {
  TestServerOptions options = One({});
  options.http.limits.body_bytes_max = 1 << 20;
  options.http.limits.held_bytes_max = 2 << 20;
  TestServer server(std::move(options));
  std::optional<RawClient> first(server.port());
  first->Send(HeadOf("/v1/completions", 1 << 20));
  Response refused;
  ASSERT_TRUE(Eventually([&] {
    RawClient second(server.port());
    refused = second.Ask(HeadOf("/v1/completions", 1 << 20), 0.2);
    return refused.status != 0;
  }));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.Field("retry-after"), "1");
  EXPECT_EQ(refused.Field("connection"), "close");
  EXPECT_THAT(refused.body, HasSubstr("held_bytes_exceeded"));
  EXPECT_EQ(server.Ask(CompletionPost(kShort)).status, 200) << "small ones find room";

  RawClient chunked(server.port());
  chunked.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nf0000\r\n");
  chunked.Send(std::string(0xf0000, ' '));
  EXPECT_THAT(chunked.ReadUntil("held_bytes_exceeded"), HasSubstr("HTTP/1.1 503 "));

  first.reset();
  EXPECT_TRUE(Eventually([&] {
    return server.Ask(CompletionPost(std::string(1000 << 10, ' ') + kShort)).status == 200;
  })) << "what was held is free again";
}

TEST(AdmissionControl, WhoIsToldToComeLaterKeepsTheConnection) {
  TestServer server(One({.rpm = 1}));
  RawClient client(server.port());
  EXPECT_EQ(client.Ask(CompletionPost(kShort)).status, 200);
  for (int i = 0; i < 3; ++i) {
    const Response response = client.Ask(CompletionPost(kShort));
    EXPECT_EQ(response.status, 429);
    EXPECT_EQ(response.Field("connection"), "");
  }
  RawClient large(server.port());
  large.Send(HeadOf("/v1/completions", 1 << 20));
  const Response response = large.ReadResponse();
  EXPECT_EQ(response.status, 429) << "before the body, which it may keep";
  EXPECT_EQ(response.Field("connection"), "close");
}

TEST(AdmissionControl, AnAnswerThatNobodyTakesKeepsItsPlaceAndIsGivenUp) {
  const auto with_stall = [](double stall_s) {
    TestServerOptions options = One({.concurrency_max = 1});
    options.http.limits.stream_stall_s = stall_s;
    return options;
  };
  const auto ask = [](RawClient& unread) {
    unread.Send(Post("/tokenize", R"({"prompt":")" + std::string(900'000, 'x') + R"("})"));
    EXPECT_EQ(unread.ReadUntil("HTTP/1.1 200 OK").substr(0, 15), "HTTP/1.1 200 OK");
  };
  TestServer patient(with_stall(30));
  RawClient keeps(patient.port(), /*receive_buffer_bytes=*/4096);
  ask(keeps);
  EXPECT_EQ(patient.Ask(CompletionPost(kShort)).status, 429);
  TestServer server(with_stall(0.5));
  RawClient unread(server.port(), /*receive_buffer_bytes=*/4096);
  ask(unread);
  EXPECT_TRUE(Eventually([&] { return server.Ask(CompletionPost(kShort)).status == 200; }, 20));
}

// A route whose work takes a place among the open requests, and one that is asked by its head alone.
TEST(AdmissionControl, AnAnswerThatNobodyTakesCountsOnEveryKeyedRoute) {
  const std::string tokens = Post("/tokenize", R"({"prompt":")" + std::string(100'000, 'x') + R"("})");
  const std::string map = Get("/v1/sessions/s/kv?layer=0&head=0");
  for (const std::string& large : {tokens, map}) {
    TestServerOptions options = One({});
    options.http.limits.held_bytes_max = 256 << 10;
    options.http.limits.send_buffer_bytes = 4096;
    TestServer server(std::move(options));
    const std::string turn = R"({"session_id":"s","max_tokens":2,"kv":{"policy":"h2o","budget":4096},"prompt":")";
    ASSERT_EQ(server.Ask(CompletionPost(turn + std::string(4000, 'x') + "\"}")).status, 200);
    std::vector<std::unique_ptr<RawClient>> unread;
    for (int i = 0; i < 8; ++i) {
      unread.push_back(std::make_unique<RawClient>(server.port(), /*receive_buffer_bytes=*/4096));
      unread.back()->Send(large);
      if (!unread.back()->ReadUntil("\r\n").starts_with("HTTP/1.1 200")) break;
    }
    const std::string keyed[] = {tokens,
                                 map,
                                 Get("/v1/sessions"),
                                 Get("/v1/sessions/s"),
                                 Get("/v1/models"),
                                 Get("/v1/models/test-model"),
                                 Get("/tokenizer_info"),
                                 Get("/load")};
    for (const std::string& request : keyed) {
      const Response refused = server.Ask(request);
      EXPECT_EQ(refused.status, 503) << request.substr(0, 40);
      EXPECT_THAT(refused.body, HasSubstr("held_bytes_exceeded"));
    }
    EXPECT_EQ(server.Ask(Get("/health")).status, 200);
    unread.clear();
    for (const std::string& request : keyed) {
      EXPECT_TRUE(Eventually([&] { return server.Ask(request).status == 200; })) << request.substr(0, 40);
    }
  }
}

TEST(AdmissionControl, AnAnswerTakenTooSlowlyIsGivenUpHoweverItMoves) {
  TestServerOptions options = One({});
  options.http.limits.stream_stall_s = 0.3;
  options.http.limits.answer_bytes_per_s_min = 1 << 30;
  TestServer server(std::move(options));
  RawClient slow(server.port(), /*receive_buffer_bytes=*/4096);
  slow.Send(Post("/tokenize", R"({"prompt":")" + std::string(900'000, 'x') + R"("})"));
  // 3.6 MB within 0.3 s are asked for; each 256 KiB would have had as long.
  size_t got = 0;
  while (!slow.closed() && got < 3'500'000) {
    Eventually([] { return false; }, 0.02);
    got += slow.ReadUntil("nothing comes", 0.001).size();
  }
  EXPECT_TRUE(slow.closed());
}

TEST(AdmissionControl, A503TellsATenantNothingOfTheOthers) {
  TestServerOptions options = One({.rpm = 50});
  options.tenants.tenants.emplace_back();
  options.tenants.tenants.back().name = "other";
  TestServer shared(std::move(options));
  shared.http().Drain();
  const Response refused = shared.Ask(CompletionPost(kShort));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.Field("x-ratelimit-limit-requests"), "50") << "its own";
  EXPECT_EQ(refused.Field("x-ratelimit-limit-tokens"), "");
  TestServer alone(One({.rpm = 50}));
  alone.http().Drain();
  EXPECT_NE(alone.Ask(CompletionPost(kShort)).Field("x-ratelimit-limit-tokens"), "") << "of the queue";
}

TEST(AdmissionControl, TokenizingHasALimitOfItsOwn) {
  TestServer server(One({}));
  EXPECT_EQ(server.Ask(HeadOf("/tokenize", 2 << 20)).status, 413);
  RawClient chunked(server.port());
  chunked.Send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n");
  chunked.Send(std::string(0x200000, ' '));
  EXPECT_THAT(chunked.ReadUntil("payload_too_large"), HasSubstr("HTTP/1.1 413 "));
  EXPECT_EQ(server.Ask(Post("/tokenize", R"({"prompt":"hi"})")).status, 200);
}

}  // namespace
}  // namespace hydrant
