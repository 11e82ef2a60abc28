#include "model/checkpoint/gguf_architecture.h"

#include <array>

namespace hydrant {
namespace {

// What llama, qwen2 and qwen3 have in common.
constexpr auto kGgufBaseNames = std::to_array<TensorName>({
    {TensorRole::kEmbedding, Presence::kRequired, "token_embd.weight"},
    {TensorRole::kHead, Presence::kUnlessTied, "output.weight"},
    {TensorRole::kFinalNorm, Presence::kRequired, "output_norm.weight"},
    {TensorRole::kAttentionNorm, Presence::kRequired, "blk.#.attn_norm.weight"},
    {TensorRole::kQ, Presence::kRequired, "blk.#.attn_q.weight"},
    {TensorRole::kQBias, Presence::kOptional, "blk.#.attn_q.bias"},
    {TensorRole::kK, Presence::kRequired, "blk.#.attn_k.weight"},
    {TensorRole::kKBias, Presence::kOptional, "blk.#.attn_k.bias"},
    {TensorRole::kV, Presence::kRequired, "blk.#.attn_v.weight"},
    {TensorRole::kVBias, Presence::kOptional, "blk.#.attn_v.bias"},
    {TensorRole::kO, Presence::kRequired, "blk.#.attn_output.weight"},
    {TensorRole::kOBias, Presence::kOptional, "blk.#.attn_output.bias"},
    {TensorRole::kMlpNorm, Presence::kRequired, "blk.#.ffn_norm.weight"},
    {TensorRole::kGate, Presence::kRequired, "blk.#.ffn_gate.weight"},
    {TensorRole::kUp, Presence::kRequired, "blk.#.ffn_up.weight"},
    {TensorRole::kDown, Presence::kRequired, "blk.#.ffn_down.weight"},
});

constexpr auto kGgufLlamaNames =
    WithMore(kGgufBaseNames, {
                                 {TensorRole::kGateBias, Presence::kOptional, "blk.#.ffn_gate.bias"},
                                 {TensorRole::kUpBias, Presence::kOptional, "blk.#.ffn_up.bias"},
                                 {TensorRole::kDownBias, Presence::kOptional, "blk.#.ffn_down.bias"},
                             });

constexpr auto kGgufQwen2Names =
    WithChanges(kGgufBaseNames, {
                                    {TensorRole::kQBias, Presence::kRequired, "blk.#.attn_q.bias"},
                                    {TensorRole::kKBias, Presence::kRequired, "blk.#.attn_k.bias"},
                                    {TensorRole::kVBias, Presence::kRequired, "blk.#.attn_v.bias"},
                                });

constexpr auto kGgufQwen3Names =
    WithMore(kGgufBaseNames, {
                                 {TensorRole::kQNorm, Presence::kRequired, "blk.#.attn_q_norm.weight"},
                                 {TensorRole::kKNorm, Presence::kRequired, "blk.#.attn_k_norm.weight"},
                             });

constexpr auto kGgufGemma3Names = WithMore(
    kGgufQwen3Names, {
                         {TensorRole::kAttentionOutNorm, Presence::kRequired, "blk.#.post_attention_norm.weight"},
                         {TensorRole::kMlpOutNorm, Presence::kRequired, "blk.#.post_ffw_norm.weight"},
                     });

// Old files have a tensor for each expert.
constexpr TensorName kExperts[] = {
    {TensorRole::kRouter, Presence::kRequired, "blk.#.ffn_gate_inp.weight"},
    {TensorRole::kExpertGate, Presence::kRequired, "blk.#.ffn_gate_exps.weight", Fusion::kNone,
     "blk.#.ffn_gate.@.weight"},
    {TensorRole::kExpertUp, Presence::kRequired, "blk.#.ffn_up_exps.weight", Fusion::kNone, "blk.#.ffn_up.@.weight"},
    {TensorRole::kExpertDown, Presence::kRequired, "blk.#.ffn_down_exps.weight", Fusion::kNone,
     "blk.#.ffn_down.@.weight"},
};
constexpr auto kGgufMixtralNames = WithExperts<3>(kGgufBaseNames, kExperts);
constexpr auto kGgufQwen3MoeNames = WithExperts<3>(kGgufQwen3Names, kExperts);

constexpr auto kGgufGptOssNames = WithExperts<3>(
    WithMore(WithChanges(kGgufBaseNames,
                         {
                             {TensorRole::kQBias, Presence::kRequired, "blk.#.attn_q.bias"},
                             {TensorRole::kKBias, Presence::kRequired, "blk.#.attn_k.bias"},
                             {TensorRole::kVBias, Presence::kRequired, "blk.#.attn_v.bias"},
                             {TensorRole::kOBias, Presence::kRequired, "blk.#.attn_output.bias"},
                             {TensorRole::kMlpNorm, Presence::kRequired, "blk.#.post_attention_norm.weight"},
                         }),
             {{TensorRole::kSinks, Presence::kRequired, "blk.#.attn_sinks.weight"}}),
    {
        {TensorRole::kRouter, Presence::kRequired, "blk.#.ffn_gate_inp.weight"},
        {TensorRole::kRouterBias, Presence::kRequired, "blk.#.ffn_gate_inp.bias"},
        {TensorRole::kExpertGate, Presence::kRequired, "blk.#.ffn_gate_exps.weight"},
        {TensorRole::kExpertGateBias, Presence::kRequired, "blk.#.ffn_gate_exps.bias"},
        {TensorRole::kExpertUp, Presence::kRequired, "blk.#.ffn_up_exps.weight"},
        {TensorRole::kExpertUpBias, Presence::kRequired, "blk.#.ffn_up_exps.bias"},
        {TensorRole::kExpertDown, Presence::kRequired, "blk.#.ffn_down_exps.weight"},
        {TensorRole::kExpertDownBias, Presence::kRequired, "blk.#.ffn_down_exps.bias"},
    });

constexpr auto kGgufGemma2Names = Without(kGgufGemma3Names, {TensorRole::kQNorm, TensorRole::kKNorm});

constexpr auto kGgufOlmo2Names = Without(kGgufGemma3Names, {TensorRole::kAttentionNorm, TensorRole::kMlpNorm});

constexpr auto kGgufPhi3Names = WithChanges(
    Without(kGgufBaseNames, {TensorRole::kQBias, TensorRole::kKBias, TensorRole::kVBias, TensorRole::kOBias}),
    {
        {TensorRole::kQ, Presence::kRequired, "blk.#.attn_qkv.weight", Fusion::kStacked},
        {TensorRole::kK, Presence::kRequired, "blk.#.attn_qkv.weight", Fusion::kStacked},
        {TensorRole::kV, Presence::kRequired, "blk.#.attn_qkv.weight", Fusion::kStacked},
        {TensorRole::kGate, Presence::kRequired, "blk.#.ffn_up.weight", Fusion::kStacked},
        {TensorRole::kUp, Presence::kRequired, "blk.#.ffn_up.weight", Fusion::kStacked},
    });

// The converter of llama.cpp sorts the rows of the fused tensor: q, k, v one after the other, not head by head.
constexpr TensorName kGgufNeoxNames[] = {
    {TensorRole::kEmbedding, Presence::kRequired, "token_embd.weight"},
    {TensorRole::kHead, Presence::kUnlessTied, "output.weight"},
    {TensorRole::kFinalNorm, Presence::kRequired, "output_norm.weight"},
    {TensorRole::kFinalNormBias, Presence::kRequired, "output_norm.bias"},
    {TensorRole::kAttentionNorm, Presence::kRequired, "blk.#.attn_norm.weight"},
    {TensorRole::kAttentionNormBias, Presence::kRequired, "blk.#.attn_norm.bias"},
    {TensorRole::kQ, Presence::kRequired, "blk.#.attn_qkv.weight", Fusion::kStacked},
    {TensorRole::kQBias, Presence::kOptional, "blk.#.attn_qkv.bias", Fusion::kStacked},
    {TensorRole::kK, Presence::kRequired, "blk.#.attn_qkv.weight", Fusion::kStacked},
    {TensorRole::kKBias, Presence::kOptional, "blk.#.attn_qkv.bias", Fusion::kStacked},
    {TensorRole::kV, Presence::kRequired, "blk.#.attn_qkv.weight", Fusion::kStacked},
    {TensorRole::kVBias, Presence::kOptional, "blk.#.attn_qkv.bias", Fusion::kStacked},
    {TensorRole::kO, Presence::kRequired, "blk.#.attn_output.weight"},
    {TensorRole::kOBias, Presence::kOptional, "blk.#.attn_output.bias"},
    {TensorRole::kMlpNorm, Presence::kRequired, "blk.#.ffn_norm.weight"},
    {TensorRole::kMlpNormBias, Presence::kRequired, "blk.#.ffn_norm.bias"},
    {TensorRole::kUp, Presence::kRequired, "blk.#.ffn_up.weight"},
    {TensorRole::kUpBias, Presence::kRequired, "blk.#.ffn_up.bias"},
    {TensorRole::kDown, Presence::kRequired, "blk.#.ffn_down.weight"},
    {TensorRole::kDownBias, Presence::kRequired, "blk.#.ffn_down.bias"},
};

constexpr TensorName kGgufStarcoder2Names[] = {
    {TensorRole::kEmbedding, Presence::kRequired, "token_embd.weight"},
    {TensorRole::kHead, Presence::kUnlessTied, "output.weight"},
    {TensorRole::kFinalNorm, Presence::kRequired, "output_norm.weight"},
    {TensorRole::kFinalNormBias, Presence::kRequired, "output_norm.bias"},
    {TensorRole::kAttentionNorm, Presence::kRequired, "blk.#.attn_norm.weight"},
    {TensorRole::kAttentionNormBias, Presence::kRequired, "blk.#.attn_norm.bias"},
    {TensorRole::kQ, Presence::kRequired, "blk.#.attn_q.weight"},
    {TensorRole::kQBias, Presence::kOptional, "blk.#.attn_q.bias"},
    {TensorRole::kK, Presence::kRequired, "blk.#.attn_k.weight"},
    {TensorRole::kKBias, Presence::kOptional, "blk.#.attn_k.bias"},
    {TensorRole::kV, Presence::kRequired, "blk.#.attn_v.weight"},
    {TensorRole::kVBias, Presence::kOptional, "blk.#.attn_v.bias"},
    {TensorRole::kO, Presence::kRequired, "blk.#.attn_output.weight"},
    {TensorRole::kOBias, Presence::kOptional, "blk.#.attn_output.bias"},
    {TensorRole::kMlpNorm, Presence::kRequired, "blk.#.ffn_norm.weight"},
    {TensorRole::kMlpNormBias, Presence::kRequired, "blk.#.ffn_norm.bias"},
    {TensorRole::kUp, Presence::kRequired, "blk.#.ffn_up.weight"},
    {TensorRole::kUpBias, Presence::kOptional, "blk.#.ffn_up.bias"},
    {TensorRole::kDown, Presence::kRequired, "blk.#.ffn_down.weight"},
    {TensorRole::kDownBias, Presence::kOptional, "blk.#.ffn_down.bias"},
};

constexpr std::string_view kKnown[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight",
                                       "blk.#.attn_rot_embd"};

constexpr std::string_view kRmsEps = ".attention.layer_norm_rms_epsilon";

// Mistral's and Mixtral's files call themselves llama. No key says which GELU a GPT-NeoX has: it is the exact one, as in the config.json of
// every Pythia.
constexpr GgufArchitecture kArchitectures[] = {
    {.name = "llama",
     .naming = {.names = kGgufLlamaNames, .known = kKnown, .interleaved_qk = true},
     .experts_naming = {.names = kGgufMixtralNames, .known = kKnown, .interleaved_qk = true},
     .norm_eps_key = kRmsEps},
    {.name = "qwen2", .naming = {.names = kGgufQwen2Names, .known = kKnown}, .norm_eps_key = kRmsEps},
    {.name = "qwen3", .naming = {.names = kGgufQwen3Names, .known = kKnown}, .norm_eps_key = kRmsEps},
    {.name = "qwen3moe", .experts_naming = {.names = kGgufQwen3MoeNames, .known = kKnown}, .norm_eps_key = kRmsEps},
    // No key says that its YaRN rounds nothing, nor how its gates are clamped.
    {.name = "gpt-oss",
     .experts_naming = {.names = kGgufGptOssNames, .known = kKnown},
     .norm_eps_key = kRmsEps,
     .activation = Activation::kClampedSwish,
     .rounds_yarn = false,
     .window_period = 2,
     .window = 128},
    // No key says which layers are not rotated.
    {.name = "smollm3",
     .naming = {.names = kGgufLlamaNames, .known = kKnown, .interleaved_qk = true},
     .norm_eps_key = kRmsEps,
     .unrotated_period = 4},
    // OLMo 3 calls itself so, too: it has windows.
    {.name = "olmo2",
     .naming = {.names = kGgufOlmo2Names, .known = kKnown},
     .norm_eps_key = kRmsEps,
     .norm_place = NormPlace::kAfter,
     .norms_over_heads = true,
     .window_period = 4,
     .windowed_rope = true},
    // The converter has added 1 to the weights of its norms, and of Gemma 3's. 46 and 62 layers: those of 27B.
    {.name = "gemma2",
     .naming = {.names = kGgufGemma2Names, .known = kKnown},
     .norm_eps_key = kRmsEps,
     .activation = Activation::kGeluTanh,
     .norm_place = NormPlace::kBeforeAndAfter,
     .scales_embedding = true,
     .window_period = 2,
     .window = 4096,
     .attention_softcap = 50,
     .final_softcap = 30,
     .layers_scaled_by_width = 46},
    {.name = "gemma3",
     .naming = {.names = kGgufGemma3Names, .known = kKnown},
     .norm_eps_key = kRmsEps,
     .activation = Activation::kGeluTanh,
     .norm_place = NormPlace::kBeforeAndAfter,
     .scales_embedding = true,
     .window_period = 6,
     .windowed_rope = true,
     .windowed_theta = 10'000,
     .layers_scaled_by_width = 62},
    {.name = "phi3", .naming = {.names = kGgufPhi3Names, .known = kKnown}, .norm_eps_key = kRmsEps},
    {.name = "gptneox",
     .naming = {.names = kGgufNeoxNames, .known = kKnown},
     .norm = NormKind::kLayer,
     .norm_eps_key = ".attention.layer_norm_epsilon",
     .activation = Activation::kGelu,
     .gated = false,
     .says_parallel = true},
    {.name = "starcoder2",
     .naming = {.names = kGgufStarcoder2Names, .known = kKnown},
     .norm = NormKind::kLayer,
     .norm_eps_key = ".attention.layer_norm_epsilon",
     .activation = Activation::kGeluTanh,
     .gated = false},
};

}  // namespace

std::span<const GgufArchitecture> GgufArchitectures() { return kArchitectures; }

}  // namespace hydrant
