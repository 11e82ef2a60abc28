#include "tests/sim/solo_run.h"

#include <algorithm>
#include <cassert>

namespace hydrant::sim {
namespace {

// The reason a request ends after `token`, its `generated`-th one.
FinishReason EndAfter(const Request& request, const Fate& fate, const std::vector<int32_t>& eos_ids, int32_t token,
                      int32_t generated, int32_t* stop_token) {
  const auto is_in = [token](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  const bool may_stop = generated >= request.min_tokens;
  if (may_stop && !request.ignore_eos && is_in(eos_ids)) return FinishReason::kStop;
  if (may_stop && is_in(request.stop_token_ids)) {
    *stop_token = token;
    return FinishReason::kStop;
  }
  if (token == fate.text_end) return FinishReason::kText;
  return generated == request.max_tokens ? FinishReason::kLength : FinishReason::kNone;
}

// An empty run with the memory of `run`.
SoloRun Emptied(SoloRun run) {
  SoloRun empty;
  empty.text = std::move(run.text);
  empty.text.clear();
  empty.stops = std::move(run.stops);
  empty.stops.clear();
  empty.decodes = std::move(run.decodes);
  empty.decodes.clear();
  empty.kept = std::move(run.kept);
  return empty;
}

}  // namespace

EvictionPolicy PolicyWith(int32_t keep, const EvictionPolicy& policy) {
  EvictionPolicy lowered = policy;
  if (policy.score_source == ScoreSource::kNone) {
    lowered.heavy = std::min(policy.heavy, keep - 1);
    lowered.recent = keep - lowered.heavy;
  } else {
    const double share = static_cast<double>(policy.recent) / (policy.heavy + policy.recent);
    lowered.recent = std::max(1, static_cast<int32_t>(share * keep + 1e-9));
    lowered.heavy = keep - lowered.recent;
  }
  return lowered;
}

SoloRun SoloRunner::Run(const EngineRequest& request, const Fate& fate, const SoloRun* before,
                        std::span<const Shrinking> shrinkings, SoloRun memory) {
  request_ = &request;
  fate_ = &fate;
  policy_ = request.policy;
  size_ = 0;
  sum_ = 0;
  pruned_sums_ = {};
  read_ = 0;
  run_ = Emptied(std::move(memory));
  run_.text.reserve(request.request.prompt.size() + static_cast<size_t>(request.request.max_tokens));
  run_.text.assign(request.request.prompt.begin(), request.request.prompt.end());
  run_.prompt_length = static_cast<int32_t>(request.request.prompt.size());
  for (int32_t pair = 0; pair < pairs_; ++pair) {
    scores_[static_cast<size_t>(pair)] = FakeScores(request.request.id, pair, fate.score_levels_log2);
  }
  if (before != nullptr) Begin(before);
  RunPrompt(request.request.budget);
  if (request.prompt_logprobs >= 0 && fate.fail_prompt > 0) {
    run_.finish = FinishReason::kError;
  } else if (request.request.max_tokens == 0) {
    run_.finish = FinishReason::kLength;
  } else {
    RunDecodes(request.request, shrinkings);
  }
  run_.kept_count = size();
  return std::move(run_);
}

void SoloRunner::Begin(const SoloRun* before) {
  run_.begin = before->computed();
  run_.live_before = before->kept_count;
  run_.first_pruned = before->first_pruned;
  run_.pruned = before->pruned;
  size_ = before->kept_count;
  if (before->pruned) {
    for (size_t pair = 0; pair < static_cast<size_t>(pairs_); ++pair) {
      // Another request: other scores.
      KeptTokens& kept = run_.kept[pair];
      kept.positions = before->kept[pair].positions;
      kept.scores.clear();
      for (int32_t position : kept.positions) {
        kept.scores.push_back(ScoreOf(pair, position));
        pruned_sums_[pair] += ShareAt(position);
      }
    }
  } else {
    for (int32_t position = 0; position < size_; ++position) sum_ += ShareAt(position);
  }
  // Room for a turn is made before it comes: the heavy ones stay, and as many of the newest as there is room for.
  run_.cut_before = SoloTurnCut(request_->request.budget, size(), run_.prompt_length - run_.begin);
  if (run_.cut_before == 0) return;
  CutTo(run_.cut_before, run_.begin, run_.cut_before - policy_.heavy);
  if (run_.first_pruned < 0) run_.first_pruned = run_.begin;
}

void SoloRunner::RunPrompt(const KvBudget& budget) {
  const int32_t stride = budget.prompt_stride;
  for (int32_t begin = run_.begin; begin < run_.prompt_length;) {
    const int32_t end =
        stride == 0 ? run_.prompt_length : std::min(run_.prompt_length, begin - begin % stride + stride);
    for (int32_t position = begin; position < end; ++position) Append(position);
    if (end == run_.prompt_length) read_ = ReadAll(sums(), pairs_);
    PromptStop& stop = run_.stops.emplace_back();
    stop.end = end;
    if (budget.keep > 0 && size() > budget.keep) {
      CutTo(budget.keep, end, policy_.recent);
      stop.cut_to = budget.keep;
      if (run_.first_pruned < 0) run_.first_pruned = end;
    }
    stop.sums = sums();
    begin = end;
  }
}

void SoloRunner::RunDecodes(const Request& request, std::span<const Shrinking> shrinkings) {
  int32_t keep = request.budget.keep;
  const int32_t slack = request.budget.periodic ? request.budget.slack : 1;
  bool victim_waits = false;
  for (int32_t generated = 0;; ++generated) {
    if (generated == fate_->fail_generated) {
      run_.finish = FinishReason::kError;
      return;
    }
    const int32_t position = run_.prompt_length + generated;
    const int32_t token = NextToken(request.id, position, read_, vocab_);
    run_.text.push_back(token);
    run_.finish = EndAfter(request, *fate_, eos_ids_, token, generated + 1, &run_.stop_token);
    if (run_.finish != FinishReason::kNone) return;

    DecodeFacts& facts = run_.decodes.emplace_back();
    facts.victim_waits = victim_waits;
    facts.live = size() + (victim_waits ? 1 : 0);
    facts.sums = sums();
    Append(position);
    read_ = ReadAll(sums(), pairs_);
    facts.live_in = size();
    const bool shrinks = !shrinkings.empty() && shrinkings.front().step == generated;
    if (shrinks) {
      keep = shrinkings.front().keep;
      shrinkings = shrinkings.subspan(1);
      policy_ = PolicyWith(keep, request_->policy);
    }
    // A budget that falls is in force at once.
    const bool evicts = keep > 0 && (shrinks ? size() > keep : size() == keep + slack);
    if (evicts) CutTo(keep, position + 1, policy_.recent);
    facts.chooses_victim = evicts && !shrinks && !request.budget.periodic;
    facts.cut_to = evicts && !facts.chooses_victim ? keep : 0;
    if (evicts && run_.first_pruned < 0) run_.first_pruned = position + 1;
    // An exact victim stays where it is until the next token comes: its slot still counts.
    victim_waits = facts.chooses_victim;
  }
}

void SoloRunner::Append(int32_t position) {
  const uint64_t share = ShareAt(position);
  if (!run_.pruned) {
    ++size_;
    sum_ += share;
    return;
  }
  for (size_t pair = 0; pair < static_cast<size_t>(pairs_); ++pair) {
    run_.kept[pair].positions.push_back(position);
    run_.kept[pair].scores.push_back(ScoreOf(pair, position));
    pruned_sums_[pair] += share;
  }
}

PairSums SoloRunner::sums() const {
  if (run_.pruned) return pruned_sums_;
  PairSums all = {};
  std::fill_n(all.begin(), pairs_, sum_);
  return all;
}

// Keeps `count` tokens in each pair: the newest `recent` positions and the best of the rest; of equal ones the earlier stays.
void SoloRunner::CutTo(int32_t count, int32_t logical_length, int32_t recent) {
  const bool first = !std::exchange(run_.pruned, true);
  for (size_t pair = 0; pair < static_cast<size_t>(pairs_); ++pair) {
    KeptTokens& kept = run_.kept[pair];
    if (first) {
      kept.positions.resize(static_cast<size_t>(size_));
      kept.scores.resize(static_cast<size_t>(size_));
      for (int32_t position = 0; position < size_; ++position) {
        kept.positions[static_cast<size_t>(position)] = position;
        kept.scores[static_cast<size_t>(position)] = ScoreOf(pair, position);
      }
      pruned_sums_[pair] = sum_;
    }
    const auto newest = std::lower_bound(kept.positions.begin(), kept.positions.end(), logical_length - recent);
    CutPair(pair, count, static_cast<int32_t>(newest - kept.positions.begin()));
  }
}

void SoloRunner::CutPair(size_t pair, int32_t count, int32_t candidates) {
  KeptTokens& kept = run_.kept[pair];
  const size_t before = kept.positions.size();
  const size_t drops = before - static_cast<size_t>(count);
  assert(before >= static_cast<size_t>(count) && drops <= static_cast<size_t>(candidates));
  if (drops == 0) return;
  if (drops == 1) return EvictOne(pair, candidates);
  // Dropping the worst one by one is the same as dropping the worst: scores do not change on the way.
  worst_first_.clear();
  for (size_t i = 0; i < static_cast<size_t>(candidates); ++i) {
    worst_first_.emplace_back(kept.scores[i], -kept.positions[i]);
  }
  const auto last = worst_first_.begin() + static_cast<std::ptrdiff_t>(drops) - 1;
  std::nth_element(worst_first_.begin(), last, worst_first_.end());
  const std::pair<uint64_t, int32_t> worst_limit = *last;
  size_t stays = 0;
  for (size_t i = 0; i < before; ++i) {
    const int32_t position = kept.positions[i];
    if (i < static_cast<size_t>(candidates) && std::pair(kept.scores[i], -position) <= worst_limit) {
      pruned_sums_[pair] -= ShareAt(position);
      continue;
    }
    kept.positions[stays] = position;
    kept.scores[stays++] = kept.scores[i];
  }
  kept.positions.resize(stays);
  kept.scores.resize(stays);
}

// Drops the candidate with the lowest score; of equal ones the latest goes, the lower position survives.
void SoloRunner::EvictOne(size_t pair, int32_t candidates) {
  KeptTokens& kept = run_.kept[pair];
  std::ptrdiff_t victim = 0;
  uint64_t lowest = kept.scores[0];
  for (std::ptrdiff_t i = 1; i < candidates; ++i) {
    const uint64_t score = kept.scores[static_cast<size_t>(i)];
    victim = score <= lowest ? i : victim;
    lowest = std::min(lowest, score);
  }
  pruned_sums_[pair] -= ShareAt(kept.positions[static_cast<size_t>(victim)]);
  kept.positions.erase(kept.positions.begin() + victim);
  kept.scores.erase(kept.scores.begin() + victim);
}

int32_t SoloTurnCut(const KvBudget& budget, int32_t live, int32_t tokens) {
  if (budget.turn_heavy == 0) return 0;
  int32_t stays = live;
  while (stays > budget.turn_heavy && stays + tokens > budget.keep) --stays;
  return stays < live ? stays : 0;
}

int32_t SoloPeakSlots(const EngineRequest& request, int32_t begin, int32_t live) {
  // Played, not derived: grow token by token and cut where the paper does.
  const KvBudget& budget = request.request.budget;
  const int32_t cut_at = budget.periodic ? budget.keep + budget.slack : budget.keep + 1;
  int32_t peak = live;
  const int32_t prompt_length = static_cast<int32_t>(request.request.prompt.size());
  const int32_t turn_cut = SoloTurnCut(budget, live, prompt_length - begin);
  int32_t size = turn_cut > 0 ? turn_cut : live;
  for (int32_t token = begin + 1; token <= prompt_length; ++token) {
    peak = std::max(peak, ++size);
    const bool stops = token == prompt_length || (budget.prompt_stride > 0 && token % budget.prompt_stride == 0);
    if (stops && budget.keep > 0) size = std::min(size, budget.keep);
  }
  for (int32_t step = 1; step < request.request.max_tokens; ++step) {
    ++size;
    peak = std::max(peak, size);
    if (budget.keep > 0 && size == cut_at) size = budget.keep;
  }
  return peak;
}

}  // namespace hydrant::sim
