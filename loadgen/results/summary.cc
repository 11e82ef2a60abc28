#include "loadgen/results/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

constexpr double kMs = 1000;
constexpr size_t kRefusalsMax = 10;

GroupSummary MakeGroup(std::string name, const std::vector<const RequestRecord*>& records, const SummarySpec& spec) {
  GroupSummary group;
  group.name = std::move(name);
  Samples samples;
  for (const RequestRecord* record : records) {
    ++group.errors[static_cast<size_t>(record->error)];
    if (!record->succeeded()) {
      ++(record->error == RequestError::kCancelled ? group.cancelled : group.failed);
      continue;
    }
    ++group.completed;
    group.good += spec.goals.MetBy(*record);
    group.input_tokens += record->prompt_tokens;
    group.cached_tokens += record->cached_tokens;
    group.output_tokens += record->output_tokens;
    samples.Add(*record);
  }
  group.ttft_ms = Distil(std::move(samples.ttft_ms), spec.percents);
  group.tpot_ms = Distil(std::move(samples.tpot_ms), spec.percents);
  group.itl_ms = Distil(std::move(samples.itl_ms), spec.percents);
  group.e2el_ms = Distil(std::move(samples.e2el_ms), spec.percents);
  group.queue_ms = Distil(std::move(samples.queue_ms), spec.percents);
  return group;
}

// Groups by a number from 0 on; names come from `name`.
template <typename Key, typename Name>
std::vector<GroupSummary> MakeGroups(const RunResult& run, size_t count, const SummarySpec& spec, Key key, Name name) {
  std::vector<std::vector<const RequestRecord*>> members(count);
  for (const RequestRecord& record : run.records) members[key(record)].push_back(&record);
  std::vector<GroupSummary> groups;
  for (size_t i = 0; i < count; ++i) groups.push_back(MakeGroup(name(i), members[i], spec));
  return groups;
}

std::vector<Refusal> CollectRefusals(const RunResult& run) {
  std::map<std::pair<RequestError, std::string>, size_t> counts;
  for (const RequestRecord& record : run.records) {
    if (!record.succeeded() && record.error != RequestError::kCancelled) ++counts[{record.error, record.error_text}];
  }
  std::vector<Refusal> refusals;
  for (const auto& [what, count] : counts) refusals.push_back({what.first, what.second, count});
  std::stable_sort(refusals.begin(), refusals.end(),
                   [](const Refusal& a, const Refusal& b) { return a.count > b.count; });
  if (refusals.size() > kRefusalsMax) refusals.resize(kRefusalsMax);
  return refusals;
}

// Most requests at once: departures before arrivals of the same instant.
size_t Peak(const RunResult& run) {
  std::vector<std::pair<double, int>> changes;
  for (const RequestRecord& record : run.records) {
    changes.emplace_back(record.sent_s, 1);
    changes.emplace_back(record.end_s, -1);
  }
  std::sort(changes.begin(), changes.end());
  int now = 0;
  int peak = 0;
  for (const auto& [at_s, change] : changes) peak = std::max(peak, now += change);
  return static_cast<size_t>(peak);
}

void AddFairness(const std::vector<TenantSpec>& tenants, Summary* summary) {
  std::vector<double> service;
  std::vector<double> completion;
  for (size_t i = 0; i < summary->tenants.size(); ++i) {
    const GroupSummary& group = summary->tenants[i];
    const size_t ended = group.completed + group.failed;
    // Nobody withholds from a tenant what it does not ask for.
    if (ended + group.cancelled > 0) {
      service.push_back(static_cast<double>(group.input_tokens + group.output_tokens) / tenants[i].weight);
    }
    if (ended > 0) completion.push_back(static_cast<double>(group.completed) / static_cast<double>(ended));
  }
  summary->jain_service = JainIndex(service);
  summary->jain_completion = JainIndex(completion);
}

void AddLag(const RunResult& run, const SummarySpec& spec, Summary* summary) {
  std::vector<double> lag_ms;
  double first_s = 0;
  double last_s = 0;
  for (const RequestRecord& record : run.records) {
    lag_ms.push_back(record.lag_s() * kMs);
    first_s = lag_ms.size() == 1 ? record.sent_s : std::min(first_s, record.sent_s);
    last_s = std::max(last_s, record.sent_s);
  }
  if (last_s > first_s) summary->offered_rate = static_cast<double>(lag_ms.size() - 1) / (last_s - first_s);
  std::sort(lag_ms.begin(), lag_ms.end());
  summary->max_send_lag_ms = lag_ms.empty() ? 0 : lag_ms.back();
  summary->p99_send_lag_ms = PercentileOfSorted(lag_ms, 99);
  summary->max_loop_lag_ms = run.max_loop_lag_s * kMs;
  summary->max_lag_ms = std::max(summary->max_send_lag_ms, summary->max_loop_lag_ms);
  summary->cpu_share = run.duration_s > 0 ? run.cpu_s / run.duration_s : 0;
  summary->kept_up = summary->max_lag_ms <= spec.lag_limit_ms;
}

void Count(std::vector<double>* seconds, double at_s, double amount = 1) {
  const size_t second = std::min(static_cast<size_t>(std::max(0.0, at_s)), seconds->size() - 1);
  (*seconds)[second] += amount;
}

}  // namespace

bool Goals::MetBy(const RequestRecord& record) const {
  return (!ttft_ms || record.ttft_s() * kMs <= *ttft_ms) && (!tpot_ms || record.tpot_s() * kMs <= *tpot_ms) &&
         (!e2el_ms || record.e2e_s() * kMs <= *e2el_ms);
}

void Samples::Add(const RequestRecord& record) {
  if (!record.succeeded()) return;
  ttft_ms.push_back(record.ttft_s() * kMs);
  if (record.output_tokens > 1) tpot_ms.push_back(record.tpot_s() * kMs);
  for (const float gap_s : record.gaps_s) itl_ms.push_back(gap_s * kMs);
  e2el_ms.push_back(record.e2e_s() * kMs);
  queue_ms.push_back(record.queue_s() * kMs);
}

Summary Summarise(const RunResult& run, const std::vector<TenantSpec>& tenants, const SummarySpec& spec) {
  Summary summary;
  summary.duration_s = run.duration_s;
  summary.interrupted = run.interrupted;
  std::vector<const RequestRecord*> all;
  int32_t turns = 0;
  for (const RequestRecord& record : run.records) {
    all.push_back(&record);
    turns = std::max(turns, record.turn + 1);
  }
  summary.all = MakeGroup("all", all, spec);
  if (tenants.size() > 1) {
    summary.tenants = MakeGroups(
        run, tenants.size(), spec, [](const RequestRecord& record) { return record.tenant_idx; },
        [&](size_t i) { return tenants[i].name; });
    AddFairness(tenants, &summary);
  }
  if (turns > 1) {
    summary.turns = MakeGroups(
        run, static_cast<size_t>(turns), spec,
        [](const RequestRecord& record) { return static_cast<size_t>(record.turn); },
        [](size_t i) { return absl::StrCat("turn ", i + 1); });
  }
  summary.refusals = CollectRefusals(run);
  const Timeline timeline = MakeTimeline(run);
  for (const double tokens : timeline.output_tokens) {
    summary.max_output_tokens_per_s = std::max(summary.max_output_tokens_per_s, tokens);
  }
  // The last second may not be a whole one.
  if (run.duration_s > 0) {
    const double mean = static_cast<double>(summary.all.output_tokens) / run.duration_s;
    summary.max_output_tokens_per_s = std::max(summary.max_output_tokens_per_s, mean);
  }
  summary.max_concurrent_requests = Peak(run);
  AddLag(run, spec, &summary);
  return summary;
}

Timeline MakeTimeline(const RunResult& run) {
  const size_t seconds = static_cast<size_t>(std::floor(run.duration_s)) + 1;
  Timeline timeline;
  for (std::vector<double>* series :
       {&timeline.sent, &timeline.completed, &timeline.failed, &timeline.output_tokens, &timeline.running}) {
    series->assign(seconds, 0);
  }
  for (const RequestRecord& record : run.records) {
    Count(&timeline.sent, record.sent_s);
    if (record.error != RequestError::kCancelled) {
      Count(record.succeeded() ? &timeline.completed : &timeline.failed, record.end_s);
    }
    if (record.succeeded()) {
      double at_s = record.first_s;
      const double per_event =
          static_cast<double>(record.output_tokens) / static_cast<double>(1 + record.gaps_s.size());
      Count(&timeline.output_tokens, at_s, per_event);
      for (const float gap_s : record.gaps_s) Count(&timeline.output_tokens, at_s += gap_s, per_event);
    }
    const size_t last = std::min(static_cast<size_t>(record.end_s), seconds - 1);
    for (size_t second = static_cast<size_t>(record.sent_s); second <= last; ++second) ++timeline.running[second];
  }
  return timeline;
}

}  // namespace hydrant
