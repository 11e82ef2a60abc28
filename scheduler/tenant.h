// Tenant is a party that shares the server: a weight, a queue and the service it has received. The scheduler admits
// from the tenant with the least service ("Fairness in Serving Large Language Models", OSDI 2024: the virtual token
// counter).
//
// Thread: engine.
#ifndef HYDRANT_SCHEDULER_TENANT_H_
#define HYDRANT_SCHEDULER_TENANT_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string>

namespace hydrant {

struct TenantOptions {
  std::string name = "default";
  double weight = 1.0;  // > 0
};

struct Tenant {
  TenantOptions options;
  std::deque<int32_t> queue;  // sequences that wait for admission, first come first
  int32_t running = 0;        // admitted and not yet released
  double service = 0.0;       // (kPromptCharge * computed prompt tokens + kOutputCharge * generated tokens) / weight

  uint64_t prompt_tokens = 0;  // computed
  uint64_t generated_tokens = 0;

  // Costs of a token; an output token takes a whole row of a memory-bound step (weights of the paper).
  static constexpr double kPromptCharge = 1.0;
  static constexpr double kOutputCharge = 2.0;

  bool active() const { return running > 0 || !queue.empty(); }
  void ChargePrompt(int32_t tokens) {
    prompt_tokens += static_cast<uint64_t>(tokens);
    service += kPromptCharge * tokens / options.weight;
  }
  void ChargeOutput() {
    ++generated_tokens;
    service += kOutputCharge / options.weight;
  }
};

// The tenant whose head of line is admitted next: of those that wait, the one with the least service (the first one on a
// tie); null when nobody waits.
Tenant* ChooseTenant(std::span<Tenant> tenants);

// Called before a request joins the queue of a tenant that is not active: it does not bring the time it was away, but
// starts beside the least served of those who stayed.
void LiftFromIdle(Tenant& tenant, std::span<const Tenant> tenants);

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_TENANT_H_
