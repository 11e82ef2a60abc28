// RequestDeadlines is by when a request must have left the queue and by when it must have ended, and which of the two it has
// missed.
//
// Thread: the connection's strand.
#ifndef HYDRANT_SERVER_FRONTEND_REQUEST_DEADLINES_H_
#define HYDRANT_SERVER_FRONTEND_REQUEST_DEADLINES_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "api/request/request_context.h"
#include "server/tenants/tenant_account.h"

namespace hydrant {

class RequestDeadlines {
 public:
  // Times are monotonic; 0 seconds are no limit. The engine tells of an admission at the end of its step, so a wait is known to
  // be over up to one step late.
  RequestDeadlines(int64_t arrival_us, const TimeLimit& whole, double queue_s,
                   std::weak_ptr<const RequestAccount> account);

  // When Missed has to be asked again; kNever: not at all.
  int64_t next_us() const;
  // The error for a deadline that has been missed, if there is one. `wait_s`: how long a new request would wait.
  std::optional<Refusal> Missed(int64_t now_us, double wait_s);

 private:
  const TimeLimit whole_;
  const double queue_s_;
  const std::weak_ptr<const RequestAccount> account_;  // gone when the engine has ended all of it
  const int64_t whole_us_;
  int64_t queue_us_;  // kNever once it is known to be met
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_REQUEST_DEADLINES_H_
