// StopMatcher finds stop strings in text that arrives in pieces, and never lets go of text that may still turn out to
// be the start of one.
//
// Thread: any (one connection).
#ifndef HYDRANT_SERVER_GENERATION_STOP_MATCHER_H_
#define HYDRANT_SERVER_GENERATION_STOP_MATCHER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "server/generation/stop_strings.h"

namespace hydrant {

class StopMatcher {
 public:
  // `stops` outlive the matcher. `include_stop`: the matched string is part of the text.
  StopMatcher(const StopStrings& stops, bool include_stop) : stops_(stops), include_stop_(include_stop) {}

  // Returns the text that is certain to come before any stop string. After a match it ends with, or before, the match.
  // Among several matches the one that ends first counts; among those, the one that starts first.
  // REQUIRES: !matched().
  std::string Push(std::string_view piece);
  // Text that is not searched (before min_tokens): what was held back, then the piece.
  std::string PushUnsearched(std::string_view piece);
  // The text held back, when the generation ends without a match.
  std::string Finish();

  bool matched() const { return matched_ >= 0; }
  // REQUIRES: matched().
  const std::string& match() const { return stops_[matched_]; }

 private:
  const StopStrings& stops_;
  const bool include_stop_;
  std::string held_;  // the longest end of the text that starts some stop string: shorter than the longest of them
  StopStrings::State state_ = StopStrings::kStart;  // of what is held
  int32_t matched_ = -1;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_STOP_MATCHER_H_
