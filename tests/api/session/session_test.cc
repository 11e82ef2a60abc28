#include "api/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "api/wire/json_body.h"
#include "api/wire/limits.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

struct ReadId {
  std::string id;
  std::string wrong;  // the param of the error
  bool is_listed = false;
};

ReadId ReadFrom(const std::string& body, const SessionHeaders& headers = {}) {
  const ApiResult<JsonBody> document = JsonBody::Parse(body, RequestLimits());
  EXPECT_TRUE(document.ok());
  std::optional<ApiError> error;
  ObjectReader reader(document.value().root(), "", &error);
  ReadId read;
  read.id = ReadSessionId(&reader, headers, &read.is_listed);
  if (error.has_value()) read.wrong = error->param;
  return read;
}

TEST(Session, AnIdIsShortAndOfFewCharacters) {
  EXPECT_TRUE(IsSessionId("a"));
  EXPECT_TRUE(IsSessionId("Az09_-"));
  EXPECT_TRUE(IsSessionId(std::string(64, 'x')));
  for (const char* id : {"", "a b", "a/b", "../../etc/passwd", "a.b", "\xd0\xb0", "a\n"}) EXPECT_FALSE(IsSessionId(id));
  EXPECT_FALSE(IsSessionId(std::string(65, 'x')));
  EXPECT_FALSE(IsSessionId(std::string("a\0b", 3)));
}

TEST(Session, TheFirstPlaceThatNamesOneCounts) {
  const std::string xargs = R"("vllm_xargs":{"session_id":"x"},"conversation_id":"c")";
  EXPECT_EQ(ReadFrom("{}").id, "");
  EXPECT_EQ(ReadFrom(R"({"session_id":null})").id, "");
  EXPECT_EQ(ReadFrom(R"({"session_id":"b",)" + xargs + "}", {"h", "a"}).id, "b");
  EXPECT_EQ(ReadFrom("{" + xargs + "}", {"h", "a"}).id, "h");
  EXPECT_EQ(ReadFrom("{" + xargs + "}", {std::nullopt, "a"}).id, "x");
  EXPECT_EQ(ReadFrom(R"({"vllm_xargs":{},"conversation_id":"c"})", {std::nullopt, "a"}).id, "c");
  EXPECT_EQ(ReadFrom("{}", {std::nullopt, "a"}).id, "a");
}

TEST(Session, AnErrorNamesThePlaceThatWasRead) {
  EXPECT_EQ(ReadFrom(R"({"session_id":"a/b"})").wrong, "session_id");
  EXPECT_EQ(ReadFrom(R"({"session_id":""})").wrong, "session_id");
  EXPECT_EQ(ReadFrom(R"({"session_id":7})").wrong, "session_id");
  EXPECT_EQ(ReadFrom("{}", {"", std::nullopt}).wrong, "X-Session-ID");
  EXPECT_EQ(ReadFrom(R"({"vllm_xargs":{"session_id":"é"}})").wrong, "vllm_xargs.session_id");
  EXPECT_EQ(ReadFrom(R"({"vllm_xargs":3})").wrong, "vllm_xargs");
  EXPECT_EQ(ReadFrom(R"({"conversation_id":[]})").wrong, "conversation_id");
  EXPECT_EQ(ReadFrom("{}", {std::nullopt, "a b"}).wrong, "x-session-affinity");
}

TEST(Session, ACardHasNullForWhatIsNotThere) {
  SessionCard card;
  card.id = "s";
  card.created = 5;
  card.last_used = 7;
  EXPECT_EQ(SessionJson(card),
            R"({"id":"s","object":"session","state":"cold","tokens":0,"live":0,"budget":null,"policy":null,)"
            R"("created":5,"last_used":7,"expires":null,"turn":null,"durable":false})");
  card.state = SessionState::kParked;
  card.tokens = 90;
  card.live = 64;
  card.budget = 64;
  card.policy = "h2o";
  card.expires = 9;
  card.turn = 7;
  card.durable = true;
  const std::string list = SessionListJson({card, card}, true);
  EXPECT_THAT(list, HasSubstr(R"("state":"parked","tokens":90,"live":64,"budget":64,"policy":"h2o")"));
  EXPECT_THAT(list, HasSubstr(R"("expires":9,"turn":7,"durable":"tokens"},{"id":)"));
  EXPECT_TRUE(list.starts_with(R"({"object":"list","data":[{)"));
  EXPECT_TRUE(list.ends_with(R"(],"has_more":true})"));
  EXPECT_EQ(SessionListJson({}, false), R"({"object":"list","data":[],"has_more":false})");
  EXPECT_EQ(SessionDeletedJson("s"), R"({"id":"s","object":"session","deleted":true})");
  EXPECT_EQ(SessionDeletedJson("s", true), R"({"id":"s","object":"session","deleted":true,"purged":true})");
  EXPECT_EQ(SessionImportedJson("s", 7, true), R"({"id":"s","object":"session","turn":7,"durable":"tokens"})");
  EXPECT_EQ(SessionTag(7), "\"turn-7\"");
  EXPECT_EQ(ReadSessionTag("\"turn-7\""), 7u);
  for (const char* wrong : {"turn-7", "\"turn-\"", "\"turn--1\"", "\"turn-7x\"", "W/\"turn-7\"", "*", "\""}) {
    EXPECT_FALSE(ReadSessionTag(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace hydrant
