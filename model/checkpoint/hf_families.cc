#include "model/checkpoint/hf_families.h"

#include <array>

namespace hydrant {
namespace {

constexpr auto kLlamaNames = std::to_array<TensorName>({
    {TensorRole::kEmbedding, Presence::kRequired, "model.embed_tokens.weight"},
    {TensorRole::kHead, Presence::kUnlessTied, "lm_head.weight"},
    {TensorRole::kFinalNorm, Presence::kRequired, "model.norm.weight"},
    {TensorRole::kAttentionNorm, Presence::kRequired, "model.layers.#.input_layernorm.weight"},
    {TensorRole::kQ, Presence::kRequired, "model.layers.#.self_attn.q_proj.weight"},
    {TensorRole::kQBias, Presence::kAttentionBias, "model.layers.#.self_attn.q_proj.bias"},
    {TensorRole::kK, Presence::kRequired, "model.layers.#.self_attn.k_proj.weight"},
    {TensorRole::kKBias, Presence::kAttentionBias, "model.layers.#.self_attn.k_proj.bias"},
    {TensorRole::kV, Presence::kRequired, "model.layers.#.self_attn.v_proj.weight"},
    {TensorRole::kVBias, Presence::kAttentionBias, "model.layers.#.self_attn.v_proj.bias"},
    {TensorRole::kO, Presence::kRequired, "model.layers.#.self_attn.o_proj.weight"},
    {TensorRole::kOBias, Presence::kAttentionBias, "model.layers.#.self_attn.o_proj.bias"},
    {TensorRole::kMlpNorm, Presence::kRequired, "model.layers.#.post_attention_layernorm.weight"},
    {TensorRole::kGate, Presence::kRequired, "model.layers.#.mlp.gate_proj.weight"},
    {TensorRole::kGateBias, Presence::kMlpBias, "model.layers.#.mlp.gate_proj.bias"},
    {TensorRole::kUp, Presence::kRequired, "model.layers.#.mlp.up_proj.weight"},
    {TensorRole::kUpBias, Presence::kMlpBias, "model.layers.#.mlp.up_proj.bias"},
    {TensorRole::kDown, Presence::kRequired, "model.layers.#.mlp.down_proj.weight"},
    {TensorRole::kDownBias, Presence::kMlpBias, "model.layers.#.mlp.down_proj.bias"},
});
// Old files store the rotary frequencies; a tied head may be stored all the same.
constexpr std::string_view kLlamaKnown[] = {"model.layers.#.self_attn.rotary_emb.inv_freq", "lm_head.weight"};

// No flag of theirs asks for biases of the MLP, nor in qwen2's case of attention's output.
constexpr auto kQwen2Names =
    WithChanges(kLlamaNames, {
                                 {TensorRole::kQBias, Presence::kRequired, "model.layers.#.self_attn.q_proj.bias"},
                                 {TensorRole::kKBias, Presence::kRequired, "model.layers.#.self_attn.k_proj.bias"},
                                 {TensorRole::kVBias, Presence::kRequired, "model.layers.#.self_attn.v_proj.bias"},
                             });

constexpr auto kQwen3Names =
    WithMore(kLlamaNames, {
                              {TensorRole::kQNorm, Presence::kRequired, "model.layers.#.self_attn.q_norm.weight"},
                              {TensorRole::kKNorm, Presence::kRequired, "model.layers.#.self_attn.k_norm.weight"},
                          });

// Older transformers wrote the experts one by one.
constexpr auto kQwen3MoeNames = WithExperts<6>(
    kQwen3Names, {
                     {TensorRole::kRouter, Presence::kRequired, "model.layers.#.mlp.gate.weight"},
                     {TensorRole::kExpertGate, Presence::kRequired, "model.layers.#.mlp.experts.@.gate_proj.weight",
                      Fusion::kNone, "model.layers.#.mlp.experts.gate_up_proj"},
                     {TensorRole::kExpertUp, Presence::kRequired, "model.layers.#.mlp.experts.@.up_proj.weight",
                      Fusion::kNone, "model.layers.#.mlp.experts.gate_up_proj"},
                     {TensorRole::kExpertDown, Presence::kRequired, "model.layers.#.mlp.experts.@.down_proj.weight",
                      Fusion::kNone, "model.layers.#.mlp.experts.down_proj"},
                 });

constexpr auto kMixtralNames = WithExperts<6>(
    kLlamaNames,
    {
        {TensorRole::kRouter, Presence::kRequired, "model.layers.#.block_sparse_moe.gate.weight", Fusion::kNone,
         "model.layers.#.mlp.gate.weight"},
        {TensorRole::kExpertGate, Presence::kRequired, "model.layers.#.block_sparse_moe.experts.@.w1.weight",
         Fusion::kNone, "model.layers.#.mlp.experts.gate_up_proj"},
        {TensorRole::kExpertUp, Presence::kRequired, "model.layers.#.block_sparse_moe.experts.@.w3.weight",
         Fusion::kNone, "model.layers.#.mlp.experts.gate_up_proj"},
        {TensorRole::kExpertDown, Presence::kRequired, "model.layers.#.block_sparse_moe.experts.@.w2.weight",
         Fusion::kNone, "model.layers.#.mlp.experts.down_proj"},
    });

constexpr auto kGemma3Names = WithMore(
    WithChanges(kQwen3Names,
                {{TensorRole::kMlpNorm, Presence::kRequired, "model.layers.#.pre_feedforward_layernorm.weight"}}),
    {
        {TensorRole::kAttentionOutNorm, Presence::kRequired, "model.layers.#.post_attention_layernorm.weight"},
        {TensorRole::kMlpOutNorm, Presence::kRequired, "model.layers.#.post_feedforward_layernorm.weight"},
    });

constexpr TensorName kOptNames[] = {
    {TensorRole::kEmbedding, Presence::kRequired, "model.decoder.embed_tokens.weight"},
    {TensorRole::kHead, Presence::kUnlessTied, "lm_head.weight"},
    {TensorRole::kPositions, Presence::kRequired, "model.decoder.embed_positions.weight"},
    {TensorRole::kProjectIn, Presence::kProjected, "model.decoder.project_in.weight"},
    {TensorRole::kProjectOut, Presence::kProjected, "model.decoder.project_out.weight"},
    {TensorRole::kFinalNorm, Presence::kFinalNorm, "model.decoder.final_layer_norm.weight"},
    {TensorRole::kFinalNormBias, Presence::kFinalNorm, "model.decoder.final_layer_norm.bias"},
    {TensorRole::kAttentionNorm, Presence::kAffineNorm, "model.decoder.layers.#.self_attn_layer_norm.weight"},
    {TensorRole::kAttentionNormBias, Presence::kAffineNorm, "model.decoder.layers.#.self_attn_layer_norm.bias"},
    {TensorRole::kQ, Presence::kRequired, "model.decoder.layers.#.self_attn.q_proj.weight"},
    {TensorRole::kQBias, Presence::kAttentionBias, "model.decoder.layers.#.self_attn.q_proj.bias"},
    {TensorRole::kK, Presence::kRequired, "model.decoder.layers.#.self_attn.k_proj.weight"},
    {TensorRole::kKBias, Presence::kAttentionBias, "model.decoder.layers.#.self_attn.k_proj.bias"},
    {TensorRole::kV, Presence::kRequired, "model.decoder.layers.#.self_attn.v_proj.weight"},
    {TensorRole::kVBias, Presence::kAttentionBias, "model.decoder.layers.#.self_attn.v_proj.bias"},
    {TensorRole::kO, Presence::kRequired, "model.decoder.layers.#.self_attn.out_proj.weight"},
    {TensorRole::kOBias, Presence::kAttentionBias, "model.decoder.layers.#.self_attn.out_proj.bias"},
    {TensorRole::kMlpNorm, Presence::kAffineNorm, "model.decoder.layers.#.final_layer_norm.weight"},
    {TensorRole::kMlpNormBias, Presence::kAffineNorm, "model.decoder.layers.#.final_layer_norm.bias"},
    {TensorRole::kUp, Presence::kRequired, "model.decoder.layers.#.fc1.weight"},
    {TensorRole::kUpBias, Presence::kMlpBias, "model.decoder.layers.#.fc1.bias"},
    {TensorRole::kDown, Presence::kRequired, "model.decoder.layers.#.fc2.weight"},
    {TensorRole::kDownBias, Presence::kMlpBias, "model.decoder.layers.#.fc2.bias"},
};
constexpr std::string_view kOptKnown[] = {"lm_head.weight"};

constexpr TensorName kNeoxNames[] = {
    {TensorRole::kEmbedding, Presence::kRequired, "gpt_neox.embed_in.weight"},
    {TensorRole::kHead, Presence::kUnlessTied, "embed_out.weight", Fusion::kNone, "lm_head.weight"},
    {TensorRole::kFinalNorm, Presence::kRequired, "gpt_neox.final_layer_norm.weight"},
    {TensorRole::kFinalNormBias, Presence::kRequired, "gpt_neox.final_layer_norm.bias"},
    {TensorRole::kAttentionNorm, Presence::kRequired, "gpt_neox.layers.#.input_layernorm.weight"},
    {TensorRole::kAttentionNormBias, Presence::kRequired, "gpt_neox.layers.#.input_layernorm.bias"},
    {TensorRole::kQ, Presence::kRequired, "gpt_neox.layers.#.attention.query_key_value.weight", Fusion::kPerHead},
    {TensorRole::kQBias, Presence::kAttentionBias, "gpt_neox.layers.#.attention.query_key_value.bias",
     Fusion::kPerHead},
    {TensorRole::kK, Presence::kRequired, "gpt_neox.layers.#.attention.query_key_value.weight", Fusion::kPerHead},
    {TensorRole::kKBias, Presence::kAttentionBias, "gpt_neox.layers.#.attention.query_key_value.bias",
     Fusion::kPerHead},
    {TensorRole::kV, Presence::kRequired, "gpt_neox.layers.#.attention.query_key_value.weight", Fusion::kPerHead},
    {TensorRole::kVBias, Presence::kAttentionBias, "gpt_neox.layers.#.attention.query_key_value.bias",
     Fusion::kPerHead},
    {TensorRole::kO, Presence::kRequired, "gpt_neox.layers.#.attention.dense.weight"},
    {TensorRole::kOBias, Presence::kAttentionBias, "gpt_neox.layers.#.attention.dense.bias"},
    {TensorRole::kMlpNorm, Presence::kRequired, "gpt_neox.layers.#.post_attention_layernorm.weight"},
    {TensorRole::kMlpNormBias, Presence::kRequired, "gpt_neox.layers.#.post_attention_layernorm.bias"},
    {TensorRole::kUp, Presence::kRequired, "gpt_neox.layers.#.mlp.dense_h_to_4h.weight"},
    {TensorRole::kUpBias, Presence::kRequired, "gpt_neox.layers.#.mlp.dense_h_to_4h.bias"},
    {TensorRole::kDown, Presence::kRequired, "gpt_neox.layers.#.mlp.dense_4h_to_h.weight"},
    {TensorRole::kDownBias, Presence::kRequired, "gpt_neox.layers.#.mlp.dense_4h_to_h.bias"},
};
// Old files store the causal mask and the rotary frequencies.
constexpr std::string_view kNeoxKnown[] = {
    "gpt_neox.layers.#.attention.bias", "gpt_neox.layers.#.attention.masked_bias",
    "gpt_neox.layers.#.attention.rotary_emb.inv_freq", "embed_out.weight", "lm_head.weight"};

// A plain MLP and LayerNorms instead of Llama's; one flag for all biases.
constexpr TensorName kStarcoder2Names[] = {
    {TensorRole::kEmbedding, Presence::kRequired, "model.embed_tokens.weight"},
    {TensorRole::kHead, Presence::kUnlessTied, "lm_head.weight"},
    {TensorRole::kFinalNorm, Presence::kRequired, "model.norm.weight"},
    {TensorRole::kFinalNormBias, Presence::kRequired, "model.norm.bias"},
    {TensorRole::kAttentionNorm, Presence::kRequired, "model.layers.#.input_layernorm.weight"},
    {TensorRole::kAttentionNormBias, Presence::kRequired, "model.layers.#.input_layernorm.bias"},
    {TensorRole::kQ, Presence::kRequired, "model.layers.#.self_attn.q_proj.weight"},
    {TensorRole::kQBias, Presence::kAttentionBias, "model.layers.#.self_attn.q_proj.bias"},
    {TensorRole::kK, Presence::kRequired, "model.layers.#.self_attn.k_proj.weight"},
    {TensorRole::kKBias, Presence::kAttentionBias, "model.layers.#.self_attn.k_proj.bias"},
    {TensorRole::kV, Presence::kRequired, "model.layers.#.self_attn.v_proj.weight"},
    {TensorRole::kVBias, Presence::kAttentionBias, "model.layers.#.self_attn.v_proj.bias"},
    {TensorRole::kO, Presence::kRequired, "model.layers.#.self_attn.o_proj.weight"},
    {TensorRole::kOBias, Presence::kAttentionBias, "model.layers.#.self_attn.o_proj.bias"},
    {TensorRole::kMlpNorm, Presence::kRequired, "model.layers.#.post_attention_layernorm.weight"},
    {TensorRole::kMlpNormBias, Presence::kRequired, "model.layers.#.post_attention_layernorm.bias"},
    {TensorRole::kUp, Presence::kRequired, "model.layers.#.mlp.c_fc.weight"},
    {TensorRole::kUpBias, Presence::kMlpBias, "model.layers.#.mlp.c_fc.bias"},
    {TensorRole::kDown, Presence::kRequired, "model.layers.#.mlp.c_proj.weight"},
    {TensorRole::kDownBias, Presence::kMlpBias, "model.layers.#.mlp.c_proj.bias"},
};

// Biases everywhere. A layer's experts are in one tensor, or in MXFP4 (mxfp4_tensors.h) each for itself.
constexpr std::string_view kGptOssGateUp = "model.layers.#.mlp.experts.gate_up_proj",
                           kGptOssGateUpOfOne = "model.layers.#.mlp.experts.@.gate_up_proj",
                           kGptOssGateUpBias = "model.layers.#.mlp.experts.gate_up_proj_bias";
constexpr auto kGptOssNames = WithExperts<6>(
    WithMore(kLlamaNames, {{TensorRole::kSinks, Presence::kRequired, "model.layers.#.self_attn.sinks"}}),
    {
        {TensorRole::kRouter, Presence::kRequired, "model.layers.#.mlp.router.weight"},
        {TensorRole::kRouterBias, Presence::kRequired, "model.layers.#.mlp.router.bias"},
        {TensorRole::kExpertGate, Presence::kRequired, kGptOssGateUp, Fusion::kInTurn, kGptOssGateUpOfOne},
        {TensorRole::kExpertGateBias, Presence::kRequired, kGptOssGateUpBias, Fusion::kInTurn},
        {TensorRole::kExpertUp, Presence::kRequired, kGptOssGateUp, Fusion::kInTurn, kGptOssGateUpOfOne},
        {TensorRole::kExpertUpBias, Presence::kRequired, kGptOssGateUpBias, Fusion::kInTurn},
        {TensorRole::kExpertDown, Presence::kRequired, "model.layers.#.mlp.experts.down_proj", Fusion::kNone,
         "model.layers.#.mlp.experts.@.down_proj"},
        {TensorRole::kExpertDownBias, Presence::kRequired, "model.layers.#.mlp.experts.down_proj_bias"},
    });

constexpr auto kGemma2Names = Without(kGemma3Names, {TensorRole::kQNorm, TensorRole::kKNorm});

// Norms of what layers add, and none of what they read.
constexpr auto kOlmo2Names = Without(kGemma3Names, {TensorRole::kAttentionNorm, TensorRole::kMlpNorm});

// Two tensors for five matrices.
constexpr auto kPhi3Names = WithChanges(
    Without(kLlamaNames, {TensorRole::kQBias, TensorRole::kKBias, TensorRole::kVBias, TensorRole::kOBias,
                          TensorRole::kGateBias, TensorRole::kUpBias, TensorRole::kDownBias}),
    {
        {TensorRole::kQ, Presence::kRequired, "model.layers.#.self_attn.qkv_proj.weight", Fusion::kStacked},
        {TensorRole::kK, Presence::kRequired, "model.layers.#.self_attn.qkv_proj.weight", Fusion::kStacked},
        {TensorRole::kV, Presence::kRequired, "model.layers.#.self_attn.qkv_proj.weight", Fusion::kStacked},
        {TensorRole::kGate, Presence::kRequired, "model.layers.#.mlp.gate_up_proj.weight", Fusion::kStacked},
        {TensorRole::kUp, Presence::kRequired, "model.layers.#.mlp.gate_up_proj.weight", Fusion::kStacked},
    });

constexpr ConfigFieldNames kLlamaFields{.hidden = "hidden_size",
                                        .layers = "num_hidden_layers",
                                        .query_heads = "num_attention_heads",
                                        .kv_heads = "num_key_value_heads",
                                        .head_dim = "head_dim",
                                        .ffn = "intermediate_size",
                                        .vocab = "vocab_size",
                                        .context = "max_position_embeddings",
                                        .norm_eps = "rms_norm_eps",
                                        .rope_dims = "partial_rotary_factor",
                                        .bos_id = "bos_token_id",
                                        .eos_id = "eos_token_id"};

constexpr ConfigFieldNames MixtralFields() {
  ConfigFieldNames fields = kLlamaFields;
  fields.experts = "num_local_experts";
  fields.experts_per_token = "num_experts_per_tok";
  return fields;
}

constexpr ConfigFieldNames Qwen3MoeFields() {
  ConfigFieldNames fields = MixtralFields();
  fields.ffn = "moe_intermediate_size";
  fields.experts = "num_experts";
  return fields;
}

// Heads are as many as the queries', and as wide as makes the layer's width.
constexpr ConfigFieldNames WithoutHeadFields(ConfigFieldNames fields) {
  fields.kv_heads = fields.head_dim = fields.query_heads;
  return fields;
}

constexpr ConfigFieldNames OptFields() {
  ConfigFieldNames fields = WithoutHeadFields(kLlamaFields);
  fields.ffn = "ffn_dim";
  fields.embedding_dim = "word_embed_proj_dim";
  return fields;
}

constexpr ConfigFieldNames NeoxFields() {
  ConfigFieldNames fields = WithoutHeadFields(kLlamaFields);
  fields.norm_eps = "layer_norm_eps";
  fields.rope_dims = "rotary_pct";
  return fields;
}

constexpr ConfigFieldNames Starcoder2Fields() {
  ConfigFieldNames fields = kLlamaFields;
  fields.norm_eps = "norm_epsilon";
  return fields;
}

// Models that say so read texts backwards, too.
constexpr std::string_view kGemmaRefused[] = {"use_bidirectional_attention"};
// No published model has the latter, and transformers does not look at it.
constexpr std::string_view kGemma3Refused[] = {"use_bidirectional_attention", "attn_logit_softcapping"};

// As the published models have them, and the kernels.
constexpr HfNumber kGptOssFixed[] = {{"swiglu_alpha", 1.702}, {"swiglu_limit", 7}};
static_assert(static_cast<float>(kGptOssFixed[0].value) == kSwishSlope && kGptOssFixed[1].value == kSwishLimit);

// No published model of the family has them, and transformers does not look at them.
constexpr std::string_view kPhi3Refused[] = {"attention_bias", "mlp_bias", "lm_head_bias"};

// Defaults are those of the configuration classes of transformers 5.23. The widths have defaults there, too, but nobody
// publishes a model without them, so they are asked for.
constexpr HfFamily kFamilies[] = {
    {.model_type = "llama",
     .naming = {.names = kLlamaNames, .known = kLlamaKnown, .prefix = "model."},
     .fields = kLlamaFields,
     .attention_bias = {"attention_bias"},
     .mlp_bias = {"mlp_bias"},
     .bos_id = 1,
     .eos_id = 2},
    {.model_type = "mistral",
     .naming = {.names = kLlamaNames, .known = kLlamaKnown, .prefix = "model."},
     .fields = kLlamaFields,
     .context = 131072,
     .kv_heads = 8,
     .has_window = true,
     .reads_layer_types = true,  // with which transformers takes it for a Ministral
     .window = 4096,
     .bos_id = 1,
     .eos_id = 2},
    {.model_type = "qwen2",
     .naming = {.names = kQwen2Names, .known = kLlamaKnown, .prefix = "model."},
     .fields = kLlamaFields,
     .context = 32768,
     .kv_heads = 32,
     .has_window = true,
     .window = 4096,
     .uses_window = {"use_sliding_window", false},
     .max_window_layers = 28},
    {.model_type = "qwen3",
     .naming = {.names = kQwen3Names, .known = kLlamaKnown, .prefix = "model."},
     .fields = kLlamaFields,
     .context = 32768,
     .kv_heads = 32,
     .head_dim = 128,
     .attention_bias = {"attention_bias"},
     .has_window = true,
     .window = 4096,
     .uses_window = {"use_sliding_window", false},
     .max_window_layers = 28},
    {.model_type = "qwen3_moe",
     .naming = {.names = kQwen3MoeNames, .known = kLlamaKnown, .prefix = "model."},
     .fields = Qwen3MoeFields(),
     .experts = 128,
     .experts_per_token = 8,
     .normalised_experts = {"norm_topk_prob", false},
     .context = 32768,
     .kv_heads = 4,
     .attention_bias = {"attention_bias"},
     .has_window = true,
     .window = 4096,
     .uses_window = {"use_sliding_window", false}},
    {.model_type = "mixtral",
     .naming = {.names = kMixtralNames, .known = kLlamaKnown, .prefix = "model."},
     .fields = MixtralFields(),
     .norm_eps = 1e-5,
     .experts = 8,
     .experts_per_token = 2,
     .normalised_experts = {"", true},
     .context = 131072,
     .kv_heads = 8,
     .theta = 1'000'000,
     .has_window = true,
     .bos_id = 1,
     .eos_id = 2},
    {.model_type = "gpt_oss",
     .naming = {.names = kGptOssNames, .known = kLlamaKnown, .transposed_experts = true, .prefix = "model."},
     .fields = MixtralFields(),
     .norm_eps = 1e-5,
     .clamps_gates = true,
     .experts = 128,
     .experts_per_token = 4,
     .normalised_experts = {"", true},
     .context = 131072,
     .kv_heads = 8,
     .head_dim = 64,
     .attention_bias = {"attention_bias", true},
     .theta = 150'000,
     .says_rotation = true,
     .has_window = true,
     .window_period = 2,
     .window = 128,
     .fixed = kGptOssFixed},
    {.model_type = "smollm3",
     .naming = {.names = kLlamaNames, .known = kLlamaKnown, .prefix = "model."},
     .fields = kLlamaFields,
     .context = 32768,
     .kv_heads = 4,
     .tied = {"tie_word_embeddings", true},
     .attention_bias = {"attention_bias"},
     .mlp_bias = {"mlp_bias"},
     .theta = 2'000'000,
     .unrotated_period = 4,
     .has_window = true,
     .uses_window = {"use_sliding_window", false},
     .bos_id = 128000,
     .eos_id = 128001},
    {.model_type = "olmo2",
     .naming = {.names = kOlmo2Names, .known = kLlamaKnown, .prefix = "model."},
     .fields = kLlamaFields,
     .norm_eps = 1e-5,
     .norm_place = NormPlace::kAfter,
     .norms_over_heads = true,
     .attention_bias = {"attention_bias"},
     .eos_id = 50279},
    // Rotation is stretched in layers without a window.
    {.model_type = "olmo3",
     .naming = {.names = kOlmo2Names, .known = kLlamaKnown, .prefix = "model."},
     .fields = kLlamaFields,
     .norm_eps = 1e-5,
     .norm_place = NormPlace::kAfter,
     .norms_over_heads = true,
     .attention_bias = {"attention_bias"},
     .theta = 500'000,
     .has_window = true,
     .window_period = 4,
     .windowed_theta_field = "rope_theta",
     .windowed_theta = 500'000,
     .window = 4096,
     .eos_id = 50279},
    {.model_type = "gemma2",
     .naming = {.names = kGemma2Names, .known = kLlamaKnown, .prefix = "model."},
     .fields = kLlamaFields,
     .norm_place = NormPlace::kBeforeAndAfter,
     .norm_offset = 1,
     .scales_embedding = true,
     .activation_field = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .context = 8192,
     .kv_heads = 4,
     .head_dim = 256,
     .tied = {"tie_word_embeddings", true},
     .attention_bias = {"attention_bias"},
     .attention_scalar_field = "query_pre_attn_scalar",
     .attention_scalar = 256,
     .attention_softcap = {"attn_logit_softcapping", 50},
     .final_softcap = {"final_logit_softcapping", 30},
     .has_window = true,
     .window_period = 2,
     .window = 4096,
     .refused = kGemmaRefused,
     .bos_id = 2,
     .eos_id = 1},
    // The language model alone. What sees images has another model_type, and its fields in an object of their own.
    {.model_type = "gemma3_text",
     .naming = {.names = kGemma3Names, .known = kLlamaKnown, .prefix = "model."},
     .fields = kLlamaFields,
     .norm_place = NormPlace::kBeforeAndAfter,
     .norm_offset = 1,
     .scales_embedding = true,
     .activation_field = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .context = 131072,
     .kv_heads = 4,
     .head_dim = 256,
     .tied = {"tie_word_embeddings", true},
     .attention_bias = {"attention_bias"},
     .theta = 1'000'000,
     .attention_scalar_field = "query_pre_attn_scalar",
     .attention_scalar = 256,
     .final_softcap = {"final_logit_softcapping"},
     .has_window = true,
     .window_period = 6,
     .windowed_theta_field = "rope_local_base_freq",
     .windowed_theta = 10'000,
     .window = 4096,
     .refused = kGemma3Refused,
     .bos_id = 2,
     .eos_id = 1},
    {.model_type = "phi3",
     .naming = {.names = kPhi3Names, .known = kLlamaKnown, .prefix = "model."},
     .fields = kLlamaFields,
     .norm_eps = 1e-5,
     .context = 4096,
     .has_window = true,
     .refused = kPhi3Refused,
     .bos_id = 1,
     .eos_id = 32000},
    // Its norms have PyTorch's own epsilon. Positions begin at row 2: the first two were the padding's.
    {.model_type = "opt",
     .naming = {.names = kOptNames, .known = kOptKnown, .prefix = "model."},
     .fields = OptFields(),
     .norm = NormKind::kLayer,
     .norm_eps = 1e-5,
     .reads_norm_eps = false,
     .gated = false,
     .activation_field = "activation_function",
     .activation = "relu",
     .reads_kv_heads = false,
     .reads_head_dim = false,
     .tied = {"tie_word_embeddings", true},
     .attention_bias = {"enable_bias", true},
     .mlp_bias = {"enable_bias", true},
     .pre_norm = {"do_layer_norm_before", true},
     .affine_norms = {"layer_norm_elementwise_affine", true},
     .without_final_norm = {"_remove_final_layer_norm", false},
     .embedding_dim_field = "word_embed_proj_dim",
     .position_offset = 2,
     .bos_id = 2,
     .eos_id = 2},
    {.model_type = "gpt_neox",
     .naming = {.names = kNeoxNames, .known = kNeoxKnown, .prefix = "gpt_neox."},
     .fields = NeoxFields(),
     .norm = NormKind::kLayer,
     .norm_eps = 1e-5,
     .gated = false,
     .activation = "gelu",
     .reads_kv_heads = false,
     .reads_head_dim = false,
     .attention_bias = {"attention_bias", true},
     .parallel_residual = {"use_parallel_residual", true},
     .theta_field = "rotary_emb_base",
     .rotated_share_field = "rotary_pct",
     .rotated_share = 0.25,
     .bos_id = 0,
     .eos_id = 2},
    {.model_type = "starcoder2",
     .naming = {.names = kStarcoder2Names, .known = kLlamaKnown, .prefix = "model."},
     .fields = Starcoder2Fields(),
     .norm = NormKind::kLayer,
     .norm_eps = 1e-5,
     .gated = false,
     .activation = "gelu_pytorch_tanh",
     .context = 4096,
     .kv_heads = 2,
     .tied = {"tie_word_embeddings", true},
     .attention_bias = {"use_bias", true},
     .mlp_bias = {"use_bias", true},
     .has_window = true,
     .bos_id = 50256,
     .eos_id = 50256},
};

}  // namespace

std::span<const HfFamily> HfFamilies() { return kFamilies; }

}  // namespace hydrant
