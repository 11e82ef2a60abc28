#include "loadgen/client/response_reader.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

struct Response {
  std::string body;
  int status_at_body = 0;
  ResponseReader reader;
  Response() : reader([this](std::string_view bytes) { body.append(bytes); }) {
    reader.set_on_status([this](int status) { status_at_body = body.empty() ? status : -1; });
  }
};

// Feeds in pieces, what is not taken again with more behind it; returns how many bytes were taken.
size_t Feed(Response* response, std::string_view bytes, size_t piece) {
  size_t taken = 0;
  for (size_t end = std::min(piece, bytes.size());; end = std::min(end + piece, bytes.size())) {
    taken += response->reader.Feed(bytes.substr(taken, end - taken));
    if (end == bytes.size()) return taken;
  }
}

constexpr std::string_view kChunked =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    "6\r\ndata: \r\n3;ext=1\r\na\n\n\r\n0\r\n\r\n";

TEST(ResponseReader, BodiesAreTheSameHoweverTheBytesAreCut) {
  for (size_t piece = 1; piece <= kChunked.size(); ++piece) {
    Response response;
    EXPECT_EQ(Feed(&response, kChunked, piece), kChunked.size());
    EXPECT_TRUE(response.reader.done()) << piece;
    EXPECT_EQ(response.body, "data: a\n\n") << piece;
    EXPECT_EQ(response.status_at_body, 200) << piece;
    EXPECT_TRUE(response.reader.keep_alive());
  }
}

TEST(ResponseReader, HandsOnEveryChunkWhenItComes) {
  Response response;
  const size_t first = kChunked.find("data: ") + 8;
  EXPECT_LE(response.reader.Feed(kChunked.substr(0, first)), first);
  EXPECT_EQ(response.body, "data: ");
  EXPECT_FALSE(response.reader.done());
}

TEST(ResponseReader, TakesNoMoreThanItsResponse) {
  const std::string two = std::string(kChunked) + "HTTP/1.1 200 OK\r\n";
  Response response;
  EXPECT_EQ(response.reader.Feed(two), kChunked.size());
  EXPECT_TRUE(response.reader.done());
}

TEST(ResponseReader, KnowsOtherFramings) {
  Response sized;
  EXPECT_EQ(sized.reader.Feed("HTTP/1.1 429 Too Many\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"), 65u);
  EXPECT_TRUE(sized.reader.done());
  EXPECT_EQ(sized.reader.status(), 429);
  EXPECT_EQ(sized.body, "no");
  EXPECT_FALSE(sized.reader.keep_alive());

  Response until_end;
  until_end.reader.Feed("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nab");
  EXPECT_FALSE(until_end.reader.done());
  until_end.reader.FeedEnd();
  EXPECT_TRUE(until_end.reader.done());
  EXPECT_TRUE(until_end.reader.error().empty());
  EXPECT_EQ(until_end.body, "ab");

  Response empty;
  empty.reader.Feed("HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_TRUE(empty.reader.done());
  EXPECT_EQ(empty.status_at_body, 204);
}

TEST(ResponseReader, RefusesWhatIsNotHttp) {
  for (const char* bytes : {"hello\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    Response response;
    response.reader.Feed(bytes);
    EXPECT_FALSE(response.reader.error().empty()) << bytes;
    EXPECT_EQ(response.reader.Feed("more"), 0u);
  }
}

TEST(ResponseReader, ACutOffResponseIsAnError) {
  Response response;
  Feed(&response, kChunked.substr(0, kChunked.size() - 5), 1000);
  response.reader.FeedEnd();
  EXPECT_FALSE(response.reader.error().empty());
  Response nothing;
  nothing.reader.FeedEnd();
  EXPECT_FALSE(nothing.reader.error().empty());
}

}  // namespace
}  // namespace hydrant
