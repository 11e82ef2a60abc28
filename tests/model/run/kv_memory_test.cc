#include "model/run/kv_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/sanitizers.h"

namespace hydrant {
namespace {

constexpr size_t kLargePiece = KvMemory::kSpareLeast, kPageBytes = 4096;

// A piece whose first byte is `value`; the rest of it the system never has to find.
std::shared_ptr<std::byte[]> Marked(KvMemory& memory, size_t bytes, int value) {
  std::shared_ptr<std::byte[]> piece = memory.Allocate(bytes);
  piece[0] = static_cast<std::byte>(value);
  return piece;
}

TEST(KvMemory, ALargePieceIsHandedOutAgain) {
  for (const size_t next : {kLargePiece + 8 * kPageBytes, kLargePiece + kPageBytes, kLargePiece + 16 * kPageBytes}) {
    KvMemory memory;
    memory.SetSpareMost(4 * kLargePiece);
    Marked(memory, kLargePiece + 8 * kPageBytes, 7).reset();
    EXPECT_EQ(memory.spare_bytes(), kLargePiece + 8 * kPageBytes);
    const std::shared_ptr<std::byte[]> again = memory.Allocate(next);
    EXPECT_EQ(again[0], std::byte{7}) << "pages that are there stay, and new ones would be zero";
    again[next - 1] = std::byte{1};
    EXPECT_EQ(memory.spare_bytes(), 0u);
  }
}

TEST(KvMemory, ThePieceOfTheNearestSizeIsTaken) {
  KvMemory memory;
  memory.SetSpareMost(16 * kLargePiece);
  std::shared_ptr<std::byte[]> pieces[] = {Marked(memory, 2 * kLargePiece, 2), Marked(memory, 4 * kLargePiece, 4),
                                           Marked(memory, kLargePiece, 1)};
  for (std::shared_ptr<std::byte[]>& piece : pieces) piece.reset();
  const std::shared_ptr<std::byte[]> four = memory.Allocate(4 * kLargePiece - kPageBytes);
  const std::shared_ptr<std::byte[]> one = memory.Allocate(kLargePiece + kPageBytes);
  const std::shared_ptr<std::byte[]> two = memory.Allocate(kLargePiece);
  EXPECT_EQ(four[0], std::byte{4});
  EXPECT_EQ(one[0], std::byte{1});
  EXPECT_EQ(two[0], std::byte{2});
}

TEST(KvMemory, NoMoreIsKeptThanIsAllowed) {
  KvMemory memory;
  Marked(memory, kLargePiece, 1).reset();
  EXPECT_EQ(memory.spare_bytes(), 0u) << "nothing at first";
  memory.SetSpareMost(3 * kLargePiece);
  std::vector<std::shared_ptr<std::byte[]>> pieces;
  for (int i = 0; i < 4; ++i) pieces.push_back(Marked(memory, kLargePiece, i));
  pieces.clear();
  EXPECT_EQ(memory.spare_bytes(), 3 * kLargePiece);
  memory.SetSpareMost(2 * kLargePiece - 1);
  EXPECT_EQ(memory.spare_bytes(), kLargePiece);
  memory.SetSpareMost(0);
  EXPECT_EQ(memory.spare_bytes(), 0u);
  memory.SetSpareMost(2 * kLargePiece);
  Marked(memory, 3 * kLargePiece, 8).reset();
  EXPECT_EQ(memory.spare_bytes(), 2 * kLargePiece) << "of a longer one its beginning";
  memory.SetSpareMost(kLargePiece + 1);
  EXPECT_EQ(memory.spare_bytes(), kLargePiece + 1);
  EXPECT_EQ(memory.Allocate(3 * kLargePiece)[0], std::byte{8});
  EXPECT_EQ(memory.spare_bytes(), kLargePiece + 1) << "again its beginning";
  memory.SetSpareMost(0);
  memory.SetSpareMost(100 * kLargePiece);
  for (size_t i = 0; i < KvMemory::kSparesMax + 2; ++i) pieces.push_back(Marked(memory, kLargePiece, 0));
  pieces.clear();
  EXPECT_EQ(memory.spare_bytes(), KvMemory::kSparesMax * kLargePiece);
}

TEST(KvMemory, SmallPiecesAreFreedAtOnce) {
  KvMemory memory;
  memory.SetSpareMost(4 * kLargePiece);
  Marked(memory, kLargePiece - 1, 1).reset();
  Marked(memory, 1, 1).reset();
  EXPECT_EQ(memory.spare_bytes(), 0u);
  EXPECT_NE(memory.Allocate(0), nullptr);
  Marked(memory, kLargePiece, 5).reset();
  memory.Allocate(100);
  EXPECT_EQ(memory.spare_bytes(), kLargePiece) << "no large piece is made small";
}

TEST(KvMemory, APieceMayBeInUseForLonger) {
  std::optional<KvMemory> memory(std::in_place);
  memory->SetSpareMost(4 * kLargePiece);
  std::shared_ptr<std::byte[]> piece = Marked(*memory, kLargePiece, 9);
  memory.reset();
  EXPECT_EQ(piece[0], std::byte{9});
  piece.reset();  // a leak would be found by the sanitizer
}

TEST(KvMemory, PiecesComeBackOnAnyThread) {
  KvMemory memory;
  for (size_t round = 0; round < 20; ++round) {
    memory.SetSpareMost(round % 3 * kLargePiece);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([piece = Marked(memory, kLargePiece + round * kPageBytes, i)]() mutable {
        piece[kPageBytes] = std::byte{1};
        piece.reset();
      });
    }
    Marked(memory, kLargePiece, 3)[kPageBytes] = std::byte{2};
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(memory.spare_bytes(), round % 3 * kLargePiece);
  }
}

TEST(KvMemory, WithoutMemoryItThrows) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends the program where memory runs out";
  KvMemory memory;
  memory.SetSpareMost(4 * kLargePiece);
  const size_t too_much = static_cast<size_t>(std::numeric_limits<int64_t>::max()) / 2;
  EXPECT_THROW(memory.Allocate(too_much), std::bad_alloc);
  Marked(memory, kLargePiece, 1).reset();
  EXPECT_THROW(memory.Allocate(too_much), std::bad_alloc);
  EXPECT_EQ(memory.spare_bytes(), 0u) << "what did not become long enough is gone";
}

}  // namespace
}  // namespace hydrant
