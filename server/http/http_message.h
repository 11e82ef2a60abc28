// The two ends of an HTTP exchange as plain data. No sockets, no library types.
#ifndef HYDRANT_SERVER_HTTP_HTTP_MESSAGE_H_
#define HYDRANT_SERVER_HTTP_HTTP_MESSAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/wire/api_error.h"

namespace hydrant {

// In whose words a request is told its errors, and its name in a header.
enum class Dialect : uint8_t { kOpenAi, kAnthropic };

struct HttpField {
  std::string name;  // lower case
  std::string value;
};

enum class BodyFraming : uint8_t { kNone, kLength, kChunked };

// A request line and its header fields, checked (http_head.h says for what).
struct HttpHead {
  std::string method;  // as sent
  std::string path;    // the target up to '?'
  std::string query;   // what follows it
  int version_minor = 1;
  std::vector<HttpField> fields;
  BodyFraming framing = BodyFraming::kNone;
  uint64_t content_length = 0;  // with kLength
  bool keep_alive = true;
  bool expects_continue = false;

  // The value of the first field called `name` (lower case); null when there is none.
  const std::string* Find(std::string_view name) const {
    for (const HttpField& field : fields) {
      if (field.name == name) return &field.value;
    }
    return nullptr;
  }
};

inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>>
      fields;                     // beside content-type, content-length, connection, x-request-id
  std::optional<ApiError> error;  // what it tells; null: it is none
  bool close = false;             // end the connection after this response
};

// 200 with `body`, which is JSON.
HttpResponse JsonResponse(std::string body);

// The value of the first `name` in "a=1&name=2", decoded; nullopt when there is none.
std::optional<std::string> QueryValue(std::string_view query, std::string_view name);

// The reason phrase of `status`.
std::string_view HttpReason(int status);

// Appends the status line and header block. `content_length` < 0: the body is chunked, or, for an HTTP/1.0 client, ends
// with the connection.
void AppendHead(const HttpResponse& response, int version_minor, bool keep_alive, int64_t content_length,
                std::string_view request_id, std::string* out);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_HTTP_MESSAGE_H_
