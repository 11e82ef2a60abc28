// `hydrantd sessions` on servers that run: with a tenant's key, and as their operator.
#include "server/sessions/tools/http_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/process/exit_codes.h"
#include "tests/server/durable_server.h"
#include "tests/server/key_hex.h"
#include "tests/server/sessions/tools/sessions_on_disk.h"
#include "tests/server/test_server.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;

class HttpPlaceTools : public testing::Test {
 protected:
  void SetUp() override {
    tenants_ =
        temp_.Write("tenants.json", R"({"tenants":[{"name":"a","api_keys_sha256":[")" + HexOfKey("key-a") +
                                        R"("]},{"name":"b","api_keys_sha256":[")" + HexOfKey("key-b") + R"("]}]})");
    key_ = temp_.Write("key", "admin-key\n");
    tenant_key_ = temp_.Write("key-a", "key-a\n");
    for (const std::string& path : {tenants_, key_, tenant_key_}) ASSERT_EQ(chmod(path.c_str(), 0600), 0);
    from_ = Start("from");
    Say("a", "s", "Hello there.");
    Say("a", "t", "Good day.");
    Say("b", "s", "Who is it?");
  }
  std::unique_ptr<TestServer> Start(const std::string& name) {
    TestServerOptions options;
    options.tenants_path = tenants_;
    options.http.admin.port = 0;
    options.http.admin.keys = RotatingKeys::Of("admin-key");
    options.http.admin.socket_path = temp_.File(name + ".sock");
    return std::make_unique<TestServer>(std::move(options));
  }
  void Say(const std::string& tenant, const std::string& id, const std::string& prompt) {
    const auto response = from_->Ask(
        CompletionPost(R"({"session_id":")" + id + R"(","max_tokens":8,"temperature":0,"prompt":")" + prompt + "\"}",
                       "Authorization: Bearer key-" + tenant + "\r\n"));
    ASSERT_EQ(response.status, 200) << response.body;
  }
  static std::string AdminOf(TestServer& server) {
    return "http://127.0.0.1:" + std::to_string(server.http().admin_port());
  }
  ToolRun Admin(TestServer& server, std::vector<std::string> words) {
    words.insert(words.begin() + 1, {"--url", AdminOf(server), "--admin-api-key-file", key_});
    return RunTool(words);
  }

  const TempDir temp_;
  std::string tenants_, key_, tenant_key_;
  std::unique_ptr<TestServer> from_;
};

TEST_F(HttpPlaceTools, ATenantsKeyShowsItsOwnAndTheOperatorsAllOfThem) {
  const std::string url = "http://127.0.0.1:" + std::to_string(from_->port());
  const ToolRun own = RunTool({"list", "--url", url, "--api-key-file", tenant_key_, "--json"});
  EXPECT_EQ(own.exit_code, kExitOk) << own.error;
  EXPECT_THAT(own.out, HasSubstr(R"({"tenant":"","id":"s","turn":1,"tokens":20,"bytes":null)"));
  EXPECT_THAT(own.out, HasSubstr(R"("id":"t")"));
  const ToolRun all = Admin(*from_, {"list"});
  EXPECT_EQ(all.exit_code, kExitOk) << all.error;
  EXPECT_THAT(all.out, HasSubstr("a       s   1"));
  EXPECT_THAT(all.out, HasSubstr("b       s   1"));
  EXPECT_EQ(RunTool({"list", "--url", "unix:" + temp_.File("from.sock"), "--admin-api-key-file", key_}).out, all.out);
  const ToolRun refused = RunTool({"list", "--url", url});
  EXPECT_NE(refused.exit_code, kExitOk);
  EXPECT_THAT(refused.error, HasSubstr("401 invalid_api_key"));
}

TEST_F(HttpPlaceTools, SessionsAreExportedVerifiedImportedAndForgotten) {
  EXPECT_THAT(Admin(*from_, {"verify"}).out, HasSubstr("3 sessions in 3 records"));
  ASSERT_EQ(Admin(*from_, {"export", "--all", "--output", temp_.File("out")}).exit_code, kExitOk);
  const std::unique_ptr<TestServer> to = Start("to");
  const ToolRun import = Admin(*to, {"import", temp_.File("out")});
  EXPECT_EQ(import.exit_code, kExitOk);
  EXPECT_EQ(import.error,
            "imported 3 of 3 sessions; 0 were there already, and the same\n"
            "3 of them are not durable: a restart of the server loses them\n");
  const ToolRun again = Admin(*to, {"import", temp_.File("out")});
  EXPECT_EQ(again.exit_code, kExitOk);
  EXPECT_THAT(again.error,
              HasSubstr("imported 0 of 3 sessions; 3 were there already, and the same\n3 of them are not"));
  EXPECT_EQ(Admin(*to, {"list"}).out, Admin(*from_, {"list"}).out);
  EXPECT_EQ(Admin(*to, {"import", "--tenant", "b", temp_.File("out/a.t.session")}).exit_code, kExitOk);
  EXPECT_THAT(Admin(*to, {"list"}).out, HasSubstr("b       t   1")) << "under another tenant, as the operator says";
  const ToolRun own = RunTool({"import", "--url", "http://127.0.0.1:" + std::to_string(to->port()), "--api-key-file",
                               tenant_key_, temp_.File("out/b.s.session")});
  EXPECT_THAT(own.error, HasSubstr("session_exists")) << "a tenant's key opens its own";
  EXPECT_EQ(Admin(*to, {"forget", "s", "--tenant", "a"}).exit_code, kExitOk);
  EXPECT_THAT(Admin(*to, {"list"}).out, Not(HasSubstr("a       s")));
}

TEST_F(HttpPlaceTools, AnAddressThatIsNotOfTheKeysListenerIsNamed) {
  const std::string clients = "http://127.0.0.1:" + std::to_string(from_->port());
  const ToolRun operators = RunTool({"list", "--url", clients, "--admin-api-key-file", key_});
  EXPECT_EQ(operators.exit_code, kExitUsage);
  EXPECT_THAT(operators.error, HasSubstr("is not the admin listener"));
  EXPECT_THAT(operators.error, HasSubstr("HYDRANT_ADMIN_KEY"));
  // Its key is looked at first.
  const std::string same = temp_.Write("same", "admin-key\n");
  ASSERT_EQ(chmod(same.c_str(), 0600), 0);
  const ToolRun tenants = RunTool({"list", "--url", AdminOf(*from_), "--api-key-file", same});
  EXPECT_THAT(tenants.error, HasSubstr("give the clients' address"));
}

TEST_F(HttpPlaceTools, SessionsOfATenantThatHasGoneAreTheOperators) {
  temp_.Write("tenants.json", R"({"tenants":[{"name":"a","api_keys_sha256":[")" + HexOfKey("key-a") + R"("]}]})");
  ASSERT_TRUE(from_->tenants().Reload().ok());
  EXPECT_THAT(Admin(*from_, {"list"}).out, HasSubstr("b       s   1"));
  EXPECT_THAT(Admin(*from_, {"verify"}).out, HasSubstr("3 sessions in 3 records"));
  ASSERT_EQ(Admin(*from_, {"export", "--all", "--output", temp_.File("out")}).exit_code, kExitOk);
  EXPECT_EQ(Admin(*from_, {"forget", "s", "--tenant", "b"}).exit_code, kExitOk);
  EXPECT_THAT(Admin(*from_, {"list"}).out, Not(HasSubstr("b       s")));
  EXPECT_THAT(Admin(*from_, {"import", temp_.File("out/b.s.session")}).error,
              HasSubstr("There is no tenant of this name"));
}

TEST_F(HttpPlaceTools, WhatIsForgottenIsPurgedAlsoWhenTheLastOneStays) {
  const TempDir temp;
  DurableServer durable(temp.File("d"));
  const std::string url = "http://127.0.0.1:" + std::to_string(durable.server->port());
  const auto say = [&](const std::string& id, const std::string& prompt) {
    const auto answer = durable.server->Ask(
        CompletionPost(R"({"session_id":")" + id + R"(","max_tokens":2,"prompt":")" + prompt + "\"}"));
    EXPECT_EQ(answer.status, 200) << answer.body;
  };
  say("a", kCanary);
  say("b", "stays");
  durable.server->executor().Hold();
  RawClient busy(durable.server->port());
  busy.Send(CompletionPost(R"({"session_id":"b","max_tokens":2,"prompt":"goes on"})"));
  ASSERT_TRUE(
      Eventually([&] { return durable.server->Ask(Get("/v1/sessions/b")).body.find("busy") != std::string::npos; }));
  const ToolRun run = RunTool({"forget", "--url", url, "a", "b", "a"});
  durable.server->executor().Release();
  EXPECT_EQ(run.exit_code, kExitIncomplete);
  EXPECT_THAT(run.error, HasSubstr("forgot 1 of 2 sessions; no file has the text of 1"));
  EXPECT_THAT(run.error, HasSubstr("session b: "));
  EXPECT_THAT(BytesBelow(temp.File("d")), Not(HasSubstr(kCanary)));
  EXPECT_EQ(busy.ReadResponse().status, 200);
}

TEST(HttpPlaceHandover, AServerThatIsGivenItsOwnSessionsKeepsThem) {
  const TempDir temp;
  DurableServer durable(temp.File("d"));
  const std::string url = "http://127.0.0.1:" + std::to_string(durable.server->port());
  for (const char* id : {"a", "b"}) {
    const auto answer = durable.server->Ask(
        CompletionPost(R"({"session_id":")" + std::string(id) + R"(","max_tokens":2,"prompt":"Hello there."})"));
    ASSERT_EQ(answer.status, 200) << answer.body;
  }
  const std::string before = RunTool({"list", "--url", url}).out;
  const ToolRun run = RunTool({"handover", "--from", url, "--to", url + "/"});
  EXPECT_EQ(run.exit_code, kExitIncomplete) << run.out;
  EXPECT_THAT(run.out, HasSubstr("2 stay"));
  EXPECT_THAT(run.error, HasSubstr("session a stays: both addresses lead to the server that has it"));
  EXPECT_EQ(RunTool({"list", "--url", url}).out, before);
}

TEST_F(HttpPlaceTools, ADirectoryIsHandedToAServerAndTheOtherWayRound) {
  SessionsOnDisk disk(temp_.File("d"));
  disk.Stop();
  const ToolRun out =
      RunTool({"handover", "--from", AdminOf(*from_), "--to", disk.path(), "--admin-api-key-file", key_});
  EXPECT_EQ(out.exit_code, kExitOk) << out.error;
  EXPECT_THAT(out.out, HasSubstr("moved 3 of 3 sessions"));
  EXPECT_THAT(Admin(*from_, {"list", "--json"}).out, HasSubstr(R"("data":[])"));
  const ToolRun back = RunTool({"handover", "--from", disk.path(), "--to", AdminOf(*from_), "--admin-api-key-file",
                                key_, "--json", "--wait", "0"});
  EXPECT_EQ(back.exit_code, 1) << "this server keeps them in memory alone";
  EXPECT_THAT(back.out, HasSubstr(R"("moved":0,"present":0,"gone":0,"not_durable":3,"left":0)"));
  EXPECT_THAT(RunTool({"list", "--session-dir", disk.path()}).out, HasSubstr("b       s   1"));
  EXPECT_THAT(Admin(*from_, {"list"}).out, HasSubstr("b       s   1"));
}

}  // namespace
}  // namespace hydrant
