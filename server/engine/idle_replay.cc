#include "server/engine/idle_replay.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/cleanup/cleanup.h"

namespace hydrant {

IdleReplay::IdleReplay(Executor& executor, const ReplayBlocks& blocks)
    : executor_(executor),
      blocks_(static_cast<size_t>(blocks.count)),
      score_blocks_(static_cast<size_t>(blocks.count)) {
  std::iota(blocks_.begin(), blocks_.end(), blocks.first);
  std::iota(score_blocks_.begin(), score_blocks_.end(), blocks.first_score);
}

bool IdleReplay::Begin(ReplayText text) {
  assert(!active_ && text.begin >= 1 && text.begin < std::ssize(text.tokens));
  if (std::ssize(text.tokens) > ReplayTokensMax(std::ssize(blocks_))) return false;
  text_ = std::move(text);
  computed_ = 0;
  active_ = true;
  return true;
}

std::optional<std::span<const SampleResult>> IdleReplay::Step(const std::atomic<bool>* overtaken) {
  assert(active_);
  absl::Cleanup stop = [this] { Stop(); };
  // Kept for the step alone: whoever takes it away need not wait for the end.
  const std::shared_ptr<AdapterSlot> adapter = text_.adapter.lock();
  if (text_.has_adapter && adapter == nullptr) return std::nullopt;
  const auto size = static_cast<int32_t>(text_.tokens.size());
  const int32_t tokens = std::min(kStepTokens, size - 1 - computed_);
  const std::span<const int32_t> all(text_.tokens.data(), text_.tokens.size());
  input_.clear();
  input_.overtaken = overtaken;
  StepRow& row = input_.rows.emplace_back();
  row.position = row.live = computed_;
  row.prompt_length = size;
  row.prefill = true;
  if (adapter != nullptr) row.adapter = adapter->number;
  row.block_table = blocks_;
  row.score_table = score_blocks_;
  row.tokens = all.subspan(static_cast<size_t>(computed_), static_cast<size_t>(tokens));
  row.policy = &full_;
  // Token i predicts token i + 1.
  const int32_t first = computed_ + 1;
  if (first + tokens > text_.begin) row.targets = all.subspan(static_cast<size_t>(first), static_cast<size_t>(tokens));
  row.target_logprobs = 0;
  const LogitAdjustments* const none = nullptr;
  const Executor::Ticket ticket = executor_.Launch(input_);
  executor_.Sample(ticket, {&none, 1});
  output_ = executor_.Await(ticket);
  if (output_.left_out) {
    std::move(stop).Cancel();
    return std::span<const SampleResult>();
  }
  computed_ += tokens;
  if (computed_ < size - 1) std::move(stop).Cancel();
  const std::span<const SampleResult> scores = output_.rows.front().targets;
  return scores.subspan(std::min(scores.size(), static_cast<size_t>(std::max(0, text_.begin - first))));
}

void IdleReplay::Stop() {
  text_ = {};
  active_ = false;
}

}  // namespace hydrant
