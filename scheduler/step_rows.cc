// The part of Scheduler that chooses who has rows in a step, and in which order.
#include <algorithm>
#include <cassert>
#include <utility>

#include "scheduler/scheduler.h"

namespace hydrant {

bool Scheduler::fair_between_tenants() const {
  return options_.policy == SchedulingPolicy::kFair && tenants_.size() > 1;
}

void Scheduler::ShareStep() {
  step_shares_.Begin(tenants_.size());
  if (fair_between_tenants()) {
    for (size_t i = 0; i < tenants_.size(); ++i) {
      step_shares_.SetWeight(static_cast<int32_t>(i), tenants_[i].options.weight);
    }
    for (int32_t index : running_) {
      const Sequence& sequence = at(index);
      const int32_t tenant = sequence.request.tenant;
      if (!sequence.decodes()) {
        const int32_t stop = sequence.request.budget.PromptStop(sequence.scheduled, sequence.prompt_length());
        step_shares_.AddPrompt(tenant, prefill_cost_.Of(sequence.live, stop - sequence.scheduled));
      } else if (sequence.goes_on()) {
        step_shares_.AddDecode(tenant, prefill_cost_.Of(sequence.live, 1));
      }
    }
    step_shares_.Divide(limits_.shared, limits_.shared_lag * limits_.shared);
  }
}

void Scheduler::PlanDecodes() {
  decoding_.clear();
  for (int32_t index : running_) {
    if (at(index).goes_on()) decoding_.push_back(index);
  }
  if (plan_->shared) {
    std::sort(decoding_.begin(), decoding_.end(),
              [this](int32_t a, int32_t b) { return at(a).last_row < at(b).last_row; });
  }
  for (int32_t index : decoding_) {
    const Sequence& sequence = at(index);
    const int32_t tenant = sequence.request.tenant;
    const double cost = prefill_cost_.Of(sequence.live, 1);
    // Whose budget falls, or who ends, for somebody who waits is not put off.
    const bool ends = blocked_.tenant != nullptr && StepsAfterNext(sequence) <= 0;
    const bool due = sequence.asks_losses || sequence.lower_to > 0 || ends;
    if (plan_->shared && !due && !step_shares_.HasRoomForDecode(tenant, cost)) continue;
    step_shares_.TakeDecode(tenant, cost);
    plan_->decode_cost += cost;
    PlanDecode(index);
  }
}

std::span<const int32_t> Scheduler::PrefillOrder() {
  prefilling_.clear();
  for (int32_t index : running_) {
    if (!at(index).decodes()) prefilling_.push_back(index);
  }
  if (!fair_between_tenants()) return prefilling_;
  // Not a stable sort, which would allocate; between sequences of a tenant it is first admitted, first computed.
  std::sort(prefilling_.begin(), prefilling_.end(), [this](int32_t a, int32_t b) {
    const Sequence& first = at(a);
    const Sequence& second = at(b);
    const Tenant& tenant = tenant_of(first);
    const Tenant& other = tenant_of(second);
    if (&tenant == &other) {
      return std::pair(first.times.admitted_us, first.arrival) < std::pair(second.times.admitted_us, second.arrival);
    }
    if (tenant.prefilled != other.prefilled) return tenant.prefilled < other.prefilled;
    return tenant.prompt_due != other.prompt_due ? tenant.prompt_due < other.prompt_due : &tenant < &other;
  });
  if (!prefilling_.empty()) {
    turns_.prefill_now = std::max(turns_.prefill_now, tenant_of(at(prefilling_.front())).prefilled);
  }
  return prefilling_;
}

// Bounded twice: in tokens, by what a step has room for, and in what they cost, by the time it may take.
void Scheduler::PlanPrompts() {
  const bool beside_decodes = plan_->decode_tokens > 0;
  const double cost_max = beside_decodes ? limits_.beside_decodes : limits_.alone;
  int32_t tokens_left = options_.tokens_max - plan_->decode_tokens;
  if (beside_decodes) tokens_left = std::min(tokens_left, options_.prefill_tokens_max);
  for (int32_t index : PrefillOrder()) {
    if (tokens_left == 0) break;
    const double cost_left =
        plan_->shared ? step_shares_.left(at(index).request.tenant) : std::max(0.0, cost_max - plan_->prefill_cost);
    int32_t tokens = prefill_cost_.TokensFor(at(index).live, cost_left);
    // To the end of the block that the share ends in: what that is too much is the others' in the next step.
    if (plan_->shared && tokens > 0) tokens += kSlotsPerBlock - 1;
    if (plan_->prefill_tokens == 0) tokens = std::max(tokens, kSlotsPerBlock);
    tokens = std::min(tokens, tokens_left);
    if (tokens > 0) tokens_left -= PlanPrefill(index, tokens);
  }
}

}  // namespace hydrant
