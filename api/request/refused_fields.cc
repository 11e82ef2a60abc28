#include "api/request/refused_fields.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

using enum NeutralValue;

// A number that may only have its neutral value. The range is that of the finished feature.
struct NeutralNumber {
  std::string_view name;
  double neutral;
  double min;
  double max;
};

constexpr NeutralNumber kNumbers[] = {
    {"typical_p", 1.0, 0.0, 1.0},
    {"length_penalty", 1.0, -10.0, 10.0},
};

struct NeutralBool {
  std::string_view name;
  bool neutral;
};

constexpr NeutralBool kBools[] = {
    {"return_token_strs", false},
    {"use_beam_search", false},
};

// Refused as soon as they are there, whatever they say.
constexpr std::string_view kAlways[] = {
    "prompt_embeds",
    "multi_modal_data",
    "image_url",
    "audio",
    "logprob_token_ids",
    "repetition_detection",
    "kv_transfer_params",
    "thinking_token_budget",
    // Those of endpoints that generate nothing.
    "dimensions",
    "encoding_format",
    "pooling",
    "tokens",
};
// On /v1/completions, where there is no conversation.
constexpr std::string_view kAlwaysOfCompletions[] = {
    "chat_template", "enable_thinking", "chat_template_kwargs", "functions", "function_call",
};

// On /v1/chat/completions. `functions` and `function_call` are what `tools` replaced.
constexpr std::string_view kAlwaysOfChats[] = {
    "chat_template", "functions", "function_call", "media_io_kwargs", "mm_processor_kwargs", "web_search_options",
};

// Fields of the other endpoints that have another name at these, or no place in their answers.
constexpr std::array<OtherField, 19> kOthersOfCompletions = {{
    {"add_generation_prompt", "", kTrue},
    {"context_management", "", kEmpty},
    {"continue_final_message", "", kFalse},
    {"conversation", "session_id"},
    {"documents", "prompt", kEmpty},
    {"include", "logprobs", kEmpty},
    {"include_reasoning", "", kTrue},
    {"input", "prompt"},
    {"instructions", "prompt"},
    {"max_output_tokens", "max_tokens"},
    {"max_tool_calls", ""},
    {"messages", "prompt"},
    {"parallel_tool_calls", "", kTrue},
    {"previous_response_id", "session_id"},
    {"reasoning_effort", ""},
    {"separate_reasoning", "", kTrue},
    {"system", "prompt"},
    {"top_logprobs", "logprobs", kZero},
    {"truncation", "truncate_prompt_tokens", kDisabled},
}};
constexpr std::array<OtherField, 11> kOthersOfChats = {{
    {"context_management", "", kEmpty},
    {"conversation", "session_id"},
    {"include", "logprobs", kEmpty},
    {"input", "messages"},
    {"instructions", "messages[0].role: system"},
    {"max_output_tokens", "max_tokens"},
    {"max_tool_calls", ""},
    {"previous_response_id", "session_id"},
    {"prompt", "messages"},
    {"system", "messages[0].role: system"},
    {"truncation", "truncate_prompt_tokens", kDisabled},
}};

void RefuseTruncationSide(ObjectReader* request) {
  const JsonView side = request->Raw("truncation_side");
  if (side.valid() && !(side.is_string() && side.string() == "left")) {
    request->FailUnsupported("truncation_side", "A 'truncation_side' other than left");
  }
}

}  // namespace

std::string QuotedField(std::string_view name) { return absl::StrCat("'", std::string(name), "'"); }

void RefuseGenerationFields(ObjectReader* request, std::span<const std::string_view> own) {
  const ObjectReader::Unlogged unlogged(request);
  for (const NeutralNumber& field : kNumbers) {
    const double value = request->Number(field.name, field.neutral, field.min, field.max);
    if (value != field.neutral) request->FailUnsupported(field.name, QuotedField(field.name));
  }
  for (const NeutralBool& field : kBools) {
    if (request->Bool(field.name, field.neutral) != field.neutral) {
      request->FailUnsupported(field.name, QuotedField(field.name));
    }
  }
  for (const std::string_view name : {"output_config", "text"}) {
    if (request->Has(name) && std::find(own.begin(), own.end(), name) == own.end()) {
      request->Object(name).RefuseOthers({"format"});
    }
  }
  RefuseTruncationSide(request);
  for (const std::string_view name : kAlways) {
    if (request->Has(name)) request->FailUnsupported(name, QuotedField(name));
  }
  RefuseForeignFields(request, own);
}

void RefuseCompletionFields(ObjectReader* request) {
  const ObjectReader::Unlogged unlogged(request);
  RefuseOtherFields(request, "/v1/completions", kOthersOfCompletions);
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
    if (request->Has(name)) request->FailUnsupported(name, QuotedField(name));
  }
}

void RefuseOtherFields(ObjectReader* request, std::string_view endpoint, std::span<const OtherField> fields) {
  const ObjectReader::Unlogged unlogged(request);
  for (const OtherField& field : fields) {
    const JsonView value = request->Raw(field.name);
    if (value.absent() || IsNeutral(field.neutral, value)) continue;
    const std::string name = QuotedField(field.name), path(endpoint);
    if (field.instead.empty()) return request->FailUnsupported(field.name, absl::StrCat(name, " on ", path));
    return request->Fail(field.name,
                         absl::StrCat(name, " is not a field of ", path, ": use ", QuotedField(field.instead), "."),
                         "unsupported");
  }
}

void RefuseChatFields(ObjectReader* request) {
  const ObjectReader::Unlogged unlogged(request);
  RefuseOtherFields(request, "/v1/chat/completions", kOthersOfChats);
  for (const std::string_view name : kAlwaysOfChats) {
    if (request->Has(name)) request->FailUnsupported(name, QuotedField(name));
  }
  const JsonView modalities = request->Raw("modalities");
  if (modalities.valid() && !modalities.is_array()) {
    return request->Fail("modalities", "'modalities' must be an array.", "invalid_type");
  }
  for (JsonView one = modalities.is_array() ? modalities.first() : JsonView(); one.valid(); one = one.next()) {
    if (!one.is_string() || one.string() != "text")
      request->FailUnsupported("modalities", "A modality other than text");
  }
}

}  // namespace hydrant
