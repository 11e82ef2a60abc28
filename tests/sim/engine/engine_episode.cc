#include "tests/sim/engine/engine_episode.h"

#include <algorithm>
#include <new>
#include <utility>

namespace hydrant::sim {
namespace {

// No episode takes a tenth of this: something goes round in circles.
constexpr uint64_t kRoundsMax = 100'000;

}  // namespace

EngineEpisode::Profile::Profile(Random& random) {
  SchedulerOptions& scheduler = core.scheduler;
  limits.context_max = random.Between(40, 160);
  limits.sequences_max = random.Between(1, 6);
  limits.waiting_sequences_max = random.Between(1, 10);
  limits.inbox_max = random.Chance(30) ? random.Between(1, 3) : 64;
  limits.batch_tokens_max = random.Between(32, 96);
  // Whatever fits the context fits the pool when nothing else runs.
  scheduler.blocks = limits.context_max / kBlockSlots + random.Between(2, 40);
  scheduler.sequences_max = limits.sequences_max;
  scheduler.waiting_max = limits.sequences_max + limits.waiting_sequences_max;
  scheduler.tokens_max = limits.batch_tokens_max;
  scheduler.prefill_tokens_max = random.Between(16, 64);
  scheduler.spare_score_blocks = random.Chance(50) ? 0 : 2 * scheduler.blocks;
  scheduler.parked_blocks_max = random.Chance(10) ? 0 : random.Between(4, 60);
  scheduler.eos_ids = {kEos};
  tenants = random.Between(1, 3);
  scheduler.tenants.resize(static_cast<size_t>(tenants));
  for (int32_t i = 0; i < tenants; ++i) scheduler.tenants[static_cast<size_t>(i)].name = "t" + std::to_string(i);
  core.vocab = kVocab;
  core.context = limits.context_max;
  core.overlap = random.Chance(50);
  sessions = random.Chance(30) ? 0 : random.Between(1, 6);
  jobs = random.Between(20, 80);
  read_percent = random.Between(10, 100);
  slow_percent = random.Chance(50) ? 0 : random.Between(10, 100);
  no_memory_permille = random.Chance(60) ? 0 : random.Between(1, 40);
  no_number_permille = random.Chance(70) ? 0 : random.Between(1, 20);
  ending = random.Chance(60) ? Ending::kDrains : random.Chance(60) ? Ending::kStops : Ending::kDies;
}

EngineEpisode::EngineEpisode(uint64_t seed, EngineBug bug)
    : bug_(bug),
      random_(Mix(seed)),
      profile_(random_),
      device_(bug, failure_),
      tenants_(profile_.core.scheduler.tenants) {
  device_.next = [](const StepRow& row, int32_t position) { return ScriptedToken(row.sampling->key, position); };
  device_.lacks_memory = [this](const StepInput& input) { return LacksMemory(input); };
  device_.in_flight = [this](const StepInput& input) { SeeStep(input); };
  device_.is_gone = [this] { return device_gone_ = dying_; };
}

bool EngineEpisode::Start() {
  absl::StatusOr<std::unique_ptr<EngineCore>> core =
      EngineCore::Create(profile_.core, device_, [this] { return ++now_us_; });
  if (!core.ok()) return failure_.Set("the core refuses its options: ", core.status().message());
  core_ = core->get();
  engine_ = std::make_unique<Engine>(*std::move(core), profile_.limits, Hooks());
  port_ = std::make_unique<BuggyEngine>(bug_, *engine_);
  SessionStore::Options options;
  options.clock = [this] { return now_us_; };
  options.wall_clock = [] { return int64_t{1'700'000'000}; };
  options.on_forget = [this](uint64_t session) { port_->DropSession(session); };
  options.on_settle = [this](const TurnId& turn, bool keep) { port_->SettleTurn(turn, keep); };
  store_ = std::make_unique<SessionStore>(std::move(options));
  return true;
}

EngineHooks EngineEpisode::Hooks() {
  EngineHooks hooks;
  hooks.fan_out = [this](const EventRouter::MailboxList& list) { FanOut(list); };
  hooks.on_death = [this](const std::string&) { died_ += bug_ == EngineBug::kDeathUntold ? 0 : 1; };
  hooks.on_parked = [this](std::span<const TurnId> dropped, std::span<const ParkedTurn> parked) {
    if (random_.Below(1000) < profile_.no_memory_permille) {
      told_all_ = false;
      throw std::bad_alloc();
    }
    if (bug_ != EngineBug::kParkedUntold) store_->OnParked(dropped, parked);
  };
  return hooks;
}

EngineResult EngineEpisode::Run() {
  if (Start()) {
    while (!failure_.any() && !ended_ && result_.jobs < static_cast<uint64_t>(profile_.jobs)) {
      Act();
      Round();
    }
    if (!failure_.any()) End();
  }
  result_.failure = failure_.text();
  // What is still in progress ends with store and engine there.
  for (const std::unique_ptr<SimJob>& job : jobs_) job->turn.reset();
  return result_;
}

void EngineEpisode::Round() {
  const int64_t launched = device_.launches;
  const int64_t open = open_;
  in_inbox_ = 0;
  paused_in_force_ = paused_;
  const Engine::Round round = port_->MakeRound();
  if (++result_.rounds > kRoundsMax) failure_.Set("it never ends");
  if (failure_.any()) return;
  if (round == Engine::Round::kWaits) {
    ++result_.waits;
    CheckWaits();
  }
  ended_ = round == Engine::Round::kEnded;
  dead_ = engine_->dead();
  if (dead_) CheckDeath();
  if (!dead_) CheckRound();
  const bool worked = device_.launches != launched || open_ != open || round != Engine::Round::kWorked;
  idle_rounds_ = worked ? 0 : idle_rounds_ + 1;
  // One for what was ordered, and one to find that it makes no step; more where clients could not be woken.
  if (idle_rounds_ > 50) failure_.Set("the engine goes round and does nothing");
}

// Wakes clients, some of whom run at once.
void EngineEpisode::FanOut(const EventRouter::MailboxList& list) {
  const bool put_off = std::exchange(waking_failed_, random_.Below(1000) < profile_.no_memory_permille);
  if (waking_failed_) throw std::bad_alloc();
  for (size_t i = bug_ == EngineBug::kWakeLost ? 1 : 0; i < list.size(); ++i) list[i]->Wake();
  // Who is woken late may be woken before the engine looks at its inbox, and then nobody knows how many jobs are in
  // there.
  if (put_off || over_ || !random_.Chance(30)) return;
  ++result_.on_waking;
  ReadSome();
  Act();
}

// For the step of these rows and of what comes back, or for what leaves the pool between two steps.
bool EngineEpisode::LacksMemory(const StepInput& input) {
  if (random_.Below(1000) >= profile_.no_memory_permille) return false;
  if (input.rows.empty() && input.restores.empty()) {
    ++result_.parks_lost;
    return true;
  }
  ++result_.steps_lost;
  const auto lose = [this](uint64_t key) {
    const auto [job, choice] = by_key_[static_cast<size_t>(key)];
    job->choices[choice].lost = true;
  };
  for (const StepRow& row : input.rows) lose(row.sampling->key);
  // Also those whose first row is still to come.
  std::vector<uint64_t> to_come(core_->admitted().begin(), core_->admitted().end());
  for (const PlanRestore& restore : core_->scheduler().plan().restores) {
    to_come.push_back(core_->scheduler().sequence(restore.sequence).request.id);
  }
  for (const std::unique_ptr<SimJob>& job : jobs_) {
    for (size_t i = 0; i < job->choices.size(); ++i) {
      if (std::find(to_come.begin(), to_come.end(), job->first_id + i) != to_come.end()) lose(job->choices[i].key);
    }
  }
  return true;
}

void EngineEpisode::SeeStep(const StepInput& input) {
  device_.not_finite = !input.rows.empty() && random_.Below(1000) < profile_.no_number_permille;
  for (const StepRow& row : input.rows) {
    if (!device_.not_finite || !row.sample) continue;
    const auto [job, choice] = by_key_[static_cast<size_t>(row.sampling->key)];
    job->choices[choice].failed = true;
  }
  if (over_ || input.rows.empty() || !random_.Chance(30)) return;
  ++result_.in_flight;
  Act();
}

// Everybody reads until nothing is left to do. False: something is wrong.
bool EngineEpisode::Drains() {
  const auto read = [this] {
    bool anybody = false;
    for (const std::unique_ptr<SimJob>& job : jobs_) {
      if (!job->woken) continue;
      anybody = true;
      Read(*job);
    }
    return anybody;
  };
  for (bool rests = false; !rests && !ended_ && !failure_.any();) {
    const uint64_t waits = result_.waits;
    const bool anybody = read();
    Round();
    rests = !anybody && result_.waits != waits;
  }
  read();
  return !failure_.any();
}

void EngineEpisode::End() {
  over_ = true;
  if (profile_.ending == Ending::kStops) {
    result_.stops += open_ > 0 ? 1 : 0;
    stopped_ = true;
    for (const std::unique_ptr<SimJob>& job : jobs_) {
      for (SimChoice& choice : job->choices) choice.cancelled = true;
    }
    port_->Stop();
  }
  if (profile_.ending == Ending::kDies) {
    paused_ = false;
    port_->PauseAdmission(false);
    dying_ = true;
  }
  if (profile_.ending == Ending::kDrains && paused_) {
    paused_ = false;
    port_->PauseAdmission(false);
  }
  if (!Drains()) return;
  if (stopped_ && !ended_) failure_.Set("the engine waits after Stop");
  CheckEnd();
}

}  // namespace hydrant::sim
