#include "server/prefill_pacer.h"

#include <algorithm>
#include <cassert>

#include "block_manager/kv_budget.h"

namespace hydrant {
namespace {

// Half a second costs a CPU under 5 % of its prefill speed and is how long a cancelled prompt may hold its blocks.
constexpr double kAloneS = 0.5;
// What a prefill may add to the time between two tokens of the streams beside it.
constexpr double kBesideDecodesS = 0.2;
// Before anything is known: half a second of a small model on two cores, and a fraction of a second of a large one.
constexpr double kTokensAtFirst = 256;
// One slow step says little (the machine may have been busy with something else): not below a quarter at once.
constexpr double kShrinkMost = 0.25;
constexpr double kGrowMost = 2;

}  // namespace

PrefillPacer::PrefillPacer(int32_t tokens_max)
    : tokens_max_(tokens_max), tokens_(std::min<double>(tokens_max, kTokensAtFirst)) {
  assert(tokens_max >= kSlotsPerBlock);
}

int32_t PrefillPacer::beside_decodes() const {
  return std::max(kSlotsPerBlock, static_cast<int32_t>(tokens_ * (kBesideDecodesS / kAloneS)));
}

void PrefillPacer::Observe(const StepReport& report) {
  if (report.prefill_tokens == 0) return;
  const bool mixed = report.decode_tokens > 0;
  const auto step_us = static_cast<double>(std::max<int64_t>(1, report.plan_us + report.device_us + report.commit_us));
  const double factor = (mixed ? kBesideDecodesS : kAloneS) * 1e6 / step_us;
  if (factor >= 1) {
    // Only a step that was as full as it was allowed to be says that more would fit. Chunks end on whole blocks.
    if (report.prefill_tokens > (mixed ? beside_decodes() : alone()) - kSlotsPerBlock)
      tokens_ *= std::min(factor, kGrowMost);
  } else if (!mixed) {
    // A slow mixed step may be slow because of its decodes; fewer prompt tokens would not help them.
    tokens_ *= std::max(factor, kShrinkMost);
  }
  tokens_ = std::clamp<double>(tokens_, kSlotsPerBlock, tokens_max_);
}

}  // namespace hydrant
