#include "server/sessions/past_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace hydrant {
namespace {

class PastCodec : public testing::Test {
 protected:
  static SessionPast PastOf(int turn) {
    SessionPast past;
    for (int i = 0; i < 10 * turn; ++i) past.tokens.push_back(i * 1000);
    past.computed = static_cast<int32_t>(past.tokens.size()) - 1;
    past.added_special_tokens = 1;
    past.text = std::string(static_cast<size_t>(turn) * 50, 'a') + "the answer";
    past.text_before_last = past.text->size() - 2;
    past.prompt_bytes = past.text->size() - 10;
    for (size_t i = 0; i < static_cast<size_t>(turn); ++i) past.client_ranges.push_back({i * 20, i * 20 + 5});
    past.answer_specials = {{past.prompt_bytes + 1, past.prompt_bytes + 3}};
    past.spec.preset = KvPreset::kH2oPlus;
    past.spec.budget_kind = KvBudgetKind::kRatioOfPrompt;
    past.spec.budget_ratio = 0.25;
    past.spec.recent = 7;
    past.spec.position = KvPosition::kRolling;
    past.kv.budget = KvBudget::Exact(64);
    past.kv.policy = {.evicts = true, .heavy = 40, .recent = 24, .decay = 0.9375f, .rolling = true};
    past.kv.policy_label = 3;
    return past;
  }
  static SessionPast PinningPast() {
    SessionPast past = PastOf(1);
    past.spec.preset = KvPreset::kAuto;
    past.kv.policy.rolling = false;
    past.kv.policy.pin_rows = 64;
    past.kv.policy.pin_tokens = 512;
    past.kv.policy.pin_decay = 0.9375f;
    past.kv.policy.pins_min = 64;
    past.kv.policy.decays_prompt = false;
    return past;
  }
  static void ExpectSame(const SessionPast& a, const SessionPast& b) {
    EXPECT_EQ(EncodePast(a, nullptr, kModel), EncodePast(b, nullptr, kModel));
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.text, b.text);
    EXPECT_EQ(a.spec, b.spec);
    EXPECT_EQ(a.client_ranges, b.client_ranges);
    EXPECT_EQ(a.kv.policy.decay, b.kv.policy.decay);
  }
  static constexpr ModelId kModel = {1, 2, 3};
};

TEST_F(PastCodec, NotesComeBackAndOnlyNewOnesAreWritten) {
  const auto note = [](uint64_t turn, const std::string& head) {
    return std::make_shared<const TurnNote>(
        TurnNote{turn, static_cast<int32_t>(turn), std::string(1000, 'n'), std::make_shared<const std::string>(head)});
  };
  SessionPast one = PastOf(1), two = PastOf(2), three = PastOf(3);
  one.notes = {note(1, "h")};
  two.notes = {one.notes[0], note(2, "h")};
  three.notes = {two.notes[0], two.notes[1], note(3, "i")};
  const std::vector<std::string> bodies = {EncodePast(one, nullptr, kModel), EncodePast(two, &one, kModel),
                                           EncodePast(three, &two, kModel)};
  EXPECT_LT(bodies[2].size(), bodies[0].size() + 1000);
  const std::optional<SessionPast> past = DecodePast(bodies, kModel);
  ASSERT_TRUE(past.has_value());
  ExpectSame(*past, three);
  ASSERT_EQ(past->notes.size(), 3u);
  EXPECT_EQ(past->notes[0]->head.get(), past->notes[1]->head.get()) << "what is equal is there once";
  EXPECT_EQ(*past->notes[2]->head, "i");
  EXPECT_EQ(past->notes[1]->tokens, 2);
  // A past without notes is written as it was before there were any.
  EXPECT_EQ(EncodePast(PastOf(1), nullptr, kModel)[0], 1);
  one.notes = {note(100, "h")};  // of more tokens than there are
  const std::vector<std::string> more = {EncodePast(one, nullptr, kModel)};
  EXPECT_FALSE(DecodePast(more, kModel).has_value());
}

TEST_F(PastCodec, TheAdapterComesBackAndStandsInTheKeyOfItsKv) {
  SessionPast one = PastOf(1), two = PastOf(2);
  one.adapter = two.adapter = std::string("a\0digest of 16 by", 16);
  const std::vector<std::string> bodies = {EncodePast(one, nullptr, kModel), EncodePast(two, &one, kModel)};
  const std::optional<SessionPast> past = DecodePast(bodies, kModel);
  ASSERT_TRUE(past.has_value());
  ExpectSame(*past, two);
  EXPECT_EQ(past->adapter, one.adapter);
  EXPECT_EQ(ModelOfPast(bodies[0]), kModel);
  EXPECT_NE(EncodeKvPolicy(one), EncodeKvPolicy(PastOf(1)));
  // A server that knows no adapters must not go on with it as if it had none.
  EXPECT_EQ(bodies[0][0], 3);
  for (size_t bytes = 0; bytes < bodies[0].size(); ++bytes) {
    const std::vector<std::string> cut = {bodies[0].substr(0, bytes)};
    EXPECT_FALSE(DecodePast(cut, kModel).has_value()) << bytes;
  }
  one.adapter.assign(65, 'x');
  const std::vector<std::string> longer = {EncodePast(one, nullptr, kModel)};
  EXPECT_FALSE(DecodePast(longer, kModel).has_value());
}

TEST_F(PastCodec, WhatAPolicyPinsComesBackAndOthersAreWrittenAsBefore) {
  SessionPast pins = PinningPast(), two = PastOf(2);
  std::vector<std::string> bodies = {EncodePast(pins, nullptr, kModel)};
  // A server that pins nothing must not go on with it.
  EXPECT_EQ(bodies[0][0], 4);
  std::optional<SessionPast> past = DecodePast(bodies, kModel);
  ASSERT_TRUE(past.has_value());
  ExpectSame(*past, pins);
  EXPECT_EQ(past->kv.policy.pin_rows, 64);
  EXPECT_EQ(past->kv.policy.pin_tokens, 512);
  EXPECT_EQ(past->kv.policy.pin_decay, 0.9375f);
  EXPECT_EQ(past->kv.policy.pins_min, 64);
  EXPECT_FALSE(past->kv.policy.decays_prompt);
  for (size_t bytes = 0; bytes < bodies[0].size(); ++bytes) {
    EXPECT_FALSE(DecodePast(std::vector{bodies[0].substr(0, bytes)}, kModel).has_value()) << bytes;
  }
  EXPECT_NE(EncodeKvPolicy(pins), EncodeKvPolicy(PastOf(1)));
  bodies.push_back(EncodePast(two, &pins, kModel));
  EXPECT_EQ(bodies[1][0], 1);
  past = DecodePast(bodies, kModel);
  ASSERT_TRUE(past.has_value());
  EXPECT_EQ(past->kv.policy.pin_rows, 0) << "another policy pins nothing";
  ExpectSame(*past, two);
}

TEST_F(PastCodec, WhetherASessionRecallsComesBackAndStandsInTheKeyOfItsKv) {
  for (const bool pins : {false, true}) {
    SessionPast one = pins ? PinningPast() : PastOf(1), two = PastOf(2);
    SessionPast forgets = one;
    one.spec.recall = true;
    one.computed = 0;
    std::vector<std::string> bodies = {EncodePast(one, nullptr, kModel)};
    // A server that recalls nothing must not go on with it.
    EXPECT_EQ(bodies[0][0], 5);
    std::optional<SessionPast> past = DecodePast(bodies, kModel);
    ASSERT_TRUE(past.has_value());
    EXPECT_TRUE(past->spec.recall);
    EXPECT_EQ(past->kv.policy.pin_rows, pins ? 64 : 0);
    ExpectSame(*past, one);
    for (size_t bytes = 0; bytes < bodies[0].size(); ++bytes) {
      EXPECT_FALSE(DecodePast(std::vector{bodies[0].substr(0, bytes)}, kModel).has_value()) << bytes;
    }
    EXPECT_NE(EncodeKvPolicy(one), EncodeKvPolicy(forgets));
    bodies.push_back(EncodePast(two, &one, kModel));
    EXPECT_EQ(bodies[1][0], 1);
    past = DecodePast(bodies, kModel);
    ASSERT_TRUE(past.has_value());
    EXPECT_FALSE(past->spec.recall);
    ExpectSame(*past, two);
  }
}

TEST_F(PastCodec, PinsAndAnAdapterComeBackTogether) {
  SessionPast both = PinningPast();
  both.adapter = "sixteen bytes !!";
  const std::vector<std::string> bodies = {EncodePast(both, nullptr, kModel)};
  EXPECT_EQ(bodies[0][0], 4);
  const std::optional<SessionPast> past = DecodePast(bodies, kModel);
  ASSERT_TRUE(past.has_value());
  ExpectSame(*past, both);
  EXPECT_EQ(past->adapter, both.adapter);
  EXPECT_EQ(past->kv.policy.pin_rows, 64);
  EXPECT_NE(EncodeKvPolicy(both), EncodeKvPolicy(PinningPast()));
}

TEST_F(PastCodec, PinsThatNoPolicyHasAreNone) {
  const struct {
    const char* name;
    void (*hurt)(EvictionPolicy& policy);
  } cases[] = {
      {"rows below 0", [](EvictionPolicy& policy) { policy.pin_rows = -64; }},
      {"no decay", [](EvictionPolicy& policy) { policy.pin_decay = 0; }},
      {"decay above 1", [](EvictionPolicy& policy) { policy.pin_decay = 1.5f; }},
      {"decay that is no number", [](EvictionPolicy& policy) { policy.pin_decay = std::nanf(""); }},
      {"pooled", [](EvictionPolicy& policy) { policy.pool_width = 3; }},
      {"rolling", [](EvictionPolicy& policy) { policy.rolling = true; }},
      {"without scores", [](EvictionPolicy& policy) { policy.score_source = ScoreSource::kNone; }},
      {"of a dense cache", [](EvictionPolicy& policy) { policy.evicts = false; }},
      {"for fewer tokens than none", [](EvictionPolicy& policy) { policy.pin_tokens = -1; }},
      {"fewer than none", [](EvictionPolicy& policy) { policy.pins_min = -1; }},
  };
  for (const auto& c : cases) {
    SessionPast past = PinningPast();
    ASSERT_TRUE(DecodePast(std::vector{EncodePast(past, nullptr, kModel)}, kModel).has_value());
    c.hurt(past.kv.policy);
    EXPECT_FALSE(DecodePast(std::vector{EncodePast(past, nullptr, kModel)}, kModel).has_value()) << c.name;
  }
}

TEST_F(PastCodec, TurnsComeBackFromWhatEachAdded) {
  const SessionPast one = PastOf(1), two = PastOf(2), nine = PastOf(9);
  const std::vector<std::string> bodies = {EncodePast(one, nullptr, kModel), EncodePast(two, &one, kModel),
                                           EncodePast(nine, &two, kModel)};
  const std::optional<SessionPast> past = DecodePast(bodies, kModel);
  ASSERT_TRUE(past.has_value());
  ExpectSame(*past, nine);
  EXPECT_LT(bodies[1].size(), EncodePast(two, nullptr, kModel).size() - 50);
}

TEST_F(PastCodec, AShorterPastAndOneWithoutTextComeBackToo) {
  const SessionPast long_one = PastOf(5);
  SessionPast edited = PastOf(2);
  edited.tokens[3] = 77;
  SessionPast ids = PastOf(1);
  ids.text.reset();
  ids.text_before_last.reset();
  ids.prompt_bytes = 0;
  ids.client_ranges.clear();
  ids.answer_specials.clear();
  ids.spec = KvSpec();
  ids.kv = KvResolution();
  const std::vector<std::string> bodies = {EncodePast(long_one, nullptr, kModel),
                                           EncodePast(edited, &long_one, kModel)};
  ExpectSame(*DecodePast(bodies, kModel), edited);
  ExpectSame(*DecodePast(std::vector{bodies[0], bodies[1], EncodePast(ids, &edited, kModel)}, kModel), ids);
}

TEST_F(PastCodec, AnotherModelsTokensAreNone) {
  const std::vector<std::string> bodies = {EncodePast(PastOf(1), nullptr, kModel)};
  EXPECT_TRUE(DecodePast(bodies, kModel).has_value());
  EXPECT_FALSE(DecodePast(bodies, ModelId{9}).has_value());
  EXPECT_FALSE(DecodePast({}, kModel).has_value());
}

TEST_F(PastCodec, WhateverIsReadIsAPastOrNothing) {
  const std::string body = EncodePast(PastOf(2), nullptr, kModel);
  for (size_t at = 0; at < body.size(); ++at) {
    EXPECT_FALSE(DecodePast(std::vector{body.substr(0, at)}, kModel).has_value()) << at;
    for (const int bit : {0, 3, 7}) {
      std::string hurt = body;
      hurt[at] = static_cast<char>(hurt[at] ^ (1 << bit));
      const std::optional<SessionPast> past = DecodePast(std::vector{hurt}, kModel);
      if (!past.has_value()) continue;
      EXPECT_LE(static_cast<size_t>(past->computed), past->tokens.size());
      EXPECT_TRUE(past->kv.budget.valid());
    }
  }
}

}  // namespace
}  // namespace hydrant
