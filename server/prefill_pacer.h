// PrefillPacer sizes prefill chunks by time. A step cannot be interrupted: while it runs, a cancelled sequence keeps
// its blocks, a new request waits, and streams beside the prefill stand still. How many prompt tokens make a step of
// bearable length depends on the device and the model, so it is learned from the steps: beside decodes from the length of
// the whole step, for that is what their readers wait for, whoever else decodes. Tokens are tokens at the begin of a prompt
// (scheduler/prefill_cost.h): a step with the end of a long one has fewer.
//
// Thread: engine. Pure: what it returns is a function of the reports. (Results do not depend on the size of chunks.)
#ifndef HYDRANT_SERVER_PREFILL_PACER_H_
#define HYDRANT_SERVER_PREFILL_PACER_H_

#include <cstdint>

#include "server/engine_core.h"

namespace hydrant {

class PrefillPacer {
 public:
  // REQUIRES: tokens_max >= kSlotsPerBlock.
  explicit PrefillPacer(int32_t tokens_max);

  void Observe(const StepReport& report);

  // Prompt tokens for the next step, [kSlotsPerBlock, tokens_max]: in a step of their own, and beside decodes.
  int32_t alone() const { return static_cast<int32_t>(tokens_); }
  int32_t beside_decodes() const;

 private:
  double BesideMost() const;

  const double tokens_max_;
  double tokens_;  // of a step without decodes
  double beside_;  // beside decodes
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PREFILL_PACER_H_
