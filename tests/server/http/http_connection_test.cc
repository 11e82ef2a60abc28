#include "server/http/http_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/process/clock.h"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

constexpr const char* kBody = R"({"prompt":"secret-prompt","max_tokens":2})";

TestServerOptions Keyed() {
  TestServerOptions options;
  options.tenants = SingleTenant("sesame");
  return options;
}

// After whatever a test did: the process answers, and nothing is left behind.
void ExpectUnharmed(TestServer& server) {
  EXPECT_EQ(server.Ask(Get("/health")).status, 200);
  EXPECT_TRUE(server.BecomesIdle());
}

int64_t VirtualPages() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

TEST(HttpConnection, ServesOneRequestAfterTheOther) {
  TestServer server;
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    const RawClient::Response response = client.Ask(CompletionPost(kBody));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.Field("connection"), "");
  }
  EXPECT_EQ(client.Ask(CompletionPost("{")).status, 400) << "a bad body is no framing error";
  EXPECT_EQ(client.Ask(CompletionPost(kBody)).status, 200);
}

TEST(HttpConnection, APathThatIsNearlyOneIsToldIt) {
  TestServer server;
  const auto says = [&](const std::string& path) {
    const RawClient::Response response = server.Ask(Get(path));
    EXPECT_EQ(response.status, 404) << path;
    const size_t meant = response.body.find("Did you mean ");
    return meant == std::string::npos ? ""
                                      : response.body.substr(meant + 13, response.body.find('?', meant) - meant - 13);
  };
  for (const char* path : {"/chat/completions", "/v1/chat/completions/", "/v1/v1/chat/completions",
                           "//v1/chat/completions", "/chat/completions/", "/v1/v1/v1/chat/completions//"}) {
    EXPECT_EQ(says(path), "/v1/chat/completions") << path;
  }
  EXPECT_EQ(says("/v1/metrics"), "/metrics");
  EXPECT_EQ(says("/models?limit=1"), "/v1/models");
  for (const char* path : {"/nothing", "/v1", "/v1/", "/v1/v1", "/v1//", "/v1/chat/completions/x"}) {
    EXPECT_EQ(says(path), "") << path;
  }
}

TEST(HttpConnection, PipelinedRequestsAreAnsweredInOrder) {
  TestServer server;
  RawClient client(server.port());
  client.Send(CompletionPost(kBody, "X-Request-Id: a\r\n") + Get("/version", "X-Request-Id: b\r\n") +
              CompletionPost(kBody, "X-Request-Id: c\r\n"));
  for (const char* id : {"a", "b", "c"}) EXPECT_EQ(client.ReadResponse().Field("x-request-id"), id);
}

// Sends `head`, and then `part` again and again without waiting, and takes the answers as they come.
class Pipeliner {
 public:
  Pipeliner(uint16_t port, const std::string& head, const std::string& part) : client_(port) {
    std::string block;
    while (block.size() < 64 << 10) block += part;
    client_.Send(head);
    sender_ = std::thread([this, block] {
      while (!ended_ && client_.Send(block)) continue;
    });
    reader_ = std::thread([this] {
      while (!client_.closed()) {
        if (!client_.ReadUntil("\r\n", 0.1).empty()) answered_ = true;
      }
    });
  }
  ~Pipeliner() {
    ended_ = true;
    client_.Shutdown();
    sender_.join();
    reader_.join();
  }
  bool answered() const { return answered_; }

 private:
  RawClient client_;
  std::atomic<bool> ended_ = false;
  std::atomic<bool> answered_ = false;
  std::thread sender_;
  std::thread reader_;
};

TEST(HttpConnection, PipelinersLetOthersGoFirst) {
  TestServer server;
  std::vector<std::unique_ptr<Pipeliner>> pipeliners;
  for (int i = 0; i < 4; ++i) pipeliners.push_back(std::make_unique<Pipeliner>(server.port(), "", Get("/ping")));
  for (const auto& pipeliner : pipeliners) {
    ASSERT_TRUE(Eventually([&] { return pipeliner->answered(); })) << "each other, too";
  }
  for (int i = 0; i < 20; ++i) {
    RawClient canary(server.port());
    canary.Send(Get("/health"));
    ASSERT_EQ(canary.ReadResponse(30).status, 200);
  }
}

// What a body in chunks makes the server hold. Each time it is asked it takes a turn's time, and sends more of the body
// from the client's end, so that there is always more to be read.
class SlowPlace : public RequestPlace {
 public:
  boost::asio::awaitable<std::optional<HttpResponse>> Decide(HttpExchange& /*exchange*/) override {
    co_return std::nullopt;
  }
  static constexpr int kParts = 20;
  SlowPlace(int client, int* parts) : client_(client), parts_(parts) {}
  std::optional<HttpResponse> HoldBody(int64_t /*bytes*/) override {
    for (const int64_t end_us = MonotonicUs() + 1000; MonotonicUs() < end_us;) continue;
    if (*parts_ == kParts) return std::nullopt;
    const std::string_view part = ++*parts_ == kParts ? "0\r\n\r\n" : "1\r\nx\r\n";
    EXPECT_EQ(write(client_, part.data(), part.size()), std::ssize(part));
    return std::nullopt;
  }
  void ReleaseBody() override {}
  void HoldAnswer(int64_t /*bytes*/) override {}
  void Close() override {}

 private:
  const int client_;
  int* const parts_;
};

TEST(HttpConnection, WhoSendsABodyLetsOthersGoFirst) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  int parts = 0;
  bool handled = false;
  boost::asio::io_context io;
  ListenerContext context;
  HttpRoute route;
  route.method = "POST";
  route.path = "/upload";
  route.open = true;
  route.admit = [&](const HttpExchange&) {
    return Admitted{std::make_unique<SlowPlace>(ends[1], &parts), std::nullopt};
  };
  route.handle = [&](HttpExchange&) -> boost::asio::awaitable<void> {
    handled = true;
    co_return;
  };
  context.routes.push_back(std::move(route));
  const std::string_view head = "POST /upload HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  ASSERT_EQ(write(ends[1], head.data(), head.size()), std::ssize(head));
  HttpSocket socket(io, {AF_UNIX, SOCK_STREAM}, ends[0]);
  socket.non_blocking(true);
  HttpConnection::Start(std::move(socket), context, "127.0.0.1",
                        context.connections.TryAdd("127.0.0.1", context.limits));
  // Between any two parts others get their turn: no handler reads a second one.
  for (int before = 0; !handled && io.poll_one() != 0; before = parts) EXPECT_LE(parts, before + 1);
  EXPECT_TRUE(handled);
  EXPECT_EQ(parts, SlowPlace::kParts);
  close(ends[1]);
  io.poll();
}

TEST(HttpConnection, CloseAndHttp10EndTheConnection) {
  TestServer server;
  for (const std::string& request :
       {Get("/version", "Connection: close\r\n"), std::string("GET /version HTTP/1.0\r\n\r\n")}) {
    RawClient client(server.port());
    const RawClient::Response response = client.Ask(request);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.Field("connection"), "close");
    client.ReadAll();
    EXPECT_TRUE(client.closed());
  }
}

TEST(HttpConnection, AStreamToHttp10HasNoChunksAndEndsWithTheConnection) {
  TestServer server;
  RawClient client(server.port());
  const std::string body = R"({"prompt":"a","max_tokens":2,"stream":true})";
  client.Send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string all = client.ReadAll();
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(all.find("transfer-encoding"), std::string::npos);
  EXPECT_TRUE(all.ends_with("data: [DONE]\n\n")) << all;
}

TEST(HttpConnection, HeadIsGetWithoutTheBody) {
  TestServer server;
  RawClient client(server.port());
  client.Send("HEAD /version HTTP/1.1\r\nHost: localhost\r\n\r\n" + Get("/health"));
  const std::string head = client.ReadUntil("\r\n\r\n");
  EXPECT_NE(head.find("content-length: "), std::string::npos);
  EXPECT_EQ(head.find('{'), std::string::npos);
}

TEST(HttpConnection, EveryRefusalHasItsStatus) {
  TestServer server;
  const auto post = [](const std::string& fields, const std::string& body = "{}") {
    return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n" + body;
  };
  const auto other = [](const std::string& line) { return line + " HTTP/1.1\r\nHost: localhost\r\n\r\n"; };
  const struct {
    const char* name;
    std::string request;
    int status;
    bool closes;
  } cases[] = {
      {"unknown path", Get("/nothing"), 404, false},
      {"a path below a path", Get("/v1/completions/"), 404, false},
      {"GET on a POST path", Get("/v1/completions"), 405, false},
      {"TRACE", other("TRACE /health"), 405, false},
      {"PUT", other("PUT /health"), 405, false},
      {"CONNECT", other("CONNECT 127.0.0.1:80"), 405, false},
      {"OPTIONS *", other("OPTIONS *"), 405, false},
      {"lower case get", other("get /health"), 501, true},
      {"FOO", other("FOO /health"), 501, true},
      {"no length", post("", ""), 411, false},
      {"a length of 1 TB", post("Content-Length: 1099511627776\r\n", ""), 413, true},
      {"a length of 2^63", post("Content-Length: 9223372036854775808\r\n", ""), 413, true},
      {"a length of 1 TB where no body is needed",
       "POST /ping HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1099511627776\r\n\r\n", 413, true},
      {"gzip", post("Content-Length: 2\r\nContent-Encoding: gzip\r\n"), 415, true},
      {"form data", post("Content-Length: 2\r\nContent-Type: multipart/form-data\r\n"), 415, true},
      {"an unknown expectation", post("Content-Length: 2\r\nExpect: foo\r\n"), 417, true},
      {"a foreign origin", post("Content-Length: 2\r\nOrigin: http://evil.example\r\n"), 403, true},
      {"a foreign host", "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, false},
      {"framing", post("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"), 400, true},
  };
  for (const auto& test : cases) {
    RawClient client(server.port());
    const RawClient::Response response = client.Ask(test.request);
    EXPECT_EQ(response.status, test.status) << test.name;
    EXPECT_NE(response.body.find("\"error\":{\"message\":"), std::string::npos) << test.name;
    EXPECT_NE(response.Field("x-request-id"), "") << test.name;
    EXPECT_EQ(response.Field("connection"), test.closes ? "close" : "") << test.name;
    if (test.status == 405) {
      EXPECT_NE(response.Field("allow"), "") << test.name;
    }
    if (!test.closes) {
      EXPECT_EQ(client.Ask(Get("/health")).status, 200) << test.name;
    }
  }
  ExpectUnharmed(server);
}

TEST(HttpConnection, AHiddenSecondRequestIsNeverExecuted) {
  TestServer server;
  for (const char* coding : {"xchunked", "chunked, identity", "identity"}) {
    RawClient client(server.port());
    client.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " + std::string(coding) +
                "\r\n\r\n" + CompletionPost(kBody));
    const std::string all = client.ReadAll();
    EXPECT_TRUE(all.starts_with("HTTP/1.1 501 ")) << all;
    EXPECT_EQ(all.find("HTTP/1.1 2"), std::string::npos) << all;
  }
  EXPECT_EQ(server.executor().steps, 0);
}

TEST(HttpConnection, ATrailerOf64KiBAndMoreEndsItsConnectionOnly) {
  TestServer server;
  for (const size_t bytes : {65'533u, 65'534u, 65'535u, 66'000u, 1u << 20}) {
    RawClient client(server.port());
    client.Send(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-T: " +
        std::string(bytes, 'y') + "\r\n\r\n");
    EXPECT_EQ(client.ReadResponse().status, 431) << bytes;
    client.ReadAll();
    EXPECT_TRUE(client.closed()) << bytes;
  }
  ExpectUnharmed(server);
}

TEST(HttpConnection, AMillionTinyChunksAreOneBodyOrTooMuch) {
  TestServer server;
  std::string body;
  for (const char c : std::string_view(kBody)) body += std::string("1\r\n") + c + "\r\n";
  for (int i = 0; i < 200'000; ++i) body += "1\r\n \r\n";
  RawClient client(server.port());
  client.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + body +
              "0\r\n\r\n");
  EXPECT_EQ(client.ReadResponse(30).status, 200);
}

TEST(HttpConnection, AnEndlessHeaderIsAnsweredAndNotRead) {
  TestServer server;
  RawClient client(server.port());
  client.Send("GET /health HTTP/1.1\r\nX-Endless: ");
  const std::string more(64 << 10, 'y');
  int64_t sent = 0;
  while (sent < int64_t{64} << 20 && client.Send(more)) sent += static_cast<int64_t>(more.size());
  EXPECT_LE(sent, 8 << 20) << "64 KiB are read; the sockets of both sides hold the rest";
  EXPECT_TRUE(client.ReadAll().starts_with("HTTP/1.1 431 "));
}

TEST(HttpConnection, TheKeyIsAskedForBeforeABodyIsReadOrMadeRoomFor) {
  TestServer server(Keyed());
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: a/v1?x\r\nContent-Type: application/json\r\nContent-Length: 8388608\r\n";
  const int64_t pages_before = VirtualPages();
  std::vector<std::unique_ptr<RawClient>> with_key;
  for (int i = 0; i < 64; ++i) {
    RawClient without(server.port());
    const RawClient::Response response = without.Ask(head + "\r\n");
    EXPECT_EQ(response.status, 401);
    EXPECT_EQ(response.Field("www-authenticate"), "Bearer");
    with_key.push_back(std::make_unique<RawClient>(server.port()));
    with_key.back()->Send(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sesame\r\n"
        "Content-Length: 8388608\r\n\r\n{");
  }
  // 64 bodies of 8 MiB would be 512 MiB. Meanwhile the threads that serve may reserve malloc arenas of 64 MiB each.
  EXPECT_LT((VirtualPages() - pages_before) * 4096, 300 << 20);
  EXPECT_EQ(server.Ask(CompletionPost(kBody, "Authorization: Bearer sesame\r\n")).status, 200);
  EXPECT_EQ(server.Ask(Get("/health")).status, 200) << "open to all";
  EXPECT_EQ(server.Ask(Get("/v1/models")).status, 401);
}

TEST(HttpConnection, ContinueIsSentToThoseWhoMayGoOn) {
  TestServer server(Keyed());
  const std::string start =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
      std::to_string(std::string_view(kBody).size()) + "\r\n";
  RawClient wrong(server.port());
  EXPECT_EQ(wrong.Ask(start + "Authorization: Bearer nope\r\n\r\n").status, 401) << "without a 100";
  RawClient right(server.port());
  right.Send(start + "Authorization: Bearer sesame\r\n\r\n");
  EXPECT_EQ(right.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(right.Ask(kBody).status, 200);
}

TEST(HttpConnection, AnErrorRepeatsNothingOfTheBody) {
  TestServer server;
  for (const char* body :
       {R"({"prompt":"secret-prompt)", R"({"prompt":"secret-prompt",,})", "{\"prompt\":\"secret-prompt\xff\"}",
        R"({"secret-prompt":NaN})", R"({"prompt":"secret-prompt","model":"secret-prompt"})",
        R"({"prompt":"secret-prompt","max_tokens":"secret-prompt"})"}) {
    const RawClient::Response response = server.Ask(CompletionPost(body));
    EXPECT_GE(response.status, 400);
    EXPECT_LE(response.status, 404);
    EXPECT_EQ(response.body.find("secret-prompt"), std::string::npos) << response.body;
  }
}

TEST(HttpConnection, RequestIdsAreEchoedWhenHarmless) {
  TestServer server;
  EXPECT_EQ(server.Ask(Get("/health", "X-Request-Id: abc-1.2_3\r\n")).Field("x-request-id"), "abc-1.2_3");
  for (const char* odd : {"a b", "<script>", "a\"b", ""}) {
    const std::string id =
        server.Ask(Get("/health", "X-Request-Id: " + std::string(odd) + "\r\n")).Field("x-request-id");
    EXPECT_EQ(id.size(), 32u) << odd;
  }
}

TEST(HttpConnection, ABrowserOfOursMayAskAndRead) {
  TestServerOptions options;
  options.tenants = SingleTenant("sesame");
  options.http.origins = OriginPolicy("127.0.0.1", {}, {"https://ui.example"});
  TestServer server(std::move(options));
  const std::string origin = "Origin: https://ui.example\r\n";
  const RawClient::Response preflight =
      server.Ask("OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nAccess-Control-Request-Method: POST\r\n" +
                 origin + "\r\n");
  EXPECT_EQ(preflight.status, 204) << "a preflight carries no key";
  EXPECT_EQ(preflight.Field("access-control-allow-origin"), "https://ui.example");
  EXPECT_EQ(preflight.Field("access-control-allow-methods"), "POST");
  const RawClient::Response answer = server.Ask(CompletionPost(kBody, origin + "Authorization: Bearer sesame\r\n"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.Field("access-control-allow-origin"), "https://ui.example");
  const RawClient::Response foreign = server.Ask(
      "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nAccess-Control-Request-Method: POST\r\nOrigin: "
      "https://evil\r\n\r\n");
  EXPECT_EQ(foreign.status, 403);
  EXPECT_EQ(foreign.Field("access-control-allow-origin"), "");
}

TEST(HttpConnection, APreflightIsAnsweredWithTheFieldsThatItAsksFor) {
  TestServerOptions options;
  options.tenants = SingleTenant("sesame");
  options.http.origins = OriginPolicy("127.0.0.1", {}, {"https://ui.example"});
  TestServer server(std::move(options));
  const auto allowed = [&server](const std::string& asked) {
    return server
        .Ask(
            "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://ui.example\r\n"
            "Access-Control-Request-Method: POST\r\n" +
            asked + "\r\n")
        .Field("access-control-allow-headers");
  };
  // As a browser asks for the OpenAI SDK: lower case, sorted, without spaces.
  const std::string sdk =
      "authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-os,x-stainless-package-version,"
      "x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout";
  EXPECT_EQ(allowed("Access-Control-Request-Headers: " + sdk + "\r\n"), sdk);
  const std::string usual =
      "authorization, content-type, x-api-key, anthropic-version, anthropic-beta, x-request-id, x-session-id, "
      "x-session-affinity";
  EXPECT_EQ(allowed(""), usual);
  EXPECT_EQ(allowed("Access-Control-Request-Headers: a;b<c>\r\n"), usual) << "no list of names";
}

TEST(HttpConnection, APageMayReadTheIdAndTheLimits) {
  TestServerOptions options;
  options.http.origins = OriginPolicy("127.0.0.1", {}, {"https://ui.example"});
  TestServer server(std::move(options));
  const std::string exposed =
      server.Ask(CompletionPost(kBody, "Origin: https://ui.example\r\n")).Field("access-control-expose-headers");
  for (const char* name : {"x-request-id", "x-hydrant-durable", "x-hydrant-tools-not-offered", "retry-after",
                           "x-ratelimit-remaining-requests", "x-ratelimit-reset-tokens"}) {
    EXPECT_NE(exposed.find(name), std::string::npos) << name;
  }
}

// --- deadlines
// --------------------------------------------------------------------------------------------------------

TEST(HttpConnection, AHeaderHasATotalDeadlineNotOnePerRead) {
  TestServerOptions options;
  options.http.limits.header_timeout_s = 0.3;
  TestServer server(std::move(options));
  RawClient client(server.port());
  const std::string request = Get("/health", "X-Slow: " + std::string(500, 'y') + "\r\n");
  size_t sent = 0;
  // A byte whenever nothing has come back for 20 ms.
  std::string answer;
  while (answer.empty() && !client.closed() && sent < request.size()) {
    client.Send(request.substr(sent++, 1));
    answer = client.ReadUntil("\r\n", 0.02);
  }
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 408 ")) << answer;
  client.ReadAll();
  EXPECT_TRUE(client.closed());
}

TEST(HttpConnection, ABodyHasADeadlineOfItsOwn) {
  TestServerOptions options;
  options.http.limits.body_timeout_s = 0.3;
  TestServer server(std::move(options));
  RawClient client(server.port());
  client.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{");
  EXPECT_EQ(client.ReadResponse().status, 408);
  client.ReadAll();
  EXPECT_TRUE(client.closed());
}

TEST(HttpConnection, ABodyHasToComeAtARate) {
  TestServerOptions options;
  options.http.limits.body_grace_s = 0.3;
  options.http.limits.body_bytes_per_s_min = 100;
  TestServer server(std::move(options));
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
  RawClient slow(server.port());
  slow.Send(head + "{");
  EXPECT_EQ(slow.ReadResponse(20).status, 408) << "long before the deadline of the whole";
  RawClient steady(server.port());
  const std::string body = kBody + std::string(100'000 - std::string_view(kBody).size(), ' ');
  // As much as one read takes, head and all: it has brought enough before anything is waited for.
  steady.Send(head + body.substr(0, 10'000));
  EXPECT_EQ(steady.ReadUntil("nothing comes", 0.5), "") << "10 kB are 100 s of the rate, beyond the grace";
  steady.Send(std::string_view(body).substr(10'000));
  EXPECT_EQ(steady.ReadResponse().status, 200);
}

TEST(HttpConnection, SilentAndIdleConnectionsAreClosedWithoutAWord) {
  const auto with_times = [](double header_s, double keepalive_s) {
    TestServerOptions options;
    options.http.limits.header_timeout_s = header_s;
    options.http.limits.keepalive_timeout_s = options.http.limits.unkeyed_keepalive_timeout_s = keepalive_s;
    return options;
  };
  TestServer server(with_times(0.2, 60));
  RawClient silent(server.port());
  EXPECT_EQ(silent.ReadAll(), "");
  EXPECT_TRUE(silent.closed());
  TestServer patient(with_times(60, 0.2));
  RawClient idle(patient.port());
  EXPECT_EQ(idle.Ask(Get("/health")).status, 200);
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_TRUE(idle.closed());
}

TEST(HttpConnection, WhoShowedNoKeyIsKeptForAShorterTime) {
  TestServerOptions options = Keyed();
  options.http.limits.unkeyed_keepalive_timeout_s = 0.1;
  TestServer server(std::move(options));
  RawClient stranger(server.port());
  RawClient known(server.port());
  EXPECT_EQ(known.Ask(Get("/v1/models", "Authorization: Bearer sesame\r\n")).status, 200);
  EXPECT_EQ(stranger.Ask(Get("/health")).status, 200);
  stranger.ReadAll(5);
  EXPECT_TRUE(stranger.closed());
  EXPECT_EQ(known.Ask(Get("/health")).status, 200);
}

TEST(HttpConnection, WhoMayNotAskLearnsNothing) {
  TestServer server(Keyed());
  const std::string foreign = "Origin: http://evil.example\r\n";
  for (const std::string& request :
       {Get("/v1/models", foreign), "FOO / HTTP/1.1\r\nHost: localhost\r\n" + foreign + "\r\n"}) {
    const RawClient::Response response = server.Ask(request);
    EXPECT_GE(response.status, 400);
    EXPECT_EQ(response.Field("access-control-allow-origin"), "") << response.status;
  }
  EXPECT_EQ(server.Ask(Get("/v1/models", "Origin: http://localhost\r\n")).Field("access-control-allow-origin"),
            "http://localhost")
      << "a page of ours may read that its key is wrong";
}

TEST(HttpConnection, APageThatDoesNotSayWhoItIsIsAForeignOne) {
  TestServer server;
  EXPECT_EQ(server.Ask(Get("/metrics", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n")).status, 403);
  EXPECT_EQ(server.Ask(Get("/ui", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n")).status / 100, 2)
      << "a link that somebody follows";
  EXPECT_EQ(server.Ask(Get("/metrics", "Sec-Fetch-Site: same-origin\r\n")).status, 200);
}

TEST(HttpConnection, AClientThatLeavesInTheMiddleCostsNothing) {
  TestServer server;
  const std::string request = CompletionPost(kBody);
  for (const size_t bytes : {1u, 20u, 120u, static_cast<unsigned>(request.size()) - 1}) {
    for (const bool reset : {false, true}) {
      RawClient client(server.port());
      client.Send(request.substr(0, bytes));
      client.Close(reset);
    }
  }
  ExpectUnharmed(server);
  EXPECT_EQ(server.executor().steps, 0);
}

TEST(HttpConnection, WhoSendsTooMuchDuringAGenerationIsCutOff) {
  TestServer server;
  server.executor().Hold();
  RawClient client(server.port());
  client.Send(CompletionPost(kBody));
  ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == 1; }));
  const std::string flood(16 << 10, 'x');
  for (int i = 0; i < 1024 && client.Send(flood); ++i) {
  }
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_TRUE(client.closed());
  server.executor().Release();
  ExpectUnharmed(server);
}

}  // namespace
}  // namespace hydrant
