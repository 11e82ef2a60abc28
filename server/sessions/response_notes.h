// What sessions keep of responses (/v1/responses): how a response is named, found, and read. A response is a turn of a session, and
// its id has the session's in it, so there is no other place that knows of it: it is as durable, and as long there.
//
//   resp_<16 hex digits, drawn>_<session>          a response; msg_…_<n>, fc_…_<n> the items of it and of its request
//
// A note is the response as JSON without what it has of its head (TurnNote::head), a line end, and the request's items as a JSON array.
// It may have come from elsewhere with its session, so what is in it is checked as a request's would be.
//
// Thread: any. Finding one waits for the disk where there is a journal.
#ifndef HYDRANT_SERVER_SESSIONS_RESPONSE_NOTES_H_
#define HYDRANT_SERVER_SESSIONS_RESPONSE_NOTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "api/request/request_context.h"
#include "nlohmann/json.hpp"
#include "server/sessions/session_store.h"

namespace hydrant {

// What the ids of a new response and its items are made of, in this session.
std::string NewResponseStem(std::string_view session_id);
// The id of the session that a response, an item or a stem names. Empty: it is none of these.
std::string SessionOfResponse(std::string_view id);

// The note of the response of this id; the end: there is none.
TurnNotes::const_iterator FindNote(const TurnNotes& notes, std::string_view response_id);

// Whether nothing was said in the session after what its last note tells of. REQUIRES: it has notes.
bool EndsWithNote(const SessionPast& past);

struct FoundResponse {
  std::string session_id;
  std::shared_ptr<const SessionPast> past;
  size_t index = 0;     // of its note
  bool newest = false;  // the session goes on from it

  const TurnNote& note() const { return *past->notes[index]; }
};
// Nullopt: the tenant has no such response.
std::optional<FoundResponse> FindResponse(SessionStore& sessions, const SessionOwner& owner, std::string_view id);
// A session's past, whether or not a turn is in progress. Null: there is none. Waits for the disk, but for owner.needs_disk.
std::shared_ptr<const SessionPast> FindPast(SessionStore& sessions, const SessionOwner& owner,
                                            const std::string& session_id);

// The response, whole. Empty: the note is none of a response.
std::string ResponseJson(const TurnNote& note);
// The response of this id is not to be found any more, nor, but for a conversation's, its items by theirs; they stay for those who go
// on from it.
void RemoveResponse(TurnNotes* notes, std::string_view response_id);

struct NoteItems {
  nlohmann::ordered_json::array_t in, out;
};
// Nullopt: they are not what a note would have.
std::optional<NoteItems> ItemsOf(const TurnNote& note, const RequestContext& context);

// Whether what a note says has a member of this name with one of these values, which are as Dump of ASCII writes them.
bool HasMember(const TurnNote& note, std::string_view name, const absl::flat_hash_set<std::string>& values);

// Items that are kept are listed, referred to and deleted by their ids. Error: a 400 for one that has the id of another before it, in
// `items` or in the notes `before`; it names it below `path`.
std::optional<ApiError> CheckIds(const nlohmann::ordered_json::array_t& items, const TurnNotes& before,
                                 const RequestContext& context, std::string_view path);

// The most that the notes of one session may take: four times what one request may bring, which is what a context's worth of text
// takes with its letters written as \uXXXX. A session is no other tenant's loss then, and its items are read in a moment.
constexpr int64_t NotesBytesMax(int32_t context) { return std::max<int64_t>(4 << 20, int64_t{64} * context); }
int64_t NotesBytes(const TurnNotes& notes);
// Until those that are left take no more.
void DropOldest(TurnNotes* notes, int64_t bytes_max);

// Finds the items that one request refers to: by an id of ours in the session that it names, by any id in what the request goes on from.
// A session is read once, and no more of them than NotesBytesMax and one.
class ItemFinder {
 public:
  // `past`: the notes that the request goes on from, which are of the session `past_id`.
  ItemFinder(SessionStore& sessions, const SessionOwner& owner, const RequestContext& context, TurnNotes past = {},
             std::string past_id = {})
      : sessions_(sessions), owner_(owner), context_(context), past_(std::move(past)), past_id_(std::move(past_id)) {}
  // It stays where it is. Null: the tenant has none of this id, or there is more to read than may be (`read_all`).
  const nlohmann::ordered_json* Find(std::string_view id);
  bool read_all() const { return read_all_; }

 private:
  void Read(const std::string& session);
  void ReadNotes(const TurnNotes& notes, const std::string& session);
  bool MayRead();

  SessionStore& sessions_;
  const SessionOwner owner_;
  const RequestContext& context_;
  TurnNotes past_;  // until it was read
  const std::string past_id_;
  std::set<std::string> read_;                           // sessions
  std::map<std::string, nlohmann::ordered_json> items_;  // by id
  int64_t bytes_ = 0;
  bool read_all_ = false;
};

// The id of a session that nobody has named: nothing but what goes on from its responses is in it.
std::string DrawSessionId();
bool IsDrawnSessionId(std::string_view id);

// A conversation is a session with such an id.
bool IsConversationId(std::string_view id);
ApiError ConversationNotFound();  // 404
ApiError ConversationLocked();    // 409

// Has `change` change the notes of a session, as a turn of its own that says nothing: the session's KV is computed again by the next.
// `done` is told, once, when no start will find them as they were, or that this cannot be: on any thread, also on this one; not when
// there is an error. Until then the session is busy. `removes`: something goes, and its KV with it (SessionTurn::Commit). Errors:
// SessionStore::Begin's; `change`'s, and then nothing is changed.
std::optional<ApiError> ChangeNotes(SessionStore& sessions, const SessionOwner& owner, const std::string& session_id,
                                    const std::function<std::optional<ApiError>(TurnNotes*)>& change,
                                    std::function<void(bool durable)> done, bool removes = false);

// Gives every item without an id one.
void NameItems(std::string_view stem, nlohmann::ordered_json::array_t* items);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_RESPONSE_NOTES_H_
