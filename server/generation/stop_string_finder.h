// StopStringFinder ends a sequence at its first stop string, in the step that completes it: nothing is computed that nobody
// will see, and a session is parked with the token in which the stop string ends.
//
// Thread: engine.
#ifndef HYDRANT_SERVER_GENERATION_STOP_STRING_FINDER_H_
#define HYDRANT_SERVER_GENERATION_STOP_STRING_FINDER_H_

#include <cstdint>
#include <memory>

#include "model/tokenizer/tokenizer.h"
#include "server/engine/sequence_request.h"
#include "server/generation/stop_strings.h"

namespace hydrant {

class StopStringFinder : public EndFinder {
 public:
  // The text is what a Detokenizer with `skip_special_tokens` makes of tokens that go on from a prompt. Its first `min_tokens` are not searched.
  StopStringFinder(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const StopStrings> stops,
                   bool skip_special_tokens, int32_t min_tokens);

  bool Push(int32_t token) override;

 private:
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::shared_ptr<const StopStrings> stops_;
  const int32_t min_tokens_;
  Detokenizer detokenizer_;
  StopStrings::State state_ = StopStrings::kStart;
  int32_t pushed_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_STOP_STRING_FINDER_H_
