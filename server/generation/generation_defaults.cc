#include "server/generation/generation_defaults.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "api/request/sampling_fields.h"

namespace hydrant {

void SetDefaults(const GenerationDefaults& of_checkpoint, RequestContext* request) {
  if (of_checkpoint.temperature >= 0) request->temperature = of_checkpoint.temperature;
  if (of_checkpoint.top_p >= 0) request->top_p = of_checkpoint.top_p;
  if (of_checkpoint.min_p >= 0) request->min_p = of_checkpoint.min_p;
  if (of_checkpoint.top_k >= 0) request->top_k = of_checkpoint.top_k;
  if (of_checkpoint.repetition_penalty >= 0) request->repetition_penalty = of_checkpoint.repetition_penalty;
  if (of_checkpoint.max_new_tokens >= 0) request->max_new_tokens = of_checkpoint.max_new_tokens;
}

std::string OverrideDefaults(std::string_view json, RequestContext* request) {
  static constexpr std::array<std::string_view, 6> kNames = {"temperature",        "top_p",         "top_k", "min_p",
                                                             "repetition_penalty", "max_new_tokens"};
  const ApiResult<JsonBody> body = JsonBody::Parse(json, request->limits);
  if (!body.ok() || !body.value().root().is_object()) return "must be a JSON object";
  const JsonView root = body.value().root();
  for (JsonView member = root.first(); member.valid(); member = member.next()) {
    if (std::find(kNames.begin(), kNames.end(), member.key()) != kNames.end()) continue;
    std::string known;
    for (const std::string_view name : kNames) absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(name));
    return absl::StrCat("its members may be ", known);
  }
  std::optional<ApiError> error;
  ObjectReader reader(root, "", &error);
  static_cast<SamplingDefaults&>(*request) = ReadSamplingDefaults(&reader, *request);
  const int64_t tokens =
      reader.Integer("max_new_tokens", request->max_new_tokens, 1, std::numeric_limits<int32_t>::max());
  request->max_new_tokens = static_cast<int32_t>(tokens);
  return error.has_value() ? error->message : "";
}

}  // namespace hydrant
