#include "server/shapes/compiled_shape.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cctype>
#include <string>

#include "tests/server/shapes/shape_checks.h"
#include "tests/support/sanitizers.h"

namespace hydrant {
namespace {

using Known = grammar::Grammar::Verdict;

TEST(CompiledShape, EveryKindIsCompiled) {
  ConstraintSpec choice;
  choice.kind = ConstraintKind::kChoice;
  choice.choices = {"yes", "no"};
  struct Case {
    ConstraintSpec spec;
    const char* begins;
  };
  for (const Case& c : {Case{SchemaSpec(R"({"enum":["a",null]})"), "\"n"}, Case{RegexSpec("[ab]c"), "ab"},
                        Case{choice, "ny"}, Case{ConstraintSpec(), "{"}}) {
    const auto shape = MustCompileShape(c.spec);
    std::vector<uint32_t> bits(shape->vocabulary().words());
    grammar::GrammarState state = shape->Begin();
    ASSERT_EQ(shape->Mask(state, bits), Known::kAllowed);
    EXPECT_EQ(TokensOf(bits), ByteIds(c.begins));
  }
}

TEST(CompiledShape, EndsAreAllowedWhereTheAnswerMayEnd) {
  const auto shape = MustCompileShape(RegexSpec("ab*"));
  std::vector<uint32_t> bits(shape->vocabulary().words());
  grammar::GrammarState state = shape->Begin();
  ASSERT_EQ(shape->Mask(state, bits), Known::kAllowed);
  EXPECT_EQ(TokensOf(bits), ByteIds("a"));
  ASSERT_EQ(shape->Advance(state, "a"), Known::kAllowed);
  ASSERT_EQ(shape->Mask(state, bits), Known::kAllowed);
  EXPECT_EQ(TokensOf(bits), (std::vector<int32_t>{'b', ByteTokenizer::kEos}));
}

TEST(CompiledShape, MasksAreTakenFromAnAccountUnlessTheyAreRemembered) {
  const auto shape = MustCompileShape(RegexSpec("(a|b)*a(a|b){200}c"));
  std::vector<uint32_t> bits(shape->vocabulary().words());
  grammar::GrammarState state = shape->Begin();
  ASSERT_EQ(shape->Advance(state, "abaab"), Known::kAllowed);
  for (const auto left : {std::optional<int64_t>(), std::optional<int64_t>(500)}) {
    grammar::Fuel little{3};
    EXPECT_EQ(shape->Mask(state, bits, left, little), Known::kLimit);
    EXPECT_TRUE(little.empty());
    EXPECT_EQ(shape->Mask(state, bits, left, little), Known::kLimit);
    grammar::Fuel much;
    EXPECT_EQ(shape->Mask(state, bits, left, much), Known::kAllowed);
    const int64_t taken = grammar::Fuel::kCompile - much.left;
    EXPECT_GT(taken, 3);
    EXPECT_EQ(shape->Mask(state, bits, left, much), Known::kAllowed);
    EXPECT_EQ(grammar::Fuel::kCompile - much.left, taken) << "it is remembered";
    if (!left.has_value()) {
      EXPECT_EQ(shape->Mask(state, bits, left, little), Known::kAllowed);
    }
  }
}

int64_t PeakKilobytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Each of its bytes leads to a state that was not there before, with a transition for each of many classes of bytes.
TEST(CompiledShape, AnAnswersBeginningTakesLittleMemoryHoweverLongItIs) {
  std::string counted = "-{1000000}";
  int times = 0;
  for (char c = '0'; c <= 'z'; ++c) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      counted += "|" + std::string(1, c) + "{" + std::to_string(++times) + "}";
  }
  const auto shape = MustCompileShape(RegexSpec(counted));
  const int64_t before = PeakKilobytes();
  grammar::GrammarState behind;
  EXPECT_EQ(shape->Behind(std::string(1'000'000, '-'), behind), Known::kLimit) << "it is too much work";
  ASSERT_EQ(shape->Behind(std::string(200'000, '-'), behind), Known::kAllowed);
  EXPECT_TRUE(kSanitized || PeakKilobytes() - before < (32 << 10));
  EXPECT_LT(behind.bytes(), size_t{100} << 10);
  EXPECT_EQ(shape->Behind("-a", behind), Known::kForbidden);
  EXPECT_EQ(shape->followed().Advance(behind, "-"), Known::kAllowed) << "what is forbidden leaves it where it was";
}

TEST(CompiledShape, OptionsCountAndWhatItTakesInMemoryIsKnown) {
  ConstraintSpec dense = SchemaSpec(R"({"type":"array"})");
  dense.white_space_max = 0;
  const auto shape = MustCompileShape(dense);
  grammar::GrammarState state = shape->Begin();
  EXPECT_EQ(shape->Advance(state, "[ "), Known::kForbidden);
  const size_t before = shape->bytes();
  EXPECT_GT(before, 1000u);
  std::vector<uint32_t> bits(shape->vocabulary().words());
  ASSERT_EQ(shape->Advance(state, "[1,"), Known::kAllowed);
  ASSERT_EQ(shape->Mask(state, bits), Known::kAllowed);
  EXPECT_GT(shape->bytes(), before);

  ConstraintSpec lax = SchemaSpec(R"({"type":"string","format":"no such"})");
  EXPECT_EQ(CompiledShape::Compile(lax, ByteVocabulary()).index(), 1u);
  lax.unknown_formats_pass = true;
  EXPECT_EQ(CompiledShape::Compile(lax, ByteVocabulary()).index(), 0u);
}

}  // namespace
}  // namespace hydrant
