// RequestNotes is what a request's line in the log says that only its handler knows. Plain data.
#ifndef HYDRANT_SERVER_PROCESS_REQUEST_NOTES_H_
#define HYDRANT_SERVER_PROCESS_REQUEST_NOTES_H_

#include <cstdint>
#include <string>

namespace hydrant {

// Empty, or -1: does not apply.
struct RequestNotes {
  std::string error_code;     // of the response, or of the event that ended a stream
  std::string generation_id;  // as the body has it; empty: nothing was submitted to the engine
  std::string finish;         // of the last sequence that ended
  std::string session;        // the id that the client gave it
  int64_t prompt_tokens = -1;
  int64_t cached_tokens = -1;  // of these, what a cached prefix or the session had computed before
  int64_t generated_tokens = -1;
  int64_t queue_ms = -1;        // from the head to the admission of the first sequence
  int64_t first_token_ms = -1;  // from the head to the first token
  bool audited = false;         // the operator changed something
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_REQUEST_NOTES_H_
