// FakeExecutor is the device without arithmetic: a cell for every (layer and KV head pair, block, slot) that remembers whose
// token it holds, at which position. Every pair chooses its own victims, so contents really differ per head. It does what
// the rows say, with the memory they name, and checks on the way:
//
//  contract    each row says exactly what the oracle expects of it: tokens, position, counts, flags, table size
//  provenance  every live slot it reads holds the K and V of this very text from the same salt that the oracle still has,
//              in every pair, whoever computed them; its scores are sums over exactly the rows they should be
//  consent     a budget falls only where the request agreed, never below its floor, and with the share of recent tokens kept
//  ownership   what is written is in one table only; a fresh block is nobody's; what a freed one held is never read again
//
// Work is done in Await, after whatever happens between Launch and Await.
#ifndef HYDRANT_TESTS_SIM_FAKE_EXECUTOR_H_
#define HYDRANT_TESTS_SIM_FAKE_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "model/executor.h"
#include "tests/sim/failure.h"
#include "tests/sim/sim_request.h"

namespace hydrant::sim {

class FakeExecutor : public Executor {
 public:
  struct Options {
    int32_t blocks = 0;
    int32_t spare_sides = 0;
    int32_t pairs = 1;
    int32_t state_rows = 1;
    int32_t vocab = 2;
    bool check_contract = true;  // off: only what the memory shows counts
  };

  // requests[i] has id i + 1; it outlives the executor and may grow.
  FakeExecutor(const Options& options, std::vector<std::unique_ptr<SimRequest>>& requests, Failure& failure);

  Ticket Launch(const StepInput& input) override;
  StepOutput Await(Ticket ticket) override;

  // The request was admitted with a prefix of `cached` tokens that somebody else computed, in these blocks.
  void TakeOver(SimRequest& request, int32_t cached, std::span<const int32_t> blocks);

  // The request was admitted to go on from what its session had parked; these blocks will hold it.
  void Resume(SimRequest& request, std::span<const int32_t> blocks);

  // The request ended: its blocks are nobody's.
  void Forget(SimRequest& request);

  int32_t held_blocks() const { return held_blocks_; }
  int64_t live_slots() const { return live_slots_; }
  int32_t decoding() const { return decoding_; }  // requests past their prompt, not forgotten
  uint64_t slots_checked() const { return slots_checked_; }
  uint64_t cached_tokens() const { return cached_tokens_; }
  uint64_t copied_blocks() const { return copied_blocks_; }
  uint64_t restored_tokens() const { return restored_tokens_; }

  uint64_t shrinkings() const { return shrinkings_; }

  std::function<void()> in_flight;             // called between Launch and the work
  std::function<void(SimRequest&)> on_shrink;  // its shrinkings have one more: the oracle must run anew

 private:
  struct Cell {
    uint64_t key = 0;  // SimRequest::keys of its token, 0 = nobody's
    int32_t position = -1;
    int32_t token = -1;
  };
  // What stands beside a cell.
  struct Side {
    uint64_t state = 0;  // SimRequest::ScoreState
    int32_t position = -1;
  };
  struct Parked {
    std::vector<Cell> cells;  // [pair][slot]
    std::vector<Side> sides;
    int32_t live = 0;
  };
  struct Slots;  // one pair's view of a row's slots

  SimRequest* RequestOf(const StepRow& row);
  bool SeeShrinking(const StepRow& row, SimRequest& request);
  bool CheckContract(const StepRow& row, const SimRequest& request);
  bool CheckTargets(const StepRow& row, const SimRequest& request);
  bool ClaimBlocks(const StepRow& row, SimRequest& request, int32_t live_in);
  bool Claim(int32_t block, const SimRequest& request);
  bool CheckSlot(const StepRow& row, const SimRequest& request, int32_t pair, int32_t slot, uint64_t state);
  void AddRow(const StepRow& row, const SimRequest& request, int32_t live, int32_t position);
  bool CopyBlocks(const StepRow& row, SimRequest& request);
  void Park(const ParkOp& park);
  void Restore(const RestoreOp& restore);
  bool Cut(const SimRequest& request, const EvictionPolicy& policy, int32_t live_from, int32_t live_to);
  void RunRow(const StepRow& row, RowOutput& output);
  bool RunPrefill(const StepRow& row, SimRequest& request, uint64_t* shares);
  bool RunDecode(const StepRow& row, SimRequest& request, uint64_t* shares);
  bool Shrink(const StepRow& row, SimRequest& request, int32_t live_from);
  void Report(const StepRow& row, const SimRequest& request, uint64_t shares, RowOutput& output) const;
  void SetLive(SimRequest& request, int32_t live);
  Slots SlotsOf(const StepRow& row, int32_t pair);
  Slots SlotsOf(std::span<const int32_t> blocks, std::span<const int32_t> sides, int32_t pair);
  void DropBlock(int32_t block);
  int64_t CellIndex(int32_t pair, int32_t block) const;
  int64_t SideIndex(int32_t pair, int32_t side) const;

  const Options options_;
  std::vector<std::unique_ptr<SimRequest>>& requests_;
  Failure& failure_;
  std::vector<Cell> cells_;                       // [pair][block][16]
  std::vector<Side> sides_;                       // [pair][side block][16]
  std::vector<int32_t> victims_;                  // [state_row][pair], slot; -1 = none chosen
  std::vector<int32_t> holders_;                  // [block], requests that hold it
  std::map<uint64_t, Parked> parked_;             // by session
  std::map<uint64_t, SimRequest*> session_user_;  // by session: whose turn had a row last
  std::vector<int32_t> table_;                    // a row's tables once its copies are made
  std::vector<int32_t> side_table_;
  std::vector<uint64_t> row_user_;  // [state_row], number of the last step that used it

  const StepInput* launched_ = nullptr;
  uint64_t step_ = 0;
  int32_t held_blocks_ = 0;
  int64_t live_slots_ = 0;
  int32_t decoding_ = 0;
  uint64_t slots_checked_ = 0;
  uint64_t cached_tokens_ = 0;
  uint64_t copied_blocks_ = 0;
  uint64_t restored_tokens_ = 0;
  uint64_t shrinkings_ = 0;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_FAKE_EXECUTOR_H_
