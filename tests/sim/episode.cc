#include "tests/sim/episode.h"

#include <algorithm>
#include <utility>

namespace hydrant::sim {
namespace {

// No episode takes a hundredth of this: something goes round in circles.
constexpr int64_t kStepsMax = 1'000'000;

}  // namespace

Episode::Episode(const EpisodeOptions& options)
    : options_(options),
      overlap_(options.overlap.value_or(Mix(options.seed + 77) % 2 == 0)),
      workload_(options.seed, options.swaps),
      executor_({workload_.core().scheduler.blocks, workload_.core().scheduler.spare_score_blocks,
                 workload_.layer_heads(), workload_.core().scheduler.sequences_max, workload_.core().vocab,
                 workload_.context(), options.check_contract, overlap_, options.swaps},
                requests_, failure_),
      oracle_(workload_.layer_heads(), workload_.core().vocab, workload_.core().scheduler.eos_ids),
      sessions_(static_cast<size_t>(workload_.sessions()) + 1),
      buggy_(options.bug, executor_),
      digesting_(options.digest, buggy_),
      tenants_(workload_, requests_, options.bug, failure_),
      turns_(workload_.core().scheduler.parked_blocks_max, failure_),
      memory_(workload_, options.bug, failure_),
      swaps_(workload_, requests_, failure_) {
  executor_.loses_victims = options.bug == PlantedBug::kSwapVictimLost;
  executor_.before_swaps = [this] { swaps_.BeforeMoves(core_->scheduler(), options_.bug == PlantedBug::kVictimPays); };
  executor_.swap_fails = [this] { return workload_.SwapFails(); };
  executor_.waits_for_blocks = [this](const SimRequest& request) { return WaitsForBlocks(request); };
  executor_.in_flight = [this] { ActInFlight(); };
  executor_.step_fails = [this] { return workload_.StepFails(); };
  executor_.on_change = [this](SimRequest& request) { RunOracle(request); };
}

bool Episode::Start() {
  EngineCoreOptions options = workload_.core();
  options.overlap = overlap_;
  SpoilOptions(options_.bug, options);
  absl::StatusOr<std::unique_ptr<EngineCore>> core =
      EngineCore::Create(options, digesting_, [this] { return ++now_us_; });
  if (!core.ok()) return failure_.Set("the core refuses its options: ", core.status().message());
  core_ = std::move(*core);
  if (options_.bug == PlantedBug::kSwapsCrawl) core_->LimitSteps({.blocks_moved_max = 2});
  digesting_.Watch(core_->scheduler());
  return true;
}

EpisodeResult Episode::Run() {
  if (!Start()) {
    result_.failure = failure_.text();
    return result_;
  }
  while (!failure_.any()) {
    ++step_;
    Act();
    if (core_->idle()) {
      if (workload_.exhausted() && settling_.empty()) break;
      continue;
    }
    Step();
    if (ends_ != added_ && (free_steps_ > last_deadline_ || step_ > kStepsMax)) {
      failure_.Set("step ", step_, ": somebody waits for ever");
    }
  }
  CheckFinal();
  const SchedulerCounters& counters = core_->scheduler().counters();
  result_.failure = failure_.text();
  result_.block_operations = core_->scheduler().block_manager().pool().operations();
  result_.slots_read = executor_.slots_read();
  result_.steps = counters.steps;
  result_.requests = requests_.size();
  result_.fairness_checks = tenants_.fairness_checks();
  result_.floor_checks = tenants_.floor_checks();
  result_.ahead_waiting = ahead_waiting_;
  result_.withdrawn_checks = tenants_.withdrawn_checks();
  result_.giver_checks = tenants_.giver_checks();
  result_.twin_checks = twin_checks_;
  result_.memory_checks = memory_.checks();
  result_.evicted_tokens = counters.evicted_tokens;
  result_.cached_tokens = executor_.cached_tokens();
  result_.generated_taken = executor_.generated_taken();
  result_.copied_blocks = executor_.copied_blocks();
  result_.restored_tokens = executor_.restored_tokens();
  result_.turn_cuts = executor_.turn_cuts();
  result_.turns_given_up = turns_.given_up();
  result_.turns_gone_back = turns_.gone_back();
  result_.rows_left_out = executor_.rows_left_out();
  result_.swaps_out = executor_.swaps_out();
  result_.swaps_in = counters.swaps_in;
  result_.swaps_lost = counters.swaps_lost;
  result_.swap_waits = swaps_.admission_checks();
  result_.swap_budgets = swaps_.budget_checks();
  result_.swap_shares = swaps_.share_checks();
  result_.swap_passes = swaps_.passed();
  result_.outside_max = swaps_.outside_max();
  result_.swaps_max = swaps_.swaps_max();
  result_.held_up_max = swaps_.held_up_max();
  result_.held_up = swaps_.held_up();
  result_.floor_waits = swaps_.floor_waits();
  result_.due_heads = swaps_.due_heads();
  result_.due_plans_max = swaps_.due_plans_max();
  result_.row_waits = swaps_.row_waits();
  result_.shrinks = executor_.shrinkings();
  result_.steps_ahead = executor_.steps_ahead();
  result_.draft_rows = executor_.draft_rows();
  result_.drafts_kept = executor_.drafts_kept();
  result_.drafts_over = executor_.drafts_over();
  result_.rows_behind = executor_.rows_behind();
  result_.ends_known = executor_.ends_known();
  result_.moves_in_slices = counters.moves_in_slices;
  result_.parked_lost = core_->scheduler().parked().lost();
  return result_;
}

void Episode::Act() {
  SettleTurns();
  if (!workload_.exhausted()) {
    for (int32_t i = workload_.Arrivals(); i > 0; --i) AddRequest();
  }
  ReadSlowly();
  if (workload_.CancelsNow()) CancelSomebody(false);
  if (workload_.ResetsNow()) {
    disturbed_ = true;
    // Without what it would have found it may need more.
    if (promised_ != 0 && requests_[promised_ - 1]->request.request.prefix.looks_up) promised_ = 0;
    core_->ResetPrefixes();
    ++resets_;
  }
  if (workload_.DropsSessionNow()) {
    disturbed_ = true;
    const uint64_t session = workload_.AnySession();
    if (promised_ != 0 && requests_[promised_ - 1]->request.request.session == session) promised_ = 0;
    core_->DropSession(session);
    turns_.OnDrop(session, core_->scheduler());
  }
  if (workload_.LimitsStepsNow()) {
    const SchedulerOptions& scheduler = workload_.core().scheduler;
    StepLimits limits;
    limits.alone = workload_.random().Between(kBlockSlots, scheduler.tokens_max);
    limits.beside_decodes = workload_.random().Between(kBlockSlots, scheduler.prefill_tokens_max);
    limits.shared = workload_.random().Between(1, 3 * kBlockSlots);
    limits.block_moved = workload_.random().Between(0, kBlockSlots);
    limits.blocks_moved_max = blocks_moved_max_ = workload_.random().Between(2, 6);
    swaps_.LimitMoves(true);
    if (options_.bug == PlantedBug::kMovesUnbounded) limits.blocks_moved_max = StepLimits().blocks_moved_max;
    core_->LimitSteps(limits);
    executor_.shares_steps = scheduler.policy == SchedulingPolicy::kFair && scheduler.tenants.size() > 1;
  }
  if (workload_.ReloadsNow()) Reload();
  if (workload_.PausesAdmission(admission_paused_) != admission_paused_) {
    disturbed_ = true;
    admission_paused_ = !admission_paused_;
    if (options_.bug != PlantedBug::kAdmissionNotPaused) core_->PauseAdmission(admission_paused_);
  }
  for (const SimRequest* request : std::exchange(left_, {})) Cancel(request->id(), /*in_flight=*/false);
}

void Episode::Reload() {
  disturbed_ = true;
  promised_ = 0;  // a cap or another one's floor may be in its way now
  std::vector<TenantOptions> tenants = workload_.Reload();
  SpoilTenants(options_.bug, tenants);
  core_->SetTenants(tenants);
  tenants_.OnReload();
  ++result_.reloads;
}

// Readers that were behind catch up, as the server does it: with the next look at what was sent, those that were paused go on.
void Episode::ReadSlowly() {
  std::erase_if(slow_, [this](SimRequest* request) {
    if (!request->ended && (request->unread == 0 || !workload_.ReadsNow())) return false;
    if (request->paused || request->ended) {
      // An end may overtake the reader: then this comes for a request that is gone.
      SetPaused(*request, false);
    }
    request->unread = 0;
    return request->ended;
  });
}

void Episode::SetPaused(SimRequest& request, bool paused) {
  disturbed_ = true;
  const PlantedBug forgotten = paused ? PlantedBug::kPauseIgnored : PlantedBug::kResumeForgotten;
  if (options_.bug != forgotten) core_->SetPaused(request.id(), paused);
  if (options_.bug == PlantedBug::kPauseOfAnother) core_->SetPaused(request.id() + 1, paused);
  executor_.SetPaused(request, paused);
  request.late = executor_.OnItsWay(request) ? 1 : 0;
}

int32_t Episode::paused() const {
  return static_cast<int32_t>(
      std::count_if(slow_.begin(), slow_.end(), [](const SimRequest* request) { return request->paused; }));
}

// Requests that were just admitted hold what they found in the prefix cache, or had parked, before they have a row.
void Episode::SeeAdmissions(bool as_planned) {
  saw_plan_ = true;
  const std::span<const int32_t> running = core_->scheduler().running_sequences();
  for (int32_t index : running.last(core_->scheduler().admitted().size())) {
    const Sequence& sequence = core_->scheduler().sequence(index);
    Begin(*requests_[sequence.request.id - 1], sequence);
    CheckTwins(sequence);
    CheckReserved(sequence);
  }
  if (options_.swaps) SeeSwaps(as_planned);
}

// Who comes back has its blocks from the plan on that says so.
void Episode::SeeSwaps(bool as_planned) {
  const Scheduler& scheduler = core_->scheduler();
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    SimRequest& request = *requests_[sequence.request.id - 1];
    if (request.aside && sequence.blocks.size() > 0) executor_.TakeBack(request, sequence.blocks.blocks());
  }
  swaps_.AfterPlan(scheduler, as_planned);
  for (const Tenant& tenant : scheduler.tenants()) {
    if (tenant.queue.empty()) continue;
    const Sequence& head = scheduler.sequence(tenant.queue.front());
    SimRequest& request = *requests_[head.request.id - 1];
    if (head.given_room > 0 && request.chosen_us < 0) request.chosen_us = now_us_;
  }
}

// As it stands when a plan is launched: whoever has a row in it has its slot.
bool Episode::WaitsForBlocks(const SimRequest& request) const {
  const Scheduler& scheduler = core_->scheduler();
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    if (sequence.request.id != request.id()) continue;
    return !sequence.in_pool() || (sequence.in_flight == 0 && sequence.decodes() && !sequence.has_slot());
  }
  return false;
}

// The scheduler takes somebody for paused who is not: for an anchor that need not stay, for one that need not come back, or for one
// that waits until floors are lowered.
void Episode::PlantSwapBug() {
  const Scheduler& scheduler = core_->scheduler();
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    const uint64_t id = sequence.request.id;
    const SimRequest& request = *requests_[id - 1];
    if (options_.bug == PlantedBug::kSwapOfAnchor && !request.paused) {
      core_->SetPaused(id, index == scheduler.swapping().anchor() && step_ % 8 == 0);
    }
    if (options_.bug == PlantedBug::kHeldByRaisedFloors && !request.paused && sequence.in_pool()) {
      core_->SetPaused(id, sequence.peak_blocks > swaps_.BesideFloors(sequence.request.tenant));
    }
    if (options_.bug == PlantedBug::kAdmittedBehindSwapped && !request.paused) {
      core_->SetPaused(id, sequence.place == KvPlace::kOutside && step_ % 8 != 0);
    }
  }
}

void Episode::Begin(SimRequest& request, const Sequence& sequence) {
  if (request.started) {
    failure_.Set("request ", request.id(), " was admitted twice");
    return;
  }
  request.started = true;
  request.begun_after = resets_;
  if (sequence.restored > 0) {
    const bool recalls = request.request.request.history >= 0;
    if (request.past == nullptr ||
        sequence.restored != (recalls ? request.past->request.request.history : request.past->solo.computed())) {
      failure_.Set("request ", request.id(), " goes on from ", sequence.restored, " tokens");
      return;
    }
    // What it recalls is what it would have computed itself.
    if (!recalls) {
      request.before = request.past;
      request.begin = sequence.restored;
      request.state_before = request.past->ScoreState(request.begin - 1);
    }
    result_.recalled += recalls ? 1 : 0;
  } else if (request.must_resume || request.request.request.needs_past) {
    failure_.Set("request ", request.id(), " has lost what its session had parked when it came");
    return;
  }
  RunOracle(request);
  if (request.policy.rolling) {
    ++result_.rolling;
    result_.rolling_restored += request.before != nullptr ? 1 : 0;
    // They stand at lower positions than the text has.
    result_.outgrown += request.prompt_length() > workload_.context() ? 1 : 0;
    result_.outgrown_far += request.prompt_length() > 4 * workload_.context() ? 1 : 0;
  }
  workload_.Remember(request.solo.text);
  if (sequence.restored > 0) {
    executor_.Resume(request, sequence.restored, sequence.blocks.blocks(), sequence.to_restore == 0);
  }
  if (sequence.cached > 0) executor_.TakeOver(request, sequence.cached, sequence.blocks.blocks());
}

// What turns leave of their prompts while they go on, where there was room for the scores.
void Episode::SeeHistories() {
  for (const Session& session : sessions_) {
    SimRequest* request = session.turn;
    if (request == nullptr || request->seen_history || request->settled) continue;
    const Request& asked = request->request.request;
    if (asked.history <= 0 || request->computed < asked.history) continue;
    request->seen_history = true;
    const TurnId id = {asked.session, asked.turn};
    const bool parked = core_->scheduler().parked().Find(id) != nullptr;
    // Who is cancelled, or ended without its text, need not.
    const bool goes_on = !request->cancelled && !request->solo.text.empty();
    turns_.OnLeave(id, BlocksForSlots(asked.history), parked || (request->has_history && goes_on));
    result_.histories_left += parked ? 1 : 0;
  }
}

void Episode::ActInFlight() {
  SeeAdmissions(/*as_planned=*/true);
  tenants_.CheckGivers(core_->scheduler());
  LeaveSessions();
  if (workload_.CancelsInFlight()) CancelSomebody(true);
  if (!workload_.exhausted() && workload_.AddsInFlight()) {
    for (int32_t i = workload_.Arrivals(); i > 0; --i) AddRequest();
  }
  tenants_.BeforeEnds(core_->scheduler());
  memory_.BeforeCharge(core_->scheduler());
}

void Episode::CancelSomebody(bool in_flight) {
  if (requests_.empty()) return;
  // Mostly a young one, for those are likely to be there still; sometimes any, or one that never was.
  const int32_t count = static_cast<int32_t>(requests_.size());
  const int32_t back = workload_.random().Chance(90) ? std::min(count, 1 + workload_.random().Below(16))
                                                     : workload_.random().Below(count + 1);
  Cancel(static_cast<uint64_t>(count - back + 1), in_flight);
}

void Episode::Cancel(uint64_t id, bool in_flight) {
  disturbed_ = true;
  const bool alive = id <= requests_.size() && !requests_[id - 1]->ended && !requests_[id - 1]->cancelled &&
                     !requests_[id - 1]->swap_failed && !Ending(id);
  if (options_.bug != PlantedBug::kCancelIgnored || !alive) {
    tenants_.BeforeEnds(core_->scheduler());
    const bool cancelled = core_->Cancel(id);
    tenants_.AfterEnds(core_->scheduler());
    if (cancelled != alive) failure_.Set("Cancel of request ", id, " says ", cancelled, ", expected ", alive);
  }
  if (!alive) return;
  SimRequest& request = *requests_[id - 1];
  request.cancelled = true;
  ++result_.cancelled;
  if (in_flight || executor_.OnItsWay(request)) {
    ++result_.cancelled_in_flight;
    return;
  }
  executor_.Forget(request);
  if (options_.bug == PlantedBug::kCancelIgnored) return;
  executor_.SeeDrops(core_->scheduler().parked());
  const int32_t used = core_->scheduler().block_manager().pool().used();
  if (used != executor_.held_blocks()) {
    failure_.Set("after Cancel of request ", id, " ", used, " blocks are used, ", executor_.held_blocks(), " are live");
  }
}

// It has ended, and its last event is still to come.
bool Episode::Ending(uint64_t id) const {
  if (requests_[id - 1]->may_miss_past() && core_->scheduler().Find(id) < 0) return true;
  const std::span<const int32_t> running = core_->scheduler().running_sequences();
  return std::any_of(running.begin(), running.end(), [&](int32_t index) {
    const Sequence& sequence = core_->scheduler().sequence(index);
    return sequence.request.id == id && sequence.retired();
  });
}

void Episode::Step() {
  const Scheduler& scheduler = core_->scheduler();
  const bool work = unfinished() > 0;
  const int32_t held_up = paused();
  // Slow readers are a reason not to go on only for what they read themselves, a paused admission for who waits.
  const bool nobody_waits = held_up == 0 && !admission_paused_;
  const std::span<const int32_t> running = scheduler.running_sequences();
  const auto has_its_kv = [&](int32_t index) { return scheduler.sequence(index).to_restore == 0; };
  // Where sequences step aside, those in the pool may wait for those that leave it, and for slow readers' blocks.
  const bool must_compute = !options_.swaps && std::count_if(running.begin(), running.end(), has_its_kv) > held_up;
  const bool must_advance = must_compute || (work && nobody_waits);
  const bool prompts_wait =
      std::any_of(running.begin(), running.end(), [&](int32_t index) { return scheduler.sequence(index).prefills(); });
  const bool admits = !admission_paused_ && !core_->in_flight();
  const bool disturbed_before = std::exchange(disturbed_, false);
  free_steps_ += nobody_waits ? 1 : 0;
  result_.paused_steps += held_up == 0 ? 0 : 1;
  const int64_t planned_us = now_us_ + 1;  // if nothing was in flight
  const uint64_t chosen = swaps_.chosen();
  const uint64_t missed = result_.pasts_missed;
  executor_.SeeDrops(scheduler.parked());
  tenants_.BeforeStep(scheduler, admits);
  turns_.BeforeStep(scheduler);
  memory_.BeforeCharge(scheduler);
  const bool forgotten = options_.bug == PlantedBug::kPromiseForgotten && promised_ != 0;
  if (forgotten) core_->PauseAdmission(true);
  saw_plan_ = false;
  if (options_.swaps) PlantSwapBug();
  const bool closed_to_all = options_.bug == PlantedBug::kClosedToAll && scheduler.swapping().aside() > 0;
  if (closed_to_all) core_->PauseAdmission(true);
  std::span<const EngineEvent> events = core_->Step();
  if (!saw_plan_) SeeAdmissions(/*as_planned=*/false);  // there was nothing to launch
  if (forgotten || closed_to_all) core_->PauseAdmission(admission_paused_);
  if (options_.digest != nullptr) options_.digest->AddStep(events, scheduler);
  if (options_.bug != PlantedBug::kNone) {
    spoilt_events_.assign(events.begin(), events.end());
    SpoilEvents(options_.bug, spoilt_events_);
    events = spoilt_events_;
  }
  const StepReport& report = core_->report();
  for (size_t i = 0; i < events.size() && !failure_.any(); ++i) {
    const auto is_of = [id = events[i].id](const EngineEvent& event) { return event.id == id; };
    const auto later = std::count_if(events.begin() + static_cast<std::ptrdiff_t>(i) + 1, events.end(), is_of);
    CheckEvent(events[i], static_cast<int32_t>(later));
  }
  const bool advanced = report.rows > 0 || report.blocks_moved > 0;
  const bool computed = report.rows > 0 || result_.pasts_missed > missed;  // or found nobody to compute for
  if ((must_compute && !computed) || (must_advance && !advanced && !computed) || (!work && report.rows > 0)) {
    failure_.Set("step ", step_, ": ", unfinished(), " requests, ", held_up, " paused, and ", report.rows, " rows");
  }
  if (admission_paused_ && !scheduler.admitted().empty()) {
    failure_.Set("step ", step_, ": request ", scheduler.admitted().front(), " is admitted while admission is paused");
  }
  // The one with the prompt may have stepped aside.
  const bool may_have_left = scheduler.swapping().aside() > 0 || swaps_.chosen() > chosen;
  if (prompts_wait && report.prefill_tokens == 0 && !may_have_left)
    failure_.Set("step ", step_, ": admitted prompts wait");
  CheckMoves();
  if (!failure_.any()) CheckState();
  if (!failure_.any()) SeeHistories();
  if (!failure_.any()) turns_.AfterStep(scheduler, scheduler.drops().empty() ? executor_.parked_blocks() : -1);
  if (!failure_.any()) CheckPromise(admits, planned_us);
  if (!failure_.any()) CheckAhead(!disturbed_before && !disturbed_ && IsCalm(events));
  if (!failure_.any() && report.rows > 0) tenants_.AfterEnds(scheduler);
  if (!failure_.any()) tenants_.AfterStep(scheduler);
  if (!failure_.any()) memory_.AfterStep(scheduler);
  if (!failure_.any()) swaps_.AfterStep(scheduler, executor_.swapped_blocks());
}

EpisodeResult RunEpisode(const EpisodeOptions& options) { return Episode(options).Run(); }

}  // namespace hydrant::sim
