// RequestLimits bounds what one request body may hold. The server's Limits begin with them; the defaults are the documented
// ones.
//
// Thread: any (plain data).
#ifndef HYDRANT_API_WIRE_LIMITS_H_
#define HYDRANT_API_WIRE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace hydrant {

struct RequestLimits {
  // JSON libraries recurse when they copy, print or free: 64 levels cannot overflow any stack, and no client nests
  // deeper.
  int32_t json_depth_max = 64;
  // One parsed value costs about 40 bytes, so a body costs at most 8 MiB of memory beyond its own text. The longest
  // prompts of token ids fit: 200,000 is more than the longest context of a model served here.
  int32_t json_nodes_max = 200'000;

  int32_t prompts_max = 1024;   // prompts of one request
  int32_t messages_max = 2048;  // messages of one chat
  int32_t n_max = 16;           // samples per prompt
  int32_t stop_max = 16;        // stop strings; each is searched at every token
  size_t stop_bytes_max = 256;  // bytes of one stop string; also the most text a stream may have to hold back
  int32_t stop_token_ids_max = 1024;
  int32_t logit_bias_max = 1024;
  int32_t logprobs_max = 20;           // candidates reported per position
  size_t identifier_bytes_max = 256;   // user, cache_salt
  size_t request_id_bytes_max = 128;   // becomes part of the response's id and of a header
  int32_t stream_interval_max = 1024;  // tokens per chunk
};

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_LIMITS_H_
