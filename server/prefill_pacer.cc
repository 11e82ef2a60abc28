#include "server/prefill_pacer.h"

#include <algorithm>
#include <cassert>

#include "block_manager/kv_budget.h"

namespace hydrant {
namespace {

// Half a second costs a CPU under 5 % of its prefill speed and is how long a cancelled prompt may hold its blocks.
constexpr double kAloneS = 0.5;
// How long a step with decodes may take while there are prompts to compute: the time between two tokens of its streams.
constexpr double kBesideDecodesS = 0.2;
// The same when the rows are of several tenants. Every step is full then, where a tenant on a machine of its own has some full
// ones when it has prompts itself: what it sees at the 99th percentile is how far steps are off, and not how long they should
// be. This much shorter they are hardly ever longer than its own would be.
constexpr double kBesideOthersS = 0.15;
// Of that, what prompts get however slow the decodes are: they have to be computed some time.
constexpr double kBesideLeast = 0.25;
// Before anything is known: half a second of a small model on two cores, and a fraction of a second of a large one.
constexpr double kTokensAtFirst = 256;
// One slow step says little (the machine may have been busy with something else): not below a quarter at once.
constexpr double kShrinkMost = 0.25;
constexpr double kGrowMost = 2;

}  // namespace

PrefillPacer::PrefillPacer(int32_t tokens_max)
    : tokens_max_(tokens_max), tokens_(std::min<double>(tokens_max, kTokensAtFirst)), beside_(BesideMost()) {
  assert(tokens_max >= kSlotsPerBlock);
}

// What would take kBesideDecodesS if the decodes took no time.
double PrefillPacer::BesideMost() const { return tokens_ * (kBesideDecodesS / kAloneS); }

int32_t PrefillPacer::beside_decodes() const { return std::max(kSlotsPerBlock, static_cast<int32_t>(beside_)); }

void PrefillPacer::Observe(const StepReport& report) {
  if (report.prefill_tokens == 0) return;
  const bool mixed = report.decode_tokens > 0;
  const auto step_us = static_cast<double>(std::max<int64_t>(1, report.plan_us + report.device_us + report.commit_us));
  const double beside_s = report.several_tenants ? kBesideOthersS : kBesideDecodesS;
  const double factor = (mixed ? beside_s : kAloneS) * 1e6 / step_us;
  double& tokens = mixed ? beside_ : tokens_;
  if (factor < 1) {
    tokens *= std::max(factor, kShrinkMost);
  } else if (report.prefill_limited) {
    // Only a step that was as full as it was allowed to be says that more would fit.
    tokens *= std::min(factor, kGrowMost);
  }
  // Where no step is ever without decodes, what fits beside them fits alone.
  if (mixed) tokens_ = std::max(tokens_, beside_ * (kAloneS / kBesideDecodesS));
  tokens_ = std::clamp<double>(tokens_, kSlotsPerBlock, tokens_max_);
  beside_ = std::clamp(beside_, std::max<double>(kSlotsPerBlock, BesideMost() * kBesideLeast),
                       std::max<double>(kSlotsPerBlock, BesideMost()));
}

}  // namespace hydrant
