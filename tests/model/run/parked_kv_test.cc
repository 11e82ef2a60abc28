#include "model/run/parked_kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <random>

#include "tests/support/sanitizers.h"

namespace hydrant {
namespace {

void PutBytes(ParkedKv& parked, const TurnId& turn, size_t bytes, int value) {
  parked.Put(turn, bytes, 1, 1);
  const std::span<std::byte> memory = parked.Write(turn);
  ASSERT_EQ(memory.size(), bytes);
  std::fill(memory.begin(), memory.end(), static_cast<std::byte>(value));
}

bool Holds(const ParkedKv& parked, const TurnId& turn, size_t bytes, int value) {
  const std::span<const std::byte> held = parked.Read(turn);
  const auto is_value = [value](std::byte byte) { return byte == static_cast<std::byte>(value); };
  return held.size() == bytes && std::all_of(held.begin(), held.end(), is_value);
}

TEST(ParkedKv, ATurnHasTheBytesOfItsLastPut) {
  ParkedKv parked;
  PutBytes(parked, {7, 1}, 100, 1);
  PutBytes(parked, {8, 1}, 50, 2);
  EXPECT_TRUE(Holds(parked, {7, 1}, 100, 1));
  EXPECT_TRUE(Holds(parked, {8, 1}, 50, 2));
  for (const size_t bytes : {100u, 160u, 30u}) {
    PutBytes(parked, {7, 1}, bytes, 3);
    EXPECT_TRUE(Holds(parked, {7, 1}, bytes, 3));
    EXPECT_TRUE(Holds(parked, {8, 1}, 50, 2)) << "another session's";
    EXPECT_EQ(parked.bytes(), bytes + 50) << "and no more";
  }
  EXPECT_EQ(parked.size(), 2);
}

TEST(ParkedKv, TurnsOfASessionLieBesideEachOther) {
  ParkedKv parked;
  PutBytes(parked, {1, 1}, 64, 1);
  PutBytes(parked, {1, 2}, 96, 2);
  EXPECT_TRUE(Holds(parked, {1, 1}, 64, 1));
  EXPECT_TRUE(Holds(parked, {1, 2}, 96, 2));
  EXPECT_EQ(parked.bytes(), 160u) << "both count";
  parked.Drop({1, 1});
  EXPECT_FALSE(parked.has({1, 1}));
  EXPECT_TRUE(Holds(parked, {1, 2}, 96, 2));
  EXPECT_EQ(parked.bytes(), 96u);
}

TEST(ParkedKv, WhatIsDroppedIsGone) {
  ParkedKv parked;
  PutBytes(parked, {1, 1}, 64, 1);
  PutBytes(parked, {2, 1}, 32, 2);
  parked.Drop({1, 1});
  parked.Drop({3, 1});
  EXPECT_FALSE(parked.has({1, 1}));
  EXPECT_TRUE(Holds(parked, {2, 1}, 32, 2));
  EXPECT_EQ(parked.bytes(), 32u);
  EXPECT_EQ(parked.size(), 1);
}

TEST(ParkedKv, WithoutMemoryTheTurnHasNothing) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends the program where memory runs out";
  ParkedKv parked;
  PutBytes(parked, {1, 1}, 64, 1);
  PutBytes(parked, {2, 1}, 32, 2);
  const size_t too_much = static_cast<size_t>(std::numeric_limits<int64_t>::max()) / 2;
  EXPECT_THROW(parked.Put({1, 1}, too_much, 1, 1), std::bad_alloc);
  EXPECT_FALSE(parked.has({1, 1}));
  EXPECT_EQ(parked.bytes(), 32u);
  PutBytes(parked, {1, 1}, 16, 3);
  EXPECT_TRUE(Holds(parked, {1, 1}, 16, 3));
}

TEST(ParkedKv, WhatIsWholeIsSharedAndStaysWithWhoeverHasIt) {
  ParkedKv parked;
  PutBytes(parked, {1, 1}, 64, 7);
  EXPECT_TRUE(parked.Share({1, 1}).empty()) << "a slice of it may be missing";
  parked.SetWhole({1, 1});
  const KvBytes kv = parked.Share({1, 1});
  ASSERT_EQ(kv.size, 64u);
  parked.Drop({1, 1});
  PutBytes(parked, {1, 1}, 64, 8);
  EXPECT_EQ(kv.bytes[63], std::byte{7}) << "whatever becomes of the turn";
  parked.Adopt({2, 1}, kv);
  EXPECT_TRUE(Holds(parked, {2, 1}, 64, 7));
  EXPECT_FALSE(parked.Share({2, 1}).empty());
  EXPECT_EQ(parked.bytes(), 128u);
  EXPECT_TRUE(parked.Share({3, 1}).empty());
}

// A session that goes on turn by turn, as the executor parks it: the next turn's first, then the one before is dropped.
TEST(ParkedKv, ATurnGetsTheMemoryOfTheOneBeforeTheLast) {
  constexpr size_t kLeast = KvMemory::kSpareLeast;
  ParkedKv parked;
  for (uint64_t turn = 1; turn < 6; ++turn) {
    const size_t bytes = kLeast + turn * 10000;
    parked.Put({1, turn}, bytes, 1, 1);
    std::byte* const memory = parked.Write({1, turn}).data();
    if (turn > 2) {
      EXPECT_EQ(memory[kLeast / 2], static_cast<std::byte>(turn - 2)) << "its pages are there";
    }
    memory[kLeast / 2] = static_cast<std::byte>(turn);
    parked.SetWhole({1, turn});
    if (turn % 2 == 0) {
      EXPECT_FALSE(parked.Share({1, turn}).empty()) << "whoever has it gives it back";
    }
    parked.Drop({1, turn - 1});
    EXPECT_EQ(parked.bytes(), bytes + 1000 * (turn - 1));
    // Another session's: what is kept makes room for it.
    parked.Put({2, turn}, 1000, 1, 1);
    EXPECT_EQ(parked.spare_bytes(), turn == 1 ? 0 : bytes - 10000 - 1000);
  }
  EXPECT_EQ(parked.size(), 6);
  for (const uint64_t turn : {1, 2, 3, 4, 5}) parked.Drop({2, turn});
  parked.Drop({1, 5});
  EXPECT_EQ(parked.spare_bytes(), 0u) << "nothing is parked";
}

TEST(ParkedKv, HoldsNoMoreThanWasParkedAtMost) {
  constexpr size_t kLeast = KvMemory::kSpareLeast;
  ParkedKv parked;
  KvBytes shared;
  size_t most = 0;
  std::mt19937 random(7);
  const auto below = [&random](uint32_t end) { return std::uniform_int_distribution<uint32_t>(0, end - 1)(random); };
  for (int i = 0; i < 300; ++i) {
    const TurnId turn = {below(4), below(3)};
    switch (below(4)) {
      case 0:
      case 1:
        parked.Put(turn, below(3) == 0 ? 1 + below(1 << 20) : kLeast / 2 + below(3 * kLeast), 1, 1);
        break;
      case 2:
        parked.Drop(turn);
        break;
      case 3:
        if (!parked.has(turn)) break;
        parked.SetWhole(turn);
        shared = parked.Share(turn);
        if (!parked.has({9, 0}) && below(2) == 0) parked.Adopt({9, 0}, shared);
        break;
    }
    if (below(20) == 0) parked.Drop({9, 0});
    most = std::max(most, parked.bytes());
    ASSERT_LE(parked.bytes() + parked.spare_bytes(), most) << "step " << i;
  }
}

}  // namespace
}  // namespace hydrant
