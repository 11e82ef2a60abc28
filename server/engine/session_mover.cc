#include "server/engine/session_mover.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace hydrant {
namespace {

// Turns that the executor forgets with one launch: the memory for their list is taken at the start. Where more are dropped at
// once it takes several launches.
constexpr size_t kDropsMax = 64;

}  // namespace

SessionMover::SessionMover(Scheduler& scheduler, Executor& executor, int32_t layer_heads,
                           std::function<PolicyInForce(int32_t sequence)> policy_of, std::function<void()> await_step,
                           std::function<void(const TurnId&, KvBytes)> on_loss)
    : scheduler_(scheduler),
      executor_(executor),
      layer_heads_(layer_heads),
      policy_of_(std::move(policy_of)),
      await_step_(std::move(await_step)),
      on_loss_(std::move(on_loss)) {
  // A turn leaves KV in the pool once, at its end or before, and Move comes after every step. Where more are on their
  // way, the list grows.
  const auto turns = static_cast<size_t>(scheduler.sequence_indices());
  moves_.reads.reserve(1);
  moves_.drops.reserve(kDropsMax);
  if (scheduler.swapping().on()) {
    moves_.swap_drops.reserve(turns);
    moves_.swap_outs.reserve(turns);
  }
  moves_.parks.reserve(turns);
  parked_.reserve(turns);
  park_failures_.reserve(turns);
  dropped_.reserve(kDropsMax + turns);
}

int64_t SessionMover::Move(bool step_in_flight) {
  dropped_.clear();
  parked_.clear();
  if (step_in_flight) {
    assert(scheduler_.parks().empty());
    return 0;
  }
  std::span<const TurnId> drops = scheduler_.drops();
  if (scheduler_.parks().empty() && drops.empty()) return 0;
  for (const TurnId& turn : drops) {
    GiveAway(turn);
    Tell(turn);
  }
  for (; drops.size() > kDropsMax; drops = drops.subspan(kDropsMax)) Drop(drops.first(kDropsMax));
  moves_.clear();
  moves_.drops.assign(drops.begin(), drops.end());
  const bool listed = ListParks();
  int64_t blocks = 0;
  for (const ParkOp& park : moves_.parks) blocks += park.slice.size();
  if (Launch() && listed) {
    scheduler_.FinishParks(park_failures_);
  } else {
    // Whatever was to begin is lost.
    for (const ParkedTurn& turn : parked_) park_failures_.push_back(turn.id);
    scheduler_.FailParks();
    blocks = 0;
  }
  for (const TurnId& lost : park_failures_) {
    Tell(lost);
    std::erase_if(parked_, [&lost](const ParkedTurn& turn) { return turn.id == lost; });
  }
  return blocks;
}

// Adds the slices that are to be parked to the moves. False, and they have none: there is no memory for the list.
bool SessionMover::ListParks() {
  try {
    for (const PlanPark& from : scheduler_.parks()) {
      if (from.begins) parked_.push_back({from.id, from.computed, from.live});
    }
    for (const PlanPark& from : scheduler_.parks()) {
      if (!from.begins && from.slice.size() == 0) continue;
      const EvictionPolicy* policy = from.begins ? policy_of_(from.sequence).policy : nullptr;
      moves_.parks.push_back({from, from.block_table, from.score_table, policy});
    }
    return true;
  } catch (const std::bad_alloc&) {
    moves_.parks.clear();
    return false;
  }
}

// Has the moves done. False: there was no memory for that, but drops are done all the same (executor.h).
bool SessionMover::Launch() {
  park_failures_.clear();
  if (moves_.drops.empty() && moves_.parks.empty()) return true;
  try {
    const StepOutput output = executor_.Run(moves_);
    park_failures_.assign(output.park_failures.begin(), output.park_failures.end());
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void SessionMover::Drop(std::span<const TurnId> turns) {
  moves_.clear();
  moves_.drops.assign(turns.begin(), turns.end());
  try {
    executor_.Run(moves_);
  } catch (const std::bad_alloc&) {
    // Launch has forgotten them all the same (executor.h).
  }
}

int64_t SessionMover::Swap(bool step_in_flight) {
  if (step_in_flight) {
    assert(scheduler_.swap_outs().empty());
    return 0;
  }
  const std::span<const uint64_t> drops = scheduler_.swap_drops();
  if (drops.empty() && scheduler_.swap_outs().empty()) return 0;
  int64_t blocks = 0;
  try {
    moves_.clear();
    moves_.swap_drops.assign(drops.begin(), drops.end());
    for (const PlanSwapOut& out : scheduler_.swap_outs()) {
      moves_.swap_outs.push_back({out, out.block_table, out.score_table});
      blocks += out.slice.size();
    }
    const StepOutput output = executor_.Run(moves_);
    scheduler_.FinishSwaps(output.swap_failures);
    return blocks;
  } catch (const std::bad_alloc&) {
    scheduler_.FailSwaps();  // what was to be dropped is (executor.h)
    return 0;
  }
}

// Whoever is not told finds it out when the session goes on.
void SessionMover::Tell(const TurnId& dropped) {
  try {
    dropped_.push_back(dropped);
  } catch (const std::bad_alloc&) {
  }
}

// A turn that another one of its session has taken the place of is nobody's loss. One that runs has not: it may be given up.
void SessionMover::GiveAway(const TurnId& dropped) const {
  if (on_loss_ == nullptr) return;
  const ParkedCounts* newest = scheduler_.parked().Newest(dropped.session);
  if (newest != nullptr && dropped < newest->id && !Runs(newest->id)) return;
  try {
    if (KvBytes kv = executor_.Parked(dropped); !kv.empty()) on_loss_(dropped, std::move(kv));
  } catch (const std::bad_alloc&) {
    // It goes as if nobody kept it elsewhere.
  }
}

bool SessionMover::Runs(const TurnId& turn) const {
  const std::span<const int32_t> running = scheduler_.running_sequences();
  return std::any_of(running.begin(), running.end(), [&](int32_t index) {
    const Request& request = scheduler_.sequence(index).request;
    return request.session == turn.session && request.turn == turn.turn;
  });
}

KvBytes SessionMover::ReadParked(const TurnId& turn, bool* is_coming) const {
  *is_coming = scheduler_.FindPark(turn) != nullptr;
  // Else it has ended for its client, and a row of it is in flight.
  *is_coming = *is_coming || Runs(turn);
  return *is_coming || scheduler_.parked().Find(turn) == nullptr ? KvBytes() : executor_.Parked(turn);
}

bool SessionMover::Adopt(const TurnId& turn, int32_t tenant, const KvBytes& kv) {
  if (scheduler_.parked().Find(turn) != nullptr) return true;
  if (!scheduler_.AdoptParked({turn, tenant, kv.computed, kv.live})) return false;
  if (executor_.Adopt(turn, kv)) return true;
  scheduler_.SettleTurn(turn, /*keep=*/false);
  return false;
}

void SessionMover::AddRestores(std::span<const PlanRestore> from, std::vector<RestoreOp>* to) const {
  for (const PlanRestore& restore : from) {
    to->push_back({restore, restore.block_table, policy_of_(restore.sequence).policy});
  }
}

void SessionMover::AddReturns(std::span<const PlanSwapIn> from, std::vector<SwapInOp>* to) {
  for (const PlanSwapIn& in : from) to->push_back({in, in.block_table});
}

void SessionMover::Read(uint64_t session, bool evicts, KvReading* out) {
  out->source = KvReading::Source::kNone;
  out->ahead.reset();
  out->aside = false;
  out->score_blocks_read = false;
  out->tokens.clear();
  for (const int32_t index : scheduler_.running_sequences()) {
    const Sequence& sequence = scheduler_.sequence(index);
    // A turn that failed may have a row in flight; what that leaves belongs to nobody.
    if (sequence.request.session != session || sequence.scheduled > sequence.known) continue;
    if (sequence.to_restore > 0) {
      out->ahead = 0;  // it waits for its KV, which is whole where it was parked
      break;
    }
    ReadRunning(index, out);
    return;
  }
  if (!out->ahead.has_value()) out->ahead = AheadOf(session);
  const ParkedCounts* parked = scheduler_.parked().Newest(session);
  if (parked == nullptr) return;
  out->source = KvReading::Source::kParked;
  out->turn = parked->id.turn;
  out->computed = parked->computed;
  out->live = parked->live;
  if (!evicts) return;
  const PlanPark* leaving = scheduler_.FindPark(parked->id);
  if (leaving == nullptr) return ReadScores({.parked = parked->id, .live = parked->live}, out);
  ReadScores({.live = parked->live, .score_blocks = leaving->score_table}, out);
}

std::optional<int32_t> SessionMover::AheadOf(uint64_t session) const {
  for (const Tenant& tenant : scheduler_.tenants()) {
    int32_t ahead = 0;
    for (const int32_t index : tenant.queue) {
      if (scheduler_.sequence(index).request.session == session) return ahead;
      ++ahead;
    }
  }
  return std::nullopt;
}

void SessionMover::ReadRunning(int32_t index, KvReading* out) {
  const Sequence& sequence = scheduler_.sequence(index);
  const auto [policy, label] = policy_of_(index);
  out->source = KvReading::Source::kRunning;
  out->turn = sequence.request.turn;
  // A row after an end leaves nothing in the cache.
  out->computed = sequence.ended() ? sequence.computed : sequence.scheduled;
  out->live = sequence.ended() ? sequence.held : sequence.live;
  out->blocks = sequence.blocks.size();
  out->aside = sequence.place != KvPlace::kPool;
  out->budget = sequence.request.budget;
  out->policy = *policy;
  out->policy_label = label;
  try {
    out->tokens.reserve(static_cast<size_t>(sequence.known));
  } catch (const std::bad_alloc&) {
    out->source = KvReading::Source::kNone;  // an onlooker's loss alone
    return;
  }
  out->tokens.assign(sequence.request.prompt.begin(), sequence.request.prompt.end());
  out->tokens.insert(out->tokens.end(), sequence.output.begin(), sequence.output.end());
  assert(std::ssize(out->tokens) == sequence.known);
  const bool stands_aside = sequence.place == KvPlace::kOutside || sequence.place == KvPlace::kReturning;
  if (policy->evicts && !stands_aside)
    ReadScores({.live = out->live, .score_blocks = sequence.blocks.score_blocks()}, out);
}

void SessionMover::ReadScores(const ReadOp& read, KvReading* out) {
  const int64_t bytes_per_slot = int64_t{layer_heads_} * static_cast<int64_t>(sizeof(float) + sizeof(int32_t));
  if (read.live == 0 || read.live * bytes_per_slot > kKvReadingBytesMax) return;
  await_step_();
  moves_.clear();
  moves_.reads.push_back(read);
  moves_.reads.back().out = &out->score_blocks;
  out->score_blocks.blocks = 0;
  try {
    executor_.Run(moves_);
    out->score_blocks_read = out->score_blocks.blocks > 0;
  } catch (const std::bad_alloc&) {
    // They are left out, as those are that would take too many bytes.
  }
}

}  // namespace hydrant
