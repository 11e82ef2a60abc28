// RequestOptions is what a client may say of a sequence that the scheduler heeds: when it ends, and who goes first. The
// reader of requests (api/request) writes into it, so a field is declared here and nowhere else.
//
// Thread: any (plain data).
#ifndef HYDRANT_SCHEDULER_REQUEST_REQUEST_OPTIONS_H_
#define HYDRANT_SCHEDULER_REQUEST_REQUEST_OPTIONS_H_

#include <cstdint>
#include <vector>

namespace hydrant {

struct RequestOptions {
  int32_t max_tokens = 16;              // >= 0; 0 computes the prompt only
  int32_t min_tokens = 0;               // no stop token ends the sequence before this many
  std::vector<int32_t> stop_token_ids;  // ids that end it, beside the model's own
  bool ignore_eos = false;              // the model's own do not
  int32_t priority = 0;                 // lower goes earlier, among the tenant's requests
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_REQUEST_REQUEST_OPTIONS_H_
