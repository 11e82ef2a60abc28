#!/usr/bin/env python3
"""Makes h2o_sessions.json: chats of many turns, each turn attending to what the cache kept of the ones before. For the
checkpoints as they are; the environment is that of make_llama_goldens.py."""

import itertools
import json
import pathlib

import torch

import llama_oracle as oracle
from make_llama_goldens import LOGIT_GAP_MIN, SCORE_MARGIN_MIN, logit_gap, policy_of, rounded, write_json

HERE = pathlib.Path(__file__).parent
VOCAB = 288

# Preset, heavy, recent, rolling, tokens of the first turn, said in each later one, tokens of each answer, turns.
CASES = [
    ("h2o", 40, 8, False, 50, 9, 10, 20),
    ("h2o", 62, 2, False, 20, 17, 8, 8),
    ("h2o", 40, 8, True, 50, 19, 10, 20),  # past the context of 512
    ("h2o-decay", 28, 4, False, 24, 5, 8, 6),
    ("sinks", 4, 12, False, 20, 7, 8, 6),
    ("h2o", 24, 24, False, 10, 5, 4, 8),  # fits the budget at first
]
CHECKPOINTS = ("gqa_untied", "mha_tied")


def chat(model, policy, first, said, answer, turns, seed):
    generator = torch.Generator().manual_seed(seed)
    session = oracle.H2oSession(model, policy)
    told, rows, fed = [], [], []
    for turn in range(turns):
        ids = torch.randint(2, VOCAB, (first if turn == 0 else said,), generator=generator).tolist()
        logits = session.prefill(ids)[-1] if turn == 0 else session.turn(fed + ids)
        tokens = []
        for _ in range(answer):
            rows.append(logits)
            tokens.append(int((logits == logits.max()).nonzero()[0, 0]))
            if len(tokens) < answer:
                logits = session.step(tokens[-1])
        told.append({"said": ids, "tokens": tokens, "kept_after_prefill": session.kept_after_prefill, "victims": session.victims})
        fed = tokens[-1:]  # the last token of an answer is computed with the next turn
    return session, told, torch.stack(rows)


def main():
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    for name in CHECKPOINTS:
        models = [oracle.Llama.load(HERE / name, dtype) for dtype in (torch.float64, torch.float32)]
        cases = []
        for number, (preset, heavy, recent, rolling, *shape) in enumerate(CASES):
            policy = policy_of(preset, heavy, recent, rolling)
            for attempt in itertools.count():
                (session, told, rows), (_, told32, _) = [chat(m, policy, *shape, 1000 * number + attempt) for m in models]
                margin, gap = min(session.margins, default=1.0), logit_gap(rows)
                if told == told32 and gap >= LOGIT_GAP_MIN and margin >= SCORE_MARGIN_MIN:
                    break
            share = session.other_victims / max(1, session.all_victims)
            cases.append({
                "name": f"{preset}_{heavy}_{recent}{'_rolling' if rolling else ''}_{shape[-1]}_turns",
                "policy": {key: value for key, value in policy.__dict__.items() if key != "evicts"},
                "turns": told, "logprobs": rounded(torch.log_softmax(rows, -1).max(-1).values.tolist()),
                "other_victims": session.other_victims, "score_margin_min": float(f"{margin:.3g}"),
                "logit_gap_min": float(f"{gap:.3g}"),
            })  # fmt: skip
            print(f"{name} {cases[-1]['name']}: attempt {attempt}, {session.length} tokens, {share:.0%} other victims, "
                  f"margin {margin:.1e}, gap {gap:.1e}", flush=True)  # fmt: skip
        write_json(HERE / name / "h2o_sessions.json", {"cases": cases})


if __name__ == "__main__":
    main()
