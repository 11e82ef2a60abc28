// LogitOptions is what a client may say of the logits that its tokens are chosen from: for the whole of a text, where
// LogitAdjustments (kernels/sampling.h), which has the meaning of each, is for one token of it. The reader of requests
// (api/request) writes into it, so a field is declared here and nowhere else.
//
// Thread: any (plain data).
#ifndef HYDRANT_KERNELS_LOGIT_OPTIONS_H_
#define HYDRANT_KERNELS_LOGIT_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "kernels/sampling.h"

namespace hydrant {

struct LogitOptions {
  std::vector<int32_t> allowed_token_ids;  // ascending, none twice; empty: all
  std::vector<TokenBias> logit_bias;       // by id, none twice; not 0
  float repetition_penalty = 1.0f;         // > 0; counts prompt and output, the other two the output
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_LOGIT_OPTIONS_H_
