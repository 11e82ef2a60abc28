"""Reads a GGUF file (v3, llama architecture) into Hugging Face names and numpy arrays: written from the format's
description, apart from the reader in model/, so that the two can be held against each other."""

import struct

import numpy as np

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9
BLOCK = 32  # values in a block of every type with blocks here


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def scalar(self, layout):
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return value

    def string(self):
        length = self.scalar("<Q")
        self.at += length
        return bytes(self.data[self.at - length : self.at]).decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            kind, count = self.scalar("<I"), self.scalar("<Q")
            return [self.value(kind) for _ in range(count)]
        return self.scalar(SCALARS[kind])


def halves(raw):
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def f32(raw, count):
    return raw[: 4 * count].view("<f4")


def f16(raw, count):
    return halves(raw[: 2 * count])


def bf16(raw, count):
    return (raw[: 2 * count].view("<u2").astype(np.uint32) << 16).view(np.float32)


def q8_0(raw, count):
    blocks = raw[: count // BLOCK * 34].reshape(-1, 34)
    return (halves(blocks[:, :2]) * blocks[:, 2:].view(np.int8)).ravel()


def q4(raw, count, head):
    """Nibbles of 32 values: the low ones of 16 bytes first, then the high ones."""
    blocks = raw[: count // BLOCK * (head + 16)].reshape(-1, head + 16)
    packed = blocks[:, head:]
    return blocks, np.concatenate((packed & 15, packed >> 4), 1).astype(np.float32)


def q4_0(raw, count):
    blocks, values = q4(raw, count, 2)
    return (halves(blocks[:, :2]) * (values - 8)).ravel()


def q4_1(raw, count):
    blocks, values = q4(raw, count, 4)
    return (halves(blocks[:, :2]) * values + halves(blocks[:, 2:4])).ravel()


TYPES = {0: f32, 1: f16, 2: q4_0, 3: q4_1, 8: q8_0, 30: bf16}

LAYER_NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
OTHER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def hugging_face_name(name):
    base = name.removesuffix(".weight")
    if base.startswith("blk."):
        _, layer, part = base.split(".", 2)
        return f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"
    return OTHER_NAMES[base] + ".weight"


def unpermute(weight, heads):
    """Rows of q and k are stored for interleaved rotary pairs; back to halves."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def read(path):
    """(config as in config.json, {name: fp32 array})."""
    data = np.memmap(path, np.uint8, "r")
    reader = Reader(data)
    assert bytes(data[:4]) == b"GGUF" and (reader.scalar("<I"), reader.scalar("<I"))[1] == 3
    tensor_count, key_count = reader.scalar("<Q"), reader.scalar("<Q")
    keys = {}
    for _ in range(key_count):
        key = reader.string()
        keys[key] = reader.value(reader.scalar("<I"))
    infos = []
    for _ in range(tensor_count):
        name = reader.string()
        shape = [reader.scalar("<Q") for _ in range(reader.scalar("<I"))][::-1]
        infos.append((name, shape, reader.scalar("<I"), reader.scalar("<Q")))
    alignment = keys.get("general.alignment", 32)
    base = -(-reader.at // alignment) * alignment
    heads, kv_heads = keys["llama.attention.head_count"], keys["llama.attention.head_count_kv"]
    tensors = {}
    for name, shape, kind, offset in infos:
        values = TYPES[kind](data[base + offset :], int(np.prod(shape))).reshape(shape)
        if name.endswith("attn_q.weight"):
            values = unpermute(values, heads)
        elif name.endswith("attn_k.weight"):
            values = unpermute(values, kv_heads)
        tensors[hugging_face_name(name)] = np.ascontiguousarray(values)
    config = {
        "num_hidden_layers": keys["llama.block_count"], "hidden_size": keys["llama.embedding_length"],
        "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "intermediate_size": keys["llama.feed_forward_length"], "vocab_size": len(keys["tokenizer.ggml.tokens"]),
        "rms_norm_eps": keys["llama.attention.layer_norm_rms_epsilon"], "rope_theta": keys["llama.rope.freq_base"],
        "max_position_embeddings": keys["llama.context_length"], "tie_word_embeddings": "lm_head.weight" not in tensors,
    }  # fmt: skip
    return config, tensors
