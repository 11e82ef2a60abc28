#include "model/run/parked_kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>

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

}  // namespace
}  // namespace hydrant
