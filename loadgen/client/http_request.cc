#include "loadgen/client/http_request.h"

#include "absl/strings/str_cat.h"

namespace hydrant {

std::string HttpRequest(const Url& url, std::string_view path, std::string_view key, const HttpFields& fields,
                        std::string_view body) {
  const std::string target = url.path + std::string(path);
  std::string text =
      absl::StrCat(body.empty() ? "GET " : "POST ", target, " HTTP/1.1\r\nHost: ", url.Authority(), "\r\n");
  if (!body.empty()) absl::StrAppend(&text, "Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n");
  if (!key.empty()) absl::StrAppend(&text, "Authorization: Bearer ", std::string(key), "\r\n");
  for (const auto& [name, value] : fields) absl::StrAppend(&text, name, ": ", value, "\r\n");
  text.append("\r\n").append(body);
  return text;
}

}  // namespace hydrant
