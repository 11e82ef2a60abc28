"""Makes quantised_matrices.json: a matrix in every way that a quantised Hugging Face directory stores one, and what it is.

{name: {"quantization_config", "format", "shape", "tensors": {suffix: {"dtype", "shape", "data"}}, "values"}}: `data` and `values`
(little-endian fp32, of the matrix [out, in]) are hex; `format` is the one that holds it exactly. Packed here by the formats' public
definitions, with numpy alone; `--check` compares with compressed-tensors where that package is, and with the readers of AutoGPTQ and
AutoAWQ written out in numpy's words.
"""

import argparse
import json
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROWS, COLS = 16, 64
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def bf16(values):
    """Cut to the upper half, so that they are numbers of that type."""
    return (np.asarray(values, np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


def stored(dtype, array):
    array = np.ascontiguousarray(array)
    data = {
        "F16": lambda: array.astype("<f2"),
        "BF16": lambda: (array.astype("<f4").view("<u4") >> 16).astype("<u2"),
        "F32": lambda: array.astype("<f4"),
        "I32": lambda: array.astype("<u4"),
        "I64": lambda: array.astype("<i8"),
        "I8": lambda: array.astype(np.int8),
        "F8_E4M3": lambda: array.astype(np.uint8),
    }[dtype]()
    return {"dtype": dtype, "shape": list(array.shape), "data": data.tobytes().hex()}


def words(codes, bits, axis, order=None):
    """32 / bits codes along an axis into a word, the first one lowest; what is missing to a whole word is 0."""
    n = 32 // bits
    codes = np.moveaxis(codes, axis, -1).astype(np.uint64)
    codes = np.pad(codes, [(0, 0), (0, -codes.shape[1] % n)]).reshape(codes.shape[0], -1, n)
    place = order or range(n)
    packed = sum(codes[:, :, code] << np.uint64(bits * i) for i, code in enumerate(place))
    return np.moveaxis(packed.astype(np.uint32), -1, axis)


class Matrix:
    """Codes [out, in], and scales and zero points [out, groups] by which they are numbers."""

    def __init__(self, random, bits, group, symmetric, cols=COLS, scale_type="F16", permuted=False, zeros=None):
        self.bits, self.group, self.cols = bits, group or cols, cols
        self.codes = random.integers(0, 1 << bits, (ROWS, cols))
        self.codes[0, :2] = 0, (1 << bits) - 1
        self.groups = -(-cols // self.group)
        scales = random.uniform(0.001, 0.02, (ROWS, self.groups)).astype(np.float32)
        self.scales = {"F16": lambda: scales.astype(np.float16).astype(np.float32), "BF16": lambda: bf16(scales), "F32": lambda: scales}[scale_type]()
        self.scale_type = scale_type
        self.zeros = np.full((ROWS, self.groups), 1 << (bits - 1))
        if not symmetric:
            self.zeros = random.integers(*(zeros or (0, 1 << bits)), (ROWS, self.groups))
            self.zeros[0, 0] = (zeros or (0, 0))[0]
        self.group_of = np.arange(cols) // self.group
        if permuted:
            self.group_of = random.permutation(self.group_of)

    def values(self):
        whole = (self.codes - self.zeros[:, self.group_of]).astype(np.float32)
        return whole * self.scales[:, self.group_of]


def compressed(matrix, symmetric=True, strategy="group", act_order=False):
    weights = {
        "num_bits": matrix.bits, "type": "int", "symmetric": symmetric, "group_size": matrix.group if strategy == "group" else None,
        "strategy": strategy, "block_structure": None, "dynamic": False, "actorder": "group" if act_order else None, "observer": "minmax",
        "observer_kwargs": {},
    }  # fmt: skip
    config = config_of("pack-quantized", weights, None)
    tensors = {
        "weight_packed": stored("I32", words(matrix.codes, matrix.bits, 1)),
        "weight_scale": stored(matrix.scale_type, matrix.scales),
        "weight_shape": stored("I64", np.array([ROWS, matrix.cols])),
    }
    if not symmetric:
        tensors["weight_zero_point"] = stored("I32", words(matrix.zeros, matrix.bits, 0))
    if act_order:
        tensors["weight_g_idx"] = stored("I32", matrix.group_of)
    return config, tensors, matrix.values()


def config_of(form, weights, activations):
    return {
        "quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed", "kv_cache_scheme": None,
        "global_compression_ratio": 1.5, "ignore": ["lm_head"], "version": "0.9.0", "sparsity_config": {}, "transform_config": {},
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": activations,
                                      "output_activations": None}},
    }  # fmt: skip


def by_token(kind):
    return {"num_bits": 8, "type": kind, "symmetric": True, "strategy": "token", "dynamic": True, "group_size": None}


def int8(matrix):
    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "group_size": None, "dynamic": False}
    tensors = {"weight": stored("I8", matrix.codes - 128), "weight_scale": stored(matrix.scale_type, matrix.scales)}
    return config_of("int-quantized", weights, by_token("int")), tensors, matrix.values()


def gptq(matrix, symmetric, version=1, desc_act=False):
    config = {
        "quant_method": "gptq", "bits": matrix.bits, "group_size": -1 if matrix.group == matrix.cols else matrix.group, "desc_act": desc_act,
        "sym": symmetric, "true_sequential": True, "damp_percent": 0.01, "checkpoint_format": ("gptq", "gptq_v2")[version - 1],
    }  # fmt: skip
    tensors = {
        "qweight": stored("I32", words(matrix.codes.T, matrix.bits, 0)),
        "qzeros": stored("I32", words((matrix.zeros.T - (version == 1)), matrix.bits, 1)),
        "scales": stored(matrix.scale_type, matrix.scales.T),
        "g_idx": stored("I32", matrix.group_of),
    }
    return config, tensors, matrix.values()


def awq(matrix):
    config = {"quant_method": "awq", "bits": 4, "group_size": matrix.group, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}
    tensors = {
        "qweight": stored("I32", words(matrix.codes.T, 4, 1, AWQ_ORDER)),
        "qzeros": stored("I32", words(matrix.zeros.T, 4, 1, AWQ_ORDER)),
        "scales": stored(matrix.scale_type, matrix.scales.T),
    }
    return config, tensors, matrix.values()


def fp8_numbers():
    """What the 256 codes of E4M3 are, NaN at 127 and 255."""
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, (codes & 7).astype(np.float64)
    magnitude = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    return np.where(codes & 127 == 127, np.nan, np.where(codes & 128, -magnitude, magnitude)).astype(np.float32)


def fp8(random, block, how):
    codes = random.integers(0, 127, (ROWS, COLS)) | random.integers(0, 2, (ROWS, COLS)) << 7
    scales = bf16(random.uniform(0.001, 0.02, (-(-ROWS // block[0]), -(-COLS // block[1]))))
    values = fp8_numbers()[codes] * np.repeat(np.repeat(scales, block[0], 0), block[1], 1)[:ROWS, :COLS]
    weight = {"weight": stored("F8_E4M3", codes)}
    if how == "fp8":
        config = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": list(block)}
        return config, {**weight, "weight_scale_inv": stored("F32", scales)}, values
    weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": how, "dynamic": False, "group_size": None,
               "block_structure": list(block) if how == "block" else None}  # fmt: skip
    scale = stored("BF16", scales if how != "tensor" else scales.reshape(1))
    return config_of("float-quantized", weights, by_token("float")), {**weight, "weight_scale": scale}, values


def cases():
    random = np.random.default_rng(24)

    def matrix(bits, group, symmetric=True, **more):
        return Matrix(random, bits, group, symmetric, **more)

    v1 = (1, 16)  # what the first version of GPTQ can say
    yield "packed_4_groups", "Q4_0", compressed(matrix(4, 32, scale_type="BF16"))
    yield "packed_4_rows", "Q4_0", compressed(matrix(4, None), strategy="channel")
    yield "packed_4_zeros", "Q5_0", compressed(matrix(4, 32, False, scale_type="BF16"), symmetric=False)
    yield "packed_4_half_words", "F32", compressed(matrix(4, None, cols=36), strategy="channel")
    yield "packed_4_small_groups", "F32", compressed(matrix(4, 16))
    yield "packed_4_fp32_scales", "F32", compressed(matrix(4, 32, scale_type="F32"))
    yield "packed_4_act_order", "F32", compressed(matrix(4, 32, permuted=True), act_order=True)
    yield "packed_8_groups", "Q8_0", compressed(matrix(8, 32))
    yield "packed_8_rows", "Q8_0", compressed(matrix(8, None, scale_type="BF16"), strategy="channel")
    yield "packed_8_zeros", "F32", compressed(matrix(8, 32, False), symmetric=False)
    yield "int8_rows", "Q8_0", int8(matrix(8, None, scale_type="BF16"))
    yield "gptq_4", "Q4_0", gptq(matrix(4, 32), True)
    yield "gptq_4_rows", "Q4_0", gptq(matrix(4, None), True)
    yield "gptq_4_zeros", "Q5_0", gptq(matrix(4, 32, False, zeros=v1), False)
    yield "gptq_4_zeros_v2", "Q5_0", gptq(matrix(4, 32, False), False, version=2)
    yield "gptq_4_act_order", "F32", gptq(matrix(4, 32, permuted=True), True, desc_act=True)
    yield "gptq_8", "Q8_0", gptq(matrix(8, 32), True)
    yield "gptq_8_zeros", "F32", gptq(matrix(8, 32, False, zeros=(1, 256)), False)
    yield "awq_4", "Q5_0", awq(matrix(4, 32, False))
    yield "fp8_blocks", "F32", fp8(random, (6, 40), "fp8")
    yield "float_rows", "F32", fp8(random, (1, COLS), "channel")
    yield "float_tensor", "F32", fp8(random, (ROWS, COLS), "tensor")
    yield "float_blocks", "F32", fp8(random, (8, 32), "block")


def array_of(tensor):
    kind = {"F16": "<f2", "F32": "<f4", "I32": "<i4", "I64": "<i8", "I8": "i1", "F8_E4M3": "u1", "BF16": "<u2"}[tensor["dtype"]]
    array = np.frombuffer(bytes.fromhex(tensor["data"]), kind).reshape(tensor["shape"])
    return (array.astype(np.uint32) << 16).view(np.float32) if tensor["dtype"] == "BF16" else array


def by_their_reader(name, config, tensors):
    """The matrix by the packages' own code, or by the steps of their readers; None: there is nothing to compare with."""
    parts = {key: array_of(tensor) for key, tensor in tensors.items()}
    if config["quant_method"] == "gptq":
        n, bits = 32 // config["bits"], config["bits"]
        shifts = np.arange(0, 32, bits)
        zeros = (parts["qzeros"][:, :, None] >> shifts) & ((1 << bits) - 1)
        zeros = zeros.reshape(len(zeros), -1) + (config["checkpoint_format"] == "gptq")
        codes = (parts["qweight"][:, None, :] >> shifts[None, :, None]) & ((1 << bits) - 1)
        codes = codes.reshape(-1, codes.shape[-1])
        index = parts["g_idx"]
        assert codes.shape == (len(index), zeros.shape[1]) and n * bits == 32
        return ((codes - zeros[index]).astype(np.float32) * parts["scales"].astype(np.float32)[index]).T
    if config["quant_method"] == "awq":
        reverse = np.argsort(AWQ_ORDER)
        codes, zeros = ((parts[key][:, :, None] >> np.arange(0, 32, 4) & 15)[:, :, reverse].reshape(len(parts[key]), -1) for key in ("qweight", "qzeros"))
        repeated = [np.repeat(array, config["group_size"], 0) for array in (zeros, parts["scales"].astype(np.float32))]
        return ((codes - repeated[0]).astype(np.float32) * repeated[1]).T
    if config["quant_method"] != "compressed-tensors":
        return None
    import torch
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme

    scheme = json.loads(json.dumps(config["config_groups"]["group_0"]))
    if scheme["weights"].get("actorder"):  # no longer read by the package
        return None
    state = {}
    for key, tensor in tensors.items():
        array = torch.from_numpy(np.array(parts[key]))
        state[key] = array.view(torch.float8_e4m3fn) if tensor["dtype"] == "F8_E4M3" else array.float() if key == "weight_scale" else array
    made = BaseCompressor.load_from_registry(config["format"]).decompress(state, QuantizationScheme(**scheme))
    return made["weight"].float().numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; compare with other readers of the formats")
    arguments = parser.parse_args()
    goldens = {}
    for name, form, (config, tensors, values) in cases():
        assert np.isfinite(values).all() and values.dtype == np.float32
        if arguments.check:
            theirs = by_their_reader(name, config, tensors)
            equal = theirs is not None and (theirs.view(np.uint32) == np.ascontiguousarray(values).view(np.uint32)).all()
            print(name, "nothing to compare with" if theirs is None else "equal" if equal else "DIFFERS")
            assert theirs is None or equal
        goldens[name] = {"quantization_config": config, "format": form, "shape": list(values.shape), "tensors": tensors,
                         "values": np.ascontiguousarray(values).astype("<f4").tobytes().hex()}  # fmt: skip
    if not arguments.check:
        (HERE / "quantised_matrices.json").write_text(json.dumps(goldens, indent=0) + "\n")


if __name__ == "__main__":
    main()
