// The bodies of a conversation's requests, turn after turn: what was said so far, the server's own answers included, and
// what is said now.
//
// Thread: any (an instance belongs to one conversation).
#ifndef HYDRANT_LOADGEN_LOAD_DIALOGUE_H_
#define HYDRANT_LOADGEN_LOAD_DIALOGUE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "loadgen/load/workload.h"

namespace hydrant {

// The parts that all requests of a load have in common.
struct RequestStyle {
  bool chat = false;    // messages, not a prompt
  std::string members;  // JSON members without the braces, `model` first
  // Set by the members above where the caller wants it so; then bodies leave them out.
  bool fixed_output = false;
};

// Members every request gets: the model, streaming with usage, what `sampling_json` has (an object) and over it what
// `extra_json` has (an object or empty). Errors: INVALID_ARGUMENT where one is not an object.
absl::StatusOr<RequestStyle> MakeRequestStyle(bool chat, std::string_view model, std::string_view sampling_json,
                                              std::string_view extra_json);

class Dialogue {
 public:
  // `style` outlives this.
  Dialogue(const RequestStyle* style, Conversation conversation);

  const Conversation& conversation() const { return conversation_; }
  // The body of the next turn. REQUIRES: there is one; the answer to the one before was added.
  std::string NextBody();
  // `escaped`: as JSON spells it, without quotes.
  void AddAnswer(std::string_view escaped);
  // Tokens of the next prompt, as far as they are known before the server counts them.
  int64_t prompt_tokens() const { return prompt_tokens_; }

 private:
  const RequestStyle* style_;
  Conversation conversation_;
  size_t next_turn_ = 0;
  std::string said_;  // messages, or the text of a prompt, as JSON
  int64_t prompt_tokens_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_LOAD_DIALOGUE_H_
