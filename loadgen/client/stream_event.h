// What one event of a completion stream says, read in place: the few members a load generator needs are looked for in
// the JSON text itself, no value tree is built and nothing is copied. Members may come in any order; others are skipped.
//
// Thread: any (pure function).
#ifndef HYDRANT_LOADGEN_CLIENT_STREAM_EVENT_H_
#define HYDRANT_LOADGEN_CLIENT_STREAM_EVENT_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace hydrant {

struct StreamEvent {
  enum class Kind {
    kOutput,     // has a choice: at least one token
    kRole,       // a chat's opening chunk that names the role and holds no text: not a token
    kNoChoices,  // usage, or nothing
    kError,      // {"error": …}
    kDone,       // [DONE]
    kMalformed,  // not a JSON object
  };
  Kind kind = Kind::kMalformed;
  // The piece of the answer as JSON spells it, between its quotes: it can go into another JSON string as it is.
  std::string_view text;
  std::string_view finish_reason;
  std::string_view error;  // the message, as JSON spells it
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> completion_tokens;
  std::optional<int64_t> cached_tokens;
};

// `data` is what follows `data: `. The views of the result lie in it.
StreamEvent ReadStreamEvent(std::string_view data);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_CLIENT_STREAM_EVENT_H_
