// Runs a Scheduler without a model: every sampled token is what the test says, and everything that happened is kept.
#ifndef HYDRANT_TESTS_SCHEDULER_DRIVER_H_
#define HYDRANT_TESTS_SCHEDULER_DRIVER_H_

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace hydrant {

inline Request MakeRequest(uint64_t id, int32_t prompt_length, int32_t max_tokens,
                           KvBudget budget = KvBudget::Unlimited()) {
  Request request;
  request.id = id;
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < prompt_length; ++i) prompt.push_back(1000 + i);
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.budget = budget;
  return request;
}

// One whose blocks others may find, and that looks for theirs.
inline Request Shared(uint64_t id, int32_t prompt_length, int32_t max_tokens, KvBudget budget = KvBudget::Unlimited(),
                      ScoreNeed scores = ScoreNeed::kNothing) {
  Request request = MakeRequest(id, prompt_length, max_tokens, budget);
  request.prefix.publishes = request.prefix.looks_up = true;
  request.prefix.scores = scores;
  return request;
}

inline SchedulerOptions SmallOptions(int32_t blocks, int32_t sequences_max = 4) {
  SchedulerOptions options;
  options.blocks = blocks;
  options.sequences_max = sequences_max;
  options.waiting_max = 8;
  options.tokens_max = 64;
  options.prefill_tokens_max = 32;
  options.eos_ids = {2};
  return options;
}

inline Request Of(int32_t tenant, uint64_t id, int32_t prompt = 10, int32_t max_tokens = 10) {
  Request request = MakeRequest(id, prompt, max_tokens);
  request.tenant = tenant;
  return request;
}

inline SchedulerOptions With(std::vector<TenantOptions> tenants, int32_t blocks = 64, int32_t sequences_max = 1) {
  SchedulerOptions options = SmallOptions(blocks, sequences_max);
  options.waiting_max = 1000;
  options.tenants = std::move(tenants);
  return options;
}

class Driver {
 public:
  explicit Driver(const SchedulerOptions& options) : scheduler(options) {}

  // Plan, or with `ahead` PlanAhead where there is one, and Commit with `token_of` for every sampled row. Returns a copy of the
  // committed plan's rows; their spans are dead.
  std::vector<PlanRow> Step() {
    ++now_us;
    if (in_flight.empty()) in_flight.push_back(&scheduler.Plan(now_us));
    if (ahead) {
      const StepPlan* next = scheduler.PlanAhead(can_plan_ahead);
      if (next != nullptr) in_flight.push_back(next);
    }
    if (between) between();
    const StepPlan& plan = *in_flight.front();
    in_flight.pop_front();
    std::vector<RowResult> results;
    std::vector<std::vector<float>> losses(plan.rows.size());
    std::vector<std::vector<int32_t>> more(plan.rows.size());
    for (const PlanRow& row : plan.rows) {
      const uint64_t id = scheduler.sequence(row.sequence).request.id;
      std::vector<float>& loss = losses[results.size()];
      for (int32_t cut = 1; cut <= row.loss_cuts; ++cut) loss.push_back(static_cast<float>(cut) * losses_of(id));
      const bool fails = failing == id;
      RowResult& result = results.emplace_back(
          RowResult{row.sample ? token_of(id) : -1, fails ? failure : FinishReason::kNone, FinishReason::kNone, loss});
      // As many of its drafts are right as are sampled one after the other.
      std::vector<int32_t>& behind = more[results.size() - 1];
      for (int32_t last = result.token; std::ssize(behind) < row.drafts() && !fails && last != 2;) {
        if (row.tokens[behind.size() + 1] != last || scheduler.sequence(row.sequence).retired()) break;
        behind.push_back(last = token_of(id));
      }
      result.more = behind;
    }
    std::vector<PlanRow> rows = plan.rows;
    ++now_us;
    step_events.clear();
    for (const SequenceEvent& event : scheduler.Commit(plan, results, now_us)) {
      step_events.push_back(event);
      EXPECT_FALSE(finished.contains(event.id)) << "an event after the terminal one";
      if (event.token >= 0) tokens[event.id].push_back(event.token);
      if (event.finish != FinishReason::kNone) finished[event.id] = event;
    }
    EXPECT_TRUE(scheduler.CheckIntegrity().ok()) << scheduler.CheckIntegrity();
    return rows;
  }

  // Steps until nothing is left. Returns how many steps it took.
  int32_t Drain(int32_t steps_max = 10000) {
    int32_t steps = 0;
    while (!scheduler.idle()) {
      Step();
      EXPECT_LT(++steps, steps_max) << "it never ends";
      if (steps >= steps_max) break;
    }
    return steps;
  }

  // The same with parked KV copied as soon as the scheduler names it, until nothing is left of that either.
  void DrainParks() {
    while (!scheduler.idle() || !scheduler.parks().empty()) {
      Step();
      scheduler.FinishParks();
    }
  }

  int32_t used() const { return scheduler.block_manager().pool().used(); }

  Scheduler scheduler;
  bool ahead = false;
  std::deque<const StepPlan*> in_flight;  // two at most
  std::function<bool(int32_t sequence)> can_plan_ahead = [](int32_t) { return true; };
  std::function<int32_t(uint64_t id)> token_of = [](uint64_t) { return 7; };
  std::function<float(uint64_t id)> losses_of = [](uint64_t) { return 0.01f; };  // of every block a budget falls by
  std::function<void()> between;                                                 // called between Plan and Commit
  uint64_t failing = 0;                                                          // request whose row fails
  FinishReason failure = FinishReason::kError;                                   // in this way
  int64_t now_us = 0;
  std::vector<SequenceEvent> step_events;
  std::map<uint64_t, std::vector<int32_t>> tokens;
  std::map<uint64_t, SequenceEvent> finished;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SCHEDULER_DRIVER_H_
