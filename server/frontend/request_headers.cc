#include "server/frontend/request_headers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/process/sha256.h"

namespace hydrant {

std::string SessionIdOfHeader(std::string_view value) {
  if (IsSessionId(value)) return std::string(value);
  static constexpr char kHex[] = "0123456789abcdef";
  constexpr size_t kBytes = 16;
  std::string id = "header_";
  const Sha256Digest digest = Sha256(value);
  for (size_t i = 0; i < kBytes; ++i) {
    const auto byte = static_cast<unsigned char>(digest[i]);
    id.push_back(kHex[byte >> 4]);
    id.push_back(kHex[byte & 15]);
  }
  return id;
}

RequestHeaders ReadRequestHeaders(const HttpHead& head, const std::vector<std::string>& session_headers) {
  const auto field = [&](std::string_view name) -> std::optional<std::string> {
    if (std::find(session_headers.begin(), session_headers.end(), name) != session_headers.end()) return std::nullopt;
    const std::string* value = head.Find(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(*value);
  };
  std::optional<std::string> codex = field("session-id");
  if (!codex.has_value()) codex = field("session_id");
  RequestHeaders headers = {{field("x-session-id"), field("x-session-affinity"), field("x-session-turn"),
                             field("x-claude-code-session-id"), std::move(codex), std::nullopt},
                            field("x-request-timeout")};
  for (const std::string& name : session_headers) {
    const std::string* value = head.Find(name);
    if (value == nullptr || value->empty()) continue;
    headers.session.listed = SessionIdOfHeader(*value);
    break;
  }
  return headers;
}

}  // namespace hydrant
