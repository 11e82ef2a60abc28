// What the fuzz targets of request bodies require of what they read.
#ifndef HYDRANT_TESTS_FUZZ_REQUEST_PROPERTIES_H_
#define HYDRANT_TESTS_FUZZ_REQUEST_PROPERTIES_H_

#include <algorithm>
#include <cmath>
#include <string>

#include "api/request/generation_fields.h"
#include "api/wire/json_writer.h"
#include "api/wire/request_id.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {

inline constexpr int32_t kVocab = 300;

inline RequestContext FuzzContext() {
  RequestContext context;
  context.model_names = {"m"};
  context.vocab_size = kVocab;
  context.context = 2048;
  return context;
}

inline bool Within(float x, float min, float max) { return x >= min && x <= max; }  // false of a NaN

template <typename Ids>
bool AreIds(const Ids& ids) {
  return std::all_of(ids.begin(), ids.end(), [](int32_t id) { return id >= 0 && id < kVocab; });
}

inline void CheckSampling(const SamplingFields& fields, const RequestLimits& limits) {
  Require(Within(fields.temperature, 0, 2) && Within(fields.top_p, 1e-38f, 1) && Within(fields.min_p, 0, 1),
          "the distribution's numbers are in range");
  Require(Within(fields.presence_penalty, -2, 2) && Within(fields.frequency_penalty, -2, 2) &&
              Within(fields.repetition_penalty, 1e-4f, 10),
          "penalties are in range");
  Require(static_cast<int32_t>(fields.logit_bias.size()) <= limits.logit_bias_max, "biases are bounded");
  for (size_t i = 0; i < fields.logit_bias.size(); ++i) {
    const TokenBias& bias = fields.logit_bias[i];
    Require(bias.id >= 0 && bias.id < kVocab && Within(std::abs(bias.bias), 1e-38f, 100), "a bias is one");
    Require(i == 0 || fields.logit_bias[i - 1].id < bias.id, "biases ascend");
  }
  Require(AreIds(fields.allowed_token_ids), "allowed tokens are tokens");
  Require(std::is_sorted(fields.allowed_token_ids.begin(), fields.allowed_token_ids.end()), "allowed tokens ascend");
}

inline void CheckFields(const GenerationFields& fields, const RequestContext& context) {
  const RequestLimits& limits = context.limits;
  CheckSampling(fields, limits);
  Require(fields.n >= 1 && fields.n <= limits.n_max, "n is in range");
  const bool takes_rest = fields.max_tokens == kRestOfContext;
  Require(takes_rest || fields.max_tokens >= (fields.echo ? 0 : 1), "max_tokens is in range");
  Require(fields.min_tokens >= 0 && (takes_rest || fields.min_tokens <= fields.max_tokens), "min_tokens is in range");
  Require(fields.logprobs >= -1 && fields.logprobs <= limits.logprobs_max, "logprobs are bounded");
  Require(fields.prompt_logprobs >= -1 && fields.prompt_logprobs <= limits.logprobs_max, "so are the prompt's");
  Require(fields.prompt_logprobs < 0 || !fields.stream, "which do not go with a stream");
  Require(static_cast<int32_t>(fields.stop.size()) <= limits.stop_max, "stops are bounded");
  for (const std::string& stop : fields.stop) {
    Require(!stop.empty() && stop.size() <= limits.stop_bytes_max && IsValidUtf8(stop), "a stop is a text");
  }
  Require(AreIds(fields.stop_token_ids), "stop tokens are tokens");
  Require(fields.request_id.empty() || IsRequestId(fields.request_id, limits.request_id_bytes_max), "an id is one");
  Require(!CheckKvSpec(fields.kv, context.context).has_value(), "kv is consistent");
}

inline void CheckError(const ApiError& error) {
  Require(error.status == 400 || error.status == 404, "an error is the client's");
  const bool of_the_text = error.code == "invalid_json" || error.code.starts_with("json_too_");
  Require(of_the_text || !error.param.empty(), "an error names what it is about");
  const std::string body = ErrorJson(error);
  Require(IsValidUtf8(body) && body.size() < 1000, "an error is short UTF-8");
  Require(JsonBody::Parse(body, RequestLimits()).ok(), "an error is JSON");
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_FUZZ_REQUEST_PROPERTIES_H_
