// Sessions over HTTP: a real engine over a scripted model, whose every answer is the alphabet from where it stands.
#include "server/frontend/session_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/process/clock.h"
#include "server/sessions/journal/session_journal.h"
#include "tests/server/durable_server.h"
#include "tests/server/test_server.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;
using Response = RawClient::Response;

std::string Delete(const std::string& path) { return "DELETE " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"; }

std::string TextOf(const Response& response) {
  static constexpr std::string_view kMember = "\"text\":\"";
  const size_t at = response.body.find(kMember) + kMember.size();
  return response.body.substr(at, response.body.find('"', at) - at);
}

int CachedOf(const Response& response) {
  static constexpr std::string_view kMember = "\"cached_tokens\":";
  const size_t at = response.body.find(kMember);
  return at == std::string::npos ? -1 : std::stoi(response.body.substr(at + kMember.size()));
}

std::string Turn(const std::string& prompt, const std::string& more = "") {
  return CompletionPost(R"({"session_id":"s","max_tokens":20,"temperature":0,"prompt":")" + prompt + "\"" + more + "}");
}

TEST(Sessions, ATurnComputesOnlyWhatIsNew) {
  TestServer server;
  std::string history = "Once upon a time.";
  size_t computed = 0;
  for (int turn = 0; turn < 4; ++turn) {
    const Response response = server.Ask(Turn(history, R"(,"kv_report":true)"));
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(CachedOf(response), static_cast<int>(computed));
    EXPECT_THAT(response.body, HasSubstr(R"("session":"s")"));
    computed = history.size() + 20 - 1;  // the last token was never fed back
    history += TextOf(response) + " And then?";
  }
  const Response card = server.Ask(Get("/v1/sessions/s"));
  EXPECT_THAT(card.body, HasSubstr(R"("state":"parked","tokens":)" + std::to_string(computed + 1) + ","));
  EXPECT_TRUE(server.BecomesIdle()) << "nothing of it is left in the pool";
  const std::string metrics = server.Ask(Get("/metrics")).body;
  EXPECT_THAT(metrics, HasSubstr("hydrant_sessions{state=\"parked\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("hydrant_restores_total 3\n"));
}

TEST(Sessions, TheEndOfATurnSaysWhatIsPromisedAndARestartKeepsIt) {
  const TempDir temp;
  const std::string directory = temp.File("d");
  const auto numbered = [](const std::string& last) {
    return CompletionPost(R"({"session_id":"s","session_append":)" + std::string(last == "0" ? "false" : "true") +
                              R"(,"max_tokens":20,"temperature":0,"stream":true,"prompt":"and "})",
                          "X-Session-Turn: " + last + "\r\n");
  };
  {
    DurableServer durable(directory);
    const Response first = durable.server->Ask(Turn("Once upon a time."));
    EXPECT_THAT(first.body, HasSubstr(R"("hydrant":{"turn":1,"durable":"tokens","resumed":false})"));
    const Response second = durable.server->Ask(numbered("1"));
    const size_t said = second.body.find(R"("hydrant":{"turn":2,"durable":"tokens","resumed":true})");
    ASSERT_NE(said, std::string::npos) << second.body;
    EXPECT_GT(said, second.body.find("finish_reason\":\"length"));
    EXPECT_EQ(second.body.find("\"hydrant\"", said + 5), std::string::npos) << "once";
    EXPECT_THAT(durable.server->Ask(Get("/metrics")).body, HasSubstr("hydrant_session_log_records_total 2\n"));
  }
  DurableServer durable(directory);
  EXPECT_THAT(durable.server->Ask(Get("/v1/sessions/s")).body, HasSubstr(R"("state":"cold","tokens":61)"));
  const Response stored = durable.server->Ask(Get("/v1/sessions/s/kv?after=0&limit=4"));
  EXPECT_THAT(stored.body, HasSubstr(R"("known":61,"logical":0,)")) << "who looks sees what the disk has";
  EXPECT_THAT(stored.body, HasSubstr(R"("pieces":["O","n","c","e"])"));
  EXPECT_THAT(stored.body, HasSubstr(R"("unknown":"cold")"));
  const Response again = durable.server->Ask(numbered("1"));
  EXPECT_EQ(again.status, 409);
  EXPECT_THAT(again.body, HasSubstr("turn_conflict"));
  EXPECT_THAT(durable.server->Ask(numbered("two")).body, HasSubstr("X-Session-Turn"));
  EXPECT_EQ(durable.server->Ask(numbered("2")).status, 200);
  EXPECT_EQ(durable.server->Ask(Delete("/v1/sessions/s")).status, 200);
  durable.journal->Stop();  // nothing is durable any more
  EXPECT_THAT(durable.server->Ask(numbered("0")).body,
              HasSubstr(R"("hydrant":{"turn":1,"durable":false,"resumed":false})"));
  EXPECT_EQ(durable.server->Ask(Delete("/v1/sessions/s")).status, 200) << "the log never had it";
}

// What a request may compute is bounded (16 contexts), and not what its session has been through before.
TEST(Sessions, ARollingOneGoesOnPastWhatARequestMayCompute) {
  TestServerOptions options;
  options.context = 320;
  options.parked_blocks = 1;  // a budget of 16 tokens: the session that is parked last
  TestServer server(options);
  const int tokens_max = 16 * options.context;
  const auto turn = [&server](const std::string& session, bool append) {
    return server.Ask(
        CompletionPost(R"({"session_id":")" + session + R"(","session_append":)" + (append ? "true" : "false") +
                       R"(,"prompt":"And then?","max_tokens":400,"temperature":0,)" +
                       R"("kv":{"policy":"h2o","budget":16,"position":"rolling","prefill":"budgeted"}})"));
  };
  int history = 0;
  while (history < 2 * tokens_max) {
    const Response response = turn("s", /*append=*/history > 0);
    ASSERT_EQ(response.status, 200) << "at " << history << " tokens: " << response.body;
    EXPECT_EQ(CachedOf(response), history == 0 ? 0 : history - 1);
    history += 9 + 400;
  }
  ASSERT_EQ(turn("other", false).status, 200);
  const Response cold = turn("s", true);
  EXPECT_EQ(cold.status, 400) << "its whole history would have to be computed";
  EXPECT_THAT(cold.body, HasSubstr("the tokens of all prompts may be at most " + std::to_string(tokens_max)));
  EXPECT_EQ(turn("other", true).status, 200);
}

TEST(Sessions, TheEndOfAStreamFreesItsSessionForTheNextTurn) {
  TestServer server;
  std::string history = "Once.";
  for (int turn = 0; turn < 10; ++turn) {
    const Response response = server.Ask(Turn(history, R"(,"stream":true)"));
    ASSERT_EQ(response.status, 200) << "turn " << turn << ": " << response.body;
    history += "x";
  }
}

TEST(Sessions, WithAppendTheServerKnowsTheRest) {
  TestServer server;
  EXPECT_EQ(server.Ask(Turn("One", R"(,"session_append":true)")).status, 404) << "there is no past to append to";
  ASSERT_EQ(server.Ask(Turn("One")).status, 200);
  const Response second = server.Ask(Turn("Two", R"(,"session_append":true)"));
  EXPECT_THAT(second.body, HasSubstr(R"("prompt_tokens":26,"completion_tokens":20)")) << "3 + 20 + 3";
  EXPECT_EQ(CachedOf(second), 22);
}

TEST(Sessions, AnEditedHistoryIsComputedAnewAndIsThePastFromThenOn) {
  TestServer server;
  ASSERT_EQ(server.Ask(Turn("One")).status, 200);
  const Response edited = server.Ask(Turn("Two and more"));
  EXPECT_EQ(CachedOf(edited), 0);
  EXPECT_EQ(TextOf(edited), TextOf(server.Ask(CompletionPost(R"({"prompt":"Two and more","max_tokens":20})"))));
  EXPECT_EQ(CachedOf(server.Ask(Turn("Two and more" + TextOf(edited) + "!"))), 31);
}

TEST(Sessions, AnEditedHistoryHasTheBudgetItWouldHaveWithoutASession) {
  TestServer server;
  const std::string kv = R"(,"kv_report":true,"kv":{"policy":"h2o","budget":{"ratio_of_prompt":0.5}})";
  const Response first = server.Ask(Turn(std::string(40, 'x'), kv));
  EXPECT_THAT(first.body, HasSubstr(R"("budget":20)"));
  const Response second = server.Ask(Turn(std::string(40, 'x') + TextOf(first) + "?", kv));
  EXPECT_THAT(second.body, HasSubstr(R"("budget":20)")) << "one budget for the session's life";
  EXPECT_EQ(CachedOf(second), 59);
  EXPECT_THAT(server.Ask(Turn(std::string(100, 'y'), kv)).body, HasSubstr(R"("budget":50)"));
}

TEST(Sessions, AFailedTurnIsOverWhenItsErrorIsSent) {
  TestServer server;
  ASSERT_EQ(server.Ask(Turn("One")).status, 200);
  for (int round = 0; round < 5; ++round) {
    server.executor().not_finite = true;
    EXPECT_EQ(server.Ask(Turn("Two", R"(,"session_append":true)")).status, 500);
    server.executor().not_finite = false;
    const Response again = server.Ask(Turn("Two", R"(,"session_append":true)"));
    ASSERT_EQ(again.status, 200) << again.body;
    EXPECT_GT(CachedOf(again), 0) << "what was parked is there still";
  }
}

TEST(Sessions, AnotherPolicyIsComputedAnew) {
  TestServer server;
  const std::string kv = R"(,"kv":{"policy":"h2o","budget":16})";
  const Response first = server.Ask(Turn("One", kv));
  ASSERT_EQ(first.status, 200);
  std::string history = "One" + TextOf(first);
  const Response silent = server.Ask(Turn(history + "?", R"(,"kv_report":true)"));
  EXPECT_EQ(CachedOf(silent), 22) << "a session's policy holds until it is told otherwise";
  EXPECT_THAT(silent.body, HasSubstr(R"("budget":16)"));
  history += "?" + TextOf(silent) + "?";
  const Response changed = server.Ask(Turn(history, R"(,"kv":{"policy":"h2o","budget":32})"));
  EXPECT_EQ(CachedOf(changed), 0);
  EXPECT_EQ(CachedOf(server.Ask(Turn(history + TextOf(changed) + "?"))), static_cast<int>(history.size()) + 19);
}

TEST(Sessions, ATurnThatEndsWithAStopStringGoesOnBehindIt) {
  TestServer server;
  const std::string stop = R"(,"stop":["mn"])";
  const Response first = server.Ask(Turn("One", stop));
  EXPECT_EQ(TextOf(first), "defghijkl");
  const Response second = server.Ask(Turn("One" + TextOf(first) + "mn and more", stop));
  EXPECT_EQ(CachedOf(second), 13) << "3 + 11 tokens, the last of them without KV";
}

TEST(Sessions, AStopTokenIsNoPartOfThePast) {
  TestServerOptions options;
  options.next = Recite("Yes.");
  TestServer server(std::move(options));
  ASSERT_EQ(server.Ask(Turn("One?")).status, 200);
  EXPECT_THAT(server.Ask(Get("/v1/sessions/s")).body, HasSubstr(R"("tokens":8,)"));
  EXPECT_EQ(CachedOf(server.Ask(Turn("One?Yes. Two?"))), 8);
}

TEST(Sessions, OneTurnAtATimeAndAClientThatLeavesUndoesItsOwn) {
  TestServer server;
  ASSERT_EQ(server.Ask(Turn("One")).status, 200);
  const std::string before = server.Ask(Get("/v1/sessions/s")).body;
  server.executor().Hold(3);
  RawClient client(server.port());
  client.Send(
      CompletionPost(R"({"session_id":"s","session_append":true,"prompt":"Two","max_tokens":2000,"stream":true})"));
  client.ReadUntil("data: ");
  const Response busy = server.Ask(Turn("One"));
  EXPECT_EQ(busy.status, 409);
  EXPECT_THAT(busy.body, HasSubstr(R"("type":"conflict_error","param":null,"code":"session_busy")"));
  EXPECT_EQ(server.Ask(Delete("/v1/sessions/s")).status, 409);
  EXPECT_THAT(server.Ask(Get("/v1/sessions/s")).body, HasSubstr(R"("state":"busy")"));
  client.Close();
  EXPECT_TRUE(Eventually([&] { return server.Ask(Get("/load")).body == R"({"server_load":0})"; })) << "it was noticed";
  server.executor().Release();
  EXPECT_TRUE(Eventually([&] { return server.Ask(Get("/v1/sessions/s")).body.find("\"busy\"") == std::string::npos; }));
  EXPECT_THAT(server.Ask(Get("/v1/sessions/s")).body, HasSubstr(R"("state":"parked","tokens":23,)"));
  const Response again = server.Ask(Turn("Two", R"(,"session_append":true)"));
  EXPECT_EQ(CachedOf(again), 22) << before;
}

// The engine ends the turn by itself, and nobody is there to have it.
TEST(Sessions, AClientThatLeavesInTheLastStepOfItsTurnUndoesItToo) {
  TestServer server;
  ASSERT_EQ(server.Ask(Turn("One")).status, 200);
  ASSERT_TRUE(Eventually([&] { return server.engine().counters().scheduler.parks == 1; })) << "no step for that comes";
  server.executor().Hold(2);
  RawClient client(server.port());
  client.Send(
      CompletionPost(R"({"session_id":"s","session_append":true,"prompt":"Two","max_tokens":3,"stream":true})"));
  client.ReadUntil("data: ");
  client.Close();
  EXPECT_TRUE(Eventually([&] { return server.Ask(Get("/load")).body == R"({"server_load":0})"; })) << "it was noticed";
  server.executor().Release();
  EXPECT_TRUE(server.BecomesIdle());
  EXPECT_TRUE(Eventually([&] { return server.engine().counters().scheduler.parks == 2; })) << "it had ended by then";
  EXPECT_THAT(server.Ask(Get("/v1/sessions/s")).body, HasSubstr(R"("state":"parked","tokens":23,)"));
  EXPECT_TRUE(Eventually([&] { return server.engine().counters().parked_blocks == 2; }))
      << "and nothing but what the session goes on from";
  EXPECT_EQ(CachedOf(server.Ask(Turn("Two", R"(,"session_append":true)"))), 22);
}

TEST(Sessions, ALogOfThePromptTakesAllOfIt) {
  TestServer server;
  const Response first = server.Ask(Turn("One"));
  const std::string history = "One" + TextOf(first) + "?";
  const Response scored = server.Ask(Turn(history, R"(,"echo":true,"logprobs":0)"));
  EXPECT_EQ(scored.status, 200);
  EXPECT_EQ(CachedOf(scored), 0);
}

TEST(Sessions, BadRequestsNameTheirFieldAndBeginNothing) {
  TestServer server;
  ASSERT_EQ(server.Ask(Turn("One")).status, 200);
  const struct {
    const char* body;
    int status;
    const char* part;
  } kRows[] = {
      {R"({"session_id":"../../etc/passwd","prompt":"x"})", 400, R"("param":"session_id")"},
      {R"({"session_id":"","prompt":"x"})", 400, R"("param":"session_id")"},
      {R"({"session_id":"s","prompt":["x","y"]})", 400, R"("param":"prompt")"},
      {R"({"session_id":"s","prompt":"x","n":2})", 400, R"("param":"n")"},
      {R"({"session_append":true,"prompt":"x"})", 400, R"("param":"session_append")"},
      {R"({"session_append":"yes","prompt":"x"})", 400, R"("param":"session_append")"},
      {R"({"session_id":"s","session_append":true,"prompt":"x","echo":true})", 400, R"("param":"echo")"},
      {R"({"session_id":"s","session_append":true,"prompt":"x","truncate_prompt_tokens":4})", 400,
       R"("param":"truncate_prompt_tokens")"},
      {R"({"session_id":"s","session_append":true,"prompt":"x","max_tokens":4090})", 400, "context_length_exceeded"},
      {R"({"session_id":"s","session_append":true,"prompt":""})", 400, "empty_prompt"},
      {R"({"session_id":"t","session_append":true,"prompt":"x"})", 404, "session_not_found"},
  };
  for (const auto& row : kRows) {
    const Response response = server.Ask(CompletionPost(row.body));
    EXPECT_EQ(response.status, row.status) << row.body;
    EXPECT_THAT(response.body, HasSubstr(row.part)) << row.body;
  }
  EXPECT_THAT(server.Ask(Get("/v1/sessions")).body, Not(HasSubstr(R"("id":"t")")));
  EXPECT_THAT(server.Ask(Get("/v1/sessions/s")).body, HasSubstr(R"("state":"parked","tokens":23,)"));
}

TEST(Sessions, TheIdMayComeInAHeader) {
  TestServer server;
  const std::string body = R"({"prompt":"One","max_tokens":3})";
  EXPECT_EQ(server.Ask(CompletionPost(body, "X-Session-ID: mine\r\n")).status, 200);
  EXPECT_EQ(server.Ask(Get("/v1/sessions/mine")).status, 200);
  EXPECT_EQ(server.Ask(CompletionPost(body, "x-session-affinity: near\r\n")).status, 200);
  EXPECT_EQ(server.Ask(Get("/v1/sessions/near")).status, 200);
  const Response wrong = server.Ask(CompletionPost(body, "X-Session-ID: a/b\r\n"));
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr(R"("param":"X-Session-ID")"));
}

TEST(Sessions, AGatewaysHeadersNameOneWhereTheyAreListed) {
  const std::string body = R"({"prompt":"One","max_tokens":3})";
  TestServerOptions options;
  options.http.context.session_headers = {"x-session-id", "x-routing-key"};
  TestServer server(std::move(options));
  const auto turn = [&](const std::string& fields, int status = 200) {
    const Response response = server.Ask(CompletionPost(body, fields));
    EXPECT_EQ(response.status, status) << fields << response.body;
    return response.body;
  };
  const auto is_there = [&](const std::string& id) { return server.Ask(Get("/v1/sessions/" + id)).status == 200; };
  turn("X-Routing-Key: mine\r\n");
  EXPECT_TRUE(is_there("mine"));
  turn("X-Routing-Key: second\r\nX-Session-ID: first\r\n");
  EXPECT_TRUE(is_there("first"));
  EXPECT_FALSE(is_there("second"));
  // What is no id is hashed, the same everywhere, and never a path, another header's line or an error.
  turn("X-Session-ID: a.b/../c\r\n");
  EXPECT_TRUE(is_there("header_837137dbe28383f941b6d374d6016e0c")) << server.Ask(Get("/v1/sessions")).body;
  turn("X-Session-ID: " + std::string(4000, 'x') + "\r\n");
  turn("X-Session-ID: " + std::string(4000, 'x') + "y\r\n");
  turn("X-Session-ID:\r\nX-Routing-Key: after nothing\r\n");
  EXPECT_THAT(turn("X-Session-ID: a.b/../c\r\n"), HasSubstr(R"("hydrant":{"turn":2,)"));
  size_t sessions = 0;
  const std::string list = server.Ask(Get("/v1/sessions")).body;
  for (size_t at = list.find("\"id\":"); at != std::string::npos; at = list.find("\"id\":", at + 1)) ++sessions;
  EXPECT_EQ(sessions, 6u) << list;
  // What a body says counts before; and no other field than those that are listed names one so.
  EXPECT_EQ(server.Ask(Turn("One")).status, 200);
  EXPECT_EQ(server.Ask(CompletionPost(R"({"prompt":"One","session_id":"a.b"})", "X-Routing-Key: k\r\n")).status, 400);
  EXPECT_FALSE(is_there("k"));
  turn("X-Session-Affinity: a.b\r\n", 400);
}

TEST(Sessions, AHeadersValueIsASessionOfItsOwnTenantAlone) {
  TestServerOptions options;
  options.http.context.session_headers = {"x-routing-key"};
  options.tenants = TwoTenants();
  TestServer server(std::move(options));
  const auto turn = [&](const char* key) {
    const std::string fields = "X-Routing-Key: a.b\r\nAuthorization: Bearer " + std::string(key) + "\r\n";
    return server.Ask(CompletionPost(R"({"prompt":"One","max_tokens":3})", fields)).body;
  };
  EXPECT_THAT(turn("key-a"), HasSubstr(R"("hydrant":{"turn":1,)"));
  EXPECT_THAT(turn("key-b"), HasSubstr(R"("hydrant":{"turn":1,)")) << "b goes on from what a said";
  EXPECT_THAT(turn("key-a"), HasSubstr(R"("hydrant":{"turn":2,)"));
}

TEST(Sessions, ATurnSaysWhetherItsKvWasThere) {
  TestServer server;
  std::string history = "Once upon a time.";
  const Response first = server.Ask(Turn(history));
  EXPECT_THAT(first.body, HasSubstr(R"("turn":1,"durable":false,"resumed":false})"));
  history += TextOf(first) + " And then?";
  EXPECT_THAT(server.Ask(Turn(history)).body, HasSubstr(R"("turn":2,"durable":false,"resumed":true})"));
  EXPECT_THAT(server.Ask(Turn("Another story.")).body, HasSubstr(R"("turn":3,"durable":false,"resumed":false})"));
}

TEST(Sessions, ATurnThatRecallsBeginsWithTheBlocksOfTheLastPrompt) {
  TestServerOptions options;
  options.http.context.prefix_caching = true;
  options.spare_score_blocks = 1024;
  TestServer server(std::move(options));
  static constexpr char kKv[] = R"(,"kv":{"policy":"h2o","budget":24,"recall":"turn"},"kv_report":true)";
  std::string history(70, 'x');
  size_t left = 0;
  for (int turn = 0; turn < 4; ++turn) {
    const Response response = server.Ask(Turn(history, turn == 0 ? kKv : R"(,"kv_report":true)"));
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(CachedOf(response), static_cast<int>(left));
    EXPECT_THAT(response.body, HasSubstr(turn == 0 ? R"("resumed":false})" : R"("resumed":true})"));
    EXPECT_THAT(response.body, HasSubstr(R"("kv":{"live":25,"budget":24,)"));
    left = (history.size() - 1) / 16 * 16;
    EXPECT_THAT(server.Ask(Get("/v1/sessions/s")).body,
                HasSubstr(R"("state":"parked","tokens":)" + std::to_string(history.size() + 20) + R"(,"live":)" +
                          std::to_string(left) + ","));
    history += TextOf(response) + " And then?";
  }
  EXPECT_TRUE(server.BecomesIdle()) << "nothing of it is left in the pool";
  // Another session finds the same prompt in the prefix cache, and leaves it all the same.
  const Response other = server.Ask(CompletionPost(
      absl::StrCat(R"({"session_id":"t","max_tokens":1,"prompt":")", std::string(70, 'x'), "\"", kKv, "}")));
  EXPECT_EQ(CachedOf(other), 48) << "less than a block before what it leaves";
  EXPECT_THAT(server.Ask(Get("/v1/sessions/t")).body, HasSubstr(R"("state":"parked","tokens":71,"live":64,)"));
  // The same again has no turn before it to begin with.
  history.resize(history.size() - 10 - 20);
  EXPECT_THAT(server.Ask(Turn(history)).body, HasSubstr(R"("resumed":false})"));
  // Where the beginning is another text, nothing of it is gone on from; what is shorter than what was left is computed, too.
  history[0] = 'y';
  EXPECT_THAT(server.Ask(Turn(history)).body, HasSubstr(R"("resumed":false})"));
  EXPECT_THAT(server.Ask(Turn(history.substr(0, 60))).body, HasSubstr(R"("resumed":false})"));
}

TEST(Sessions, ATurnThatRecallsKeepsWhatItsWholePromptComesTo) {
  TestServerOptions options;
  options.http.context.prefix_caching = true;
  options.spare_score_blocks = 1024;
  TestServer server(std::move(options));
  std::string history(80, 'x');
  for (int turn = 0; turn < 3; ++turn) {
    const std::string kv =
        turn > 0 ? "" : R"(,"kv":{"policy":"h2o","budget":{"ratio_of_prompt":0.25},"recall":"turn"})";
    const Response response = server.Ask(Turn(history, kv + R"(,"kv_report":true)"));
    EXPECT_THAT(response.body, HasSubstr(R"("budget":)" + std::to_string(history.size() / 4) + ","));
    EXPECT_THAT(response.body, HasSubstr(turn == 0 ? R"("resumed":false})" : R"("resumed":true})"));
    history += TextOf(response) + std::string(60, 'y');
  }
}

TEST(Sessions, AreListedByPageFoundAndDeleted) {
  TestServer server;
  EXPECT_THAT(server.Ask(Get("/v1/sessions")).body, HasSubstr(R"({"object":"list","data":[],"has_more":false})"));
  for (const char* id : {"b", "a", "c"}) {
    ASSERT_EQ(
        server.Ask(CompletionPost(R"({"prompt":"One","max_tokens":1,"session_id":")" + std::string(id) + "\"}")).status,
        200);
  }
  const std::string page = server.Ask(Get("/v1/sessions?limit=1&after=a")).body;
  EXPECT_THAT(page, HasSubstr(R"("id":"b")"));
  EXPECT_THAT(page, Not(HasSubstr(R"("id":"a")")));
  EXPECT_THAT(page, HasSubstr(R"("has_more":true)"));
  EXPECT_EQ(server.Ask(Get("/v1/sessions?limit=0")).status, 400);
  EXPECT_EQ(server.Ask(Get("/v1/sessions?after=a/b")).status, 400);
  const Response deleted = server.Ask(Delete("/v1/sessions/%61"));
  EXPECT_EQ(deleted.status, 200);
  EXPECT_EQ(deleted.body, R"({"id":"a","object":"session","deleted":true})");
  EXPECT_EQ(server.Ask(Delete("/v1/sessions/a")).status, 404);
  EXPECT_EQ(server.Ask(Get("/v1/sessions/a")).status, 404);
  EXPECT_EQ(server.Ask(Get("/v1/sessions/..%2f..%2fetc")).status, 400);
  EXPECT_EQ(server.Ask(Delete("/v1/sessions")).status, 405);
  EXPECT_TRUE(Eventually([&] {
    return server.Ask(Get("/metrics")).body.find("hydrant_parked_blocks 2\n") != std::string::npos;
  })) << "its KV went with it";
}

TEST(Sessions, WithoutMemoryForTheirKvTurnsAreComputedFromTheTokens) {
  TestServerOptions options;
  options.parked_blocks = 0;
  TestServer server(std::move(options));
  const Response first = server.Ask(Turn("One"));
  const Response second = server.Ask(Turn("Two", R"(,"session_append":true)"));
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(CachedOf(second), 0);
  EXPECT_THAT(second.body, HasSubstr(R"("prompt_tokens":26,)"));
  EXPECT_THAT(server.Ask(Get("/v1/sessions/s")).body, HasSubstr(R"("state":"cold")"));
}

// 12 blocks hold 192 slots; a chat at a budget of 32 outgrows them and goes on.
TEST(Sessions, AChatOutgrowsThePoolThatHoldsIt) {
  TestServerOptions options;
  options.blocks = 12;
  TestServer server(std::move(options));
  ASSERT_EQ(server.Ask(Turn("One", R"(,"kv":{"policy":"h2o","budget":32})")).status, 200);
  for (int turn = 0; turn < 20; ++turn) {
    const Response response = server.Ask(Turn("Two", R"(,"session_append":true)"));
    ASSERT_EQ(response.status, 200) << "turn " << turn << ": " << response.body;
  }
  EXPECT_THAT(server.Ask(Get("/v1/sessions/s")).body, HasSubstr(R"("state":"parked","tokens":483,"live":32,)"));
  // Whoever asks for the same without the session is told that it cannot be.
  const std::string whole(463, 'x');
  EXPECT_THAT(server.Ask(CompletionPost(R"({"prompt":")" + whole + R"(","kv":{"policy":"h2o","budget":32}})")).body,
              HasSubstr("kv_capacity_exceeded"));
}

// What a client sees when its session's KV is lost between the moment its turn is accepted and the moment the engine takes it.
TEST(Sessions, ATurnWhosePastWasLostOnTheWayAndIsTooLongToComputeIsToldSo) {
  for (const char* stream : {"false", "true"}) {
    TestServerOptions options;
    options.blocks = 12;
    options.parked_blocks = 2;
    TestServer server(std::move(options));
    const std::string kv = R"(,"kv":{"policy":"h2o","budget":32})";
    ASSERT_EQ(server.Ask(Turn("One", kv)).status, 200);
    for (int turn = 0; turn < 9; ++turn) {
      ASSERT_EQ(server.Ask(Turn("Two", R"(,"session_append":true)")).status, 200) << turn;
    }
    // Another session's turn is in the engine when this one arrives, and parks before the engine takes it.
    server.executor().Hold();
    const int64_t launches = server.executor().launches;
    RawClient other(server.port());
    other.Send(
        CompletionPost(R"({"session_id":"t","max_tokens":1,"prompt":")" + std::string(40, 'x') + "\"" + kv + "}"));
    ASSERT_TRUE(Eventually([&] { return server.executor().launches > launches; }));
    RawClient client(server.port());
    client.Send(Turn("Two", std::string(R"(,"session_append":true,"stream":)") + stream));
    ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == 2; }));
    server.executor().Release();
    EXPECT_EQ(other.ReadResponse().status, 200);
    const Response response = client.ReadResponse();
    EXPECT_EQ(response.status, 400) << "stream " << stream << ": " << response.body;
    EXPECT_THAT(response.body,
                HasSubstr(R"("type":"invalid_request_error","param":"session_id","code":"kv_capacity_exceeded")"));
    EXPECT_THAT(response.body, HasSubstr("The session's KV was dropped"));
    // The session is as it was, and free; whoever asks again is told at once.
    EXPECT_THAT(server.Ask(Get("/v1/sessions/s")).body, HasSubstr(R"("state":"cold","tokens":230,"live":0,)"));
    const Response again = server.Ask(Turn("Two", R"(,"session_append":true)"));
    EXPECT_EQ(again.status, 400);
    EXPECT_THAT(again.body, HasSubstr("kv_capacity_exceeded"));
    EXPECT_THAT(server.Ask(Get("/v1/sessions/t")).body, HasSubstr(R"("state":"parked")"));
    EXPECT_TRUE(server.BecomesIdle());
  }
}

// A turn that cannot be sure of its session's KV while it waits, and needs it, is one that may come again.
TEST(Sessions, ATenantThatQueuesTurnsForAllItHasParkedIsToldToComeAgain) {
  TestServerOptions options;
  options.blocks = 12;
  options.parked_blocks = 8;
  options.sequences_max = 1;
  options.tenants.tenants.push_back(options.tenants.tenants.front());
  options.tenants.tenants.back().name = "other";
  TestServer server(std::move(options));
  const auto turn = [](int session, const std::string& more) {
    return CompletionPost(R"({"session_id":"s)" + std::to_string(session) + R"(","max_tokens":20,)" + more + "}");
  };
  for (int session = 0; session < 4; ++session) {
    ASSERT_EQ(server.Ask(turn(session, R"("prompt":"One","kv":{"policy":"h2o","budget":32})")).status, 200);
    for (int i = 0; i < 9; ++i) {
      ASSERT_EQ(server.Ask(turn(session, R"("prompt":"Two","session_append":true)")).status, 200);
    }
  }
  server.executor().Hold();
  const int64_t launches = server.executor().launches;
  RawClient busy(server.port());
  busy.Send(CompletionPost(R"({"prompt":"x","max_tokens":1})"));
  ASSERT_TRUE(Eventually([&] { return server.executor().launches > launches; }));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int session = 0; session < 4; ++session) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->Send(turn(session, R"("prompt":"Two","session_append":true)"));
    ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == session + 2; }));
  }
  server.executor().Release();
  int answered = 0;
  for (const auto& client : clients) {
    const Response response = client->ReadResponse();
    answered += response.status == 200 ? 1 : 0;
    if (response.status == 200) continue;
    EXPECT_EQ(response.status, 503) << response.body;
    EXPECT_THAT(response.body, HasSubstr("engine_refused"));
    EXPECT_EQ(response.Field("retry-after"), "1");
  }
  EXPECT_EQ(answered, 2) << "half of what can be parked is this tenant's share: two sessions";
  for (int session = 0; session < 4; ++session) {
    EXPECT_EQ(server.Ask(turn(session, R"("prompt":"Two","session_append":true)")).status, 200) << "and later it may";
  }
}

// A router's key of what belongs together, which says nothing of what a session is.
TEST(Sessions, WhatAGatewayNamesNeedNotBeOneTurnAtATime) {
  TestServerOptions options = WithChats();
  options.http.context.session_headers = {"x-key"};
  TestServer server(std::move(options));
  const std::string key = "X-Key: k\r\n";
  const auto ask = [&](const std::string& body, const std::string& fields = "") {
    return server.Ask(CompletionPost(body, key + fields));
  };
  EXPECT_EQ(ask(R"({"prompt":"a","n":2,"max_tokens":2})").status, 200);
  EXPECT_EQ(ask(R"({"prompt":["a","b"],"max_tokens":2})").status, 200);
  EXPECT_THAT(server.Ask(Get("/v1/sessions")).body, Not(HasSubstr("\"id\":\"k\""))) << "none of them was a turn";
  EXPECT_EQ(ask(R"({"prompt":"a","n":2,"max_tokens":2})", "X-Session-Turn: 0\r\n").status, 400);
  EXPECT_EQ(ask(R"({"prompt":"a","n":2,"max_tokens":2,"session_id":"s"})").status, 400) << "who speaks of sessions";
  EXPECT_THAT(ask(R"({"prompt":"Once","max_tokens":2})").body, HasSubstr(R"("hydrant":{"turn":1,)"));
  server.executor().Hold(3);
  RawClient first(server.port());
  first.Send(CompletionPost(R"({"prompt":"Once","max_tokens":9,"stream":true})", key));
  first.ReadUntil("data: ");
  RawClient second(server.port()), third(server.port());
  second.Send(CompletionPost(R"({"prompt":"Once","max_tokens":2})", key));
  const std::string body = R"({"input":"hi","max_output_tokens":2})";
  third.Send("POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + key +
             "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_EQ(ask(R"({"prompt":"Once","max_tokens":2})", "X-Session-Turn: 2\r\n").status, 409);
  server.executor().Release();
  const Response beside = second.ReadResponse(), kept = third.ReadResponse();
  EXPECT_EQ(beside.status, 200) << beside.body;
  EXPECT_THAT(beside.body, Not(HasSubstr("\"hydrant\""))) << "it has no session";
  EXPECT_EQ(kept.status, 200) << kept.body;
  EXPECT_THAT(kept.body, HasSubstr("\"store\":true"));
  EXPECT_THAT(first.ReadUntil("[DONE]"), HasSubstr(R"("hydrant":{"turn":2,)"));
}

}  // namespace
}  // namespace hydrant
