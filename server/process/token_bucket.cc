#include "server/process/token_bucket.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hydrant {
namespace {

constexpr double kMinuteUs = 60e6;
// Rounding of a level that was filled up in many small pieces; far below one token of any limit.
constexpr double kRounding = 1e-8;

}  // namespace

double TokenBucket::LevelAt(int64_t now_us) const {
  const double filled =
      static_cast<double>(std::max<int64_t>(0, now_us - level_us_)) * static_cast<double>(per_minute_) / kMinuteUs;
  return std::min(static_cast<double>(burst_), level_ + filled);
}

void TokenBucket::SetLimit(int64_t per_minute, int64_t burst, int64_t now_us) {
  if (per_minute == per_minute_ && burst == burst_) return;
  const double level = LevelAt(now_us);
  if (!limited() && per_minute > 0) ++era_;
  const double used = limited() ? static_cast<double>(burst_) - level : 0;
  per_minute_ = per_minute;
  burst_ = burst;
  level_ = level < 0 ? level : std::max(0.0, static_cast<double>(burst_) - used);
  level_us_ = now_us;
}

bool TokenBucket::TryTake(int64_t amount, int64_t now_us) {
  if (!limited()) return true;
  const double level = LevelAt(now_us);
  if (level + kRounding < static_cast<double>(amount)) return false;
  level_ = std::max(0.0, level - static_cast<double>(amount));
  level_us_ = std::max(level_us_, now_us);
  return true;
}

void TokenBucket::GiveBack(int64_t amount, int64_t now_us) {
  if (!limited()) return;
  level_ = std::min(static_cast<double>(burst_), LevelAt(now_us) + static_cast<double>(amount));
  level_us_ = std::max(level_us_, now_us);
}

void TokenBucket::SetRemaining(int64_t amount, int64_t now_us) {
  level_ = std::min(static_cast<double>(burst_), static_cast<double>(amount));
  level_us_ = now_us;
}

int64_t TokenBucket::remaining(int64_t now_us) const {
  return static_cast<int64_t>(std::max(0.0, LevelAt(now_us) + kRounding));
}

double TokenBucket::SecondsUntil(int64_t amount, int64_t now_us) const {
  if (!limited()) return 0;
  if (amount > burst_) return std::numeric_limits<double>::infinity();
  const double missing = static_cast<double>(amount) - LevelAt(now_us);
  return missing <= kRounding ? 0 : missing * 60 / static_cast<double>(per_minute_);
}

}  // namespace hydrant
