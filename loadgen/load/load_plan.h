// The conversations of a load with their times, in the order they arrive. Some are made ahead: making one takes time that is
// not to be measured.
//
// Thread: any (an instance belongs to one caller).
#ifndef HYDRANT_LOADGEN_LOAD_LOAD_PLAN_H_
#define HYDRANT_LOADGEN_LOAD_LOAD_PLAN_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "loadgen/load/arrivals.h"
#include "loadgen/load/dialogue.h"
#include "loadgen/load/workload.h"

namespace hydrant {

struct PlannedConversation {
  size_t conversation_idx = 0;
  double scheduled_s = 0;
  std::unique_ptr<Dialogue> dialogue;
};

class LoadPlan {
 public:
  // The most that is made ahead: conversations, and bytes of their texts (the last one may go beyond). A load that begins
  // with more of them at one instant makes the others while it runs.
  static constexpr size_t kAheadMax = 2048;
  static constexpr size_t kAheadBytesMax = 32 << 20;

  // `workload` and `style` outlive this.
  LoadPlan(const Workload* workload, const RequestStyle* style, const ArrivalSpec& arrivals, size_t first_conversation)
      : workload_(workload), style_(style), schedule_(arrivals), next_conversation_(first_conversation) {}

  // Makes the first ones, no more than `count`: those that may run at a time.
  void MakeAhead(size_t count);
  // The next one, or nullopt when there are no more.
  std::optional<PlannedConversation> Next();
  size_t ahead() const { return ahead_.size(); }

 private:
  std::optional<PlannedConversation> Make();

  const Workload* workload_;
  const RequestStyle* style_;
  ArrivalSchedule schedule_;
  size_t next_conversation_;
  std::deque<PlannedConversation> ahead_;
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_LOAD_LOAD_PLAN_H_
