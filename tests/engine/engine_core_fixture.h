// What tests of EngineCore share: an executor whose answers a test writes, and requests.
#ifndef HYDRANT_TESTS_ENGINE_ENGINE_CORE_FIXTURE_H_
#define HYDRANT_TESTS_ENGINE_ENGINE_CORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <new>
#include <vector>

#include "kernels/kv_cache_view.h"
#include "server/engine/engine_core.h"

namespace hydrant {

inline constexpr int32_t kVocab = 100;

// Answers each row as the test says and keeps the last input's scalars.
class ScriptedExecutor : public Executor {
 public:
  Ticket Launch(const StepInput& input) override {
    if (starve && starve(input)) throw std::bad_alloc();
    flights_.push_back({&input, {}});
    rows = input.rows;
    ++launches;
    return {static_cast<uint64_t>(launches)};
  }
  void Sample(Ticket ticket, std::span<const LogitAdjustments* const> of_rows) override {
    EXPECT_EQ(ticket.number, static_cast<uint64_t>(launches)) << "before the next launch";
    EXPECT_EQ(of_rows.size(), rows.size());
    if (starve_sample && starve_sample(*flights_.back().input)) {
      flights_.pop_back();
      --launches;
      throw std::bad_alloc();
    }
    EXPECT_TRUE(flights_.back().adjustments.empty()) << "once";
    flights_.back().adjustments.assign(of_rows.begin(), of_rows.end());
    adjustments = flights_.back().adjustments;
  }
  StepOutput Await(Ticket ticket) override {
    EXPECT_EQ(ticket.number, static_cast<uint64_t>(launches) + 1 - flights_.size()) << "in their order";
    if (in_flight) in_flight();
    const Flight flight = std::move(flights_.front());
    const StepInput* input = flight.input;
    flights_.pop_front();
    EXPECT_EQ(flight.adjustments.size(), input->rows.size()) << "every step is sampled";
    for (const ReadOp& read : input->reads) {
      reads.push_back({read.parked.session, read.live, std::ssize(read.score_blocks)});
      read.out->blocks = static_cast<int32_t>(BlocksForSlots(read.live));
    }
    StepOutput output;
    output.restore_us = static_cast<int64_t>(input->restores.size()) * restore_us;
    for (const ParkOp& park : input->parks) {
      if (park.id.session == unparkable) output.park_failures.push_back(park.id);
    }
    for (const StepRow& row : input->rows) {
      RowOutput& answer = output.rows.emplace_back();
      answer.losses.resize(static_cast<size_t>(row.losses.cuts));
      for (int32_t target : row.targets) {
        SampleResult& result = answer.targets.emplace_back();
        result.id = target;
        result.logprob = -static_cast<float>(target);
      }
      if (row.sample) answer.sampled = sampled;
      asked = flight.adjustments[output.rows.size() - 1];
      if (spoil) spoil(row, answer);
    }
    return output;
  }

  SampleResult sampled = {.id = 7, .finite = true, .logprob = -0.5f, .top = {}};
  std::function<void(const StepRow&, RowOutput&)> spoil;
  std::function<void()> in_flight;
  std::function<bool(const StepInput&)> starve;         // true: there is no memory for it
  std::function<bool(const StepInput&)> starve_sample;  // … when its layers are computed
  int64_t restore_us = 0;                               // that a restore takes
  uint64_t unparkable = 0;                              // session that there is none for
  std::vector<StepRow> rows;                            // spans are dead after the step
  std::vector<const LogitAdjustments*> adjustments;     // of the step sampled last
  const LogitAdjustments* asked = nullptr;              // of the row that `spoil` is called for
  struct Read {
    uint64_t session;
    int32_t live;
    int64_t score_blocks;
  };
  std::vector<Read> reads;
  int32_t launches = 0;

 private:
  struct Flight {
    const StepInput* input = nullptr;
    std::vector<const LogitAdjustments*> adjustments;
  };
  std::deque<Flight> flights_;  // of the tickets in flight
};

inline EngineCoreOptions Options() {
  EngineCoreOptions options;
  options.scheduler.blocks = 64;
  options.scheduler.sequences_max = 4;
  options.scheduler.waiting_max = 4;
  options.scheduler.tokens_max = 64;
  options.scheduler.prefill_tokens_max = 32;
  options.scheduler.eos_ids = {2};
  options.vocab = kVocab;
  options.context = 512;
  return options;
}

inline SequenceRequest MakeRequest(uint64_t id, int32_t prompt_length, int32_t max_tokens, int32_t keep = 0) {
  SequenceRequest request;
  request.request.id = id;
  std::vector<int32_t> prompt(static_cast<size_t>(prompt_length));
  for (int32_t i = 0; i < prompt_length; ++i) prompt[static_cast<size_t>(i)] = i % kVocab;
  request.request.prompt = std::move(prompt);
  request.request.max_tokens = max_tokens;
  request.sampling.key = id;
  if (keep > 0) {
    request.request.budget = KvBudget::Exact(keep);
    request.policy.evicts = true;
    request.policy.recent = (keep + 1) / 2;
    request.policy.heavy = keep / 2;
  }
  return request;
}

// Ends with the `count`-th token.
class EndsAfter : public EndFinder {
 public:
  explicit EndsAfter(int32_t count) : left_(count) {}
  bool Push(int32_t token) override {
    seen.push_back(token);
    return --left_ == 0;
  }

  std::vector<int32_t> seen;

 private:
  int32_t left_;
};

inline SequenceRequest SessionTurnOf(uint64_t session, SequenceRequest request) {
  request.request.session = session;
  request.request.turn = 3;
  return request;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_ENGINE_ENGINE_CORE_FIXTURE_H_
