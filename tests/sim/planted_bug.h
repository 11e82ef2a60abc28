// Bugs planted between the engine and its checkers, to show that the checkers see them: each stands for a mistake a
// scheduler, an engine core or a server could make.
#ifndef HYDRANT_TESTS_SIM_PLANTED_BUG_H_
#define HYDRANT_TESTS_SIM_PLANTED_BUG_H_

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "model/run/executor.h"
#include "server/engine/engine_core.h"

namespace hydrant::sim {

enum class PlantedBug : uint8_t {
  kNone,
  // In what the executor is told.
  kSwappedTables,          // two rows get each other's blocks
  kForeignBlock,           // one block of a row is another row's
  kStaleBlock,             // one block of a row is the one its table had before
  kLiveTooHigh,            // one slot that was never written
  kLiveTooLow,             // one slot forgotten
  kVictimNotReused,        // the token takes a fresh slot although a victim waits
  kVictimNotChosen,        // the slot to overwrite stays the old one
  kCutForgotten,           // no cut at the end of the prompt or period
  kCutTooDeep,             // one slot more is dropped
  kTailSplit,              // the rows that choose pins come in several chunks
  kPinsForgotten,          // the cut of a prompt chooses no pins
  kInnerCutForgotten,      // a cut inside a prompt is not made
  kStrideIgnored,          // a prompt that asked to be cut on the way is computed in full
  kShrinkForgotten,        // a budget falls, and nothing is cut
  kShrinkWithOldPolicy,    // … and the executor goes on with the one before
  kShrinkOfRecentAlone,    // … at the cost of the recent tokens alone
  kBudgetFloorIgnored,     // a budget falls to half its floor
  kGuaranteeIgnored,       // a budget falls although nobody agreed
  kWrongToken,             // a token nobody sampled is computed
  kTokenInFlightLost,      // a row ahead computes another token than was sampled
  kEndsForgotten,          // … and after an end it leaves its trace
  kEndsMadeUp,             // … and is left out where there is no end
  kPositionOff,            // a position is used twice
  kRowDropped,             // a row is not computed; its last answer is repeated
  kStateRowsSwapped,       // two sequences use each other's device state
  kWrongPolicy,            // one more recent token is protected than asked
  kCopyForgotten,          // a shared block is not copied before its sequence changes it
  kCopyOfAnother,          // one copy is made of the wrong block
  kOwnScoreBlock,          // scores go beside the shared block instead of into the sequence's own score block
  kScoreBlockNotPrepared,  // a score block keeps what it held before
  kSnapshotLost,           // score blocks are kept as a snapshot that nobody wrote
  kHitTooLong,             // one block more is taken over than was found
  kParkCutForgotten,       // the victim that waits is parked with the rest, and the last slot is not
  kRestoreLost,            // a session goes on without what was parked for it
  kRestoreOfAnother,       // … with what was parked for somebody else
  kParkedTooOld,           // a session goes on from the turn before the last
  kPastNotNeeded,          // who needs what its session had parked computes it where that is gone
  kTurnCutForgotten,       // no room is made for a turn
  kHistoryScoresOfCut,     // what a turn leaves of its prompt has scores to which later rows were added
  kHistoryBlocksSwapped,   // … or in another order
  kParkSliceLost,          // a slice of what a turn leaves is not copied
  kRestoreSliceLost,       // … or does not come back
  kTurnBeforeOverwritten,  // what a turn leaves takes the place of what the one before left, before anybody has it
  kRollingForgotten,       // keys that should stand at ranks stand where the text has them
  kRanksNotClosed,         // … and a cut between two turns leaves gaps between them
  kRollingSaltForgotten,   // who caches keys before rotation shares with who caches them after it
  kContextIgnored,         // whatever is asked for fits
  kSaltIgnored,            // everybody shares with everybody
  kGeneratedIsTaken,       // what was decoded is taken over by who wants what a prompt computes
  kTwinsBesideEachOther,   // nobody's prompt is known to be findable soon, so twins compute it beside each other
  // What befalls sequences that step aside: these need episodes in which they do.
  kSwapVictimLost,         // the slot to overwrite does not come along
  kSwapOfAnotherRow,       // … or that of another sequence does
  kSwapSlotsMoved,         // what comes back is in other blocks of its table
  kSwapSliceLost,          // a slice of it does not come back
  kSwapForgotten,          // it is forgotten while it is outside
  kSwapIntoOldRow,         // it comes back to the state row that it gave up
  kSwapOfAnchor,           // the one that was never to step aside does
  kAdmittedBehindSwapped,  // somebody is let in while another waits outside
  kVictimPays,             // a tenant pays for what others have its sequences step aside for
  kClosedToAll,            // while somebody is outside nobody is let in, whoever waits
  kNeverImpatient,         // … and nobody steps aside for one that waits
  kRowsNeverGiven,         // … where rows are missing and blocks are not
  kNeverBack,              // … nor for one that is outside and waits for its return
  kAgreementIgnored,       // no budget falls, and somebody steps aside instead
  kSwapsCrawl,             // what steps aside leaves bit by bit although a step may move all of it
  kHeldByRaisedFloors,     // who was let in before floors were raised gets no block that is kept for them
  kPeaksIgnored,           // more is let in than has a place in the pool or outside
  // In what the executor answered.
  kAnswersSwapped,  // two rows get each other's tokens
  kFailureHidden,   // a row that failed passes for good
  // In what becomes of drafts.
  kDraftKeptTooLong,    // one that is wrong stays
  kDraftThrownAway,     // … or one that is right goes
  kDraftsNeverSettled,  // nobody says which ones stay
  kDraftAnswersMoved,   // each draft gets the answer of the one before it
  // In what the client sees.
  kTerminalLost,
  kTerminalTwice,
  kTokenLost,
  kTokenTwice,
  kCancelIgnored,  // Cancel says yes and does nothing
  kEventsMixedUp,  // two streams get each other's events
  kLiveMisreported,
  kPauseIgnored,     // a request goes on although its reader is behind
  kPauseOfAnother,   // a slow reader holds up somebody else too
  kResumeForgotten,  // who was paused stays so
  kSettleIgnored,    // nobody says whether a session goes on from a turn
  kSettleInverted,   // a session goes on from a turn, and the engine is told that it does not
  // Between tenants.
  kAdmissionNotPaused,
  kTenantMixedUp,  // a request is added as another tenant's
  kPriorityIgnored,
  kWeightsIgnored,
  kCapsIgnored,
  kFloorsIgnored,
  kTenantTakenForGone,  // its budgets fall for anybody
  kMovesUnbounded,      // with a step moves whatever there is
  kPromiseForgotten,    // a request for which budgets fell is not let in
  kMemoryIsFree,        // who holds memory is charged for tokens alone
  kWithdrawnGivenBack,  // a prompt that is withdrawn brings its tenant before others
  kNeverAhead,          // no step is planned while the one before is computed
};
constexpr bool NeedsSwaps(PlantedBug bug) {
  return bug >= PlantedBug::kSwapVictimLost && bug <= PlantedBug::kPeaksIgnored;
}
inline constexpr PlantedBug kLastPlantedBug = PlantedBug::kNeverAhead;

const char* NameOf(PlantedBug bug);

// Changes rows on their way to the executor and answers on their way back. Without a bug it passes everything on.
class BuggyExecutor : public Executor {
 public:
  BuggyExecutor(PlantedBug bug, Executor& inner) : bug_(bug), inner_(inner) {}

  Ticket Launch(const StepInput& input) override;
  void Sample(Ticket ticket, std::span<const LogitAdjustments* const> adjustments) override;
  StepOutput Await(Ticket ticket) override;
  void KeepDrafts(std::span<const int32_t> kept) override;

 private:
  void SpoilInput();
  uint64_t LastParked(uint64_t session) const;
  void SpoilSessions();
  void SpoilSwaps();
  void SpoilPair(StepRow& a, StepRow& b);
  void SpoilRow(StepRow& row);
  void SpoilSharing(StepRow& row);
  void SpoilShrinking(StepRow& row);
  void SpoilRolling(const EvictionPolicy*& policy);
  void SpoilOutput(StepOutput& output) const;
  std::span<const int32_t> CopyOf(std::span<const int32_t> values);

  const PlantedBug bug_;
  Executor& inner_;
  // A step from Launch to Await, with what spoiled rows point to.
  struct InFlightStep {
    StepInput input;
    EvictionPolicy policy;
    std::deque<EvictionPolicy> policies;
    std::vector<std::vector<int32_t>> copies;
    std::vector<BlockCopy> block_copies;
    int32_t dropped_row = -1;
  };
  InFlightStep flights_[2];  // in turn
  uint64_t launched_ = 0;
  uint64_t awaited_ = 0;
  InFlightStep* now_ = &flights_[0];                   // launched or awaited
  std::map<uint64_t, EvictionPolicy> first_policies_;  // of requests that decode
  std::map<TurnId, int32_t> parked_live_;              // as far as a bug needs it
  std::vector<int32_t> last_table_;                    // of the row spoiled last
  std::vector<int32_t> kept_;
  std::map<uint64_t, int32_t> rows_left_;  // by sequence, when it stepped aside
  uint64_t forgotten_ = 0;                 // the sequence that stepped aside last
};

// Changes what the engine is told of the device, the scheduler of a tenant, or of a request.
void SpoilOptions(PlantedBug bug, EngineCoreOptions& options);
void SpoilTenants(PlantedBug bug, std::vector<TenantOptions>& tenants);
void SpoilRequest(PlantedBug bug, size_t tenants, Request& request);

// Changes the events of a step on their way to the client.
void SpoilEvents(PlantedBug bug, std::vector<EngineEvent>& events);

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_PLANTED_BUG_H_
