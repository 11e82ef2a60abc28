#include "server/audit/kv_audit.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <new>
#include <utility>

namespace hydrant {
namespace {

// Any two of a counter's values come to numbers that have nothing to do with each other (SplitMix64).
uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

AuditResult ResultOf(ReplayEnd end) {
  switch (end) {
    case ReplayEnd::kDone:
      return AuditResult::kDone;
    case ReplayEnd::kNoRoom:
      return AuditResult::kNoRoom;
    case ReplayEnd::kNoAdapter:
      return AuditResult::kNoAdapter;
    case ReplayEnd::kNoMemory:
      return AuditResult::kNoMemory;
    case ReplayEnd::kError:
      break;
  }
  return AuditResult::kError;
}

}  // namespace

const char* AuditResultName(AuditResult result) {
  static constexpr const char* kNames[kAuditResults] = {
      "done", "nothing_evicted", "too_long", "no_room", "crowded_out", "forgotten", "no_adapter", "no_memory", "error"};
  return kNames[static_cast<size_t>(result)];
}

KvAudit::KvAudit(Options options) : options_(std::move(options)) {
  assert(options_.share > 0 && options_.share <= 1 && options_.context > 0);
}

bool KvAudit::Draws() {
  const uint64_t number = drawn_.fetch_add(1, std::memory_order_relaxed);
  return static_cast<double>(Mixed(options_.seed + number) >> 11) * 0x1p-53 < options_.share;
}

void KvAudit::Skip(AuditResult why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CountLocked(why);
}

AuditResult KvAudit::Fits(size_t tokens) const {
  const auto size = static_cast<int64_t>(tokens);
  if (size > options_.context) return AuditResult::kTooLong;
  return size > options_.room ? AuditResult::kNoRoom : AuditResult::kDone;
}

// What cannot be computed takes nobody's place.
void KvAudit::Add(AuditedTurn turn) {
  assert(turn.kept.size() == turn.answer.size() && !turn.prompt.empty() && !turn.answer.empty());
  const size_t size = turn.prompt.size() + turn.answer.size();
  if (const AuditResult fits = Fits(size); fits != AuditResult::kDone) return Skip(fits);
  try {
    std::vector<int32_t> tokens;
    tokens.reserve(size);
    tokens.assign(turn.prompt.begin(), turn.prompt.end());
    tokens.insert(tokens.end(), turn.answer.begin(), turn.answer.end());
    Waiting waiting;
    waiting.begin = static_cast<int32_t>(turn.prompt.size());
    waiting.tokens = std::move(tokens);
    turn.prompt = {};
    turn.answer = {};
    turn.kept.shrink_to_fit();
    waiting.turn = std::move(turn);
    const std::lock_guard<std::mutex> lock(mutex_);
    Push(std::move(waiting));
  } catch (const std::bad_alloc&) {
    return Skip(AuditResult::kNoMemory);
  }
  try {
    wake_();
  } catch (const std::bad_alloc&) {
    // It is found when somebody was there and went.
  }
}

void KvAudit::Push(Waiting waiting) {
  const auto tokens = static_cast<int64_t>(waiting.tokens.size());
  waiting_.push_back(std::move(waiting));
  waiting_tokens_ += tokens;
  while (waiting_tokens_ > options_.tokens_max && waiting_.size() > 1) MakeRoom(/*of_tokens=*/true);
  if (waiting_.size() > kWaitingMax) MakeRoom(/*of_tokens=*/false);
  waiting_count_.store(static_cast<int64_t>(waiting_.size()), std::memory_order_relaxed);
}

// A tenant that has many turns leaves the others theirs: of who has most the first one goes. Takes no memory.
void KvAudit::MakeRoom(bool of_tokens) {
  struct Part {
    int32_t tenant = 0;
    int64_t size = 0;
  };
  std::array<Part, kWaitingMax + 1> parts;
  const std::span<Part> all(parts.data(), waiting_.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = {waiting_[i].turn.tenant, of_tokens ? std::ssize(waiting_[i].tokens) : 1};
  }
  std::sort(all.begin(), all.end(), [](const Part& a, const Part& b) { return a.tenant < b.tenant; });
  // What a tenant has, at the last of its parts.
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].tenant == all[i - 1].tenant) all[i].size += std::exchange(all[i - 1].size, 0);
  }
  const int64_t most =
      std::max_element(all.begin(), all.end(), [](const Part& a, const Part& b) { return a.size < b.size; })->size;
  const auto has_most = [&](const Waiting& each) {
    const auto end = std::upper_bound(all.begin(), all.end(), each.turn.tenant,
                                      [](int32_t tenant, const Part& part) { return tenant < part.tenant; });
    return std::prev(end)->size == most;
  };
  const auto gone = std::find_if(waiting_.begin(), waiting_.end(), has_most);
  waiting_tokens_ -= std::ssize(gone->tokens);
  waiting_.erase(gone);
  CountLocked(AuditResult::kCrowdedOut);
}

KvAudit::Waiting KvAudit::Pop() {
  Waiting oldest = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_tokens_ -= static_cast<int64_t>(oldest.tokens.size());
  waiting_count_.store(static_cast<int64_t>(waiting_.size()), std::memory_order_relaxed);
  return oldest;
}

void KvAudit::Forget(uint64_t session) {
  if (session == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (current_.has_value()) forgotten_ |= current_->turn.session == session;
  const auto gone = std::erase_if(waiting_, [&](const Waiting& each) {
    if (each.turn.session != session) return false;
    waiting_tokens_ -= static_cast<int64_t>(each.tokens.size());
    return true;
  });
  results_[static_cast<size_t>(AuditResult::kForgotten)] += gone;
  waiting_count_.store(static_cast<int64_t>(waiting_.size()), std::memory_order_relaxed);
}

std::optional<ReplayText> KvAudit::Next() {
  const std::lock_guard<std::mutex> lock(mutex_);
  assert(!current_.has_value());
  if (waiting_.empty()) return std::nullopt;
  const Waiting& waiting = current_.emplace(Pop());
  forgotten_ = not_finite_ = false;
  outcome_ = Outcome();
  ReplayText text;
  text.tokens = waiting.tokens;
  text.begin = waiting.begin;
  text.has_adapter = waiting.turn.has_adapter;
  text.adapter = waiting.turn.adapter;
  return text;
}

bool KvAudit::OnScores(std::span<const SampleResult> scores) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (forgotten_) {
    CountLocked(AuditResult::kForgotten);
    current_.reset();
    return false;
  }
  for (const SampleResult& score : scores) {
    const AuditToken& kept = current_->turn.kept[static_cast<size_t>(outcome_.tokens++)];
    not_finite_ |= !score.finite || score.best < 0;
    if (not_finite_) continue;
    outcome_.agreed += score.best == kept.best ? 1 : 0;
    outcome_.gap += static_cast<double>(score.logprob) - static_cast<double>(kept.logprob);
  }
  return true;
}

void KvAudit::OnEnd(ReplayEnd end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!current_.has_value()) return;  // there was no memory to say which
  AuditResult result = ResultOf(end);
  if (forgotten_) {
    result = AuditResult::kForgotten;
  } else if (not_finite_) {
    result = AuditResult::kError;
  }
  try {
    if (result == AuditResult::kDone) Observe();
  } catch (const std::bad_alloc&) {
    result = AuditResult::kNoMemory;
  }
  current_.reset();
  CountLocked(result);
}

void KvAudit::Observe() {
  const AuditedTurn& turn = current_->turn;
  assert(outcome_.tokens == std::ssize(turn.kept));
  const auto budget = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(std::max(turn.budget, 1))));
  const Key key = {turn.tenant, turn.policy, turn.recalls, budget};
  if (!windows_.contains(key) && windows_.size() >= kSeriesMax) {
    windows_.erase(std::min_element(windows_.begin(), windows_.end(),
                                    [](const auto& a, const auto& b) { return a.second.changed < b.second.changed; }));
  }
  Window& window = windows_[key];
  if (window.last.size() < kTurnsMean) {
    window.last.push_back(outcome_);
  } else {
    window.last[window.next] = outcome_;
    window.next = (window.next + 1) % kTurnsMean;
  }
  Mean mean;
  for (const Outcome& each : window.last) {
    mean.tokens += each.tokens;
    mean.agreed += each.agreed;
    mean.gap += each.gap;
  }
  mean.all_tokens = window.mean.all_tokens + static_cast<uint64_t>(outcome_.tokens);
  window.mean = mean;
  window.changed = ++changes_;
  computed_tokens_ += current_->tokens.size();
}

// Whoever ends a turn waits for the lock, and so does the engine: under it numbers are copied, and nothing is asked or allocated.
KvAudit::Counts KvAudit::counts() const {
  Counts counts;
  std::vector<std::pair<Key, Mean>> means;
  means.reserve(kSeriesMax);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    counts.results = results_;
    counts.waiting = std::ssize(waiting_) + (current_.has_value() ? 1 : 0);
    counts.computed_tokens = computed_tokens_;
    for (const auto& [key, window] : windows_) {
      if (!window.last.empty()) means.emplace_back(key, window.mean);
    }
  }
  int32_t last_tenant = -1;
  std::string name;
  for (const auto& [key, mean] : means) {
    Series& series = counts.series.emplace_back();
    // Ordered by tenant: each is asked for once.
    if (last_tenant != key.tenant) name = options_.tenant_name(last_tenant = key.tenant);
    series.tenant = name;
    series.policy = options_.policy_names[static_cast<size_t>(key.policy)];
    series.recall = key.recalls ? "turn" : "off";  // as `kv` has it
    series.budget = std::to_string(key.budget);
    series.agreement = static_cast<double>(mean.agreed) / static_cast<double>(mean.tokens);
    series.logprob_gap = mean.gap / static_cast<double>(mean.tokens);
    series.tokens = mean.all_tokens;
  }
  return counts;
}

}  // namespace hydrant
