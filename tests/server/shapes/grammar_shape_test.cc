#include "server/shapes/grammar_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "nlohmann/json.hpp"
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
    GrammarShape shape(MustCompileShape(c.spec), "");
    EXPECT_EQ(Said(shape, c.text), c.verdict) << c.text;
  }
}

TEST(GrammarShape, GoesOnFromWhatIsThere) {
  const auto compiled = MustCompileShape(SchemaSpec(R"({"type":"array","items":{"enum":[1,2]},"maxItems":2})"));
  GrammarShape shape(compiled, "[1,");
  auto allowed = Allowed(shape);
  EXPECT_TRUE(std::ranges::find(allowed, int32_t{'2'}) != allowed.end());
  EXPECT_TRUE(std::ranges::find(allowed, int32_t{']'}) == allowed.end());
  EXPECT_EQ(Said(shape, "2"), Verdict::kGoesOn);
  allowed = Allowed(shape);
  EXPECT_TRUE(std::ranges::find(allowed, int32_t{']'}) != allowed.end());
  EXPECT_EQ(Said(shape, "]"), Verdict::kComplete);
  GrammarShape other(compiled, "[3");
  EXPECT_EQ(other.Push(','), Verdict::kLost);
}

TEST(GrammarShape, WhatIsForbiddenAndStillComesIsLost) {
  GrammarShape shape(MustCompileShape(RegexSpec("ab")), "");
  EXPECT_EQ(shape.Push('a'), Verdict::kGoesOn);
  EXPECT_EQ(shape.Push('c'), Verdict::kLost);
}

TEST(GrammarShape, EndsAndSpecialTokensAreNotItsBusiness) {
  GrammarShape shape(MustCompileShape(RegexSpec("ab")), "");
  EXPECT_EQ(shape.Push(ByteTokenizer::kEos), Verdict::kGoesOn);
  EXPECT_EQ(shape.Push(ByteTokenizer::kBos), Verdict::kGoesOn);
  EXPECT_EQ(Allowed(shape), ByteIds("a"));
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
  for (int i = 0; i < 20; ++i) rows.push_back({std::make_unique<GrammarShape>(compiled, ""), "", false});
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

}  // namespace
}  // namespace hydrant
