// SamplingFields is what a request says about how its tokens are chosen; kernels/sampling.h and
// kernels/logit_options.h define what it means.
//
// Thread: any (plain data, a pure function).
#ifndef HYDRANT_API_REQUEST_SAMPLING_FIELDS_H_
#define HYDRANT_API_REQUEST_SAMPLING_FIELDS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "api/request/request_context.h"
#include "api/wire/object_reader.h"
#include "kernels/logit_options.h"
#include "kernels/sampling.h"

namespace hydrant {

// Biases are in [-100, 100]. A temperature below 1e-6 counts as 0, and top_p is at least the smallest normal float. The server derives
// SamplingParams::key from `seed`, another one for each sample.
struct SamplingFields : SamplingParams, LogitOptions {
  std::optional<int64_t> seed;         // absent: the server draws one
  std::vector<std::string> bad_words;  // none empty

  // Asked again, it is answered otherwise.
  bool draws_anew() const {
    const bool has_choice = temperature > 0 && top_k != 1 && min_p < 1 && top_p > std::numeric_limits<float>::min();
    return has_choice && !seed.has_value();
  }
};

// The fields that have defaults, in the ranges of requests. Sets request's error at the first that is wrong.
SamplingDefaults ReadSamplingDefaults(ObjectReader* request, const SamplingDefaults& default_value);

// Sets request's error at the first field that is wrong.
void ReadSamplingFields(ObjectReader* request, const RequestContext& context, SamplingFields* fields);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_SAMPLING_FIELDS_H_
