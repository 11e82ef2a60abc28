#include "loadgen/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <set>
#include <thread>

#include "tests/loadgen/replay_server.h"

namespace hydrant {
namespace {

Workload MakeWorkload(WorkloadSpec spec = {}) {
  spec.input_tokens = Distribution(4);
  spec.output_tokens = Distribution(3);
  return *Workload::Make(std::move(spec));
}

struct Load {
  explicit Load(const ReplayServer& server, WorkloadSpec workload_spec = {})
      : workload(MakeWorkload(std::move(workload_spec))), peer(server.peer()) {
    spec.workload = &workload;
    spec.peer = &peer;
    spec.style = *MakeRequestStyle(false, "m", "{}", "");
    spec.arrivals.count = 10;
  }
  RunResult Run() { return Runner(spec).Run(); }

  Workload workload;
  Peer peer;
  RunSpec spec;
};

ReplayServer::Handler Tokens(int tokens) {
  return [tokens](const std::string&, const std::string&) { return TokensReply(tokens); };
}

TEST(Runner, AnOpenLoopGetsItsAnswers) {
  ReplayServer server(Tokens(3));
  Load load(server);
  load.spec.arrivals.rate = 200;
  const RunResult run = load.Run();
  ASSERT_EQ(run.records.size(), 10u);
  for (const RequestRecord& record : run.records) {
    EXPECT_TRUE(record.succeeded()) << record.error_text;
    EXPECT_EQ(record.output_tokens, 3);
    EXPECT_EQ(record.prompt_tokens, 5) << "as the server counts";
    EXPECT_GE(record.sent_s, record.scheduled_s);
    EXPECT_GT(record.first_s, record.sent_s);
    EXPECT_GE(record.end_s, record.last_s);
  }
  EXPECT_GE(run.duration_s, 0.05) << "10 arrivals at 200 per second";
  EXPECT_FALSE(run.interrupted);
}

TEST(Runner, AClosedLoopKeepsToItsUsersAndConnections) {
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  ReplayServer server([&](const std::string&, const std::string&) {
    int now = ++running;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
    --running;
    return TokensReply(3);
  });
  Load load(server);
  load.spec.arrivals.count = 50;
  load.spec.concurrency_max = 2;
  EXPECT_EQ(load.Run().records.size(), 50u);
  EXPECT_LE(most, 2);
  EXPECT_LE(server.connections(), 2);
}

TEST(Runner, ADurationEndsAClosedLoop) {
  ReplayServer server(Tokens(1));
  Load load(server);
  load.spec.arrivals.count = 0;
  load.spec.concurrency_max = 1;
  // On a slow machine a tenth of a second may be over with the first answer.
  RunResult run;
  for (const double duration_s : {0.1, 1.0, 10.0}) {
    load.spec.arrivals.duration_s = duration_s;
    run = load.Run();
    for (const RequestRecord& record : run.records) EXPECT_LE(record.due_s, duration_s);
    if (run.records.size() > 1) break;
  }
  EXPECT_GT(run.records.size(), 1u);
}

TEST(Runner, AUserGoesOnWhileTheOthersAreStillToCome) {
  ReplayServer server(Tokens(1));
  Load load(server);
  load.spec.arrivals.duration_s = 60;
  load.spec.arrivals.users = load.spec.concurrency_max = 2;
  load.spec.arrivals.users_ramp_s = 1e6;
  EXPECT_EQ(load.Run().records.size(), 10u);
  EXPECT_EQ(server.connections(), 1);
}

TEST(Runner, AUserComesWhileAnotherOneIsAnswered) {
  std::atomic<int> requests{0};
  ReplayServer server([&](const std::string&, const std::string&) {
    ++requests;
    while (requests < 2) std::this_thread::yield();
    return TokensReply(1);
  });
  Load load(server);
  load.spec.arrivals.count = 2;
  load.spec.arrivals.users = load.spec.concurrency_max = 2;
  load.spec.arrivals.users_ramp_s = 0.02;
  const RunResult run = load.Run();
  ASSERT_EQ(run.records.size(), 2u);
  EXPECT_GE(std::max(run.records[0].due_s, run.records[1].due_s), 0.01);
}

TEST(Runner, AConnectionClosedWhileIdleIsReplaced) {
  ReplayServer server([](const std::string&, const std::string&) {
    Reply reply = TokensReply(1);
    reply.close = true;  // without having said so
    return reply;
  });
  Load load(server);
  load.spec.concurrency_max = 1;
  for (const RequestRecord& record : load.Run().records) EXPECT_TRUE(record.succeeded()) << record.error_text;
}

TEST(Runner, ARequestThatAServerHadReadIsNotSentAgain) {
  std::atomic<int> requests{0};
  ReplayServer server([&](const std::string&, const std::string&) {
    return ++requests == 2 ? Reply{{}, true} : TokensReply(1);  // the second one dies with it
  });
  Load load(server);
  load.spec.concurrency_max = 1;
  load.spec.arrivals.count = 3;
  const RunResult run = load.Run();
  EXPECT_EQ(requests, 3);
  ASSERT_EQ(run.records.size(), 3u);
  EXPECT_EQ(run.records[1].error, RequestError::kProtocol) << run.records[1].error_text;
  EXPECT_TRUE(run.records[2].succeeded()) << run.records[2].error_text;
}

TEST(Runner, FailuresHaveTheirKinds) {
  const std::pair<Reply, RequestError> cases[] = {
      {PlainReply(429, "{\"error\":{\"message\":\"slow\"}}"), RequestError::kHttp429},
      {PlainReply(503, ""), RequestError::kHttp503},
      {PlainReply(404, ""), RequestError::kHttpOther},
      {Reply{{}, false, true}, RequestError::kTimeout},
      {Reply{{"nonsense\r\n\r\n"}, true}, RequestError::kProtocol},
      {Reply{{TokensReply(1).pieces[0], TokensReply(1).pieces[1]}, true}, RequestError::kProtocol},
      {StreamReply({R"({"error":{"message":"x"}})", "[DONE]"}), RequestError::kStream},
      {StreamReply({R"({"choices":[{"text":"w"}]})", "[DONE]"}), RequestError::kProtocol},
  };
  for (const auto& [reply, error] : cases) {
    ReplayServer server([&reply = reply](const std::string&, const std::string&) { return reply; });
    Load load(server);
    load.spec.arrivals.count = 2;
    load.spec.request_timeout_s = error == RequestError::kTimeout ? 0.05 : 60;
    const RunResult run = load.Run();
    ASSERT_EQ(run.records.size(), 2u);
    EXPECT_EQ(run.records[0].error, error) << run.records[0].error_text;
  }
}

TEST(Runner, NobodyListening) {
  std::optional<ReplayServer> server(std::in_place, Tokens(1));
  Load load(*server);
  server.reset();
  EXPECT_EQ(load.Run().records[0].error, RequestError::kConnect);
}

TEST(Runner, AChatSendsTheServersAnswersBack) {
  std::mutex mutex;
  std::vector<std::string> bodies;
  ReplayServer server([&](const std::string& head, const std::string& body) {
    EXPECT_NE(head.find("X-Session-ID: p-"), std::string::npos) << head;
    const std::lock_guard lock(mutex);
    bodies.push_back(body);
    return TokensReply(2, true);
  });
  Load load(server, {.dataset = Dataset::kMultiTurn, .turns = Distribution(3), .think_s = Distribution(0.01)});
  load.spec.arrivals.count = 1;
  load.spec.style = *MakeRequestStyle(true, "m", "{}", "");
  load.spec.session_ids = true;
  load.spec.request_id_prefix = "p-";
  const RunResult run = load.Run();
  ASSERT_EQ(run.records.size(), 3u);
  EXPECT_EQ(run.records[2].turn, 2);
  EXPECT_GE(run.records[1].sent_s - run.records[0].end_s, 0.009) << "thinking";
  const std::lock_guard lock(mutex);
  ASSERT_EQ(bodies.size(), 3u);
  EXPECT_NE(bodies[1].find(R"({"role":"assistant","content":"ww"})"), std::string::npos) << bodies[1];
  EXPECT_EQ(bodies[1].find("think"), std::string::npos);
}

// A server may keep a session, and how its cache was to be kept, longer than a run.
TEST(Runner, SessionsAreOfOneRunAlone) {
  std::mutex mutex;
  std::vector<std::string> ids;
  ReplayServer server([&](const std::string& head, const std::string&) {
    const size_t begin = head.find("X-Session-ID: ");
    const std::lock_guard lock(mutex);
    ids.push_back(head.substr(begin, head.find('\r', begin) - begin));
    return TokensReply(2, true);
  });
  for (int i = 0; i < 2; ++i) {
    Load load(server, {.dataset = Dataset::kMultiTurn, .turns = Distribution(2)});
    load.spec.arrivals.count = 1;
    load.spec.style = *MakeRequestStyle(true, "m", "{}", "");
    load.spec.session_ids = true;
    load.Run();
  }
  const std::lock_guard lock(mutex);
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(ids[2], ids[3]);
  EXPECT_NE(ids[0], ids[2]);
}

TEST(Runner, AChatEndsWithItsFirstFailure) {
  ReplayServer server([](const std::string&, const std::string&) { return PlainReply(500, ""); });
  Load load(server, {.turns = Distribution(3)});
  load.spec.arrivals.count = 2;
  EXPECT_EQ(load.Run().records.size(), 2u);
}

TEST(Runner, TenantsSendTheirKeys) {
  std::mutex mutex;
  std::set<std::string> keys;
  ReplayServer server([&](const std::string& head, const std::string&) {
    const std::lock_guard lock(mutex);
    const size_t at = head.find("Bearer ");
    keys.insert(at == std::string::npos ? "" : head.substr(at + 7, 2));
    return TokensReply(1);
  });
  Load load(server, {.tenants = {{.name = "a", .key = "ka"}, {.name = "b", .key = "kb"}, {.name = "c"}}});
  load.spec.arrivals.count = 60;
  load.spec.concurrency_max = 4;
  load.spec.key = "kc";
  load.Run();
  const std::lock_guard lock(mutex);
  EXPECT_EQ(keys, (std::set<std::string>{"ka", "kb", "kc"}));
}

TEST(Runner, TheSameSeedIsTheSameLoad) {
  std::mutex mutex;
  std::multiset<std::string> bodies;
  ReplayServer server([&](const std::string&, const std::string& body) {
    const std::lock_guard lock(mutex);
    bodies.insert(body);
    return TokensReply(1);
  });
  Load load(server);
  load.Run();
  std::multiset<std::string> first;
  {
    const std::lock_guard lock(mutex);
    first.swap(bodies);
  }
  Load again(server);
  again.spec.concurrency_max = 1;
  again.Run();
  const std::lock_guard lock(mutex);
  EXPECT_EQ(bodies, first);
  EXPECT_EQ(first.size(), 10u);
}

TEST(Runner, AnInterruptEndsTheRunWithItsRecords) {
  std::atomic<int> requests{0};
  ReplayServer server([&](const std::string&, const std::string&) {
    if (++requests <= 2) return TokensReply(1);
    (void)raise(SIGINT);
    return Reply{{}, false, true};
  });
  Load load(server);
  load.spec.arrivals.count = 1000;
  load.spec.concurrency_max = 1;
  const RunResult run = load.Run();
  EXPECT_TRUE(run.interrupted);
  ASSERT_EQ(run.records.size(), 3u);
  EXPECT_TRUE(run.records[1].succeeded());
  EXPECT_EQ(run.records[2].error, RequestError::kCancelled);
}

}  // namespace
}  // namespace hydrant
