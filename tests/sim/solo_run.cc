#include "tests/sim/solo_run.h"

#include <algorithm>

namespace hydrant::sim {
namespace {

// The tokens one (layer, KV head) pair keeps.
class KeptSet {
 public:
  KeptSet(const EngineRequest& request, const Fate& fate, int32_t pair)
      : policy_(request.policy), scores_(request.request.id, pair, fate.score_levels_log2), pair_(pair) {}

  void Append(int32_t position, int32_t token) {
    entries_.push_back({position, scores_.of(position), Share(pair_, position, token)});
    shares_ += entries_.back().share;
  }

  void SetPolicy(const EvictionPolicy& policy) { policy_ = policy; }

  // Drops the candidate with the lowest score; of equal ones the latest goes, the lower position survives.
  void EvictOne(int32_t logical_length) {
    size_t victim = entries_.size();
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].position >= logical_length - policy_.recent) break;
      if (victim == entries_.size() || entries_[i].score <= entries_[victim].score) victim = i;
    }
    shares_ -= entries_.at(victim).share;
    entries_.erase(entries_.begin() + static_cast<long>(victim));
  }

  // Dropping the worst one by one is the same as keeping the best: scores do not change on the way.
  void CutTo(int32_t count, int32_t logical_length) {
    if (static_cast<int32_t>(entries_.size()) - count < 8) {
      while (static_cast<int32_t>(entries_.size()) > count) EvictOne(logical_length);
      return;
    }
    std::vector<Entry> candidates;
    std::vector<Entry> kept;
    for (const Entry& entry : entries_) {
      (entry.position < logical_length - policy_.recent ? candidates : kept).push_back(entry);
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Entry& a, const Entry& b) { return a.score > b.score; });
    candidates.resize(static_cast<size_t>(count) - kept.size());
    kept.insert(kept.end(), candidates.begin(), candidates.end());
    std::sort(kept.begin(), kept.end(), [](const Entry& a, const Entry& b) { return a.position < b.position; });
    entries_ = kept;
    shares_ = 0;
    for (const Entry& entry : entries_) shares_ += entry.share;
  }

  std::vector<int32_t> positions() const {
    std::vector<int32_t> positions;
    for (const Entry& entry : entries_) positions.push_back(entry.position);
    return positions;
  }
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }
  uint64_t shares() const { return shares_; }

 private:
  struct Entry {
    int32_t position;
    uint64_t score;
    uint64_t share;
  };

  EvictionPolicy policy_;
  FakeScores scores_;
  int32_t pair_;
  std::vector<Entry> entries_;  // by position
  uint64_t shares_ = 0;
};

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

SoloRun RunSolo(const EngineRequest& engine_request, const Fate& fate, int32_t pairs, int32_t vocab,
                const std::vector<int32_t>& eos_ids, const SoloRun* before, const std::vector<Shrinking>& shrinkings) {
  const Request& request = engine_request.request;
  int32_t keep = request.budget.keep;
  const int32_t slack = request.budget.periodic ? request.budget.slack : 1;
  size_t next_shrinking = 0;
  SoloRun run;
  run.text = request.prompt;
  run.prompt_length = static_cast<int32_t>(request.prompt.size());
  if (before != nullptr) {
    run.begin = before->computed();
    run.live_before = static_cast<int32_t>(before->kept[0].size());
    run.first_pruned = before->first_pruned;
  }
  for (int32_t end = run.begin; end < run.prompt_length;) {
    const int32_t stride = request.budget.prompt_stride;
    end = stride == 0 ? run.prompt_length : std::min(run.prompt_length, end - end % stride + stride);
    run.stops.push_back({end, 0, {}});
  }

  std::vector<KeptSet> kept;
  uint64_t shares = 0;  // of what the row that samples the first token reads
  for (int32_t pair = 0; pair < pairs; ++pair) {
    KeptSet& set = kept.emplace_back(engine_request, fate, pair);
    if (before != nullptr) {
      for (int32_t position : before->kept[static_cast<size_t>(pair)]) {
        set.Append(position, run.text[static_cast<size_t>(position)]);
      }
    }
    int32_t position = run.begin;
    for (PromptStop& stop : run.stops) {
      for (; position < stop.end; ++position) set.Append(position, run.text[static_cast<size_t>(position)]);
      if (stop.end == run.prompt_length) shares += set.shares();
      run.peak_slots = std::max(run.peak_slots, set.size());
      if (keep > 0 && set.size() > keep) {
        set.CutTo(keep, stop.end);
        stop.cut_to = keep;
        if (run.first_pruned < 0) run.first_pruned = stop.end;
      }
      stop.shares[static_cast<size_t>(pair)] = set.shares();
    }
  }
  if (engine_request.prompt_logprobs >= 0 && fate.fail_prompt > 0) {
    run.finish = FinishReason::kError;
    return run;
  }
  const auto ends = [&] {
    for (int32_t pair = 0; pair < pairs; ++pair) {
      run.kept[static_cast<size_t>(pair)] = kept[static_cast<size_t>(pair)].positions();
    }
  };
  if (request.max_tokens == 0) {
    run.finish = FinishReason::kLength;
    ends();
    return run;
  }

  bool victim_waits = false;
  for (int32_t generated = 0;; ++generated) {
    // `shares` is what the row that samples this token read.
    if (generated == fate.fail_generated) {
      run.finish = FinishReason::kError;
      return run;
    }
    const int32_t position = run.prompt_length + generated;
    const int32_t token = NextToken(request.id, position, shares, vocab);
    run.text.push_back(token);
    run.finish = EndAfter(request, fate, eos_ids, token, generated + 1, &run.stop_token);
    if (run.finish != FinishReason::kNone) {
      ends();
      return run;
    }

    DecodeFacts& facts = run.decodes.emplace_back();
    facts.victim_waits = victim_waits;
    facts.live = kept[0].size() + (victim_waits ? 1 : 0);
    shares = 0;
    const bool shrinks = next_shrinking < shrinkings.size() && shrinkings[next_shrinking].step == generated;
    if (shrinks) keep = shrinkings[next_shrinking++].keep;
    bool evicted = false;
    for (int32_t pair = 0; pair < pairs; ++pair) {
      KeptSet& set = kept[static_cast<size_t>(pair)];
      facts.shares[static_cast<size_t>(pair)] = set.shares();
      set.Append(position, token);
      shares += set.shares();
      facts.live_in = set.size();
      if (shrinks) set.SetPolicy(PolicyWith(keep, engine_request.policy));
      // A budget that falls is in force at once.
      evicted = keep > 0 && (shrinks ? set.size() > keep : set.size() == keep + slack);
      if (evicted) set.CutTo(keep, position + 1);
    }
    facts.chooses_victim = evicted && !shrinks && !request.budget.periodic;
    facts.cut_to = evicted && !facts.chooses_victim ? keep : 0;
    if (evicted && run.first_pruned < 0) run.first_pruned = position + 1;
    // An exact victim stays where it is until the next token comes: its slot still counts.
    victim_waits = facts.chooses_victim;
    facts.live_after = kept[0].size() + (victim_waits ? 1 : 0);
    run.peak_slots = std::max(run.peak_slots, facts.live_in);
  }
}

int32_t SoloPeakSlots(const EngineRequest& request, int32_t begin, int32_t live) {
  // Played, not derived: grow token by token and cut where the paper does.
  const KvBudget& budget = request.request.budget;
  const int32_t cut_at = budget.periodic ? budget.keep + budget.slack : budget.keep + 1;
  int32_t peak = live;
  int32_t size = live;
  const int32_t prompt_length = static_cast<int32_t>(request.request.prompt.size());
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
