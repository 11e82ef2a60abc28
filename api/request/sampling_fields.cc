#include "api/request/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

// Below this a softmax over the logits of any real model has one non-zero entry, and logits / temperature nears the
// largest float: it is the greedy limit, so it is treated as greedy.
constexpr double kSmallestTemperature = 1e-6;
// Below this a repetition penalty no longer says anything but "never" or "always", and divides logits out of fp32's range.
constexpr double kSmallestRepetition = 1e-3;
// vLLM's limit on bad words, there after tokenisation.
constexpr size_t kBadWordsMax = 128;

void ReadDistribution(ObjectReader* request, const RequestContext& context, SamplingFields* fields) {
  const SamplingDefaults read = ReadSamplingDefaults(request, context);
  fields->temperature = read.temperature < kSmallestTemperature ? 0.0f : static_cast<float>(read.temperature);
  // As a float 1e-300 would be 0, which keeps no token at all.
  fields->top_p = std::max(static_cast<float>(read.top_p), std::numeric_limits<float>::min());
  fields->top_k = static_cast<int32_t>(read.top_k);
  fields->min_p = static_cast<float>(read.min_p);
  fields->repetition_penalty = static_cast<float>(read.repetition_penalty);
  fields->seed =
      request->OptionalInteger("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  fields->presence_penalty = static_cast<float>(request->Number("presence_penalty", 0.0, -2.0, 2.0));
  fields->frequency_penalty = static_cast<float>(request->Number("frequency_penalty", 0.0, -2.0, 2.0));
}

// Its members are named after token ids. A bias of 0 is none.
void ReadLogitBias(ObjectReader* request, const RequestContext& context, SamplingFields* fields) {
  const JsonView member = request->Raw("logit_bias");
  if (!member.valid()) return;
  if (!member.is_object()) return request->Fail("logit_bias", "'logit_bias' must be an object.", "invalid_type");
  if (member.size() > static_cast<uint32_t>(context.limits.logit_bias_max)) {
    return request->Fail("logit_bias",
                         absl::StrCat("'logit_bias' must have at most ", context.limits.logit_bias_max, " members."));
  }
  std::map<int32_t, float> biases;  // two spellings of one id ("5", "05") are one member twice: the last counts
  for (JsonView entry = member.first(); entry.valid(); entry = entry.next()) {
    const std::string_view key = entry.key();
    int32_t id = -1;
    const std::from_chars_result parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0 || id >= context.vocab_size) {
      return request->Fail(
          "logit_bias", absl::StrCat("The names in 'logit_bias' must be token ids in [0, ", context.vocab_size, ")."),
          "token_id_out_of_range");
    }
    if (!entry.is_number() || !(std::abs(entry.number()) <= 100.0)) {
      return request->Fail("logit_bias", "The values in 'logit_bias' must be numbers in [-100, 100].");
    }
    biases[id] = static_cast<float>(entry.number());
  }
  for (const auto& [id, bias] : biases) {
    if (bias != 0.0f) fields->logit_bias.push_back({id, bias});
  }
}

void ReadAllowed(ObjectReader* request, const RequestContext& context, SamplingFields* fields) {
  if (!request->Has("allowed_token_ids")) return;
  std::vector<int32_t> ids = request->TokenIds("allowed_token_ids", context.vocab_size, context.vocab_size);
  if (ids.empty()) request->Fail("allowed_token_ids", "'allowed_token_ids' must not be empty.");
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  fields->allowed_token_ids = std::move(ids);
}

}  // namespace

SamplingDefaults ReadSamplingDefaults(ObjectReader* request, const SamplingDefaults& default_value) {
  SamplingDefaults read;
  read.temperature = request->Number("temperature", default_value.temperature, 0.0, 2.0);
  read.top_p = request->Number("top_p", default_value.top_p, 0.0, 1.0, /*min_open=*/true);
  read.top_k = request->Integer("top_k", default_value.top_k, -1, std::numeric_limits<int32_t>::max());
  read.min_p = request->Number("min_p", default_value.min_p, 0.0, 1.0);
  read.repetition_penalty =
      request->Number("repetition_penalty", default_value.repetition_penalty, kSmallestRepetition, 10.0);
  return read;
}

void ReadSamplingFields(ObjectReader* request, const RequestContext& context, SamplingFields* fields) {
  ReadDistribution(request, context, fields);
  ReadLogitBias(request, context, fields);
  ReadAllowed(request, context, fields);
  fields->bad_words = request->Strings("bad_words", kBadWordsMax, context.limits.stop_bytes_max);
}

}  // namespace hydrant
