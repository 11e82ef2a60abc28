#include "kernels/parallel/shared_memory_collective.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "kernels/parallel/row_split.h"

namespace hydrant {
namespace {

constexpr size_t kRows = 3, kCols = 10;

// What lies in column `col` of a row in a round.
uint8_t Value(size_t round, size_t row, size_t col) { return static_cast<uint8_t>(round * 31 + row * kCols + col); }

Columns ColumnsOfRank(int rank, int ranks) {
  const Share share = ShareOf(kCols, rank, ranks);
  return {kRows, kCols, static_cast<size_t>(share.begin), static_cast<size_t>(share.end)};
}

void WritePart(Collective& collective, int rank, const Columns& columns, size_t round) {
  auto* part = static_cast<uint8_t*>(collective.Part(rank, columns));
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t col = columns.begin; col < columns.end; ++col) *part++ = Value(round, row, col);
  }
}

// Round after round without a pause: a part is written while the one before it may still be read.
TEST(SharedMemoryCollective, PutsTheColumnsOfAllRanksSideBySide) {
  for (const int ranks : {1, 2, 3, 4}) {
    SharedMemoryCollective collective(ranks);
    collective.Reserve(kRows * kCols);
    ThreadPool pool(ranks);
    std::atomic<int> wrong{0};
    collective.Begin();
    pool.Run([&](int rank) {
      const Columns columns = ColumnsOfRank(rank, ranks);
      std::vector<uint8_t> whole(kRows * kCols);
      for (size_t round = 0; round < 300; ++round) {
        WritePart(collective, rank, columns, round);
        collective.AllGather(rank, columns, whole.data());
        for (size_t i = 0; i < whole.size(); ++i) wrong += whole[i] != Value(round, i / kCols, i % kCols) ? 1 : 0;
      }
    });
    EXPECT_EQ(wrong, 0) << ranks;
  }
}

TEST(SharedMemoryCollective, TakesARanksColumnsOutOfAMatrix) {
  SharedMemoryCollective collective(3);
  collective.Reserve(kRows * kCols);
  std::vector<uint8_t> whole;
  for (size_t i = 0; i < kRows * kCols; ++i) whole.push_back(Value(7, i / kCols, i % kCols));
  const Columns columns = ColumnsOfRank(1, 3);
  collective.TakePart(1, columns, whole.data());
  const auto* part = static_cast<const uint8_t*>(collective.Part(1, columns));
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t col = columns.begin; col < columns.end; ++col) EXPECT_EQ(*part++, Value(7, row, col));
  }
}

TEST(SharedMemoryCollectiveDeathTest, APartThatIsTooSmallIsNotGivenOut) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  SharedMemoryCollective collective(2);
  collective.Reserve(kRows * 5);
  EXPECT_NE(collective.Part(1, {kRows, kCols, 5, 10}), nullptr);
  EXPECT_DEATH(collective.Part(1, {kRows, kCols, 4, 10}), "");
}

// Whoever waits is woken, whoever comes later does not wait, and the next op is as the first.
TEST(SharedMemoryCollective, NobodyWaitsForARankThatHasFailed) {
  SharedMemoryCollective collective(4);
  collective.Reserve(kRows * kCols);
  ThreadPool pool(4);
  for (size_t round = 0; round < 50; ++round) {
    for (const bool fails : {true, false}) {
      std::atomic<int> lost{0};
      collective.Begin();
      pool.Run([&](int rank) {
        std::vector<uint8_t> whole(kRows * kCols);
        try {
          for (size_t step = 0; step < 5; ++step) {
            if (fails && rank == 2 && step == round % 5) {
              collective.Fail();
              return;
            }
            WritePart(collective, rank, ColumnsOfRank(rank, 4), step);
            collective.AllGather(rank, ColumnsOfRank(rank, 4), whole.data());
          }
        } catch (const RankLost&) {
          ++lost;
        }
      });
      EXPECT_EQ(lost, fails ? 3 : 0);
    }
  }
}

}  // namespace
}  // namespace hydrant
