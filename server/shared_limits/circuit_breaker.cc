#include "server/shared_limits/circuit_breaker.h"

#include <algorithm>

namespace hydrant {

void CircuitBreaker::OnAnswer() {
  failures_ = 0;
  pause_us_ = 0;
}

bool CircuitBreaker::OnFailure(int64_t asked_us, int64_t now_us) {
  if (open_ || asked_us < failed_us_) return false;
  failed_us_ = now_us;
  return ++failures_ >= kFailuresMax;
}

void CircuitBreaker::Open(int64_t now_us) {
  if (!open_ && now_us - closed_us_ > kPauseMaxUs) pause_us_ = 0;
  open_ = true;
  failures_ = 0;
  retry_us_ = now_us + pause_us_;
  pause_us_ = std::clamp(2 * pause_us_, kPauseMinUs, kPauseMaxUs);
}

void CircuitBreaker::Close(int64_t now_us) {
  open_ = false;
  failures_ = 0;
  closed_us_ = now_us;
}

}  // namespace hydrant
