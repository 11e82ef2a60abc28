#include "server/generation/stop_string_finder.h"

#include <string>
#include <utility>

namespace hydrant {

StopStringFinder::StopStringFinder(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const StopStrings> stops,
                                   bool skip_special_tokens, int32_t min_tokens)
    : tokenizer_(std::move(tokenizer)),
      stops_(std::move(stops)),
      min_tokens_(min_tokens),
      detokenizer_(*tokenizer_, skip_special_tokens, /*first=*/false) {}

bool StopStringFinder::Push(int32_t token) {
  const std::string piece = detokenizer_.Push(token);
  if (++pushed_ <= min_tokens_) return false;
  for (const char byte : piece) {
    state_ = stops_->Next(state_, byte);
    if (stops_->match(state_) >= 0) return true;
  }
  return false;
}

}  // namespace hydrant
