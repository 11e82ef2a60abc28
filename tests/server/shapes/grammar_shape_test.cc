#include "server/shapes/grammar_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/engine/failing_new.h"
#include "tests/server/shapes/shape_checks.h"

namespace hydrant {
namespace {

using Verdict = AnswerShape::Verdict;

// Pushes all of a text; the verdict of its last token.
Verdict Said(AnswerShape& shape, std::string_view text) {
  Verdict verdict = Verdict::kGoesOn;
  for (const int32_t token : ByteIds(text)) {
    EXPECT_EQ(verdict, Verdict::kGoesOn) << text;
    verdict = shape.Push(token);
  }
  return verdict;
}

std::vector<int32_t> Allowed(AnswerShape& shape) {
  std::vector<uint32_t> bits((ByteTokenizer::kVocab + 31) / 32);
  EXPECT_TRUE(shape.Mask(bits));
  return TokensOf(bits);
}

TEST(GrammarShape, IsCompleteWhenOnlyTheEndCanFollow) {
  struct Case {
    ConstraintSpec spec;
    const char* text;
    Verdict verdict;
  };
  for (const Case& c :
       {Case{RegexSpec("ab?"), "a", Verdict::kGoesOn}, Case{RegexSpec("ab?"), "ab", Verdict::kComplete},
        Case{SchemaSpec("{}"), R"({"a":[1]})", Verdict::kComplete},
        Case{SchemaSpec("{}"), R"("a")", Verdict::kComplete}, Case{SchemaSpec("{}"), "12", Verdict::kGoesOn},
        Case{SchemaSpec(R"({"type":"boolean"})"), "true", Verdict::kComplete}}) {
    GrammarShape shape(MustCompileShape(c.spec), {});
    EXPECT_EQ(Said(shape, c.text), c.verdict) << c.text;
  }
}

TEST(GrammarShape, GoesOnFromWhatIsThere) {
  const auto compiled = MustCompileShape(SchemaSpec(R"({"type":"array","items":{"enum":[1,2]},"maxItems":2})"));
  ShapeStart start;
  ASSERT_EQ(compiled->Behind("[1,", start.behind.emplace()), grammar::Grammar::Verdict::kAllowed);
  GrammarShape shape(compiled, start);
  auto allowed = Allowed(shape);
  EXPECT_TRUE(std::ranges::find(allowed, int32_t{'2'}) != allowed.end());
  EXPECT_TRUE(std::ranges::find(allowed, int32_t{']'}) == allowed.end());
  EXPECT_EQ(Said(shape, "2"), Verdict::kGoesOn);
  allowed = Allowed(shape);
  EXPECT_TRUE(std::ranges::find(allowed, int32_t{']'}) != allowed.end());
  EXPECT_EQ(Said(shape, "]"), Verdict::kComplete);
  GrammarShape again(compiled, start);
  EXPECT_EQ(Said(again, "1]"), Verdict::kComplete);
  EXPECT_EQ(compiled->Behind("[3", start.behind.emplace()), grammar::Grammar::Verdict::kForbidden);
}

TEST(GrammarShape, WhatIsForbiddenAndStillComesIsLost) {
  GrammarShape shape(MustCompileShape(RegexSpec("ab")), {});
  EXPECT_EQ(shape.Push('a'), Verdict::kGoesOn);
  EXPECT_EQ(shape.Push('c'), Verdict::kLost);
}

TEST(GrammarShape, EndsAndSpecialTokensAreNotItsBusiness) {
  GrammarShape shape(MustCompileShape(RegexSpec("ab")), {});
  EXPECT_EQ(shape.Push(ByteTokenizer::kEos), Verdict::kGoesOn);
  EXPECT_EQ(shape.Push(ByteTokenizer::kBos), Verdict::kGoesOn);
  EXPECT_EQ(Allowed(shape), ByteIds("a"));
}

bool May(AnswerShape& shape, int32_t token) {
  const std::vector<int32_t> allowed = Allowed(shape);
  return std::ranges::find(allowed, token) != allowed.end();
}

TEST(GrammarShape, ThinkingIsFreeAndTheAnswerBeginsBehindIt) {
  const auto compiled = MustCompileShape(RegexSpec("ab"));
  GrammarShape shape(compiled, {.thinks = true, .thinking_closes = "</t>"});
  EXPECT_EQ(Allowed(shape).size(), 257u) << "all but the end";
  EXPECT_FALSE(May(shape, ByteTokenizer::kEos));
  EXPECT_EQ(Said(shape, "Let me see. <</t"), Verdict::kGoesOn);
  EXPECT_EQ(Allowed(shape).size(), 257u);
  EXPECT_EQ(Said(shape, ">"), Verdict::kGoesOn);
  EXPECT_EQ(Allowed(shape), ByteIds("\na"));
  EXPECT_EQ(Said(shape, "\n"), Verdict::kGoesOn);
  EXPECT_EQ(Allowed(shape), ByteIds("a")) << "one line may end";
  EXPECT_EQ(Said(shape, "ab"), Verdict::kComplete);
}

TEST(GrammarShape, WhetherItThinksMayBeTheModelsToSay) {
  const auto compiled = MustCompileShape(RegexSpec("ab"));
  const ShapeStart start = {.thinks_behind = '<', .thinking_closes = ">"};
  GrammarShape thinks(compiled, start);
  EXPECT_EQ(Allowed(thinks), ByteIds("<a"));
  EXPECT_EQ(Said(thinks, "<hm>ab"), Verdict::kComplete);
  GrammarShape answers(compiled, start);
  EXPECT_EQ(Said(answers, "a"), Verdict::kGoesOn);
  EXPECT_EQ(Allowed(answers), ByteIds("b"));
}

// Bytes, and behind them tokens of several.
class LongerTokens : public ByteTokenizer {
 public:
  static constexpr int32_t kVocab = ByteTokenizer::kVocab + 6;
  int32_t vocab_size() const override { return kVocab; }
  std::string_view TokenBytes(int32_t id) const override {
    static constexpr std::string_view kLonger[] = {">\n", ">\na", ">a", "</t>a", "</t> ", "t>b"};
    return id < ByteTokenizer::kVocab ? ByteTokenizer::TokenBytes(id)
                                      : kLonger[static_cast<size_t>(id - ByteTokenizer::kVocab)];
  }
  bool IsSpecial(int32_t id) const override { return id < ByteTokenizer::kVocab && ByteTokenizer::IsSpecial(id); }
};

TEST(GrammarShape, NoTokenThatEndsThinkingSaysWhatNoMaskHasAllowed) {
  auto made = CompiledShape::Compile(
      RegexSpec("b"), std::make_shared<const ShapeVocabulary>(std::make_shared<LongerTokens>(), LongerTokens::kVocab,
                                                              std::vector<int32_t>{ByteTokenizer::kEos}));
  GrammarShape shape(std::get<0>(made), {.thinks = true, .thinking_closes = "</t>"});
  const auto longer = [&] {
    std::vector<uint32_t> bits((LongerTokens::kVocab + 31) / 32);
    EXPECT_TRUE(shape.Mask(bits));
    std::vector<int32_t> allowed;
    for (int32_t i = 0; i < 6; ++i) {
      if (HasBit(bits, ByteTokenizer::kVocab + i)) allowed.push_back(i);
    }
    return allowed;
  };
  EXPECT_EQ(longer(), (std::vector<int32_t>{0, 1, 2, 4, 5}));
  Said(shape, "so <</");
  EXPECT_EQ(longer(), (std::vector<int32_t>{0, 1, 2, 4}));
  Said(shape, "t");
  EXPECT_EQ(longer(), (std::vector<int32_t>{0, 4, 5}));
}

// Whatever is drawn, all answers end whole with as many tokens as there may be.
TEST(GrammarShape, AnswersEndInTime) {
  const auto compiled = MustCompileShape(SchemaSpec(
      R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"boolean"}}},)"
      R"("required":["a"],"additionalProperties":false})"));
  std::mt19937 random(6);
  for (const bool thinks : {false, true}) {
    for (int32_t most = 8; most < 60; ++most) {  // {"a":""}
      const int32_t tokens_max = most + (thinks ? 4 : 0);
      GrammarShape shape(compiled, {.thinks = thinks, .thinking_closes = "</t>", .tokens_max = tokens_max});
      std::string text;
      bool over = false;
      for (int32_t i = 0; i < tokens_max && !over; ++i) {
        const std::vector<int32_t> allowed = Allowed(shape);
        ASSERT_FALSE(allowed.empty()) << text;
        const int32_t token = allowed[random() % allowed.size()];
        over = token == ByteTokenizer::kEos;
        if (over) break;
        if (token < 256) text.push_back(static_cast<char>(token));
        const Verdict verdict = shape.Push(token);
        ASSERT_NE(verdict, Verdict::kLost) << text;
        over = verdict == Verdict::kComplete;
      }
      const size_t begin = thinks ? text.find("</t>") + 4 : 0;
      const auto value = nlohmann::json::parse(text.substr(begin), nullptr, /*allow_exceptions=*/false);
      EXPECT_TRUE(over && value.is_object()) << text << " of " << tokens_max;
    }
  }
}

// Sequences of one shape side by side, each drawn from its masks, some of which nobody asked for.
TEST(GrammarShape, WhatIsDrawnFromMasksIsAnAnswer) {
  const auto compiled = MustCompileShape(SchemaSpec(
      R"({"type":"object","properties":{"id":{"type":"integer","minimum":1,"maximum":99},)"
      R"("tags":{"type":"array","items":{"enum":["a","bc"]},"maxItems":3}},"required":["id"],"additionalProperties":false})"));
  std::mt19937 random(5);
  struct Row {
    std::unique_ptr<GrammarShape> shape;
    std::string text;
    bool over = false;
  };
  std::vector<Row> rows;
  for (int i = 0; i < 20; ++i) rows.push_back({std::make_unique<GrammarShape>(compiled, ShapeStart()), "", false});
  for (int step = 0; step < 400; ++step) {
    for (Row& row : rows) {
      if (row.over) continue;
      const std::vector<int32_t> allowed = Allowed(*row.shape);
      ASSERT_FALSE(allowed.empty()) << row.text;
      const int32_t token = allowed[random() % allowed.size()];
      row.over = token == ByteTokenizer::kEos;
      if (row.over) continue;
      row.text.push_back(static_cast<char>(token));
      const Verdict verdict = row.shape->Push(token);
      ASSERT_NE(verdict, Verdict::kLost) << row.text;
      row.over = verdict == Verdict::kComplete;
    }
  }
  for (const Row& row : rows) {
    ASSERT_TRUE(row.over) << row.text;
    const auto value = nlohmann::json::parse(row.text, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(value.is_object()) << row.text;
    EXPECT_TRUE(value["id"].is_number_integer() && value["id"] >= 1 && value["id"] <= 99) << row.text;
  }
}

std::shared_ptr<CompiledShape> CallsOf(const std::string& more = "") {
  ConstraintSpec spec =
      SchemaSpec(R"({"format":"hermes","choice":"auto","loose":true,"tools":[{"name":"f"}])" + more + "}");
  spec.kind = ConstraintKind::kToolCalls;
  return MustCompileShape(spec);
}

// What is said of each byte: whether what follows it is masked.
std::string MaskedBehind(AnswerShape& shape, std::string_view text) {
  std::string masked;
  for (const int32_t token : ByteIds(text)) {
    EXPECT_TRUE(!shape.is_masked() || May(shape, token)) << text << " behind " << masked.size();
    EXPECT_NE(shape.Push(token), Verdict::kLost);
    masked += shape.is_masked() ? 'm' : '.';
  }
  return masked;
}

TEST(GrammarShape, CallsAloneAreHeldFromBehindTheirMark) {
  const auto compiled = CallsOf();
  GrammarShape shape(compiled, {.calls_only = true});
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"a": "<tool_call>"}}</tool_call>)";
  const std::string of_call = std::string(10, '.') + std::string(call.size() - 11, 'm') + ".";
  EXPECT_FALSE(shape.is_masked());
  for (const std::string text : {"", "A </tool_call> <tool", "\xff\xc0"}) {
    EXPECT_EQ(MaskedBehind(shape, text + call), std::string(text.size(), '.') + of_call) << text;
  }
  EXPECT_EQ(shape.Push(ByteTokenizer::kEos), Verdict::kGoesOn);
  EXPECT_EQ(MaskedBehind(shape, "<tool_call>"), "..........m");
  EXPECT_TRUE(May(shape, '{'));
  for (const int32_t token : {int32_t{'x'}, int32_t{ByteTokenizer::kEos}}) EXPECT_FALSE(May(shape, token)) << token;
}

// In each format: what is masked of text, a call and a call that is only begun.
TEST(GrammarShape, CallsWhoseMarkMayBeProseAreHeldFromTheirArguments) {
  struct Case {
    const char* format;
    std::string named, opens, rest, prose;
  };
  for (const Case& c :
       {Case{"hermes", R"(<tool_call>{"name": "f", "arguments": )", "{", R"("a": "<tool_call>"}}</tool_call>)",
             R"(<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call> or <tool_call>{"name": "other", "arguments": {}}</tool_call>, <tool_call> and <tool_call>{} )"},
        Case{"qwen3_coder", "<tool_call>\n<function=f>\n",
             "<parameter=", "a>\n1\n</parameter>\n</function>\n</tool_call>",
             "<tool_call>\n<function=NAME>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call> "},
        Case{"glm45", "<tool_call>f\n", "<arg_key>", "a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
             "<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key> <tool_call>NAME\n<arg_key>a</arg_key> "},
        Case{"mistral", R"([TOOL_CALLS] [{"name": "f", "arguments": )", "{", R"("a": 1}}])",
             "[TOOL_CALLS] [{\"name\": x"}}) {
    ConstraintSpec spec = SchemaSpec(std::string(R"({"format":")") + c.format +
                                     R"(","choice":"auto","loose":true,"tools":[{"name":"f"}]})");
    spec.kind = ConstraintKind::kToolCalls;
    GrammarShape shape(MustCompileShape(spec), {.calls_only = true, .from_arguments = true});
    const std::string call = c.named + c.opens + c.rest;
    const std::string masked = MaskedBehind(shape, c.prose + call);
    EXPECT_EQ(masked.substr(0, c.prose.size()), std::string(c.prose.size(), '.')) << masked;
    // Behind what only arguments begin with, up to the byte that ends the call.
    const size_t begin = c.prose.size() + c.named.size() + c.opens.size() - 1;
    EXPECT_EQ(masked.find('m'), begin) << c.format;
    EXPECT_EQ(masked.substr(begin), std::string(masked.size() - begin - 1, 'm') + ".") << c.format;
  }
}

TEST(GrammarShape, AMarkMayBeginInWhatMadeAnotherOneText) {
  GrammarShape shape(CallsOf(), {.calls_only = true, .from_arguments = true});
  const std::string text = "<tool_call>", call = R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)";
  EXPECT_EQ(MaskedBehind(shape, text + call).find('m'), text.size() + call.find("{\"a\""));
}

TEST(GrammarShape, TextBehindTheLastCallIsFree) {
  GrammarShape shape(CallsOf(R"(,"parallel":false)"), {.calls_only = true});
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  EXPECT_EQ(MaskedBehind(shape, call), std::string(10, '.') + std::string(call.size() - 11, 'm') + ".");
  EXPECT_EQ(MaskedBehind(shape, "so " + call), std::string(call.size() + 3, '.'));
}

TEST(GrammarShape, WhatIsNotTextMakesHalfAMarkText) {
  GrammarShape shape(CallsOf(), {.calls_only = true});
  EXPECT_EQ(MaskedBehind(shape, "<tool\xff_call>x"), std::string(13, '.'));
  Said(shape, "<tool");
  EXPECT_EQ(shape.Push(ByteTokenizer::kEos), Verdict::kGoesOn);
  EXPECT_EQ(MaskedBehind(shape, "_call>x"), std::string(7, '.'));
  EXPECT_EQ(MaskedBehind(shape, "<tool_call>"), "..........m");
}

TEST(GrammarShape, ThinkingMayBeginBehindWhiteSpace) {
  for (const auto& [begin, masked] : {std::pair("T", '.'), std::pair("\n T", '.'), std::pair("x\nT", 'm')}) {
    GrammarShape shape(CallsOf(), {.thinks_behind = 'T', .thinking_closes = "</t>", .calls_only = true});
    Said(shape, begin);
    EXPECT_EQ(MaskedBehind(shape, "<tool_call>"), std::string(10, '.') + masked) << begin;
  }
}

TEST(GrammarShape, CallsForWhichThereIsNoMemoryAreNotHeld) {
  const std::vector<int32_t> ids = ByteIds(R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call> so)");
  std::vector<uint32_t> bits((ByteTokenizer::kVocab + 31) / 32);
  int failures = 0;
  // Each of the first places, then some of those that mostly are the same again.
  for (int calls = 0;; calls += 1 + calls / 64) {
    GrammarShape shape(CallsOf(), {.calls_only = true});
    FailNewAfter(calls);
    {
      const MemoryRunsOut runs_out;
      for (const int32_t token : ids) {
        ASSERT_TRUE(!shape.is_masked() || (shape.Mask(bits) && HasBit(bits, token))) << calls;
        ASSERT_EQ(shape.Push(token), Verdict::kGoesOn) << calls;
      }
    }
    if (!NewFailed()) break;
    ++failures;
  }
  EXPECT_GT(failures, 50);
}

TEST(GrammarShape, AMarkInThinkingIsNoCall) {
  GrammarShape shape(CallsOf(), {.thinks = true, .thinking_closes = "</t>", .calls_only = true});
  EXPECT_EQ(MaskedBehind(shape, "<tool_call>x</t>"), std::string(16, '.'));
  EXPECT_EQ(MaskedBehind(shape, "\n<tool_call>"), "...........m");
}

// Bytes but for one letter.
class SilentToken : public ByteTokenizer {
 public:
  std::string_view TokenBytes(int32_t id) const override {
    return id == 'n' ? std::string_view() : ByteTokenizer::TokenBytes(id);
  }
};

TEST(GrammarShape, CallsThatNoTokenSpellsAreNotHeld) {
  ConstraintSpec spec = SchemaSpec(R"({"format":"hermes","choice":"auto","loose":true,"tools":[{"name":"f"}]})");
  spec.kind = ConstraintKind::kToolCalls;
  auto made = CompiledShape::Compile(
      spec, std::make_shared<const ShapeVocabulary>(std::make_shared<SilentToken>(), ByteTokenizer::kVocab,
                                                    std::vector<int32_t>{ByteTokenizer::kEos}));
  GrammarShape shape(std::get<0>(made), {.calls_only = true});
  EXPECT_EQ(MaskedBehind(shape, R"(<tool_call>{")"), "..........mmm");
  EXPECT_TRUE(May(shape, 'x'));
  EXPECT_FALSE(shape.is_masked());
}

// Bytes, and one token that ends a mark and goes on as no call does.
class CrossingToken : public ByteTokenizer {
 public:
  int32_t vocab_size() const override { return kVocab + 1; }
  std::string_view TokenBytes(int32_t id) const override {
    return id < kVocab ? ByteTokenizer::TokenBytes(id) : std::string_view(">.");
  }
  bool IsSpecial(int32_t id) const override { return id < kVocab && ByteTokenizer::IsSpecial(id); }
};

TEST(GrammarShape, ATokenBeyondTheMarkMayMakeItText) {
  ConstraintSpec spec = SchemaSpec(R"({"format":"hermes","choice":"auto","loose":true,"tools":[{"name":"f"}]})");
  spec.kind = ConstraintKind::kToolCalls;
  auto made = CompiledShape::Compile(
      spec, std::make_shared<const ShapeVocabulary>(std::make_shared<CrossingToken>(), CrossingToken::kVocab + 1,
                                                    std::vector<int32_t>{ByteTokenizer::kEos}));
  GrammarShape shape(std::get<0>(made), {.calls_only = true});
  Said(shape, "<tool_call");
  EXPECT_EQ(shape.Push(CrossingToken::kVocab), Verdict::kGoesOn);
  EXPECT_FALSE(shape.is_masked());
  Said(shape, " <tool_call>");
  EXPECT_TRUE(shape.is_masked());
}

}  // namespace
}  // namespace hydrant
