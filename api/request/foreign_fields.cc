#include "api/request/foreign_fields.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

using enum NeutralValue;

// Names and neutral values are those of the servers' own references; where a default there asks for nothing it is neutral here.
// clang-format off
constexpr ForeignField kFields[] = {
    {"bad_words_ids", "Hugging Face", kNone, "bad_words"},
    {"begin_suppress_tokens", "Hugging Face", kEmpty, "logit_bias"},
    {"diversity_penalty", "Hugging Face", kZero, ""},
    {"do_sample", "Hugging Face", kTrue, "temperature"},
    {"early_stopping", "Hugging Face", kFalse, ""},
    {"encoder_repetition_penalty", "Hugging Face", kOne, ""},
    {"eos_token_id", "Hugging Face", kNone, "stop_token_ids"},
    {"epsilon_cutoff", "Hugging Face", kZero, ""},
    {"eta_cutoff", "Hugging Face", kZero, ""},
    {"exponential_decay_length_penalty", "Hugging Face", kNone, ""},
    {"force_words_ids", "Hugging Face", kNone, ""},
    {"forced_bos_token_id", "Hugging Face", kNone, ""},
    {"forced_eos_token_id", "Hugging Face", kNone, ""},
    {"guidance_scale", "Hugging Face", kOne, ""},
    {"max_length", "Hugging Face", kNone, "max_tokens"},
    {"max_new_tokens", "Hugging Face", kNone, "max_tokens"},
    {"max_time", "Hugging Face", kNone, ""},
    {"min_length", "Hugging Face", kZero, "min_tokens"},
    {"min_new_tokens", "Hugging Face", kZero, "min_tokens"},
    {"negative_prompt", "Hugging Face", kEmpty, ""},
    {"no_repeat_ngram_size", "Hugging Face", kZero, ""},
    {"num_beams", "Hugging Face", kOne, ""},
    {"num_return_sequences", "Hugging Face", kOne, "n"},
    {"pad_token_id", "Hugging Face", kAny, "prompts are never padded"},
    {"penalty_alpha", "Hugging Face", kZero, ""},
    {"sequence_bias", "Hugging Face", kEmpty, "logit_bias"},
    {"suppress_tokens", "Hugging Face", kEmpty, "logit_bias"},
    {"use_cache", "Hugging Face", kAny, "the KV cache is always used"},
    {"adaptive_decay", "llama.cpp", kAny, "works with `adaptive_target` alone"},
    {"adaptive_target", "llama.cpp", kMinusOne, ""},
    {"cache_prompt", "llama.cpp", kAny, "an answer that is the same each time is so with reuse and without"},
    {"dry_allowed_length", "llama.cpp", kAny, "works with `dry_multiplier` alone"},
    {"dry_base", "llama.cpp", kAny, "works with `dry_multiplier` alone"},
    {"dry_multiplier", "llama.cpp", kZero, ""},
    {"dry_penalty_last_n", "llama.cpp", kAny, "works with `dry_multiplier` alone"},
    {"dry_sequence_breakers", "llama.cpp", kAny, "works with `dry_multiplier` alone"},
    {"dynatemp_exponent", "llama.cpp", kAny, "works with `dynatemp_range` alone"},
    {"dynatemp_range", "llama.cpp", kZero, ""},
    {"generation_prompt", "llama.cpp", kEmpty, ""},
    {"grammar_lazy", "llama.cpp", kFalse, ""},
    {"id_slot", "llama.cpp", kAny, "sessions keep KV, by `session_id`"},
    {"image_data", "llama.cpp", kEmpty, ""},
    {"input_prefix", "llama.cpp", kEmpty, ""},
    {"input_suffix", "llama.cpp", kEmpty, ""},
    {"lora", "llama.cpp", kEmpty, ""},
    {"min_keep", "llama.cpp", kZero, ""},
    {"mirostat", "llama.cpp", kZero, ""},
    {"mirostat_eta", "llama.cpp", kAny, "works with `mirostat` alone"},
    {"mirostat_tau", "llama.cpp", kAny, "works with `mirostat` alone"},
    {"n_cmpl", "llama.cpp", kOne, "n"},
    {"n_discard", "llama.cpp", kZero, ""},
    {"n_indent", "llama.cpp", kZero, ""},
    {"n_keep", "llama.cpp", kZero, "kv.policy"},
    {"n_predict", "llama.cpp", kNone, "max_tokens"},
    {"n_probs", "llama.cpp", kZero, "logprobs"},
    {"parse_tool_calls", "llama.cpp", kTrue, ""},
    {"penalize_nl", "llama.cpp", kFalse, ""},
    {"post_sampling_probs", "llama.cpp", kFalse, ""},
    {"reasoning_budget_tokens", "llama.cpp", kMinusOne, ""},
    {"repeat_last_n", "llama.cpp", kNone, ""},
    {"repeat_penalty", "llama.cpp", kOne, "repetition_penalty"},
    {"response_fields", "llama.cpp", kEmpty, ""},
    {"return_progress", "llama.cpp", kFalse, ""},
    {"return_tokens", "llama.cpp", kFalse, "return_token_ids"},
    {"samplers", "llama.cpp", kNone, ""},
    {"t_max_predict_ms", "llama.cpp", kZero, ""},
    {"t_max_prompt_ms", "llama.cpp", kZero, ""},
    {"tfs_z", "llama.cpp", kOne, ""},
    {"thinking_budget_tokens", "llama.cpp", kMinusOne, ""},
    {"timings_per_token", "llama.cpp", kFalse, "stream_options.continuous_usage_stats"},
    {"top_n_sigma", "llama.cpp", kMinusOne, ""},
    {"typ_p", "llama.cpp", kOne, ""},
    {"xtc_probability", "llama.cpp", kZero, ""},
    {"xtc_threshold", "llama.cpp", kAny, "works with `xtc_probability` alone"},
    {"context", "Ollama", kEmpty, "session_id"},
    {"format", "Ollama", kEmpty, ""},
    {"images", "Ollama", kEmpty, ""},
    {"keep_alive", "Ollama", kAny, "the model stays loaded"},
    {"num_ctx", "Ollama", kNone, ""},
    {"num_predict", "Ollama", kNone, "max_tokens"},
    {"options", "Ollama", kEmpty, ""},
    {"raw", "Ollama", kFalse, ""},
    {"think", "Ollama", kFalse, ""},
    {"metadata", "OpenAI", kAny, "labels for a store that is not here"},
    {"moderation", "OpenAI", kNone, ""},
    {"prediction", "OpenAI", kAny, "a hint for speed"},
    {"prompt_cache_key", "OpenAI", kAny, "names a chat whose KV is kept"},
    {"prompt_cache_retention", "OpenAI", kAny, "an answer that is the same each time is so with reuse and without"},
    {"safety_identifier", "OpenAI", kAny, "names an end user; limits here are per key"},
    {"service_tier", "OpenAI", kAny, "there is one tier; `priority` orders requests"},
    {"store", "OpenAI", kFalse, ""},
    {"verbosity", "OpenAI", kMedium, ""},
    {"custom_logit_processor", "SGLang", kNone, ""},
    {"custom_params", "SGLang", kEmpty, ""},
    {"data_parallel_rank", "SGLang", kAny, "there is one replica behind a port"},
    {"input_embeds", "SGLang", kNone, ""},
    {"lora_path", "SGLang", kNone, ""},
    {"no_stop_trim", "SGLang", kFalse, "include_stop_str_in_output"},
    {"return_hidden_states", "SGLang", kFalse, ""},
    {"return_logprob", "SGLang", kFalse, "logprobs"},
    {"rid", "SGLang", kAny, "`request_id` names a request"},
    {"sampling_params", "SGLang", kEmpty, ""},
    {"sampling_seed", "SGLang", kNone, "seed"},
    {"session_params", "SGLang", kEmpty, "session_id"},
    {"stop_regex", "SGLang", kNone, "stop"},
    {"stream_reasoning", "SGLang", kAny, "text streams as it comes"},
    {"top_logprobs_num", "SGLang", kZero, "logprobs"},
    {"adapter_id", "TGI", kNone, ""},
    {"decoder_input_details", "TGI", kFalse, "prompt_logprobs"},
    {"details", "TGI", kFalse, ""},
    {"inputs", "TGI", kNone, "prompt"},
    {"parameters", "TGI", kNone, ""},
    {"return_full_text", "TGI", kFalse, "echo"},
    {"stop_sequences", "TGI", kEmpty, "stop"},
    {"top_n_tokens", "TGI", kZero, "logprobs"},
    {"truncate", "TGI", kNone, "truncate_prompt_tokens"},
    {"watermark", "TGI", kFalse, ""},
    {"chat_template_content_format", "vLLM", kNone, ""},
    {"ec_transfer_params", "vLLM", kNone, ""},
    {"logits_processors", "vLLM", kEmpty, ""},
    {"reasoning", "vLLM", kNone, "reasoning_effort"},
    {"reasoning_format", "vLLM", kNone, ""},
    {"return_prompt_text", "vLLM", kFalse, ""},
    {"smoothing_factor", "vLLM", kZero, ""},
    {"tfs", "vLLM", kOne, ""},
    {"thinking", "vLLM", kNone, ""},
    {"top_a", "vLLM", kZero, ""},
    {"watermarking", "vLLM", kFalse, ""},
};
// clang-format on

bool IsNumber(JsonView value, double number) { return value.is_number() && value.number() == number; }

}  // namespace

std::span<const ForeignField> ForeignFields() { return kFields; }

bool IsNeutral(NeutralValue neutral, JsonView value) {
  switch (neutral) {
    case kNone:
      return false;
    case kZero:
      return IsNumber(value, 0.0) || (value.is_bool() && !value.boolean());
    case kOne:
      return IsNumber(value, 1.0);
    case kMinusOne:
      return IsNumber(value, -1.0);
    case kFalse:
      return value.is_bool() && !value.boolean();
    case kTrue:
      return value.is_bool() && value.boolean();
    case kEmpty:
      return (value.is_string() && value.string().empty()) ||
             ((value.is_array() || value.is_object()) && value.size() == 0);
    case kMedium:
      return value.is_string() && value.string() == "medium";
    case kDisabled:
      return value.is_string() && value.string() == "disabled";
    case kAny:
      return true;
  }
  return false;
}

void RefuseForeignFields(ObjectReader* request, std::span<const std::string_view> own) {
  for (const ForeignField& field : kFields) {
    if (std::find(own.begin(), own.end(), field.name) != own.end()) continue;
    const JsonView value = request->Raw(field.name);
    if (!value.valid() || IsNeutral(field.neutral, value)) continue;
    const std::string what = absl::StrCat("'", std::string(field.name), "' (", std::string(field.origin), ")");
    if (field.note.empty()) return request->FailUnsupported(field.name, what);
    return request->Fail(field.name,
                         absl::StrCat(what, " is not a field of this server: use '", std::string(field.note), "'."),
                         "unsupported");
  }
}

}  // namespace hydrant
