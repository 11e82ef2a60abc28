#include "model/grammar/grammar_parts.h"

#include <gtest/gtest.h>

#include <variant>

namespace hydrant::grammar {
namespace {

TEST(GrammarParts, RefusalsPointIntoWhatTheClientSent) {
  Fuel fuel;
  GrammarParts parts{{}, {}, {}, {}, fuel};
  const auto schema = parts.Schema(R"({"items":{"type":"x"}})", "/tools/0");
  ASSERT_EQ(schema.index(), 1u);
  EXPECT_EQ(std::get<1>(schema).pointer, "/tools/0/items");
  const auto pattern = parts.Pattern("a(?=b)", "/p");
  ASSERT_EQ(pattern.index(), 1u);
  EXPECT_EQ(std::get<1>(pattern).pointer, "/p");
  EXPECT_EQ(std::get<1>(pattern).kind, RefusalKind::kInvalidRegex);
  EXPECT_EQ(std::get<1>(parts.Pattern("[^\\s\\S]", "/p")).kind, RefusalKind::kUnsatisfiable);
}

TEST(GrammarParts, SchemasKeepTheirShapesBesideEachOther) {
  Fuel fuel;
  GrammarParts parts{{}, {}, {}, {}, fuel};
  const auto first = parts.Schema(R"({"type":"array","items":{"type":"object"}})", "");
  const auto second = parts.Schema(R"({"type":"array","items":{"type":"null"}})", "");
  const auto item_of = [&](const auto& built) {
    const ValueShape& value = parts.shapes.values[static_cast<size_t>(std::get<ShapeId>(built))];
    return parts.shapes.values[static_cast<size_t>(parts.shapes.arrays[static_cast<size_t>(value.arrays.at(0))].rest)];
  };
  EXPECT_EQ(item_of(first).objects.size(), 1u);
  EXPECT_NE(item_of(second).scalars, kNothing);
  EXPECT_TRUE(item_of(second).objects.empty());
}

}  // namespace
}  // namespace hydrant::grammar
