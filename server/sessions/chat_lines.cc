#include "server/sessions/chat_lines.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/response_notes.h"
#include "server/sessions/session_prompt.h"

namespace hydrant {
namespace {

struct Line {
  std::string id;
  uint64_t turn = 0;  // its last; 0: it is not there
  int64_t used_s = 0;
  size_t kept = 0;  // of its tokens
};

// Nullopt: it is busy.
std::optional<Line> LookAt(SessionStore& sessions, const SessionOwner& owner, std::string id,
                           const RequestPrompt& prompt, const Tokenizer& tokenizer) {
  Line line;
  line.id = std::move(id);
  const ApiResult<SessionStore::View> view = sessions.Inspect(owner.tenant, line.id);
  if (!view.ok()) return line;
  if (view.value().card.state == SessionState::kBusy) return std::nullopt;
  line.turn = view.value().card.turn;
  line.used_s = view.value().card.last_used;
  const std::shared_ptr<const SessionPast> past = FindPast(sessions, owner, line.id);
  if (past != nullptr && past->turn == line.turn) line.kept = TokensKept(prompt, *past, tokenizer);
  return line;
}

// The one that keeps most; else one that is not there yet; else the one used longest ago.
bool IsBetter(const Line& one, const Line& other) {
  if (one.kept != other.kept) return one.kept > other.kept;
  if ((one.turn == 0) != (other.turn == 0)) return one.turn == 0;
  return one.used_s < other.used_s;
}

}  // namespace

std::optional<SessionTurn> BeginChatLine(SessionStore& sessions, const SessionOwner& owner, const std::string& name,
                                         const RequestPrompt& prompt, const Tokenizer& tokenizer) {
  std::optional<Line> best;
  for (int i = 0; i < kChatLinesMax; ++i) {
    std::optional<Line> line = LookAt(sessions, owner, absl::StrCat(name, "_", i), prompt, tokenizer);
    if (owner.needs_disk != nullptr && *owner.needs_disk) return std::nullopt;  // it is looked for again, with the disk
    if (line.has_value() && (!best.has_value() || IsBetter(*line, *best))) best = std::move(line);
  }
  if (!best.has_value()) return std::nullopt;
  ApiResult<SessionTurn> turn = sessions.Begin(owner, best->id, /*must_exist=*/false, best->turn);
  if (!turn.ok()) return std::nullopt;
  return std::optional<SessionTurn>(std::move(turn.value()));
}

}  // namespace hydrant
