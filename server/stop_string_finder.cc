#include "server/stop_string_finder.h"

#include <utility>

namespace hydrant {

StopStringFinder::StopStringFinder(std::shared_ptr<const Tokenizer> tokenizer,
                                   std::shared_ptr<const std::vector<std::string>> stops, bool skip_special_tokens,
                                   int32_t min_tokens)
    : tokenizer_(std::move(tokenizer)),
      stops_(std::move(stops)),
      min_tokens_(min_tokens),
      detokenizer_(*tokenizer_, skip_special_tokens),
      matcher_(*stops_, /*include_stop=*/true) {}

bool StopStringFinder::Push(int32_t token) {
  const std::string piece = detokenizer_.Push(token);
  if (++pushed_ > min_tokens_) {
    matcher_.Push(piece);
  } else {
    matcher_.PushUnsearched(piece);
  }
  return matcher_.matched();
}

}  // namespace hydrant
