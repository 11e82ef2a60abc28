#include "server/generation/choice_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/byte_tokenizer.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ChoiceAssemblerTest : public testing::Test {
 protected:
  ChoiceAssembler Make(int32_t added_special_tokens = 0, bool show_specials = true) {
    stops_ = std::make_unique<StopStrings>(request_.stop);
    return ChoiceAssembler(tokenizer_, request_, *stops_, prompt_, added_special_tokens, show_specials);
  }

  static TokenEvent Token(int32_t id, FinishReason end = FinishReason::kNone) {
    TokenEvent event;
    event.token = id;
    event.finish = end;
    return event;
  }
  static TokenEvent WithLogprob(int32_t id) {
    TokenEvent event = Token(id);
    event.logprobs = std::make_unique<SampleResult>();
    event.logprobs->id = id;
    event.logprobs->logprob = -static_cast<float>(id);
    event.logprobs->top = {{id, -static_cast<float>(id)}};
    return event;
  }
  // Adds each byte, and with the last one the end; returns what became visible with each.
  static std::vector<std::string> Add(ChoiceAssembler& assembler, const std::string& text,
                                      FinishReason end = FinishReason::kNone) {
    std::vector<std::string> pieces;
    for (size_t i = 0; i < text.size() && !assembler.finished(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      assembler.AddToken(Token(byte, i + 1 == text.size() ? end : FinishReason::kNone));
      pieces.push_back(assembler.Take().text);
    }
    return pieces;
  }

  ByteTokenizer tokenizer_;
  GenerationFields request_;
  std::unique_ptr<StopStrings> stops_;  // of the last one made
  std::vector<int32_t> prompt_ = ByteIds("hi");
};

TEST_F(ChoiceAssemblerTest, CountsTheTokensOfReasoning) {
  const struct {
    std::string text, reasoning, said;
    int32_t tokens;
    bool opened;
  } cases[] = {
      {"<think>ab</think>\n\ncd", "ab", "cd", 17, false},
      {"ab</think>cd", "ab", "cd", 10, true},
      {"ab", "ab", "", 2, true},
      {"ab", "", "ab", 0, false},
      {"<think>ab", "ab", "", 9, false},
      {"<thinkab", "", "<thinkab", 0, false},
      {"ab</think>cdSTOPe", "ab", "cd", 10, true},
      {"abSTOP</think>cd", "ab", "", 6, true},
  };
  for (const auto& c : cases) {
    for (const bool at_once : {false, true}) {
      request_.stop = {"STOP", "</thinking", "think>\n\nc0"};  // what may begin one is held back
      stops_ = std::make_unique<StopStrings>(request_.stop);
      ChoiceAssembler assembler(tokenizer_, request_, *stops_, prompt_, 0, true,
                                ReasoningSplitter({"<think>", "</think>", ""}, c.opened));
      std::string reasoning, said;
      const auto take = [&] {
        ChoiceAssembler::Output output = assembler.Take();
        reasoning += output.reasoning;
        said += output.text;
      };
      for (size_t i = 0; i < c.text.size() && !assembler.finished(); ++i) {
        assembler.AddToken(Token(c.text[i], i + 1 == c.text.size() ? FinishReason::kLength : FinishReason::kNone));
        if (!at_once) take();
      }
      take();
      EXPECT_EQ(reasoning, c.reasoning) << c.text;
      EXPECT_EQ(said, c.said) << c.text;
      EXPECT_EQ(assembler.reasoning_tokens(), c.tokens) << c.text;
      EXPECT_EQ(c.text.substr(static_cast<size_t>(assembler.text_begin()), said.size()), said);
    }
  }
}

TEST_F(ChoiceAssemblerTest, CharactersComeWhole) {
  ChoiceAssembler assembler = Make();
  EXPECT_THAT(Add(assembler, "a\xc3\xa9\xe2\x82\xac"), ElementsAre("a", "", "é", "", "", "€"));
}

TEST_F(ChoiceAssemblerTest, AnAnswerKeepsTheSpaceOfItsFirstWord) {
  // As SentencePiece's decoders, it drops a space at the front of a text.
  class Dropping final : public ByteTokenizer {
    TextRules text_rules() const override { return {.leading_dropped = 1}; }
  };
  const Dropping dropping;
  stops_ = std::make_unique<StopStrings>(request_.stop);
  ChoiceAssembler assembler(dropping, request_, *stops_, prompt_, 0, true);
  EXPECT_THAT(Add(assembler, " a"), ElementsAre(" ", "a"));
  EXPECT_EQ(dropping.Decode(ByteIds(" a"), true), "a");
}

TEST_F(ChoiceAssemblerTest, AnEndInsideACharacterShowsAReplacement) {
  ChoiceAssembler assembler = Make();
  EXPECT_THAT(Add(assembler, "a\xe2\x82", FinishReason::kLength), ElementsAre("a", "", "\xef\xbf\xbd"));
  EXPECT_EQ(assembler.finish_reason(), FinishReason::kLength);
}

TEST_F(ChoiceAssemblerTest, AStopStringEndsItBeforeTheEngineKnows) {
  request_.stop = {"END", "xyz"};
  ChoiceAssembler assembler = Make();
  EXPECT_THAT(Add(assembler, "oEEND!"), ElementsAre("o", "", "E", "", ""));
  EXPECT_TRUE(assembler.finished());
  EXPECT_EQ(assembler.finish_reason(), FinishReason::kStop);
  EXPECT_EQ(std::get<std::string>(assembler.stop_reason()), "END");
  EXPECT_EQ(assembler.generated(), 5);
}

TEST_F(ChoiceAssemblerTest, AHeldBackBeginningComesWithTheEnd) {
  request_.stop = {"END"};
  ChoiceAssembler assembler = Make();
  EXPECT_THAT(Add(assembler, "oEN", FinishReason::kLength), ElementsAre("o", "", "EN"));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(assembler.stop_reason()));
}

TEST_F(ChoiceAssemblerTest, AnAnswerThatUsedAllItsTokensWasClosed) {
  request_.constraint.emplace();
  request_.constraint->close_at_max_tokens = true;
  request_.max_tokens = 2;
  for (const FinishReason finish : {FinishReason::kLength, FinishReason::kText}) {
    ChoiceAssembler closed = Make();
    EXPECT_THAT(Add(closed, "{}", finish), ElementsAre("{", "}"));
    EXPECT_EQ(AnswerFinishName(closed.finish_reason()), "stop");
    EXPECT_TRUE(std::holds_alternative<ClosedAtLimit>(closed.stop_reason()));
  }
  request_.max_tokens = 3;
  ChoiceAssembler ended = Make();
  Add(ended, "{}", FinishReason::kText);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(ended.stop_reason()));
}

TEST_F(ChoiceAssemblerTest, AStopStringMayBePartOfTheText) {
  request_.stop = {"END"};
  request_.include_stop_str_in_output = true;
  ChoiceAssembler assembler = Make();
  EXPECT_THAT(Add(assembler, "END"), ElementsAre("", "", "END"));
}

TEST_F(ChoiceAssemblerTest, BeforeMinTokensNothingStops) {
  request_.stop = {"ab"};
  request_.min_tokens = 3;
  ChoiceAssembler assembler = Make();
  EXPECT_THAT(Add(assembler, "ababab"), ElementsAre("a", "b", "a", "b", "", ""));
  EXPECT_EQ(assembler.generated(), 6);
}

TEST_F(ChoiceAssemblerTest, TheTokenThatStopsIsCountedButIsNoText) {
  for (const bool include : {false, true}) {
    request_.include_stop_str_in_output = include;
    ChoiceAssembler assembler = Make();
    assembler.AddToken(Token('a'));
    TokenEvent stop = Token('!', FinishReason::kStop);
    stop.stop_token = '!';
    assembler.AddToken(stop);
    const ChoiceAssembler::Output output = assembler.Take();
    EXPECT_EQ(output.text, include ? "a!" : "a");
    EXPECT_THAT(output.token_ids, ElementsAre('a', '!'));
    EXPECT_EQ(assembler.generated(), 2);
    EXPECT_EQ(std::get<int32_t>(assembler.stop_reason()), '!');
  }
}

TEST_F(ChoiceAssemblerTest, AnEndOfSequenceHasNoStopReason) {
  ChoiceAssembler assembler = Make();
  assembler.AddToken(Token(ByteTokenizer::kEos, FinishReason::kStop));
  EXPECT_EQ(assembler.Take().text, "");
  EXPECT_EQ(assembler.finish_reason(), FinishReason::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(assembler.stop_reason()));
}

TEST_F(ChoiceAssemblerTest, LogProbabilitiesCountCharactersNotBytes) {
  request_.logprobs = 1;
  ChoiceAssembler assembler = Make();
  for (const int32_t id : {0xc3, 0xa9, int32_t{'b'}, int32_t{'c'}}) assembler.AddToken(WithLogprob(id));
  const ChoiceAssembler::Output output = assembler.Take();
  ASSERT_EQ(output.logprobs.size(), 4u);
  EXPECT_EQ(output.logprobs[0].bytes, "\xc3") << "half a character stays recognisable";
  EXPECT_EQ(output.logprobs[2].text_offset, 1);
  EXPECT_EQ(output.logprobs[3].text_offset, 2);
  EXPECT_EQ(output.logprobs[3].logprob, -99.0f);
  ASSERT_EQ(output.logprobs[3].top.size(), 1u);
  EXPECT_EQ(output.logprobs[3].top[0].bytes, "c");
}

TEST_F(ChoiceAssemblerTest, LogProbabilitiesCountWhatBecomesOfBytesThatAreNoCharacter) {
  request_.logprobs = 0;
  ChoiceAssembler assembler = Make();
  for (const int32_t id : {int32_t{'a'}, 0xe2, 0x82, int32_t{'b'}, 0xc3, 0xa9, 0xe2, 0xc3}) {
    assembler.AddToken(WithLogprob(id));
  }
  TokenEvent end = WithLogprob(ByteTokenizer::kEos);
  end.finish = FinishReason::kStop;
  assembler.AddToken(end);
  const ChoiceAssembler::Output output = assembler.Take();
  EXPECT_EQ(output.text,
            "a\xef\xbf\xbd"
            "bé\xef\xbf\xbd\xef\xbf\xbd");
  std::vector<int32_t> offsets;
  for (const PositionLogprobs& position : output.logprobs) offsets.push_back(position.text_offset);
  EXPECT_THAT(offsets, ElementsAre(0, 1, 1, 2, 3, 3, 4, 5, 6));
}

TEST_F(ChoiceAssemblerTest, AnEchoShowsThePromptWithItsLogProbabilities) {
  request_.echo = true;
  request_.logprobs = 0;
  prompt_ = {ByteTokenizer::kBos, 'h', 'i'};
  ChoiceAssembler assembler = Make(/*added_special_tokens=*/1);
  PromptEvent event;
  event.begin = 1;
  event.results.resize(2);
  event.results[0].logprob = -1;
  event.results[1].logprob = -2;
  assembler.AddPromptLogprobs(event);
  assembler.AddToken(WithLogprob('!'));
  const ChoiceAssembler::Output output = assembler.Take();
  EXPECT_EQ(output.text, "hi!");
  ASSERT_EQ(output.logprobs.size(), 4u);
  EXPECT_FALSE(output.logprobs[0].logprob.has_value()) << "nothing comes before the first token";
  EXPECT_EQ(output.logprobs[1].logprob, -1.0f);
  EXPECT_EQ(output.logprobs[2].logprob, -2.0f);
  EXPECT_EQ(output.logprobs[3].text_offset, 2);
  EXPECT_THAT(output.token_ids, ElementsAre('!'));
}

TEST_F(ChoiceAssemblerTest, AnEchoShowsSpecialTokensOnlyWhenTheyWereSentAsText) {
  request_.echo = true;
  prompt_ = {'a', ByteTokenizer::kEos};
  for (const bool show : {false, true}) {
    ChoiceAssembler assembler = Make(0, show);
    assembler.AddToken(Token('b'));
    EXPECT_EQ(assembler.Take().text, show ? "a<eos>b" : "ab");
  }
}

TEST_F(ChoiceAssemblerTest, AnEchoWithoutGenerationIsThePrompt) {
  request_.echo = true;
  request_.max_tokens = 0;
  ChoiceAssembler assembler = Make();
  assembler.AddToken(Token(-1, FinishReason::kLength));
  const ChoiceAssembler::Output output = assembler.Take();
  EXPECT_EQ(output.text, "hi");
  EXPECT_THAT(output.token_ids, IsEmpty());
  EXPECT_EQ(assembler.generated(), 0);
}

TEST_F(ChoiceAssemblerTest, EveryEndHasItsReason) {
  const struct {
    FinishReason end;
    FinishReason reason;
  } cases[] = {{FinishReason::kStop, FinishReason::kStop},
               {FinishReason::kLength, FinishReason::kLength},
               {FinishReason::kAbort, FinishReason::kAbort}};
  for (const auto& test : cases) {
    ChoiceAssembler assembler = Make();
    EXPECT_FALSE(assembler.finished());
    assembler.AddToken(Token(-1, test.end));
    EXPECT_TRUE(assembler.finished());
    EXPECT_EQ(assembler.finish_reason(), test.reason);
  }
  ChoiceAssembler aborted = Make();
  aborted.Abort();
  EXPECT_EQ(aborted.finish_reason(), FinishReason::kAbort);
}

}  // namespace
}  // namespace hydrant
