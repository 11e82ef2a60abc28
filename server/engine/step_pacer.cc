#include "server/engine/step_pacer.h"

#include <algorithm>
#include <cassert>

#include "block_manager/kv_budget.h"

namespace hydrant {
namespace {

// How long a step of prompts alone may take, and so how long a cancelled prompt holds its blocks: they must be free 250
// ms after its client went away. Every step reads the weights once, which takes 10 ms for a small model on two cores,
// so short steps cost at most 7 % of prefill speed. The rest of the 250 ms is the margin for steps that take longer
// than predicted: with 0.2 the slowest of 40 took 304 ms.
constexpr double kAloneS = 0.15;
// A step of this few tokens mostly waits for the weights, so fewer tokens would hardly be faster. If it takes longer
// than kAloneS, a step may take that long, up to kFewS.
constexpr double kFewTokens = 64;
constexpr double kFewS = 0.5;
// How long a step with decodes may take while there are prompts to compute: the time between two tokens of its streams.
constexpr double kBesideDecodesS = 0.2;
// Where every step takes the time of a pass over weights on a disk, steps take up to so many times as long as the shortest one: half
// of the time at most is for prompts, and streams are at most half as fast for them.
constexpr double kLongSteps = 2;
// The share of a step beside decodes that prompts get however slow the decodes are: they must be computed some time.
constexpr double kBesideLeast = 0.25;
// How long a step that is divided between tenants may take, in lengths of the shortest step. All steps are divided
// while one tenant asks for more than its share. A tenant with a machine of its own would have long steps only while it
// has prompts, and otherwise the shortest steps; so a divided step is a small multiple of the shortest one, of which a
// sixth is the cost that every step has. It is never shorter than a reader notices, and its upper limit stays below
// kBesideDecodesS by the margin for steps that take longer than predicted.
constexpr double kSharedSteps = 6;
constexpr double kSharedLeastS = 0.02;
constexpr double kSharedMostS = 0.125;
// How far a tenant that asked for less than its share may catch up at once: a prompt of a few hundred tokens and its
// first steps.
constexpr double kSharedLagS = 0.375;
// Before anything is known: less than a tenth of a second of a small model on two cores, and a fraction of a second of a large one.
constexpr double kTokensAtFirst = 96;
// One slow step says little (the machine may have been busy with something else): not below a quarter at once.
constexpr double kShrinkMost = 0.25;
constexpr double kGrowMost = 2;
// Tokens are bounded by the scheduler; what they cost goes with their depth. 64 is a million slots of a small model.
constexpr double kDepthMost = 64;
// A block that is moved costs no more than its tokens would if they were computed.
constexpr double kBlockMovedMost = kBlockSlots;
// How long KV of sessions may move with a step, in lengths of a step: so much longer is the time between two tokens of
// everybody while others' turns begin and end. Below a millisecond nobody notices, and copies of a few blocks would
// only cost more.
constexpr double kMovesPart = 0.2;
constexpr double kMovesLeastS = 0.001;
// Before a block was moved: less than 10 ms for models of up to 32 layers with 8 KV heads in fp32, where a block has 4
// MiB.
constexpr int64_t kBlocksMovedAtFirst = 8;
// How much the last step says of the length of a step.
constexpr double kStepNew = 0.25;
// How much the last step says of the time of a moved block. Memory that the host finds at once takes less than other memory.
constexpr double kBlockMovedNew = 0.25;

}  // namespace

StepPacer::StepPacer(int32_t tokens_max, bool long_steps)
    : tokens_max_(tokens_max),
      long_steps_(long_steps),
      alone_(std::min<double>(tokens_max, kTokensAtFirst)),
      alone_s_(kAloneS),
      beside_(BesideMost()),
      shared_(BesideMost()) {
  assert(tokens_max >= kBlockSlots);
}

double StepPacer::AtLeast(double target_s) const {
  const bool known = shortest_s_ < std::numeric_limits<double>::infinity();
  return long_steps_ && known ? std::max(target_s, kLongSteps * shortest_s_) : target_s;
}

double StepPacer::BesideS() const { return AtLeast(kBesideDecodesS); }

// What would take BesideS() if the decodes took no time.
double StepPacer::BesideMost() const { return alone_ * (BesideS() / alone_s_); }

double StepPacer::Within(double cost) const { return std::clamp<double>(cost, kBlockSlots, kDepthMost * tokens_max_); }

double StepPacer::SharedS() const {
  return AtLeast(std::clamp(kSharedSteps * shortest_s_, kSharedLeastS, kSharedMostS));
}

StepLimits StepPacer::limits() const {
  return {Within(alone_), Within(beside_),  Within(shared_), std::max(1.0, kSharedLagS / SharedS()),
          BlockMoved(),   BlocksMovedMost()};
}

// A step of another length than the last ones says little yet, and a long one is mostly of prompts: a step that several
// tenants have something for is to take SharedS() at most.
int64_t StepPacer::BlocksMovedMost() const {
  if (block_moved_s_ == 0.0) return kBlocksMovedAtFirst;
  const double moves_s = std::max(kMovesLeastS, kMovesPart * std::min(step_s_, kSharedMostS));
  return static_cast<int64_t>(std::clamp(moves_s / block_moved_s_, 2.0, 1e9));
}

// In tokens of a prompt, of which `alone_` take `alone_s_`.
double StepPacer::BlockMoved() const { return std::min(kBlockMovedMost, block_moved_s_ * (alone_ / alone_s_)); }

void StepPacer::Observe(const StepReport& report) {
  if (report.blocks_moved > 0) {
    const double block_s = static_cast<double>(report.move_us) * 1e-6 / static_cast<double>(report.blocks_moved);
    block_moved_s_ += (block_moved_s_ > 0.0 ? kBlockMovedNew : 1.0) * (block_s - block_moved_s_);
  }
  if (report.rows == 0) return;
  const auto step_us = static_cast<double>(std::max<int64_t>(1, report.plan_us + report.device_us + report.commit_us));
  shortest_s_ = std::min(shortest_s_, step_us * 1e-6);
  step_s_ += (step_s_ > 0.0 ? kStepNew : 1.0) * (step_us * 1e-6 - step_s_);
  const bool shared = report.several_tenants;
  if (report.prefill_tokens == 0 && !shared) return;
  const bool mixed = report.decode_tokens > 0;
  const double few_s = kFewTokens / std::max(1.0, report.prefill_cost) * step_us * 1e-6;
  const double shared_s = SharedS();
  const double wanted_s = shared ? shared_s : mixed ? BesideS() : AtLeast(std::clamp(few_s, kAloneS, kFewS));
  const double factor = wanted_s * 1e6 / step_us;
  double& cost = shared ? shared_ : mixed ? beside_ : alone_;
  const double before = cost;
  const double done = report.prefill_cost + (shared ? report.decode_cost : 0.0);
  if (factor < 1) {
    // Also when it was not full: what takes longer than it may is bounded from now on.
    cost = std::max((shared ? std::min(cost, done) : cost) * factor, cost * kShrinkMost);
  } else {
    // A step that took less time than it may shows that more would fit, if it had most of what was allowed.
    cost = std::max(cost, std::min(done * factor, cost * kGrowMost));
  }
  if (!shared && !mixed && cost != before) alone_s_ = wanted_s;
  // If every step has decodes, `alone_` is learned from them: what fits beside decodes fits alone.
  if (mixed) alone_ = std::max(alone_, beside_ * (alone_s_ / BesideS()));
  alone_ = Within(alone_);
  beside_ = Within(std::clamp(beside_, BesideMost() * kBesideLeast, BesideMost()));
  // Where even a few rows take longer, fewer would not be faster.
  shared_ = Within(std::max(shared_, BesideMost() * (shared_s / BesideS()) * kBesideLeast));
}

}  // namespace hydrant
