// SchedulerEvent is what a request's driver hears of it: a token, its end, or both.
#ifndef HYDRANT_SCHEDULER_SCHEDULER_EVENT_H_
#define HYDRANT_SCHEDULER_SCHEDULER_EVENT_H_

#include <cstdint>

#include "scheduler/request.h"

namespace hydrant {

struct SchedulerEvent {
  uint64_t request_id = 0;
  int32_t sequence = 0;  // free for another request from a terminal event on; meaningless when row is -1
  int32_t row =
      -1;  // of the committed plan, which may be the one behind the token's; -1: the event comes from Cancel alone
  int32_t token = -1;  // -1: no new token
  FinishReason finish = FinishReason::kNone;
  int32_t stop_token = -1;      // kStop: the id, when it is one of the request's stop_token_ids; -1 when it is an eos
  int32_t generated = 0;        // tokens so far, this one included
  int32_t live = 0;             // after the step
  int32_t budget = 0;           // in force after the step; 0: unlimited
  int32_t evicted = 0;          // tokens dropped so far, per layer and head
  int32_t blocks = 0;           // held after the step; on a terminal event: held until just now
  int32_t prompt_computed = 0;  // prompt tokens computed so far
  int32_t cached = 0;           // prompt tokens taken over from the prefix cache
  int32_t restored = 0;         // prompt tokens whose KV the session had parked
  RequestTimes times;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_SCHEDULER_EVENT_H_
