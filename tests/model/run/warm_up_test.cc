#include "model/run/warm_up.h"

#include <algorithm>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"

namespace hydrant {
namespace {

ModelExecutorOptions OptionsOf(const HarnessOptions& options, int32_t context) {
  return {.blocks = options.blocks,
          .sequences_max = options.sequences_max,
          .batch_tokens_max = options.tokens_max,
          .context_max = context};
}

// Remembers what it was asked, and holds it to what an executor may be asked.
class RecordingExecutor : public Executor {
 public:
  explicit RecordingExecutor(const ModelExecutorOptions& options) : options_(options) {}

  Ticket Launch(const StepInput& input) override {
    int32_t tokens = 0;
    bool cuts = false;
    std::set<int32_t> blocks;
    for (const StepRow& row : input.rows) {
      const auto count = static_cast<int32_t>(row.tokens.size());
      const int32_t live = row.reuse_victim ? row.live : row.live + count;
      tokens += count;
      cuts |= row.shrink_to != 0;
      pins += !row.segment_starts.empty() && row.policy->pin_rows > 0 && row.shrink_to != 0;
      EXPECT_TRUE(row.segment_starts.empty() || std::ssize(row.segment_starts) * 64 >= count);
      EXPECT_GE(count, 1);
      EXPECT_LT(row.state_row, options_.sequences_max);
      EXPECT_LE(row.position + count, options_.context_max);
      EXPECT_LE(live, std::ssize(row.block_table) * kBlockSlots);
      EXPECT_TRUE(row.prefill || sampled_.contains(row.state_row)) << "of what it is fed";
      EXPECT_TRUE(!row.choose_victim || live > row.policy->recent) << "the newest tokens are no victims";
      EXPECT_TRUE(!row.reuse_victim || victims_.contains(row.state_row));
      EXPECT_LT(row.shrink_to, live);
      for (const int32_t block : row.block_table) {
        EXPECT_TRUE(block >= 0 && block < options_.blocks && blocks.insert(block).second) << block;
      }
    }
    victims_.clear();
    for (const StepRow& row : input.rows) {
      sampled_.insert(row.state_row);
      if (row.choose_victim) victims_.insert(row.state_row);
      EXPECT_LT(row.adapter, options_.adapters.slots);
      auto& generated = row.adapter < 0 ? generated_rows : adapted_rows;
      if (!row.prefill) generated.insert(static_cast<int32_t>(input.rows.size()));
    }
    EXPECT_LE(tokens, options_.batch_tokens_max);
    EXPECT_LE(std::ssize(input.rows), options_.sequences_max);
    int32_t& most = cuts ? tokens_most_cut : tokens_most;
    most = std::max(most, tokens);
    for (const TurnId& turn : input.drops) EXPECT_EQ(parked.erase(turn), 1u);
    for (const ParkOp& park : input.parks) {
      if (parks) parked.insert(park.id);
      if (!parks) output_.park_failures.push_back(park.id);
    }
    for (const RestoreOp& restore : input.restores) EXPECT_TRUE(parked.contains(restore.id));
    restored += static_cast<int>(input.restores.size());
    return Ticket{++number_};
  }
  void Sample(Ticket ticket, std::span<const LogitAdjustments* const> adjustments) override {
    EXPECT_EQ(ticket.number, number_);
    for (const LogitAdjustments* of_row : adjustments) adjusted += of_row != nullptr;
  }
  StepOutput Await(Ticket ticket) override {
    EXPECT_EQ(ticket.number, number_);
    return std::exchange(output_, {});
  }

  std::set<int32_t> generated_rows, adapted_rows;
  std::set<TurnId> parked;
  int32_t tokens_most = 0, tokens_most_cut = 0;
  bool parks = true;
  int restored = 0, adjusted = 0, pins = 0;  // rows

 private:
  const ModelExecutorOptions options_;
  std::set<int32_t> sampled_, victims_;  // state rows
  StepOutput output_;                    // of the step in flight
  uint64_t number_ = 0;
};

TEST(WarmUp, RunsTheLargestStepAndAllNumbersOfRowsThatDiffer) {
  const ModelExecutorOptions options{.blocks = 500, .sequences_max = 100, .batch_tokens_max = 700, .context_max = 4096};
  RecordingExecutor executor(options);
  EXPECT_TRUE(WarmUp(executor, options).ok());
  EXPECT_EQ(executor.tokens_most, 700);
  EXPECT_EQ(executor.tokens_most_cut, 512) << "a prompt that is scored takes the square of its length";
  EXPECT_THAT(executor.generated_rows, testing::ElementsAre(1, 2, 3, 4, 5, 9, 17, 33, 64, 65, 100));
  EXPECT_EQ(executor.restored, 2);
  EXPECT_GT(executor.pins, 0) << "the first chat under auto waits for no kernel";
  EXPECT_EQ(executor.adjusted, 1);
  EXPECT_THAT(executor.parked, testing::IsEmpty());
}

TEST(WarmUp, RunsRowsWithAdaptersWhereThereAreSlots) {
  ModelExecutorOptions options{.blocks = 500, .sequences_max = 100, .batch_tokens_max = 700, .context_max = 4096};
  RecordingExecutor plain(options);
  EXPECT_TRUE(WarmUp(plain, options).ok());
  EXPECT_THAT(plain.adapted_rows, testing::IsEmpty());
  options.adapters.slots = 1;
  RecordingExecutor executor(options);
  EXPECT_TRUE(WarmUp(executor, options).ok());
  EXPECT_EQ(executor.adapted_rows, plain.generated_rows);
}

TEST(WarmUp, SaysThatNothingCanBeParked) {
  const ModelExecutorOptions options{.blocks = 8, .sequences_max = 2, .batch_tokens_max = 64, .context_max = 64};
  RecordingExecutor executor(options);
  executor.parks = false;
  EXPECT_EQ(WarmUp(executor, options).code(), absl::StatusCode::kResourceExhausted);
}

TEST(WarmUp, KeepsWithinWhatThereIs) {
  for (const int32_t blocks : {1, 2, 3, 40}) {
    for (const int32_t sequences : {1, 2, 50}) {
      for (const int32_t tokens : {1, 7, 8, 100, 1000}) {
        for (const int32_t context : {1, 8, 12, 13, 30, 1000}) {
          const ModelExecutorOptions options{
              .blocks = blocks, .sequences_max = sequences, .batch_tokens_max = tokens, .context_max = context};
          SCOPED_TRACE(testing::PrintToString(std::vector<int32_t>{blocks, sequences, tokens, context}));
          RecordingExecutor executor(options);
          EXPECT_TRUE(WarmUp(executor, options).ok());
          const int32_t fits = std::min(sequences * std::min(context, blocks * kBlockSlots), tokens);
          if (blocks * kBlockSlots >= sequences * WholeBlocks(context)) {
            EXPECT_EQ(executor.tokens_most, fits);
          }
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(WarmUp, SaysThatThereIsNoMemory) {
  class Starving : public Executor {
    Ticket Launch(const StepInput&) override { throw std::bad_alloc(); }
    void Sample(Ticket, std::span<const LogitAdjustments* const>) override {}
    StepOutput Await(Ticket) override { return {}; }
  } executor;
  const absl::Status status =
      WarmUp(executor, {.blocks = 8, .sequences_max = 2, .batch_tokens_max = 64, .context_max = 64});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--gpu-memory-utilization"));
}

// Whatever a step finds in the cache that is not its own, it does not read.
TEST(WarmUp, LeavesNothingThatRequestsNotice) {
  std::vector<std::vector<Generation>> runs;
  for (const bool warm : {false, true}) {
    HarnessOptions options;
    options.sequences_max = 6;
    options.blocks = 48;
    options.tokens_max = 64;
    if (warm) {
      options.around = [&options](Executor& inner) -> std::unique_ptr<Executor> {
        const auto checkpoint = Checkpoint::Open(GoldenPath("gqa_untied")).value();
        const absl::Status status = WarmUp(inner, OptionsOf(options, checkpoint->config.context));
        EXPECT_TRUE(status.ok()) << status;
        return nullptr;
      };
    }
    EngineHarness harness(GoldenPath("gqa_untied"), options);
    std::vector<SequenceRequest> requests;
    for (uint64_t id = 1; id <= 6; ++id) {
      std::vector<int32_t> prompt;
      for (uint64_t i = 0; i < 7 * id; ++i) prompt.push_back(static_cast<int32_t>(2 + (i * i + id * 31) % 280));
      SequenceRequest request = Greedy(id, prompt, 30);
      EvictionPolicy policy{.evicts = id % 3 != 0, .heavy = 6, .recent = 6};
      policy.rolling = id % 3 == 1;
      request = With(request, policy);
      request.logprobs = 3;
      if (id % 2 == 0) {
        request.sampling.temperature = 0.8f;
        request.sampling.key = id;
      }
      requests.push_back(request);
    }
    runs.push_back(harness.Run(requests));
  }
  for (size_t i = 0; i < runs[0].size(); ++i) {
    EXPECT_EQ(runs[1][i].tokens(), runs[0][i].tokens()) << i;
    ASSERT_EQ(runs[1][i].sampled.size(), 30u);
    for (size_t k = 0; k < 30; ++k) EXPECT_EQ(runs[1][i].sampled[k].logprob, runs[0][i].sampled[k].logprob) << i;
  }
}

}  // namespace
}  // namespace hydrant
