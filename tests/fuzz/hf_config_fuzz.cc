// A config.json is refused in one line, or its numbers are such that shapes can be computed from them.
#include <string>
#include <vector>

#include "model/checkpoint/hf_config.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {

void Fuzz(std::string_view input) {
  const auto document = JsonDocument::Parse(input, {20'000, 64}, "config.json");
  if (!document.ok()) return;
  std::vector<std::string> warnings;
  const JsonValue root = document->root();
  // The same text as generation_config.json too: it has fields of its own in every mutation.
  for (const JsonValue* generation : {static_cast<const JsonValue*>(nullptr), &root}) {
    const auto config = ReadHfConfig(root, generation, warnings);
    if (!config.ok()) {
      Require(config.status().message().find('\n') == absl::string_view::npos, "a refusal is one line");
      continue;
    }
    const ModelConfig& model = config->config;
    Require(model.vocab > 0 && model.hidden > 0 && model.layers > 0, "extents are positive");
    const HfQuantization& quantization = config->quantization;
    Require(quantization.bits == 4 || quantization.bits == 8, "codes have 4 bits or 8");
    Require(quantization.group_cols >= 0 && quantization.group_rows >= 0, "groups have extents");
    Require((quantization.packing == HfPacking::kNone) == (quantization.method == Quantization::kNone),
            "who is quantised has a method");
    const GenerationDefaults& defaults = config->generation_defaults;
    for (const double value : {defaults.temperature, defaults.top_p, defaults.min_p, defaults.repetition_penalty}) {
      Require(value == -1 || (value >= 0 && value <= 1e6), "a default is unset or in its range");
    }
    Require(model.bos_id >= -1 && model.bos_id < model.vocab, "the BOS is in the vocabulary");
    for (const int32_t eos : model.eos_ids) Require(eos >= 0 && eos < model.vocab, "an EOS is in the vocabulary");
  }
}

}  // namespace hydrant
