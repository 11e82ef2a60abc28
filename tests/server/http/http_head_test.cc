#include "server/http/http_head.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace hydrant {
namespace {

constexpr std::string_view kGet = "GET /x HTTP/1.1\r\nHost: a\r\n";

struct Outcome {
  HttpProgress progress = HttpProgress::kNeedMore;
  int status = 0;  // of the refusal
  HttpHead head;
  size_t consumed = 0;
};

// All at once, or a byte more at a time.
Outcome Read(std::string_view input, bool bytewise = false, const Limits& limits = {}) {
  HttpHeadReader reader(limits);
  Outcome outcome;
  for (size_t size = bytewise ? 1 : input.size(); size <= input.size(); ++size) {
    outcome.progress = reader.Read(input.substr(0, size));
    if (outcome.progress != HttpProgress::kNeedMore) break;
  }
  if (outcome.progress == HttpProgress::kRejected) outcome.status = reader.reject().status;
  outcome.head = std::move(reader.head());
  outcome.consumed = reader.consumed();
  return outcome;
}

std::string With(std::string_view fields) { return std::string(kGet) + std::string(fields) + "\r\n"; }

TEST(HttpHead, ReadsWhatItNeedsAndLeavesTheRest) {
  const std::string head =
      "POST /v1/completions?a=b HTTP/1.1\r\nHost: h:1\r\nX-Thing:  two words \r\nContent-Length: 5\r\n\r\n";
  for (const bool bytewise : {false, true}) {
    const Outcome outcome = Read(head + "hello", bytewise);
    ASSERT_EQ(outcome.progress, HttpProgress::kDone);
    EXPECT_EQ(outcome.consumed, head.size());
    EXPECT_EQ(outcome.head.method, "POST");
    EXPECT_EQ(outcome.head.path, "/v1/completions");
    EXPECT_EQ(outcome.head.version_minor, 1);
    EXPECT_EQ(outcome.head.framing, BodyFraming::kLength);
    EXPECT_EQ(outcome.head.content_length, 5u);
    EXPECT_TRUE(outcome.head.keep_alive);
    ASSERT_NE(outcome.head.Find("x-thing"), nullptr);
    EXPECT_EQ(*outcome.head.Find("x-thing"), "two words");
  }
}

TEST(HttpHead, AcceptsTheFormsClientsUse) {
  const struct {
    const char* name;
    std::string text;
    const char* path;
    const char* host;
    bool keep_alive;
  } cases[] = {
      {"plain", With(""), "/x", "a", true},
      {"close", With("Connection: close\r\n"), "/x", "a", false},
      {"1.0", "GET /x HTTP/1.0\r\n\r\n", "/x", nullptr, false},
      {"1.0 keep-alive", "GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "/x", nullptr, true},
      {"an empty line first", "\r\n" + With(""), "/x", "a", true},
      {"absolute form", "GET http://b:2/y?q HTTP/1.1\r\nHost: a\r\n\r\n", "/y", "b:2", true},
      {"absolute form without a path", "GET http://b HTTP/1.1\r\nHost: a\r\n\r\n", "/", "b", true},
      {"asterisk", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "*", "a", true},
      {"authority", "CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\n", "b:443", "a", true},
  };
  for (const auto& test : cases) {
    for (const bool bytewise : {false, true}) {
      const Outcome outcome = Read(test.text, bytewise);
      ASSERT_EQ(outcome.progress, HttpProgress::kDone) << test.name << " " << outcome.status;
      EXPECT_EQ(outcome.head.path, test.path) << test.name;
      EXPECT_EQ(outcome.head.keep_alive, test.keep_alive) << test.name;
      EXPECT_EQ(outcome.consumed, test.text.size()) << test.name;
      const std::string* host = outcome.head.Find("host");
      EXPECT_EQ(host == nullptr ? "" : *host, test.host == nullptr ? "" : test.host) << test.name;
    }
  }
}

// What Beast lets through, and what others do.
TEST(HttpHead, RefusesWhateverTwoReadersCouldUnderstandDifferently) {
  const struct {
    const char* name;
    std::string text;
    int status;
  } cases[] = {
      {"an unknown coding", With("Transfer-Encoding: xchunked\r\n"), 501},
      {"identity after chunked", With("Transfer-Encoding: chunked, identity\r\n"), 501},
      {"chunked twice", With("Transfer-Encoding: chunked, chunked\r\n"), 501},
      {"gzip, chunked", With("Transfer-Encoding: gzip, chunked\r\n"), 501},
      {"two codings", With("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), 400},
      {"chunked on HTTP/1.0", "POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"length and coding", With("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400},
      {"coding and length", With("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400},
      {"two lengths", With("Content-Length: 2\r\nContent-Length: 3\r\n"), 400},
      {"two equal lengths", With("Content-Length: 2\r\nContent-Length: 2\r\n"), 400},
      {"a list of lengths", With("Content-Length: 2, 2\r\n"), 400},
      {"a signed length", With("Content-Length: +2\r\n"), 400},
      {"a negative length", With("Content-Length: -2\r\n"), 400},
      {"a hexadecimal length", With("Content-Length: 0x2\r\n"), 400},
      {"a length over 64 bits", With("Content-Length: 18446744073709551617\r\n"), 400},
      {"an empty length", With("Content-Length:\r\n"), 400},
      {"no host", "GET /x HTTP/1.1\r\n\r\n", 400},
      {"two hosts", With("Host: b\r\n"), 400},
      {"two keys", With("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"), 400},
      {"two bare keys", With("X-Api-Key: a\r\nx-api-key: b\r\n"), 400},
      {"two types", With("Content-Type: a/b\r\nContent-Type: a/b\r\n"), 400},
      {"two encodings", With("Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n"), 400},
      {"two expectations", With("Expect: 100-continue\r\nExpect: 100-continue\r\n"), 400},
      {"two origins", With("Origin: http://a\r\nOrigin: http://b\r\n"), 400},
      {"a folded field", With("X-A: b\r\n c\r\n"), 400},
      {"a folded field with a tab", With("X-A: b\r\n\tc\r\n"), 400},
      {"a field without a name", With(": b\r\n"), 400},
      {"a field without a colon", With("X-A\r\n"), 400},
      {"a space before the colon", With("Transfer-Encoding : chunked\r\n"), 400},
      {"NUL in a value", With(std::string_view("X-A: b\0c\r\n", 10)), 400},
      {"CR in a value", With("X-A: b\rc\r\n"), 400},
      {"lines that end with LF", "GET /x HTTP/1.1\nHost: a\n\n", 400},
      {"HTTP/0.9", "GET /x\r\n\r\n", 400},
      {"HTTP/2.0", "GET /x HTTP/2.0\r\nHost: a\r\n\r\n", 400},
      {"HTTP/1.2", "GET /x HTTP/1.2\r\nHost: a\r\n\r\n", 400},
      {"the HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"a TLS hello", std::string("\x16\x03\x01\x00\xf4\x01", 6), 400},
      {"a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"a control byte in the target", "GET /a\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"a byte above ASCII in the target", "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"a carriage return in the target, the head unfinished", "GET /a\rb HTTP/1.1\r\nHost", 400},
      {"a fragment in the target", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"a target that is no path", "GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"an asterisk without OPTIONS", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"an absolute form without a host", "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"two spaces after the method", "GET  /x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"no method", " /x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"a method of 40 letters", std::string(40, 'A') + " /x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
  };
  for (const auto& test : cases) {
    for (const bool bytewise : {false, true}) {
      const Outcome outcome = Read(test.text, bytewise);
      EXPECT_EQ(outcome.progress, HttpProgress::kRejected) << test.name << (bytewise ? ", bytewise" : "");
      EXPECT_EQ(outcome.status, test.status) << test.name << (bytewise ? ", bytewise" : "");
    }
  }
}

TEST(HttpHead, OtherProtocolsAreRefusedBeforeTheirLineEnds) {
  const Limits limits;
  HttpHeadReader reader(limits);
  EXPECT_EQ(reader.Read("\x16"), HttpProgress::kRejected);
}

TEST(HttpHead, EveryLimitHolds) {
  const Limits limits;
  const auto fields = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "a:\r\n";
    return text;
  };
  const auto target = [](size_t bytes) {
    return "GET /" + std::string(bytes - 1, 'y') + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  const auto block = [](size_t bytes) {
    const std::string start = std::string(kGet) + "X: ";
    return start + std::string(bytes - start.size() - 4, 'y') + "\r\n\r\n";
  };
  const struct {
    const char* name;
    std::string text;
    int status;  // 0: accepted
  } cases[] = {
      {"100 fields", With(fields(99)), 0},
      {"101 fields", With(fields(100)), 431},
      {"1,500 fields in 6 KB", With(fields(1500)), 431},
      {"a target of 4 KiB", target(4096), 0},
      {"a target of 4 KiB and one", target(4097), 414},
      {"8 KiB", block(8192), 0},
      {"8 KiB and one", block(8193), 431},
      {"one endless field", std::string(kGet) + "X: " + std::string(9000, 'y'), 431},
      {"one endless target", "GET /" + std::string(9000, 'y'), 414},
      {"a request line that ends beyond the head's bound", "GET / " + std::string(9000, 'y') + "\r\n", 414},
      {"the same, in good order", "GET / " + std::string(9000, 'y') + " HTTP/1.1\r\n", 414},
  };
  for (const auto& test : cases) {
    for (const bool bytewise : {false, true}) {
      const Outcome outcome = Read(test.text, bytewise, limits);
      EXPECT_EQ(outcome.status, test.status) << test.name << (bytewise ? ", bytewise" : "");
      EXPECT_EQ(outcome.progress, test.status == 0 ? HttpProgress::kDone : HttpProgress::kRejected) << test.name;
    }
  }
}

// --- chunked bodies
// ---------------------------------------------------------------------------------------------------

struct Decoded {
  HttpProgress progress = HttpProgress::kNeedMore;
  int status = 0;
  size_t consumed = 0;
  std::string body;
};

Decoded Decode(std::string_view input, size_t piece, const Limits& limits = {}) {
  ChunkedDecoder decoder(limits);
  Decoded decoded;
  while (!input.empty() && decoded.progress == HttpProgress::kNeedMore) {
    size_t used = 0;
    const std::string_view now = input.substr(0, piece);
    decoded.progress = decoder.Feed(now, &used, &decoded.body);
    if (decoded.progress == HttpProgress::kRejected) {
      decoded.status = decoder.reject().status;
      return decoded;
    }
    decoded.consumed += used;
    input.remove_prefix(used);
  }
  return decoded;
}

constexpr size_t kPieces[] = {1, 2, 3, 7, 1 << 20};

TEST(ChunkedDecoder, GivesTheBodyHoweverItIsCut) {
  const struct {
    const char* text;
    const char* body;
  } cases[] = {
      {"0\r\n\r\n", ""},
      {"5\r\nhello\r\n0\r\n\r\n", "hello"},
      {"1\r\nh\r\n4\r\nello\r\n000\r\n\r\n", "hello"},
      {"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"},
      {"5;name=value\r\nhello\r\n0;x\r\n\r\n", "hello"},
      {"5 ;x\r\nhello\r\n0\r\n\r\n", "hello"},
      {"5\r\nhello\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n", "hello"},
      {"2\r\n\r\n\r\n0\r\n\r\n", "\r\n"},
  };
  for (const auto& test : cases) {
    for (const size_t piece : kPieces) {
      const Decoded decoded = Decode(std::string(test.text) + "GET /next", piece);
      EXPECT_EQ(decoded.progress, HttpProgress::kDone) << test.text;
      EXPECT_EQ(decoded.body, test.body) << test.text;
      EXPECT_EQ(decoded.consumed, std::string_view(test.text).size()) << "the next request is not eaten: " << test.text;
    }
  }
}

TEST(ChunkedDecoder, RefusesSizesThatAreNoneAndBrokenFraming) {
  const struct {
    const char* text;
    int status;
  } cases[] = {
      {"fffffffffffffffff\r\n", 413},
      {"7fffffffffffffff\r\n", 413},
      {"800001\r\n", 413},
      {"-1\r\n", 400},
      {"+5\r\nhello\r\n", 400},
      {"0x5\r\nhello\r\n", 400},
      {"\r\n", 400},
      {" 5\r\nhello\r\n", 400},
      {"g\r\n", 400},
      {"5\nhello\n", 400},
      {"5\r\nhelloX\r\n", 400},
      {"5\r\nhello\rX", 400},
      {"5\rX", 400},
      {"0\r\nTrailer\n\r\n", 400},
      {"0\r\n\rX", 400},
      {"5;a\nb\r\n", 400},
  };
  for (const auto& test : cases) {
    for (const size_t piece : kPieces) {
      EXPECT_EQ(Decode(std::string(test.text) + std::string(64, 'x'), piece).status, test.status) << test.text;
    }
  }
}

TEST(ChunkedDecoder, TrailersExtensionsAndTinyChunksAreBounded) {
  Limits limits;
  limits.body_bytes_max = 1000;
  std::string tiny;
  for (int i = 0; i < 300; ++i) tiny += "1\r\n \r\n";
  const struct {
    const char* name;
    std::string text;
    int status;
  } cases[] = {
      {"a body of the limit", "3da\r\n" + std::string(986, 'x') + "\r\n0\r\n\r\n", 0},
      {"a body above the limit", "3e9\r\n", 413},
      {"two chunks above the limit", "258\r\n" + std::string(600, 'x') + "\r\n258\r\n", 413},
      {"300 bytes in 1,800 on the wire", tiny, 413},
      {"an endless extension", "1;" + std::string(300, 'x'), 400},
      {"a body whose framing passes the limit before its end comes", "3e8\r\n" + std::string(996, 'x'), 413},
  };
  for (const auto& test : cases) {
    for (const size_t piece : kPieces) EXPECT_EQ(Decode(test.text, piece, limits).status, test.status) << test.name;
  }
  for (const size_t bytes : {65'533u, 65'534u, 65'535u, 1u << 20}) {
    EXPECT_EQ(Decode("0\r\nX-T: " + std::string(bytes, 'y') + "\r\n\r\n", 1 << 20).status, 431) << bytes;
  }
  std::string trailers = "0\r\n";
  for (int i = 0; i < 5000; ++i) trailers += "a: b\r\n";
  EXPECT_EQ(Decode(trailers, 1 << 20).status, 431) << "many small ones";
}

TEST(RequestedPath, IsFoundInWhatCame) {
  EXPECT_EQ(RequestedPath("POST /v1/messages?x=1 HTTP/1.1\r\n"), "/v1/messages");
  EXPECT_EQ(RequestedPath("\r\nPOST /v1/messages\r\nHost"), "/v1/messages");
  EXPECT_EQ(RequestedPath("POST http://a:1/v1/messages HTTP/1.1\r\n"), "/v1/messages");
  EXPECT_EQ(RequestedPath("POST /v1/mess"), "/v1/mess");
  for (const char* none : {"", "\r\n", "POST", "POST ", "POST http://a HTTP/1.1", "\x16\x03\x01"}) {
    EXPECT_EQ(RequestedPath(none), "") << none;
  }
}

}  // namespace
}  // namespace hydrant
