#include "scheduler/request/token_ids.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace hydrant {
namespace {

TEST(TokenIds, CopiesShareTheIdsAndOutliveTheFirst) {
  TokenIds copy;
  EXPECT_TRUE(copy.empty());
  EXPECT_TRUE(copy.vector().empty());
  const int32_t* ids = nullptr;
  {
    const TokenIds first{3, 1, 2};
    copy = first;
    ids = first.data();
  }
  EXPECT_EQ(copy.data(), ids);
  EXPECT_EQ(copy, (TokenIds{3, 1, 2}));
  EXPECT_EQ(copy.vector(), (std::vector<int32_t>{3, 1, 2}));
}

TEST(TokenIds, WhatWasMovedFromIsEmpty) {
  TokenIds from{3, 1, 2};
  TokenIds constructed = std::move(from);
  EXPECT_EQ(constructed.size(), 3U);
  EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move)
  TokenIds assigned{9};
  assigned = std::move(constructed);
  EXPECT_EQ(assigned, (TokenIds{3, 1, 2}));
  EXPECT_TRUE(constructed.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(constructed, TokenIds());
}

TEST(TokenIds, AnAssignmentToItselfKeepsTheIds) {
  TokenIds ids{3, 1, 2};
  TokenIds& same = ids;
  ids = same;
  EXPECT_EQ(ids, (TokenIds{3, 1, 2}));
  ids = std::move(same);
  EXPECT_EQ(ids.size(), ids.vector().size());
}

}  // namespace
}  // namespace hydrant
