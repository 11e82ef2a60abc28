"""Makes families/*.json: for a tiny model of every supported family its config.json, the names and shapes of its tensors, and
what transformers answers. README.md says what the files hold.

The weights are not stored: `value` below is a formula that tests/model/checkpoint/family_checkpoint.cc knows, too. Evictions are judged by
the H2O of llama_oracle.py, with the layers of transformers around it.
"""

import argparse
import itertools
import json
import math
import pathlib
import tempfile

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import llama_oracle as oracle
from make_llama_goldens import logit_gap, rounded, transformers_greedy, write_json

HERE = pathlib.Path(__file__).resolve().parent
VOCAB = 258  # every byte, <s>, </s>
SIZES = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, bos_token_id=256,
             eos_token_id=257, pad_token_id=None)  # fmt: skip
LLAMA = dict(model_type="llama", **SIZES, intermediate_size=48, max_position_embeddings=256, num_key_value_heads=2,
             rms_norm_eps=1e-5)  # fmt: skip
QWEN3 = {**LLAMA, "model_type": "qwen3", "head_dim": 16, "tie_word_embeddings": True}
OPT = dict(model_type="opt", **SIZES, ffn_dim=48, max_position_embeddings=256, do_layer_norm_before=True)
NEOX = dict(model_type="gpt_neox", **SIZES, intermediate_size=48, max_position_embeddings=256)


def rope(kind, **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=10000.0, **more))


GPT_OSS = {**LLAMA, "model_type": "gpt_oss", "intermediate_size": 64, "head_dim": 16, "sliding_window": 24,
           "num_local_experts": 6, "num_experts_per_tok": 3,
           **rope("yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=64),
           }  # fmt: skip

# What transformers is given. Families have all three storage types, their variants fp32.
CHECKPOINTS = {
    "llama": {**LLAMA, "num_key_value_heads": 4},
    "llama_linear": {**LLAMA, **rope("linear", factor=4.0), "tie_word_embeddings": True},
    "llama_dynamic": {**LLAMA, **rope("dynamic", factor=4.0)},
    "llama_llama3": {**LLAMA, **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                     original_max_position_embeddings=64)},
    "llama_yarn": {**LLAMA, **rope("yarn", factor=4.0, original_max_position_embeddings=64)},
    "llama_biases": {**LLAMA, "attention_bias": True, "mlp_bias": True, "eos_token_id": [255, 257]},
    # Every layer has a window.
    "mistral": {**LLAMA, "model_type": "mistral", "head_dim": 16, "sliding_window": 40},
    "qwen2": {**LLAMA, "model_type": "qwen2"},
    "qwen3": QWEN3,
    # Weights of a token's experts that add up to less than 1, and to 1.
    "qwen3_moe": {**QWEN3, "model_type": "qwen3_moe", "moe_intermediate_size": 24, "num_experts": 8,
                  "num_experts_per_tok": 3, "norm_topk_prob": False},
    "mixtral": {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
    "opt": OPT,
    "opt_post_norm": {**OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 16},
    "opt_plain": {**OPT, "enable_bias": False, "layer_norm_elementwise_affine": False, "activation_function": "gelu",
                  "tie_word_embeddings": False},
    "starcoder2": dict(model_type="starcoder2", **SIZES, intermediate_size=48, max_position_embeddings=256,
                       num_key_value_heads=2, sliding_window=None),
    # The last of four layers does not rotate. In the other one the first of two rotates, the second has a window instead.
    "smollm3": {**LLAMA, "model_type": "smollm3", "num_hidden_layers": 4},
    "smollm3_windows": {**LLAMA, "model_type": "smollm3", "no_rope_layers": [1, 0], "use_sliding_window": True,
                        "sliding_window": 24},
    "olmo2": {**LLAMA, "model_type": "olmo2"},
    # A windowed layer and a full one, which rotate differently.
    "olmo3": {**LLAMA, "model_type": "olmo3", "sliding_window": 24, "layer_types": ["sliding_attention", "full_attention"],
              "rope_parameters": dict(full_attention=dict(rope_type="yarn", factor=4.0, rope_theta=5e5,
                                                          original_max_position_embeddings=64),
                                      sliding_attention=dict(rope_type="default", rope_theta=5e5))},
    "gemma3_text": dict(
        model_type="gemma3_text", **SIZES, intermediate_size=48, max_position_embeddings=256, num_key_value_heads=2,
        head_dim=16, query_pre_attn_scalar=16, sliding_window=24, layer_types=["sliding_attention", "full_attention"],
        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=4.0, rope_theta=1e6),
                             sliding_attention=dict(rope_type="default", rope_theta=1e4))),
    # Caps that most logits feel.
    "gemma2": dict(
        model_type="gemma2", **SIZES, intermediate_size=48, max_position_embeddings=256, num_key_value_heads=2,
        head_dim=16, query_pre_attn_scalar=16, sliding_window=24, attn_logit_softcapping=4.0,
        final_logit_softcapping=6.0),
    # A windowed layer and a full one; gates that are clamped now and then, sinks beside and above the logits.
    "gpt_oss": GPT_OSS,
    # Its experts in MXFP4; transformers gets what its own code makes of them.
    "gpt_oss_mxfp4": {**GPT_OSS, "hidden_size": 64},
    # Every layer has a window, three quarters of a head are rotated.
    "phi3": {**LLAMA, "model_type": "phi3", "sliding_window": 40,
             "rope_parameters": dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.75)},
    "phi3_longrope": {**LLAMA, "model_type": "phi3", "original_max_position_embeddings": 64,
                      "rope_parameters": dict(rope_type="longrope", rope_theta=1e4, short_factor=[1.0, 1.02, 1.1, 1.3],
                                              long_factor=[1.1, 1.6, 3.0, 5.0])},
    "gpt_neox": {**NEOX, "rope_parameters": dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25)},
    "gpt_neox_serial": {**NEOX, "use_parallel_residual": False, "hidden_act": "gelu_fast",
                        "rope_parameters": dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)},
}  # fmt: skip
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
STORED_IN_ALL = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "opt", "opt_post_norm", "gpt_neox", "starcoder2",
                 "gemma3_text", "smollm3", "olmo2", "olmo3", "phi3", "gemma2", "gpt_oss")  # fmt: skip
# Preset, heavy, recent, prompt length, tokens.
H2O_CASES = [("h2o", 14, 2, 17, 32), ("h2o", 30, 2, 40, 32), ("snapkv", 14, 2, 100, 16)]
LOGIT_GAP_MIN, SCORE_MARGIN_MIN = 3e-3, 3e-5


def scale_and_shift(family, name, shape):
    """Of a tensor: values are shift + scale * [-1, 1). Attention is peaked, and the context decides what comes next."""
    if family.startswith("gemma") and "norm" in name:
        # Their weights are stored less 1. What layers add must outweigh the embedding, which is scaled up and is the head, too:
        # else a token is followed by itself.
        if "post_" in name:
            return 1.0, 5.0
        return (0.25, 1.0) if "q_norm" in name or "k_norm" in name else (0.25, 0.0)
    if "norm" in name:
        if name.endswith("bias"):
            return 0.25, 0.0
        return (0.25, 2.0) if "q_norm" in name or "k_norm" in name else (0.25, 1.0)
    if name.endswith("sinks"):
        return 2.0, 1.0
    if name.endswith("_blocks"):
        return 128.0, 128.0
    if name.endswith("_scales"):
        return 1.0, 124.0
    if name.endswith("gate_up_proj_bias"):
        return 4.0, 0.0
    if name.endswith("bias"):
        return 0.25, 0.0
    if "embed" in name or "lm_head" in name:
        return 0.5, 0.0
    gain = 6.0 if "q_proj" in name or "k_proj" in name else 4.0
    inputs = shape[-2] if ".experts." in name and len(shape) == 3 and family == "gpt_oss" else shape[-1]
    # A power of two, so that nothing is rounded but the stored value.
    return 2.0 ** round(math.log2(gain / math.sqrt(inputs))), 0.0


def values(name, count, scale, shift):
    """[count] float32: splitmix64 of FNV-1a(name) + index, its upper 24 bits as a fraction."""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(state) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    fraction = (z >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1.0
    return (shift + scale * fraction).astype(np.float32)


def skeleton(name, directory):
    """config.json as transformers writes it, and [[tensor, shape, scale, shift]]."""
    fields = dict(CHECKPOINTS[name])
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(fields.pop("model_type"), **fields))
    model.save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text())
    if name == "gpt_oss_mxfp4":
        return in_mxfp4(config, directory)
    tensors = []
    with safe_open(directory / "model.safetensors", "pt") as file:
        for tensor in sorted(file.keys()):
            shape = list(file.get_slice(tensor).get_shape())
            tensors.append([tensor, shape, *scale_and_shift(name, tensor, shape)])
    return config, tensors


def in_mxfp4(config, directory):
    """The same with experts in blocks of 32 codes of 4 bits, and a scale for each."""
    config["quantization_config"] = dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"])
    tensors = []
    with safe_open(directory / "model.safetensors", "pt") as file:
        for tensor in sorted(file.keys()):
            shape = list(file.get_slice(tensor).get_shape())
            if ".experts." in tensor and len(shape) == 3:
                blocks = [shape[0], shape[2], shape[1] // 32]
                for part, part_shape in ((tensor + "_blocks", [*blocks, 16]), (tensor + "_scales", blocks)):
                    tensors.append([part, part_shape, *scale_and_shift("gpt_oss_mxfp4", part, part_shape)])
            else:
                tensors.append([tensor, shape, *scale_and_shift("gpt_oss_mxfp4", tensor, shape)])
    return config, tensors


def fill(directory, tensors, dtype):
    filled, packed = {}, {}
    for tensor, shape, scale, shift in tensors:
        flat = torch.from_numpy(values(tensor, math.prod(shape), scale, shift))
        if tensor.endswith(("_blocks", "_scales")):
            packed[tensor] = flat.view(shape).floor().to(torch.uint8)
        else:
            filled[tensor] = flat.view(shape).to(dtype)
    for tensor in packed:
        if tensor.endswith("_blocks"):
            name = tensor.removesuffix("_blocks")
            filled[name] = convert_moe_packed_tensors(packed[tensor], packed[name + "_scales"], dtype=torch.float32).to(dtype)
    save_file(filled, directory / "model.safetensors", metadata={"format": "pt"})


def always_long(directory, config):
    """transformers takes the short factors until a text has outgrown them, then the long ones for what is not cached yet.
    What is served to the whole context takes the long ones from the start (decision 43)."""
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type") == "longrope":
        rope = {**rope, "short_factor": rope["long_factor"]}
        (directory / "config.json").write_text(json.dumps({**config, "rope_parameters": rope}))


def load(directory, dtype):
    return AutoModelForCausalLM.from_pretrained(directory, dtype=dtype, attn_implementation="eager",
                                                experts_implementation="eager").eval()


def greedy_goldens(directory, generated):
    models = [load(directory, dtype) for dtype in (torch.float32, torch.float64)]
    goldens = []
    for length in (1, 15, 16, 17, 100):
        for seed in itertools.count(1000 * length):
            ids = torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(seed)).tolist()
            (tokens32, _, _), (tokens, rows, prompt_rows) = (transformers_greedy(m, ids, generated) for m in models)
            if tokens == tokens32 and logit_gap(rows) >= LOGIT_GAP_MIN and len(set(tokens)) > generated // 4:
                break
        sampled, prompt = torch.log_softmax(rows, -1), torch.log_softmax(prompt_rows, -1)
        goldens.append({
            "prompt_ids": ids, "prompt_logprobs": short(prompt[i, ids[i + 1]].item() for i in range(length - 1)),
            "tokens": tokens, "logprobs": short(sampled[i, token].item() for i, token in enumerate(tokens)),
        })  # fmt: skip
    return goldens


def short(numbers):
    """5 digits behind the point: 200 times finer than the tolerance."""
    return [round(number, 5) for number in numbers]


class Stage:
    """The layers of a transformers model with somebody else's attention, in the shape that H2oSession drives."""

    def __init__(self, directory, dtype):
        self.dtype, self.model, self.next = dtype, load(directory, dtype), 0
        config = self.model.config
        self.model.set_attn_implementation("stage")
        self.layers, heads = config.num_hidden_layers, config.num_attention_heads
        self.kv_heads = getattr(config, "num_key_value_heads", None) or heads
        self.group = heads // self.kv_heads
        self.head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        base = self.model.base_model
        self.base = getattr(base, "decoder", base)
        self.rotary = getattr(self.base, "rotary_emb", None)
        # Where layers rotate differently, transformers asks which kind a layer is.
        kinds = getattr(config, "layer_types", None) if "sliding_attention" in (config.rope_parameters or {}) else None
        self.kind_of = [dict(layer_type=kind) for kind in kinds] if kinds else [{}] * self.layers
        self.kind = self.kind_of[0]
        self.rotates = [bool(flag) for flag in getattr(config, "no_rope_layers", None) or [True] * self.layers]
        self.turns = self.rotates[0]
        window = getattr(config, "sliding_window", None) or math.inf
        layer_kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * self.layers
        self.softcap = getattr(config, "attn_logit_softcapping", None)
        self.final_softcap = getattr(config, "final_logit_softcapping", None)
        self.windows = [window if kind == "sliding_attention" else math.inf for kind in layer_kinds]
        self.tensors = {"model.embed_tokens.weight": self.model.get_input_embeddings().weight}
        # Its angles are those of half a head.
        self.half_angles = config.model_type == "gpt_oss"

    def rotate(self, x, positions):
        if self.rotary is None or not self.turns:
            return x
        cos, sin = self.rotary(x, positions[None], **self.kind)
        if self.half_angles:
            cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
        dims = cos.shape[-1]
        first, second = x[..., :dims].chunk(2, -1)
        return torch.cat((x[..., :dims] * cos[0] + torch.cat((-second, first), -1) * sin[0], x[..., dims:]), -1)

    def layer(self, index, x, attend):
        self.kind, self.turns = self.kind_of[index], self.rotates[index]
        positions = torch.arange(self.next, self.next + len(x)) if index == 0 else None
        if positions is not None:
            self.next += len(x)
            x = x * getattr(self.model.get_input_embeddings(), "embed_scale", torch.ones(())).to(x.dtype)
            if self.rotary is None:
                if self.base.project_in is not None:
                    x = self.base.project_in(x)
                x = x + torch.nn.functional.embedding(positions + 2, self.base.embed_positions.weight)
        still = {}
        if self.rotary is not None:  # the session rotates
            dims = self.rotary(x, torch.zeros(1, 1, dtype=torch.long), **self.kind)[0].shape[-1]
            still["position_embeddings"] = (torch.ones(1, len(x), dims, dtype=x.dtype), torch.zeros(1, len(x), dims, dtype=x.dtype))
        Stage.attend, Stage.head_dim = attend, self.head_dim
        out = self.base.layers[index](x[None], attention_mask=None, **still)
        return (out[0] if isinstance(out, tuple) else out)[0]

    def logits(self, x):
        norm = self.base.norm if hasattr(self.base, "norm") else self.base.final_layer_norm
        x = x if norm is None else norm(x)
        if getattr(self.base, "project_out", None) is not None:
            x = self.base.project_out(x)
        logits, cap = self.model.get_output_embeddings()(x), self.final_softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    @staticmethod
    def softmax(logits):
        if Stage.sinks is None:
            return torch.softmax(logits, -1)
        sinks = Stage.sinks[:, None, None].expand(-1, logits.shape[1], 1)
        return torch.softmax(torch.cat((logits, sinks), -1), -1)[..., :-1]

    @staticmethod
    def attention(module, query, key, value, mask, scaling=None, s_aux=None, **_):
        # The session divides by the root of head_dim; OPT has done so already.
        Stage.sinks = s_aux
        out = Stage.attend(query[0] * (scaling * math.sqrt(Stage.head_dim)), key[0], value[0])
        return out.transpose(0, 1)[None].contiguous(), None


AttentionInterface.register("stage", Stage.attention)


def h2o_goldens(directory, learned_positions):
    goldens = []
    for rolling in (False,) if learned_positions else (False, True):
        for case, (preset, heavy, recent, length, generated) in enumerate(H2O_CASES):
            base = oracle.make_policy(preset, heavy + recent, recent)
            policy = oracle.Policy(**{**base.__dict__, "rolling": rolling})
            for seed in itertools.count(1000 * case):
                ids = torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(seed)).tolist()
                runs = []
                for dtype in (torch.float32, torch.float64):
                    session = oracle.H2oSession(Stage(directory, dtype), policy)
                    runs.append((session, *oracle.greedy(session, ids, generated)))
                (single, tokens32, _), (session, tokens, rows) = runs
                others = session.other_victims / max(1, session.all_victims)
                if (
                    tokens == tokens32 and session.victims == single.victims and logit_gap(rows) >= LOGIT_GAP_MIN
                    and session.kept_after_prefill == single.kept_after_prefill and others >= 0.05
                    and min(session.margins, default=1.0) >= SCORE_MARGIN_MIN
                ):  # fmt: skip
                    break
            goldens.append({
                "policy": {k: v for k, v in policy.__dict__.items() if k != "evicts"}, "prompt_ids": ids, "tokens": tokens,
                "logprobs": short(torch.log_softmax(rows, -1).max(-1).values.tolist()),
                "kept_after_prefill": session.kept_after_prefill, "victims": session.victims,
            })  # fmt: skip
            print(f"  {preset} {heavy}+{recent}{' rolling' if rolling else ''}: seed {seed}, {others:.0%} other victims")
    return goldens


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=CHECKPOINTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    (HERE / "families").mkdir(exist_ok=True)
    for name in CHECKPOINTS:
        if arguments.only not in (None, name):
            continue
        print(name)
        with tempfile.TemporaryDirectory() as temporary:
            directory = pathlib.Path(temporary)
            config, tensors = skeleton(name, directory)
            always_long(directory, config)
            golden = {"config": config, "tensors": tensors, "greedy": {}}
            for dtype in DTYPES if name in STORED_IN_ALL else ("F32",):
                fill(directory, tensors, DTYPES[dtype])
                golden["greedy"][dtype] = greedy_goldens(directory, 16 if dtype == "F32" else 8)
            fill(directory, tensors, torch.float32)
            golden["h2o"] = h2o_goldens(directory, config["model_type"] == "opt")
            write_json(HERE / "families" / f"{name}.json", golden)


if __name__ == "__main__":
    main()
