// Request is what the scheduler needs to know of a generation: immutable once added, validated by the caller. How
// tokens are sampled and which of them are evicted travels beside it (server/engine_core.h), unseen here.
#ifndef HYDRANT_SCHEDULER_REQUEST_H_
#define HYDRANT_SCHEDULER_REQUEST_H_

#include <cstdint>
#include <vector>

#include "block_manager/kv_budget.h"
#include "block_manager/prefix_use.h"

namespace hydrant {

struct Request {
  uint64_t id = 0;              // unique among unfinished requests
  int32_t tenant = 0;           // index into the tenants (SchedulerOptions, SetTenants)
  int32_t priority = 0;         // lower goes earlier, within the tenant
  std::vector<int32_t> prompt;  // >= 1 token
  int32_t max_tokens = 16;      // >= 0; 0 computes the prompt only
  int32_t min_tokens = 0;       // no stop token ends the sequence before this many
  KvBudget budget;
  PrefixUse prefix;
  // A turn of a session: when it ends by itself its KV is parked under this number (0: none). If the session's parked KV
  // is that of the first `parked_tokens` tokens of `prompt`, only the rest is computed; else all of it. The prompt is the
  // whole history either way.
  uint64_t session = 0;
  int32_t parked_tokens = 0;
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  int64_t arrival_us = 0;  // monotonic
};

enum class FinishReason : uint8_t {
  kNone,    // not finished
  kStop,    // a stop token
  kLength,  // max_tokens
  kAbort,   // cancelled
  kError,   // its row failed: non-finite logits or a token outside the vocabulary
};
inline constexpr int32_t kFinishReasons = 5;

// Moments of a request's life, -1 = not reached. Monotonic.
struct RequestTimes {
  int64_t arrival_us = -1;
  int64_t admitted_us = -1;  // left the queue
  int64_t first_token_us = -1;
  int64_t last_token_us = -1;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_REQUEST_H_
