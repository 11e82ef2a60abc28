// What the tools say of sessions, for people and as JSON.
//
// Thread: any (pure functions).
#ifndef HYDRANT_SERVER_SESSIONS_TOOLS_SESSION_REPORT_H_
#define HYDRANT_SERVER_SESSIONS_TOOLS_SESSION_REPORT_H_

#include <string>
#include <vector>

#include "server/sessions/tools/handover.h"
#include "server/sessions/tools/session_place.h"

namespace hydrant {

// A row for each, under a head; times in UTC.
std::string SessionsTable(const std::vector<PlacedSession>& sessions);
// {"object":"list","data":[{"tenant":…,"id":…,"turn":…,"tokens":…,"bytes":…,"policy":…,"budget":…,"created":…,"last_used":…}]}
std::string SessionsJson(const std::vector<PlacedSession>& sessions);

// What was read, then what is damaged, a line each.
std::string VerifyText(const VerifyReport& report);
// {"sessions":…,"records":…,"bytes":…,"unfinished_bytes":…,"damaged":…,"damages":[{"where":…,"what":…}]}
std::string VerifyJson(const VerifyReport& report);

std::string HandoverText(const HandoverReport& report);
// {"sessions":…,"moved":…,"present":…,"gone":…,"not_durable":…,"left":…,"bytes":…}
std::string HandoverJson(const HandoverReport& report);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TOOLS_SESSION_REPORT_H_
