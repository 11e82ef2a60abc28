#include "server/sessions/tools/handover.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/tools/state_files.h"

namespace hydrant {
namespace {

constexpr double kSayEveryS = 2;
constexpr double kPauseS = 0.5;  // between two looks at sessions that were busy

// Whether the next session would end the same way.
bool EndsAll(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsPermissionDenied(status); }

// Why a session that is at both may be there only once; null: it is there twice. Addresses do not say: a server may have several, and
// a gateway's is that of many.
const char* WhyOne(const std::string& from, const std::string& to) {
  if (from.empty() || to.empty())
    return "it is there already, and an older server does not say whether the two are one";
  return from == to ? "both addresses lead to the server that has it" : nullptr;
}

class Handover {
 public:
  Handover(SessionPlace& from, SessionPlace& to, const HandoverOptions& options)
      : from_(from), to_(to), options_(options), said_us_(options.clock()) {}

  absl::StatusOr<HandoverReport> Run() {
    absl::StatusOr<std::vector<PlacedSession>> sessions = from_.List(options_.tenant);
    if (!sessions.ok()) return sessions.status();
    report_.sessions = std::ssize(*sessions);
    // Those that are the most likely to be asked for next go first.
    std::stable_sort(sessions->begin(), sessions->end(),
                     [](const PlacedSession& a, const PlacedSession& b) { return a.used_s > b.used_s; });
    const int64_t until_us = options_.clock() + static_cast<int64_t>(options_.wait_s * 1e6);
    std::vector<PlacedSession> busy = *std::move(sessions);
    while (true) {
      std::vector<PlacedSession> left;
      for (PlacedSession& session : busy) {
        const absl::Status status = Move(session);
        if (absl::IsAborted(status)) {
          left.push_back(std::move(session));
        } else if (EndsAll(status)) {
          return status;
        } else if (!status.ok()) {
          Stays(session, std::string(status.message()));
        }
        SayHowFar();
      }
      busy = std::move(left);
      if (busy.empty() || options_.clock() >= until_us) break;
      options_.sleep(kPauseS);
    }
    for (const PlacedSession& session : busy) Stays(session, "a turn of it is in progress");
    return report_;
  }

 private:
  // ABORTED: it is busy, or has gone on meanwhile, so that it is to be tried again.
  absl::Status Move(const PlacedSession& session) {
    const absl::StatusOr<MovingSession> state = from_.ExportState(session.tenant, session.id);
    if (absl::IsNotFound(state.status())) {
      ++report_.gone;
      return absl::OkStatus();
    }
    if (!state.ok()) return state.status();
    const int64_t kv_bytes = state->kv == nullptr ? 0 : state->kv->bytes();
    const int64_t bytes = std::ssize(state->file.past) + kv_bytes;
    const absl::StatusOr<ImportReport> report = ImportOnce(to_, session.tenant, *state, /*replaces=*/true);
    if (!report.ok()) return report.status();
    const ImportOutcome outcome = report->outcome;
    const std::string& kv = report->kv;
    const bool came = outcome == ImportOutcome::kImported || outcome == ImportOutcome::kNotDurable;
    if (const char* why = WhyOne(state->holder, report->holder); !came && why != nullptr) {
      Stays(session, why);
      return absl::OkStatus();
    }
    if (came && !state->kv_lost.empty()) {
      ++report_.kv_lost;
      Say(session, absl::StrCat(" goes without its KV: ", state->kv_lost));
    }
    if (came && kv_bytes > 0) {
      ++report_.kv_sent;
      report_.kv_taken += kv == "taken" ? 1 : 0;
      if (kv != "taken") Say(session, absl::StrCat(" goes without its KV: ", kv.empty() ? "nobody takes it" : kv));
    }
    if (outcome == ImportOutcome::kNotDurable || outcome == ImportOutcome::kPresentNotDurable) {
      ++report_.not_durable;
      report_.bytes += came ? bytes : 0;
      return absl::OkStatus();
    }
    const absl::StatusOr<bool> forgotten = from_.Forget(session.tenant, session.id, state->file.turn);
    if (absl::IsOutOfRange(forgotten.status())) return absl::AbortedError("it has gone on meanwhile");
    if (!forgotten.ok() && !absl::IsNotFound(forgotten.status())) return forgotten.status();
    ++(outcome == ImportOutcome::kPresent ? report_.present : report_.moved);
    if (outcome == ImportOutcome::kImported) report_.bytes += bytes;
    return absl::OkStatus();
  }
  void Stays(const PlacedSession& session, const std::string& why) {
    ++report_.left;
    Say(session, absl::StrCat(" stays: ", why));
  }
  void Say(const PlacedSession& session, const std::string& what) {
    options_.say(absl::StrCat("session ", session.tenant, session.tenant.empty() ? "" : "/", session.id, what));
  }
  void SayHowFar() {
    const int64_t now_us = options_.clock();
    if (static_cast<double>(now_us - said_us_) < kSayEveryS * 1e6) return;
    said_us_ = now_us;
    const int64_t done = report_.moved + report_.present + report_.gone + report_.not_durable + report_.left;
    options_.say(absl::StrCat(done, " of ", report_.sessions, " sessions, ", report_.bytes >> 20, " MiB"));
  }

  SessionPlace& from_;
  SessionPlace& to_;
  const HandoverOptions& options_;
  int64_t said_us_;
  HandoverReport report_;
};

}  // namespace

absl::StatusOr<HandoverReport> HandOver(SessionPlace& from, SessionPlace& to, const HandoverOptions& options) {
  return Handover(from, to, options).Run();
}

}  // namespace hydrant
