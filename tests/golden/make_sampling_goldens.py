"""Writes sampling/distributions.json: rows of logits, what a request asks of them, and the distribution a token is to be
drawn from.

Every step that transformers has a processor for is done by that processor, in fp64, in the order of kernels/sampling.h; bans,
biases and the penalties by counts, which it has not, are done as vLLM documents them.
"""

import json
import pathlib

import numpy as np
import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

VOCABULARY = 48
OUT = pathlib.Path(__file__).parent / "sampling" / "distributions.json"

CASES = {
    "plain": {},
    "temperature": {"temperature": 0.5},
    "top_k": {"top_k": 7},
    "top_p": {"top_p": 0.8},
    "min_p": {"min_p": 0.05},
    "filters": {"temperature": 1.5, "top_k": 20, "top_p": 0.9, "min_p": 0.02},
    "repetition": {"repetition": 1.3},
    "repetition_below_one": {"repetition": 0.7},
    "frequency": {"frequency": 0.6},
    "frequency_negative": {"frequency": -0.5},
    "presence": {"presence": 1.1},
    "penalties": {"repetition": 1.2, "frequency": 0.4, "presence": 0.9},
    "biases": {"biases": [[1, 5.0], [2, -100.0], [40, 0.25]]},
    "allowed": {"allowed": [3, 4, 5, 30, 47]},
    "banned": {"banned": [0, 9, 31]},
    "all": {
        "temperature": 0.8,
        "top_k": 25,
        "top_p": 0.95,
        "min_p": 0.01,
        "repetition": 1.1,
        "frequency": 0.2,
        "presence": 0.3,
        "biases": [[6, 2.0], [7, -3.0], [20, 1.0]],
        "allowed": list(range(4, 44)),
        "banned": [5, 21, 22],
    },
}


def distribution(logits, prompt, output, ask):
    row = torch.tensor([logits], dtype=torch.float64)
    never = -float("inf")
    if "allowed" in ask:
        mask = torch.ones_like(row, dtype=torch.bool)
        mask[0, ask["allowed"]] = False
        row = row.masked_fill(mask, never)
    for token in ask.get("banned", []):
        row[0, token] = never
    for token, bias in ask.get("biases", []):
        row[0, token] += bias
    if "repetition" in ask:
        row = RepetitionPenaltyLogitsProcessor(ask["repetition"])(torch.tensor([prompt + output]), row)
    counts = torch.tensor(np.bincount(output, minlength=VOCABULARY))
    row = row - ask.get("frequency", 0.0) * counts - ask.get("presence", 0.0) * (counts > 0)
    for warper, name in (
        (TemperatureLogitsWarper, "temperature"),
        (MinPLogitsWarper, "min_p"),
        (TopKLogitsWarper, "top_k"),
        (TopPLogitsWarper, "top_p"),
    ):
        if name in ask:
            row = warper(ask[name])(None, row)
    return torch.softmax(row, dim=-1)[0].tolist()


def main():
    random = np.random.default_rng(20)
    cases = []
    for name, ask in CASES.items():
        # To fp32, in which the server has them; short, because nobody needs more digits.
        logits = [round(float(x), 3) for x in random.normal(0.0, 2.5, VOCABULARY)]
        prompt = [int(x) for x in random.integers(0, VOCABULARY, 6)]
        output = [int(x) for x in random.integers(0, VOCABULARY, 12)]
        output += output[:4]  # some more than once
        p = distribution([float(np.float32(x)) for x in logits], prompt, output, ask)
        cases.append(
            {"name": name, "logits": logits, "prompt": prompt, "output": output, "ask": ask, "probabilities": p}
        )
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
