#include "model/grammar/shape.h"

#include <gtest/gtest.h>

namespace hydrant::grammar {
namespace {

// Any expression but kNothing stands for scalars here.
constexpr RegexId kSome = kEmptyText;

TEST(Shape, WhatNeedsItselfHasNoValue) {
  ShapeSet shapes;
  // 0: an object that must have a 0 in it. 1: an object that may have one of either.
  shapes.values = {{kNothing, {0}, {}}, {kNothing, {1}, {}}};
  shapes.objects = {{{{"a", 0, true}}, {}}, {{{"a", 0, false}, {"b", 1, false}}, {{kSome, 0}}}};
  shapes.root = 1;
  ShapeSet other = shapes;
  shapes.Prune();
  EXPECT_EQ(shapes.root, 1);
  EXPECT_TRUE(shapes.values[0].objects.empty());
  EXPECT_EQ(shapes.objects[1].properties[0].value, kNoShape);
  EXPECT_EQ(shapes.objects[1].properties[1].value, 1);
  EXPECT_TRUE(shapes.objects[1].extras.empty());
  other.root = 0;
  other.Prune();
  EXPECT_EQ(other.root, kNoShape);
}

TEST(Shape, ArraysEndBeforeAnItemThatHasNoValue) {
  ShapeSet shapes;
  shapes.values = {{kSome, {}, {}}, {kNothing, {}, {}}, {kNothing, {}, {0, 1}}};
  shapes.arrays = {{{0, 1, 0}, 0, 1, kNoLimit}, {{0, 1}, 0, 2, kNoLimit}};
  shapes.root = 2;
  shapes.Prune();
  EXPECT_EQ(shapes.values[2].arrays, (std::vector<int32_t>{0}));
  EXPECT_EQ(shapes.arrays[0].most, 1);
  EXPECT_EQ(shapes.arrays[0].prefix.size(), 1u);
}

TEST(Shape, CountsThatCannotBeKeptHaveNoValue) {
  ShapeSet shapes;
  shapes.values = {{kSome, {}, {}}, {kNothing, {0, 1, 2}, {}}};
  const PropertyShape a = {"a", 0, false}, b = {"b", 0, true};
  shapes.objects = {{{a, b}, {}, 3, kNoLimit}, {{a, b}, {}, 0, 0}, {{a, b}, {{kSome, 0}}, 3, kNoLimit}};
  shapes.root = 1;
  shapes.Prune();
  EXPECT_EQ(shapes.values[1].objects, (std::vector<int32_t>{2}));
}

}  // namespace
}  // namespace hydrant::grammar
