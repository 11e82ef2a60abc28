#include "server/frontend/loading_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "server/process/clock.h"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using Response = RawClient::Response;

TEST(LoadingServer, TellsProbesAndClientsToComeLater) {
  LoadingServer loading(OriginPolicy("127.0.0.1", {}, {}), "replica-1");
  ASSERT_TRUE(loading.Open("127.0.0.1", 0).ok());
  const uint16_t port = loading.port();
  const std::string body = R"({"prompt":"hi"})";
  for (const std::string& request :
       {Get("/ready"), Get("/readyz"), Get("/health"), Get("/healthz"), Get("/ping"), Get("/v1/models"),
        CompletionPost(body), CompletionPost(std::string(1 << 20, ' '))}) {
    const Response response = RawClient(port).Ask(request);
    EXPECT_EQ(response.status, 503) << request.substr(0, 40);
    EXPECT_THAT(response.body, HasSubstr(R"("code":"loading")"));
    EXPECT_EQ(response.Field("retry-after"), "5");
    EXPECT_EQ(response.Field("x-hydrant-replica"), "replica-1");
    EXPECT_EQ(response.Field("connection"), "close") << "the next one is for the server itself";
  }
  EXPECT_THAT(RawClient(port).Ask(Get("/ready")).body, HasSubstr("The model is loading.\""));
  loading.SetPercent(45);
  EXPECT_THAT(RawClient(port).Ask(Get("/ready")).body, HasSubstr("The model is loading: 45 %.\""));
  EXPECT_EQ(RawClient(port).Ask(Get("/livez")).status, 200) << "nothing is wrong with the process";
  EXPECT_EQ(RawClient(port).Ask(Get("/nothing")).status, 404);
  const Response message = RawClient(port).Ask(Get("/v1/messages"));
  EXPECT_EQ(message.status, 529);
  EXPECT_THAT(message.body, HasSubstr(R"({"type":"error","error":{"type":"overloaded_error")"));
}

// Where the metrics are the operator's, they are so on the operator's port.
TEST(LoadingServer, TellsScrapesThatItIsLoading) {
  LoadingServer loading(OriginPolicy("127.0.0.1", {}, {}));
  ASSERT_TRUE(loading.Open("127.0.0.1", 0).ok());
  ASSERT_TRUE(loading.OpenAdmin("127.0.0.1", 0).ok());
  for (const uint16_t port : {loading.port(), loading.admin_port()}) {
    const Response response = RawClient(port).Ask(Get("/metrics"));
    EXPECT_EQ(response.status, 200);
    EXPECT_THAT(response.Field("content-type"), HasSubstr("version=0.0.4"));
    EXPECT_THAT(response.body, HasSubstr("\nhydrant_loading 1\n"));
    EXPECT_THAT(response.body, HasSubstr("\nprocess_start_time_seconds " + std::to_string(ProcessStartS()) + "\n"));
  }
  const std::string drain = "POST /admin/drain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
  const Response drained = RawClient(loading.admin_port()).Ask(drain);
  EXPECT_EQ(drained.status, 503);
  EXPECT_THAT(drained.body, HasSubstr(R"("code":"loading")"));
  EXPECT_EQ(RawClient(loading.port()).Ask(drain).status, 404) << "it is not of this port";
}

TEST(LoadingServer, WhoServesThenGoesOnWithItsSockets) {
  LoadingServer loading(OriginPolicy("127.0.0.1", {}, {}));
  ASSERT_TRUE(loading.Open("127.0.0.1", 0).ok());
  ASSERT_TRUE(loading.OpenAdmin("127.0.0.1", 0).ok());
  TestServerOptions options;
  options.http.socket = loading.Release();
  RawClient early(options.http.socket->port);
  early.Send(Get("/ready"));
  options.http.admin.socket = loading.ReleaseAdmin();
  options.http.admin.port = options.http.admin.socket->port;
  options.http.admin.keys = RotatingKeys::Of("admin-key");
  RawClient early_operator(*options.http.admin.port);
  early_operator.Send(Get("/admin/tenants", "Authorization: Bearer admin-key\r\n"));
  const uint16_t port = options.http.socket->port;
  TestServer server(std::move(options));
  EXPECT_EQ(server.port(), port);
  EXPECT_EQ(early.ReadResponse().status, 200) << "it waited in the backlog";
  EXPECT_EQ(early_operator.ReadResponse().status, 200);
  EXPECT_EQ(server.Ask(Get("/ready")).status, 200);
}

TEST(LoadingServer, APortThatIsTakenIsAnErrorAtOnce) {
  TestServer other;
  LoadingServer loading(OriginPolicy("127.0.0.1", {}, {}));
  for (const absl::Status& status :
       {loading.Open("127.0.0.1", other.port()), loading.OpenAdmin("127.0.0.1", other.port())}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(other.port())));
  }
}

}  // namespace
}  // namespace hydrant
