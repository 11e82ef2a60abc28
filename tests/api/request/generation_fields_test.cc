#include "api/request/generation_fields.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrant {
namespace {

TEST(TruncatePromptTest, KeepsSpecialsAndTheEnd) {
  struct Case {
    int32_t k;
    int32_t specials;
    std::vector<int32_t> expected;
  };
  const Case cases[] = {
      {5, 0, {1, 2, 3, 4, 5}},
      {6, 1, {1, 2, 3, 4, 5}},
      {3, 0, {3, 4, 5}},
      {3, 1, {1, 4, 5}},
      {1, 0, {5}},
      {1, 1, {1}},
      {1, 2, {1}},
  };
  for (const Case& c : cases) {
    std::vector<int32_t> ids = {1, 2, 3, 4, 5};
    TruncatePrompt(&ids, c.k, c.specials);
    EXPECT_EQ(ids, c.expected) << "k " << c.k << ", specials " << c.specials;
  }
}

TEST(CheckRollingLengthTest, WhatIsHeldAtOnceFitsTheContext) {
  EXPECT_EQ(CheckRollingLength(2048, 2048, 2048), std::nullopt);
  EXPECT_EQ(CheckRollingLength(100'000, 1281, 2048), std::nullopt);
  EXPECT_EQ(CheckRollingLength(100, 2049, 2048)->code, "context_length_exceeded");
  EXPECT_EQ(CheckRollingLength(0, 1, 2048)->code, "empty_prompt");
}

TEST(CheckPromptLengthTest, PromptAndOutputFitTheContext) {
  EXPECT_EQ(CheckPromptLength(2047, 1, 2048), std::nullopt);
  EXPECT_EQ(CheckPromptLength(2048, 0, 2048), std::nullopt);
  EXPECT_EQ(CheckPromptLength(1, 2047, 2048), std::nullopt);
  EXPECT_EQ(CheckPromptLength(2048, 1, 2048)->code, "context_length_exceeded");
  EXPECT_EQ(CheckPromptLength(1, 2147483647, 2048)->code, "context_length_exceeded");
  EXPECT_EQ(CheckPromptLength(0, 1, 2048)->code, "empty_prompt");
}

}  // namespace
}  // namespace hydrant
