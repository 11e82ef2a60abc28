#include "tests/model/checkpoint/gguf_builder.h"

#include "model/text/utf8.h"

namespace hydrant {

std::vector<std::string> ByteAlphabet() {
  std::vector<std::string> alphabet;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    alphabet.emplace_back();
    AppendUtf8(itself ? byte : next++, alphabet.back());
  }
  return alphabet;
}

GgufBuilder TinyGguf() {
  GgufBuilder file;
  file.SetText("general.architecture", "llama")
      .Set("llama.embedding_length", 32)
      .Set("llama.block_count", 2)
      .Set("llama.attention.head_count", 4)
      .Set("llama.attention.head_count_kv", 2)
      .Set("llama.feed_forward_length", 64)
      .Set("llama.context_length", 128)
      .SetFloat("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .SetFloat("llama.rope.freq_base", 10000)
      .Set("llama.vocab_size", 258)
      .SetText("tokenizer.ggml.model", "gpt2")
      .SetText("tokenizer.ggml.pre", "gpt-2");
  std::vector<std::string> tokens = ByteAlphabet();
  std::vector<int32_t> types(256, 1);
  for (const char* special : {"<s>", "</s>"}) {
    tokens.push_back(special);
    types.push_back(3);
  }
  file.SetTexts("tokenizer.ggml.tokens", tokens)
      .SetInts("tokenizer.ggml.token_type", types)
      .SetTexts("tokenizer.ggml.merges", {})
      .Set("tokenizer.ggml.bos_token_id", 256)
      .Set("tokenizer.ggml.eos_token_id", 257)
      .SetText("tokenizer.chat_template", "{{ messages }}")
      .SetText("tokenizer.chat_template.tool_use", "{{ tools }}");
  file.AddF32("token_embd.weight", {32, 258}).AddF32("output_norm.weight", {32});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    file.AddF32(block + "attn_norm.weight", {32})
        .AddF32(block + "attn_q.weight", {32, 32})
        .AddF32(block + "attn_k.weight", {32, 16})
        .AddF32(block + "attn_v.weight", {32, 16})
        .AddF32(block + "attn_output.weight", {32, 32})
        .AddF32(block + "ffn_norm.weight", {32})
        .AddF32(block + "ffn_gate.weight", {32, 64})
        .AddF32(block + "ffn_up.weight", {32, 64})
        .AddF32(block + "ffn_down.weight", {64, 32});
  }
  return file;
}

}  // namespace hydrant
