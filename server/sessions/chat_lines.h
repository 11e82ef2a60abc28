// The sessions of chats whose clients send their whole history each time and only name the chat, as agents do: what is kept is KV that
// the next turn begins with. Sub-agents share the name with other histories, so a name has several lines, each a session; a request
// goes on with the one that its prompt begins with, and where there is none, or it is busy, nothing is refused for it.
//
// Thread: any. May wait for the disk where there is a journal.
#ifndef HYDRANT_SERVER_SESSIONS_CHAT_LINES_H_
#define HYDRANT_SERVER_SESSIONS_CHAT_LINES_H_

#include <optional>
#include <string>

#include "api/request/completion_request.h"
#include "model/tokenizer/tokenizer.h"
#include "server/sessions/session_store.h"

namespace hydrant {

// As many histories as an agent has at a time: its own, and those of a few others that it asks.
inline constexpr int kChatLinesMax = 4;

// Begins a turn of the line that goes on with the prompt, or else of a new one, in the place of the one used longest ago where there
// are kChatLinesMax. Nullopt: they are all busy, there is no room for another session, or *owner.needs_disk. `name`: 1 to 58 characters of a session id;
// two chats have different ones.
std::optional<SessionTurn> BeginChatLine(SessionStore& sessions, const SessionOwner& owner, const std::string& name,
                                         const RequestPrompt& prompt, const Tokenizer& tokenizer);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_CHAT_LINES_H_
