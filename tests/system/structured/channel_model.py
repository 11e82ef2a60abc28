#!/usr/bin/env python3
"""Writes a directory with a tiny random gpt-oss whose answers are messages on channels: channel_model.py FOLDER. The network is that of
tests/golden/families/gpt_oss.json, for a vocabulary of bytes, the words of heads, and the tokens around messages. Standard library only."""

import json
import math
import pathlib
import random
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = HERE.parents[1] / "golden" / "families" / "gpt_oss.json"
CONTEXT = 4096
WORDS = ("analysis", "commentary", "final", "assistant", "functions", "json", " to", "get")
SPECIALS = ("<|return|>", "<|call|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>")
ENDS = ("<|return|>", "<|call|>")
# What published ones write, in the order in which they do; reasoning is that of the last answer alone.
TEMPLATE = """{%- if tools -%}<|start|>developer<|message|># Tools
namespace functions {
{%- for tool in tools %}
type {{ tool.function.name }} = (_: {{ tool.function.parameters | tojson }}) => any;
{%- endfor %}
}
Call with <|channel|>commentary to=functions.NAME.<|end|>{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{%- if message.thinking -%}<|start|>assistant<|channel|>analysis<|message|>{{ message.thinking }}<|end|>{%- endif -%}
<|start|>assistant<|channel|>final<|message|>{{ message.content }}{%- if not loop.last %}<|end|>{% endif -%}
{%- else -%}
<|start|>{{ message.role }}<|message|>{{ message.content }}<|end|>
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}"""


def byte_alphabet():
    """The characters that byte-level vocabularies write bytes as."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def tokenizer(words, specials):
    """Bytes are their own ids; behind them are the pieces of `words`, then `specials`."""
    alphabet = byte_alphabet()
    vocabulary = {piece: i for i, piece in enumerate(alphabet)}
    merges = []
    for word in words:
        pieces = [alphabet[byte] for byte in word.encode()]
        for i in range(1, len(pieces)):
            pair = ("".join(pieces[:i]), pieces[i])
            if pair not in merges:
                merges.append(pair)
            vocabulary.setdefault("".join(pair), len(vocabulary))
    added = []
    for content in specials:
        added.append({"id": len(vocabulary) + len(added), "content": content, "special": True, "single_word": False,
                      "lstrip": False, "rstrip": False, "normalized": False})  # fmt: skip
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [" ".join(pair) for pair in merges]},
    }


def write_files(folder, tensors, files):
    """A checkpoint in `folder`: `tensors` are (name, shape, values), `files` what the others hold, by name."""
    header, data, offset = {}, [], 0
    for name, shape, values in tensors:
        data.append(struct.pack(f"<{len(values)}f", *values))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(data[-1])]}
        offset += len(data[-1])
    text = json.dumps(header).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value), encoding="utf-8")


def write(folder):
    """Returns the ids of special tokens by text."""
    family = json.loads(SHAPES.read_text(encoding="utf-8"))
    made = tokenizer(WORDS, SPECIALS)
    ids = {token["content"]: token["id"] for token in made["added_tokens"]}
    size = max(ids.values()) + 1
    config = family["config"] | {
        "vocab_size": size, "max_position_embeddings": CONTEXT, "bos_token_id": None, "eos_token_id": ids["<|return|>"],
    }  # fmt: skip
    draw, tensors = random.Random(115), []
    for name, shape, scale, shift in family["tensors"]:
        shape = [size if extent == family["config"]["vocab_size"] else extent for extent in shape]
        tensors.append((name, shape, [shift + scale * draw.uniform(-1, 1) for _ in range(math.prod(shape))]))
    write_files(folder, tensors, {
        "config.json": config,
        "tokenizer.json": made,
        "tokenizer_config.json": {"chat_template": TEMPLATE, "eos_token": "<|return|>"},
        "generation_config.json": {"eos_token_id": [ids[end] for end in ENDS]},
    })  # fmt: skip
    return ids


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
