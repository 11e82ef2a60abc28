#include "server/sessions/session_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/byte_tokenizer.h"

namespace hydrant {
namespace {

using testing::ElementsAreArray;

// Writes "ab" as one token; a model may have written it as two.
class PairTokenizer : public ByteTokenizer {
 public:
  static constexpr int32_t kPair = 258;

  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<int32_t> ids;
    for (const int32_t id : ByteTokenizer::Encode(text, options)) {
      if (id == 'b' && !ids.empty() && ids.back() == 'a') {
        ids.back() = kPair;
      } else {
        ids.push_back(id);
      }
    }
    return ids;
  }
  std::string_view TokenBytes(int32_t id) const override { return id == kPair ? "ab" : ByteTokenizer::TokenBytes(id); }
};

using Ids = std::vector<int32_t>;

Ids Joined(const Ids& first, const Ids& second) {
  Ids ids = first;
  ids.insert(ids.end(), second.begin(), second.end());
  return ids;
}

// A past of tokens that are all text, the last of them without KV unless it says otherwise.
SessionPast PastOf(const Ids& tokens, int32_t without_kv = 1) {
  SessionPast past;
  past.tokens = tokens;
  past.computed = static_cast<int32_t>(tokens.size()) - without_kv;
  past.text = PairTokenizer().Decode(tokens, /*skip_special_tokens=*/true);
  if (without_kv == 1) past.text_before_last = past.text->size() - 1;
  return past;
}

Ids PromptOf(const std::string& text, const SessionPast* past, bool append = false, bool add_bos = false) {
  PairTokenizer tokenizer;
  tokenizer.add_bos = add_bos;
  CompletionRequest request;
  request.prompts.push_back({.is_ids = false, .text = text, .ids = {}});
  request.session_append = append;
  const ApiResult<TurnPrompt> prompt = MakeTurnPrompt(request.prompts.front(), request, past, tokenizer);
  EXPECT_TRUE(prompt.ok());
  if (!prompt.ok()) return {};
  EXPECT_EQ(prompt.value().continues, Continues(prompt.value().ids, past)) << text;
  return prompt.value().ids;
}

TEST(MakeTurnPrompt, TheFirstTurnIsWhatWasSent) {
  EXPECT_THAT(PromptOf("xab", nullptr), ElementsAreArray(Ids{'x', PairTokenizer::kPair}));
}

TEST(MakeTurnPrompt, AHistoryOfTheSameTokensGoesOn) {
  const SessionPast past = PastOf(ByteIds("hello"));
  const Ids prompt = PromptOf("hello you", &past);
  EXPECT_THAT(prompt, ElementsAreArray(ByteIds("hello you")));
  EXPECT_TRUE(Continues(prompt, &past));
}

TEST(MakeTurnPrompt, AHistoryOfTheSameTextKeepsTheTokensThatWereWritten) {
  const SessionPast past = PastOf(ByteIds("xab."));
  const Ids prompt = PromptOf("xab. ab", &past);
  EXPECT_THAT(prompt, ElementsAreArray(Joined(ByteIds("xab. "), {PairTokenizer::kPair})));
  EXPECT_TRUE(Continues(prompt, &past));
}

TEST(MakeTurnPrompt, WhereOnlyTheLastTokenDiffersTheRestIsKept) {
  // The answer stopped at max_tokens with "a", and the client's text goes on with "ab".
  const SessionPast past = PastOf(ByteIds("xab a"));
  EXPECT_THAT(PromptOf("xab ab", &past), ElementsAreArray(ByteIds("xab ab"))) << "the text begins with all of it";
  const Ids prompt = PromptOf("xab ?", &past);
  EXPECT_THAT(prompt, ElementsAreArray(ByteIds("xab ?")));
  EXPECT_TRUE(Continues(prompt, &past));
}

TEST(MakeTurnPrompt, APastWithoutATextIsFoundByItsTokensOnly) {
  SessionPast past = PastOf(ByteIds("xab."));
  past.text.reset();
  EXPECT_THAT(PromptOf("xab. y", &past), ElementsAreArray(PromptOf("xab. y", nullptr)));
  past = PastOf(ByteIds("xy."));
  past.text.reset();
  EXPECT_TRUE(Continues(PromptOf("xy. y", &past), &past));
}

TEST(MakeTurnPrompt, AnEditedHistoryIsEncodedAsItIs) {
  const SessionPast past = PastOf(ByteIds("xab."));
  const Ids prompt = PromptOf("yab. ab", &past);
  EXPECT_THAT(prompt, ElementsAreArray(PromptOf("yab. ab", nullptr)));
  EXPECT_FALSE(Continues(prompt, &past));
  EXPECT_FALSE(Continues(PromptOf("xa", &past), &past)) << "shorter than the past";
}

TEST(MakeTurnPrompt, WhatIsAppendedComesBehindAllThatWasWritten) {
  const SessionPast past = PastOf(ByteIds("xab"));
  EXPECT_THAT(PromptOf("ab", &past, /*append=*/true), ElementsAreArray(Joined(ByteIds("xab"), {PairTokenizer::kPair})));
  CompletionRequest request;
  request.prompts.push_back({.is_ids = true, .text = {}, .ids = {5, 6}});
  request.session_append = true;
  EXPECT_THAT(MakeTurnPrompt(request.prompts.front(), request, &past, PairTokenizer()).value().ids,
              ElementsAreArray(Joined(ByteIds("xab"), {5, 6})));
}

TEST(MakeTurnPrompt, TheTextIsAllThatAClientWouldSend) {
  const SessionPast past = PastOf(ByteIds("xab"));
  CompletionRequest request;
  request.prompts.push_back({.is_ids = false, .text = "xabab", .ids = {}});
  EXPECT_EQ(MakeTurnPrompt(request.prompts.front(), request, &past, PairTokenizer()).value().text, "xabab");
  request.session_append = true;
  request.prompts[0].text = "!";
  EXPECT_EQ(MakeTurnPrompt(request.prompts.front(), request, &past, PairTokenizer()).value().text, "xab!");
  request.prompts[0] = {.is_ids = true, .text = {}, .ids = {PairTokenizer::kPair}};
  EXPECT_EQ(MakeTurnPrompt(request.prompts.front(), request, &past, PairTokenizer()).value().text, "xabab");
  SessionPast silent = past;
  silent.text.reset();
  EXPECT_FALSE(MakeTurnPrompt(request.prompts.front(), request, &silent, PairTokenizer()).value().text.has_value());
}

// A chat's prompt: `client_ranges` is what the client wrote in it.
TurnPrompt ChatPromptOf(const std::string& text, std::vector<ByteRange> client_ranges, const SessionPast* past) {
  const RequestPrompt said = {.is_ids = false, .text = text, .ids = {}, .client_ranges = std::move(client_ranges)};
  return MakeTurnPrompt(said, CompletionRequest(), past, PairTokenizer()).value();
}

TEST(MakeTurnPrompt, WhatAClientSaysIsNoSpecialTokenOfThePast) {
  SessionPast past = PastOf(Joined({ByteTokenizer::kBos}, ByteIds("xab.")));
  past.text = "<bos>xab.";
  past.text_before_last = 8;
  past.prompt_bytes = 7;
  past.client_ranges = {{5, 6}};
  const Ids kept = Joined({ByteTokenizer::kBos}, ByteIds("xab. y"));
  EXPECT_EQ(ChatPromptOf("<bos>xab. y", {{5, 6}, {7, 9}}, &past).ids, kept);
  EXPECT_EQ(ChatPromptOf("<bos>xab. y", {{5, 6}}, &past).ids, kept) << "whoever says the answer";
  const Ids text = Joined(ByteIds("<bos>x"), {PairTokenizer::kPair, '.', ' ', 'y'});
  for (const ByteRange range : {ByteRange{0, 6}, ByteRange{0, 5}, ByteRange{3, 4}}) {
    const TurnPrompt prompt = ChatPromptOf("<bos>xab. y", {range}, &past);
    EXPECT_EQ(prompt.ids, text) << range.begin;
    EXPECT_FALSE(prompt.continues);
  }
  EXPECT_EQ(ChatPromptOf("<bos>xab?", {{0, 6}}, &past).ids, Joined(ByteIds("<bos>x"), {PairTokenizer::kPair, '?'}))
      << "up to its last token";
}

TEST(MakeTurnPrompt, WhatThePastTookForTextIsNoSpecialTokenEither) {
  SessionPast past = PastOf(ByteIds("<bos>xab."));
  past.prompt_bytes = 9;
  past.client_ranges = {{0, 6}};
  EXPECT_EQ(ChatPromptOf("<bos>xab. y", {{0, 6}}, &past).ids, ByteIds("<bos>xab. y"));
  EXPECT_EQ(ChatPromptOf("<bos>xab. y", {{0, 2}, {2, 2}, {2, 6}}, &past).ids, ByteIds("<bos>xab. y")) << "in pieces";
  EXPECT_EQ(PromptOf("<bos>xab. y", &past), PromptOf("<bos>xab. y", nullptr)) << "as without a session";
}

TEST(MakeTurnPrompt, SpecialTokensOfAnAnswerAreTheTemplatesToRepeat) {
  SessionPast past = PastOf(Joined(ByteIds("xab"), {ByteTokenizer::kEos, 'c', '.'}));
  past.text = "xab<eos>c.";
  past.text_before_last = 9;
  past.prompt_bytes = 1;
  past.client_ranges = {};
  past.answer_specials = {{3, 8}};
  const Ids kept = Joined(Joined(ByteIds("xab"), {ByteTokenizer::kEos}), ByteIds("c. y"));
  EXPECT_EQ(ChatPromptOf("xab<eos>c. y", {{1, 3}, {8, 10}}, &past).ids, kept);
  EXPECT_EQ(ChatPromptOf("xab<eos>c. y", {}, &past).ids, kept);
  EXPECT_EQ(ChatPromptOf("xab<eos>c. y", {{1, 10}}, &past).ids, ChatPromptOf("xab<eos>c. y", {{1, 10}}, nullptr).ids);
}

// Most templates leave what was thought in earlier turns out of the prompt, and some prompts open it themselves.
TEST(MakeTurnPrompt, GoesOnFromAnAnswerWhoseReasoningTheTemplateLeavesOut) {
  const auto prompt_of = [](const std::string& before, const std::string& answer, const std::string& text) {
    SessionPast past = PastOf(ByteIds(before + answer));
    past.prompt_bytes = before.size();
    past.client_ranges = {{1, 2}};
    RequestPrompt said;
    said.text = text;
    said.client_ranges = {{1, 2}};
    said.reasoning = {"<t>", "</t>", ""};
    CompletionRequest request;
    const ApiResult<TurnPrompt> made = MakeTurnPrompt(said, request, &past, PairTokenizer());
    EXPECT_TRUE(made.ok());
    return std::string(made.value().ids.begin(), made.value().ids.end()) + (made.value().continues ? "" : " anew");
  };
  const struct {
    std::string before, answer, said, prompt;
  } cases[] = {
      {"[q]A:", "<t>\nr\n</t>\n\na.", "[q]A:a.;[x]A:", "[q]A:<t>\nr\n</t>\n\na.;[x]A:"},
      {"[q]A:<t>\n", "r</t>a.", "[q]A:a.;[x]A:<t>\n", "[q]A:<t>\nr</t>a.;[x]A:<t>\n"},
      {"[q]A:", "<t>r</t>a.\n", "[q]A:a.;[x]A:", "[q]A:<t>r</t>a.\n;[x]A:"},
      {"[q]A:", "<t>r</t>\na.", "[q]A:<t>\n</t>a.;[x]A:", "[q]A:<t>r</t>\na.;[x]A:"},
      {"[q]A:", "<t>r</t>\na.", "[q]A:<t>\nr\n</t>a.;[x]A:", "[q]A:<t>r</t>\na.;[x]A:"},
      {"[q]A:", "<t>r</t>a.", "[q]A:<t>s</t>a.;[x]A:", "[q]A:<t>s</t>a.;[x]A: anew"},
      {"[q]A:", "<t>r</t>a.", "[q]A:c.;[x]A:", "[q]A:c.;[x]A: anew"},
      {"[q]A:", "<t>r</t>a.", "[p]A:a.;[x]A:", "[p]A:a.;[x]A: anew"},
      {"[q]A:", "a.", "[q]A:b.;[x]A:", "[q]A:b.;[x]A: anew"},
      {"[q]A:", "<t>r", "[q]A:;[x]A:", "[q]A:;[x]A: anew"},
  };
  for (const auto& c : cases) EXPECT_EQ(prompt_of(c.before, c.answer, c.said), c.prompt) << c.said;
}

TEST(MakeTurnPrompt, TellsWhatIsTheClients) {
  const std::vector<ByteRange> ranges = {{1, 3}, {4, 5}};
  EXPECT_EQ(ChatPromptOf("xabab", {{1, 2}, {2, 3}, {4, 5}}, nullptr).client_ranges, ranges);
  SessionPast past = PastOf(ByteIds("xabab"));
  past.client_ranges = ranges;
  CompletionRequest request;
  request.session_append = true;
  const RequestPrompt said = {.is_ids = false, .text = "!", .ids = {}};
  EXPECT_EQ(MakeTurnPrompt(said, request, &past, PairTokenizer()).value().client_ranges, ranges);
}

TEST(MakeTurnPrompt, SomethingMustBeNew) {
  const SessionPast past = PastOf(ByteIds("x"));
  CompletionRequest request;
  request.prompts.push_back({.is_ids = true, .text = {}, .ids = {}});
  request.session_append = true;
  const ApiResult<TurnPrompt> prompt = MakeTurnPrompt(request.prompts.front(), request, &past, PairTokenizer());
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.error().code, "empty_prompt");
}

TEST(MakeTurnPrompt, ATokenTheServerAddedIsNoPartOfTheText) {
  SessionPast past = PastOf(Joined({ByteTokenizer::kBos}, ByteIds("xab.")));
  ASSERT_EQ(past.text, "xab.");
  past.added_special_tokens = 1;
  const Ids prompt = PromptOf("xab. y", &past, /*append=*/false, /*add_bos=*/true);
  EXPECT_THAT(prompt, ElementsAreArray(Joined({ByteTokenizer::kBos}, ByteIds("xab. y"))));
  EXPECT_THAT(PromptOf("z", &past, /*append=*/true, /*add_bos=*/true),
              ElementsAreArray(Joined({ByteTokenizer::kBos}, ByteIds("xab.z"))))
      << "once";
  // Without it the text is another one.
  EXPECT_THAT(PromptOf("xab. y", &past), ElementsAreArray(PromptOf("xab. y", nullptr)));
}

// A stop token that is no part of the past leaves all of it computed: sent once more as it is, there is nothing to go on with.
TEST(MakeTurnPrompt, AHistoryWithNothingNewDoesNotGoOn) {
  const SessionPast past = PastOf(ByteIds("xab."), /*without_kv=*/0);
  EXPECT_FALSE(Continues(PromptOf("xab.", &past), &past));
  EXPECT_TRUE(Continues(PromptOf("xab.y", &past), &past));
  EXPECT_TRUE(Continues(PromptOf("y", &past, /*append=*/true), &past));
}

TEST(Continues, NeedsATokenToCompute) {
  const SessionPast past = PastOf({1, 2, 3});
  EXPECT_FALSE(Continues({1, 2}, &past));
  EXPECT_TRUE(Continues({1, 2, 3}, &past));
  EXPECT_TRUE(Continues({1, 2, 9}, &past)) << "the last one has no KV";
  EXPECT_FALSE(Continues({1, 9, 3}, &past));
  const SessionPast stopped = PastOf({1, 2, 3}, 0);
  EXPECT_FALSE(Continues({1, 2, 3}, &stopped));
  EXPECT_TRUE(Continues({1, 2, 3, 4}, &stopped));
  EXPECT_FALSE(Continues({1}, nullptr));
}

// Notes the largest limit that it was asked with.
class LimitNoter : public PairTokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override {
    limit = std::max(limit, options.ids_max);
    return PairTokenizer::Encode(text, options);
  }
  mutable size_t limit = 0;
};

// What is parked of a session that recalls is less than what was said in it, or nothing.
TEST(Continues, NeedsAllThatWasSaidWhereTheSessionRecalls) {
  SessionPast past = PastOf({1, 2, 3, 4});
  past.spec.preset = KvPreset::kH2o;
  past.spec.recall = true;
  past.computed = 0;
  EXPECT_TRUE(Continues({1, 2, 3, 4, 5}, &past));
  EXPECT_TRUE(Continues({1, 2, 3, 9}, &past)) << "the last token may have been sent otherwise";
  EXPECT_FALSE(Continues({1, 2, 3}, &past)) << "nothing is new";
  EXPECT_FALSE(Continues({9, 2, 3, 4, 5}, &past));
  past.spec.preset = KvPreset::kFull;
  past.computed = 3;
  EXPECT_TRUE(Continues({1, 2, 3, 9}, &past)) << "what forgets nothing goes on as ever";
}

TEST(MakeTurnPrompt, EncodesNothingWithoutTheLimit) {
  const SessionPast past = PastOf({'x', 'a', 'b'});
  const SessionPast other = PastOf({'x', 'a', PairTokenizer::kPair});
  for (const SessionPast* of : {static_cast<const SessionPast*>(nullptr), &past, &other}) {
    for (const bool append : {false, true}) {
      if (append && of == nullptr) continue;
      LimitNoter tokenizer;
      CompletionRequest request;
      request.prompts.push_back({.is_ids = false, .text = "xabab", .ids = {}});
      request.session_append = append;
      EXPECT_TRUE(MakeTurnPrompt(request.prompts.front(), request, of, tokenizer, 7).ok());
      EXPECT_EQ(tokenizer.limit, 7u);
    }
  }
}

}  // namespace
}  // namespace hydrant
