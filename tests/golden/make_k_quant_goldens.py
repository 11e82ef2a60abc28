"""Makes k_quants.json: blocks of the GGUF types Q4_K, Q5_K and Q6_K, and what llama.cpp's own Python package makes of them.

{type: {"blocks": hex of the stored bytes, "values": hex of little-endian fp32}}. Codes are random; the scales of the blocks are of
the size that real files have, one of them subnormal and one negative. Needs `gguf` (requirements.txt).
"""

import json
import pathlib
import sys

sys.path.pop(0)  # this folder has a gguf.py of its own

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

HERE = pathlib.Path(__file__).resolve().parent
# Where the fp16 scales of a block lie.
SCALES = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
VALUES = (0.0123, -0.4, 3e-6)  # of a block, and of the minimum beside it a third


def main():
    goldens = {}
    for name, offsets in SCALES.items():
        kind = GGMLQuantizationType[name]
        _, block_bytes = GGML_QUANT_SIZES[kind]
        blocks = np.random.default_rng(len(goldens)).integers(0, 256, (len(VALUES), block_bytes), dtype=np.uint8)
        for block, value in zip(blocks, VALUES):
            for divisor, offset in zip((1, 3), offsets):
                block[offset : offset + 2] = np.frombuffer(np.float16(value / divisor).tobytes(), np.uint8)
        values = dequantize(blocks, kind).astype("<f4")
        assert np.isfinite(values).all()
        goldens[name] = {"blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}
    (HERE / "k_quants.json").write_text(json.dumps(goldens, indent=0) + "\n")


if __name__ == "__main__":
    main()
