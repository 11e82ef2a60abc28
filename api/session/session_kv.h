// GET /v1/sessions/{id}/kv: which of a session's tokens the KV cache still holds, as a client sees it.
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_API_SESSION_SESSION_KV_H_
#define HYDRANT_API_SESSION_SESSION_KV_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/session/session.h"
#include "api/wire/api_error.h"

namespace hydrant {

// Most tokens of one answer, and what it has unless asked otherwise: 130 kB of JSON.
inline constexpr int32_t kKvTokensMax = 4096;

// What a client asks for.
struct SessionKvQuery {
  std::optional<int32_t> after;  // position of the first token; absent: so that the newest ones are shown
  int32_t limit = kKvTokensMax;  // [1, kKvTokensMax]
  std::optional<int32_t> layer;  // a layer and a KV head: that pair's tokens as well
  std::optional<int32_t> head;
  std::optional<int32_t> token;  // a position: its score in every pair as well
};

// Why `held` is not there.
enum class KvUnknown : uint8_t {
  kNothing,  // it is there
  kCold,     // the session's KV is not kept
  kQueued,   // its first turn waits
  kAside,    // scores and positions are not in the pool
  kRolling,  // slots know their tokens' ranks, not their positions
  kTooMany,  // more slots than are copied to be looked at
};

// The window is tokens [after, after + tokens.size()); positions are those in the session's text.
struct SessionKv {
  std::string id;
  SessionState state = SessionState::kCold;
  std::optional<int32_t>
      ahead;           // a turn waits for admission: so many sequences of its tenant are before it in the line
  bool aside = false;  // its turn has stepped aside for others, and goes on when there is room again
  std::string policy;  // preset; empty: not known yet
  int32_t budget = 0;  // in force; 0: none
  int32_t heavy = 0;   // of it; 0 where there is no budget
  int32_t recent = 0;  // the newest tokens, which are never dropped
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t known = 0;    // tokens of the session
  int32_t logical = 0;  // of these, with keys and values computed
  int32_t live = 0;     // slots, in every pair; 0 when cold
  int32_t blocks = 0;   // that these take in the pool, or, parked, will take
  int32_t after = 0;
  std::vector<int32_t> tokens;
  std::vector<std::string_view> pieces;  // the tokens' bytes
  std::vector<int32_t> specials;         // positions of special tokens
  KvUnknown unknown = KvUnknown::kNothing;
  std::vector<int32_t> held;  // pairs that hold the token; empty when `unknown`
  // Mean over the pairs that hold the token of its share of the pair's score, in units of an equal share: 1 is what every
  // token would have if all had the same. Empty when the policy keeps no score.
  std::vector<float> scores;
  // [layer][kv_head]: mean age of the tokens held over the logical length, in [0, 1]: how far back the pair looks. Empty when
  // `unknown`.
  std::vector<float> reach;
  struct Pair {
    int32_t layer = 0;
    int32_t head = 0;
    std::vector<int32_t> positions;  // in the window, ascending
    std::vector<float> scores;       // as the cache has them; empty when the policy keeps no score
  };
  std::optional<Pair> pair;
  struct Token {
    int32_t position = 0;
    std::vector<float> scores;  // [layer][kv_head] of its share as in `scores`, 0 without a score; negative: not held
  };
  std::optional<Token> token;
};

std::string SessionKvJson(const SessionKv& kv);

// Reads the query of a request's target: 400 naming the parameter that is no number or out of range.
ApiResult<SessionKvQuery> ReadSessionKvQuery(
    const std::function<std::optional<std::string>(std::string_view)>& value_of, int32_t layers, int32_t kv_heads);

}  // namespace hydrant

#endif  // HYDRANT_API_SESSION_SESSION_KV_H_
