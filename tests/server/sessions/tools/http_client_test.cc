#include "server/sessions/tools/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace hydrant {
namespace {

using testing::HasSubstr;

TEST(HttpClient, AnAddressIsHttpOrASocket) {
  for (const char* url : {"http://127.0.0.1:8000", "http://localhost", "http://[::1]:80/", "unix:/run/admin.sock"}) {
    EXPECT_TRUE(HttpClient::To(url).ok()) << url;
  }
  const std::pair<const char*, const char*> wrong[] = {{"https://host", "TLS is not spoken here"},
                                                       {"host:8000", "is no address"},
                                                       {"http://", "is no address"},
                                                       {"http://host/v1", "is no address"},
                                                       {"http://host\r\nX: y", "is no address"},
                                                       {"http://host:99999", "is no port"},
                                                       {"http://host:0", "is no port"},
                                                       {"http://[::1]:-1", "is no port"},
                                                       {"http://host:", "is no port"},
                                                       {"http://host:http", "is no port"},
                                                       {"unix:", "is no path"}};
  for (const auto& [url, why] : wrong) {
    const auto client = HttpClient::To(url);
    ASSERT_FALSE(client.ok()) << url;
    EXPECT_THAT(std::string(client.status().message()), HasSubstr(why));
  }
}

TEST(HttpClient, WhoDoesNotListenIsNamed) {
  auto client = HttpClient::To("unix:/nowhere/admin.sock");
  const auto reply = client->Ask("GET", "/", "", "");
  EXPECT_TRUE(absl::IsUnavailable(reply.status()));
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("unix:/nowhere/admin.sock: No such file"));
}

}  // namespace
}  // namespace hydrant
