#include "tests/sim/planted_bug.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/sim/fake_model.h"

namespace hydrant::sim {
namespace {

// In the order of PlantedBug.
constexpr const char* kNames[] = {
    "None",
    "SwappedTables",
    "ForeignBlock",
    "StaleBlock",
    "LiveTooHigh",
    "LiveTooLow",
    "VictimNotReused",
    "VictimNotChosen",
    "CutForgotten",
    "CutTooDeep",
    "TailSplit",
    "PinsForgotten",
    "InnerCutForgotten",
    "StrideIgnored",
    "ShrinkForgotten",
    "ShrinkWithOldPolicy",
    "ShrinkOfRecentAlone",
    "BudgetFloorIgnored",
    "GuaranteeIgnored",
    "WrongToken",
    "TokenInFlightLost",
    "EndsForgotten",
    "EndsMadeUp",
    "PositionOff",
    "RowDropped",
    "StateRowsSwapped",
    "WrongPolicy",
    "CopyForgotten",
    "CopyOfAnother",
    "OwnScoreBlock",
    "ScoreBlockNotPrepared",
    "SnapshotLost",
    "HitTooLong",
    "ParkCutForgotten",
    "RestoreLost",
    "RestoreOfAnother",
    "ParkedTooOld",
    "PastNotNeeded",
    "TurnCutForgotten",
    "HistoryScoresOfCut",
    "HistoryBlocksSwapped",
    "ParkSliceLost",
    "RestoreSliceLost",
    "TurnBeforeOverwritten",
    "RollingForgotten",
    "RanksNotClosed",
    "RollingSaltForgotten",
    "ContextIgnored",
    "SaltIgnored",
    "GeneratedIsTaken",
    "TwinsBesideEachOther",
    "SwapVictimLost",
    "SwapOfAnotherRow",
    "SwapSlotsMoved",
    "SwapSliceLost",
    "SwapForgotten",
    "SwapIntoOldRow",
    "SwapOfAnchor",
    "AdmittedBehindSwapped",
    "VictimPays",
    "ClosedToAll",
    "NeverImpatient",
    "RowsNeverGiven",
    "NeverBack",
    "AgreementIgnored",
    "SwapsCrawl",
    "HeldByRaisedFloors",
    "PeaksIgnored",
    "AnswersSwapped",
    "FailureHidden",
    "DraftKeptTooLong",
    "DraftThrownAway",
    "DraftsNeverSettled",
    "DraftAnswersMoved",
    "TerminalLost",
    "TerminalTwice",
    "TokenLost",
    "TokenTwice",
    "CancelIgnored",
    "EventsMixedUp",
    "LiveMisreported",
    "PauseIgnored",
    "PauseOfAnother",
    "ResumeForgotten",
    "SettleIgnored",
    "SettleInverted",
    "AdmissionNotPaused",
    "TenantMixedUp",
    "PriorityIgnored",
    "WeightsIgnored",
    "CapsIgnored",
    "FloorsIgnored",
    "TenantTakenForGone",
    "MovesUnbounded",
    "PromiseForgotten",
    "MemoryIsFree",
    "WithdrawnGivenBack",
    "NeverAhead",
};
static_assert(std::size(kNames) == static_cast<size_t>(kLastPlantedBug) + 1);

}  // namespace

const char* NameOf(PlantedBug bug) { return kNames[static_cast<size_t>(bug)]; }

Executor::Ticket BuggyExecutor::Launch(const StepInput& input) {
  if (bug_ == PlantedBug::kNone) return inner_.Launch(input);
  now_ = &flights_[launched_++ % 2];
  now_->input = input;
  now_->copies.clear();
  now_->policies.clear();
  now_->dropped_row = -1;
  SpoilInput();
  return inner_.Launch(now_->input);
}

void BuggyExecutor::Sample(Ticket ticket, std::span<const LogitAdjustments* const> adjustments) {
  // A row that was dropped is the first one.
  inner_.Sample(ticket, adjustments.subspan(bug_ != PlantedBug::kNone && now_->dropped_row == 0 ? 1 : 0));
}

StepOutput BuggyExecutor::Await(Ticket ticket) {
  StepOutput output = inner_.Await(ticket);
  if (bug_ == PlantedBug::kNone) return output;
  now_ = &flights_[awaited_++ % 2];
  SpoilOutput(output);
  return output;
}

void BuggyExecutor::KeepDrafts(std::span<const int32_t> kept) {
  if (bug_ == PlantedBug::kDraftsNeverSettled) return;
  kept_.assign(kept.begin(), kept.end());
  const bool spoils = bug_ == PlantedBug::kDraftKeptTooLong || bug_ == PlantedBug::kDraftThrownAway;
  for (size_t i = 0; spoils && i < kept_.size(); ++i) {
    const int32_t drafts = now_->input.rows[i].drafts();
    if (bug_ == PlantedBug::kDraftKeptTooLong && drafts > 0 && kept_[i] <= drafts) ++kept_[i];
    if (bug_ == PlantedBug::kDraftThrownAway && drafts > 0 && kept_[i] > 1) --kept_[i];
  }
  // A row that was dropped is the first one, and had no drafts.
  inner_.KeepDrafts(std::span(kept_).subspan(bug_ != PlantedBug::kNone && now_->dropped_row == 0 ? 1 : 0));
}

std::span<const int32_t> BuggyExecutor::CopyOf(std::span<const int32_t> values) {
  return now_->copies.emplace_back(values.begin(), values.end());
}

// The newest turn of the session in parked_live_; 0: none.
uint64_t BuggyExecutor::LastParked(uint64_t session) const {
  const auto behind = parked_live_.lower_bound({session + 1, 0});
  if (behind == parked_live_.begin() || std::prev(behind)->first.session != session) return 0;
  return std::prev(behind)->first.turn;
}

void BuggyExecutor::SpoilSessions() {
  for (ParkOp& park : now_->input.parks) {
    if (bug_ == PlantedBug::kRanksNotClosed && park.begins) SpoilRolling(park.policy);
    if (bug_ == PlantedBug::kParkCutForgotten) park.cut_from = 0;
    if (bug_ == PlantedBug::kRestoreOfAnother) parked_live_[park.id] = park.live;
    if (bug_ == PlantedBug::kHistoryScoresOfCut) park.score_table = park.block_table;
    if (bug_ == PlantedBug::kHistoryBlocksSwapped && park.live == park.computed && park.block_table.size() > 1) {
      std::vector<int32_t>& table = now_->copies.emplace_back(park.block_table.begin(), park.block_table.end());
      std::swap(table[0], table[1]);
      park.block_table = table;
    }
    if (bug_ == PlantedBug::kParkSliceLost && !park.begins) park.slice.begin = park.slice.end;
  }
  // The second park of a session is lost.
  if (bug_ == PlantedBug::kParkedTooOld) {
    std::erase_if(now_->input.parks, [this](const ParkOp& park) {
      if (!park.begins || LastParked(park.id.session) == 0) return false;
      now_->input.drops.push_back(park.id);
      return true;
    });
    for (const ParkOp& park : now_->input.parks) parked_live_[park.id] = park.live;
  }
  if (bug_ == PlantedBug::kTurnBeforeOverwritten) {
    for (const ParkOp& park : now_->input.parks) {
      if (!park.begins) continue;
      now_->input.drops.push_back({park.id.session, LastParked(park.id.session)});
      parked_live_[park.id] = park.live;
    }
  }
  for (RestoreOp& restore : now_->input.restores) {
    if (bug_ == PlantedBug::kRanksNotClosed) SpoilRolling(restore.policy);
    if (bug_ == PlantedBug::kTurnCutForgotten) restore.cut_to = 0;
    if (bug_ == PlantedBug::kRestoreSliceLost && restore.slice.begin > 0) restore.slice.begin = restore.slice.end;
    for (const auto& [id, live] : parked_live_) {
      if (bug_ == PlantedBug::kRestoreOfAnother && id.session != restore.id.session && live == restore.live) {
        restore.id = id;
        break;
      }
    }
  }
  if (bug_ == PlantedBug::kRestoreLost) now_->input.restores.clear();
}

void BuggyExecutor::SpoilSwaps() {
  for (SwapOutOp& out : now_->input.swap_outs) {
    if (bug_ == PlantedBug::kSwapOfAnotherRow) out.state_row = out.state_row > 0 ? out.state_row - 1 : 1;
    rows_left_[out.id] = out.state_row;
    if (bug_ == PlantedBug::kSwapForgotten && out.slice.end == BlocksForSlots(out.live)) forgotten_ = out.id;
  }
  if (now_->input.swap_outs.empty() && forgotten_ != 0) now_->input.swap_drops.push_back(std::exchange(forgotten_, 0));
  for (SwapInOp& in : now_->input.swap_ins) {
    if (bug_ == PlantedBug::kSwapIntoOldRow) in.state_row = rows_left_[in.id];
    if (bug_ == PlantedBug::kSwapSliceLost && in.slice.begin > 0) in.slice.begin = in.slice.end;
    if (bug_ == PlantedBug::kSwapSlotsMoved && in.block_table.size() > 2) {
      std::vector<int32_t>& table = now_->copies.emplace_back(in.block_table.begin(), in.block_table.end());
      std::swap(table[0], table[1]);
      in.block_table = table;
    }
  }
}

void BuggyExecutor::SpoilInput() {
  SpoilSessions();
  SpoilSwaps();
  if (now_->input.rows.empty()) return;
  if (now_->input.rows.size() >= 2) SpoilPair(now_->input.rows[0], now_->input.rows[1]);
  SpoilRow(now_->input.rows[0]);
  for (StepRow& row : now_->input.rows) SpoilSharing(row);
  for (StepRow& row : now_->input.rows) {
    SpoilShrinking(row);
    if (bug_ == PlantedBug::kRollingForgotten) SpoilRolling(row.policy);
  }
  if (bug_ == PlantedBug::kScoreBlockNotPrepared && !now_->input.score_inits.empty())
    now_->input.score_inits.pop_back();
  if (bug_ == PlantedBug::kRowDropped && now_->input.rows.size() >= 2 && now_->input.rows[0].targets.empty() &&
      now_->input.rows[0].losses.cuts == 0 && now_->input.rows[0].drafts() == 0) {
    now_->dropped_row = 0;
    now_->input.rows.erase(now_->input.rows.begin());
  }
}

void BuggyExecutor::SpoilPair(StepRow& a, StepRow& b) {
  if (bug_ == PlantedBug::kSwappedTables && a.block_table.size() == b.block_table.size()) {
    std::swap(a.block_table, b.block_table);
  }
  if (bug_ == PlantedBug::kForeignBlock) {
    now_->copies.emplace_back(a.block_table.begin(), a.block_table.end()).back() = b.block_table.back();
    a.block_table = now_->copies.back();
  }
  if (bug_ == PlantedBug::kStateRowsSwapped && a.reuse_victim && b.reuse_victim) std::swap(a.state_row, b.state_row);
}

void BuggyExecutor::SpoilSharing(StepRow& row) {
  switch (bug_) {
    case PlantedBug::kCopyForgotten:
      row.copies = {};
      break;
    case PlantedBug::kCopyOfAnother:
      if (row.copies.size() < 2) break;
      now_->block_copies.assign(row.copies.begin(), row.copies.end());
      std::swap(now_->block_copies[0].from_score_block, now_->block_copies[1].from_score_block);
      row.copies = now_->block_copies;
      break;
    case PlantedBug::kOwnScoreBlock:
      row.score_table = row.block_table;
      break;
    case PlantedBug::kSnapshotLost:
      row.snapshots = {};
      break;
    case PlantedBug::kHitTooLong:
      // In the first row of a request that took something over, the block after it is passed off as computed.
      if (row.prefill && row.position > 0 && row.tokens.size() > kBlockSlots) {
        row.position += kBlockSlots;
        row.live += kBlockSlots;
        row.tokens = row.tokens.subspan(kBlockSlots);
        if (!row.targets.empty()) row.targets = row.targets.subspan(kBlockSlots);
      }
      break;
    default:
      break;
  }
}

void BuggyExecutor::SpoilShrinking(StepRow& row) {
  if (row.prefill || !row.policy->evicts) {
    first_policies_.erase(row.sampling->key);
    return;
  }
  const EvictionPolicy first = first_policies_.emplace(row.sampling->key, *row.policy).first->second;
  if (first.keep() == row.policy->keep()) return;
  switch (bug_) {
    case PlantedBug::kShrinkForgotten:
      row.shrink_to = 0;
      break;
    case PlantedBug::kShrinkWithOldPolicy:
      row.policy = &now_->policies.emplace_back(first);
      break;
    case PlantedBug::kShrinkOfRecentAlone: {
      EvictionPolicy& policy = now_->policies.emplace_back(*row.policy);
      policy.recent = std::max(1, policy.keep() - first.heavy);
      policy.heavy = row.policy->keep() - policy.recent;
      row.policy = &policy;
      break;
    }
    default:
      break;
  }
}

void BuggyExecutor::SpoilRolling(const EvictionPolicy*& policy) {
  if (!policy->rolling) return;
  EvictionPolicy& absolute = now_->policies.emplace_back(*policy);
  absolute.rolling = false;
  policy = &absolute;
}

void BuggyExecutor::SpoilRow(StepRow& row) {
  switch (bug_) {
    case PlantedBug::kStaleBlock:
      if (last_table_.size() > row.block_table.size()) {
        now_->copies.emplace_back(row.block_table.begin(), row.block_table.end()).back() = last_table_.back();
      }
      last_table_.assign(row.block_table.begin(), row.block_table.end());
      if (!now_->copies.empty()) row.block_table = now_->copies.back();
      break;
    case PlantedBug::kLiveTooHigh:
      if (row.live + 1 < static_cast<int32_t>(row.block_table.size()) * kBlockSlots && row.live > 0) ++row.live;
      break;
    case PlantedBug::kLiveTooLow:
      if (row.live > 1) --row.live;
      break;
    case PlantedBug::kVictimNotReused:
      row.reuse_victim = false;
      break;
    case PlantedBug::kVictimNotChosen:
      row.choose_victim = false;
      break;
    case PlantedBug::kCutForgotten:
      row.shrink_to = 0;
      break;
    case PlantedBug::kCutTooDeep:
      if (row.shrink_to > 1) --row.shrink_to;
      break;
    case PlantedBug::kPinsForgotten:
      row.segment_starts = {};
      break;
    case PlantedBug::kInnerCutForgotten:
      if (row.prefill && row.position + std::ssize(row.tokens) < row.prompt_length) row.shrink_to = 0;
      break;
    case PlantedBug::kWrongToken:
      if (!row.prefill) {
        std::vector<int32_t>& tokens = now_->copies.emplace_back(row.tokens.begin(), row.tokens.end());
        tokens[0] = (tokens[0] + 1) % 2;
        row.tokens = tokens;
      }
      break;
    case PlantedBug::kTokenInFlightLost:
      if (row.tokens[0] == kSampledId) row.tokens = now_->copies.emplace_back(1, 0);
      break;
    case PlantedBug::kEndsForgotten:
      row.stop_ids = {};
      break;
    case PlantedBug::kEndsMadeUp:
      if (row.stop_ids.empty() && row.sample) row.stop_ids = now_->copies.emplace_back(std::vector<int32_t>{0, 1});
      break;
    case PlantedBug::kPositionOff:
      if (!row.prefill) --row.position;
      break;
    case PlantedBug::kWrongPolicy:
      if (row.policy->evicts && row.policy->heavy > 0) {
        now_->policy = *row.policy;
        --now_->policy.heavy;
        ++now_->policy.recent;
        row.policy = &now_->policy;
      }
      break;
    default:
      break;
  }
}

void BuggyExecutor::SpoilOutput(StepOutput& output) const {
  if (now_->dropped_row >= 0) {
    output.rows.insert(output.rows.begin(), RowOutput());
    output.rows[0].sampled.id = 0;
  }
  if (bug_ == PlantedBug::kAnswersSwapped && output.rows.size() >= 2) {
    std::swap(output.rows[0].sampled, output.rows[1].sampled);
  }
  for (RowOutput& row : output.rows) {
    if (bug_ != PlantedBug::kDraftAnswersMoved || row.drafts.empty()) continue;
    std::rotate(row.drafts.begin(), row.drafts.end() - 1, row.drafts.end());
    std::swap(row.sampled, row.drafts.front());
  }
  if (bug_ != PlantedBug::kFailureHidden) return;
  for (RowOutput& row : output.rows) {
    if (!row.sampled.finite) row.sampled.finite = true;
  }
}

void SpoilOptions(PlantedBug bug, EngineCoreOptions& options) {
  if (bug == PlantedBug::kContextIgnored) options.context = FakeRanks::kPositionMax;
  if (bug == PlantedBug::kNeverAhead) options.overlap = false;
  const bool several = options.scheduler.tenants.size() > 1;
  // LeaveFewRows alone makes pools so large.
  const bool rows_are_few = options.scheduler.blocks >= 60;
  const bool impatient =
      several && (bug == PlantedBug::kNeverImpatient || (bug == PlantedBug::kRowsNeverGiven && rows_are_few));
  if (impatient || (bug == PlantedBug::kNeverBack && !several)) options.scheduler.swap_patience = 1'000'000;
  if (bug == PlantedBug::kPeaksIgnored) options.scheduler.swap_blocks_max *= 100;
  SpoilTenants(bug, options.scheduler.tenants);
}

void SpoilTenants(PlantedBug bug, std::vector<TenantOptions>& tenants) {
  for (TenantOptions& tenant : tenants) {
    if (bug == PlantedBug::kWeightsIgnored) tenant.weight = 1;
    if (bug == PlantedBug::kCapsIgnored) tenant.blocks_max = 0;
    if (bug == PlantedBug::kFloorsIgnored) tenant.floor_blocks = 0;
  }
  if (bug == PlantedBug::kTenantTakenForGone) tenants.back().gone = true;
}

void SpoilRequest(PlantedBug bug, size_t tenants, Request& request) {
  if (bug == PlantedBug::kPriorityIgnored) request.priority = 0;
  KvBudget& budget = request.budget;
  if (bug == PlantedBug::kSaltIgnored) request.prefix.salt = PrefixSalt();
  if (bug == PlantedBug::kRollingSaltForgotten) request.prefix.salt.high = static_cast<uint64_t>(request.tenant);
  if (bug == PlantedBug::kGeneratedIsTaken) request.prefix.takes_generated = true;
  if (bug == PlantedBug::kTwinsBesideEachOther) request.prefix.publishes = false;
  if (bug == PlantedBug::kStrideIgnored) budget.prompt_stride = 0;
  if (bug == PlantedBug::kTailSplit) request.tail_tokens = 0;
  if (bug == PlantedBug::kPastNotNeeded) request.needs_past = false;
  if (bug == PlantedBug::kBudgetFloorIgnored && budget.elastic()) budget.floor = std::max(1, budget.floor / 2);
  if (bug == PlantedBug::kAgreementIgnored) budget.floor = budget.keep;
  if (bug == PlantedBug::kGuaranteeIgnored && budget.limited() && !budget.elastic()) {
    budget.floor = std::max(1, budget.keep / 2);
  }
  // A session stays with its tenant: the scheduler asserts that.
  if (bug == PlantedBug::kTenantMixedUp && request.session == 0) {
    request.tenant = (request.tenant + 1) % static_cast<int32_t>(tenants);
  }
}

void SpoilEvents(PlantedBug bug, std::vector<EngineEvent>& events) {
  const auto is_end = [](const EngineEvent& event) { return event.finish != FinishReason::kNone; };
  const auto end = std::find_if(events.begin(), events.end(), is_end);
  const auto token = std::find_if(events.begin(), events.end(),
                                  [&](const EngineEvent& event) { return event.token >= 0 && !is_end(event); });
  switch (bug) {
    case PlantedBug::kTerminalLost:
      if (end != events.end()) events.erase(end);
      break;
    case PlantedBug::kTerminalTwice:
      if (end != events.end()) events.push_back(EngineEvent(*end));
      break;
    case PlantedBug::kTokenLost:
      if (token != events.end()) events.erase(token);
      break;
    case PlantedBug::kTokenTwice:
      if (token != events.end()) events.push_back(EngineEvent(*token));
      break;
    case PlantedBug::kEventsMixedUp:
      if (events.size() >= 2) std::swap(events[0].id, events[1].id);
      break;
    case PlantedBug::kLiveMisreported:
      if (!events.empty()) ++events[0].live;
      break;
    default:
      break;
  }
}

}  // namespace hydrant::sim
