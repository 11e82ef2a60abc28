#include "server/speculative_config.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "api/wire/json_body.h"

namespace hydrant {
namespace {

// As vLLM has it where it is told of neither.
constexpr int32_t kLookup = 5;
// A longer end of a text is hardly ever found where a shorter one is not, and costs more to look for.
constexpr int32_t kLookupMax = 32;

}  // namespace

std::string ParseSpeculativeConfig(std::string_view json, NgramOptions* options) {
  const ApiResult<JsonBody> document = JsonBody::Parse(json, RequestLimits());
  if (!document.ok()) return document.error().message;
  if (!document.value().root().is_object()) return "must be a JSON object";
  bool has_method = false;
  std::optional<int32_t> tokens, longest, shortest;
  for (JsonView member = document.value().root().first(); member.valid(); member = member.next()) {
    const std::string key(member.key());
    if (key == "method") {
      if (!member.is_string() || member.string() != "ngram") return "method: only \"ngram\" is supported";
      has_method = true;
      continue;
    }
    const bool is_tokens = key == "num_speculative_tokens";
    std::optional<int32_t>* const number = is_tokens                    ? &tokens
                                           : key == "prompt_lookup_max" ? &longest
                                           : key == "prompt_lookup_min" ? &shortest
                                                                        : nullptr;
    if (number == nullptr) return absl::StrCat(key, ": is not supported");
    const int32_t most = is_tokens ? kNgramTokensMax : kLookupMax;
    const std::optional<int64_t> value = member.is_integer() ? member.integer() : std::nullopt;
    if (!value.has_value() || *value < 1 || *value > most) return absl::StrCat(key, ": must be 1 to ", most);
    *number = static_cast<int32_t>(*value);
  }
  if (!has_method) return "method: is missing";
  if (!tokens.has_value()) return "num_speculative_tokens: is missing";
  options->tokens = *tokens;
  options->lookup_max = longest.value_or(shortest.value_or(kLookup));
  options->lookup_min = shortest.value_or(options->lookup_max);
  if (options->lookup_min > options->lookup_max) return "prompt_lookup_min: must not be above prompt_lookup_max";
  return "";
}

std::string SpeculativeConfigText(const NgramOptions& options) {
  if (options.tokens == 0) return "";
  return absl::StrCat(R"({"method":"ngram","num_speculative_tokens":)", options.tokens, R"(,"prompt_lookup_max":)",
                      options.lookup_max, R"(,"prompt_lookup_min":)", options.lookup_min, "}");
}

}  // namespace hydrant
