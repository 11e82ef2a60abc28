#include "tests/sim/workload.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/engine/prefix_sharing.h"

namespace hydrant::sim {
namespace {

// Texts that prompts may begin with; more would make hits rare.
constexpr size_t kRememberedMax = 6;

constexpr int32_t kEdges[] = {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49};

}  // namespace

Workload::Workload(uint64_t seed, bool swaps) : random_(Mix(seed)), drafts_(Mix(seed + 3)) {
  Random& r = random_;
  SchedulerOptions& scheduler = core_.scheduler;
  const bool hurries = r.Chance(60);
  scheduler.blocks = r.Chance(50) ? r.Between(3, 12) : r.Between(8, 80);
  if (hurries && r.Chance(70)) scheduler.blocks = r.Between(40, 160);
  scheduler.sequences_max = r.Chance(20) ? 1 : r.Between(2, 12);
  scheduler.waiting_max = r.Chance(15) ? r.Between(1, 4) : r.Between(16, 80);
  scheduler.tokens_max = scheduler.sequences_max + 15 + (r.Chance(30) ? 0 : r.Below(120));
  scheduler.prefill_tokens_max = r.Chance(30) ? 16 : r.Between(16, 96);
  core_.vocab = r.Chance(50) ? r.Between(8, 40) : r.Between(100, 2000);
  core_.context = FakeRanks::kPositionMax;
  scheduler.eos_ids = {1};
  if (r.Chance(30)) scheduler.eos_ids.push_back(3);
  if (r.Chance(40)) scheduler.attention_slots_per_token = r.Between(8, 200);
  if (r.Chance(20)) scheduler.policy = SchedulingPolicy::kFcfs;
  priority_max_ = r.Chance(30) ? r.Between(1, 5) : 0;
  floors_ = r.Chance(40);
  caps_ = r.Chance(40);
  DrawTenants(r.Chance(50) ? 1 : r.Between(2, 4));
  if (scheduler.tenants.size() > 1 && r.Chance(40)) reload_percent_ = r.Between(1, 10);

  layer_heads_ = r.Between(1, kPairsMax);
  requests_left_ = r.Between(100, 300);
  arrival_percent_ = r.Between(3, 50);
  burst_max_ = r.Chance(20) ? r.Between(2, 12) : 1;
  cancel_percent_ = r.Chance(40) ? 0 : r.Between(1, 30);
  cancel_in_flight_percent_ = r.Chance(40) ? 0 : r.Between(1, 30);
  fail_percent_ = r.Chance(50) ? 0 : r.Between(1, 20);
  // Up to a little more than the pool holds, so that some must be refused.
  prompt_max_ = std::min(r.Chance(50) ? 60 : 240, scheduler.blocks * kBlockSlots + 8);
  output_max_ = r.Chance(20) ? 3 : r.Between(4, 60);
  unlimited_percent_ = r.Chance(20) ? 100 : r.Between(0, 60);
  periodic_percent_ = r.Chance(20) ? 100 : r.Between(0, 60);
  elastic_percent_ = r.Chance(40) ? 0 : r.Chance(50) ? 100 : r.Between(20, 100);
  budgeted_percent_ = r.Chance(50) ? 0 : r.Between(10, 100);
  score_bits_ = r.Chance(50) ? FakeRanks::kScoreBits : r.Between(1, 3);
  sharing_ = r.Chance(75);
  scheduler.spare_score_blocks = !sharing_ || r.Chance(10) ? 0 : r.Chance(50) ? r.Between(1, 12) : 4 * scheduler.blocks;
  if (r.Chance(30)) scheduler.prefix_hash_mask = static_cast<uint64_t>(r.Below(4));
  salts_ = r.Chance(50) ? 1 : r.Between(2, 3);
  reuse_percent_ = r.Between(20, 95);
  sessions_ = r.Chance(40) ? 0 : r.Between(1, 8);
  leave_percent_ = r.Chance(40) ? 0 : r.Between(1, 5);
  settle_percent_ = r.Chance(50) ? 100 : r.Between(20, 99);
  scheduler.parked_blocks_max = r.Chance(10) ? 0 : r.Between(1, 4 * scheduler.blocks);
  turn_heavy_percent_ = r.Chance(50) ? 0 : r.Between(20, 100);
  slow_percent_ = r.Chance(60) ? 0 : r.Chance(20) ? 100 : r.Between(5, 60);
  unread_max_ = r.Chance(50) ? 1 : r.Between(1, 12);
  read_percent_ = r.Between(3, 60);
  step_fails_permille_ = r.Chance(70) ? 0 : r.Between(1, 20);
  limits_steps_ = r.Chance(30);
  pauses_admission_ = r.Chance(20);
  integrity_every_ = r.Chance(20) ? 1 : 8;
  if (hurries) Hurry();
  if (swaps) LetThemStepAside(seed);
  if (drafts_.Chance(50)) scheduler.drafts_max = drafts_.Between(1, 16);
  // Drawn apart: an episode without them is the same as if there were none in any.
  Random rolling(Mix(seed + 1));
  if (rolling.Chance(70)) return;
  rolling_percent_ = rolling.Chance(20) ? 100 : rolling.Between(10, 60);
  if (rolling.Chance(60)) ShortenContext();
}

// So that sessions with rolling positions outgrow it again and again, and the others' reach its end.
void Workload::ShortenContext() {
  core_.context = random_.Between(40, 160);
  prompt_max_ = std::min(prompt_max_, core_.context);
  if (sessions_ > 0) sessions_ = random_.Between(1, 4);
}

// Small pools and long answers, of many at once: whoever was let in needs more than there is.
void Workload::LetThemStepAside(uint64_t seed) {
  Random r(Mix(seed + 2));
  SchedulerOptions& scheduler = core_.scheduler;
  scheduler.blocks = r.Chance(50) ? r.Between(4, 12) : r.Between(8, 30);
  scheduler.swap_blocks_max =
      r.Chance(20) ? r.Between(1, 2 * scheduler.blocks) : r.Between(2 * scheduler.blocks, 8 * scheduler.blocks);
  scheduler.swap_patience = r.Chance(50) ? r.Between(1, 2) : r.Between(2, 32);
  scheduler.sequences_max = r.Between(3, 12);
  scheduler.tokens_max = std::max(scheduler.tokens_max, scheduler.sequences_max + kBlockSlots - 1);
  if (scheduler.spare_score_blocks > 0) scheduler.spare_score_blocks = 4 * scheduler.blocks;
  scheduler.parked_blocks_max = r.Chance(30) ? 0 : r.Between(1, 4 * scheduler.blocks);
  prompt_max_ = std::max(1, scheduler.blocks * kBlockSlots / r.Between(3, 10));
  output_max_ = std::max(4, scheduler.blocks * kBlockSlots * r.Between(30, 90) / 100);
  arrival_percent_ = r.Between(20, 90);
  unlimited_percent_ = r.Chance(30) ? 100 : r.Between(30, 90);
  requests_left_ = r.Between(20, 80);
  swap_fails_percent_ = r.Chance(60) ? 0 : r.Between(1, 10);
  slow_percent_ /= 2;
  if (scheduler.tenants.size() > 1 && r.Chance(40)) LeaveFewRows(r);
  DrawTenants(static_cast<int32_t>(scheduler.tenants.size()));
}

// Room for many long answers of few blocks, and rows for some of them.
void Workload::LeaveFewRows(Random& r) {
  SchedulerOptions& scheduler = core_.scheduler;
  floors_ = floors_ && r.Chance(30);
  scheduler.sequences_max = r.Between(2, 5);
  scheduler.blocks = r.Between(60, 120);
  scheduler.swap_blocks_max = r.Between(60, 400);
  scheduler.swap_patience = r.Between(1, 16);
  scheduler.tokens_max = std::max(scheduler.tokens_max, scheduler.sequences_max + kBlockSlots - 1);
  prompt_max_ = r.Between(8, 60);
  output_max_ = r.Between(150, 500);
  unlimited_percent_ = r.Between(0, 20);
  requests_left_ = r.Between(15, 30);
  sessions_ = 0;
}

// Most blocks per token computed: long prompts in large chunks, short answers, and a pool that holds some tens of them.
void Workload::Hurry() {
  Random& r = random_;
  SchedulerOptions& scheduler = core_.scheduler;
  prompt_max_ = std::min(480, scheduler.blocks * kBlockSlots + 8);
  output_max_ = r.Between(1, 6);
  scheduler.tokens_max = scheduler.sequences_max + r.Between(60, 600);
  scheduler.prefill_tokens_max = r.Between(60, 600);
  arrival_percent_ = r.Between(20, 90);
  cancel_percent_ /= 4;
  cancel_in_flight_percent_ /= 4;
  requests_left_ *= 2;
}

void Workload::Remember(const std::vector<int32_t>& text) {
  if (!sharing_) return;
  if (remembered_.size() < kRememberedMax) {
    remembered_.push_back(text);
  } else if (random_.Chance(20)) {
    remembered_[static_cast<size_t>(random_.Below(kRememberedMax))] = text;
  }
}

std::vector<int32_t> Workload::Prompt() {
  const int32_t length = PromptLength();
  std::vector<int32_t> prompt;
  if (!remembered_.empty() && random_.Chance(reuse_percent_)) {
    // All of it, or up to somewhere, often an edge.
    const std::vector<int32_t>& text = remembered_[static_cast<size_t>(random_.Below(std::ssize(remembered_)))];
    const int32_t whole = static_cast<int32_t>(text.size());
    int32_t shared = random_.Chance(50) ? whole : random_.Between(1, whole);
    if (random_.Chance(40)) shared = std::max(1, shared / kBlockSlots * kBlockSlots);
    prompt.assign(text.begin(), text.begin() + std::min(shared, prompt_max_));
    if (random_.Chance(20)) return prompt;
  }
  while (std::ssize(prompt) < length) prompt.push_back(random_.Below(core_.vocab));
  return prompt;
}

EvictionPolicy Workload::Policy(const KvBudget& budget) {
  EvictionPolicy policy;
  policy.evicts = budget.limited();
  if (!policy.evicts) return policy;
  policy.recent = random_.Chance(20) ? budget.keep : random_.Between(1, budget.keep);
  policy.heavy = budget.keep - policy.recent;
  if (random_.Chance(15)) policy.score_source = ScoreSource::kNone;
  if (random_.Chance(20)) policy.score_rows = random_.Between(1, 40);
  if (random_.Chance(10)) policy.decay = 0.5f;
  if (random_.Chance(20)) policy.square = true;
  policy.rolling = rolling_percent_ > 0 && random_.Chance(rolling_percent_);
  return policy;
}

void Workload::DrawTenants(int32_t count) {
  Random& r = random_;
  const SchedulerOptions& scheduler = core_.scheduler;
  std::vector<TenantOptions> tenants;
  for (int32_t i = 0; i < count; ++i) {
    TenantOptions& tenant = tenants.emplace_back();
    tenant.name = "t" + std::to_string(i);
    if (count > 1) tenant.weight = r.Between(1, 8) / 2.0;
    if (count > 1 && floors_ && r.Chance(50)) tenant.floor_blocks = r.Between(1, std::max(1, scheduler.blocks / 3));
    if (caps_ && r.Chance(50)) tenant.blocks_max = r.Between(std::max(1, tenant.floor_blocks), scheduler.blocks);
  }
  if (!ValidateTenants(tenants, scheduler.blocks, scheduler.sequences_max).ok()) {
    for (TenantOptions& tenant : tenants) tenant.floor_blocks = 0;
  }
  core_.scheduler.tenants = std::move(tenants);
  crowd_.clear();
  for (int32_t i = 0; i < count; ++i) crowd_.insert(crowd_.end(), static_cast<size_t>(r.Between(1, 6)), i);
}

std::vector<TenantOptions> Workload::Reload() {
  const auto count = static_cast<int32_t>(tenants().size());
  DrawTenants(std::min(6, count + (random_.Chance(30) ? 1 : 0)));
  if (random_.Chance(30)) {
    // Tenant 0 is gone: no floor is kept for it and nothing comes from it any more.
    core_.scheduler.tenants[0].floor_blocks = 0;
    core_.scheduler.tenants[0].blocks_max = 0;
    std::erase(crowd_, 0);
  }
  return tenants();
}

int32_t Workload::Arrivals() {
  if (!random_.Chance(arrival_percent_)) return 0;
  const int32_t count = std::min(requests_left_, random_.Between(1, burst_max_));
  requests_left_ -= count;
  return count;
}

int32_t Workload::PromptLength() {
  const int32_t length = random_.Chance(40) ? kEdges[random_.Below(std::size(kEdges))] + 16 * random_.Below(3)
                                            : random_.Between(1, prompt_max_);
  return std::min(length, prompt_max_);
}

KvBudget Workload::Budget() {
  if (random_.Chance(unlimited_percent_)) return KvBudget::Unlimited();
  const int32_t keep = random_.Chance(50) ? kEdges[random_.Below(std::size(kEdges))] : random_.Between(1, 80);
  KvBudget budget = KvBudget::Exact(keep);
  if (random_.Chance(periodic_percent_)) {
    budget = KvBudget::Periodic(keep, random_.Chance(30) ? 1 : random_.Between(1, 34));
  }
  if (random_.Chance(elastic_percent_)) budget.floor = random_.Chance(50) ? 1 : random_.Between(1, keep);
  if (random_.Chance(budgeted_percent_)) budget.prompt_stride = random_.Chance(50) ? 64 : random_.Between(1, 90);
  return budget;
}

// Drawn apart: an episode in which nothing is pinned is the same as if nothing ever were.
void Workload::LetItPin(SequenceRequest* request) const {
  Random r(Mix(request->request.id + 3));
  EvictionPolicy& policy = request->policy;
  const SchedulerOptions& scheduler = core_.scheduler;
  const int32_t most = std::min(scheduler.tokens_max - scheduler.sequences_max - (kBlockSlots - 1), 64);
  if (!policy.scores() || policy.rolling || policy.score_rows > 0 || most < 1) return;
  if (request->request.budget.prompt_stride > 0 || !r.Chance(40)) return;
  policy.pin_rows = r.Between(1, most);
  policy.pin_tokens = r.Between(0, 20);
  NameSegments(request);
}

void Workload::NameSegments(SequenceRequest* request) {
  request->request.tail_tokens = request->policy.pin_rows;
  request->segment_starts.clear();
  if (request->policy.pin_rows == 0) return;
  for (size_t word = 0; word * 64 < request->request.prompt.size(); ++word) {
    request->segment_starts.push_back(Mix(request->request.id + word));
  }
}

SequenceRequest Workload::MakeRequest(uint64_t id, int64_t now_us) {
  Random& r = random_;
  SequenceRequest made;
  Request& request = made.request;
  request.id = id;
  request.tenant = crowd_[static_cast<size_t>(r.Below(static_cast<int32_t>(crowd_.size())))];
  request.priority = r.Below(priority_max_ + 1);
  request.prompt = Prompt();
  request.max_tokens = r.Chance(5) ? 0 : r.Between(1, output_max_);
  request.min_tokens = r.Chance(20) ? r.Between(0, request.max_tokens) : 0;
  request.budget = Budget();
  request.ignore_eos = r.Chance(30);
  if (r.Chance(20)) request.stop_token_ids = {r.Below(core_.vocab), 2};
  request.arrival_us = now_us;

  made.sampling.key = id;  // by which the fake executor knows whose row it is
  made.policy = Policy(request.budget);
  LetItPin(&made);
  // The context does not bound what these generate.
  if (made.policy.rolling && core_.context < FakeRanks::kPositionMax && r.Chance(10)) {
    request.max_tokens = r.Between(1, 2 * core_.context);
    request.min_tokens = std::min(request.min_tokens, request.max_tokens);
  }
  if (made.policy.heavy > 0 && r.Chance(turn_heavy_percent_)) request.budget.turn_heavy = made.policy.heavy;
  made.logprobs = r.Chance(20) ? r.Below(5) : -1;
  made.prompt_logprobs = r.Chance(20) ? r.Below(5) : -1;
  made.policy_label = r.Below(kPolicyLabelsMax);
  if (sharing_ && r.Chance(95)) {
    const PrefixSalt salt{static_cast<uint64_t>(request.tenant), static_cast<uint64_t>(r.Below(salts_))};
    request.prefix = SharePrefixes(made.policy, salt, made.prompt_logprobs >= 0);
    request.prefix.takes_generated = Random(Mix(id + 6)).Chance(50);
  }
  return made;
}

Fate Workload::MakeFate(const SequenceRequest& request) {
  Random& r = random_;
  Fate fate;
  fate.score_bits = score_bits_;
  if (r.Chance(fail_percent_)) {
    fate.fail_generated = r.Below(std::max(1, request.request.max_tokens));
    fate.fail_by_id = r.Chance(50);
  }
  const int32_t prompt_length = static_cast<int32_t>(request.request.prompt.size());
  if (request.prompt_logprobs >= 0 && prompt_length > 1 && r.Chance(fail_percent_)) {
    fate.fail_prompt = r.Between(1, prompt_length - 1);
  }
  if (r.Chance(15)) fate.text_end = r.Below(core_.vocab);
  if (r.Chance(slow_percent_)) fate.unread_max = r.Between(1, unread_max_);
  return fate;
}

}  // namespace hydrant::sim
