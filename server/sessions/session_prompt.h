// Makes the whole prompt of a session's turn out of what the client sent: all of the history, or only what is new.
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_SESSIONS_SESSION_PROMPT_H_
#define HYDRANT_SERVER_SESSIONS_SESSION_PROMPT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "api/request/completion_request.h"
#include "model/tokenizer/tokenizer.h"
#include "server/sessions/session_store.h"

namespace hydrant {

// What is known of a prompt beside its ids.
struct PromptText {
  int32_t added_special_tokens = 0;      // leading ids the server added
  std::optional<std::string> text;       // all of it; absent when the past's is
  std::vector<ByteRange> client_ranges;  // of `text`, ascending, disjoint and apart: what a client wrote
  bool continues = false;                // Continues
};

struct TurnPrompt : PromptText {
  std::vector<int32_t> ids;
};

// A prompt by itself: without text, for nobody will go on from it. `ids_max`: EncodeOptions::ids_max.
TurnPrompt PromptAlone(const RequestPrompt& said, bool add_special_tokens, const Tokenizer& tokenizer,
                       size_t ids_max = std::numeric_limits<size_t>::max());

// With `session_append`: the past, then what is new. Else the prompt as it would be without a session, except that a text
// that begins with the past's text keeps the past's tokens: what a model wrote is rarely what its text would be encoded to,
// and only the tokens it wrote have their KV parked. That takes the same bytes of it being the client's, too, and none of them
// being what a special token of the answer is shown as. The same holds for a text that lacks what the last answer began with as
// reasoning: the past is not thought anew because a template leaves it out. `past` may be null, without `session_append`.
// Linear in the prompt and the past. Error: empty_prompt when nothing is new. `ids_max`: EncodeOptions::ids_max of every text
// that is encoded; a prompt of more ids than that need not be the whole one.
ApiResult<TurnPrompt> MakeTurnPrompt(const RequestPrompt& said, const GenerationFields& fields, const SessionPast* past,
                                     const Tokenizer& tokenizer, size_t ids_max = std::numeric_limits<size_t>::max());

// Whether MakeTurnPrompt would keep the past's tokens: 0: no; else how many there are.
size_t TokensKept(const RequestPrompt& said, const SessionPast& past, const Tokenizer& tokenizer);

// Whether `ids` begin with the computed tokens of `past`, with at least one more after them. `past` may be null.
bool Continues(const std::vector<int32_t>& ids, const SessionPast* past);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_SESSION_PROMPT_H_
