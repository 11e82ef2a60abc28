// SimDevice is the ScriptedExecutor of EngineEpisode. It knows which turns' KV it has parked, and fails as its driver
// says: no memory for a step or for what leaves the pool, rows that are not numbers, or a device that is gone.
#ifndef HYDRANT_TESTS_SIM_ENGINE_SIM_DEVICE_H_
#define HYDRANT_TESTS_SIM_ENGINE_SIM_DEVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>

#include "tests/sim/engine/buggy_engine.h"
#include "tests/sim/failure.h"
#include "tests/support/scripted_executor.h"

namespace hydrant::sim {

class SimDevice : public ScriptedExecutor {
 public:
  SimDevice(EngineBug bug, Failure& failure) : bug_(bug), failure_(failure) {}

  std::function<bool(const StepInput&)> lacks_memory;  // for this input
  std::function<bool()> is_gone;                       // asked in every Await
  std::function<void(const StepInput&)> in_flight;     // between Launch and the answer

  Ticket Launch(const StepInput& input) override {
    const bool lost = lacks_memory(input);
    for (const TurnId& turn : input.drops) parked_.erase(turn);
    for (const ParkOp& park : input.parks) {
      if (!lost && park.begins) parked_[park.id] = park.live;
    }
    const bool is_step = !input.rows.empty() || !input.restores.empty();
    const bool hides = bug_ == (is_step ? EngineBug::kLostStepHidden : EngineBug::kLostParkHidden);
    if (lost && !hides) throw std::bad_alloc();
    for (const RestoreOp& restore : input.restores) {
      const auto found = parked_.find(restore.id);
      if (found == parked_.end() || found->second != restore.live) {
        failure_.Set("session ", restore.id.session, " goes on from turn ", restore.id.turn,
                     ", which is parked nowhere");
      }
    }
    const Ticket ticket = ScriptedExecutor::Launch(input);
    flights_[launched_++ % kStepsInFlight] = {&input, lost};
    return ticket;
  }

  StepOutput Await(Ticket ticket) override {
    const Flight flight = flights_[awaited_++ % kStepsInFlight];
    in_flight(*flight.input);
    if (is_gone()) throw std::runtime_error("the device is gone");
    StepOutput output = ScriptedExecutor::Await(ticket);
    // What was not computed is whatever was there before.
    for (RowOutput& row : output.rows) row.sampled.id = flight.was_lost ? 0 : row.sampled.id;
    return output;
  }

  const std::map<TurnId, int32_t>& parked() const { return parked_; }  // slots

 private:
  struct Flight {
    const StepInput* input = nullptr;
    bool was_lost = false;
  };

  const EngineBug bug_;
  Failure& failure_;
  std::map<TurnId, int32_t> parked_;
  Flight flights_[kStepsInFlight];
  uint64_t launched_ = 0;
  uint64_t awaited_ = 0;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_ENGINE_SIM_DEVICE_H_
