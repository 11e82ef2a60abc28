// Request is what the scheduler needs to know of a sequence: validated by the caller and immutable once added, but for
// budget.keep, which a shrink lowers. How tokens are sampled and which of them are evicted travels beside it
// (server/engine/sequence_request.h), unseen here.
#ifndef HYDRANT_SCHEDULER_REQUEST_REQUEST_H_
#define HYDRANT_SCHEDULER_REQUEST_REQUEST_H_

#include <cstdint>

#include "block_manager/kv_budget.h"
#include "block_manager/prefix_use.h"
#include "scheduler/request/request_options.h"
#include "scheduler/request/token_ids.h"

namespace hydrant {

struct Request : RequestOptions {
  uint64_t id = 0;     // unique among unfinished requests
  int32_t tenant = 0;  // index into the tenants (SchedulerOptions, SetTenants)
  TokenIds prompt;     // >= 1 token
  KvBudget budget;
  PrefixUse prefix;
  // The last so many tokens of the prompt are computed in one step, with up to a block before them: what their rows say together is
  // not kept from step to step. 0: they need not be. Only without budget.prompt_stride.
  int32_t tail_tokens = 0;
  // A turn of a session (0: of none): when it ends by itself its KV is parked, named by session and turn.
  // If KV of turn `resumes` is parked when the request arrives, it stays until the request is admitted, and only the
  // rest of the prompt is computed; else all of it. The prompt is the whole history either way: `resumes` says that it
  // begins with the tokens of that turn.
  uint64_t session = 0;
  uint64_t turn = 0;     // higher than those of the session's turns before, not 0
  uint64_t resumes = 0;  // 0: nothing
  // Nothing else would do: where that KV is gone, before it is admitted, the request ends with kPastMoved. It is kept elsewhere, too, and
  // can be brought back (AdoptParked).
  bool needs_past = false;
  // What a turn leaves parked: < 0: what it holds when it ends. Else the KV of the prompt's first so many tokens, as it
  // is before any of them is evicted: a multiple of kBlockSlots, and not all of it. 0: nothing. > 0 needs
  // prefix.publishes, and scores that start from snapshots.
  int32_t history = -1;
  int64_t arrival_us = 0;  // monotonic

  // What it holds when it ends by itself is parked.
  bool parks_at_end() const { return session != 0 && history < 0; }
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_REQUEST_REQUEST_H_
