#include "model/run/parked_kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>

#include "tests/support/sanitizers.h"

namespace hydrant {
namespace {

void PutBytes(ParkedKv& parked, uint64_t session, size_t bytes, int value) {
  const std::span<std::byte> memory = parked.Put(session, bytes);
  ASSERT_EQ(memory.size(), bytes);
  std::fill(memory.begin(), memory.end(), static_cast<std::byte>(value));
}

bool Holds(const ParkedKv& parked, uint64_t session, size_t bytes, int value) {
  const std::span<const std::byte> held = parked.Read(session);
  const auto is_value = [value](std::byte byte) { return byte == static_cast<std::byte>(value); };
  return held.size() == bytes && std::all_of(held.begin(), held.end(), is_value);
}

TEST(ParkedKv, ASessionHasTheBytesOfItsLastPut) {
  ParkedKv parked;
  PutBytes(parked, 7, 100, 1);
  PutBytes(parked, 8, 50, 2);
  EXPECT_TRUE(Holds(parked, 7, 100, 1));
  EXPECT_TRUE(Holds(parked, 8, 50, 2));
  for (const size_t bytes : {100u, 160u, 30u}) {
    PutBytes(parked, 7, bytes, 3);
    EXPECT_TRUE(Holds(parked, 7, bytes, 3));
    EXPECT_TRUE(Holds(parked, 8, 50, 2)) << "another session's";
    EXPECT_EQ(parked.bytes(), bytes + 50) << "and no more";
  }
  EXPECT_EQ(parked.size(), 2);
}

TEST(ParkedKv, TurnsOfOneLengthWriteOverWhatIsThere) {
  ParkedKv parked;
  PutBytes(parked, 1, 64, 1);
  const std::byte* const before = parked.Read(1).data();
  PutBytes(parked, 1, 64, 2);
  EXPECT_EQ(parked.Read(1).data(), before);
}

TEST(ParkedKv, WhatIsDroppedIsGone) {
  ParkedKv parked;
  PutBytes(parked, 1, 64, 1);
  PutBytes(parked, 2, 32, 2);
  parked.Drop(1);
  parked.Drop(3);
  EXPECT_FALSE(parked.has(1));
  EXPECT_TRUE(Holds(parked, 2, 32, 2));
  EXPECT_EQ(parked.bytes(), 32u);
  EXPECT_EQ(parked.size(), 1);
}

// What was there is of a turn before, and nobody may go on from it.
TEST(ParkedKv, WithoutMemoryTheSessionHasNothing) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends the program where memory runs out";
  ParkedKv parked;
  PutBytes(parked, 1, 64, 1);
  PutBytes(parked, 2, 32, 2);
  const size_t too_much = static_cast<size_t>(std::numeric_limits<int64_t>::max()) / 2;
  EXPECT_THROW(parked.Put(1, too_much), std::bad_alloc);
  EXPECT_FALSE(parked.has(1));
  EXPECT_EQ(parked.bytes(), 32u);
  PutBytes(parked, 1, 16, 3);
  EXPECT_TRUE(Holds(parked, 1, 16, 3));
}

}  // namespace
}  // namespace hydrant
