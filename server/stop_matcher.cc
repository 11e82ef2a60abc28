#include "server/stop_matcher.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hydrant {
namespace {

// Length of the longest end of `text` that is a proper beginning of `stop`.
size_t OverlapLength(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.ends_with(stop.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

std::string StopMatcher::Push(std::string_view piece) {
  assert(!matched());
  held_.append(piece);
  size_t match_begin = 0;
  size_t match_end = std::string::npos;
  for (size_t i = 0; i < stops_.size(); ++i) {
    // Text held from before has no match in it, so the first one found ends inside the piece.
    const size_t begin = held_.find(stops_[i]);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stops_[i].size();
    if (end < match_end || (end == match_end && begin < match_begin)) {
      match_begin = begin;
      match_end = end;
      matched_ = static_cast<int32_t>(i);
    }
  }
  if (matched()) {
    held_.resize(include_stop_ ? match_end : match_begin);
    return std::exchange(held_, {});
  }
  size_t keep = 0;
  for (const std::string& stop : stops_) keep = std::max(keep, OverlapLength(held_, stop));
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopMatcher::PushUnsearched(std::string_view piece) {
  std::string text = std::exchange(held_, {});
  return text.append(piece);
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace hydrant
