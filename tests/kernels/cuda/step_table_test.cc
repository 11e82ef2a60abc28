#include "kernels/cuda/step_table.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/memory.h"

namespace hydrant::cuda {
namespace {

EvictionPolicy Scoring(int32_t heavy, int32_t recent) {
  EvictionPolicy policy;
  policy.evicts = true;
  policy.heavy = heavy;
  policy.recent = recent;
  return policy;
}

StepBounds Bounds(int32_t heads, int32_t dim, int32_t tokens) {
  return {.tokens_max = tokens, .rows_max = tokens, .slots_max = 3000, .query_heads = heads, .head_dim = dim};
}

class StepTableTest : public testing::Test {
 protected:
  StepTableTest() { CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~StepTableTest() override { static_cast<void>(cudaStreamDestroy(stream_)); }

  BatchRow Decode(int32_t live, const EvictionPolicy& policy, int32_t token) {
    tables_.emplace_back(static_cast<size_t>(live / kBlockSlots + 1), 7);
    return {{.position = live, .live = live},
            {.block_table = tables_.back()},
            /*token_begin=*/token,
            /*token_count=*/1,
            policy};
  }

  // Its arrays are there when it returns.
  void Fill(StepTable& table, const StepBatch& batch) {
    table.Fill(batch);
    CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  // Element `i` of an array that only the device may read.
  template <typename T>
  T At(const T* array, int64_t i) const {
    T element;
    CopyAndWait(&element, array + i, sizeof(T), stream_);
    return element;
  }

  cudaStream_t stream_ = nullptr;
  std::vector<std::vector<int32_t>> tables_;
};

TEST_F(StepTableTest, SplitsCoverTheSlotsOnce) {
  for (int32_t live = 1; live < 3000; ++live) {
    const int32_t splits = SplitsOf(live);
    ASSERT_GE(splits, 1);
    for (int32_t split = 0; split < splits; ++split) {
      const int32_t slots = SplitEnd(split, splits, live) - split * kSplitSlots;
      ASSERT_GT(slots, split == 0 ? 0 : kBlockSlots) << live;
      ASSERT_LE(slots, split + 1 == splits ? kLastSplitSlots : kSplitSlots) << live;
    }
    ASSERT_EQ(SplitEnd(splits - 1, splits, live), live);
  }
  EXPECT_EQ(SplitsOf(2049), 8);
}

// Places in the scratch memory are disjoint within a group and inside it; logits have one where somebody needs them.
TEST_F(StepTableTest, DecodeRowsShareTheScratchMemory) {
  constexpr int32_t kHeads = 4, kDim = 8;
  const int64_t room = StepTable::RowFloats(1024, kHeads, kDim);
  StepTable table(stream_, Bounds(kHeads, kDim, 64), room);
  std::vector<BatchRow> rows;
  const int32_t lives[] = {1000, 10, 300, 511, 1023, 5, 700};
  for (int32_t i = 0; i < 7; ++i) rows.push_back(Decode(lives[i], i % 3 == 0 ? EvictionPolicy() : Scoring(10, 10), i));
  const std::vector<int32_t> ids(7, 1);
  Fill(table, {.token_ids = ids, .rows = rows});
  ASSERT_GT(table.decode_groups().size(), 1u);
  int32_t next = 0;
  for (const DecodeGroup& group : table.decode_groups()) {
    EXPECT_EQ(group.first, next);
    next += group.count;
    int64_t end = 0;
    int32_t splits = 0;
    for (int32_t i = group.first; i < next; ++i) {
      const DecodeItem item = At(table.decode_items(), i);
      const int32_t live = lives[item.row] + 1;
      EXPECT_EQ(item.splits, SplitsOf(live));
      splits = std::max(splits, item.splits);
      EXPECT_EQ(item.partials, end);
      end += PartialFloats(live, kHeads, kDim);
      EXPECT_EQ(item.logits >= 0, rows[static_cast<size_t>(item.row)].policy.scores());
      if (item.logits < 0) continue;
      EXPECT_EQ(item.logits, end);
      end += LogitFloats(live, kHeads);
    }
    EXPECT_LE(end, room);
    EXPECT_EQ(group.splits_max, PaddedSplits(splits));
  }
  EXPECT_EQ(next, 7);
}

// Where only tokens are generated, rows of padding follow that nothing is computed for.
TEST_F(StepTableTest, StepsThatOnlyGenerateArePadded) {
  StepTable table(stream_, Bounds(2, 8, 9), StepTable::RowFloats(1024, 2, 8) * 16);
  const DeviceRow* memory = nullptr;
  for (const int32_t count : {7, 6, 5, 8, 9}) {
    std::vector<BatchRow> rows;
    for (int32_t i = 0; i < count; ++i) rows.push_back(Decode(100 * i + 1, Scoring(10, 10), i));
    const std::vector<int32_t> ids(static_cast<size_t>(count), 5);
    Fill(table, {.token_ids = ids, .rows = rows});
    const int32_t padded = count == 9 ? 9 : 8;  // never more than the largest step
    ASSERT_TRUE(table.shape().has_value());
    EXPECT_EQ(table.tokens(), padded);
    EXPECT_EQ(table.shape()->rows, padded);
    EXPECT_EQ(table.shape()->splits, PaddedSplits(SplitsOf(100 * (count - 1) + 2)));
    EXPECT_EQ(table.decode_groups().front().count, padded);
    for (int32_t i = 0; i < padded; ++i) {
      EXPECT_EQ(At(table.view().row_of_token, i), i < count ? i : -1);
      EXPECT_EQ(At(table.decode_items(), i).splits == 0, i >= count);
    }
    // Where tables are as many or fewer, the memory is the same.
    EXPECT_TRUE(memory == nullptr || count >= 8 || table.shape()->memory == memory);
    memory = table.shape()->memory;
  }
  std::vector<BatchRow> rows = {Decode(20, EvictionPolicy(), 0), Decode(30, Scoring(10, 10), 1)};
  rows[1].policy.rolling = true;
  const std::vector<int32_t> ids(2, 5);
  Fill(table, {.token_ids = ids, .rows = rows});
  EXPECT_FALSE(table.shape().has_value()) << "two kernels";
  rows[1].policy.rolling = false;
  rows[1].prefill = true;
  Fill(table, {.token_ids = ids, .rows = rows});
  EXPECT_FALSE(table.shape().has_value()) << "a prompt";
}

TEST_F(StepTableTest, PromptsAreSpansAndOnlyScoredOnesAreSummed) {
  StepTable table(stream_, Bounds(2, 8, 64), StepTable::RowFloats(64, 2, 8));
  const std::vector<int32_t> blocks = {4, 9, 2, 11}, score_blocks = {5, 6, 7, 8}, snapshot_score_blocks = {30};
  const ScoreSnapshot snapshot{16, snapshot_score_blocks};
  EvictionPolicy window = Scoring(8, 8);
  window.score_rows = 4;
  std::vector<BatchRow> rows = {
      {{.position = 20, .live = 20, .prompt_length = 60, .prefill = true},
       {.block_table = blocks, .score_table = score_blocks},
       /*token_begin=*/0,
       /*token_count=*/10,
       window,
       {&snapshot, 1}},
      {{.prompt_length = 34, .prefill = true}, {.block_table = blocks}, /*token_begin=*/10, /*token_count=*/34, window},
      {{.prompt_length = 16, .prefill = true}, {.block_table = blocks}, /*token_begin=*/44, /*token_count=*/16}};
  const std::vector<int32_t> ids(60, 1);
  Fill(table, {.token_ids = ids, .rows = rows});
  const StepView& view = table.view();
  EXPECT_GE(At(view.rows, 0).first_scored, 30) << "its last four rows come later";
  EXPECT_EQ(At(view.rows, 1).first_scored, 30);
  EXPECT_GE(At(view.rows, 2).first_scored, 16) << "nothing is scored";
  ASSERT_EQ(table.prompt_groups().size(), 1u);
  const PromptGroup& group = table.prompt_groups().front();
  EXPECT_FALSE(group.rolls);
  ASSERT_EQ(table.scored(group).count, 1);
  EXPECT_EQ(At(table.scored(group).spans, 0).row, 1);
  EXPECT_EQ(At(table.scored(group).spans, 0).first_tile, 0);
  ASSERT_EQ(table.queries(group).count, 3);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(At(table.queries(group).spans, i).row, i);
    EXPECT_EQ(At(table.queries(group).spans, i).first_tile, 0);
  }
  EXPECT_EQ(At(view.tables, At(view.rows, 0).tables + 3), 11);
  EXPECT_EQ(At(view.tables, At(view.rows, 0).score_blocks + 3), 8);
  EXPECT_EQ(At(view.rows, 1).score_blocks, At(view.rows, 1).tables);
  ASSERT_EQ(At(view.rows, 0).snapshots, 1);
  EXPECT_EQ(At(view.tables, At(view.snapshots, At(view.rows, 0).first_snapshot).score_blocks), 30);
  EXPECT_EQ(At(view.row_of_token, 9), 0);
  EXPECT_EQ(At(view.row_of_token, 10), 1);
  EXPECT_EQ(At(view.row_of_token, 59), 2);
}

// A chunk of a long prompt: queries of its own spans, the longest first; scores of every key so far.
TEST_F(StepTableTest, SpansBeginWhereTheirTilesDo) {
  StepTable table(stream_, Bounds(2, 8, 512), StepTable::RowFloats(512, 2, 8));
  const std::vector<int32_t> blocks(32, 3), ids(330, 1);
  EvictionPolicy rolling = Scoring(8, 8);
  rolling.rolling = true;
  const std::vector<BatchRow> rows = {
      {{.prompt_length = 30, .prefill = true}, {.block_table = blocks}, /*token_begin=*/0, /*token_count=*/30, rolling},
      {{.position = 176, .live = 176, .prompt_length = 476, .prefill = true},
       {.block_table = blocks},
       /*token_begin=*/30,
       /*token_count=*/300,
       Scoring(8, 8)}};
  Fill(table, {.token_ids = ids, .rows = rows});
  ASSERT_EQ(table.prompt_groups().size(), 2u);
  const auto first_tiles = [this](const PromptSpans& spans, int32_t row) {
    std::vector<int32_t> tiles;
    for (int32_t i = 0; i < spans.count; ++i) {
      const PromptSpan span = At(spans.spans, i);
      EXPECT_EQ(span.row, row);
      tiles.push_back(span.first_tile);
    }
    return tiles;
  };
  const PromptGroup& plain = table.prompt_groups()[0];
  EXPECT_FALSE(table.queries(plain).rolls);
  EXPECT_EQ(first_tiles(table.queries(plain), 1), std::vector<int32_t>({24, 16, 8}));
  EXPECT_EQ(first_tiles(table.scored(plain), 1), std::vector<int32_t>({0, 8, 16, 24}));
  const PromptGroup& rolls = table.prompt_groups()[1];
  EXPECT_TRUE(table.queries(rolls).rolls);
  EXPECT_EQ(first_tiles(table.queries(rolls), 0), std::vector<int32_t>({0}));
  EXPECT_EQ(first_tiles(table.scored(rolls), 0), std::vector<int32_t>({0}));
}

// Their sums are disjoint within a group and inside the memory; who has no segments, or pins nothing yet, is in none.
TEST_F(StepTableTest, PromptsThatPinShareTheScratchMemory) {
  constexpr int32_t kHeads = 2, kDim = 8;
  const int64_t room = StepTable::RowFloats(900, kHeads, kDim);
  StepTable table(stream_, Bounds(kHeads, kDim, 512), room);
  EvictionPolicy pins = Scoring(16, 8);
  pins.pin_rows = 10;
  const std::vector<int32_t> blocks(200, 3);
  const std::vector<uint64_t> segments = {1, uint64_t{1} << 63 | 5};
  std::vector<BatchRow> rows;
  int32_t tokens = 0;
  for (const int32_t length : {70, 330, 40, 900, 500}) {
    BatchRow row = {{.position = length - 30, .live = length - 30, .prompt_length = length, .prefill = true},
                    {.block_table = blocks},
                    /*token_begin=*/tokens,
                    /*token_count=*/30,
                    pins};
    if (length != 40) row.segment_starts = segments;
    rows.push_back(row);
    tokens += 30;
  }
  const std::vector<int32_t> ids(static_cast<size_t>(tokens), 1);
  Fill(table, {.token_ids = ids, .rows = rows});
  const StepView& view = table.view();
  EXPECT_EQ(At(view.rows, 0).first_pinning, 60);
  EXPECT_EQ(At(view.rows, 2).first_pinning, 40) << "none does";
  EXPECT_EQ(At(view.rows, 1).pins, 8);
  const int64_t starts = At(view.rows, 1).segment_starts;
  for (const auto& [word, bits] : {std::pair(0, 1), std::pair(1, 0), std::pair(2, 5)}) {
    EXPECT_EQ(At(view.tables, starts + word), bits);
  }
  EXPECT_LT(At(view.tables, starts + 3), 0);
  ASSERT_GT(table.pin_groups().size(), 1u);
  std::vector<int32_t> pinned;
  for (const PinGroup& group : table.pin_groups()) {
    int64_t end = 0;
    std::vector<PromptSpan> expected;
    for (int32_t i = group.first_row; i < group.first_row + group.rows; ++i) {
      pinned.push_back(At(table.pin_rows(), i));
      const DeviceRow row = At(view.rows, pinned.back());
      EXPECT_EQ(row.pin_sums, end);
      end += LogitFloats(row.live_after, kHeads);
      for (int32_t tile = 0; tile * kBlockSlots < row.live_after; tile += kSpanTiles) {
        expected.push_back({pinned.back(), tile});
      }
    }
    EXPECT_LE(end, room);
    float scratch = 0.0f;
    const PromptSpans spans = table.pinned(group, &scratch);
    EXPECT_EQ(spans.pin_sums, &scratch);
    ASSERT_EQ(spans.count, std::ssize(expected));
    for (int32_t i = 0; i < spans.count; ++i) {
      EXPECT_EQ(At(spans.spans, i).row, expected[static_cast<size_t>(i)].row);
      EXPECT_EQ(At(spans.spans, i).first_tile, expected[static_cast<size_t>(i)].first_tile);
    }
  }
  EXPECT_EQ(pinned, std::vector<int32_t>({0, 1, 3, 4}));
}

}  // namespace
}  // namespace hydrant::cuda
