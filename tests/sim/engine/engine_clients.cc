// The part of EngineEpisode that asks: its clients and its operator.
#include <algorithm>
#include <span>

#include "server/engine/prefix_sharing.h"
#include "tests/sim/engine/engine_episode.h"

namespace hydrant::sim {

void EngineEpisode::Act() {
  const int32_t what = random_.Below(100);
  if (what < 40) {
    Submit();
  } else if (what < 75) {
    ReadSome();
  } else if (what < 90) {
    SimJob* job = AnyJob();
    if (job != nullptr && random_.Chance(50)) {
      Cancel(*job);
    } else if (job != nullptr) {
      Leave(*job);
    }
  } else {
    Operate();
  }
}

void EngineEpisode::Operate() {
  switch (random_.Below(5)) {
    case 0:
      for (TenantOptions& tenant : tenants_) tenant.weight = random_.Between(1, 8) / 2.0;
      port_->SetTenants(tenants_);
      break;
    case 1:
      paused_ = !paused_;
      port_->PauseAdmission(paused_);
      break;
    case 2:
      port_->ResetPrefixes();
      break;
    case 3:
      if (profile_.sessions > 0) DeleteSession(random_.Below(profile_.sessions));
      break;
    default:
      LookAtSession();
      break;
  }
}

void EngineEpisode::DeleteSession(int32_t name) { (void)store_->Delete(TenantOfSession(name), NameOfSession(name)); }

void EngineEpisode::LookAtSession() {
  if (profile_.sessions == 0) return;
  const int32_t name = random_.Below(profile_.sessions);
  const ApiResult<SessionStore::View> view = store_->Inspect(TenantOfSession(name), NameOfSession(name));
  if (!view.ok()) return;
  ++reads_asked_;
  ++result_.reads;
  port_->ReadKv(view.value().number, std::make_shared<KvReading>(), [this] { ++reads_answered_; });
}

KvResolution EngineEpisode::DrawPolicy() {
  KvResolution kv;
  if (random_.Chance(50)) return kv;
  const int32_t keep = random_.Between(4, 32);
  kv.budget = random_.Chance(50) ? KvBudget::Exact(keep) : KvBudget::Periodic(keep, random_.Between(1, 8));
  kv.policy.evicts = true;
  kv.policy.recent = random_.Between(1, keep);
  kv.policy.heavy = keep - kv.policy.recent;
  kv.policy.rolling = random_.Chance(30);
  return kv;
}

void EngineEpisode::Submit() {
  const bool is_turn = profile_.sessions > 0 && random_.Chance(50);
  const int32_t count = is_turn ? 1 : random_.Between(1, 3);
  const int64_t unread_max = random_.Chance(profile_.slow_percent) ? random_.Between(1, 6) : 0;
  auto job = std::make_unique<SimJob>(bug_, count, unread_max, failure_);
  job->tenant = random_.Below(profile_.tenants);
  job->kv = DrawPolicy();
  const int32_t prompt_max = std::min(40, profile_.core.context - 4);
  for (int32_t i = random_.Between(1, prompt_max); i > 0; --i) job->prompt.push_back(random_.Between(2, 4));
  int32_t max_tokens = random_.Between(1, std::min<int32_t>(30, profile_.core.context - std::ssize(job->prompt)));
  if (is_turn && !BeginTurn(*job, max_tokens)) return;
  const bool too_long = !is_turn && !job->kv.policy.rolling && random_.Chance(3);
  if (too_long) max_tokens = profile_.core.context;
  std::vector<SequenceRequest> sequences;
  for (size_t i = 0; i < job->choices.size(); ++i) {
    sequences.push_back(MakeSequence(*job, i, max_tokens));
    job->choices[i].too_long = too_long;
  }
  Send(std::move(job), std::move(sequences));
}

// The next turn of some session says all of its past and something new, or begins another conversation where that is
// too long.
bool EngineEpisode::BeginTurn(SimJob& job, int32_t max_tokens) {
  const int32_t name = random_.Below(profile_.sessions);
  job.tenant = TenantOfSession(name);
  ApiResult<SessionTurn> turn = store_->Begin({.tenant = job.tenant}, NameOfSession(name), /*must_exist=*/false);
  if (!turn.ok()) {
    ++result_.busy;
    if (turn.error().code != "session_busy") failure_.Set("a turn is refused: ", turn.error().code);
    return false;
  }
  job.turn = std::make_unique<SessionTurn>(std::move(turn.value()));
  const SessionPast* past = job.turn->past();
  if (past == nullptr) return true;
  job.kv = past->kv;
  if (std::ssize(past->tokens) + std::ssize(job.prompt) + max_tokens > profile_.core.context) return true;
  job.prompt.insert(job.prompt.begin(), past->tokens.begin(), past->tokens.end());
  job.resumes = past->turn;
  return true;
}

SequenceRequest EngineEpisode::MakeSequence(SimJob& job, size_t choice, int32_t max_tokens) {
  SimChoice& own = job.choices[choice];
  if (by_key_.empty()) by_key_.emplace_back();  // 0 is nobody's
  own.key = by_key_.size();
  by_key_.emplace_back(&job, choice);
  own.prompt_length = static_cast<int32_t>(job.prompt.size());
  own.Run(max_tokens);
  SequenceRequest sequence;
  Request& request = sequence.request;
  request.tenant = job.tenant;
  request.arrival_us = now_us_;
  request.prompt = job.prompt;
  request.max_tokens = max_tokens;
  request.budget = job.kv.budget;
  request.prefix = SharePrefixes(job.kv.policy, {static_cast<uint64_t>(job.tenant), 1}, /*whole_prompt=*/false);
  if (job.turn != nullptr) {
    request.session = job.turn->session();
    request.turn = job.turn->turn();
    request.resumes = job.resumes;
    if (job.resumes != 0 && job.turn->parked() != nullptr) sequence.parked_tokens = job.turn->parked()->computed;
  }
  sequence.policy = job.kv.policy;
  sequence.sampling.key = own.key;
  return sequence;
}

void EngineEpisode::Send(std::unique_ptr<SimJob> sent, std::vector<SequenceRequest> sequences) {
  SimJob& job = *jobs_.emplace_back(std::move(sent));
  ++result_.jobs;
  const auto count = static_cast<int64_t>(sequences.size());
  const Limits& limits = profile_.limits;
  const bool room = open_ + count <= int64_t{limits.sequences_max} + limits.waiting_sequences_max &&
                    in_inbox_ < limits.inbox_max && !stopped_ && !dead_;
  job.on_ended = [this] { --open_; };
  job.on_admitted = [this, &job] {
    if (paused_in_force_) failure_.Set("request ", job.first_id, " is admitted while admission is paused");
  };
  GenerationJob generation;
  generation.sequences = std::move(sequences);
  generation.mailbox = job.mailbox;
  generation.ledger = job.ledger;
  const std::optional<uint64_t> id = port_->TrySubmit(std::move(generation));
  if (id.has_value() != room) {
    failure_.Set("a request of ", count, " is ", id.has_value() ? "accepted" : "refused", " beside ", open_,
                 " sequences and ", in_inbox_, " requests that were not looked at");
  }
  if (!id.has_value()) {
    ++result_.refused;
    job.turn.reset();
    job.Release();
    return;
  }
  job.first_id = *id;
  open_ += count;
  ++in_inbox_;
}

SimJob* EngineEpisode::AnyJob() {
  std::vector<SimJob*> open;
  for (const std::unique_ptr<SimJob>& job : jobs_) {
    if (job->mailbox != nullptr) open.push_back(job.get());
  }
  return open.empty() ? nullptr : open[static_cast<size_t>(random_.Below(static_cast<int32_t>(open.size())))];
}

void EngineEpisode::ReadSome() {
  for (const std::unique_ptr<SimJob>& job : jobs_) {
    if (job->woken && random_.Chance(profile_.read_percent)) Read(*job);
  }
}

void EngineEpisode::Read(SimJob& job) {
  if (job.Read()) {
    ++result_.resumed;
    port_->Resume(job.first_id, static_cast<int32_t>(job.choices.size()));
  }
  if (job.IsOver()) Finish(job);
  if (job.engine_died) {
    job.turn.reset();
    job.Release();
  }
}

// As GenerationRun has it: the turn is over before anybody can know of its end.
void EngineEpisode::Finish(SimJob& job) {
  const SimChoice& only = job.choices.front();
  if (job.turn != nullptr && EndsByItself(only.finish)) {
    ++result_.turns;
    SessionPast past;
    past.tokens = job.prompt;
    // A token that only says that the text is over is no part of it.
    const auto end = only.text.end() - (only.finish == FinishReason::kStop ? 1 : 0);
    past.tokens.insert(past.tokens.end(), only.text.begin(), end);
    past.computed = only.prompt_length + static_cast<int32_t>(only.text.size()) - 1;
    past.kv = job.kv;
    job.turn->End(std::move(past));
  }
  job.turn.reset();
  job.Release();
}

void EngineEpisode::Cancel(SimJob& job) {
  for (size_t i = 0; i < job.choices.size(); ++i) {
    SimChoice& choice = job.choices[i];
    if (choice.cancelled || choice.finish != FinishReason::kNone) continue;
    choice.cancelled = true;
    ++result_.cancelled;
    port_->Cancel(job.first_id + i);
  }
}

// A turn that the engine has ended is over, whether or not its client stayed to hear of it.
void EngineEpisode::Leave(SimJob& job) {
  ++result_.left;
  if (job.turn != nullptr) Read(job);
  if (job.mailbox == nullptr) return;
  Cancel(job);
  job.turn.reset();
  job.Release();
}

}  // namespace hydrant::sim
