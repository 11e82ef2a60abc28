#include "server/http/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "server/process/log.h"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

using Json = nlohmann::json;

TEST(RefusalSampler, AFloodIsCountedAndHidesNoOtherKind) {
  RefusalSampler sampler;
  int64_t left_out = -1;
  int written = 0;
  for (int i = 0; i < 1000; ++i) written += sampler.Admit(401, /*now_us=*/i, &left_out) ? 1 : 0;
  EXPECT_EQ(written, 20);
  EXPECT_EQ(left_out, 0);
  EXPECT_TRUE(sampler.Admit(429, 1000, &left_out)) << "another kind";
  EXPECT_EQ(left_out, 0);
  ASSERT_TRUE(sampler.Admit(401, 1'000'000, &left_out)) << "five a second";
  EXPECT_EQ(left_out, 980);
  EXPECT_TRUE(sampler.Admit(401, 1'000'001, &left_out));
  EXPECT_EQ(left_out, 0);
}

// What a server logs of `requests`, one after the other, at level info.
std::string TextOf(const std::vector<std::string>& requests) {
  testing::internal::CaptureStderr();
  StartLog(LogLevel::kInfo, LogFormat::kJson);
  {
    TestServerOptions options;
    options.tenants = SingleTenant("secret-key");
    TestServer server(std::move(options));
    for (const std::string& request : requests) server.Ask(request);
  }
  StopLog();
  return testing::internal::GetCapturedStderr();
}

std::vector<Json> RequestsIn(const std::string& log) {
  std::vector<Json> lines;
  std::istringstream text(log);
  for (std::string line; std::getline(text, line);) {
    Json read = Json::parse(line);
    if (read["message"] == "request") lines.push_back(std::move(read));
  }
  return lines;
}

constexpr const char* kKey = "Authorization: Bearer secret-key\r\n";
constexpr const char* kTrace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";

TEST(RequestLog, AGenerationsLineSaysWhoseHowMuchAndHowLongButNotWhat) {
  const std::string text = TextOf({CompletionPost(R"({"prompt":"a private word","max_tokens":3})",
                                                  std::string(kKey) + kTrace + "X-Request-Id: mine-1\r\n")});
  const std::vector<Json> lines = RequestsIn(text);
  ASSERT_EQ(lines.size(), 1u) << text;
  const Json& line = lines[0];
  EXPECT_EQ(line["id"], "mine-1");
  EXPECT_EQ(line["trace_id"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(line["method"], "POST");
  EXPECT_EQ(line["path"], "/v1/completions");
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(line["peer"], "127.0.0.1");
  EXPECT_EQ(line["generated_tokens"], 3);
  EXPECT_EQ(line["finish"], "length");
  EXPECT_GT(line["prompt_tokens"], 0);
  EXPECT_GE(line["queue_ms"], 0);
  EXPECT_GE(line["first_token_ms"], line["queue_ms"]);
  EXPECT_GE(line["us"], 0);
  EXPECT_TRUE(line.contains("generation") && line.contains("tenant"));
  EXPECT_FALSE(line.contains("error") || line.contains("left_out"));
  EXPECT_EQ(text.find("private"), std::string::npos);
  EXPECT_EQ(text.find("secret-key"), std::string::npos);
}

TEST(RequestLog, ATurnsLineSaysWhoseItIsAndWhatWasComputedBefore) {
  const std::string key(kKey);
  const std::string text =
      TextOf({CompletionPost(R"({"prompt":"a word","max_tokens":3,"session_id":"chat-1"})", key),
              CompletionPost(R"({"prompt":"b","max_tokens":3,"session_id":"chat-1","session_append":true})", key)});
  const std::vector<Json> lines = RequestsIn(text);
  ASSERT_EQ(lines.size(), 2u) << text;
  for (const Json& line : lines) EXPECT_EQ(line["session"], "chat-1");
  EXPECT_EQ(lines[0]["cached_tokens"], 0);
  EXPECT_GT(lines[1]["cached_tokens"], 0);
  EXPECT_LT(lines[1]["cached_tokens"], lines[1]["prompt_tokens"]);
}

TEST(RequestLog, RefusalsHaveALineUntilTheyAreAFlood) {
  std::vector<std::string> requests = {"BAD\r\n\r\n", Get("/nowhere", kKey),
                                       CompletionPost(R"({"prompt":1.5})", std::string(kKey) + kTrace + kTrace),
                                       Get("/health")};
  requests.insert(requests.end(), 60, CompletionPost(R"({"prompt":"hi"})", "Authorization: Bearer wrong\r\n"));
  const std::string text = TextOf(requests);
  const std::vector<Json> lines = RequestsIn(text);
  ASSERT_GE(lines.size(), 3u) << text;
  EXPECT_EQ(lines[0]["status"], 400) << "no request at all";
  EXPECT_FALSE(lines[0].contains("path"));
  EXPECT_EQ(lines[1]["status"], 404);
  EXPECT_EQ(lines[1]["error"], "route_not_found");
  EXPECT_EQ(lines[2]["status"], 400);
  EXPECT_FALSE(lines[2].contains("trace_id")) << "two are none";
  size_t wrong_keys = 0;
  for (const Json& line : lines) wrong_keys += line["status"] == 401 || line["status"] == 429 ? 1 : 0;
  EXPECT_GE(wrong_keys, 5u);
  EXPECT_LT(wrong_keys, 60u);
  EXPECT_EQ(lines.size(), 3 + wrong_keys) << "who asks for /health is not of interest";
}

}  // namespace
}  // namespace hydrant
