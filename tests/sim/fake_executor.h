// FakeExecutor is the device without arithmetic, on a memory that remembers whose token every slot holds, at which position
// (fake_memory.h). It does what the rows say, with the memory they name, and checks on the way:
//
//  contract    each row says exactly what the oracle expects of it: tokens, position, counts, flags, table size
//  provenance  every live slot it reads holds the K and V of this very text from the same salt that the oracle still has,
//              in every pair, whoever computed them; its scores are sums over exactly the rows they should be
//  position    a key stands where its token is in the text or, under a rolling policy, at its rank among the live
//              tokens of its pair; no key stands beyond the context
//  consent     a budget falls only where the request agreed, never below its floor, and with the share of recent tokens kept
//  ownership   what is written is in one table only; a fresh block is nobody's; what a freed one held is never read again
//
// A slot that a row reads was looked at since it was written last, whoever wrote it: what nobody wrote is not looked at again.
//
// Work is done in Await, after whatever happens between Launch and Await. With two tickets in flight the second one's rows go on
// from what the first one's sampled; one after an end it was told of is left out, one after another end writes.
#ifndef HYDRANT_TESTS_SIM_FAKE_EXECUTOR_H_
#define HYDRANT_TESTS_SIM_FAKE_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/run/executor.h"
#include "scheduler/parked_sessions.h"
#include "tests/sim/failure.h"
#include "tests/sim/fake_memory.h"
#include "tests/sim/sim_request.h"

namespace hydrant::sim {

inline constexpr size_t kTenantsMax = 16;

class FakeExecutor : public Executor {
 public:
  struct Options {
    int32_t blocks = 0;
    int32_t spare_score_blocks = 0;
    int32_t layer_heads = 1;
    int32_t state_rows = 1;
    int32_t vocab = 2;
    int32_t context = 0;         // rows of the position table
    bool check_contract = true;  // off: only what the memory shows counts
    bool overlap = false;        // two tickets may be in flight
    bool swaps = false;          // sequences may step aside: who does has no rows meanwhile
  };

  // requests[i] has id i + 1; it outlives the executor and may grow.
  FakeExecutor(const Options& options, std::vector<std::unique_ptr<SimRequest>>& requests, Failure& failure);

  Ticket Launch(const StepInput& input) override;
  void Sample(Ticket ticket, std::span<const LogitAdjustments* const> adjustments) override;
  StepOutput Await(Ticket ticket) override;
  void KeepDrafts(std::span<const int32_t> kept) override;

  // The request was admitted with a prefix of `cached` tokens that somebody else computed, in these blocks.
  void TakeOver(SimRequest& request, int32_t cached, std::span<const int32_t> blocks);

  // The request was admitted to go on from what its session had parked; these blocks will hold it. `all_comes`: with
  // the step on its way all of it comes back, and room is made for the turn.
  void Resume(SimRequest& request, int32_t computed, std::span<const int32_t> blocks, bool all_comes);

  // The request is outside and comes back to these blocks, which are its own from now on.
  void TakeBack(SimRequest& request, std::span<const int32_t> blocks);

  // Blocks of turns that were forgotten while they were parked are nobody's.
  void SeeDrops(const ParkedSessions& parked);

  // The request ended: its blocks are nobody's.
  void Forget(SimRequest& request);

  // A paused request is left out of the steps once its prompt is computed.
  void SetPaused(SimRequest& request, bool paused);

  // A row of it was launched and not awaited.
  bool OnItsWay(const SimRequest& request) const;

  // With those that rows on their way will take.
  int32_t held_blocks() const;
  int64_t parked_blocks() const;
  int64_t live_slots() const { return live_slots_; }
  uint64_t slots_read() const { return slots_read_; }
  uint64_t cached_tokens() const { return cached_tokens_; }
  uint64_t generated_taken() const { return generated_taken_; }
  uint64_t copied_blocks() const { return copied_blocks_; }
  uint64_t restored_tokens() const { return restored_tokens_; }
  uint64_t turn_cuts() const { return turn_cuts_; }
  uint64_t rows_left_out() const { return rows_left_out_; }
  uint64_t shrinkings() const { return shrinkings_; }
  uint64_t steps_ahead() const { return steps_ahead_; }
  uint64_t rows_behind() const { return rows_behind_; }
  uint64_t ends_known() const { return ends_known_; }

  uint64_t draft_rows() const { return draft_rows_; }
  uint64_t drafts_kept() const { return drafts_kept_; }
  uint64_t drafts_over() const { return drafts_over_; }

  // Blocks parked and restored since it was asked last.
  int64_t TakeMoved() { return std::exchange(moved_, 0); }

  // Sequences that stepped aside; blocks that are outside, whole or in part.
  uint64_t swaps_out() const { return swaps_out_; }
  int64_t swapped_blocks() const;

  bool loses_victims = false;          // a planted bug: the slot to overwrite does not come along
  std::function<void()> before_swaps;  // called before what leaves is copied
  std::function<bool()> swap_fails;    // asked when a sequence begins to step aside: there is no memory for it
  // Whether it waits for blocks, as far as its scheduler knows, or for its own slots.
  std::function<bool(const SimRequest&)> waits_for_blocks;
  bool shares_steps = false;                   // steps may be divided between tenants: rows may be left out
  std::function<void()> in_flight;             // called between Launch and the work
  std::function<bool()> step_fails;            // asked then: all rows that sample fail
  std::function<void(SimRequest&)> on_change;  // its shrinkings or its fate changed: the oracle must run anew

 private:
  // What a turn left, block by block.
  struct Parked {
    std::vector<FakeMemory::Block> blocks;
    std::vector<FakeMemory::ScoreBlock> score_blocks;
    int32_t live = 0;
  };

  // What is outside of a sequence that stepped aside, slot by slot, and of its state row.
  struct AsideKv {
    std::vector<FakeMemory::Block> blocks;
    std::vector<FakeMemory::ScoreBlock> score_blocks;
    std::vector<int32_t> victims;
    int32_t sampled = 0;
    int32_t live = 0;
    int32_t moved = 0;  // blocks, on its way out and then on its way in
    bool is_whole = false;
  };

  SimRequest* RequestOf(const StepRow& row);
  std::vector<int32_t> DueWithOneOnItsWay() const;
  void CheckWhoDecodes(const StepInput& input);
  int32_t TokenOf(const StepRow& row) const;
  void RunBehindEnd(const StepRow& row, SimRequest& request);
  size_t TenantOf(const SimRequest& request);
  void FailRows(std::span<const StepRow> rows);
  bool SeeShrinking(const StepRow& row, SimRequest& request);
  bool CheckContract(const StepRow& row, const SimRequest& request);
  bool CheckPrefill(const StepRow& row, const SimRequest& request, int32_t* live_in);
  bool CheckDecode(const StepRow& row, const SimRequest& request, int32_t* live_in);
  bool CheckTargets(const StepRow& row, const SimRequest& request);
  bool ClaimBlocks(const StepRow& row, SimRequest& request, int32_t live_in);
  bool Claim(int32_t block, const SimRequest& request);
  bool Append(int32_t block, SimRequest& request);
  bool CheckSlots(const StepRow& row, SimRequest& request);
  bool CheckBlock(const StepRow& row, const SimRequest& request, int32_t place);
  bool CheckSlot(const StepRow& row, const SimRequest& request, int32_t layer_head, int32_t slot,
                 const FakeMemory::Cell& cell, int32_t position_beside);
  bool CheckRanks(const StepRow& row, const SimRequest& request);
  bool CheckWrites(const StepRow& row, const SimRequest& request, int32_t slot);
  void AddRow(const StepRow& row, const SimRequest& request, int32_t live, int32_t position);
  bool TakeSnapshots(const StepRow& row, SimRequest& request, int32_t end);
  bool CopyBlocks(const StepRow& row, SimRequest& request);
  void RunRow(const StepRow& row, RowOutput& output);
  bool RunPrefill(const StepRow& row, SimRequest& request, uint64_t* read);
  bool RunDecode(const StepRow& row, SimRequest& request, uint64_t* read);
  bool CloseGap(const StepRow& row, const SimRequest& request, int32_t layer_head, int32_t victim);
  int32_t ChooseVictim(const StepRow& row, SimRequest& request, int32_t layer_head, int32_t written) const;
  bool Shrink(const StepRow& row, SimRequest& request, int32_t live_from);
  void Report(const StepRow& row, const SimRequest& request, uint64_t read, RowOutput& output) const;
  void SetLive(SimRequest& request, int32_t live);

  // fake_drafts.cc: rows of more than one token.
  bool RunDrafts(const StepRow& row, SimRequest& request, RowOutput& output);
  void KeepOf(const StepRow& row, int32_t kept);

  // fake_sessions.cc: what moves slots besides rows.
  SimRequest*& user(uint64_t session);
  void Park(const ParkOp& park);
  bool BeginPark(const ParkOp& park);
  bool CheckHistory(const ParkOp& park, size_t place);
  void EndPark(const TurnId& id);
  void SeeRestore(const RestoreOp& restore);
  void Restore(const RestoreOp& restore);
  bool PutSlice(const RestoreOp& restore, size_t kept);
  bool Cut(SimRequest& request, const EvictionPolicy& policy, int32_t logical_length, int32_t live_from,
           int32_t live_to);
  bool RankSlots(SimRequest& request, int32_t layer_head, const EvictionPolicy& policy, int32_t logical_length,
                 int32_t live_from, int32_t live_to);
  bool FillHoles(const SimRequest& request, int32_t layer_head, int32_t live_to, uint64_t best_dropped);
  void Renumber(int32_t layer_head, int32_t live);

  // fake_swaps.cc: sequences that step aside.
  SimRequest* Swapped(uint64_t id);
  uint64_t OrderOf(std::span<const int32_t> table, std::span<const int32_t> score_table, int32_t live,
                   bool evicts) const;
  void SwapOutOf(const SwapOutOp& out, StepOutput* output);
  void SwapInOf(const SwapInOp& in);
  bool CheckOrder(const StepRow& row, SimRequest& request);

  const FakeMemory::Cell& CellAt(std::span<const int32_t> table, int32_t layer_head, int32_t slot) const {
    return memory_.block(table[static_cast<size_t>(slot / kBlockSlots)])
        .cells[static_cast<size_t>(layer_head)][static_cast<size_t>(slot % kBlockSlots)];
  }
  int32_t PositionAt(std::span<const int32_t> score_table, int32_t layer_head, int32_t slot) const {
    return memory_.score_block(score_table[static_cast<size_t>(slot / kBlockSlots)])
        .positions[static_cast<size_t>(layer_head)][static_cast<size_t>(slot % kBlockSlots)];
  }

  const Options options_;
  std::vector<std::unique_ptr<SimRequest>>& requests_;
  Failure& failure_;
  FakeMemory memory_;
  std::vector<int32_t> victims_;  // [state_row][layer_head], slot; -1 = none chosen
  std::vector<int32_t> sampled_;  // [state_row], the last token, or kNoNextId
  std::map<TurnId, Parked> parked_;
  std::map<uint64_t, AsideKv> swapped_;
  std::map<TurnId, std::vector<int32_t>> leaving_;  // the blocks of those that are parked in part
  std::vector<SimRequest*> users_;  // [session], whose turn had a row last, or goes on from what was parked
  std::vector<int32_t> table_;      // a row's tables once its copies are made
  std::vector<int32_t> score_table_;
  std::vector<uint64_t> row_user_;  // [state_row], number of the last step that used it

  // Scratch of Cut, by slot: the rank of its token, the highest for recent ones. And a copy, in another order.
  std::vector<uint64_t> ranks_;
  std::vector<uint64_t> worst_first_;
  std::vector<std::pair<int32_t, int32_t>> by_position_;  // slots after a cut, with where their keys stand
  std::vector<int32_t> by_rank_;                          // positions in the text

  struct InFlightStep {
    const StepInput* input = nullptr;
    uint64_t step = 0;
    uint64_t row_step = 0;
    bool sampled = false;
  };
  std::vector<InFlightStep> flights_;  // oldest first
  const StepInput* drafted_ =
      nullptr;  // of the step awaited last, if it has drafts of which nobody said which ones are kept
  uint64_t launches_ = 0;
  uint64_t step_ = 0;  // launched or awaited last
  int64_t live_slots_ = 0;
  std::vector<int32_t> due_of_;  // [tenant], requests past their prompt, not forgotten and not paused
  uint64_t row_steps_ = 0;       // with rows, launched
  uint64_t row_step_ = 0;        // of the step that is computed
  uint64_t slots_read_ = 0;
  uint64_t cached_tokens_ = 0;
  uint64_t generated_taken_ = 0;
  uint64_t copied_blocks_ = 0;
  uint64_t restored_tokens_ = 0;
  int64_t moved_ = 0;
  uint64_t swaps_out_ = 0;
  uint64_t turn_cuts_ = 0;
  uint64_t rows_left_out_ = 0;
  uint64_t shrinkings_ = 0;
  uint64_t steps_ahead_ = 0;
  uint64_t rows_behind_ = 0;
  uint64_t draft_rows_ = 0;
  uint64_t drafts_kept_ = 0;
  uint64_t drafts_over_ = 0;
  uint64_t ends_known_ = 0;  // of these, after an end that the device was told of
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_FAKE_EXECUTOR_H_
