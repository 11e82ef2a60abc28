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

SoloRun SoloRunner::Run(const SequenceRequest& request, const Fate& fate, FakeRanks& ranks, const SoloRun* before,
                        std::span<const Shrinking> shrinkings, SoloRun memory) {
  request_ = &request;
  fate_ = &fate;
  ranks_ = &ranks;
  policy_ = request.policy;
  size_ = 0;
  sum_ = 0;
  pruned_sums_ = {};
  read_ = 0;
  run_ = Emptied(std::move(memory));
  run_.text.reserve(request.request.prompt.size() + static_cast<size_t>(request.request.max_tokens));
  run_.text.assign(request.request.prompt.begin(), request.request.prompt.end());
  run_.prompt_length = static_cast<int32_t>(request.request.prompt.size());
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
    for (size_t layer_head = 0; layer_head < static_cast<size_t>(layer_heads_); ++layer_head) {
      // Another request: other scores.
      const std::vector<uint64_t>& ranks = ranks_->Before(static_cast<int32_t>(layer_head), run_.begin);
      run_.kept[layer_head].clear();
      for (uint64_t rank : before->kept[layer_head]) {
        const int32_t position = FakeRanks::PositionOf(rank);
        run_.kept[layer_head].push_back(ranks[static_cast<size_t>(position)]);
        pruned_sums_[layer_head] += ShareAt(position);
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
    if (end == run_.prompt_length) read_ = ReadAll(sums(), layer_heads_);
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
    read_ = ReadAll(sums(), layer_heads_);
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
  for (size_t layer_head = 0; layer_head < static_cast<size_t>(layer_heads_); ++layer_head) {
    run_.kept[layer_head].push_back(
        ranks_->Before(static_cast<int32_t>(layer_head), position + 1)[static_cast<size_t>(position)]);
    pruned_sums_[layer_head] += share;
  }
}

PairSums SoloRunner::sums() const {
  if (run_.pruned) return pruned_sums_;
  PairSums all = {};
  std::fill_n(all.begin(), layer_heads_, sum_);
  return all;
}

// Keeps `count` tokens in each pair: the newest `recent` positions and the best of the rest.
void SoloRunner::CutTo(int32_t count, int32_t logical_length, int32_t recent) {
  const bool first = !std::exchange(run_.pruned, true);
  for (size_t layer_head = 0; layer_head < static_cast<size_t>(layer_heads_); ++layer_head) {
    std::vector<uint64_t>& kept = run_.kept[layer_head];
    if (first) {
      const std::vector<uint64_t>& ranks = ranks_->Before(static_cast<int32_t>(layer_head), size_);
      kept.assign(ranks.begin(), ranks.begin() + size_);
      pruned_sums_[layer_head] = sum_;
    }
    const auto newest = std::partition_point(
        kept.begin(), kept.end(), [=](uint64_t rank) { return FakeRanks::PositionOf(rank) < logical_length - recent; });
    CutPair(layer_head, static_cast<size_t>(count), static_cast<size_t>(newest - kept.begin()));
  }
}

// The first `candidates` of what is kept may go. Dropping the worst one by one is the same as dropping the worst: scores do
// not change on the way.
void SoloRunner::CutPair(size_t layer_head, size_t count, size_t candidates) {
  std::vector<uint64_t>& kept = run_.kept[layer_head];
  assert(kept.size() >= count && kept.size() - count <= candidates);
  const size_t drops = kept.size() - count;
  if (drops == 0) return;
  const auto end = kept.begin() + static_cast<std::ptrdiff_t>(candidates);
  if (drops == 1) {
    const auto victim = std::min_element(kept.begin(), end);
    pruned_sums_[layer_head] -= ShareAt(FakeRanks::PositionOf(*victim));
    kept.erase(victim);
    return;
  }
  worst_first_.assign(kept.begin(), end);
  const auto last = worst_first_.begin() + static_cast<std::ptrdiff_t>(drops) - 1;
  std::nth_element(worst_first_.begin(), last, worst_first_.end());
  const uint64_t best_dropped = *last;
  kept.erase(std::remove_if(kept.begin(), end, [=](uint64_t rank) { return rank <= best_dropped; }), end);
  pruned_sums_[layer_head] = 0;
  for (uint64_t rank : kept) pruned_sums_[layer_head] += ShareAt(FakeRanks::PositionOf(rank));
}

int32_t SoloTurnCut(const KvBudget& budget, int32_t live, int32_t tokens) {
  if (budget.turn_heavy == 0) return 0;
  int32_t stays = live;
  while (stays > budget.turn_heavy && stays + tokens > budget.keep) --stays;
  return stays < live ? stays : 0;
}

int32_t SoloPeakSlots(const SequenceRequest& request, int32_t begin, int32_t live) {
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
