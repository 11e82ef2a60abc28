// A request in the simulator: what was asked, what must come of it, and what was seen so far.
#ifndef HYDRANT_TESTS_SIM_SIM_REQUEST_H_
#define HYDRANT_TESTS_SIM_SIM_REQUEST_H_

#include <array>
#include <cstdint>
#include <vector>

#include "tests/sim/solo_run.h"

namespace hydrant::sim {

struct SimRequest {
  EngineRequest request;  // as it was added
  Fate fate;
  SoloRun solo;
  std::array<FakeScores, kPairsMax> scores;

  // The device's side, by the fake executor.
  int32_t computed = 0;
  int32_t live = 0;
  int32_t state_row = -1;
  bool victim_waits = false;
  std::vector<int32_t> blocks;  // it may read and write
  bool gone = false;            // its blocks were freed

  // The client's side, by the simulator.
  bool cancelled = false;  // Cancel said yes
  bool ended = false;
  int32_t tokens_seen = 0;
  int32_t prompt_seen = 1;  // next prompt token whose log-probability is due
  int64_t deadline_step = 0;
  int64_t cost_steps = 0;
  RequestTimes times;

  uint64_t id() const { return request.request.id; }
  int32_t prompt_length() const { return solo.prompt_length; }
  bool decodes() const { return computed >= prompt_length(); }
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_SIM_REQUEST_H_
