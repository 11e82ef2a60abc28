#include "server/frontend/request_headers.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace hydrant {
namespace {

HttpHead HeadWith(std::vector<HttpField> fields) {
  HttpHead head;
  head.fields = std::move(fields);
  return head;
}

TEST(RequestHeaders, AnIdIsItselfAndAnythingElseBecomesOne) {
  EXPECT_EQ(SessionIdOfHeader("chat-1"), "chat-1");
  std::set<std::string> ids;
  const std::vector<std::string> odd = {"a.b",
                                        "a b",
                                        "a/b",
                                        "../..",
                                        std::string(65, 'x'),
                                        std::string(1 << 20, 'x'),
                                        std::string("a\0b", 3),
                                        "\xff",
                                        "\xd0\xb0",
                                        "user@example.com"};
  for (const std::string& value : odd) {
    const std::string id = SessionIdOfHeader(value);
    EXPECT_TRUE(IsSessionId(id)) << id;
    EXPECT_EQ(id.rfind("header_", 0), 0u) << id;
    EXPECT_TRUE(ids.insert(id).second) << value << " is another session";
    EXPECT_EQ(id, SessionIdOfHeader(value));
  }
  // printf a.b | sha256sum
  EXPECT_EQ(SessionIdOfHeader("a.b"), "header_2e7336dc8eba87ef472df568c35482ab");
}

TEST(RequestHeaders, TheFirstThatIsListedAndSaysSomethingCounts) {
  const HttpHead head =
      HeadWith({{"x-key", ""}, {"x-other", "o"}, {"x-session-id", "a.b"}, {"x-session-affinity", "n"}});
  const SessionHeaders plain = ReadRequestHeaders(head, {}).session;
  EXPECT_EQ(plain.session_id, "a.b");
  EXPECT_EQ(plain.affinity, "n");
  EXPECT_EQ(plain.listed, std::nullopt) << "nothing is listed";
  const SessionHeaders other = ReadRequestHeaders(head, {"x-key", "x-other"}).session;
  EXPECT_EQ(other.listed, "o");
  EXPECT_EQ(other.session_id, "a.b") << "as it was";
  const SessionHeaders own = ReadRequestHeaders(head, {"x-session-id"}).session;
  EXPECT_EQ(own.session_id, std::nullopt);
  EXPECT_EQ(own.listed, SessionIdOfHeader("a.b"));
  EXPECT_EQ(own.affinity, "n");
}

TEST(RequestHeaders, AgentsFieldsAndTimesAreRead) {
  const HttpHead head = HeadWith({{"session_id", "codex"}, {"x-request-timeout", "3"}, {"x-session-turn", "7"}});
  const RequestHeaders headers = ReadRequestHeaders(head, {});
  EXPECT_EQ(headers.session.codex, "codex");
  EXPECT_EQ(headers.session.turn, "7");
  EXPECT_EQ(headers.timeout, "3");
}

}  // namespace
}  // namespace hydrant
