#include "loadgen/results/answer_recorder.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

constexpr std::string_view kToken = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
constexpr std::string_view kLast = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}]}\n\n";
constexpr std::string_view kRole = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
constexpr std::string_view kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":9}}\n\n";
constexpr std::string_view kDone = "data: [DONE]\n\n";

std::string Body(std::initializer_list<std::string_view> pieces) {
  std::string body;
  for (const std::string_view piece : pieces) body.append(piece);
  return body;
}

struct Answer {
  RequestRecord record;
  std::string text;
  AnswerRecorder recorder{&record, &text};
};

TEST(AnswerRecorder, RecordsWhenTokensCame) {
  Answer answer;
  answer.recorder.OnStatus(200);
  answer.recorder.OnBody(kRole, 1.0);
  answer.recorder.OnBody(kToken, 2.0);
  answer.recorder.OnBody(Body({kToken, kLast}), 2.5);
  answer.recorder.OnBody(kUsage, 3.0);
  answer.recorder.OnBody(kDone, 3.0);
  answer.recorder.OnEnd(3.5);
  const RequestRecord& record = answer.record;
  EXPECT_TRUE(record.succeeded());
  EXPECT_EQ(record.first_s, 2.0) << "a role is not a token";
  EXPECT_EQ(record.last_s, 2.5);
  EXPECT_EQ(record.end_s, 3.5);
  EXPECT_EQ(record.gaps_s, (std::vector<float>{0.5f, 0.0f}));
  EXPECT_EQ(record.prompt_tokens, 7);
  EXPECT_EQ(record.output_tokens, 9);
  EXPECT_TRUE(record.counted_by_server);
  EXPECT_EQ(answer.text, "aaa");
}

TEST(AnswerRecorder, CountsEventsWhereTheServerDoesNot) {
  Answer answer;
  answer.record.prompt_tokens = 5;
  answer.recorder.OnStatus(200);
  answer.recorder.OnBody(Body({kToken, kLast, kDone}), 1);
  answer.recorder.OnEnd(1);
  EXPECT_TRUE(answer.record.succeeded());
  EXPECT_EQ(answer.record.output_tokens, 2);
  EXPECT_EQ(answer.record.prompt_tokens, 5) << "as asked for";
}

TEST(AnswerRecorder, CountsOnceWhereUsageComesWithEveryChunk) {
  Answer answer;
  answer.recorder.OnStatus(200);
  answer.recorder.OnBody("data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"completion_tokens\":1}}\n\n", 1);
  answer.recorder.OnBody("data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"completion_tokens\":3}}\n\n", 2);
  answer.recorder.OnBody(Body({kLast, kDone}), 2);
  answer.recorder.OnEnd(2);
  EXPECT_EQ(answer.record.output_tokens, 3);
}

TEST(AnswerRecorder, NamesRefusals) {
  const std::pair<int, RequestError> cases[] = {{429, RequestError::kHttp429},
                                                {503, RequestError::kHttp503},
                                                {400, RequestError::kHttpOther},
                                                {500, RequestError::kHttpOther}};
  for (const auto& [status, error] : cases) {
    Answer answer;
    answer.recorder.OnStatus(status);
    answer.recorder.OnBody("{\"error\":{\"message\":\"No ", 1);
    answer.recorder.OnBody("room.\"}}", 1);
    answer.recorder.OnEnd(2);
    EXPECT_EQ(answer.record.error, error);
    EXPECT_EQ(answer.record.error_text, "HTTP " + std::to_string(status) + ": No room.");
  }
  Answer plain;
  plain.recorder.OnStatus(502);
  plain.recorder.OnBody("bad\ngateway", 1);
  plain.recorder.OnEnd(1);
  EXPECT_EQ(plain.record.error_text, "HTTP 502: bad gateway");
}

TEST(AnswerRecorder, ErrorTextsAreOneLineOfUtf8) {
  const auto text_of = [](const std::string& body) {
    Answer answer;
    answer.recorder.OnStatus(502);
    answer.recorder.OnBody(body, 1);
    answer.recorder.OnEnd(1);
    return answer.record.error_text;
  };
  EXPECT_EQ(text_of("caf\xe9\r\n\x1b[2J"), "HTTP 502: caf\xef\xbf\xbd   [2J");
  // 300 bytes end inside the é.
  const std::string kept(289, 'a');
  EXPECT_EQ(text_of(kept + "\xc3\xa9"), "HTTP 502: " + kept);
}

TEST(AnswerRecorder, NamesBrokenStreams) {
  const std::pair<std::string, RequestError> cases[] = {
      {Body({kToken, "data: {\"error\":{\"message\":\"x\"}}\n\n", kDone}), RequestError::kStream},
      {Body({kLast}), RequestError::kProtocol},
      {Body({kDone}), RequestError::kProtocol},
      {Body({kRole, kDone}), RequestError::kProtocol},
      {Body({kToken, "data: nonsense\n\n", kDone}), RequestError::kProtocol},
      {"", RequestError::kProtocol}};
  for (const auto& [body, error] : cases) {
    Answer answer;
    answer.recorder.OnStatus(200);
    answer.recorder.OnBody(body, 1);
    answer.recorder.OnEnd(1);
    EXPECT_EQ(answer.record.error, error) << body;
    EXPECT_FALSE(answer.record.error_text.empty());
  }
}

TEST(AnswerRecorder, AStreamThatDoesNotSayWhyItEndsIsNoWholeAnswer) {
  Answer answer;
  answer.recorder.OnStatus(200);
  answer.recorder.OnBody(Body({kToken, kUsage, kDone}), 1);
  answer.recorder.OnEnd(1);
  EXPECT_EQ(answer.record.error, RequestError::kProtocol);
  EXPECT_EQ(answer.record.error_text, "the stream ended without a finish_reason");
}

TEST(AnswerRecorder, AnAnswerThatTheServerEndedFailed) {
  for (const std::string reason : {"abort", "error"}) {
    Answer answer;
    answer.recorder.OnStatus(200);
    answer.recorder.OnBody(kToken, 1);
    answer.recorder.OnBody(
        R"(data: {"choices":[{"text":"","finish_reason":")" + reason + "\"}]}\n\n" + std::string(kDone), 2);
    answer.recorder.OnEnd(2);
    EXPECT_EQ(answer.record.error, RequestError::kStream);
    EXPECT_EQ(answer.record.error_text, "the server ended it: " + reason);
    EXPECT_EQ(answer.record.finish_reason, reason);
  }
}

TEST(AnswerRecorder, TheFirstFailureStays) {
  Answer answer;
  answer.recorder.Fail(RequestError::kTimeout, "late", 1);
  answer.recorder.Fail(RequestError::kProtocol, "cut off", 2);
  EXPECT_EQ(answer.record.error, RequestError::kTimeout);
  EXPECT_EQ(answer.record.error_text, "late");
}

}  // namespace
}  // namespace hydrant
