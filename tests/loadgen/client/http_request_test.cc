#include "loadgen/client/http_request.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(HttpRequest, PostsABody) {
  EXPECT_EQ(HttpRequest(*ParseUrl("http://h:1/base"), "/v1/x", "key", {{"X-A", "b"}}, "{}"),
            "POST /base/v1/x HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
            "Authorization: Bearer key\r\nX-A: b\r\n\r\n{}");
}

TEST(HttpRequest, GetsWithoutOne) {
  EXPECT_EQ(HttpRequest(*ParseUrl("http://h"), "/v1/models", "", {}, ""),
            "GET /v1/models HTTP/1.1\r\nHost: h:80\r\n\r\n");
}

}  // namespace
}  // namespace hydrant
