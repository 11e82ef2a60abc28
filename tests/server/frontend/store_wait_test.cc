#include "server/frontend/store_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/process/clock.h"
#include "tests/server/shared_limits/fake_store.h"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using Command = FakeStore::Command;
using Response = RawClient::Response;

constexpr const char* kTwoTokens = R"({"prompt":"hi","max_tokens":2})";

bool IsTakeOf(const Command& command, const char* what) {
  return FakeStore::IsTake(command) && command[3] == std::string("hydrant:{default}:") + what;
}

// A server, and a store that says `answer` to who asks for `what` (rpm, tpm) and grants all else.
class StoreWaitTest : public testing::Test {
 protected:
  void Start(const TenantLimits& limits, bool fails_open = true, int64_t patience_us = 10'000'000) {
    LimitStore::Options options;
    options.address = fake_.address();
    options.fails_open = fails_open;
    options.patience_us = patience_us;
    store_.emplace(std::move(options));
    ASSERT_TRUE(Eventually([&] { return store_->Ask({}, nullptr) != nullptr; }));
    TestServerOptions server;
    server.tenants = SingleTenant("");
    server.tenants.tenants[0].limits = limits;
    server.http.limit_store = &*store_;
    if (held_bytes_max_ > 0) server.http.limits.held_bytes_max = held_bytes_max_;
    server_.emplace(std::move(server));
  }
  void Answer(const char* what, const std::string& answer) {
    fake_.Handle([what, answer](const Command& command) {
      return IsTakeOf(command, what) ? answer : FakeStore::Granting(command);
    });
  }
  size_t Asked(const char* what) {
    return fake_.Count([what](const Command& command) { return IsTakeOf(command, what); });
  }
  // Requests that hold a place of their tenant.
  int32_t Open() { return server_->tenants().table()->entries()[0]->account->snapshot(MonotonicUs()).open; }
  // A client leaves while the store is asked about its tokens, and the server has seen it.
  void LeaveWhileAsked() {
    Answer("tpm", "");
    RawClient client(server_->port());
    client.Send(CompletionPost(R"({"prompt":"hi","max_tokens":100})"));
    ASSERT_TRUE(Eventually([&] { return Asked("tpm") == 1; }));
    client.Close(/*reset=*/true);
    ASSERT_TRUE(Eventually([&] { return Open() == 0; }));
  }
  Response Ask(const char* body = kTwoTokens) { return server_->Ask(CompletionPost(body)); }
  void End() {
    server_.reset();
    store_.reset();
    fake_.Handle(FakeStore::Granting);
  }

  int64_t held_bytes_max_ = 0;  // the default
  FakeStore fake_;
  std::optional<LimitStore> store_;
  std::optional<TestServer> server_;
};

TEST_F(StoreWaitTest, ATenantWithoutLimitsIsNotAskedAbout) {
  Start({.queue_max = 5});
  EXPECT_EQ(Ask().status, 200);
  EXPECT_EQ(Asked("rpm") + Asked("tpm"), 0u);
}

TEST_F(StoreWaitTest, ARequestIsAskedAboutByItsHeadAndByWhatItMayUse) {
  Start({.concurrency_max = 3, .rpm = 60, .tpm = 1000, .sequences_max = 5});
  const Response response = Ask();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Field("x-ratelimit-limit-requests"), "60");
  EXPECT_EQ(response.Field("x-ratelimit-remaining-requests"), "7") << "as the store has it";
  const Command head = fake_.Await([](const Command& command) { return IsTakeOf(command, "rpm"); });
  EXPECT_EQ(head[5] + " " + head[6] + " " + head[7] + " " + head[8], "60 1 3 1");
  const Command use = fake_.Await([](const Command& command) { return IsTakeOf(command, "tpm"); });
  EXPECT_EQ(use[5] + " " + use[6] + " " + use[7] + " " + use[8], "1000 4 5 1");
  // Both of them come back, of the tokens what was not used: nothing.
  const Command open = fake_.Await([](const Command& c) { return FakeStore::IsGive(c) && c[4].ends_with(":open"); });
  EXPECT_EQ(open[6] + " " + open[7] + " " + open[8], "0 1 " + head[9]);
  const Command used =
      fake_.Await([](const Command& c) { return FakeStore::IsGive(c) && c[4].ends_with(":sequences"); });
  EXPECT_EQ(used[6] + " " + used[7] + " " + used[8], "0 1 " + use[9]);
}

TEST_F(StoreWaitTest, WhatTheStoreRefusesCountsForNothingHere) {
  Start({.concurrency_max = 1, .rpm = 1, .tpm = 4});
  Answer("rpm", "*3\r\n:2\r\n:0\r\n:2500000\r\n");
  const Response rpm = Ask();
  EXPECT_EQ(rpm.status, 429);
  EXPECT_EQ(rpm.Field("retry-after"), "3");
  EXPECT_EQ(rpm.Field("x-ratelimit-remaining-requests"), "0");
  EXPECT_THAT(rpm.body, HasSubstr("This tenant may send 1 requests per minute (rpm), on all servers together."));
  EXPECT_THAT(rpm.body, HasSubstr(R"("param":"rpm")"));
  End();
  Start({.concurrency_max = 1, .rpm = 1, .tpm = 4});
  Answer("rpm", "*3\r\n:3\r\n:0\r\n:0\r\n");
  const Response open = Ask();
  EXPECT_EQ(open.status, 429);
  EXPECT_THAT(open.body, HasSubstr("This tenant may have 1 requests open at a time (concurrency_max), on all servers"));
  End();
  Start({.concurrency_max = 1, .rpm = 1, .tpm = 4});
  Answer("tpm", "*3\r\n:2\r\n:3\r\n:1000000\r\n");
  const Response tpm = Ask();
  EXPECT_EQ(tpm.status, 429);
  EXPECT_EQ(tpm.Field("x-ratelimit-remaining-tokens"), "3");
  EXPECT_THAT(tpm.body, HasSubstr("this request may come to 4 and 3 are left, on all servers together."));
  // As for a limit of one server, a request that was let in counts, whatever its tokens came to.
  EXPECT_THAT(Ask().body, HasSubstr("This tenant may send 1 requests per minute (rpm)."));
}

TEST_F(StoreWaitTest, TheStoreIsNotAskedAboutWhatIsRefusedHere) {
  Start({.rpm = 1, .tpm = 100});
  EXPECT_EQ(Ask().status, 200);
  EXPECT_EQ(Ask().status, 429);
  EXPECT_EQ(Asked("rpm"), 1u);
  EXPECT_EQ(Asked("tpm"), 1u);
}

TEST_F(StoreWaitTest, WithoutAnAnswerTheServerGoesByItselfOrRefuses) {
  for (const bool fails_open : {true, false}) {
    Start({.rpm = 3, .tpm = 12}, fails_open, /*patience_us=*/20'000);
    // The store answers for the head alone, or for the tokens alone.
    for (const char* what : {"tpm", "rpm"}) {
      Answer(what, "-OOM command not allowed\r\n");
      const Response response = Ask();
      EXPECT_EQ(response.status, fails_open ? 200 : 503) << response.body;
      Answer(what, "");
      if (what == std::string("rpm")) continue;
      EXPECT_EQ(Ask().status, fails_open ? 200 : 503) << "slow is as good as wrong";
    }
    const Response last = Ask();
    EXPECT_EQ(last.status, fails_open ? 429 : 503) << "by its own limits";
    EXPECT_THAT(last.body, HasSubstr(fails_open ? "(rpm)." : "limits_unavailable"));
    End();
  }
}

TEST_F(StoreWaitTest, ATenantThatDoesNotTakeNoForAnAnswerCostsTheStoreNothing) {
  Start({.rpm = 60, .tpm = 1000});
  Answer("rpm", "*3\r\n:2\r\n:0\r\n:60000000\r\n");
  const int64_t began_us = MonotonicUs();
  for (int i = 0; i < 50; ++i) {
    const Response response = Ask();
    EXPECT_EQ(response.status, 429);
    EXPECT_THAT(response.body, HasSubstr("on all servers together."));
  }
  EXPECT_LE(Asked("rpm"), 1u + static_cast<size_t>((MonotonicUs() - began_us) / 1'000'000)) << "once a second";
  End();
  Start({.tpm = 1000});
  Answer("tpm", "*3\r\n:2\r\n:0\r\n:60000000\r\n");
  const size_t before = Asked("tpm");
  const int64_t again_us = MonotonicUs();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Ask().status, 429);
  EXPECT_LE(Asked("tpm") - before, 1u + static_cast<size_t>((MonotonicUs() - again_us) / 1'000'000));
}

TEST_F(StoreWaitTest, NoPlaceIsAskedForWhereThereAreNoTokens) {
  Start({.concurrency_max = 3, .tpm = 4});
  EXPECT_EQ(Ask().status, 200);
  for (int i = 0; i < 20; ++i) {
    const Response response = Ask();
    EXPECT_EQ(response.status, 429);
    EXPECT_THAT(response.body, HasSubstr("(tpm); none is left."));
    EXPECT_THAT(response.body, HasSubstr(R"("param":"tpm")"));
  }
  EXPECT_EQ(Asked("rpm"), 1u) << "a token comes back after 15 seconds";
  EXPECT_EQ(Open(), 0);
  EXPECT_EQ(server_->Ask("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n{\"prompt\":\"hi\"}")
                .status,
            200)
      << "it uses none";
  EXPECT_EQ(Asked("rpm"), 2u);
  End();
  // What the store said a moment ago is as good as the server's own.
  Start({.concurrency_max = 3, .tpm = 1000});
  Answer("tpm", "*3\r\n:2\r\n:0\r\n:60000000\r\n");
  const size_t before = Asked("rpm");
  const int64_t began_us = MonotonicUs();
  for (int i = 0; i < 20; ++i) EXPECT_THAT(Ask().body, HasSubstr("none is left, on all servers together."));
  EXPECT_LE(Asked("rpm") - before, 1u + static_cast<size_t>((MonotonicUs() - began_us) / 1'000'000)) << "once a second";
}

// As one server does, where the limit is of one server.
TEST_F(StoreWaitTest, ARequestWithoutTokensCountsForItsRate) {
  Start({.concurrency_max = 3, .rpm = 3, .tpm = 4});
  EXPECT_EQ(Ask().status, 200);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Ask().body, HasSubstr("(tpm); none is left."));
  EXPECT_THAT(Ask().body, HasSubstr("(rpm)."));
}

TEST_F(StoreWaitTest, WhatTheStoreRefusedHoldsNoRoomWhileItsBodyIsReadOver) {
  held_bytes_max_ = 100'000;
  for (const bool refused : {true, false}) {
    Start({.rpm = 60});
    Answer("rpm", refused ? "*3\r\n:2\r\n:0\r\n:60000000\r\n" : "*3\r\n:1\r\n:7\r\n:0\r\n");
    const size_t before = Asked("rpm");
    RawClient slow(server_->port());
    slow.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{");
    ASSERT_TRUE(Eventually([&] { return Asked("rpm") > before && (Open() == 0) == refused; }));
    // Another one of that size finds room, or does not where the first was let in.
    RawClient next(server_->port());
    next.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n" +
              std::string(60'000, ' '));
    EXPECT_THAT(next.ReadResponse().body, HasSubstr(refused ? "(rpm), on all servers" : "held_bytes"));
    slow.Close();
    End();
  }
}

TEST_F(StoreWaitTest, ARequestWaitsNoLongerThanItMayTake) {
  for (const bool fails_open : {true, false}) {
    Start({.tpm = 1000}, fails_open, /*patience_us=*/60'000'000);
    Answer("tpm", "");  // never
    const size_t before = Asked("tpm");
    const Response response = Ask(R"({"prompt":"hi","max_tokens":2,"timeout":0.2})");
    EXPECT_EQ(response.status, 504) << "within ten seconds";
    EXPECT_THAT(response.body, HasSubstr("request_time_exceeded"));
    EXPECT_EQ(Asked("tpm"), before + 1);
    EXPECT_EQ(server_->executor().launches, 0) << "little time is no way past the store";
    // What the store may still say comes back.
    const size_t heard = fake_.count();
    fake_.Say("*3\r\n:1\r\n:7\r\n:0\r\n");
    EXPECT_EQ(fake_.Await(FakeStore::IsGive, heard)[6], "4");
    End();
  }
}

TEST_F(StoreWaitTest, AServerThatEndsLeavesNobodyToBeWoken) {
  Start({.tpm = 1000});
  LeaveWhileAsked();
  server_.reset();  // the executor that the ask would be woken on goes with it
  EXPECT_EQ(store_->Ask({}, nullptr), nullptr) << "it has been stopped";
  store_.reset();
}

TEST_F(StoreWaitTest, WhatAClientThatLeftWasGrantedComesBack) {
  Start({.tpm = 1000});
  LeaveWhileAsked();
  fake_.Say("*3\r\n:1\r\n:7\r\n:0\r\n");
  EXPECT_EQ(fake_.Await(FakeStore::IsGive)[6], "102");
}

}  // namespace
}  // namespace hydrant
