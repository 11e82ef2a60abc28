// Workload draws what an episode is made of. Every episode has its own profile, so that rare mixtures (a pool of four
// blocks with only periodic budgets, a batch of one, nothing but cancels) come up. Most are in a hurry: they have long prompts and
// short answers, so that many blocks change hands for the tokens computed.
#ifndef HYDRANT_TESTS_SIM_WORKLOAD_H_
#define HYDRANT_TESTS_SIM_WORKLOAD_H_

#include <cstdint>
#include <vector>

#include "tests/sim/random.h"
#include "tests/sim/sim_request.h"

namespace hydrant::sim {

class Workload {
 public:
  // `swaps`: sequences may step aside, and have reason to.
  explicit Workload(uint64_t seed, bool swaps = false);

  // How many requests come now, of those that are left.
  int32_t Arrivals();
  bool CancelsNow() { return random_.Chance(cancel_percent_); }
  // Whether the client of a session's turn goes, for good; with its last step on the way, more often.
  bool Leaves(bool last_step) { return leave_percent_ > 0 && random_.Chance(last_step ? 30 : leave_percent_); }
  // Whether a turn that has ended is settled by now: its client's connection is on another thread.
  bool SettlesNow() { return random_.Chance(settle_percent_); }
  bool CancelsInFlight() { return random_.Chance(cancel_in_flight_percent_); }
  bool AddsInFlight() { return random_.Chance(10); }
  // New options for all tenants, of those there were and perhaps more; some of them may get no further request.
  bool ReloadsNow() { return random_.Chance(reload_percent_); }
  std::vector<TenantOptions> Reload();
  // The session whose turn the next request is; 0: of none.
  uint64_t DrawSession() {
    return sessions_ == 0 || !random_.Chance(50) ? 0 : static_cast<uint64_t>(1 + random_.Below(sessions_));
  }
  bool DropsSessionNow() { return sessions_ > 0 && random_.Below(1000) < 3; }
  uint64_t AnySession() { return static_cast<uint64_t>(1 + random_.Below(sessions_)); }
  bool LimitsStepsNow() { return limits_steps_ && random_.Below(1000) < 20; }
  // Whether admission is paused from now on, given that it is or is not.
  bool PausesAdmission(bool paused) { return pauses_admission_ && random_.Below(1000) < (paused ? 900 : 10); }
  bool SwapFails() { return swap_fails_percent_ > 0 && random_.Chance(swap_fails_percent_); }
  bool ReadsNow() { return random_.Chance(read_percent_); }  // a slow reader that is behind
  bool StepFails() { return step_fails_permille_ > 0 && random_.Below(1000) < step_fails_permille_; }
  bool ResetsNow() { return sharing_ && random_.Below(1000) < 2; }
  // Whether the next request has its tokens guessed.
  bool Drafts() { return core_.scheduler.drafts_max > 0 && drafts_.Chance(80); }
  bool exhausted() const { return requests_left_ == 0; }

  SequenceRequest MakeRequest(uint64_t id, int64_t now_us);
  Fate MakeFate(const SequenceRequest& request);
  // A text that was computed: later prompts may begin with it.
  void Remember(const std::vector<int32_t>& text);

  Random& random() { return random_; }
  const EngineCoreOptions& core() const { return core_; }
  int32_t layer_heads() const { return layer_heads_; }
  int32_t sessions() const { return sessions_; }
  int32_t context() const { return core_.context; }
  int32_t integrity_every() const { return integrity_every_; }  // steps
  // As of the last reload.
  const std::vector<TenantOptions>& tenants() const { return core_.scheduler.tenants; }
  bool reloads() const { return reload_percent_ > 0; }
  bool has_floors() const { return floors_; }
  bool has_priorities() const { return priority_max_ > 0; }
  // What a request whose policy pins says of its prompt.
  static void NameSegments(SequenceRequest* request);

 private:
  void Hurry();
  void ShortenContext();
  void LetThemStepAside(uint64_t seed);
  void LeaveFewRows(Random& random);
  void DrawTenants(int32_t count);
  int32_t PromptLength();
  KvBudget Budget();
  std::vector<int32_t> Prompt();
  EvictionPolicy Policy(const KvBudget& budget);
  void LetItPin(SequenceRequest* request) const;

  Random random_;
  Random drafts_;  // drawn apart, likewise
  EngineCoreOptions core_;
  std::vector<int32_t> crowd_;  // a tenant index for each share of the requests
  bool floors_ = false;
  bool caps_ = false;
  int32_t reload_percent_ = 0;
  int32_t priority_max_ = 0;
  int32_t layer_heads_ = 1;
  int32_t requests_left_ = 0;
  int32_t arrival_percent_ = 50;
  int32_t burst_max_ = 1;
  int32_t cancel_percent_ = 0;
  int32_t cancel_in_flight_percent_ = 0;
  int32_t leave_percent_ = 0;
  int32_t settle_percent_ = 100;
  int32_t fail_percent_ = 0;
  int32_t step_fails_permille_ = 0;
  int32_t swap_fails_percent_ = 0;
  int32_t slow_percent_ = 0;
  int32_t unread_max_ = 1;
  int32_t read_percent_ = 100;
  int32_t turn_heavy_percent_ = 0;
  int32_t rolling_percent_ = 0;
  int32_t integrity_every_ = 1;
  bool limits_steps_ = false;
  bool pauses_admission_ = false;
  int32_t prompt_max_ = 1;
  int32_t output_max_ = 1;
  int32_t unlimited_percent_ = 0;
  int32_t periodic_percent_ = 0;
  int32_t budgeted_percent_ = 0;
  int32_t elastic_percent_ = 0;
  int32_t score_bits_ = FakeRanks::kScoreBits;
  bool sharing_ = false;
  int32_t salts_ = 1;
  int32_t sessions_ = 0;
  int32_t reuse_percent_ = 0;
  std::vector<std::vector<int32_t>> remembered_;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_WORKLOAD_H_
