#include "server/sessions/tools/session_report.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

std::string Utc(int64_t unix_s) {
  const auto time = static_cast<std::time_t>(unix_s);
  std::tm parts{};
  std::array<char, 32> text{};
  if (gmtime_r(&time, &parts) == nullptr) return absl::StrCat(unix_s);
  return std::string(text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
}

void AppendText(std::string* out, const char* name, const std::string& value) {
  absl::StrAppend(out, "\"", name, "\":");
  AppendJsonString(out, value);
}

}  // namespace

std::string SessionsTable(const std::vector<PlacedSession>& sessions) {
  using Row = std::array<std::string, 9>;
  std::vector<Row> rows = {{"TENANT", "ID", "TURN", "TOKENS", "BYTES", "POLICY", "BUDGET", "CREATED", "LAST USED"}};
  for (const PlacedSession& session : sessions) {
    rows.push_back({session.tenant, session.id, absl::StrCat(session.turn), absl::StrCat(session.tokens),
                    session.bytes < 0 ? "-" : absl::StrCat(session.bytes), session.policy,
                    session.budget == 0 ? "-" : absl::StrCat(session.budget), Utc(session.created_s),
                    Utc(session.used_s)});
  }
  std::array<size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line.append(row[i]);
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    out.append(line).append("\n");
  }
  return out;
}

std::string SessionsJson(const std::vector<PlacedSession>& sessions) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (const PlacedSession& session : sessions) {
    out.append(out.back() == '[' ? "{" : ",{");
    AppendText(&out, "tenant", session.tenant);
    AppendText(&(out += ','), "id", session.id);
    absl::StrAppend(&out, ",\"turn\":", session.turn, ",\"tokens\":", session.tokens, ",\"bytes\":");
    session.bytes < 0 ? out.append("null") : out.append(absl::StrCat(session.bytes));
    AppendText(&(out += ','), "policy", session.policy);
    out.append(",\"budget\":");
    AppendJsonIntegerOrNull(&out, session.budget);
    absl::StrAppend(&out, ",\"created\":", session.created_s, ",\"last_used\":", session.used_s, "}");
  }
  return out.append("]}\n");
}

std::string VerifyText(const VerifyReport& report) {
  std::string out =
      absl::StrCat(report.sessions, " sessions in ", report.records, " records, ", report.bytes,
                   " bytes: ", report.damaged == 0 ? "nothing" : absl::StrCat(report.damaged), " damaged\n");
  if (report.unfinished_bytes > 0) {
    absl::StrAppend(&out, report.unfinished_bytes,
                    " bytes are of writes that were not finished: no turn was said to be durable in them\n");
  }
  for (const Damage& damage : report.damages) absl::StrAppend(&out, damage.where, ": ", damage.what, "\n");
  const int64_t more = report.damaged - static_cast<int64_t>(report.damages.size());
  if (more > 0) absl::StrAppend(&out, "and ", more, " more\n");
  return out;
}

std::string VerifyJson(const VerifyReport& report) {
  std::string out = absl::StrCat("{\"sessions\":", report.sessions, ",\"records\":", report.records,
                                 ",\"bytes\":", report.bytes, ",\"unfinished_bytes\":", report.unfinished_bytes,
                                 ",\"damaged\":", report.damaged, ",\"damages\":[");
  for (const Damage& damage : report.damages) {
    out.append(out.back() == '[' ? "{" : ",{");
    AppendText(&out, "where", damage.where);
    AppendText(&(out += ','), "what", damage.what);
    out.push_back('}');
  }
  return out.append("]}\n");
}

std::string HandoverText(const HandoverReport& report) {
  std::string out =
      absl::StrCat("moved ", report.moved, " of ", report.sessions, " sessions, ", report.bytes, " bytes\n");
  const auto line = [&out](int64_t count, const char* what) {
    if (count > 0) absl::StrAppend(&out, count, " ", what, "\n");
  };
  if (report.kv_sent > 0) absl::StrAppend(&out, report.kv_taken, " of ", report.kv_sent, " took their KV along\n");
  line(report.kv_lost, "lost their KV on the way: their next turns compute the history");
  line(report.present, "had been copied before, and have left now");
  line(report.gone, "ended meanwhile");
  line(report.not_durable, "were copied and stay here, too: a restart of the new server would lose them");
  line(report.left, "stay");
  return out;
}

std::string HandoverJson(const HandoverReport& report) {
  return absl::StrCat("{\"sessions\":", report.sessions, ",\"moved\":", report.moved, ",\"present\":", report.present,
                      ",\"gone\":", report.gone, ",\"not_durable\":", report.not_durable, ",\"left\":", report.left,
                      ",\"bytes\":", report.bytes, ",\"kv_lost\":", report.kv_lost, ",\"kv_sent\":", report.kv_sent,
                      ",\"kv_taken\":", report.kv_taken, "}\n");
}

}  // namespace hydrant
