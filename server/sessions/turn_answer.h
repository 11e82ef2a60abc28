// TurnAnswer collects what a session's turn generates: the tokens, and the text that a client has seen of them.
//
// Thread: the connection's strand.
#ifndef HYDRANT_SERVER_SESSIONS_TURN_ANSWER_H_
#define HYDRANT_SERVER_SESSIONS_TURN_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"
#include "server/sessions/session_store.h"

namespace hydrant {

class TurnAnswer {
 public:
  // `skip_special_tokens`: as the client asked. The tokenizer outlives the answer.
  TurnAnswer(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer),
        skip_special_tokens_(skip_special_tokens),
        detokenizer_(tokenizer, skip_special_tokens, /*first=*/false) {}

  void Add(int32_t token);

  // Tokens and text of the whole past: `prompt` and its text with the `client_ranges`, then the answer, without its
  // last token when `drop_last`. Nothing may be added afterwards.
  SessionPast PastWith(const std::vector<int32_t>& prompt, const std::optional<std::string>& prompt_text,
                       const std::vector<ByteRange>& client_ranges, bool drop_last);

 private:
  void TakeLast();

  const Tokenizer& tokenizer_;
  const bool skip_special_tokens_;
  Detokenizer detokenizer_;
  std::vector<int32_t> tokens_;
  std::string text_;     // of all tokens but the last
  std::string last_;     // of the last
  bool between_ = true;  // the last token begins with a character
  bool last_is_special_ = false;
  std::vector<ByteRange> specials_;  // of text_
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TURN_ANSWER_H_
