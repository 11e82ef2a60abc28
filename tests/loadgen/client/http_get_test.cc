#include "loadgen/client/http_get.h"

#include <gtest/gtest.h>

#include "tests/loadgen/replay_server.h"

namespace hydrant {
namespace {

TEST(HttpGet, ReadsTheBody) {
  ReplayServer server([](const std::string& head, const std::string&) {
    return PlainReply(200, head.find("Authorization: Bearer k") != std::string::npos ? "yes" : "no");
  });
  Peer peer = server.peer();
  EXPECT_EQ(*HttpGet(&peer, "/x", "k", {}, 10), "yes");
}

TEST(HttpGet, NamesWhatIsWrong) {
  ReplayServer refusing([](const std::string&, const std::string&) { return PlainReply(401, "who"); });
  ReplayServer loading([](const std::string&, const std::string&) { return PlainReply(503, ""); });
  ReplayServer hanging([](const std::string&, const std::string&) { return Reply{{}, false, true}; });
  ReplayServer babbling([](const std::string&, const std::string&) { return Reply{{"hello\r\n\r\n"}, true}; });
  Peer peer = refusing.peer();
  EXPECT_EQ(HttpGet(&peer, "/", "", {}, 10).status().code(), absl::StatusCode::kPermissionDenied);
  peer = loading.peer();
  EXPECT_EQ(HttpGet(&peer, "/", "", {}, 10).status().code(), absl::StatusCode::kFailedPrecondition);
  peer = hanging.peer();
  EXPECT_EQ(HttpGet(&peer, "/", "", {}, 0.05).status().code(), absl::StatusCode::kDeadlineExceeded);
  peer = babbling.peer();
  EXPECT_EQ(HttpGet(&peer, "/", "", {}, 10).status().code(), absl::StatusCode::kDataLoss);
}

TEST(HttpGet, FindsTheFirstModel) {
  const auto ask = [](const std::string& body) {
    ReplayServer server([&](const std::string&, const std::string&) { return PlainReply(200, body); });
    Peer peer = server.peer();
    return FirstModel(&peer, "", {}, 10);
  };
  EXPECT_EQ(*ask(R"({"object":"list","data":[{"id":"m1"},{"id":"m2"}]})"), "m1");
  for (const char* other : {"", "{}", "[]", R"({"data":5})", R"({"data":[{"id":5}]})"}) {
    EXPECT_EQ(ask(other).status().code(), absl::StatusCode::kDataLoss) << other;
  }
  EXPECT_EQ(ask(R"({"data":[]})").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hydrant
