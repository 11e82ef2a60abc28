// Sessions as clients see them: how one is named in a request, bodies of /v1/sessions, and what can go wrong.
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_API_SESSION_SESSION_H_
#define HYDRANT_API_SESSION_SESSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/wire/api_error.h"
#include "api/wire/object_reader.h"

namespace hydrant {

inline constexpr size_t kSessionIdBytesMax = 64;

// 1 to kSessionIdBytesMax characters of [A-Za-z0-9_-].
bool IsSessionId(std::string_view text);

// What the header fields of a request say.
struct SessionHeaders {
  std::optional<std::string> session_id;  // X-Session-ID
  std::optional<std::string> affinity;    // x-session-affinity
  std::optional<std::string> turn;        // X-Session-Turn
  // What agents name their chats by, who keep the history themselves: X-Claude-Code-Session-Id; session-id, or session_id.
  std::optional<std::string> claude_code;
  std::optional<std::string> codex;
  std::optional<std::string> listed;  // what a field of --session-headers names, as an id
};

// The id a request names, the first that is there of: `session_id`, X-Session-ID, `vllm_xargs.session_id`,
// `conversation_id`, x-session-affinity, a field of --session-headers, and that it was this one. Empty: none. Sets request's error, which
// names the one that was read.
std::string ReadSessionId(ObjectReader* request, const SessionHeaders& headers, bool* is_listed);

// What the client's program calls the chat, the first that is there of: X-Claude-Code-Session-Id, the session in `metadata.user_id` as
// Claude Code writes it, session-id, session_id, `prompt_cache_key`. Empty: nothing.
std::string ReadChatKey(ObjectReader* request, const SessionHeaders& headers);

// What X-Session-Turn says the session's last turn is, 0 before the first; nullopt: it says nothing. Sets request's error.
std::optional<uint64_t> ReadSessionTurn(ObjectReader* request, const SessionHeaders& headers);

enum class SessionState : uint8_t {
  kBusy,    // a turn is being computed
  kParked,  // its KV waits outside the pool
  kOnDisk,  // its KV is in a file
  kCold,    // only its tokens are known; the next turn computes them again
};

std::string_view SessionStateName(SessionState state);

// A number of a request's query: 400 naming the parameter when it is none in [low, high].
ApiResult<int32_t> ReadQueryInteger(std::string_view name, std::string_view text, int32_t low, int32_t high);

struct SessionCard {
  std::string id;
  SessionState state = SessionState::kCold;
  uint64_t turn = 0;     // the last that ended; 0: none (null)
  bool durable = false;  // that one, on disk
  int64_t tokens = 0;    // of the turns that ended
  int32_t live = 0;      // slots its KV needs; 0 when cold
  int32_t budget = 0;    // 0: none (null)
  std::string policy;    // preset
  int64_t created = 0;   // Unix seconds
  int64_t last_used = 0;
  int64_t expires = 0;  // 0: never (null)
};

// Sessions there are, by state.
struct SessionCounts {
  int64_t busy = 0;
  int64_t parked = 0;
  int64_t on_disk = 0;
  int64_t cold = 0;
};

std::string SessionJson(const SessionCard& card);
// {"object":"list","data":[…],"has_more":…}
std::string SessionListJson(const std::vector<SessionCard>& cards, bool has_more);
// `purged`: and no file has what it said.
std::string SessionDeletedJson(std::string_view id, bool purged = false);
// {"id":…,"object":"session","turn":…,"durable":"tokens"} or false
// `kv`: what became of the KV that came along; empty: none did.
std::string SessionImportedJson(std::string_view id, uint64_t turn, bool durable, std::string_view kv = {});

// "turn-7" with its quotes: the entity tag of a session's state.
std::string SessionTag(uint64_t turn);
// nullopt: not such a tag.
std::optional<uint64_t> ReadSessionTag(std::string_view text);

// 400 naming `param`.
ApiError InvalidSessionId(std::string_view param);
// 404: code session_expired when it is known to have been there, else session_not_found.
ApiError SessionNotFound(bool expired);
// 404 session_damaged: its history is on disk, and is not what was written, or another model's.
ApiError SessionDamaged();
// 409 turn_conflict: `last` is the session's last turn; 0: there is none.
ApiError TurnConflict(uint64_t last);
// 412 turn_changed: `last` is the session's last turn. 412 session_exists, likewise.
ApiError TurnChanged(uint64_t last);
ApiError SessionExists(uint64_t last);
// 413: the tenant has `left` bytes left of its session_disk_bytes.
ApiError SessionDiskExceeded(int64_t left);
// 400 invalid_session_state: what is wrong with a session's file.
ApiError InvalidSessionState(std::string_view what);
// 409 session_other_model.
ApiError SessionOtherModel();
// 409 session_busy.
ApiError SessionBusy();
// 400 kv_capacity_exceeded: what was parked is gone, and the whole history is too long to be computed.
ApiError SessionTooLong();

}  // namespace hydrant

#endif  // HYDRANT_API_SESSION_SESSION_H_
