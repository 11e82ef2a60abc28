#include "api/session/session_kv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace hydrant {
namespace {

using testing::HasSubstr;

SessionKv Example() {
  SessionKv kv;
  kv.id = "s";
  kv.state = SessionState::kBusy;
  kv.policy = "h2o";
  kv.budget = 4;
  kv.heavy = kv.recent = 2;
  kv.layers = 2;
  kv.kv_heads = 1;
  kv.known = 10;
  kv.logical = 9;
  kv.live = 5;
  kv.blocks = 1;
  kv.after = 6;
  kv.tokens = {70, 71, 72};
  kv.pieces = {"a \"", "\xf0\x9f", "<s>"};
  kv.specials = {8};
  kv.held = {2, 0, 1};
  kv.scores = {1.5f, 0.0f, 0.25f};
  kv.reach = {0.5f, 0.125f};
  return kv;
}

TEST(SessionKv, TheBodyIsColumnsOfTheWindow) {
  EXPECT_EQ(SessionKvJson(Example()),
            R"({"object":"session.kv","id":"s","state":"busy","policy":"h2o","budget":4,"heavy":2,"recent":2,)"
            R"("layers":2,"kv_heads":1,"known":10,"logical":9,"live":5,"blocks":1,"after":6,"has_more":true,)"
            R"("tokens":[70,71,72],"pieces":["a \"",[240,159],"<s>"],"specials":[8],"held":[2,0,1],)"
            R"("scores":[1.5,0,0.25],"unknown":null,"reach":[[0.5],[0.125]],"ahead":null,"aside":false})");
}

TEST(SessionKv, TheNextInLineHasNobodyAhead) {
  SessionKv kv = Example();
  kv.ahead = 0;
  EXPECT_THAT(SessionKvJson(kv), HasSubstr(R"("ahead":0,"aside":false})"));
}

TEST(SessionKv, WhoHasSteppedAsideIsSaidToHave) {
  SessionKv kv = Example();
  kv.aside = true;
  kv.unknown = KvUnknown::kAside;
  EXPECT_THAT(SessionKvJson(kv), HasSubstr(R"("unknown":"set_aside")"));
  EXPECT_THAT(SessionKvJson(kv), HasSubstr(R"("aside":true})"));
}

TEST(SessionKv, WhatIsNotKnownIsNull) {
  SessionKv kv = Example();
  kv.unknown = KvUnknown::kRolling;
  kv.held.clear();
  kv.scores.clear();
  kv.reach.clear();
  kv.policy.clear();
  kv.budget = 0;
  const std::string body = SessionKvJson(kv);
  EXPECT_THAT(body, HasSubstr(R"("policy":null,"budget":null)"));
  EXPECT_THAT(
      body,
      HasSubstr(R"("held":null,"scores":null,"unknown":"rolling_positions","reach":null,"ahead":null,"aside":false})"));
}

TEST(SessionKv, APairAndATokenComeWithTheirScores) {
  SessionKv kv = Example();
  kv.pair = {.layer = 1, .head = 0, .positions = {6, 8}, .scores = {0.5f, 2.0f}};
  kv.token = {.position = 6, .scores = {-1.0f, 3.0f}};
  EXPECT_THAT(SessionKvJson(kv), HasSubstr(R"("pair":{"layer":1,"head":0,"positions":[6,8],"scores":[0.5,2]},)"
                                           R"("token":{"position":6,"scores":[[null],[3]]}})"));
  kv.pair->scores.clear();
  EXPECT_THAT(SessionKvJson(kv), HasSubstr(R"("positions":[6,8],"scores":null})"));
}

ApiResult<SessionKvQuery> ReadSessionKv(const std::map<std::string, std::string>& values) {
  return ReadSessionKvQuery(
      [&values](std::string_view name) -> std::optional<std::string> {
        const auto found = values.find(std::string(name));
        return found == values.end() ? std::nullopt : std::optional(found->second);
      },
      /*layers=*/3, /*kv_heads=*/2);
}

TEST(SessionKvQuery, SaysWhichTokensAndWhichPair) {
  const SessionKvQuery none = ReadSessionKv({}).value();
  EXPECT_FALSE(none.after.has_value() || none.layer.has_value() || none.token.has_value());
  EXPECT_EQ(none.limit, kKvTokensMax);
  const SessionKvQuery all =
      ReadSessionKv({{"after", "5"}, {"limit", "1"}, {"layer", "2"}, {"head", "1"}, {"token", "0"}}).value();
  EXPECT_EQ(all.after, 5);
  EXPECT_EQ(all.limit, 1);
  EXPECT_EQ(all.layer, 2);
  EXPECT_EQ(all.head, 1);
  EXPECT_EQ(all.token, 0);
}

TEST(SessionKvQuery, ErrorsNameTheParameter) {
  const std::pair<std::map<std::string, std::string>, std::string> cases[] = {
      {{{"after", "-1"}}, "after"},
      {{{"after", ""}}, "after"},
      {{{"limit", "0"}}, "limit"},
      {{{"limit", "4097"}}, "limit"},
      {{{"limit", "5x"}}, "limit"},
      {{{"token", "99999999999"}}, "token"},
      {{{"layer", "3"}, {"head", "0"}}, "layer"},
      {{{"layer", "0"}, {"head", "2"}}, "head"},
      {{{"layer", "0"}}, "head"},
      {{{"head", "0"}}, "layer"},
  };
  for (const auto& [values, param] : cases) {
    const ApiResult<SessionKvQuery> query = ReadSessionKv(values);
    ASSERT_FALSE(query.ok()) << param;
    EXPECT_EQ(query.error().status, 400);
    EXPECT_EQ(query.error().param, param);
  }
}

}  // namespace
}  // namespace hydrant
