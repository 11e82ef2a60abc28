#include "server/tenants/auth_limiter.h"

#include <algorithm>

namespace hydrant {
namespace {

// About 1 MB. An attacker with more addresses than this gets forgotten sooner than the window says, and no further.
constexpr size_t kPeersMax = 8192;

}  // namespace

int32_t AuthLimiter::Fail(const std::string& peer, int64_t now_us) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = windows_.find(peer);
  if (found == windows_.end()) {
    if (windows_.size() >= kPeersMax) MakeRoom(now_us);
    found = windows_.emplace(peer, Window{now_us, 0}).first;
  }
  Window& window = found->second;
  if (now_us - window.began_us >= kWindowUs) window = {now_us, 0};
  window.failures = std::min(window.failures + 1, kFailuresMax + 1);
  if (window.failures <= kFailuresMax) return 0;
  return static_cast<int32_t>((window.began_us + kWindowUs - now_us + 999'999) / 1'000'000);
}

void AuthLimiter::MakeRoom(int64_t now_us) {
  absl::erase_if(windows_, [now_us](const auto& entry) { return now_us - entry.second.began_us >= kWindowUs; });
  if (windows_.size() >= kPeersMax) windows_.clear();
}

}  // namespace hydrant
