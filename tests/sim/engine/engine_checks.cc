// The part of EngineEpisode that holds what is against what must be.
#include <algorithm>

#include "tests/sim/engine/engine_episode.h"

namespace hydrant::sim {

void EngineEpisode::CheckRound() {
  const Backlog backlog = engine_->backlog();
  if (backlog.sequences != open_) {
    failure_.Set("the engine counts ", backlog.sequences, " sequences, ", open_, " are open");
  }
  if (open_ == 0 && backlog.prompt_tokens != 0) {
    failure_.Set(backlog.prompt_tokens, " prompt tokens wait, and nobody does");
  }
}

// Nobody could go on.
void EngineEpisode::CheckWaits() {
  const Scheduler& scheduler = core_->scheduler();
  int32_t held_up = 0;
  for (const int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    held_up += sequence.paused ? 1 : 0;
    if (!sequence.paused) failure_.Set("sequence ", sequence.request.id, " could go on, and the engine waits");
  }
  if (scheduler.waiting() > 0 && held_up == 0 && !paused_in_force_) {
    failure_.Set(scheduler.waiting(), " requests wait, and so does the engine");
  }
  // Whoever is held up has something to read.
  for (const std::unique_ptr<SimJob>& job : jobs_) {
    if (job->mailbox == nullptr && job->open() == 0 && !job->IsFree()) {
      failure_.Set("request ", job->first_id, " is over, and somebody keeps its mailbox or its account");
    }
  }
  if (reads_answered_ != reads_asked_) {
    failure_.Set(reads_asked_, " looked at sessions, ", reads_answered_, " answers came");
  }
  for (size_t i = 0; i < tenants_.size(); ++i) {
    if (scheduler.tenant(static_cast<int32_t>(i)).options.weight != tenants_[i].weight) {
      failure_.Set("tenant ", i, " does not weigh what was ordered");
    }
  }
  if (told_all_) CheckSessions();
}

// Only turns from which a session goes on, or may, are parked, and its card says so.
void EngineEpisode::CheckSessions() {
  const ParkedSessions& parked = core_->scheduler().parked();
  for (const auto& [id, live] : device_.parked()) {
    if (parked.Find(id) == nullptr) failure_.Set("the device keeps turn ", id.turn, " of session ", id.session);
  }
  for (int32_t name = 0; name < profile_.sessions; ++name) {
    const ApiResult<SessionStore::View> view = store_->Inspect(TenantOfSession(name), NameOfSession(name));
    if (!view.ok() || view.value().past == nullptr || view.value().card.state == SessionState::kBusy) continue;
    const TurnId id = {view.value().number, view.value().past->turn};
    const ParkedCounts* due = parked.Find(id);
    if (view.value().card.live != (due == nullptr ? 0 : due->live)) {
      failure_.Set("session ", id.session, " is shown with ", view.value().card.live, " slots parked");
    }
    for (const auto& [other, live] : device_.parked()) {
      if (other.session != id.session || other == id) continue;
      failure_.Set("session ", id.session, " goes on from turn ", id.turn, ", and turn ", other.turn, " is parked");
    }
  }
}

void EngineEpisode::CheckDeath() {
  if (!device_gone_) failure_.Set("the engine is dead");
  if (ended_ && died_ != 1) failure_.Set("the engine is dead, and ", died_, " have heard of it");
}

// With everybody gone nothing is left.
void EngineEpisode::CheckEnd() {
  for (const std::unique_ptr<SimJob>& job : jobs_) {
    if (job->mailbox == nullptr) continue;
    failure_.Set("the client of request ", job->first_id, " still waits for its end");
  }
  if (device_gone_ && !dead_) failure_.Set("the device is gone, and the engine goes on");
  if (dead_) {
    for (const std::unique_ptr<SimJob>& job : jobs_) {
      if (!job->IsFree()) failure_.Set("a dead engine keeps the mailbox of request ", job->first_id);
    }
    if (reads_answered_ != reads_asked_) failure_.Set("who looked at a session never heard that the engine is dead");
    ++result_.deaths;
    return;
  }
  for (int32_t name = 0; name < profile_.sessions; ++name) DeleteSession(name);
  if (!stopped_ && !Drains()) return;
  const EngineCounters counters = core_->counters();
  if (open_ != 0 || core_->scheduler().running() + core_->scheduler().waiting() != 0) {
    failure_.Set(open_, " sequences are open at the end");
  }
  // Stopped, it parks nothing more.
  if (counters.blocks_used != 0 && !(stopped_ && core_->moving())) {
    failure_.Set(counters.blocks_used, " blocks are used at the end");
  }
  if (!stopped_ && (counters.parked_blocks != 0 || !device_.parked().empty())) {
    failure_.Set(counters.parked_blocks, " blocks are parked with all sessions deleted");
  }
  if (counters.steps_lost != result_.steps_lost) {
    failure_.Set(counters.steps_lost, " steps are counted as lost, ", result_.steps_lost, " were");
  }
  if (const absl::Status status = core_->scheduler().CheckIntegrity(); !status.ok()) failure_.Set(status.message());
}

}  // namespace hydrant::sim
