"""Writes a GGUF file with another model's tokenizer and a tiny random network: small_model.py [--medium] FROM TO [KEY …]. What its
metadata has under these keys is left out. --medium: 24 million weights that are multiplied, a fifth of the default model's, for
measuring on a slow machine what needs short steps.

An instrumented program computes a prompt 30 times slower; what the suite asks of the server does not depend on what the
network knows. The weights are the same on every machine."""

import random
import struct
import sys

MEDIUM = "--medium" in sys.argv
HIDDEN, LAYERS, HEADS, KV_HEADS, FFN = (256, 12, 4, 2, 1024) if MEDIUM else (64, 2, 4, 2, 128)
HEAD_DIM = HIDDEN // HEADS
F32, Q8_0 = 0, 8
UINT32, STRING, ARRAY = 4, 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of the scalar types
ALIGNMENT = 32
CHANGED = {
    "llama.embedding_length": HIDDEN,
    "llama.block_count": LAYERS,
    "llama.feed_forward_length": FFN,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.rope.dimension_count": HEAD_DIM,
}


class Reader:
    def __init__(self, file):
        self.file = file

    def raw(self, count):
        return self.file.read(count)

    def number(self, layout):
        return struct.unpack(layout, self.raw(struct.calcsize(layout)))[0]

    def string(self):
        length = self.raw(8)
        return length + self.raw(struct.unpack("<Q", length)[0])

    def value(self, kind):
        """The bytes of a value, unread."""
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.raw(SIZES[kind])
        item, count = self.raw(4), self.raw(8)
        item_kind, items = struct.unpack("<I", item)[0], struct.unpack("<Q", count)[0]
        if item_kind == STRING:
            return item + count + b"".join(self.string() for _ in range(items))
        return item + count + self.raw(items * SIZES[item_kind])


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def metadata(reader, without):
    """The keys of the other model but those, sizes replaced; and how many tokens its vocabulary has."""
    assert reader.raw(4) == b"GGUF" and reader.number("<I") == 3, "not a GGUF file of version 3"
    reader.number("<Q")
    pieces, vocabulary = [], 0
    for _ in range(reader.number("<Q")):
        key = reader.string()
        kind = reader.number("<I")
        value = reader.value(kind)
        name = key[8:].decode()
        if name == "tokenizer.ggml.tokens":
            vocabulary = struct.unpack_from("<Q", value, 4)[0]
        if name in CHANGED:
            kind, value = UINT32, struct.pack("<I", CHANGED[name])
        if not name.startswith("llama.rope.scaling") and name not in ("llama.attention.key_length", "llama.attention.value_length", *without):
            pieces.append(key + struct.pack("<I", kind) + value)
    return pieces, vocabulary


def tensors(vocabulary):
    """(name, columns, rows); one row: a vector of ones."""
    yield "token_embd", HIDDEN, vocabulary
    for layer in range(LAYERS):
        for name, columns, rows in (
            ("attn_norm", HIDDEN, 1), ("attn_q", HIDDEN, HIDDEN), ("attn_k", HIDDEN, KV_HEADS * HEAD_DIM),
            ("attn_v", HIDDEN, KV_HEADS * HEAD_DIM), ("attn_output", HIDDEN, HIDDEN), ("ffn_norm", HIDDEN, 1),
            ("ffn_gate", HIDDEN, FFN), ("ffn_up", HIDDEN, FFN), ("ffn_down", FFN, HIDDEN),
        ):  # fmt: skip
            yield f"blk.{layer}.{name}", columns, rows
    yield "output_norm", HIDDEN, 1
    yield "output", HIDDEN, vocabulary  # not tied: a token would mostly be followed by itself


def weights(noise, columns, rows):
    if rows == 1:
        return struct.pack(f"<{columns}f", *[1.0] * columns)
    # Bytes spread evenly over [-128, 127]: a deviation of 74, scaled to 1 / sqrt(columns).
    scale = struct.pack("<e", 1 / 74 / columns**0.5)
    values = noise.randbytes(columns * rows)
    return b"".join(scale + values[at : at + 32] for at in range(0, len(values), 32))


def main(source, target, *without):
    with open(source, "rb") as file:
        pieces, vocabulary = metadata(Reader(file), without)
    noise = random.Random(1)
    infos, blobs, offset = [], [], 0
    for name, columns, rows in tensors(vocabulary):
        blob = weights(noise, columns, rows)
        blob += bytes(-len(blob) % ALIGNMENT)
        shape = (columns,) if rows == 1 else (columns, rows)
        kind = F32 if rows == 1 else Q8_0
        infos.append(text(name + ".weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
        blobs.append(blob)
        offset += len(blob)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(pieces)) + b"".join(pieces) + b"".join(infos)
    with open(target, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT) + b"".join(blobs))


if __name__ == "__main__":
    main(*(argument for argument in sys.argv[1:] if argument != "--medium"))
