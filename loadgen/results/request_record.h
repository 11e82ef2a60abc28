// What is known of one request when it is over: everything reports are made of. Times are seconds since the run began.
//
// Thread: any (plain data).
#ifndef HYDRANT_LOADGEN_RESULTS_REQUEST_RECORD_H_
#define HYDRANT_LOADGEN_RESULTS_REQUEST_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hydrant {

enum class RequestError {
  kNone,
  kConnect,    // no connection
  kTimeout,    // not over after --request-timeout-s
  kHttp429,    // over a limit
  kHttp503,    // server full
  kHttpOther,  // any other status but 200
  kStream,     // an error event in the stream
  kProtocol,   // not HTTP, not events, cut off, without a token or a finish_reason
  kCancelled,  // by Ctrl-C or the end of the run: counts as neither completed nor failed
};
inline constexpr size_t kRequestErrors = 9;
// "connect", "http_429", …; of kNone "none".
const char* RequestErrorName(RequestError error);

struct RequestRecord {
  size_t conversation_idx = 0;
  int32_t turn = 0;  // from 0
  size_t tenant_idx = 0;

  double scheduled_s = 0;     // when it was to be sent
  double due_s = 0;           // when it could be: scheduled_s, or later when --max-concurrency held it back
  double sent_s = 0;          // when it was: just before its connection was looked for
  double first_s = 0;         // first token; 0: none
  double last_s = 0;          // last token
  double end_s = 0;           // last byte, or the failure
  std::vector<float> gaps_s;  // between one event with tokens and the next; of the same read: 0

  int64_t prompt_tokens = 0;  // as the server counted them, else as asked for
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;  // as the server counted them, else events with tokens
  bool counted_by_server = false;

  RequestError error = RequestError::kNone;
  int status = 0;          // HTTP; 0: no answer
  std::string error_text;  // of the server or the system: UTF-8, at most 300 bytes, no line ends
  std::string finish_reason;

  bool succeeded() const { return error == RequestError::kNone; }
  double ttft_s() const { return first_s - sent_s; }
  // To the last token, not to the end of the stream: vLLM's definition.
  double e2e_s() const { return last_s - sent_s; }
  double queue_s() const { return sent_s - scheduled_s; }
  // The client's own fault.
  double lag_s() const { return sent_s - due_s; }
  // 0 for one token.
  double tpot_s() const { return output_tokens > 1 ? (last_s - first_s) / static_cast<double>(output_tokens - 1) : 0; }
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_RESULTS_REQUEST_RECORD_H_
