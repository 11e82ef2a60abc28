#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

TEST(ScriptSteps, BytesSayWhoseTheyAre) {
  // Tools make the other regions; here all is text, and what may begin a trigger is not decided.
  const auto grammar =
      MustCompileKind(GrammarKind::kStructuralTag,
                      R"({"triggers":["<a>"],"structures":[{"begin":"<a>","schema":{"type":"array"},"end":"<"}]})");
  GrammarState state = grammar->Begin();
  std::vector<ByteRegion> regions;
  ASSERT_EQ(grammar->Advance(state, "x<<a>[{}]<<b", &regions), Grammar::Verdict::kAllowed);
  std::vector<int32_t> undecided;
  for (const ByteRegion& each : regions) undecided.push_back(each.undecided);
  EXPECT_EQ(undecided, (std::vector<int32_t>{0, 1, 1, 2, 0, 0, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(regions[0].region, Region::kText);
  EXPECT_EQ(regions[4].region, Region::kMarkup);
}

TEST(ScriptSteps, EachWayOfAForkCostsFuel) {
  JsonPlan plan{ShapeSet()};
  LazyDfa dfa;
  const NodeId text = plan.script.Text(dfa.arena().Literal("a"), kReturnNode);
  plan.script.root = plan.script.Fork(std::vector<NodeId>(1000, text));
  JsonMachine machine(std::make_shared<const JsonPlan>(std::move(plan)), std::move(dfa));
  Fuel enough, little{900};
  EXPECT_EQ(machine.Begin(enough).size(), 1u);
  EXPECT_GE(Fuel::kCompile - enough.left, 1000);
  machine.Begin(little);
  EXPECT_TRUE(little.empty());
}

// Whoever begins an answer has nobody to tell.
TEST(ScriptSteps, AGrammarThatBeginsWithTooMuchWorkIsRefused) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kGbnf;
  spec.text = "r ::= \"b\" r \"c\" | \"d\"\nroot ::= r";
  for (int i = 0; i < 3000; ++i) spec.text += "|r";
  Fuel enough, little{300'000};
  EXPECT_EQ(Grammar::Compile(spec, enough).index(), 0u);
  const Compiled made = Grammar::Compile(spec, little);
  ASSERT_EQ(made.index(), 1u);
  EXPECT_EQ(std::get<Refusal>(made).kind, RefusalKind::kTooComplex);
  EXPECT_EQ(std::get<Refusal>(made).text, "there are too many ways to begin");
}

// A text may be long, and what is remembered of it is read all the same.
TEST(ScriptSteps, EachByteCostsFuel) {
  const auto grammar = MustCompileKind(GrammarKind::kRegex, "a+");
  GrammarState state = grammar->Begin();
  Fuel fuel{1000};
  EXPECT_EQ(grammar->Advance(state, std::string(900, 'a'), fuel), Grammar::Verdict::kAllowed);
  EXPECT_EQ(grammar->Advance(state, std::string(900, 'a'), fuel), Grammar::Verdict::kLimit);
}

}  // namespace
}  // namespace hydrant::grammar
