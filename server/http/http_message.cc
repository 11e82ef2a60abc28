#include "server/http/http_message.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/process/ascii_text.h"

namespace hydrant {

HttpResponse JsonResponse(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

std::optional<std::string> QueryValue(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) != name) continue;
    return PercentDecode(pair.substr(std::min(equals + 1, pair.size())));
  }
  return std::nullopt;
}

std::string_view HttpReason(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 204:
      return "No Content";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Payload Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 529:
      return "Site Overloaded";
    default:
      return "Status";
  }
}

void AppendHead(const HttpResponse& response, int version_minor, bool keep_alive, int64_t content_length,
                std::string_view request_id, std::string* out) {
  char date[40];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  const size_t date_length = std::strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  absl::StrAppend(out, "HTTP/1.1 ", response.status, " ");
  out->append(HttpReason(response.status)).append("\r\ndate: ").append(date, date_length).append("\r\n");
  if (!response.content_type.empty()) absl::StrAppend(out, "content-type: ", response.content_type, "\r\n");
  // 204 has no body and may not carry a length, nor may 304 one that the content does not have (RFC 9110, 8.6).
  if (content_length >= 0 && response.status != 204 && response.status != 304) {
    absl::StrAppend(out, "content-length: ", content_length, "\r\n");
  } else if (content_length < 0 && version_minor >= 1) {
    absl::StrAppend(out, "transfer-encoding: chunked\r\n");
  }
  if (!request_id.empty()) out->append("x-request-id: ").append(request_id).append("\r\n");
  for (const auto& [name, value] : response.fields) absl::StrAppend(out, name, ": ", value, "\r\n");
  if (!keep_alive) {
    out->append("connection: close\r\n");
  } else if (version_minor == 0) {
    out->append("connection: keep-alive\r\n");
  }
  out->append("\r\n");
}

}  // namespace hydrant
