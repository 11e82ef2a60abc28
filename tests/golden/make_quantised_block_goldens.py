"""Makes quantised_blocks.json: blocks of GGUF's quantised types, and what llama.cpp's own Python package makes of them.

{type: {"blocks": hex of the stored bytes, "values": hex of little-endian fp32}}. Codes are random, in the last block the
highest; the scales of the blocks are of the size that real files have, one of them subnormal and one negative. Needs
`gguf` (requirements.txt).
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
SCALES = {
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "IQ4_XS": (0,),
    "IQ4_NL": (0,),
    "Q8_0": (0,),
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "MXFP4": (),
}
VALUES = (0.0123, -0.4, 3e-6, 0.05)  # of a block, and of the minimum beside it a third
EXPONENTS = (120, 1, 0, 127)  # of MXFP4's blocks, in byte 0


def main():
    goldens = {}
    for name, offsets in SCALES.items():
        kind = GGMLQuantizationType[name]
        _, block_bytes = GGML_QUANT_SIZES[kind]
        blocks = np.random.default_rng(len(goldens)).integers(0, 256, (len(VALUES), block_bytes), dtype=np.uint8)
        blocks[-1] = 255
        for block, value, exponent in zip(blocks, VALUES, EXPONENTS):
            for divisor, offset in zip((1, 3), offsets):
                block[offset : offset + 2] = np.frombuffer(np.float16(value / divisor).tobytes(), np.uint8)
            if not offsets:
                block[0] = exponent
        values = dequantize(blocks, kind).astype("<f4")
        assert np.isfinite(values).all()
        goldens[name] = {"blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}
    (HERE / "quantised_blocks.json").write_text(json.dumps(goldens, indent=0) + "\n")


if __name__ == "__main__":
    main()
