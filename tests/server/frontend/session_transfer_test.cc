// Sessions that are fetched from one server and put into another, and deleted for good, over HTTP.
#include "server/frontend/session_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "server/process/clock.h"
#include "server/sessions/past_codec.h"
#include "tests/server/durable_server.h"
#include "tests/server/sessions/journal/stuck_disk.h"
#include "tests/server/sessions/tools/sessions_on_disk.h"
#include "tests/server/test_server.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;
using Response = RawClient::Response;

constexpr const char* kOnlyNew = "If-None-Match: *\r\nContent-Type: application/vnd.hydrant.session\r\n";

std::string Say(const std::string& prompt, const std::string& more = "") {
  return CompletionPost(R"({"session_id":"s","max_tokens":20,"temperature":0,"prompt":")" + prompt + "\"" + more + "}");
}

std::string Put(const std::string& path, const std::string& body, const std::string& fields = kOnlyNew) {
  return "PUT " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string DeleteSession(const std::string& path, const std::string& fields = "") {
  return "DELETE " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}

std::string StateOf(TestServer& server) {
  const Response state = server.Ask(Get("/v1/sessions/s/state"));
  EXPECT_EQ(state.status, 200) << state.body;
  return state.body;
}

TEST(SessionTransfer, ASessionGoesOnElsewhereAsWhereItWas) {
  for (const char* kv : {"", R"(,"kv":{"policy":"h2o","budget":32})",
                         R"(,"kv":{"policy":"h2o-plus","budget":{"ratio_of_prompt":0.9}})"}) {
    TestServer from, to;
    ASSERT_EQ(from.Ask(Say("Once upon a time there was a lighthouse.", kv)).status, 200) << kv;
    const Response state = from.Ask(Get("/v1/sessions/s/state"));
    ASSERT_EQ(state.status, 200) << state.body;
    EXPECT_EQ(state.Field("content-type"), "application/vnd.hydrant.session");
    EXPECT_EQ(state.Field("etag"), "\"turn-1\"");
    const Response put = to.Ask(Put("/v1/sessions/s/state", state.body));
    EXPECT_EQ(put.status, 201) << put.body;
    EXPECT_EQ(put.body, R"({"id":"s","object":"session","turn":1,"durable":false})");
    EXPECT_EQ(StateOf(to), state.body);
    const std::string next =
        R"({"session_id":"s","session_append":true,"max_tokens":20,"temperature":0,"prompt":" And?"})";
    const Response here = from.Ask(CompletionPost(next)), there = to.Ask(CompletionPost(next, "X-Session-Turn: 1\r\n"));
    ASSERT_EQ(there.status, 200) << there.body;
    const auto text_of = [](const Response& response) {
      const size_t at = response.body.find("\"text\":\"");
      return response.body.substr(at, response.body.find('"', at + 8) - at);
    };
    EXPECT_EQ(text_of(here), text_of(there));
    EXPECT_THAT(there.body, HasSubstr(R"("hydrant":{"turn":2,)"));
    const Response again = to.Ask(Put("/v1/sessions/s/state", state.body));
    EXPECT_EQ(again.status, 412);
    EXPECT_THAT(again.body, HasSubstr("session_exists"));
    EXPECT_THAT(again.body, HasSubstr("its last turn is 2"));
  }
}

TEST(SessionTransfer, TheLastTurnThatThereCanBeHasNoneAfterIt) {
  TestServer from, to, next;
  ASSERT_EQ(from.Ask(Say("Once.")).status, 200);
  absl::StatusOr<SessionFile> file = ReadSessionFile(StateOf(from));
  ASSERT_TRUE(file.ok());
  file->turn = SessionStore::kTurnMax;
  const std::string last = WriteSessionFile(*file);
  EXPECT_EQ(to.Ask(Put("/v1/sessions/s/state", last)).status, 201);
  EXPECT_THAT(to.Ask(Say(" And?", R"(,"session_append":true)")).body, HasSubstr("session_damaged"));
  EXPECT_EQ(next.Ask(Put("/v1/sessions/s/state", StateOf(to))).status, 201) << "it can be moved again";
  file->turn = SessionStore::kTurnMax + 1;
  EXPECT_EQ(next.Ask(Put("/v1/sessions/t/state", WriteSessionFile(*file))).status, 400);
}

TEST(SessionTransfer, ADeletionCountsAsARequest) {
  TestServerOptions options;
  options.tenants.tenants.front().limits.rpm = 2;
  TestServer server(std::move(options));
  ASSERT_EQ(server.Ask(Say("Once.")).status, 200);
  EXPECT_EQ(server.Ask(DeleteSession("/v1/sessions/s?purge=now")).status, 200);
  EXPECT_EQ(server.Ask(DeleteSession("/v1/sessions/s?purge=now")).status, 429);
}

TEST(SessionTransfer, WhatIsWrongWithAPutIsSaidBeforeItsBodyIsRead) {
  TestServer server;
  struct Case {
    std::string request;
    int status;
    const char* says;
  };
  const std::string path = "/v1/sessions/s/state";
  const auto head = [](const std::string& at, const std::string& fields) {
    return "PUT " + at + " HTTP/1.1\r\nHost: localhost\r\n" + fields;
  };
  const Case cases[] = {
      {head(path, kOnlyNew) + "Content-Length: 9000000000000\r\n\r\n", 413, "payload_too_large"},
      {head(path, "Content-Length: 9\r\n\r\n123456789"), 400, "If-None-Match"},
      {head(path, std::string(kOnlyNew) + "Transfer-Encoding: chunked\r\n\r\n"), 411, "length_required"},
      {head(path, "If-None-Match: *\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n123456789"), 415,
       "application/vnd.hydrant.session"},
      {head("/v1/sessions/s", std::string(kOnlyNew) + "Content-Length: 9\r\n\r\n123456789"), 405, "method_not_allowed"},
      {head("/v1/sessions/a%20b/state", std::string(kOnlyNew) + "Content-Length: 9\r\n\r\n123456789"), 400,
       "session_id"},
  };
  for (const Case& row : cases) {
    const Response response = RawClient(server.port()).Ask(row.request);
    EXPECT_EQ(response.status, row.status) << row.request;
    EXPECT_THAT(response.body, HasSubstr(row.says));
  }
  EXPECT_EQ(server.Ask(Get("/v1/sessions/s/state")).status, 404);
}

TEST(SessionTransfer, AFileOfAnothersIsRefusedByName) {
  TestServer from;
  ASSERT_EQ(from.Ask(Say("Once.")).status, 200);
  const std::string state = StateOf(from);
  const auto refused = [](TestServer& to, const std::string& id, const std::string& body) {
    const Response response = to.Ask(Put("/v1/sessions/" + id + "/state", body));
    EXPECT_GE(response.status, 400);
    EXPECT_EQ(to.Ask(Get("/v1/sessions")).body, R"({"object":"list","data":[],"has_more":false})");
    return response.body;
  };
  TestServer to;
  EXPECT_THAT(refused(to, "t", state), HasSubstr("another session's than the path names"));
  SessionFile file = *ReadSessionFile(state);
  file.facts.tenant = "acme";
  EXPECT_THAT(refused(to, "s", WriteSessionFile(file)), HasSubstr("The state is another tenant's."));
  EXPECT_THAT(refused(to, "s", state.substr(0, state.size() - 1)), HasSubstr("invalid_session_state"));
  EXPECT_THAT(refused(to, "s", "hello"), HasSubstr("this is not a session's file"));
  SessionPast past = *DecodePast({&file.past, 1}, file.model);
  past.tokens[0] = ByteTokenizer::kVocab;
  file.facts.tenant = "default";
  file.past = EncodePast(past, nullptr, file.model);
  EXPECT_THAT(refused(to, "s", WriteSessionFile(file)), HasSubstr(R"("param":"tokens")"));
  TestServerOptions options;
  options.sessions.model = {9};
  TestServer other(std::move(options));
  EXPECT_THAT(refused(other, "s", state), HasSubstr("session_other_model"));
}

TEST(SessionTransfer, ABusySessionIsNeitherFetchedNorReplaced) {
  TestServer server;
  server.executor().Hold(3);
  RawClient client(server.port());
  client.Send(CompletionPost(R"({"session_id":"s","max_tokens":3000,"stream":true,"prompt":"Once."})"));
  client.ReadUntil("data: ");
  const Response state = server.Ask(Get("/v1/sessions/s/state"));
  EXPECT_EQ(state.status, 409);
  EXPECT_THAT(state.body, HasSubstr("session_busy"));
  EXPECT_EQ(server.Ask(Put("/v1/sessions/s/state", "x")).status, 412);
  server.executor().Release();
}

TEST(SessionTransfer, ADrainingServerGivesAndDoesNotTake) {
  TestServer from, to;
  ASSERT_EQ(from.Ask(Say("Once.")).status, 200);
  const std::string state = StateOf(from);
  from.http().Drain();
  EXPECT_EQ(StateOf(from), state);
  to.http().Drain();
  const Response put = to.Ask(Put("/v1/sessions/s/state", state));
  EXPECT_EQ(put.status, 503);
  EXPECT_THAT(put.body, HasSubstr("draining"));
}

TEST(SessionTransfer, WhatIsImportedIsDurableAndWhatIsPurgedIsInNoFile) {
  const TempDir temp;
  const std::string directory = temp.File("d");
  std::string state;
  {
    TestServer from;
    ASSERT_EQ(from.Ask(Say(kCanary)).status, 200);
    state = StateOf(from);
    DurableServer to(directory);
    const Response put = to.server->Ask(Put("/v1/sessions/s/state", state));
    EXPECT_THAT(put.body, HasSubstr(R"("durable":"tokens")"));
    EXPECT_THAT(to.server->Ask(Get("/v1/sessions/s")).body, HasSubstr(R"("turn":1,"durable":"tokens"})"));
  }
  DurableServer to(directory);
  EXPECT_EQ(StateOf(*to.server), state) << "from the disk";
  EXPECT_THAT(BytesBelow(directory), HasSubstr(kCanary));
  EXPECT_EQ(to.server->Ask(DeleteSession("/v1/sessions/s?purge=later")).status, 400);
  const Response changed = to.server->Ask(DeleteSession("/v1/sessions/s", "If-Match: \"turn-2\"\r\n"));
  EXPECT_EQ(changed.status, 412);
  EXPECT_THAT(changed.body, HasSubstr("turn_changed"));
  EXPECT_EQ(to.server->Ask(DeleteSession("/v1/sessions/s", "If-Match: turn\r\n")).status, 400);
  EXPECT_THAT(BytesBelow(directory), HasSubstr(kCanary));
  const Response gone = to.server->Ask(DeleteSession("/v1/sessions/s?purge=now", "If-Match: \"turn-1\"\r\n"));
  EXPECT_EQ(gone.status, 200) << gone.body;
  EXPECT_THAT(gone.body, HasSubstr(R"("deleted":true,"purged":true)"));
  EXPECT_THAT(BytesBelow(directory), Not(HasSubstr(kCanary)));
}

TEST(SessionTransfer, APurgeThatCouldNotBeMayBeAskedForUntilItCan) {
  const TempDir temp;
  StuckDisk disk;
  SessionJournal::Options options;
  options.through = [&disk](std::unique_ptr<LogDirectory> files) {
    return std::make_unique<StuckDirectory>(std::move(files), disk);
  };
  DurableServer durable(temp.File("d"), {}, std::move(options));
  TestServer& server = *durable.server;
  ASSERT_EQ(server.Ask(Say(kCanary)).status, 200);
  const auto purge = [&](const std::string& id) { return server.Ask(Delete("/v1/sessions/" + id + "?purge=now")); };
  // What has to be written anew, so that the segment can go, cannot be read.
  ASSERT_EQ(server.Ask(CompletionPost(R"({"session_id":"stays","max_tokens":2,"prompt":"hi"})")).status, 200);
  disk.Hang(StuckDisk::Stuck::kReadsFail);
  for (int time = 0; time < 2; ++time) EXPECT_THAT(purge("s").body, HasSubstr("not_purged")) << time;
  EXPECT_EQ(server.Ask(Delete("/v1/sessions/s")).status, 404) << "it is gone, and nothing is asked of the files";
  EXPECT_EQ(purge("t").status, 404);
  EXPECT_THAT(BytesBelow(temp.File("d")), HasSubstr(kCanary));
  disk.Hang(StuckDisk::Stuck::kNothing);
  EXPECT_EQ(purge("s").status, 200);
  EXPECT_THAT(BytesBelow(temp.File("d")), Not(HasSubstr(kCanary)));
  EXPECT_EQ(purge("s").status, 404) << "there is nothing of it any more";
  EXPECT_EQ(server.Ask(Get("/v1/sessions/stays")).status, 200);
}

TEST(SessionTransfer, WhatWasDeletedWithoutAPurgeMayBePurgedAlsoAfterAStart) {
  const TempDir temp;
  const auto purge = [](TestServer& server) { return server.Ask(Delete("/v1/sessions/s?purge=now")); };
  {
    DurableServer durable(temp.File("d"));
    ASSERT_EQ(durable.server->Ask(Say(kCanary)).status, 200);
    ASSERT_EQ(durable.server->Ask(Delete("/v1/sessions/s")).status, 200);
  }
  DurableServer durable(temp.File("d"));
  EXPECT_THAT(BytesBelow(temp.File("d")), HasSubstr(kCanary));
  EXPECT_EQ(purge(*durable.server).status, 200);
  EXPECT_THAT(BytesBelow(temp.File("d")), Not(HasSubstr(kCanary)));
  EXPECT_EQ(purge(*durable.server).status, 404);
}

}  // namespace
}  // namespace hydrant
