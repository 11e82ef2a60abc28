// RequestLog writes a line of the log for each request: what asked for tokens, what was refused and what changed the server at
// level info, everything else at debug. It costs a request, not a token.
//
// Thread: any.
#ifndef HYDRANT_SERVER_HTTP_REQUEST_LOG_H_
#define HYDRANT_SERVER_HTTP_REQUEST_LOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "api/wire/api_error.h"
#include "server/http/caller.h"
#include "server/process/request_notes.h"
#include "server/process/token_bucket.h"

namespace hydrant {

class HttpExchange;

// Lets the first few refusals of a kind through and of a flood a few per second, so that refusing costs no disk.
class RefusalSampler {
 public:
  // Whether the refusal with `status` is written at `now_us`; then `left_out` says how many of its kind were not since
  // the last that was.
  bool Admit(int status, int64_t now_us, int64_t* left_out);

 private:
  struct Kind {
    TokenBucket lines;
    int64_t left_out = 0;
  };
  std::mutex mutex_;
  std::map<int, Kind> kinds_;  // by status: as many as the server has
};

class RequestLog {
 public:
  // The name of a tenant; null where there are none.
  using TenantName = std::function<std::string(const TenantEntry&)>;

  void SetTenantName(TenantName name) { tenant_name_ = std::move(name); }

  // `exchange` is over. `peer`: its address as text.
  void Write(HttpExchange& exchange, std::string_view peer, bool client_gone);
  // For bytes that were no request.
  void WriteRefusal(const ApiError& error, std::string_view request_id, std::string_view peer);

 private:
  TenantName tenant_name_;
  RefusalSampler sampler_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_REQUEST_LOG_H_
