#include "tests/sim/simulator.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "server/prefix_sharing.h"
#include "tests/sim/fake_executor.h"
#include "tests/sim/tenant_checks.h"
#include "tests/sim/workload.h"

namespace hydrant::sim {
namespace {

// A text that is complete with one certain token.
class TokenEnds : public EndFinder {
 public:
  explicit TokenEnds(int32_t token) : token_(token) {}
  bool Push(int32_t token) override { return token == token_; }

 private:
  const int32_t token_;
};

class Episode {
 public:
  explicit Episode(const EpisodeOptions& options)
      : options_(options),
        workload_(options.seed),
        executor_({workload_.core().scheduler.blocks, workload_.core().scheduler.spare_sides, workload_.pairs(),
                   workload_.core().scheduler.sequences_max, workload_.core().vocab, options.check_contract},
                  requests_, failure_),
        buggy_(options.bug, executor_),
        tenants_(workload_, requests_, failure_) {
    executor_.in_flight = [this] { ActInFlight(); };
    executor_.on_shrink = [this](SimRequest& request) { Replay(request); };
  }

  EpisodeResult Run();

 private:
  bool Start();
  void Act();
  void ActInFlight();
  void SeeAdmissions();
  void AddRequest();
  void MakeTurn(uint64_t session, EngineRequest& made);
  void PrepareToResume(SimRequest& request);
  void EndTurn(SimRequest& request);
  void Replay(SimRequest& request);
  void CheckPromise(bool due);
  void CancelSomebody(bool in_flight);
  void Reload();
  void Step();
  void CheckEvent(const EngineEvent& event);
  void CheckTokens(const EngineEvent& event, SimRequest& request);
  void CheckEnd(const EngineEvent& event, SimRequest& request);
  void CheckState();
  void CheckFinal();
  int32_t unfinished() const { return core_->scheduler().running() + core_->scheduler().waiting(); }

  const EpisodeOptions options_;
  Workload workload_;
  Failure failure_;
  std::vector<std::unique_ptr<SimRequest>> requests_;
  FakeExecutor executor_;
  struct SimSession {
    SimRequest* last = nullptr;  // the turn whose KV is parked, if any is
    bool busy = false;
  };
  std::map<uint64_t, SimSession> sessions_;
  BuggyExecutor buggy_;
  TenantChecks tenants_;
  std::unique_ptr<EngineCore> core_;
  // For whom the last step lowered budgets, if it must let that one in now; and whether anything happened since.
  uint64_t promised_ = 0;
  bool disturbed_ = false;
  int64_t now_us_ = 0;
  int64_t step_ = 0;
  int64_t outstanding_steps_ = 0;  // the most steps all unfinished requests need, one after the other
  int64_t last_deadline_ = 0;
  uint64_t added_ = 0;
  uint64_t ends_ = 0;
  EpisodeResult result_;
};

// The identities of a run's tokens; the first ones are those of the run it goes on from.
std::vector<uint64_t> MakeKeys(const SimRequest& request, const SoloRun& run, const std::vector<uint64_t>& before) {
  const PrefixSalt& salt = request.request.request.prefix.salt;
  std::vector<uint64_t> keys(before.begin(), before.begin() + run.begin);
  uint64_t key = keys.empty() ? Mix(salt.high * 3 + salt.low + 1) : keys.back();
  for (size_t position = keys.size(); position < run.text.size(); ++position) {
    key = Mix(key + static_cast<uint64_t>(run.text[position]) * 0x9e3779b97f4a7c15u + 1);
    if (static_cast<int32_t>(position) == run.first_pruned) key = Mix(key + Mix(request.id()));
    keys.push_back(key);
  }
  return keys;
}

bool Episode::Start() {
  EngineCoreOptions options = workload_.core();
  SpoilTenants(options_.bug, options.scheduler.tenants);
  absl::StatusOr<std::unique_ptr<EngineCore>> core = EngineCore::Create(options, buggy_, [this] { return ++now_us_; });
  if (!core.ok()) return failure_.Set("the core refuses its options: ", core.status().message());
  core_ = std::move(*core);
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
      if (workload_.exhausted()) break;
      continue;
    }
    Step();
    if (step_ > last_deadline_ && ends_ != added_) failure_.Set("step ", step_, ": somebody waits for ever");
  }
  CheckFinal();
  result_.failure = failure_.text();
  result_.block_operations = core_->scheduler().block_manager().pool().operations();
  result_.slots_checked = executor_.slots_checked();
  result_.steps = core_->scheduler().counters().steps;
  result_.requests = requests_.size();
  result_.fairness_checks = tenants_.fairness_checks();
  result_.floor_checks = tenants_.floor_checks();
  result_.evicted_tokens = core_->scheduler().counters().evicted_tokens;
  result_.cached_tokens = executor_.cached_tokens();
  result_.copied_blocks = executor_.copied_blocks();
  result_.restored_tokens = executor_.restored_tokens();
  result_.shrinks = executor_.shrinkings();
  result_.parked_lost = core_->scheduler().parked().lost();
  return result_;
}

void Episode::Act() {
  if (!workload_.exhausted()) {
    for (int32_t i = workload_.Arrivals(); i > 0; --i) AddRequest();
  }
  if (workload_.CancelsNow()) CancelSomebody(false);
  if (workload_.ResetsNow()) {
    disturbed_ = true;
    core_->ResetPrefixes();
  }
  if (workload_.ReloadsNow()) Reload();
}

void Episode::Reload() {
  disturbed_ = true;
  std::vector<TenantOptions> tenants = workload_.Reload();
  SpoilTenants(options_.bug, tenants);
  core_->SetTenants(tenants);
  tenants_.OnReload();
  ++result_.reloads;
}

// Requests that were just admitted hold what they found in the prefix cache before they have a row.
void Episode::SeeAdmissions() {
  for (int32_t index : core_->scheduler().running_sequences()) {
    const Sequence& sequence = core_->scheduler().sequence(index);
    SimRequest& request = *requests_[sequence.request.id - 1];
    if (sequence.restored > 0 && request.computed == 0) {
      if (!request.may_resume || sequence.restored != request.resumed_solo.begin) {
        failure_.Set("request ", request.id(), " goes on from ", sequence.restored, " tokens");
        return;
      }
      request.before = request.past;
      request.solo = request.resumed_solo;
      request.keys = request.resumed_keys;
      request.state_before = request.resumed_state;
      executor_.Resume(request, sequence.blocks.blocks());
    }
    if (request.must_resume && sequence.restored == 0) {
      failure_.Set("request ", request.id(), " has lost what its session had parked when it came");
      return;
    }
    if (sequence.cached > 0 && request.computed == 0) {
      executor_.TakeOver(request, sequence.cached, sequence.blocks.blocks());
    }
  }
}

void Episode::ActInFlight() {
  SeeAdmissions();
  if (workload_.CancelsInFlight()) CancelSomebody(true);
  if (!workload_.exhausted() && workload_.AddsInFlight()) {
    for (int32_t i = workload_.Arrivals(); i > 0; --i) AddRequest();
  }
}

void Episode::AddRequest() {
  disturbed_ = true;
  SimRequest& request = *requests_.emplace_back(std::make_unique<SimRequest>());
  const EngineCoreOptions& core = workload_.core();
  request.request = workload_.MakeRequest(requests_.size(), now_us_);
  const uint64_t session = workload_.DrawSession();
  if (session != 0) MakeTurn(session, request.request);
  request.policy = request.request.policy;
  request.fate = workload_.MakeFate(request.request);
  if (request.fate.text_end >= 0) request.request.end_finder = std::make_shared<TokenEnds>(request.fate.text_end);
  request.solo = RunSolo(request.request, request.fate, workload_.pairs(), core.vocab, core.scheduler.eos_ids);
  request.keys = MakeKeys(request, request.solo, {});
  PrepareToResume(request);
  workload_.Remember(request.solo.text);
  if (options_.bug == PlantedBug::kSaltIgnored) request.request.request.prefix.salt = PrefixSalt();
  for (int32_t pair = 0; pair < workload_.pairs(); ++pair) {
    request.scores[static_cast<size_t>(pair)] = FakeScores(request.id(), pair, request.fate.score_levels_log2);
  }

  const int64_t blocks_max = tenants_.BlocksMax(request.request.request.tenant);
  // What is parked when it arrives stays for it, within its tenant's share, and it needs no more than goes on from there.
  // Beyond the share it may be lost while the request waits, and then the request has to fit without it.
  const ParkedKv* parked = core_->scheduler().parked().Find(session);
  const bool resumes = request.may_resume && parked != nullptr && parked->turn == request.request.request.resumes;
  request.must_resume = resumes && core_->scheduler().KeepsPast(request.request.request);
  const auto exceeds = [&](const SoloRun& run) {
    return BlocksForSlots(SoloPeakSlots(request.request, run.begin, run.live_before)) > blocks_max;
  };
  const bool too_large = exceeds(resumes ? request.resumed_solo : request.solo);
  const bool unsure = resumes && !request.must_resume && exceeds(request.solo);
  const bool full = unfinished() == core.scheduler.sequences_max + core.scheduler.waiting_max;
  const absl::StatusCode expected = too_large        ? absl::StatusCode::kOutOfRange
                                    : full || unsure ? absl::StatusCode::kResourceExhausted
                                                     : absl::StatusCode::kOk;
  EngineRequest added = request.request;
  SpoilRequest(options_.bug, workload_.tenants().size(), added.request);
  const absl::Status status = core_->Add(std::move(added));
  // Without the contract, a cap or floor that is ignored has to be seen by what it lets happen.
  const bool overlooked = !options_.check_contract && too_large && status.code() != expected;
  if (status.code() != expected && !overlooked) {
    failure_.Set("request ", request.id(), ": Add says ", status.ToString(), ", expected ",
                 absl::StatusCodeToString(expected));
  }
  if (!status.ok()) {
    request.ended = true;
    request.gone = true;
    if (request.request.request.session != 0) sessions_[request.request.request.session].busy = false;
    ++result_.refused;
    return;
  }
  ++added_;
  // The oldest unfinished request advances in every step, by a block of its prompt or by a token: so those before this one
  // take at most the sum of their own lengths. One step more delivers the end of a cancelled one.
  request.cost_steps = BlocksForSlots(request.prompt_length()) + request.request.request.max_tokens + 2;
  // After a cut inside it, a prompt goes on in the middle of a block: two short chunks per stride.
  const int32_t stride = request.request.request.budget.prompt_stride;
  if (stride > 0) request.cost_steps += 2 * (request.prompt_length() / stride + 1);
  outstanding_steps_ += request.cost_steps;
  request.deadline_step = step_ + outstanding_steps_;
  last_deadline_ = std::max(last_deadline_, request.deadline_step);
}

// The next turn of a session says all of its past and something new. A session that is busy is left alone.
void Episode::MakeTurn(uint64_t session, EngineRequest& made) {
  SimSession& own = sessions_[session];
  if (own.busy) return;
  if (own.last != nullptr) {
    const EngineRequest& first = own.last->request;
    made.policy = first.policy;
    made.request.budget = first.request.budget;
    made.request.tenant = first.request.tenant;
    made.request.prefix = SharePrefixes(made.policy, first.request.prefix.salt, made.prompt_logprobs >= 0);
    if (!first.request.prefix.publishes) made.request.prefix = PrefixUse();
    std::vector<int32_t> history = own.last->solo.text;
    const std::vector<int32_t>& said = made.request.prompt;
    history.insert(history.end(), said.begin(), said.begin() + std::min<int64_t>(std::ssize(said), 20));
    // A prompt whose tokens are asked for one by one cannot leave any out.
    made.prompt_logprobs = -1;
    made.request.prompt = std::move(history);
    made.request.resumes = own.last->id();
    if (workload_.random().Chance(10)) {
      made.request.prompt[0] = (made.request.prompt[0] + 1) % workload_.core().vocab;  // edited: its server sees that
    }
    if (made.request.prompt[0] != own.last->solo.text[0]) made.request.resumes = 0;
  }
  made.request.session = session;
  made.request.turn = made.request.id;
}

void Episode::PrepareToResume(SimRequest& request) {
  const Request& asked = request.request.request;
  if (asked.session == 0) return;
  SimSession& own = sessions_[asked.session];
  own.busy = true;
  if (own.last == nullptr || asked.resumes != own.last->id()) return;
  const EngineCoreOptions& core = workload_.core();
  request.may_resume = true;
  request.past = own.last;
  request.resumed_solo =
      RunSolo(request.request, request.fate, workload_.pairs(), core.vocab, core.scheduler.eos_ids, &own.last->solo);
  request.resumed_keys = MakeKeys(request, request.resumed_solo, own.last->keys);
  request.resumed_state = own.last->ScoreState(own.last->solo.computed() - 1);
}

// A turn that ended by itself is the session's past from now on, whether or not it could be parked.
void Episode::EndTurn(SimRequest& request) {
  const uint64_t session = request.request.request.session;
  if (session == 0) return;
  SimSession& own = sessions_[session];
  own.busy = false;
  if (request.cancelled || !EndsByItself(request.solo.finish)) return;
  own.last = &request;
}

// The rest of its text follows from what it keeps from now on; what was said already stays.
void Episode::Replay(SimRequest& request) {
  const EngineCoreOptions& core = workload_.core();
  const SoloRun* before = request.before == nullptr ? nullptr : &request.before->solo;
  request.solo = RunSolo(request.request, request.fate, workload_.pairs(), core.vocab, core.scheduler.eos_ids, before,
                         request.shrinkings);
  request.keys =
      MakeKeys(request, request.solo, request.before == nullptr ? std::vector<uint64_t>() : request.before->keys);
}

void Episode::CancelSomebody(bool in_flight) {
  if (requests_.empty()) return;
  disturbed_ = true;
  // Mostly a young one, for those are likely to be there still; sometimes any, or one that never was.
  const int32_t count = static_cast<int32_t>(requests_.size());
  const int32_t back = workload_.random().Chance(90) ? std::min(count, 1 + workload_.random().Below(16))
                                                     : workload_.random().Below(count + 1);
  const uint64_t id = static_cast<uint64_t>(count - back + 1);
  const bool alive = id <= requests_.size() && !requests_[id - 1]->ended && !requests_[id - 1]->cancelled;
  if (options_.bug != PlantedBug::kCancelIgnored || !alive) {
    const bool cancelled = core_->Cancel(id);
    if (cancelled != alive) failure_.Set("Cancel of request ", id, " says ", cancelled, ", expected ", alive);
  }
  if (!alive) return;
  SimRequest& request = *requests_[id - 1];
  request.cancelled = true;
  ++result_.cancelled;
  if (in_flight) {
    ++result_.cancelled_in_flight;
    return;
  }
  executor_.Forget(request);
  if (options_.bug == PlantedBug::kCancelIgnored) return;
  const int32_t used = core_->scheduler().block_manager().pool().used();
  if (used != executor_.held_blocks()) {
    failure_.Set("after Cancel of request ", id, " ", used, " blocks are used, ", executor_.held_blocks(), " are live");
  }
}

// Nothing is taken from one sequence but for another that is let in with the next step. With several lines the next head may
// be another one's; a request that finds a prefix, or goes on from a session, may find it gone.
void Episode::CheckPromise(bool due) {
  const Scheduler& scheduler = core_->scheduler();
  const std::span<const uint64_t> admitted = scheduler.admitted();
  if (due && std::find(admitted.begin(), admitted.end(), promised_) == admitted.end()) {
    failure_.Set("step ", step_, ": budgets fell for request ", promised_, ", which is not let in");
  }
  promised_ = scheduler.shrinks_for();
  const auto lines = std::count_if(scheduler.tenants().begin(), scheduler.tenants().end(),
                                   [](const Tenant& tenant) { return !tenant.queue.empty(); });
  if (promised_ == 0) return;
  const Request& request = requests_[promised_ - 1]->request.request;
  if (lines > 1 || request.session != 0 || request.prefix.looks_up) promised_ = 0;
}

void Episode::Step() {
  const bool work = unfinished() > 0;
  const bool due = promised_ != 0 && !disturbed_;
  disturbed_ = false;
  tenants_.BeforeStep(core_->scheduler());
  const std::span<const EngineEvent> delivered = core_->Step();
  std::vector<EngineEvent> events(delivered.begin(), delivered.end());
  SpoilEvents(options_.bug, events);
  for (const EngineEvent& event : events) {
    if (!failure_.any()) CheckEvent(event);
  }
  if (work != (core_->report().rows > 0)) failure_.Set("step ", step_, ": there is work and nothing is computed");
  if (!failure_.any()) CheckState();
  if (!failure_.any()) CheckPromise(due);
  if (!failure_.any()) tenants_.AfterStep(core_->scheduler());
}

void Episode::CheckEvent(const EngineEvent& event) {
  if (event.id == 0 || event.id > requests_.size()) {
    failure_.Set("an event of request ", event.id);
    return;
  }
  SimRequest& request = *requests_[event.id - 1];
  if (request.ended) {
    failure_.Set("request ", event.id, ": an event after its end");
    return;
  }
  // A cancelled one whose blocks went before this step reports what it held then.
  const bool gone_before = request.gone;
  if (!gone_before) {
    const int32_t budget = request.policy.evicts ? request.policy.keep() : 0;
    if (event.budget != budget) failure_.Set("request ", event.id, " reports budget ", event.budget, ", not ", budget);
    if (event.live != request.live || event.evicted != request.computed - request.live ||
        event.blocks != static_cast<int32_t>(request.blocks.size())) {
      failure_.Set("request ", event.id, " reports live ", event.live, ", evicted ", event.evicted, ", blocks ",
                   event.blocks, "; it has live ", request.live, ", computed ", request.computed, ", blocks ",
                   request.blocks.size());
      return;
    }
  }
  CheckTokens(event, request);
  if (event.finish != FinishReason::kNone) {
    CheckEnd(event, request);
  } else if (request.cancelled) {
    failure_.Set("request ", event.id, ": an event after Cancel that is not its end");
  }
}

void Episode::CheckTokens(const EngineEvent& event, SimRequest& request) {
  const uint64_t id = request.id();
  if (!event.prompt_logprobs.empty()) {
    if (request.request.prompt_logprobs < 0 || event.prompt_begin != request.prompt_seen) {
      failure_.Set("request ", id, ": prompt log-probabilities from ", event.prompt_begin, ", expected from ",
                   request.prompt_seen);
      return;
    }
    for (const SampleResult& result : event.prompt_logprobs) {
      const int32_t position = request.prompt_seen++;
      if (result.id != request.solo.text[static_cast<size_t>(position)] ||
          result.logprob != FakeLogprob(id, position)) {
        failure_.Set("request ", id, ": wrong log-probability of prompt token ", position);
      }
    }
  }
  if ((event.token >= 0) != (event.sampled != nullptr)) failure_.Set("request ", id, ": a token without its result");
  if (event.token < 0) {
    if (event.generated != request.tokens_seen) failure_.Set("request ", id, " reports ", event.generated, " tokens");
    return;
  }
  const int32_t position = request.prompt_length() + request.tokens_seen++;
  if (position >= static_cast<int32_t>(request.solo.text.size()) ||
      event.token != request.solo.text[static_cast<size_t>(position)]) {
    failure_.Set("request ", id, ": token ", event.token, " at ", position, " is not what it says alone");
  } else if (event.generated != request.tokens_seen || event.sampled->id != event.token ||
             event.sampled->logprob != FakeLogprob(id, position)) {
    failure_.Set("request ", id, ": token ", position, " comes with another's numbers");
  }
}

void Episode::CheckEnd(const EngineEvent& event, SimRequest& request) {
  const uint64_t id = request.id();
  const FinishReason expected = request.cancelled ? FinishReason::kAbort : request.solo.finish;
  if (event.finish != expected) {
    failure_.Set("request ", id, " ends with ", static_cast<int>(event.finish), ", expected ",
                 static_cast<int>(expected));
    return;
  }
  if (!request.cancelled) {
    if (request.tokens_seen != request.solo.generated() || event.stop_token != request.solo.stop_token) {
      failure_.Set("request ", id, " ends after ", request.tokens_seen, " tokens, expected ", request.solo.generated());
    }
    const bool whole_prompt = event.finish != FinishReason::kError && request.request.prompt_logprobs >= 0;
    if (whole_prompt && request.prompt_seen != request.prompt_length()) {
      failure_.Set("request ", id, ": log-probabilities of ", request.prompt_seen, " prompt tokens");
    }
  }
  const RequestTimes& times = event.times;
  const bool ordered =
      times.arrival_us == request.request.request.arrival_us &&
      (times.admitted_us == -1 || times.admitted_us >= times.arrival_us) &&
      (request.tokens_seen == 0 ? times.first_token_us == -1 && times.last_token_us == -1
                                : times.first_token_us > times.admitted_us &&
                                      times.last_token_us >= times.first_token_us && times.last_token_us <= now_us_);
  if (!ordered) failure_.Set("request ", id, ": its times are not in order");
  // With several tenants, or priorities, a later request may go first, and the bound is another.
  if (workload_.tenants().size() == 1 && !workload_.has_priorities() && step_ > request.deadline_step) {
    failure_.Set("request ", id, " waited until step ", step_, ", at most ", request.deadline_step, " was possible");
  }
  request.ended = true;
  EndTurn(request);
  request.times = times;
  ++ends_;
  outstanding_steps_ -= request.cost_steps;
  if (!request.gone) executor_.Forget(request);
  result_.failed += event.finish == FinishReason::kError ? 1 : 0;
  result_.stopped += event.finish == FinishReason::kStop || event.finish == FinishReason::kText ? 1 : 0;
  // A step takes the clock a few ticks ahead: more means it was not admitted at the first opportunity.
  result_.waited += times.admitted_us - times.arrival_us > 4 ? 1 : 0;
}

void Episode::CheckState() {
  if (const absl::Status status = core_->scheduler().CheckIntegrity(); !status.ok()) {
    failure_.Set("step ", step_, ": ", status.message());
  }
  const EngineCounters counters = core_->counters();
  if (counters.blocks_used != executor_.held_blocks() || counters.live_slots != executor_.live_slots()) {
    failure_.Set("step ", step_, ": ", counters.blocks_used, " blocks used for ", counters.live_slots,
                 " slots; the live sequences hold ", executor_.held_blocks(), " for ", executor_.live_slots());
  }
  if (counters.blocks_free + counters.blocks_used + counters.blocks_cached != workload_.core().scheduler.blocks) {
    failure_.Set("step ", step_, ": blocks do not add up");
  }
}

void Episode::CheckFinal() {
  if (failure_.any()) return;
  const EngineCounters counters = core_->counters();
  if (ends_ != added_) failure_.Set(added_, " requests, ", ends_, " ends");
  if (core_->scheduler().block_manager().sides().handed_out() != 0) failure_.Set("idle with side blocks handed out");
  if (counters.scheduler.restored_tokens != executor_.restored_tokens()) {
    failure_.Set(counters.scheduler.restored_tokens, " tokens were restored, ", executor_.restored_tokens(), " seen");
  }
  if (counters.scheduler.shrinks != executor_.shrinkings()) {
    failure_.Set(counters.scheduler.shrinks, " budgets fell, ", executor_.shrinkings(), " seen");
  }
  if (counters.scheduler.prefix_hits != executor_.cached_tokens()) {
    failure_.Set(counters.scheduler.prefix_hits, " tokens were found, ", executor_.cached_tokens(), " taken over");
  }
  if (counters.blocks_used != 0 || core_->scheduler().block_manager().promised() != 0) {
    failure_.Set("idle with ", counters.blocks_used, " blocks in use");
  }
  uint64_t evicted = 0;
  for (uint64_t by_label : counters.evicted_tokens) evicted += by_label;
  uint64_t ended = 0;
  for (uint64_t by_reason : counters.scheduler.finished) ended += by_reason;
  uint64_t freed = 0;
  for (uint64_t by_cause : counters.scheduler.freed_blocks) freed += by_cause;
  uint64_t tokens = 0;
  for (const std::unique_ptr<SimRequest>& request : requests_) tokens += static_cast<uint64_t>(request->tokens_seen);
  if (evicted != counters.scheduler.evicted_tokens || ended != added_ ||
      tokens != counters.scheduler.generated_tokens ||
      2 * freed != core_->scheduler().block_manager().pool().operations()) {
    failure_.Set("the counters do not add up: evicted ", evicted, ", ended ", ended, ", freed ", freed, ", tokens ",
                 tokens);
  }
  tenants_.AtEnd(core_->scheduler());
}

}  // namespace

EpisodeResult RunEpisode(const EpisodeOptions& options) { return Episode(options).Run(); }

}  // namespace hydrant::sim
