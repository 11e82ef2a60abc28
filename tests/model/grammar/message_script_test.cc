// Answers that are messages: heads, what is thought before an answer, forms on the channel of answers, and calls that are messages.
#include "model/grammar/message_script.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/grammar/notation/tool_format.h"
#include "model/grammar/regex/marker_bytes.h"
#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

using Begin = MessageMarks::Begin;

MessageMarks SpelledMarks() {
  return {"<|start|>assistant", "<|channel|>", "<|message|>", "<|end|>", "analysis", "final", Begin::kHead};
}

const std::vector<std::string> kMessageTags = {"<|channel|>", "<|constrain|>", "<|message|>", "<|start|>", "<|end|>"};

// The same text where the tags are special tokens.
std::string InTokens(std::string text) {
  for (size_t place = 0; place < kMessageTags.size(); ++place) {
    for (size_t at = 0; (at = text.find(kMessageTags[place], at)) != text.npos;) {
      text.replace(at, kMessageTags[place].size(), 1, MarkerByte(place));
    }
  }
  return text;
}

MessageMarks TokenMarks(MessageMarks marks = SpelledMarks()) {
  for (std::string* mark : {&marks.start, &marks.channel, &marks.message, &marks.end}) *mark = InTokens(*mark);
  return marks;
}

std::shared_ptr<Grammar> MustCompileMessages(GrammarKind kind, std::string text, MessageMarks marks) {
  GrammarSpec spec;
  spec.kind = kind;
  spec.text = std::move(text);
  if (kind == GrammarKind::kChoice) spec.choices = {"a", "ab"};
  spec.messages = std::move(marks);
  Fuel fuel;
  Compiled made = Grammar::Compile(spec, fuel);
  const auto* refusal = std::get_if<Refusal>(&made);
  EXPECT_EQ(refusal, nullptr) << spec.text << ": " << refusal->text;
  return refusal != nullptr ? nullptr : std::get<0>(made);
}

// An answer of messages, the last of which says a word of the form.
struct Said {
  const char* text;
  bool is_answer;
};

TEST(MessageScript, EveryFormIsTheMessageOnTheChannelOfAnswers) {
  const std::vector<std::pair<GrammarKind, const char*>> forms = {
      {GrammarKind::kRegex, "ab?"},
      {GrammarKind::kChoice, ""},
      {GrammarKind::kGbnf, "root ::= \"a\" \"b\"?"},
      {GrammarKind::kStructuralTag, R"({"format":{"type":"regex","pattern":"ab?"}})"},
      {GrammarKind::kToolCalls, R"({"format":"hermes","choice":"auto","tools":[{"name":"f"}]})"}};
  for (const auto& [kind, text] : forms) {
    const auto spelled = MustCompileMessages(kind, text, SpelledMarks());
    const auto tokens = MustCompileMessages(kind, text, TokenMarks());
    for (const Said& said : {
             Said{"<|channel|>final<|message|>ab", true},
             {"<|channel|>final<|message|>a", true},
             {"<|channel|>analysis<|message|>Hm <b>.<|end|><|start|>assistant<|channel|>final<|message|>a", true},
             {"<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>analysis<|message|>\n"
              "<|end|><|start|>assistant<|channel|>final<|message|>ab",
              true},
             {"<|channel|>analysis<|message|>a", false},
             {"<|channel|>analysis<|message|>a<|end|>", false},
             {"<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>ab", false},
             {"<|channel|>commentary<|message|>ab", false},
             {"<|channel|>final<|message|>ab<|end|>", false},
             {"ab", false},
             {"", false},
         }) {
      // Where nothing but text spells marks, a form of any text has them.
      const bool says_all = kind == GrammarKind::kToolCalls && !said.is_answer;
      EXPECT_TRUE(says_all || IsAnswer(*spelled, said.text) == said.is_answer) << text << " " << said.text;
      EXPECT_EQ(IsAnswer(*tokens, InTokens(said.text)), said.is_answer) << text << " " << said.text;
      EXPECT_FALSE(IsAnswer(*tokens, said.text)) << "spelled out";
    }
    // What is thought may spell marks, but for other tokens.
    EXPECT_TRUE(IsAnswer(*tokens, InTokens("<|channel|>analysis<|message|>") + "<|end|>" +
                                      InTokens("<|end|><|start|>assistant<|channel|>final<|message|>a")));
    for (const char* mark : {"<|message|>", "<|start|>", "<|start|>user"}) {
      EXPECT_FALSE(IsAnswer(*tokens, InTokens(std::string("<|channel|>analysis<|message|>") + mark +
                                              "<|end|><|start|>assistant<|channel|>final<|message|>a")))
          << mark;
    }
  }
}

TEST(MessageScript, AnswersBeginWhereThePromptLeftThem) {
  const auto made = [](Begin begin, const char* thought) {
    MessageMarks marks = SpelledMarks();
    marks.begin = begin;
    marks.thought = thought;
    return MustCompileMessages(GrammarKind::kRegex, "ab?", TokenMarks(marks));
  };
  struct Begun {
    const char* text;
    std::string begins;  // s, h, t, m: where it does
  };
  for (const Begun& c : {Begun{"<|start|>assistant<|channel|>final<|message|>a", "s"},
                         {"<|channel|>final<|message|>a", "h"},
                         {"so<|end|><|start|>assistant<|channel|>final<|message|>a", "t"},
                         {"ab", "m"}}) {
    for (const auto& [begin, name] : {std::pair(Begin::kStart, 's'), std::pair(Begin::kHead, 'h'),
                                      std::pair(Begin::kThought, 't'), std::pair(Begin::kText, 'm')}) {
      EXPECT_EQ(IsAnswer(*made(begin, "analysis"), InTokens(c.text)), c.begins.find(name) != c.begins.npos)
          << c.text << " " << name;
    }
  }
  EXPECT_FALSE(IsAnswer(*made(Begin::kHead, ""), InTokens("<|channel|>analysis<|message|>a<|end|><|start|>assistant"
                                                          "<|channel|>final<|message|>a")));
}

TEST(MessageScript, TextsOfAnExpressionMayBeEmptyAndBeginWithBrackets) {
  const auto grammar = MustCompileMessages(GrammarKind::kRegex, R"((\{\}|\[)?)", TokenMarks());
  for (const char* text : {"", "{}", "["}) {
    EXPECT_TRUE(IsAnswer(*grammar, InTokens("<|channel|>final<|message|>") + text)) << text;
  }
  EXPECT_FALSE(IsAnswer(*grammar, InTokens("<|channel|>final<|message|>{")));
}

TEST(MessageScript, TheShortestAnswerIsAMessage) {
  const auto grammar = MustCompileMessages(GrammarKind::kJsonSchema, R"({"const":[1]})", TokenMarks());
  GrammarState state = grammar->Begin();
  std::string answer;
  for (auto left = grammar->BytesToEnd(state); left != 0; --*left) {
    ASSERT_TRUE(left.has_value()) << answer;
    bool found = false;
    for (int byte = 0; byte < 256 && !found; ++byte) {
      GrammarState next = state;
      const char c = static_cast<char>(byte);
      found = grammar->Advance(next, {&c, 1}) == Grammar::Verdict::kAllowed && grammar->BytesToEnd(next) == *left - 1;
      if (found) state = next;
      if (found) answer += c;
    }
    ASSERT_TRUE(found) << answer;
  }
  EXPECT_EQ(answer, InTokens("<|channel|>final<|message|>[1]"));
}

constexpr const char* kCallTools =
    R"("tools":[{"name":"get","parameters":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}},{"name":"get_all"}])";
constexpr const char* kOpens = "<|channel|>commentary to=functions.";
constexpr const char* kArguments = " <|constrain|>json<|message|>";
constexpr const char* kThinksFirst = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";

std::shared_ptr<Grammar> Calls(const std::string& more, Begin begin = Begin::kHead) {
  MessageMarks marks = TokenMarks();
  marks.begin = begin;
  return MustCompileMessages(
      GrammarKind::kToolCalls,
      R"({"format":"harmony","markers":["<|channel|>","<|constrain|>","<|message|>"],)" + more + "," + kCallTools + "}",
      marks);
}

bool IsSaid(Grammar& grammar, const std::string& text) { return IsAnswer(grammar, InTokens(text)); }

TEST(MessageScript, CallsAreMessages) {
  const auto required = Calls(R"("choice":"required")");
  const std::string call = std::string(kOpens) + "get" + kArguments + R"({"n": 1})";
  const std::string next = "<|end|><|start|>assistant";
  const std::string other = std::string(" to=functions.get_all<|channel|>commentary json<|message|>{}");
  for (const std::string& said :
       {call, kThinksFirst + call, other, call + next + other, kThinksFirst + other + next + kThinksFirst + call,
        std::string(kOpens) + "get_all json<|message|>{\"k\": [null]}"}) {
    EXPECT_TRUE(IsSaid(*required, said)) << said;
  }
  for (const std::string& wrong :
       {std::string(kOpens) + "get" + kArguments + "{}", std::string(kOpens) + "got" + kArguments + R"({"n": 1})",
        std::string(kOpens) + "getjson<|message|>" + R"({"n": 1})", call + next, call + "<|end|>", call + " ",
        std::string("<|channel|>final<|message|>Hm."), std::string("<|channel|>commentary<|message|>Hm.") + next + call,
        std::string("<|channel|>analysis to=functions.get<|message|>{\"n\": 1}"), std::string(), std::string("Hm."),
        std::string(kOpens) + "get to=functions.get<|channel|>commentary json<|message|>" + R"({"n": 1})"}) {
    EXPECT_FALSE(IsSaid(*required, wrong)) << wrong;
  }
  const auto one = Calls(R"("choice":"required","parallel":false)");
  EXPECT_TRUE(IsSaid(*one, kThinksFirst + call));
  EXPECT_FALSE(IsSaid(*one, call + next + call));
}

TEST(MessageScript, TextIsMessagesAsWell) {
  const auto automatic = Calls(R"("choice":"auto")");
  const std::string call = std::string(kOpens) + "get" + kArguments + R"({"n": 1})";
  const std::string next = "<|end|><|start|>assistant", final = "<|channel|>final<|message|>";
  const std::string preamble = "<|channel|>commentary<|message|>I'll look.";
  for (const std::string& said : {call, preamble + next + call, preamble, final + "Hm.", call + next + final + "Hm.",
                                  kThinksFirst + preamble + next + kThinksFirst + call}) {
    EXPECT_TRUE(IsSaid(*automatic, said)) << said;
  }
  for (const std::string& wrong : {final + "Hm." + next + call, final + "Hm.<|end|>", preamble + next, final + call,
                                   preamble + "<|channel|>", std::string("Hm."), call + "Hm."}) {
    EXPECT_FALSE(IsSaid(*automatic, wrong)) << wrong;
  }
  EXPECT_FALSE(IsAnswer(*automatic, InTokens(final) + kOpens)) << "spelled out";
  EXPECT_TRUE(IsAnswer(*automatic, InTokens(final) + "<|channel|>commentary to=python"));
  const auto one = Calls(R"("choice":"auto","parallel":false)");
  EXPECT_TRUE(IsSaid(*one, preamble + next + call));
  EXPECT_FALSE(IsSaid(*one, call + next + call));
  // Or a value of a form.
  const auto answer = Calls(R"("choice":"auto","answer":{"enum":[12]})");
  for (const std::string& said : {call, call + next + call, final + "12", kThinksFirst + final + "12"}) {
    EXPECT_TRUE(IsSaid(*answer, said)) << said;
  }
  for (const std::string& wrong : {final + "13", preamble + next + call, call + next + final + "12"}) {
    EXPECT_FALSE(IsSaid(*answer, wrong)) << wrong;
  }
}

TEST(MessageScript, CallsGoOnFromWhatHasBegun) {
  const std::string call = std::string(kOpens) + "get" + kArguments + R"({"n": 1})";
  const std::string next = "<|end|><|start|>assistant";
  EXPECT_TRUE(IsSaid(*Calls(R"("choice":"auto")", Begin::kText), " and" + next + call));
  EXPECT_TRUE(IsSaid(*Calls(R"("choice":"auto")", Begin::kText), " and so on."));
  EXPECT_TRUE(IsSaid(*Calls(R"("choice":"auto","answer":{"enum":[12]})", Begin::kText), "12"));
  EXPECT_TRUE(IsSaid(*Calls(R"("choice":"required")", Begin::kThought), " and" + next + call));
  EXPECT_FALSE(IsSaid(*Calls(R"("choice":"required")", Begin::kText), " and" + next + call));
  EXPECT_TRUE(IsSaid(*Calls(R"("choice":"required")", Begin::kStart), "<|start|>assistant" + call));
}

}  // namespace
}  // namespace hydrant::grammar
