"""Small models of random weights, and adapters for them, as directories that hydrantd serves. Python's standard library only."""

import array
import dataclasses
import json
import random
import struct

BYTES = 256
BOS, EOS = BYTES, BYTES + 1


@dataclasses.dataclass(frozen=True)
class Shape:
    """Of a Llama, or with `experts` of a Mixtral. A token is a byte, <s>, </s> or one of those that make the vocabulary full."""

    # Heads of 64, which the kernels on tensor cores are made for.
    hidden: int = 256
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    ffn: int = 512
    vocabulary: int = BYTES + 2
    experts: int = 0
    context: int = 2048

    def config(self):
        config = {
            "model_type": "mixtral" if self.experts else "llama", "hidden_size": self.hidden, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
            "intermediate_size": self.ffn, "vocab_size": self.vocabulary, "max_position_embeddings": self.context,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
            "bos_token_id": BOS, "eos_token_id": EOS,
        }  # fmt: skip
        if self.experts:
            config |= {"num_local_experts": self.experts, "num_experts_per_tok": 2, "sliding_window": None}
        return config

    def linears(self):
        """(name, rows, columns) of a layer's products."""
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        yield "self_attn.q_proj", query, self.hidden
        yield "self_attn.k_proj", key, self.hidden
        yield "self_attn.v_proj", key, self.hidden
        yield "self_attn.o_proj", self.hidden, query
        if not self.experts:
            yield "mlp.gate_proj", self.ffn, self.hidden
            yield "mlp.up_proj", self.ffn, self.hidden
            yield "mlp.down_proj", self.hidden, self.ffn
            return
        yield "block_sparse_moe.gate", self.experts, self.hidden
        for expert in range(self.experts):
            yield f"block_sparse_moe.experts.{expert}.w1", self.ffn, self.hidden
            yield f"block_sparse_moe.experts.{expert}.w2", self.hidden, self.ffn
            yield f"block_sparse_moe.experts.{expert}.w3", self.ffn, self.hidden

    def tensors(self):
        """(name, rows, columns); no rows: a vector of ones."""
        yield "model.embed_tokens.weight", self.vocabulary, self.hidden
        yield "lm_head.weight", self.vocabulary, self.hidden
        yield "model.norm.weight", 0, self.hidden
        for layer in range(self.layers):
            for name in ("input_layernorm", "post_attention_layernorm"):
                yield f"model.layers.{layer}.{name}.weight", 0, self.hidden
            for name, rows, columns in self.linears():
                yield f"model.layers.{layer}.{name}.weight", rows, columns


def byte_alphabet():
    """The character that stands for each byte in a byte-level vocabulary."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = iter(range(0x100, 0x200))
    return [chr(byte if byte in shown else next(hidden)) for byte in range(BYTES)]


def write_tensors(path, tensors, seed, spread):
    """Those of (name, rows, columns), as a .safetensors file; `spread`: of a value, beside the root of 1 / columns."""
    noise = random.Random(seed)
    header, data = {}, bytearray()
    for name, rows, columns in tensors:
        width = spread / columns**0.5
        count = (rows or 1) * columns
        values = array.array("f", (noise.uniform(-width, width) if rows else 1.0 for _ in range(count)))
        end = len(data) + 4 * count
        header[name] = {"dtype": "F32", "shape": [rows, columns] if rows else [columns], "data_offsets": [len(data), end]}
        data += values.tobytes()
    packed = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(packed)) + packed + data)


def write_model(folder, shape=Shape(), seed=1):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(shape.config()))
    special = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = ["<s>", "</s>", *(f"<x{i}>" for i in range(EOS + 1, shape.vocabulary))]
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": BOS + i, "content": content} | special for i, content in enumerate(added)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {piece: i for i, piece in enumerate(byte_alphabet())}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    write_tensors(folder / "model.safetensors", shape.tensors(), seed, 3**0.5)
    return folder


def write_adapter(folder, shape, rank, seed):
    """A LoRA adapter of q_proj, v_proj, up_proj and down_proj."""
    folder.mkdir(parents=True, exist_ok=True)
    targets = ("q_proj", "v_proj", "up_proj", "down_proj")
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 2 * rank, "bias": "none",
        "target_modules": targets, "fan_in_fan_out": False, "lora_dropout": 0.0,
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(config))
    factors = []
    for layer in range(shape.layers):
        for name, rows, columns in shape.linears():
            if name.rpartition(".")[2] in targets:
                path = f"base_model.model.model.layers.{layer}.{name}"
                factors += [(f"{path}.lora_A.weight", rank, columns), (f"{path}.lora_B.weight", rows, rank)]
    write_tensors(folder / "adapter_model.safetensors", factors, seed, 1.5)
    return folder
