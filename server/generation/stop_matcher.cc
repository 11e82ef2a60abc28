#include "server/generation/stop_matcher.h"

#include <cassert>
#include <utility>

namespace hydrant {

std::string StopMatcher::Push(std::string_view piece) {
  assert(!matched());
  for (const char byte : piece) {
    held_.push_back(byte);
    state_ = stops_.Next(state_, byte);
    matched_ = stops_.match(state_);
    if (!matched()) continue;
    if (!include_stop_) held_.resize(held_.size() - match().size());
    return std::exchange(held_, {});
  }
  std::string certain = held_.substr(0, held_.size() - stops_.depth(state_));
  held_.erase(0, certain.size());
  return certain;
}

std::string StopMatcher::PushUnsearched(std::string_view piece) {
  state_ = StopStrings::kStart;
  std::string text = std::exchange(held_, {});
  return text.append(piece);
}

std::string StopMatcher::Finish() {
  state_ = StopStrings::kStart;
  return std::exchange(held_, {});
}

}  // namespace hydrant
