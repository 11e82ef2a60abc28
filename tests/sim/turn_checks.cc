#include "tests/sim/turn_checks.h"

#include <iterator>

namespace hydrant::sim {

void TurnChecks::BeforeStep(const Scheduler& scheduler) { blocks_wanted_ = scheduler.parked().blocks(); }

void TurnChecks::OnEnd(const TurnId& id, int64_t blocks) {
  due_[id] = {.blocks = blocks};
  blocks_wanted_ += blocks;
}

void TurnChecks::OnLeave(const TurnId& id, int64_t blocks, bool is_due) {
  blocks_wanted_ += blocks;
  if (is_due) due_[id] = {.blocks = blocks};
}

void TurnChecks::AfterStep(const Scheduler& scheduler, int64_t executor_blocks) {
  const ParkedSessions& parked = scheduler.parked();
  int64_t blocks = 0;
  for (auto due = due_.begin(); due != due_.end();) {
    const auto& [id, turn] = *due;
    if (parked.Find(id) != nullptr) {
      blocks += turn.blocks;
      ++due;
      continue;
    }
    // Where all of it had room at once, nobody had to go.
    if (!turn.dropped && blocks_wanted_ <= blocks_max_) {
      failure_.Set("session ", id.session, " goes on from turn ", id.turn,
                   ", whose KV is gone although there was room");
      return;
    }
    due = due_.erase(due);
  }
  if (parked.blocks() != blocks) {
    failure_.Set(parked.blocks(), " blocks are parked, ", blocks, " of turns that a session may go on from");
  } else if (executor_blocks >= 0 && executor_blocks != blocks) {
    failure_.Set("the executor has ", executor_blocks, " blocks parked, the scheduler counts ", blocks);
  }
}

void TurnChecks::OnSettle(const TurnId& id, bool keep) {
  if (!keep) {
    if (due_.erase(id) == 0) return;
    ++given_up_;
    const auto before = due_.lower_bound({id.session, 0});
    gone_back_ += before != due_.end() && before->first.session == id.session ? 1 : 0;
    return;
  }
  due_.erase(due_.lower_bound({id.session, 0}), due_.lower_bound(id));
}

void TurnChecks::OnDrop(uint64_t session, const Scheduler& scheduler) {
  for (auto due = due_.lower_bound({session, 0}); due != due_.end() && due->first.session == session;) {
    due->second.dropped = scheduler.parked().Find(due->first) != nullptr;
    due = due->second.dropped ? std::next(due) : due_.erase(due);
  }
}

}  // namespace hydrant::sim
