// SwappingExecutor stands between an engine and the executor, and has sequences swapped out and in again between any two steps,
// to other blocks and state rows. The engine does not know: block and row numbers are translated on the way.
//
// What a sequence leaves is overwritten with what others had before it comes back. Tokens of decode rows are taken away, too: the
// device has to know them, as it does when rows are planned ahead.
#ifndef HYDRANT_TESTS_ENGINE_SWAPPING_EXECUTOR_H_
#define HYDRANT_TESTS_ENGINE_SWAPPING_EXECUTOR_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/run/model_executor.h"
#include "tests/support/forwarding_executor.h"

namespace hydrant {

struct SwapOptions {
  int32_t blocks = 0;  // of the pool
  int32_t state_rows = 0;
  uint32_t seed = 0;    // 0: nobody is swapped
  uint32_t one_in = 1;  // so many sequences that had a row, on average
  int32_t slice = 0;    // blocks of a sequence that are moved at once; 0: all
};

// What a test learns, also after the executor is gone.
struct SwapRecord {
  std::map<std::pair<uint64_t, int32_t>, uint64_t>
      scores;             // of a request after so many tokens: a digest of scores and positions
  uint64_t swapped = 0;   // sequences, and back
  uint64_t failures = 0;  // there was no room for them
};

// No step may be in flight beside another one. Requests have their ids as SamplingParams::key.
class SwappingExecutor : public ForwardingExecutor {
 public:
  SwappingExecutor(Executor& inner, const SwapOptions& options, SwapRecord* record)
      : ForwardingExecutor(inner),
        model_(dynamic_cast<ModelExecutor&>(inner)),
        options_(options),
        record_(*record),
        random_(options.seed) {
    block_of_.resize(static_cast<size_t>(options.blocks));
    row_of_.resize(static_cast<size_t>(options.state_rows));
    std::iota(block_of_.begin(), block_of_.end(), 0);
    std::iota(row_of_.begin(), row_of_.end(), 0);
  }

  Ticket Launch(const StepInput& input) override {
    input_ = input;
    tables_.clear();
    copies_.clear();
    snapshots_.clear();
    present_.clear();
    for (ParkOp& park : input_.parks) {
      park.block_table = Blocks(park.block_table);
      park.score_table = ScoreBlocks(park.score_table);
    }
    for (RestoreOp& restore : input_.restores) restore.block_table = Blocks(restore.block_table);
    for (ScoreInit& init : input_.score_inits) {
      init.to = ScoreBlock(init.to);
      if (init.from >= 0) init.from = ScoreBlock(init.from);
    }
    for (StepRow& row : input_.rows) {
      Note(row);
      Translate(row);
    }
    for (ReadOp& read : input_.reads) read.score_blocks = ScoreBlocks(read.score_blocks);
    return model_.Launch(input_);
  }

  StepOutput Await(Ticket ticket) override {
    StepOutput output = model_.Await(ticket);
    if (input_.rows.empty()) return output;
    const auto has_drafts = [](const StepRow& row) { return row.drafts() > 0; };
    if (std::none_of(input_.rows.begin(), input_.rows.end(), has_drafts)) End();
    return output;
  }

  // The step ends when it is known which drafts stay.
  void KeepDrafts(std::span<const int32_t> kept) override {
    model_.KeepDrafts(kept);
    for (size_t i = 0; i < kept.size(); ++i) {
      const StepRow& row = input_.rows[i];
      Present& sequence = present_[i];
      const int32_t wrong = static_cast<int32_t>(row.tokens.size()) - kept[i];
      sequence.computed -= wrong;
      sequence.live -= row.reuse_victim ? 0 : wrong;
      sequence.blocks.resize(static_cast<size_t>(BlocksForSlots(sequence.live)));
      sequence.score_blocks.resize(sequence.blocks.size());
    }
    End();
  }

 private:
  // A sequence after the step: in the engine's numbers.
  struct Present {
    uint64_t id = 0;
    int32_t row = 0;
    int32_t computed = 0;
    int32_t live = 0;
    std::vector<int32_t> blocks, score_blocks;  // of its live slots
  };
  static constexpr uint64_t kStranger = uint64_t{1} << 40;

  void End() {
    for (const Present& sequence : present_) known_[sequence.row] = sequence;
    tables_.clear();
    if (options_.seed != 0) Swap();
    for (const Present& sequence : present_) Look(sequence);
  }

  int32_t ScoreBlock(int32_t score_block) const {
    return score_block < options_.blocks ? block_of_[static_cast<size_t>(score_block)] : score_block;
  }
  std::span<const int32_t> Blocks(std::span<const int32_t> table) {
    std::vector<int32_t>& to = tables_.emplace_back();
    for (const int32_t block : table) to.push_back(block_of_[static_cast<size_t>(block)]);
    return to;
  }
  std::span<const int32_t> ScoreBlocks(std::span<const int32_t> table) {
    std::vector<int32_t>& to = tables_.emplace_back();
    for (const int32_t score_block : table) to.push_back(ScoreBlock(score_block));
    return to;
  }

  void Note(const StepRow& row) {
    const auto tokens = static_cast<int32_t>(row.tokens.size());
    Present& sequence = present_.emplace_back();
    sequence.id = row.sampling->key;
    sequence.row = row.state_row;
    sequence.computed = row.position + tokens;
    sequence.live = row.shrink_to > 0 ? row.shrink_to : row.reuse_victim ? row.live : row.live + tokens;
    const auto count = static_cast<std::ptrdiff_t>(BlocksForSlots(sequence.live));
    sequence.blocks.assign(row.block_table.begin(), row.block_table.begin() + count);
    sequence.score_blocks.assign(row.score_table.begin(), row.score_table.begin() + count);
    if (moved_.contains(sequence.id)) sequence.score_blocks = sequence.blocks;
    for (size_t i = 0; i < std::min(row.copies.size(), sequence.blocks.size()); ++i) {
      sequence.blocks[i] = sequence.score_blocks[i] = row.copies[i].to;
    }
  }

  void Translate(StepRow& row) {
    static constexpr int32_t kTheSampledOne[] = {kSampledId};
    const bool moved = moved_.contains(row.sampling->key);
    row.state_row = row_of_[static_cast<size_t>(row.state_row)];
    row.score_table = moved ? Blocks(row.block_table) : ScoreBlocks(row.score_table);
    row.block_table = Blocks(row.block_table);
    // A row with drafts leaves no sampled token in the device.
    const bool has_drafts = row.drafts() > 0;
    if (!row.prefill && !has_drafts && !drafted_.contains(row.sampling->key)) row.tokens = kTheSampledOne;
    drafted_.erase(row.sampling->key);
    if (has_drafts) drafted_.insert(row.sampling->key);
    std::vector<BlockCopy>& copies = copies_.emplace_back(row.copies.begin(), row.copies.end());
    for (BlockCopy& copy : copies) {
      copy.from_score_block = moved ? block_of_[static_cast<size_t>(copy.from)] : ScoreBlock(copy.from_score_block);
      copy.from = block_of_[static_cast<size_t>(copy.from)];
      copy.to = block_of_[static_cast<size_t>(copy.to)];
    }
    row.copies = copies;
    std::vector<ScoreSnapshot>& snapshots = snapshots_.emplace_back(row.snapshots.begin(), row.snapshots.end());
    for (ScoreSnapshot& snapshot : snapshots) {
      for (int32_t& score_block : snapshot.score_blocks) score_block = ScoreBlock(score_block);
    }
    row.snapshots = snapshots;
  }

  StepOutput Do(const StepInput& input) { return model_.Run(input); }

  void Swap() {
    std::vector<Present> moving;
    for (const Present& sequence : present_) {
      if (random_() % options_.one_in == 0) moving.push_back(sequence);
    }
    if (moving.empty()) return;
    const Present stranger = present_[random_() % present_.size()];
    StepInput leaves;
    leaves.swap_outs.push_back(OutOf(stranger));
    leaves.swap_outs.back().id = kStranger;
    leaves.swap_outs.back().slice.end = static_cast<int32_t>(stranger.blocks.size());
    const bool has_stranger = Do(leaves).swap_failures.empty();
    MoveOut(moving);

    // What was in none of the blocks that stay may be anywhere afterwards.
    std::set<int32_t> stays, rows_stay;
    for (const auto& [row, sequence] : known_) {
      const auto is_it = [row = row](const Present& each) { return each.row == row; };
      if (std::any_of(moving.begin(), moving.end(), is_it)) continue;
      rows_stay.insert(row);
      stays.insert(sequence.blocks.begin(), sequence.blocks.end());
    }
    for (const Present& sequence : moving) {
      for (const int32_t block : sequence.blocks) stays.erase(block);
    }
    const std::vector<int32_t> blocks = Others(stays, options_.blocks), rows = Others(rows_stay, options_.state_rows);
    if (has_stranger) PutStranger(stranger, moving, blocks);
    Shuffle(blocks, &block_of_);
    Shuffle(rows, &row_of_);
    MoveIn(moving);
    EXPECT_EQ(model_.swapped().size(), 0);
    EXPECT_EQ(model_.swapped().bytes(), 0u);
    for (const Present& sequence : moving) moved_.insert(sequence.id);
    for (Present& sequence : present_) {
      if (moved_.contains(sequence.id)) sequence.score_blocks = sequence.blocks;
    }
    record_.swapped += moving.size();
  }

  static std::vector<int32_t> Others(const std::set<int32_t>& without, int32_t count) {
    std::vector<int32_t> others;
    for (int32_t i = 0; i < count; ++i) {
      if (!without.contains(i)) others.push_back(i);
    }
    return others;
  }

  void Shuffle(const std::vector<int32_t>& numbers, std::vector<int32_t>* places) {
    std::vector<int32_t> shuffled;
    for (const int32_t number : numbers) shuffled.push_back((*places)[static_cast<size_t>(number)]);
    std::shuffle(shuffled.begin(), shuffled.end(), random_);
    for (size_t i = 0; i < numbers.size(); ++i) (*places)[static_cast<size_t>(numbers[i])] = shuffled[i];
  }

  SwapOutOp OutOf(const Present& sequence) {
    return {{.id = sequence.id,
             .begins = true,
             .live = sequence.live,
             .state_row = row_of_[static_cast<size_t>(sequence.row)],
             .slice = {}},
            Blocks(sequence.blocks),
            ScoreBlocks(sequence.score_blocks)};
  }

  // The next slice of a move of so many blocks. False: there is none left.
  bool Next(size_t blocks, BlockSlice* slice) const {
    const auto end = static_cast<int32_t>(blocks);
    *slice = {slice->end, options_.slice == 0 ? end : std::min(end, slice->end + options_.slice)};
    return slice->size() > 0;
  }

  // Those for whom there is no room stay.
  void MoveOut(std::vector<Present>& moving) {
    StepInput out;
    for (const Present& sequence : moving) {
      out.swap_outs.push_back(OutOf(sequence));
      // Half of them begin with nothing.
      if (random_() % 2 == 0) Next(sequence.blocks.size(), &out.swap_outs.back().slice);
    }
    while (!out.swap_outs.empty()) {
      const std::vector<uint64_t> failures = Do(out).swap_failures;
      for (const uint64_t id : failures) {
        const auto is_it = [id](const auto& each) { return each.id == id; };
        std::erase_if(moving, is_it);
        std::erase_if(out.swap_outs, is_it);
      }
      record_.failures += failures.size();
      std::erase_if(out.swap_outs, [this](SwapOutOp& swap) {
        swap.begins = false;
        swap.state_row = 0;  // may be another's by now
        return !Next(swap.block_table.size(), &swap.slice);
      });
    }
  }

  // Over what those who move have left, in the wrong order; or it is forgotten.
  void PutStranger(const Present& stranger, const std::vector<Present>& moving, std::span<const int32_t> room) {
    StepInput input;
    std::vector<int32_t> blocks;
    for (const Present& sequence : moving)
      blocks.insert(blocks.end(), sequence.blocks.rbegin(), sequence.blocks.rend());
    for (const int32_t block : room) {
      if (std::find(blocks.begin(), blocks.end(), block) == blocks.end()) blocks.push_back(block);
    }
    blocks.resize(std::min(blocks.size(), stranger.blocks.size()));
    if (moving.empty() || blocks.size() < stranger.blocks.size()) {
      input.swap_drops = {kStranger};
    } else {
      input.swap_ins.push_back({{.id = kStranger,
                                 .live = stranger.live,
                                 .state_row = row_of_[static_cast<size_t>(moving[random_() % moving.size()].row)],
                                 .slice = {0, static_cast<int32_t>(blocks.size())}},
                                Blocks(blocks)});
    }
    Do(input);
  }

  void MoveIn(std::span<const Present> moving) {
    StepInput in;
    for (const Present& sequence : moving) {
      in.swap_ins.push_back({{.id = sequence.id,
                              .live = sequence.live,
                              .state_row = row_of_[static_cast<size_t>(sequence.row)],
                              .slice = {}},
                             Blocks(sequence.blocks)});
      Next(sequence.blocks.size(), &in.swap_ins.back().slice);
    }
    while (!in.swap_ins.empty()) {
      Do(in);
      std::erase_if(in.swap_ins, [this](SwapInOp& swap) { return !Next(swap.block_table.size(), &swap.slice); });
    }
  }

  void Look(const Present& sequence) {
    StepInput input;
    KvScores read;
    input.reads.push_back({.live = sequence.live, .score_blocks = ScoreBlocks(sequence.score_blocks), .out = &read});
    Do(input);
    const size_t slots = static_cast<size_t>(model_.kv().layout.layers * model_.kv().layout.kv_heads * kBlockSlots);
    uint64_t digest = static_cast<uint64_t>(sequence.live);
    const auto add = [&digest](uint64_t value) { digest = (digest ^ value) * 0x100000001b3; };
    for (size_t i = 0; i < static_cast<size_t>(read.blocks) * slots; ++i) {
      const auto slot = static_cast<int32_t>(i / slots * kBlockSlots + i % kBlockSlots);
      if (slot >= sequence.live) continue;
      add(std::bit_cast<uint32_t>(read.scores[i]));
      add(static_cast<uint32_t>(read.positions[i]));
    }
    record_.scores[{sequence.id, sequence.computed}] = digest;
  }

  ModelExecutor& model_;
  const SwapOptions options_;
  SwapRecord& record_;
  std::mt19937 random_;
  std::vector<int32_t> block_of_, row_of_;  // by the engine's numbers
  std::map<int32_t, Present> known_;        // by state row: who had a row there last
  std::set<uint64_t> moved_;                // sequences whose score blocks are those of their blocks
  std::set<uint64_t> drafted_;              // whose last row had drafts
  std::vector<Present> present_;            // in the step
  StepInput input_;
  std::deque<std::vector<int32_t>> tables_;
  std::deque<std::vector<BlockCopy>> copies_;
  std::deque<std::vector<ScoreSnapshot>> snapshots_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_ENGINE_SWAPPING_EXECUTOR_H_
