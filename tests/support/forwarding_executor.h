// ForwardingExecutor is what stands between the engine and its executor, and by itself changes nothing: tests override what they watch
// or spoil.
#ifndef HYDRANT_TESTS_SUPPORT_FORWARDING_EXECUTOR_H_
#define HYDRANT_TESTS_SUPPORT_FORWARDING_EXECUTOR_H_

#include <cstdint>
#include <span>

#include "model/run/executor.h"

namespace hydrant {

class ForwardingExecutor : public Executor {
 public:
  // `inner` outlives it.
  explicit ForwardingExecutor(Executor& inner) : inner_(inner) {}

  Ticket Launch(const StepInput& input) override { return inner_.Launch(input); }
  void Sample(Ticket ticket, std::span<const LogitAdjustments* const> adjustments) override {
    inner_.Sample(ticket, adjustments);
  }
  StepOutput Await(Ticket ticket) override { return inner_.Await(ticket); }
  void KeepDrafts(std::span<const int32_t> kept) override { inner_.KeepDrafts(kept); }
  void PutAdapter(int32_t slot, const Adapter& adapter) override { inner_.PutAdapter(slot, adapter); }
  WeightStream::Counters WeightReads() const override { return inner_.WeightReads(); }
  KvBytes Parked(const TurnId& turn) const override { return inner_.Parked(turn); }
  bool Adopt(const TurnId& turn, const KvBytes& kv) override { return inner_.Adopt(turn, kv); }

 protected:
  Executor& inner() { return inner_; }

 private:
  Executor& inner_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SUPPORT_FORWARDING_EXECUTOR_H_
