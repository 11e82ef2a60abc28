#include "server/frontend/admin_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "server/process/log.h"
#include "tests/server/key_hex.h"
#include "tests/server/test_server.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;
using Response = RawClient::Response;

constexpr const char* kAdmin = "Authorization: Bearer admin-key\r\n";
constexpr const char* kLong = R"({"prompt":"hi","max_tokens":4000})";

class AdminRoutesTest : public testing::Test {
 protected:
  void Start(const std::string& members_of_a = "") {
    Write(members_of_a);
    TestServerOptions options = WithChats();
    options.tenants_path = path_;
    options.http.admin.port = 0;
    options.http.admin.keys = RotatingKeys::Of("admin-key");
    options.http.admin.socket_path = dir_.File("admin.sock");
    server_ = std::make_unique<TestServer>(std::move(options));
  }
  void Write(const std::string& members_of_a, const std::string& key = "key-a") {
    path_ = dir_.Write("tenants.json", R"({"tenants":[{"name":"a","api_keys_sha256":[")" + HexOfKey(key) + R"("])" +
                                           members_of_a + R"(},{"name":"b","api_keys_sha256":[")" + HexOfKey("key-b") +
                                           R"("]}]})");
    ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  }
  Response Admin(const std::string& request) const { return RawClient(server_->http().admin_port()).Ask(request); }
  static std::string Post(const std::string& path, const std::string& fields = kAdmin, const std::string& body = "") {
    std::string request = "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields;
    if (!body.empty()) request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return request + "\r\n" + body;
  }
  Response Complete(const std::string& body, const std::string& key = "key-a") const {
    return server_->Ask(CompletionPost(body, "Authorization: Bearer " + key + "\r\n"));
  }

  TempDir dir_;
  std::string path_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(AdminRoutesTest, NoneOfThemIsOnTheTenantsPort) {
  Start();
  for (const char* path : {"/admin/reload", "/admin/drain", "/abort_requests", "/pause", "/resume",
                           "/reset_prefix_cache", "/admin/log_level"}) {
    EXPECT_EQ(server_->Ask(Post(path)).status, 404) << path;
    EXPECT_EQ(server_->Ask(Post(path, "Authorization: Bearer key-a\r\n")).status, 404) << path;
  }
  EXPECT_EQ(server_->Ask(Get("/admin/tenants", kAdmin)).status, 404);
  for (const char* path : {"/metrics", "/v1/loads"}) {
    EXPECT_EQ(server_->Ask(Get(path, "Authorization: Bearer key-a\r\n")).status, 404)
        << path << ": what one tenant does is not the others' business";
  }
  EXPECT_EQ(server_->Ask(Get("/health")).status, 200);
  EXPECT_EQ(Admin(CompletionPost(kLong, kAdmin)).status, 404) << "and the other way round";
}

TEST_F(AdminRoutesTest, TheyNeedTheAdminKey) {
  Start();
  EXPECT_EQ(Admin(Post("/pause", "")).status, 401);
  EXPECT_EQ(Admin(Post("/pause", "Authorization: Bearer wrong\r\n")).status, 401);
  const Response tenant = Admin(Post("/pause", "Authorization: Bearer key-a\r\n"));
  EXPECT_EQ(tenant.status, 403);
  EXPECT_THAT(tenant.body, HasSubstr("permission_error"));
  EXPECT_EQ(Admin(Get("/metrics")).status, 401);
  EXPECT_EQ(Admin(Get("/metrics", kAdmin)).status, 200);
  EXPECT_EQ(Admin(Get("/health")).status, 200);
}

TEST_F(AdminRoutesTest, TheConfigurationIsTheOperatorsToSee) {
  Write("");
  TestServerOptions options;
  options.tenants_path = path_;
  options.http.admin.port = 0;
  options.http.admin.keys = RotatingKeys::Of("admin-key");
  options.http.admin.config = [] { return std::string(R"({"settings":{}})"); };
  server_ = std::make_unique<TestServer>(std::move(options));
  EXPECT_EQ(Admin(Get("/admin/config", kAdmin)).body, R"({"settings":{}})");
  EXPECT_EQ(Admin(Get("/admin/config")).status, 401);
  EXPECT_EQ(server_->Ask(Get("/admin/config", "Authorization: Bearer key-a\r\n")).status, 404);
}

TEST_F(AdminRoutesTest, TheSocketIsThisUsersAndGoesWithTheServer) {
  Start();
  const std::string path = dir_.File("admin.sock");
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = Get("/admin/tenants", std::string(kAdmin) + "Connection: close\r\n");
  ASSERT_EQ(send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t got; (got = recv(fd, bytes, sizeof(bytes), 0)) > 0;) answer.append(bytes, static_cast<size_t>(got));
  close(fd);
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200"));
  server_.reset();
  EXPECT_NE(stat(path.c_str(), &info), 0);
}

TEST_F(AdminRoutesTest, AReloadTakesEffectAtOnceOrNotAtAll) {
  Start();
  ASSERT_EQ(Complete(R"({"prompt":"hi"})").status, 200);
  Write("", "key-new");
  const Response reloaded = Admin(Post("/admin/reload"));
  EXPECT_EQ(reloaded.status, 200);
  EXPECT_EQ(reloaded.body, R"({"tenants":2})");
  EXPECT_EQ(Complete(R"({"prompt":"hi"})").status, 401) << "revoked";
  EXPECT_EQ(Complete(R"({"prompt":"hi"})", "key-new").status, 200);
  Write(R"(,"weight":0)", "key-a");
  const Response refused = Admin(Post("/admin/reload"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("tenants[0].weight"));
  EXPECT_THAT(refused.body, HasSubstr("invalid_tenants_file"));
  EXPECT_EQ(Complete(R"({"prompt":"hi"})", "key-new").status, 200);
  EXPECT_EQ(Complete(R"({"prompt":"hi"})", "key-a").status, 401);
}

TEST_F(AdminRoutesTest, AFileThatLetsNobodyInIsToldOf) {
  testing::internal::CaptureStderr();
  StartLog(LogLevel::kInfo);
  Start();
  const auto reload = [this](const std::string& file) {
    path_ = dir_.Write("tenants.json", file);
    EXPECT_EQ(chmod(path_.c_str(), 0600), 0);
    return Admin(Post("/admin/reload")).body;
  };
  EXPECT_EQ(reload(R"({"tenants":[{"name":"a"}],"default_tenant":"a"})"), R"({"tenants":1})");
  const std::string warning = "no tenant has a key, and there is no default_tenant: every request is answered 401";
  EXPECT_EQ(reload(R"({"tenants":[{"name":"a"}]})"), R"({"tenants":1,"warning":")" + warning + R"("})");
  server_.reset();
  TestServerOptions options;
  options.tenants_path = path_;
  server_ = std::make_unique<TestServer>(std::move(options));
  server_.reset();
  StopLog();
  const std::string text = testing::internal::GetCapturedStderr();
  const size_t first = text.find(warning);
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(text.find(warning, first + 1), std::string::npos) << "at a start, too";
}

TEST_F(AdminRoutesTest, TheLoadOfATenantIsItsGenerations) {
  Start();
  const auto load = [this] { return server_->Ask(Get("/load", "Authorization: Bearer key-a\r\n")).body; };
  const std::string key = "Authorization: Bearer key-a\r\n";
  RawClient work(server_->port());
  work.Send(Post("/tokenize", key + "Content-Length: 100\r\nExpect: 100-continue\r\n"));
  ASSERT_THAT(work.ReadUntil("\r\n\r\n"), HasSubstr("100 Continue"));
  EXPECT_EQ(load(), R"({"server_load":0})");
  server_->executor().Hold();
  RawClient generation(server_->port());
  generation.Send(CompletionPost(kLong, key));
  EXPECT_TRUE(Eventually([&] { return load() == R"({"server_load":1})"; })) << load();
  generation.Close();
  server_->executor().Release();
  EXPECT_TRUE(Eventually([&] { return load() == R"({"server_load":0})"; })) << load();
}

// Files of keys beside the tenants: a reload puts all of them into force, or none.
class KeyFilesTest : public AdminRoutesTest {
 protected:
  std::string WriteKeys(const std::string& name, const std::string& text) const {
    const std::string path = dir_.Write(name, text);
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }
  void Start() {
    Write("");
    TestServerOptions options;
    options.tenants_path = path_;
    options.http.admin.port = 0;
    options.http.admin.keys = *RotatingKeys::FromFile(WriteKeys("admin", "admin-key"));
    options.http.metrics_keys = *RotatingKeys::FromFile(WriteKeys("metrics", "metrics-key"));
    server_ = std::make_unique<TestServer>(std::move(options));
  }
  int Tenants(const std::string& key) const {
    return Admin(Get("/admin/tenants", "Authorization: Bearer " + key + "\r\n")).status;
  }
  int Metrics(const std::string& key) const {
    return server_->Ask(Get("/metrics", "Authorization: Bearer " + key + "\r\n")).status;
  }
};

TEST_F(KeyFilesTest, MetricsHasAKeyOfItsOwnAlsoBesideTenants) {
  Start();
  EXPECT_EQ(Metrics("metrics-key"), 200);
  EXPECT_EQ(server_->Ask(Get("/v1/loads", "Authorization: Bearer metrics-key\r\n")).status, 200);
  EXPECT_EQ(server_->Ask(Get("/v1/loads", "Authorization: Bearer key-a\r\n")).status, 403);
  EXPECT_EQ(Metrics("wrong"), 401);
  EXPECT_EQ(Metrics("key-a"), 403) << "what one tenant does is not the others' business";
  EXPECT_EQ(server_->Ask(Get("/metrics")).status, 401);
  EXPECT_EQ(Complete(R"({"prompt":"hi"})", "metrics-key").status, 401) << "it opens nothing else";
  EXPECT_EQ(Tenants("metrics-key"), 401);
}

TEST_F(KeyFilesTest, ARotationHasBothKeysAndThenTheNewOne) {
  Start();
  WriteKeys("admin", "admin-key\nnew-admin\n");
  WriteKeys("metrics", "metrics-key\nnew-metrics\n");
  ASSERT_EQ(Admin(Post("/admin/reload")).status, 200);
  for (const char* key : {"admin-key", "new-admin"}) EXPECT_EQ(Tenants(key), 200) << key;
  for (const char* key : {"metrics-key", "new-metrics"}) EXPECT_EQ(Metrics(key), 200) << key;
  WriteKeys("admin", "new-admin\n");
  WriteKeys("metrics", "new-metrics\n");
  ASSERT_EQ(Admin(Post("/admin/reload", "Authorization: Bearer new-admin\r\n")).status, 200);
  EXPECT_EQ(Tenants("admin-key"), 401);
  EXPECT_EQ(Tenants("new-admin"), 200);
  EXPECT_EQ(Metrics("metrics-key"), 401);
  EXPECT_EQ(Metrics("new-metrics"), 200);
}

TEST_F(KeyFilesTest, AllFilesComeIntoForceTogetherOrNoneAndALineAndAMetricSaySo) {
  testing::internal::CaptureStderr();
  StartLog(LogLevel::kInfo);
  Start();
  const auto scraped = [&] { return server_->Ask(Get("/metrics", "Authorization: Bearer metrics-key\r\n")).body; };
  EXPECT_THAT(scraped(), HasSubstr("hydrant_reload_refused 0"));
  WriteKeys("admin", "new-admin\n");
  Write("", "key-new");
  WriteKeys("metrics", "");
  const Response refused = Admin(Post("/admin/reload"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("holds no key"));
  EXPECT_EQ(Tenants("admin-key"), 200);
  EXPECT_EQ(Complete(R"({"prompt":"hi"})", "key-new").status, 401);
  EXPECT_THAT(scraped(), HasSubstr("hydrant_reload_refused 1"));
  WriteKeys("metrics", "metrics-key\n");
  Write(R"(,"weight":0)", "key-new");
  EXPECT_EQ(Admin(Post("/admin/reload")).status, 400);
  EXPECT_EQ(Tenants("admin-key"), 200) << "the tenants are read last, and the key of the operator waits for them";
  Write("", "key-new");
  EXPECT_EQ(Admin(Post("/admin/reload")).status, 200);
  EXPECT_EQ(Tenants("admin-key"), 401);
  EXPECT_EQ(Complete(R"({"prompt":"hi"})", "key-new").status, 200);
  EXPECT_THAT(scraped(), HasSubstr("hydrant_reload_refused 0"));
  EXPECT_THAT(scraped(), HasSubstr("hydrant_reloads_total{result=\"applied\"} 1"));
  EXPECT_THAT(scraped(), HasSubstr("hydrant_reloads_total{result=\"refused\"} 2"));
  server_.reset();
  StopLog();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("reloaded: 2 tenants by admin keys 2 admin_keys 1 metrics_keys 1"));
  EXPECT_THAT(text, HasSubstr("not reloaded, what was in force stays so"));
  for (const char* key : {"new-admin", "metrics-key", "key-new"}) EXPECT_THAT(text, Not(HasSubstr(key)));
}

// A request that was admitted goes on when its key and its tenant go; the next one of its connection does not begin.
TEST_F(AdminRoutesTest, ATenantThatGoesFinishesWhatItHasRunning) {
  Start();
  RawClient client(server_->port());
  server_->executor().Hold(3);
  client.Send(CompletionPost(R"({"prompt":"hi","max_tokens":300,"stream":true})", "Authorization: Bearer key-a\r\n"));
  client.ReadUntil("data: ");
  const std::string b = R"({"tenants":[{"name":"b","api_keys_sha256":[")" + HexOfKey("key-b") + R"("]}]})";
  ASSERT_EQ(chmod(dir_.Write("tenants.json", b).c_str(), 0600), 0);
  ASSERT_EQ(Admin(Post("/admin/reload")).status, 200);
  server_->executor().Release();
  EXPECT_THAT(client.ReadUntil("0\r\n\r\n"), HasSubstr("[DONE]"));
  EXPECT_EQ(client.Ask(CompletionPost(R"({"prompt":"hi"})", "Authorization: Bearer key-a\r\n")).status, 401);
  EXPECT_EQ(Complete(R"({"prompt":"hi"})", "key-b").status, 200);
}

TEST_F(AdminRoutesTest, WhatTheOperatorChangesIsLoggedAndTheLevelToo) {
  testing::internal::CaptureStderr();
  StartLog(LogLevel::kWarning);
  Start();
  EXPECT_EQ(Admin(Post("/resume")).status, 200);
  const Response raised = Admin(Post("/admin/log_level", kAdmin, R"({"level":"info"})"));
  EXPECT_EQ(raised.status, 200);
  EXPECT_EQ(raised.body, R"({"level":"info"})");
  EXPECT_EQ(Admin(Post("/pause")).status, 200);
  EXPECT_THAT(Admin(Get("/metrics", kAdmin)).body, HasSubstr("hydrant_paused 1"));
  EXPECT_EQ(Admin(Post("/admin/log_level", "", R"({"level":"debug"})")).status, 401);
  EXPECT_FALSE(LogEnabled(LogLevel::kDebug));
  const Response wrong = Admin(Post("/admin/log_level", kAdmin, R"({"level":"loud"})"));
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr(R"("param":"level")"));
  server_.reset();
  StopLog();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, Not(HasSubstr("/resume")));
  EXPECT_THAT(text, HasSubstr("path /pause status 200"));
  EXPECT_THAT(text, HasSubstr("path /admin/log_level status 401"));
}

TEST_F(AdminRoutesTest, AReloadReachesTheEngineAndDropsNoStream) {
  Start();
  server_->executor().Hold();
  RawClient running(server_->port());
  running.Send(CompletionPost(R"({"prompt":"hi","max_tokens":50,"stream":true})", "Authorization: Bearer key-a\r\n"));
  ASSERT_TRUE(Eventually([&] { return server_->engine().backlog().sequences == 1; }));
  path_ = dir_.Write("tenants.json",
                     R"({"tenants":[{"name":"b","weight":3,"api_keys_sha256":[")" + HexOfKey("key-b") + R"("]}]})");
  ASSERT_EQ(Admin(Post("/admin/reload")).status, 200);
  server_->executor().Release();
  EXPECT_THAT(running.ReadResponse().body, HasSubstr(R"("finish_reason":"length")")) << "its tenant is gone";
  EXPECT_THAT(Admin(Get("/admin/tenants", kAdmin)).body, HasSubstr(R"("name":"a","configured":false)"));
}

TEST_F(AdminRoutesTest, TenantsShowWhatTheyHaveAndWereRefused) {
  Start(R"(,"concurrency_max":1,"tpm":9000,"weight":2)");
  server_->executor().Hold();
  RawClient running(server_->port());
  running.Send(CompletionPost(kLong, "Authorization: Bearer key-a\r\n"));
  ASSERT_TRUE(Eventually([&] { return server_->engine().backlog().sequences == 1; }));
  EXPECT_EQ(Complete(kLong).status, 429);
  const std::string shown = Admin(Get("/admin/tenants", kAdmin)).body;
  for (const char* part :
       {R"("paused":false)", R"("draining":false)", R"("name":"a","configured":true)", R"("open":1)", R"("weight":2)",
        R"("keys":1)", R"("concurrency_max":1)", R"("tpm":9000)", R"("concurrency":1)", R"("name":"b")"}) {
    EXPECT_THAT(shown, HasSubstr(part));
  }
  EXPECT_THAT(shown, Not(HasSubstr(HexOfKey("key-a"))));
  server_->executor().Release();
}

TEST_F(AdminRoutesTest, RequestsAreAbortedByIdOrByTenant) {
  Start();
  server_->executor().Hold();
  RawClient first(server_->port());
  RawClient second(server_->port());
  RawClient embedding(server_->port());
  first.Send(CompletionPost(kLong, "Authorization: Bearer key-a\r\nX-Request-Id: one\r\n"));
  second.Send(CompletionPost(kLong, "Authorization: Bearer key-b\r\nX-Request-Id: two\r\n"));
  const std::string input = R"({"input":")" + std::string(2000, 'a') + "\"}";  // more than a step computes
  embedding.Send(
      "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-a\r\nX-Request-Id: three\r\n"
      "Content-Length: " +
      std::to_string(input.size()) + "\r\n\r\n" + input);
  ASSERT_TRUE(Eventually([&] { return server_->engine().backlog().sequences == 3; }));
  EXPECT_EQ(Admin(Post("/abort_requests", kAdmin, R"({"request_ids":["one","three","absent"]})")).body,
            R"({"aborted":2})");
  EXPECT_EQ(Admin(Post("/abort_requests", kAdmin, R"({"tenant":"b"})")).body, R"({"aborted":1})");
  server_->executor().Release();
  EXPECT_THAT(first.ReadResponse().body, HasSubstr(R"("finish_reason":"abort")"));
  EXPECT_THAT(second.ReadResponse().body, HasSubstr(R"("finish_reason":"abort")"));
  const RawClient::Response ended = embedding.ReadResponse();
  EXPECT_EQ(ended.status, 503);
  EXPECT_THAT(ended.body, HasSubstr(R"("code":"aborted")"));
  for (const char* body : {"{}", R"({"request_ids":[]})", R"({"tenant":"x"})", R"({"request_ids":5})", "[]"}) {
    EXPECT_EQ(Admin(Post("/abort_requests", kAdmin, body)).status, 400) << body;
  }
  EXPECT_TRUE(server_->BecomesIdle());
}

// A response that is kept has an id of the server's own; that is known only once its stream has begun.
TEST_F(AdminRoutesTest, ARequestIsAbortedByWhateverNameIsKnownOfIt) {
  Start();
  const struct {
    const char* path;
    std::string members;
    int status;
    std::string word;
  } cases[] = {{"/v1/responses", R"("input":"hi","max_output_tokens":4000)", 503, R"("code":"aborted")"},
               {"/v1/messages", R"("messages":[{"role":"user","content":"hi"}],"max_tokens":4000)", 529,
                R"("type":"overloaded_error")"}};
  for (const auto& c : cases) {
    for (const char* name : {"mine", "header"}) {
      SCOPED_TRACE(std::string(c.path) + " " + name);
      server_->executor().Hold();
      RawClient client(server_->port());
      const std::string fields = "Authorization: Bearer key-a\r\nX-Request-Id: header\r\n";
      client.Send(Post(c.path, fields, R"({"request_id":"mine",)" + c.members + "}"));
      ASSERT_TRUE(Eventually([&] { return server_->engine().backlog().sequences == 1; }));
      const std::string ids = R"({"request_ids":[")" + std::string(name) + R"("]})";
      EXPECT_TRUE(Eventually([&] { return Admin(Post("/abort_requests", kAdmin, ids)).body == R"({"aborted":1})"; }));
      server_->executor().Release();
      const Response ended = client.ReadResponse();
      EXPECT_EQ(ended.status, c.status);
      EXPECT_EQ(ended.Field("retry-after"), "1");
      EXPECT_EQ(ended.Field("x-should-retry"), "false");
      EXPECT_THAT(ended.body, HasSubstr(c.word));
    }
  }
  for (const bool whole : {true, false}) {
    server_->executor().Hold(2);  // its stream begins, and it does not end
    RawClient client(server_->port());
    client.Send(Post("/v1/responses", "Authorization: Bearer key-a\r\n",
                     R"({"stream":true,"input":"hi","max_output_tokens":4000})"));
    const std::string begun = client.ReadUntil("in_progress");
    const size_t at = begun.find("resp_");
    ASSERT_NE(at, std::string::npos);
    const std::string id = begun.substr(at, begun.find('"', at) - at);
    const std::string ids = R"({"request_ids":[")" + (whole ? id : id.substr(5)) + R"("]})";
    EXPECT_EQ(Admin(Post("/abort_requests", kAdmin, ids)).body, R"({"aborted":1})") << ids;
    server_->executor().Release();
    EXPECT_THAT(client.ReadUntil("response.failed"), HasSubstr("response.failed"));
  }
}

TEST_F(AdminRoutesTest, WhilePausedRequestsWaitAndAfterwardsTheyGoOn) {
  Start();
  EXPECT_EQ(server_->Ask(Get("/ready")).status, 200);
  EXPECT_EQ(Admin(Post("/pause")).body, R"({"paused":true})");
  for (const char* path : {"/ready", "/readyz"}) {
    const Response ready = server_->Ask(Get(path));
    EXPECT_EQ(ready.status, 503) << path;
    EXPECT_THAT(ready.body, HasSubstr(R"("code":"paused")"));
  }
  EXPECT_EQ(server_->Ask(Get("/health")).status, 200) << "nothing is wrong";
  RawClient waiting(server_->port());
  waiting.Send(CompletionPost(R"({"prompt":"hi","max_tokens":2})", "Authorization: Bearer key-a\r\n"));
  ASSERT_TRUE(Eventually([&] { return server_->engine().counters().waiting == 1; }));
  EXPECT_THAT(Admin(Get("/admin/tenants", kAdmin)).body, HasSubstr(R"("paused":true)"));
  EXPECT_EQ(server_->engine().counters().running, 0);
  EXPECT_EQ(Admin(Post("/resume")).body, R"({"paused":false})");
  EXPECT_EQ(server_->Ask(Get("/ready")).status, 200);
  EXPECT_EQ(Admin(Post("/reset_prefix_cache")).body, R"({"success":true})");
  EXPECT_EQ(waiting.ReadResponse().status, 200);
}

TEST_F(AdminRoutesTest, ADrainTurnsNewWorkAwayAndTheProcessStays) {
  Start();
  server_->executor().Hold();
  RawClient running(server_->port());
  running.Send(CompletionPost(R"({"prompt":"hi","max_tokens":3})", "Authorization: Bearer key-a\r\n"));
  ASSERT_TRUE(Eventually([&] { return server_->engine().backlog().sequences == 1; }));
  EXPECT_EQ(Admin(Post("/admin/drain")).body, R"({"draining":true,"in_flight":1})");
  const Response late = Complete(R"({"prompt":"hi"})");
  EXPECT_EQ(late.status, 503);
  EXPECT_NE(late.Field("retry-after"), "");
  EXPECT_EQ(late.Field("connection"), "close");
  EXPECT_EQ(server_->Ask(Get("/ready")).status, 503);
  server_->executor().Release();
  EXPECT_EQ(running.ReadResponse().status, 200);
  EXPECT_EQ(Admin(Get("/health")).status, 200);
}

TEST_F(AdminRoutesTest, WithoutAFileThereIsNothingToReload) {
  TestServerOptions options;
  options.http.admin.port = 0;
  options.http.admin.keys = RotatingKeys::Of("admin-key");
  TestServer server(std::move(options));
  EXPECT_EQ(RawClient(server.http().admin_port()).Ask(Post("/admin/reload")).status, 400);
}

}  // namespace
}  // namespace hydrant
