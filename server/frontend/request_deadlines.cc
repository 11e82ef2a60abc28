#include "server/frontend/request_deadlines.h"

#include <algorithm>
#include <utility>

#include "server/http/response_stream.h"

namespace hydrant {
namespace {

int64_t After(int64_t arrival_us, double seconds) {
  return seconds > 0 ? arrival_us + static_cast<int64_t>(seconds * 1e6) : kNever;
}

}  // namespace

RequestDeadlines::RequestDeadlines(int64_t arrival_us, const TimeLimit& whole, double queue_s,
                                   std::weak_ptr<const RequestAccount> account)
    : whole_(whole),
      queue_s_(queue_s),
      account_(std::move(account)),
      whole_us_(After(arrival_us, whole.seconds)),
      queue_us_(After(arrival_us, queue_s)) {}

int64_t RequestDeadlines::next_us() const { return std::min(whole_us_, queue_us_); }

std::optional<Refusal> RequestDeadlines::Missed(int64_t now_us, double wait_s) {
  if (now_us >= whole_us_) return Refusal{RequestTimeExceeded(whole_.seconds, whole_.name), RejectReason::kTimeout};
  if (now_us < queue_us_) return std::nullopt;
  queue_us_ = kNever;
  const std::shared_ptr<const RequestAccount> account = account_.lock();
  if (account == nullptr || !account->waiting()) return std::nullopt;
  return Refusal{QueueTimeExceeded(queue_s_, RetryAfterS(wait_s)), RejectReason::kQueueTimeout};
}

}  // namespace hydrant
