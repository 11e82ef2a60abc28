#include "loadgen/load/load_plan.h"

#include <algorithm>
#include <utility>

namespace hydrant {
namespace {

size_t Bytes(const Conversation& conversation) {
  size_t bytes = conversation.system.size();
  for (const Turn& turn : conversation.turns) bytes += turn.text.size() + turn.token_ids.size() * sizeof(int32_t);
  return bytes;
}

}  // namespace

std::optional<PlannedConversation> LoadPlan::Make() {
  const std::optional<double> scheduled_s = schedule_.Next();
  if (!scheduled_s.has_value()) return std::nullopt;
  const size_t idx = next_conversation_++;
  return PlannedConversation{idx, *scheduled_s, std::make_unique<Dialogue>(style_, workload_->At(idx))};
}

void LoadPlan::MakeAhead(size_t count) {
  count = std::min(count, kAheadMax);
  for (size_t bytes = 0; ahead_.size() < count && bytes < kAheadBytesMax;) {
    std::optional<PlannedConversation> next = Make();
    if (!next.has_value()) return;
    bytes += Bytes(next->dialogue->conversation());
    ahead_.push_back(*std::move(next));
  }
}

std::optional<PlannedConversation> LoadPlan::Next() {
  if (ahead_.empty()) return Make();
  PlannedConversation next = std::move(ahead_.front());
  ahead_.pop_front();
  return next;
}

}  // namespace hydrant
