#include "server/sessions/turn_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/byte_tokenizer.h"

namespace hydrant {
namespace {

using testing::ElementsAreArray;

SessionPast PastAfter(const std::string& answer, bool drop_last = false, bool skip_special_tokens = true,
                      int32_t last = -1) {
  const ByteTokenizer tokenizer;
  TurnAnswer turn(tokenizer, skip_special_tokens);
  for (const int32_t id : ByteIds(answer)) turn.Add(id);
  if (last >= 0) turn.Add(last);
  return turn.PastWith(ByteIds("Q:"), "Q:", {{0, 1}}, drop_last);
}

TEST(TurnAnswer, ThePastIsThePromptAndTheAnswerOfWhichTheLastTokenHasNoKv) {
  const SessionPast past = PastAfter("yes");
  EXPECT_THAT(past.tokens, ElementsAreArray(ByteIds("Q:yes")));
  EXPECT_EQ(past.computed, 4);
  EXPECT_EQ(past.text, "Q:yes");
  EXPECT_EQ(past.text_before_last, 4u);
}

TEST(TurnAnswer, WithoutAnAnswerThereIsThePrompt) {
  const SessionPast past = PastAfter("");
  EXPECT_THAT(past.tokens, ElementsAreArray(ByteIds("Q:")));
  EXPECT_EQ(past.computed, 2);
  EXPECT_EQ(past.text, "Q:");
  EXPECT_FALSE(past.text_before_last.has_value());
}

TEST(TurnAnswer, AStopTokenIsDropped) {
  const SessionPast past = PastAfter("yes", /*drop_last=*/true, /*skip_special_tokens=*/false, ByteTokenizer::kEos);
  EXPECT_THAT(past.tokens, ElementsAreArray(ByteIds("Q:yes")));
  EXPECT_EQ(past.computed, 5) << "all that is left has KV";
  EXPECT_EQ(past.text, "Q:yes");
  EXPECT_FALSE(past.text_before_last.has_value());
}

TEST(TurnAnswer, TheTextIsWhatTheClientWasShown) {
  EXPECT_EQ(PastAfter("a", false, true, ByteTokenizer::kBos).text, "Q:a");
  EXPECT_EQ(PastAfter("a", false, false, ByteTokenizer::kBos).text, "Q:a<bos>");
  EXPECT_EQ(PastAfter("a\xff"
                      "b")
                .text,
            "Q:a\xef\xbf\xbd"
            "b");
  // Inside a character nobody can tell which bytes the last token stands for.
  const SessionPast half = PastAfter("a\xe2\x82");
  EXPECT_EQ(half.text, "Q:a\xef\xbf\xbd");
  EXPECT_FALSE(half.text_before_last.has_value());
}

TEST(TurnAnswer, TellsWhatTheClientSaidAndWhereTheAnswerShowsSpecialTokens) {
  const ByteTokenizer tokenizer;
  const auto past_of = [&](bool skip_special_tokens, bool drop_last) {
    TurnAnswer turn(tokenizer, skip_special_tokens);
    for (const int32_t id : {ByteTokenizer::kBos, int32_t{'a'}, ByteTokenizer::kEos, ByteTokenizer::kBos}) turn.Add(id);
    return turn.PastWith(ByteIds("Q:"), "Q:", {{0, 1}}, drop_last);
  };
  const SessionPast shown = past_of(false, false);
  EXPECT_EQ(shown.text, "Q:<bos>a<eos><bos>");
  EXPECT_EQ(shown.prompt_bytes, 2u);
  EXPECT_EQ(shown.client_ranges, (std::vector<ByteRange>{{0, 1}}));
  EXPECT_EQ(shown.answer_specials, (std::vector<ByteRange>{{2, 7}, {8, 18}}));
  EXPECT_EQ(past_of(false, true).answer_specials, (std::vector<ByteRange>{{2, 7}, {8, 13}}));
  EXPECT_TRUE(past_of(true, false).answer_specials.empty());
}

TEST(TurnAnswer, APromptWithoutATextHasAPastWithoutOne) {
  const ByteTokenizer tokenizer;
  TurnAnswer turn(tokenizer, true);
  turn.Add('x');
  const SessionPast past = turn.PastWith(ByteIds("Q:"), std::nullopt, {}, false);
  EXPECT_FALSE(past.text.has_value());
  EXPECT_EQ(past.tokens.size(), 3u);
}

}  // namespace
}  // namespace hydrant
