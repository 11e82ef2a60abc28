#include "api/refused_fields.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

// A number that may only have its neutral value. The range is that of the finished feature.
struct NeutralNumber {
  std::string_view name;
  double neutral;
  double min;
  double max;
  bool min_open = false;
};

constexpr NeutralNumber kNumbers[] = {
    {"presence_penalty", 0.0, -2.0, 2.0},
    {"frequency_penalty", 0.0, -2.0, 2.0},
    {"repetition_penalty", 1.0, 0.0, 10.0, /*min_open=*/true},
    {"typical_p", 1.0, 0.0, 1.0},
    {"length_penalty", 1.0, -10.0, 10.0},
};

struct NeutralBool {
  std::string_view name;
  bool neutral;
};

constexpr NeutralBool kBools[] = {
    {"use_beam_search", false},
    {"spaces_between_special_tokens", true},
    {"return_tokens_as_token_ids", false},
};

// Refused as soon as they are there, whatever they say.
constexpr std::string_view kAlways[] = {
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "prompt_embeds",
    "multi_modal_data",
    "image_url",
    "audio",
    "logprob_token_ids",
    "repetition_detection",
    "kv_transfer_params",
    "thinking_token_budget",
};
// On /v1/completions, where there is no conversation.
constexpr std::string_view kAlwaysOfCompletions[] = {
    "chat_template",
    "chat_template_kwargs",
    "functions",
    "function_call",
};

std::string Quoted(std::string_view name) { return absl::StrCat("'", std::string(name), "'"); }

void RefuseLogitBias(ObjectReader* request, const RequestContext& context) {
  const JsonView bias = request->Raw("logit_bias");
  if (!bias.valid()) return;
  if (!bias.is_object()) return request->Fail("logit_bias", "'logit_bias' must be an object.", "invalid_type");
  if (bias.size() > static_cast<uint32_t>(context.limits.logit_bias_max)) {
    return request->Fail("logit_bias",
                         absl::StrCat("'logit_bias' must have at most ", context.limits.logit_bias_max, " members."));
  }
  bool neutral = true;
  for (JsonView member = bias.first(); member.valid(); member = member.next()) {
    const std::string_view key = member.key();
    int32_t id = -1;
    const std::from_chars_result parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0 || id >= context.vocab_size) {
      return request->Fail(
          "logit_bias", absl::StrCat("The names in 'logit_bias' must be token ids in [0, ", context.vocab_size, ")."),
          "token_id_out_of_range");
    }
    if (!member.is_number() || !(std::abs(member.number()) <= 100.0)) {
      return request->Fail("logit_bias", "The values in 'logit_bias' must be numbers in [-100, 100].");
    }
    neutral = neutral && member.number() == 0.0;
  }
  if (!neutral) request->FailUnsupported("logit_bias", "'logit_bias'");
}

void RefuseLists(ObjectReader* request, const RequestContext& context) {
  const std::vector<int32_t> allowed = request->TokenIds("allowed_token_ids", context.vocab_size, context.vocab_size);
  if (request->Has("allowed_token_ids") && allowed.empty()) {
    request->Fail("allowed_token_ids", "'allowed_token_ids' must not be empty.");
  }
  if (!allowed.empty()) request->FailUnsupported("allowed_token_ids", "'allowed_token_ids'");
  // vLLM's limit is 128 after tokenisation; the same number of words here.
  const std::vector<std::string> bad_words = request->Strings("bad_words", 128, context.limits.stop_bytes_max);
  if (!bad_words.empty()) request->FailUnsupported("bad_words", "'bad_words'");
}

void RefuseFormats(ObjectReader* request) {
  const JsonView format = request->Raw("response_format");
  if (format.valid()) {
    ObjectReader members = request->Object("response_format");
    const JsonView type = members.Raw("type");
    if (!type.is_string() || type.string() != "text") {
      request->FailUnsupported("response_format", "A 'response_format' other than {\"type\": \"text\"}");
    }
  }
  const JsonView side = request->Raw("truncation_side");
  if (side.valid() && !(side.is_string() && side.string() == "left")) {
    request->FailUnsupported("truncation_side", "A 'truncation_side' other than left");
  }
}

}  // namespace

void RefuseGenerationFields(ObjectReader* request, const RequestContext& context) {
  for (const NeutralNumber& field : kNumbers) {
    const double value = request->Number(field.name, field.neutral, field.min, field.max, field.min_open);
    if (value != field.neutral) request->FailUnsupported(field.name, Quoted(field.name));
  }
  for (const NeutralBool& field : kBools) {
    if (request->Bool(field.name, field.neutral) != field.neutral) {
      request->FailUnsupported(field.name, Quoted(field.name));
    }
  }
  if (request->OptionalInteger("prompt_logprobs", 0, context.limits.logprobs_max).has_value()) {
    request->FailUnsupported("prompt_logprobs", "'prompt_logprobs'");
  }
  RefuseLogitBias(request, context);
  RefuseLists(request, context);
  RefuseFormats(request);
  for (const std::string_view name : kAlways) {
    if (request->Has(name)) request->FailUnsupported(name, Quoted(name));
  }
}

void RefuseCompletionFields(ObjectReader* request) {
  const JsonView tools = request->Raw("tools");
  if (tools.valid() && !(tools.is_array() && tools.size() == 0)) request->FailUnsupported("tools", "'tools'");
  const JsonView choice = request->Raw("tool_choice");
  if (choice.valid() && !(choice.is_string() && (choice.string() == "none" || choice.string() == "auto"))) {
    request->FailUnsupported("tool_choice", "A 'tool_choice' other than none or auto");
  }
  const JsonView suffix = request->Raw("suffix");
  if (suffix.valid() && !(suffix.is_string() && suffix.string().empty())) {
    request->FailUnsupported("suffix", "'suffix'");
  }
  for (const std::string_view name : kAlwaysOfCompletions) {
    if (request->Has(name)) request->FailUnsupported(name, Quoted(name));
  }
}

}  // namespace hydrant
