#include "loadgen/load/dataset_files.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/wire/json_body.h"
#include "loadgen/client/json_scan.h"

namespace hydrant {
namespace {

absl::Status Wrong(const std::string& path, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(what)));
}

JsonBudget FileBudget() {
  RequestLimits limits;
  limits.json_nodes_max = 50'000'000;  // the full ShareGPT file has 10 million
  return JsonBudget(limits);
}

JsonView Member(JsonView object, std::string_view name, std::string_view fallback) {
  const JsonView value = object[name];
  return value.absent() ? object[fallback] : value;
}

bool IsUser(std::string_view role) { return role == "human" || role == "user"; }

std::vector<std::string> ChatOf(JsonView item) {
  std::vector<std::string> chat;
  if (!item.is_object()) return chat;
  const JsonView turns = Member(item, "conversations", "messages");
  if (!turns.is_array()) return chat;
  for (JsonView turn = turns.first(); turn.valid(); turn = turn.next()) {
    if (!turn.is_object()) break;
    const JsonView role = Member(turn, "from", "role");
    const JsonView text = Member(turn, "value", "content");
    if (!role.is_string() || !text.is_string()) break;
    if (role.string() == "system") continue;
    if (IsUser(role.string()) != (chat.size() % 2 == 0)) break;
    chat.emplace_back(text.string());
  }
  return chat;
}

bool ReadTraceLine(const std::string& line, Trace* trace) {
  double at_s = 0;
  int64_t lengths[2] = {0, 0};
  bool has_lengths = false;
  if (line.front() == '{') {
    int found = 0;
    const bool whole = ScanMembers(line, [&](std::string_view key, std::string_view value) {
      double milliseconds = 0;
      if (key == "timestamp" && absl::SimpleAtod(std::string(value), &milliseconds)) {
        at_s = milliseconds / 1000;
        found |= 1;
      } else if (key == "input_length" || key == "output_length") {
        lengths[key == "output_length"] = ScanInteger(value).value_or(0);
        found |= key == "output_length" ? 2 : 4;
      }
    });
    if (!whole || (found != 1 && found != 7)) return false;
    has_lengths = found == 7;
  } else {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::ByAnyChar(" ,\t\r"), absl::SkipEmpty());
    if ((parts.size() != 1 && parts.size() != 3) || !absl::SimpleAtod(parts[0], &at_s)) return false;
    has_lengths = parts.size() == 3;
    if (has_lengths && (!absl::SimpleAtoi(parts[1], &lengths[0]) || !absl::SimpleAtoi(parts[2], &lengths[1]))) {
      return false;
    }
  }
  if (!(at_s >= 0 && std::isfinite(at_s))) return false;
  if (!trace->arrivals_s.empty() && at_s < trace->arrivals_s.back()) return false;
  trace->arrivals_s.push_back(at_s);
  if (!has_lengths) return trace->lengths.empty();
  for (const int64_t length : lengths) {
    if (length < 1 || length > (1 << 24)) return false;
  }
  trace->lengths.emplace_back(static_cast<int32_t>(lengths[0]), static_cast<int32_t>(lengths[1]));
  return trace->lengths.size() == trace->arrivals_s.size();
}

// Sets one member of a tenant; the text of what is wrong, or nothing.
std::string SetTenantMember(std::string_view name, const std::string& value, TenantSpec* tenant) {
  if (name == "name") {
    tenant->name = value;
  } else if (name == "key") {
    tenant->key = value;
  } else if (name == "key_env") {
    const char* key = std::getenv(value.c_str());
    if (key == nullptr) return absl::StrCat("there is no environment variable ", value);
    tenant->key = key;
  } else if (name == "weight" || name == "load") {
    double number = 0;
    if (!absl::SimpleAtod(value, &number) || !(number > 0 && number <= 1e6)) {
      return absl::StrCat(std::string(name), " must be a number above 0");
    }
    (name == "weight" ? tenant->weight : tenant->load) = number;
  } else {
    return absl::StrCat("unknown member ", std::string(name), "; name, key, key_env, weight and load exist");
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // Where there is nothing to copy, << fails.
  const bool empty = file.peek() == std::ifstream::traits_type::eof() && file.is_open() && !file.bad();
  if (!empty && !(text << file.rdbuf())) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  return text.str();
}

absl::StatusOr<std::vector<std::vector<std::string>>> ReadShareGpt(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  JsonBudget budget = FileBudget();
  const ApiResult<JsonBody> body = JsonBody::Parse(*text, &budget);
  if (!body.ok()) return Wrong(path, body.error().message);
  if (!body.value().root().is_array()) return Wrong(path, "not an array of conversations");
  std::vector<std::vector<std::string>> chats;
  for (JsonView item = body.value().root().first(); item.valid(); item = item.next()) {
    std::vector<std::string> chat = ChatOf(item);
    if (chat.size() >= 2) chats.push_back(std::move(chat));
  }
  if (chats.empty()) return Wrong(path, "no conversation in ShareGPT's shape");
  return chats;
}

absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  std::vector<std::string> lines = absl::StrSplit(*text, absl::ByAnyChar("\r\n"), absl::SkipWhitespace());
  if (lines.empty()) return Wrong(path, "has no text");
  return lines;
}

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  Trace trace;
  int32_t number = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(*text, '\n'))) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos || line.front() == '#') continue;
    if (!ReadTraceLine(line, &trace)) {
      return Wrong(absl::StrCat(path, ":", number),
                   "not an arrival: seconds, not before the line above, and on every line or none the tokens of prompt "
                   "and output");
    }
  }
  if (trace.arrivals_s.empty()) return Wrong(path, "has no arrivals");
  return trace;
}

absl::StatusOr<std::vector<TenantSpec>> ReadTenants(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  JsonBudget budget = FileBudget();
  const ApiResult<JsonBody> body = JsonBody::Parse(*text, &budget);
  if (!body.ok()) return Wrong(path, body.error().message);
  const JsonView list = body.value().root().is_object() ? body.value().root()["tenants"] : JsonView();
  if (!list.is_array() || list.size() == 0) return Wrong(path, "no array \"tenants\"");
  std::vector<TenantSpec> tenants;
  for (JsonView item = list.first(); item.valid(); item = item.next()) {
    TenantSpec tenant;
    tenant.name.clear();
    if (!item.is_object()) return Wrong(path, "a tenant is not an object");
    for (JsonView member = item.first(); member.valid(); member = member.next()) {
      if (!member.is_string() && !member.is_number()) return Wrong(path, "a tenant's member has the wrong type");
      const std::string value = member.is_string() ? std::string(member.string()) : absl::StrCat(member.number());
      const std::string wrong = SetTenantMember(member.key(), value, &tenant);
      if (!wrong.empty()) return Wrong(path, wrong);
    }
    if (tenant.name.empty()) return Wrong(path, "a tenant has no name");
    tenants.push_back(std::move(tenant));
  }
  return tenants;
}

absl::StatusOr<TenantSpec> ParseTenant(std::string_view text) {
  TenantSpec tenant;
  tenant.name.clear();
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(std::string(text), ','))) {
    const std::pair<std::string, std::string> member = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::string wrong = SetTenantMember(member.first, member.second, &tenant);
    if (!wrong.empty()) return absl::InvalidArgumentError(wrong);
  }
  if (tenant.name.empty()) return absl::InvalidArgumentError("needs a name");
  return tenant;
}

}  // namespace hydrant
