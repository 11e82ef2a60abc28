"""Judges the default model through the real server, against Hugging Face transformers and the independent H2O of
llama_oracle.py on the same dequantised weights. Slow (minutes each), so not part of the test suite.

    .venv/bin/pip install -r tests/golden/requirements.txt
    .venv/bin/python tests/golden/check_default_model.py greedy      # 64 greedy tokens per prompt, bf16 and fp32
    .venv/bin/python tests/golden/check_default_model.py h2o         # every eviction, under teacher forcing
    .venv/bin/python tests/golden/check_default_model.py perplexity  # quality against budget [--oracle: both, compared]

It starts build/release/hydrantd (--binary) itself. Texts come from ../shared/data/bench where that exists, or from
--text FILE. Each check prints a table and ends with PASS or FAIL; the exit code says the same.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import sys
import tempfile
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "bench"))

import gguf
import llama_oracle as oracle
import perplexity
import server_process
from perplexity import PROMPT, SCORED, complete, documents, encode
from server_process import ServerProcess

FP32_FLAGS = ("--dtype", "float32", "--kv-cache-dtype", "float32")

PROMPTS = [
    "The capital of France is",
    "Once upon a time there was a small town by the sea where",
    "def fibonacci(n):\n",
    "<|im_start|>user\nGive me three tips for growing tomatoes.<|im_end|>\n<|im_start|>assistant\n",
    "In 1905 Albert Einstein published four papers that",
    "<|im_start|>user\nExplain what a hash table is in two sentences.<|im_end|>\n<|im_start|>assistant\n",
]


# --- greedy ----------------------------------------------------------------------------------------------------------


def transformers_model(config, tensors):
    from transformers import LlamaConfig, LlamaForCausalLM

    theta = config["rope_theta"]
    fields = {key: value for key, value in config.items() if key != "rope_theta"}
    model = LlamaForCausalLM(LlamaConfig(**fields, rope_parameters={"rope_type": "default", "rope_theta": theta}))
    state = {name: torch.from_numpy(array) for name, array in tensors.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("lm_head" in name for name in missing), (missing, unexpected)
    model.tie_weights()
    return model.eval()


def round_products_to_bf16(model):
    """What a bf16 matrix product may do: weights and inputs rounded, the sum in fp32."""
    for module in model.modules():
        if isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
            module.weight.data = module.weight.data.bfloat16().float()
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda _, inputs: (inputs[0].bfloat16().float(),))


def check_greedy(arguments):
    """Wherever the two best logits of transformers differ by more than rounding can explain, the server's token is the
    best one. Rounding is measured apart from the server: the gap's deviation when transformers itself rounds weights and
    inputs of its products to bf16, six standard deviations of it."""
    config, tensors = gguf.read(arguments.model)
    exact, rounding = transformers_model(config, tensors), transformers_model(config, tensors)
    round_products_to_bf16(rounding)
    passed = True
    for name, flags, sigmas in (("bf16", ("--dtype", "bfloat16"), 6.0), ("fp32", FP32_FLAGS, 0.0)):
        print(f"\n{name}: prompt, tokens equal, judged, wrong, smallest gap judged, largest log-prob difference")
        with ServerProcess(arguments.binary, arguments.model, flags) as server:
            rows, deviations = [], []
            for prompt in PROMPTS:
                ids = encode(server, prompt)
                choice = complete(server, ids, 64)
                tokens = choice["token_ids"]
                text = torch.tensor([ids + tokens[:-1]])
                logits = exact(text).logits[0, len(ids) - 1 :]
                if sigmas:
                    shift = rounding(text).logits[0, len(ids) - 1 :] - logits
                    best = logits.topk(2, -1).indices
                    deviations.append(shift.gather(1, best[:, :1]) - shift.gather(1, best[:, 1:]))
                rows.append((prompt, tokens, logits, choice["logprobs"]["token_logprobs"]))
            bound = sigmas * float(torch.cat(deviations).std()) if sigmas else 3e-3
            for prompt, tokens, logits, log_probs in rows:
                gaps = logits.topk(2, -1).values.diff(dim=-1).abs()[:, 0]
                right = logits.argmax(-1) == torch.tensor(tokens)
                judged = gaps > bound
                wrong = int((judged & ~right).sum())
                chosen = torch.log_softmax(logits, -1)[range(len(tokens)), tokens]
                difference = float((chosen - torch.tensor(log_probs)).abs().max())
                print(f"  {prompt[:40]!r:44} {int(right.sum()):3} {int(judged.sum()):3} {wrong:3} "
                      f"{float(gaps[judged].min()):8.4f} {difference:9.5f}")  # fmt: skip
                passed &= wrong == 0
            print(f"  bound on the gap: {bound:.4f}")
    return passed


# --- H2O, decision by decision ---------------------------------------------------------------------------------------

DECISION_EXCESS_MAX = 1e-3
DECODE_SHARE_MAX, CUT_SHARE_MAX = 1e-4, 1e-2
LOGIT_GAP_MAX = 3e-3
# Closer than a rounding or two of fp32: a tie as far as the engine can tell. Pooling makes scores equal, and what is added to
# them afterwards, squared, is often less than that.
NEAR_TIE = 2**-22
H2O_PRESETS = ["h2o", "h2o-llama3", "snapkv", "h2o-plus", "h2o-decay"]


def excess(decision, imposed):
    """By how much, relatively, the engine's choice is worse than the best one: 0 when it is a best one."""
    kind, _, _, positions, score = decision
    if kind == "victim":
        chosen = score[positions == imposed]
        assert len(chosen) == 1, "the victim is not a candidate"
        best = score.min()
        return float((chosen[0] - best) / chosen[0]) if chosen[0] > best else 0.0
    kept = torch.isin(positions, torch.tensor(imposed))
    if kept.all() or not kept.any():
        return 0.0
    dropped, worst = score[~kept].max(), score[kept].min()
    return float((dropped - worst) / dropped) if dropped > worst else 0.0


def check_h2o(arguments):
    """Imposes the engine's own tokens and evictions on the oracle in fp64, so that nothing cascades, and judges each."""
    config, tensors = gguf.read(arguments.model)
    model = oracle.Llama(config, {name: torch.from_numpy(array) for name, array in tensors.items()}, torch.float64)
    passed = True
    print("prompt budget policy: decode decisions, other victims, with excess, worst; prompt heads, with excess, worst; "
          "largest logit gap; seconds")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        dump = pathlib.Path(folder) / "dump.jsonl"
        with ServerProcess(arguments.binary, arguments.model, (*FP32_FLAGS, "--debug-kv-dump", dump)) as server:
            cases = [(length, budget, preset) for length in (40, 300, 1000) for budget in (64, 256) for preset in arguments.presets or H2O_PRESETS]
            for length, budget, preset in cases[: arguments.cases]:
                (ids,) = documents(server, arguments.text, length, 1)
                complete(server, ids, arguments.tokens, kv={"policy": preset, "budget": budget, "position": arguments.position})
        records = [json.loads(line) for line in dump.read_text().splitlines()]
    for record in records:
        passed &= judge(model, record)
    return passed


def judge(model, record):
    started = time.monotonic()
    said, ids, tokens = record["policy"], record["prompt_ids"], record["tokens"]
    policy = oracle.make_policy(said["preset"], said["heavy"] + said["recent"], said["recent"])
    policy = dataclasses.replace(policy, rolling=said["rolling"])
    kept, victims = record["kept_after_prefill"], record["victims"]
    assert len(victims) == len(tokens) - 1
    session = oracle.H2oSession(model, policy, {"kept": kept, "victims": victims}, keep_decisions=True)
    logits = session.prefill(ids, last_only=True)[-1]
    gap, cuts, decodes = 0.0, [], []
    for _, layer, head, positions, score in session.decisions:
        chosen = kept[layer][head]
        # Equal counts, and the exact recent tail.
        assert len(chosen) == policy.keep and chosen[-policy.recent :] == list(range(len(ids) - policy.recent, len(ids)))
        cuts.append(excess(("cut", layer, head, positions, score), chosen))
    for step, token in enumerate(tokens):
        gap = max(gap, float(logits.max() - logits[token]))
        if step + 1 == len(tokens):
            break
        session.decisions.clear()
        logits = session.step(token)
        assert (victims[step] is not None) == bool(session.decisions), f"step {step}: an eviction too many or too few"
        for decision in session.decisions:
            decodes.append(excess(decision, victims[step][decision[1]][decision[2]]))
    bad_cuts, bad_decodes = sum(x > NEAR_TIE for x in cuts), sum(x > NEAR_TIE for x in decodes)
    worst = max([*cuts, *decodes, 0.0])
    good = worst <= DECISION_EXCESS_MAX and gap <= LOGIT_GAP_MAX
    # A share cannot be below one in so many: a single one is not held against a short run.
    good &= bad_decodes <= max(1, DECODE_SHARE_MAX * len(decodes)) and bad_cuts <= max(1, CUT_SHARE_MAX * len(cuts))
    print(f"{len(ids):6} {policy.keep:5} {policy.preset:10}: {len(decodes):6} {session.other_victims:6} {bad_decodes:4} "
          f"{max(decodes, default=0):.1e}; {len(cuts):4} {bad_cuts:3} {max(cuts, default=0):.1e}; {gap:.1e}; "
          f"{time.monotonic() - started:.0f} s  {'ok' if good else 'FAIL'}", flush=True)  # fmt: skip
    return good


# --- perplexity ------------------------------------------------------------------------------------------------------

PERPLEXITY_PRESETS = ["h2o", "sinks", "window"]
# What a correct fp32 implementation gave on eight (h2o-plus: twelve) other documents, relative to full.
EXPECTED = {
    64: {"h2o": 1.38, "sinks": 1.43, "window": 5.2, "snapkv": 1.27, "h2o-plus": 1.39},
    128: {"h2o": 1.17, "sinks": 1.21, "window": 2.7, "snapkv": 1.16, "h2o-plus": 1.21},
    256: {"h2o": 1.07, "sinks": 1.12, "window": 2.3, "snapkv": 1.08, "h2o-plus": 1.12},
    512: {"h2o": 1.03, "sinks": 1.06, "window": 2.1, "snapkv": 1.03, "h2o-plus": 1.05},
}


def oracle_loss(model, ids, policy):
    session = oracle.H2oSession(model, policy)
    logits, loss = session.prefill(ids[:PROMPT], last_only=True)[-1], 0.0
    for i, token in enumerate(ids[PROMPT:]):
        loss -= float(torch.log_softmax(logits, -1)[token])
        if i + 1 < SCORED:
            logits = session.step(token)
    return loss / SCORED


def check_perplexity(arguments):
    """Loss on 256 forced tokens after a prompt of 1,024, relative to `full`: geometric mean over documents, with a 95 %
    interval. With --oracle the same documents also go through the oracle, which must agree much more closely."""
    passed = True
    model = None
    if arguments.oracle:
        config, tensors = gguf.read(arguments.model)
        model = oracle.Llama(config, {name: torch.from_numpy(array) for name, array in tensors.items()}, torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        flags = (*FP32_FLAGS, "--debug-kv-dump", pathlib.Path(folder) / "dump.jsonl")
        with ServerProcess(arguments.binary, arguments.model, flags) as server:
            texts = documents(server, arguments.text, PROMPT + SCORED, arguments.documents)
            full = torch.tensor([perplexity.server_loss(server, ids, {"policy": "full"}) for ids in texts])
            print(f"{len(texts)} documents, full perplexity {float(full.mean().exp()):.3f}")
            print("budget preset    relative  95 % interval   elsewhere" + ("   oracle, largest difference" if model else ""))
            for budget in arguments.budgets:
                for preset in arguments.presets or PERPLEXITY_PRESETS:
                    kv = {"policy": preset, "budget": budget}
                    losses = torch.tensor([perplexity.server_loss(server, ids, kv) for ids in texts])
                    mean, half = perplexity.relative(losses.tolist(), full.tolist())
                    expected = EXPECTED[budget].get(preset)
                    # Two samples of eight documents each, of one spread: sqrt(2) times the interval of one; 3 % at least.
                    good = expected is None or abs(mean - math.log(expected)) <= math.sqrt(2) * max(half, 0.03)
                    line = (f"{budget:6} {preset:8} {math.exp(mean):9.3f}  {math.exp(mean - half):.3f}–{math.exp(mean + half):.3f}"
                            f"     {expected or '–':>6}")  # fmt: skip
                    if model:
                        theirs = torch.tensor([oracle_loss(model, ids, oracle.make_policy(preset, budget)) for ids in texts])
                        difference = float((theirs - losses).abs().max())
                        good &= difference < 0.01
                        line += f"   {math.exp(float((theirs - full).mean())):.3f} {difference:.5f}"
                    print(line + ("" if good else "  FAIL"), flush=True)
                    passed &= good
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=("greedy", "h2o", "perplexity"))
    parser.add_argument("--binary", default=server_process.DEFAULT_BINARY)
    parser.add_argument("--model", default=server_process.DEFAULT_MODEL)
    parser.add_argument("--text", action="append", default=[])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=100, help="h2o: generated per case")
    parser.add_argument("--cases", type=int, default=100, help="h2o: how many of the cases")
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--budgets", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--position", choices=("absolute", "rolling"), default="absolute", help="h2o: where keys stand")
    parser.add_argument("--presets", nargs="+", help="instead of every scoring one (h2o), h2o sinks window (perplexity)")
    parser.add_argument("--oracle", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    check = {"greedy": check_greedy, "h2o": check_h2o, "perplexity": check_perplexity}[arguments.check]
    passed = check(arguments)
    print("PASS" if passed else "FAIL")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
