#include "server/http/http_message.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

std::string Head(const HttpResponse& response, int version_minor, bool keep_alive, int64_t length,
                 std::string_view id = "") {
  std::string out = "before";
  AppendHead(response, version_minor, keep_alive, length, id, &out);
  EXPECT_TRUE(out.starts_with("before")) << "appends";
  return out.substr(6);
}

bool Has(const std::string& head, const std::string& line) {
  return head.find("\r\n" + line + "\r\n") != std::string::npos;
}

TEST(HttpMessage, AHeadHasStatusDateTypeLengthIdAndEndsWithAnEmptyLine) {
  HttpResponse response;
  response.fields = {{"allow", "GET"}};
  const std::string head = Head(response, 1, true, 12, "some-id");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\ndate: ")) << head;
  EXPECT_NE(head.find(" GMT\r\n"), std::string::npos);
  for (const char* line :
       {"content-type: application/json", "content-length: 12", "x-request-id: some-id", "allow: GET"}) {
    EXPECT_TRUE(Has(head, line)) << line;
  }
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_EQ(head.find("connection:"), std::string::npos);
}

TEST(HttpMessage, FramingAndConnectionFollowVersionAndLength) {
  HttpResponse none;
  none.status = 204;
  none.content_type.clear();
  const struct {
    const char* name;
    std::string head;
    bool length, chunked, close, keep;
  } cases[] = {
      {"whole", Head({}, 1, true, 0), true, false, false, false},
      {"last", Head({}, 1, false, 0), true, false, true, false},
      {"stream", Head({}, 1, true, -1), false, true, false, false},
      {"1.0 stream", Head({}, 0, false, -1), false, false, true, false},
      {"1.0 kept", Head({}, 0, true, 5), true, false, false, true},
      {"204", Head(none, 1, true, 0), false, false, false, false},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(test.head.find("content-length:") != std::string::npos, test.length) << test.name;
    EXPECT_EQ(Has(test.head, "transfer-encoding: chunked"), test.chunked) << test.name;
    EXPECT_EQ(Has(test.head, "connection: close"), test.close) << test.name;
    EXPECT_EQ(Has(test.head, "connection: keep-alive"), test.keep) << test.name;
  }
}

TEST(HttpMessage, EveryStatusWeSendHasAReason) {
  for (const int status :
       {100, 200, 204, 400, 401, 403, 404, 405, 408, 409, 411, 413, 414, 415, 417, 429, 431, 500, 501, 503, 504}) {
    EXPECT_NE(HttpReason(status), "Status") << status;
  }
  EXPECT_EQ(HttpReason(299), "Status");
}

TEST(HttpMessage, FindGivesTheFirstFieldOfAName) {
  HttpHead head;
  head.fields = {{"a", "1"}, {"b", "2"}, {"a", "3"}};
  ASSERT_NE(head.Find("a"), nullptr);
  EXPECT_EQ(*head.Find("a"), "1");
  EXPECT_EQ(head.Find("c"), nullptr);
}

}  // namespace
}  // namespace hydrant
