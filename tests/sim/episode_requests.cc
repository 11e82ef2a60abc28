// The part of Episode that makes requests and asks the oracle what must come of them.
#include <algorithm>
#include <utility>

#include "server/engine/prefix_sharing.h"
#include "tests/sim/episode.h"
#include "tests/sim/fake_drafts.h"

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

// Memory of something nobody needs any more, if there is any.
template <typename T>
T TakeSpare(std::vector<T>& spare) {
  if (spare.empty()) return T();
  T taken = std::move(spare.back());
  spare.pop_back();
  return taken;
}

// What a turn needs that leaves a part of its prompt: nobody may write there meanwhile. 0: it leaves none.
int64_t HistoryBlocks(const SequenceRequest& request) {
  const Request& asked = request.request;
  if (asked.history <= 0) return 0;
  return PeakBlocksShared(static_cast<int32_t>(asked.prompt.size()), asked.max_tokens, asked.budget);
}

}  // namespace

void Episode::AddRequest() {
  disturbed_ = true;
  SimRequest& request = *requests_.emplace_back(std::make_unique<SimRequest>());
  request.request = workload_.MakeRequest(requests_.size(), now_us_);
  const uint64_t session = workload_.DrawSession();
  if (session != 0) MakeTurn(session, request.request);
  request.prompt_tokens = static_cast<int32_t>(request.request.request.prompt.size());
  request.policy = request.request.policy;
  request.fate = workload_.MakeFate(request.request);
  request.ranks = FakeRanks(request.id(), request.fate.score_bits);
  request.unseen_slot.fill(-1);
  if (request.fate.text_end >= 0) request.request.end_finder = std::make_shared<TokenEnds>(request.fate.text_end);
  if (workload_.Drafts()) {
    request.request.drafter = std::make_shared<SimDrafter>(request, workload_.core().vocab);
  }
  if (request.fate.unread_max > 0) slow_.push_back(&request);
  request.blocks_alone = std::max(BlocksForSlots(SoloPeakSlots(request.request, 0, 0)), HistoryBlocks(request.request));
  BeginTurn(request);

  const absl::StatusCode expected = AnswerDue(request);
  SequenceRequest added = request.request;
  SpoilRequest(options_.bug, workload_.tenants().size(), added.request);
  const absl::Status status = core_->Add(std::move(added));
  // Without the contract, a cap, floor or context that is ignored has to be seen by what it lets happen.
  const bool too_large = expected == absl::StatusCode::kOutOfRange || expected == absl::StatusCode::kInvalidArgument;
  const bool overlooked = !options_.check_contract && too_large && status.code() != expected;
  if (status.code() != expected && !overlooked) {
    failure_.Set("request ", request.id(), ": Add says ", status.ToString(), ", expected ",
                 absl::StatusCodeToString(expected));
  }
  if (status.ok()) return ExpectEnd(request);
  request.ended = true;
  request.gone = true;
  if (request.request.request.session != 0) settling_.push_back({&request, /*keep=*/false});
  Release(request);
  ++result_.refused;
}

absl::StatusCode Episode::AnswerDue(const SimRequest& request) const {
  const Request& asked = request.request.request;
  const bool resumes = request.may_resume;
  const int32_t history = resumes ? request.past->request.request.history : -1;
  const int32_t parked = !resumes ? 0 : history >= 0 ? history : request.past->solo.computed();
  const int32_t live = !resumes ? 0 : history >= 0 ? history : request.past->solo.kept_count;
  // Beyond the share of its tenant what is parked may be lost while the request waits.
  const bool may_lose = request.may_resume && !request.must_resume;
  const int64_t slots_alone = SoloPeakSlots(request.request, 0, 0);
  const int64_t slots = SoloPeakSlots(request.request, parked, live);
  const bool rolls = request.policy.rolling;
  const int64_t positions = rolls ? slots : request.prompt_length() + asked.max_tokens;
  if (positions > workload_.context()) return absl::StatusCode::kInvalidArgument;
  if (rolls && may_lose && slots_alone > workload_.context()) return absl::StatusCode::kResourceExhausted;
  const int64_t blocks_max = tenants_.BlocksMax(asked.tenant);
  // What stays for it is all it needs beside what comes; what may be lost it has to do without.
  if (std::max(BlocksForSlots(slots), HistoryBlocks(request.request)) > blocks_max)
    return absl::StatusCode::kOutOfRange;
  if (asked.needs_past && !request.may_resume) return absl::StatusCode::kUnavailable;
  const bool unsure = may_lose && request.blocks_alone > blocks_max;
  const SchedulerOptions& scheduler = workload_.core().scheduler;
  const bool full = unfinished() == scheduler.sequences_max + scheduler.waiting_max;
  return full || unsure ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kOk;
}

// The oldest unfinished request advances in every free step, in which no slow reader holds anybody up and admission goes on, by
// a block of its prompt or by a token: so those before this one take at most the sum of their own lengths. One step more
// delivers the end of a cancelled one.
void Episode::ExpectEnd(SimRequest& request) {
  ++added_;
  request.cost_steps = BlocksForSlots(request.prompt_length()) + request.request.request.max_tokens + 2;
  // After a cut inside it, a prompt goes on in the middle of a block: two short chunks per stride.
  const int32_t stride = request.request.request.budget.prompt_stride;
  // With overlap, before it is let in, and once it has ended, a step that was on its way.
  if (overlap_) request.cost_steps += 2;
  if (stride > 0) request.cost_steps += 2 * (request.prompt_length() / stride + 1);
  // What its session has parked comes back, and what it leaves goes out, a block in a step at least.
  if (request.request.request.session != 0) {
    request.cost_steps += BlocksForSlots(request.prompt_length()) +
                          BlocksForSlots(request.prompt_length() + request.request.request.max_tokens);
  }
  // Whoever is before it may have to wait for others to step aside, again and again.
  if (options_.swaps) {
    const int64_t tokens = request.prompt_length() + request.request.request.max_tokens;
    request.cost_steps += 8 * (1 + tokens / kBlockSlots) * workload_.core().scheduler.blocks;
  }
  outstanding_steps_ += request.cost_steps;
  request.deadline_step = free_steps_ + 1 + outstanding_steps_;
  // Who has ended may have left something that is still on its way out.
  for (const PlanPark& park : core_->scheduler().parks()) request.deadline_step += BlocksForSlots(park.live);
  last_deadline_ = std::max(last_deadline_, request.deadline_step);
}

// The next turn of a session says all of its past and something new. A session that is busy is left alone.
void Episode::MakeTurn(uint64_t session, SequenceRequest& made) {
  Session& own = sessions_[session];
  if (own.turn != nullptr) return;
  if (own.last != nullptr) {
    const SequenceRequest& first = own.last->request;
    made.policy = first.policy;
    made.request.budget = first.request.budget;
    made.request.tenant = first.request.tenant;
    const bool takes_generated = made.request.prefix.takes_generated;
    made.request.prefix = SharePrefixes(made.policy, PrefixSalt(), made.prompt_logprobs >= 0);
    made.request.prefix.salt = first.request.prefix.salt;  // which says already whether positions roll
    made.request.prefix.takes_generated = takes_generated;
    if (!first.request.prefix.publishes) made.request.prefix = PrefixUse();
    std::vector<int32_t> history = own.last->solo.text;
    const std::vector<int32_t> said = made.request.prompt;
    history.insert(history.end(), said.begin(), said.begin() + std::min<int64_t>(std::ssize(said), 20));
    // A prompt whose tokens are asked for one by one cannot leave any out.
    made.prompt_logprobs = -1;
    made.request.resumes = own.last->id();
    if (workload_.random().Chance(10)) {
      history[0] = (history[0] + 1) % workload_.core().vocab;  // edited: its server sees that
    }
    made.request.prompt = std::move(history);
    if (made.request.prompt[0] != own.last->solo.text[0]) made.request.resumes = 0;
    if (MustStartOver(session, made)) {
      made.request.prompt = said;
      made.request.resumes = 0;
    }
  }
  made.request.session = session;
  made.request.turn = made.request.id;
  LetItRecall(own.last == nullptr ? nullptr : &own.last->request.request, &made);
  // As a server asks, of what was parked when it looked, and seldom of what is gone meanwhile.
  const bool parked = core_->scheduler().parked().Find({session, made.request.resumes}) != nullptr;
  made.request.needs_past = made.request.resumes != 0 && Random(Mix(made.request.id + 6)).Chance(parked ? 90 : 5);
  Workload::NameSegments(&made);
}

// All turns of a session recall, or none does. Half of those that evict and share do, with scores that can be gone on from.
void Episode::LetItRecall(const Request* before, SequenceRequest* made) const {
  Request& request = made->request;
  EvictionPolicy& policy = made->policy;
  const bool can = policy.evicts && !policy.rolling && request.prefix.publishes;
  if (before == nullptr ? !can || !Random(Mix(request.id + 5)).Chance(50) : before->history < 0) return;
  const PrefixSalt salt = request.prefix.salt;
  if (before == nullptr) {
    policy.score_source = EvictionPolicy().score_source;
    policy.score_rows = 0;
    policy.decay = 1.0f;
    request.budget.prompt_stride = request.budget.turn_heavy = 0;
  }
  const int32_t length = static_cast<int32_t>(request.prompt.size());
  // What the turn before left may hold some of the rows that would choose.
  if (before != nullptr && length > before->history) {
    policy.pin_rows = std::min(policy.pin_rows, length - before->history);
  }
  request.prefix = SharePrefixes(policy, PrefixSalt(), made->prompt_logprobs >= 0);
  request.prefix.salt = salt;
  request.history = (length - 1) / kBlockSlots * kBlockSlots;
  if (HistoryBlocks(*made) > tenants_.BlocksMax(request.tenant)) request.history = 0;
  if (before != nullptr && before->history > request.history && request.history > 0) request.resumes = 0;
}

// A conversation that has reached the context's end, or whose parked KV is lost where only that would fit: most clients
// begin another one.
bool Episode::MustStartOver(uint64_t session, const SequenceRequest& made) {
  if (std::ssize(made.request.prompt) + made.request.max_tokens <= workload_.context()) return false;
  const bool goes_on = made.request.resumes != 0 && made.policy.rolling &&
                       core_->scheduler().parked().Find({session, made.request.resumes}) != nullptr;
  return !goes_on && workload_.random().Chance(80);
}

void Episode::BeginTurn(SimRequest& request) {
  const Request& asked = request.request.request;
  if (asked.session == 0) return;
  Session& own = sessions_[asked.session];
  own.turn = &request;
  if (own.last == nullptr || asked.resumes != own.last->id()) return;
  request.past = own.last;
  request.may_resume = core_->scheduler().parked().Find({asked.session, asked.resumes}) != nullptr;
  request.must_resume = request.may_resume && core_->scheduler().KeepsPast(asked);
}

// A turn that ended by itself is the session's past once its client has it, whether or not it could be parked.
void Episode::EndTurn(SimRequest& request) {
  const Request& asked = request.request.request;
  if (asked.session == 0) return Release(request);
  const bool was_ended = request.cancelled || request.swap_failed || request.past_moved;
  const bool by_itself = !was_ended && EndsByItself(request.solo.finish);
  if (by_itself && !request.settled && asked.history < 0)
    turns_.OnEnd({asked.session, asked.turn}, BlocksForSlots(request.solo.kept_count));
  if (!request.left) settling_.push_back({&request, by_itself});
  if (!by_itself || request.left) Release(request);
}

// Some clients go: seldom, but as a step is computed with which their turn ends, often. The engine hears of it after the step.
void Episode::LeaveSessions() {
  for (Session& session : sessions_) {
    if (session.turn == nullptr || session.turn->left || session.turn->ended) continue;
    SimRequest& request = *session.turn;
    const bool last_step = request.decodes() && request.tokens_seen + 1 >= request.solo.generated();
    if (!workload_.Leaves(last_step)) continue;
    request.left = true;
    settling_.push_back({&request, /*keep=*/false});
  }
}

// As the server has it: what the engine is told of a turn comes before its cancel and before the session's next turn.
void Episode::SettleTurns() {
  std::erase_if(settling_, [this](const Settling& settling) {
    SimRequest& request = *settling.request;
    if (!request.left && !workload_.SettlesNow()) return false;
    disturbed_ = true;
    const TurnId id = {request.request.request.session, request.request.request.turn};
    const bool told = settling.keep != (options_.bug == PlantedBug::kSettleInverted);
    if (options_.bug != PlantedBug::kSettleIgnored) core_->SettleTurn(id, told);
    turns_.OnSettle(id, settling.keep);
    request.settled = true;
    if (!request.ended) left_.push_back(&request);
    Session& own = sessions_[id.session];
    own.turn = nullptr;
    if (settling.keep) {
      if (own.last != nullptr) Release(*own.last);
      own.last = &request;
    }
    return true;
  });
}

// At admission, and when what follows is another text: what was said already stays.
void Episode::RunOracle(SimRequest& request) {
  const SoloRun* before = request.before == nullptr ? nullptr : &request.before->solo;
  SoloRun memory = request.solo.text.empty() ? TakeSpare(spare_runs_) : std::move(request.solo);
  request.solo =
      oracle_.Run(request.request, request.fate, request.ranks, before, request.shrinkings, std::move(memory));
  MakeKeys(request);
}

// The identities of its tokens; the first ones are those of the run it goes on from.
void Episode::MakeKeys(SimRequest& request) {
  const SoloRun& run = request.solo;
  const PrefixSalt& salt = request.request.request.prefix.salt;
  if (request.keys.capacity() == 0) request.keys = TakeSpare(spare_keys_);
  request.keys.resize(run.text.size());
  uint64_t key = Mix(salt.high * 3 + salt.low + 1);
  size_t position = 0;
  if (request.before != nullptr) {
    position = static_cast<size_t>(run.begin);
    std::copy_n(request.before->keys.begin(), position, request.keys.begin());
    key = request.keys[position - 1];
  }
  for (; position < run.text.size(); ++position) {
    key = Mix(key + static_cast<uint64_t>(run.text[position]) * 0x9e3779b97f4a7c15u + 1);
    if (static_cast<int32_t>(position) == run.first_pruned) key = Mix(key + Mix(request.id()));
    request.keys[position] = key;
  }
}

// Nobody asks for its text any more.
void Episode::Release(SimRequest& request) {
  if (request.started) {
    spare_runs_.push_back(std::exchange(request.solo, SoloRun()));
    spare_keys_.push_back(std::exchange(request.keys, {}));
  }
  request.ranks = {};
  request.request.request.prompt = {};
}

}  // namespace hydrant::sim
