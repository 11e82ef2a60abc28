"""Makes the small random Llama checkpoints of this folder and what they must answer. README.md says how to run it and
what the files hold.

Plain goldens come from Hugging Face transformers; H2O goldens from llama_oracle.py, which is first held against
transformers. Both are made in fp32 and in fp64: a prompt is used only if the two agree on every token and every eviction,
with margins that no correct fp32 implementation can miss.
"""

import argparse
import collections
import itertools
import json
import pathlib
import shutil

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM

import llama_oracle as oracle

HERE = pathlib.Path(__file__).resolve().parent
VOCAB = 288
GENERATED = 32
# fp32 scores are within about 1e-6 of the true ones on prompts this short: 30 times that cannot be missed.
SCORE_MARGIN_MIN = 3e-5
LOGIT_GAP_MIN = 3e-3

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TRAINING_TEXT = [
    "the quick brown fox jumps over the lazy dog and then it sleeps in the sun until the evening comes",
    "Once upon a time there was a small server that kept many chats in one memory.",
    "A token that is never looked at again may leave; the others stay where they are.",
]


def make_tokenizer(split, add_bos):
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split == "gpt2")
    if split == "llama3":
        from tokenizers import Regex

        first = pre_tokenizers.Split(Regex(LLAMA3_SPLIT), behavior="isolated", invert=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([first, byte_level])
    elif split == "digits":
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    else:
        tokenizer.pre_tokenizer = byte_level
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[AddedToken(text, special=True) for text in ("<|bos|>", "<|eos|>")],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TRAINING_TEXT, trainer)
    assert tokenizer.get_vocab_size() == VOCAB
    if add_bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<|bos|> $A", special_tokens=[("<|bos|>", 0)])
    return tokenizer


# What each checkpoint is for. Sizes are small enough to be committed; head counts give groups of 1, 2 and 3 query heads.
CHECKPOINTS = {
    "mha_tied": dict(query_heads=3, kv_heads=3, tied=True, split="gpt2", add_bos=False),
    # fp16 weights.
    "mha_untied": dict(query_heads=3, kv_heads=3, tied=False, split="llama3", add_bos=True, dtype=torch.float16),
    "gqa_tied": dict(query_heads=4, kv_heads=2, tied=True, split="digits", add_bos=False),
    "gqa_untied": dict(query_heads=6, kv_heads=2, tied=False, split="llama3", add_bos=True),
    # Rotary scaling of Llama 3; bf16 weights in two shards, a list of end ids.
    "gqa_llama3_rope": dict(
        query_heads=4, kv_heads=1, tied=True, split="llama3", add_bos=True, dtype=torch.bfloat16, shard="60KB",
        rope=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=64, rope_theta=500000.0),
    ),
}


def make_checkpoint(name, spec, seed):
    generator = torch.Generator().manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=48, intermediate_size=80, num_hidden_layers=2,
        num_attention_heads=spec["query_heads"], num_key_value_heads=spec["kv_heads"], head_dim=16,
        max_position_embeddings=512, rms_norm_eps=1e-5, tie_word_embeddings=spec["tied"], bos_token_id=0,
        eos_token_id=[1, 287] if "rope" in spec else 1, pad_token_id=None, attention_bias=False, mlp_bias=False,
        rope_parameters=spec.get("rope", dict(rope_type="default", rope_theta=10000.0)),
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for tensor_name, tensor in model.named_parameters():
            if "norm" in tensor_name:
                tensor.copy_(1 + 0.2 * torch.randn(tensor.shape, generator=generator))
                continue
            gain, fan_in = 1.0, tensor.shape[-1] ** 0.5
            if "q_proj" in tensor_name or "k_proj" in tensor_name:
                gain = 3.5  # peaked attention: what leaves is often not the oldest token
            elif "o_proj" in tensor_name or "down_proj" in tensor_name:
                gain = 2.0  # the context, not the last token, decides what comes next
            elif "embed" in tensor_name:
                gain, fan_in = 0.3, 1.0
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * gain / fan_in)
    model.to(spec.get("dtype", torch.float32))
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory, max_shard_size=spec.get("shard", "1GB"))
    for file in directory.glob("*.safetensors"):
        file.chmod(0o644)
    tokenizer = make_tokenizer(spec["split"], spec["add_bos"])
    tokenizer.save(str(directory / "tokenizer.json"))
    write_json(directory / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|bos|>", "eos_token": "<|eos|>",
        "add_bos_token": spec["add_bos"], "clean_up_tokenization_spaces": False, "model_max_length": 512,
    })  # fmt: skip
    # save_pretrained follows the version's fashion; what older and newer checkpoints agree on is the classic spelling.
    config_path = directory / "config.json"
    saved = json.loads(config_path.read_text())
    rope = saved.pop("rope_parameters")
    saved["rope_theta"] = rope.pop("rope_theta")
    saved["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    saved["torch_dtype"] = saved.pop("dtype")
    write_json(config_path, saved, indent=2)
    return tokenizer


def write_json(path, value, indent=None):
    path.write_text(json.dumps(value, indent=indent, separators=None if indent else (",", ":")) + "\n")


def rounded(values):
    """7 significant digits: more than fp32 holds."""
    return [float(f"{value:.7g}") for value in values]


def prompts(tokenizer, seed):
    """Named prompts: random ids of the interesting lengths, and one text."""
    generator = torch.Generator().manual_seed(seed)
    for length in (1, 15, 16, 17, 100):
        yield f"{length}_tokens", None, torch.randint(2, VOCAB, (length,), generator=generator).tolist()
    text = "Once upon a time, 1234 small cafés kept the sun’s memory."
    yield "text", text, tokenizer.encode(text).ids


def top5(logits):
    values, ids = torch.log_softmax(logits, -1).sort(descending=True, stable=True)
    return [[int(i), float(f"{v:.7g}")] for i, v in zip(ids[:5], values[:5])]


def transformers_greedy(model, ids, count):
    """Recomputes the whole text for every token: slow, and independent of any cache."""
    ids, rows = list(ids), []
    prompt_logits = None
    for _ in range(count):
        logits = model(torch.tensor([ids])).logits[0]
        prompt_logits = logits if prompt_logits is None else prompt_logits
        rows.append(logits[-1])
        ids.append(int(logits[-1].argmax()))
    return ids[-count:], torch.stack(rows), prompt_logits


def logit_gap(rows):
    best = rows.topk(2, -1).values
    return float((best[:, 0] - best[:, 1]).min())


def plain_goldens(name, tokenizer):
    models = {
        dtype: LlamaForCausalLM.from_pretrained(HERE / name, dtype=dtype).eval()
        for dtype in (torch.float32, torch.float64)
    }
    goldens, error = [], 0.0
    for seed in itertools.count():
        goldens, error, usable = [], 0.0, True
        for prompt_name, text, ids in prompts(tokenizer, seed):
            tokens32, rows32, prompt32 = transformers_greedy(models[torch.float32], ids, GENERATED)
            tokens, rows, prompt_rows = transformers_greedy(models[torch.float64], ids, GENERATED)
            gap = logit_gap(rows)
            if tokens != tokens32 or gap < LOGIT_GAP_MIN:
                usable = False
                break
            # Our own oracle must say the same before it may judge evictions.
            mine, mine_rows = oracle.greedy(
                oracle.H2oSession(oracle.Llama.load(HERE / name, torch.float64), oracle.make_policy("full", 0)),
                ids, GENERATED,
            )  # fmt: skip
            assert mine == tokens and (mine_rows - rows).abs().max() < LOGIT_GAP_MIN / 4
            log_probs = torch.log_softmax(prompt_rows, -1)
            error = max(
                error,
                float((torch.log_softmax(rows32, -1) - torch.log_softmax(rows, -1)).abs().max()),
                float((torch.log_softmax(prompt32, -1) - log_probs).abs().max()),
                # transformers forms rotary angles in fp32 whatever the dtype; the oracle forms them in fp64.
                float((torch.log_softmax(mine_rows, -1) - torch.log_softmax(rows, -1)).abs().max()),
            )
            goldens.append({
                "name": prompt_name, "text": text, "prompt_ids": ids,
                "prompt_logprobs": [None] + rounded(log_probs[i, ids[i + 1]].item() for i in range(len(ids) - 1)),
                "tokens": tokens, "top5": [top5(row) for row in rows], "logit_gap_min": float(f"{gap:.3g}"),
            })  # fmt: skip
        if usable:
            return {"logprob_error": float(f"{error:.3g}"), "prompts": goldens}


# Preset, heavy, recent, prompt length, tokens: budgets and prompts on and before block edges, P below, at and just above
# the budget, heavy 0 and recent 1; then many in which few recent and many heavy tokens give evictions a real choice.
H2O_CASES = [
    ("h2o", 8, 8, 40, 17), ("h2o", 13, 2, 15, 32), ("h2o", 14, 2, 17, 32), ("h2o", 15, 2, 16, 32), ("h2o", 15, 1, 33, 17),
    ("h2o", 24, 24, 64, 17), ("h2o", 3, 13, 1, 24), ("h2o", 0, 16, 30, 17), ("h2o", 1, 1, 20, 17),
    ("h2o", 12, 4, 5, 32), ("h2o", 28, 4, 5, 48), ("h2o", 30, 2, 20, 48), ("h2o", 44, 4, 30, 48), ("h2o", 36, 12, 30, 48),
    ("h2o", 46, 2, 48, 48), ("h2o", 60, 4, 50, 64), ("h2o", 94, 2, 80, 48), ("h2o", 62, 2, 40, 64),
    ("h2o-llama3", 14, 2, 17, 32), ("h2o-llama3", 30, 2, 17, 48), ("window", 0, 15, 40, 17), ("sinks", 4, 12, 40, 17),
    ("snapkv", 24, 8, 48, 17), ("h2o-plus", 24, 8, 40, 12), ("h2o-decay", 28, 4, 24, 32),
    ("snapkv", 30, 2, 40, 48), ("snapkv", 14, 2, 100, 32), ("snapkv", 28, 4, 20, 48),
    # Pooled scores differ by what was added since, squared: often too little for fp32, so these runs are short.
    ("h2o-plus", 30, 2, 40, 12), ("h2o-plus", 14, 2, 100, 12), ("h2o-plus", 36, 4, 36, 20),
    ("h2o-decay", 30, 2, 40, 48), ("h2o-decay", 44, 4, 30, 48),
]  # fmt: skip


# With keys at their ranks: the edges of a budget again, and those with a real choice.
ROLLING_CASES = [("h2o", 15, 1, 33, 17), ("h2o", 0, 16, 30, 17), ("h2o", 1, 1, 20, 17), *H2O_CASES[10:]]
# Of one checkpoint: past the context of 512.
LONG_ROLLING = ("gqa_untied", ("h2o", 94, 2, 80, 440))


def policy_of(preset, heavy, recent, rolling):
    base = oracle.make_policy(preset, heavy + recent, recent)
    return oracle.Policy(**{**base.__dict__, "heavy": heavy, "recent": recent, "rolling": rolling})


def h2o_goldens(name, kv_grouped, cases, rolling):
    models = {dtype: oracle.Llama.load(HERE / name, dtype) for dtype in (torch.float32, torch.float64)}
    goldens, others, victims = [], collections.Counter(), collections.Counter()
    for case, (preset, heavy, recent, length, generated) in enumerate(cases):
        if preset == "h2o-llama3" and not kv_grouped:
            continue
        policy = policy_of(preset, heavy, recent, rolling)
        for attempt in itertools.count():
            generator = torch.Generator().manual_seed(1000 * case + attempt)
            ids = torch.randint(2, VOCAB, (length,), generator=generator).tolist()
            runs = {}
            for dtype, model in models.items():
                session = oracle.H2oSession(model, policy)
                runs[dtype] = (session, *oracle.greedy(session, ids, generated))
            (single, tokens32, rows32), (session, tokens, rows) = runs[torch.float32], runs[torch.float64]
            margin, gap = min(session.margins, default=1.0), logit_gap(rows)
            if (
                tokens == tokens32 and session.victims == single.victims and gap >= LOGIT_GAP_MIN
                and session.kept_after_prefill == single.kept_after_prefill and margin >= SCORE_MARGIN_MIN
            ):  # fmt: skip
                break
        if policy.score_source == "attention":
            others[preset] += session.other_victims
            victims[preset] += session.all_victims
        goldens.append({
            "name": f"{preset}_{heavy}_{recent}_prompt_{length}",
            "policy": {k: v for k, v in policy.__dict__.items() if k != "evicts" and (rolling or k != "rolling")},
            "prompt_ids": ids, "tokens": tokens,
            "logprobs": rounded(torch.log_softmax(rows, -1).max(-1).values.tolist()),
            "kept_after_prefill": session.kept_after_prefill, "victims": session.victims,
            "other_victims": session.other_victims, "score_margin_min": float(f"{margin:.3g}"),
            "logit_gap_min": float(f"{gap:.3g}"),
        })  # fmt: skip
        print(f"  {goldens[-1]['name']}: attempt {attempt}, {session.other_victims} of {session.all_victims} other victims, "
              f"margin {margin:.1e}, gap {gap:.1e}")  # fmt: skip
    shares = {preset: others[preset] / victims[preset] for preset in victims}
    print("  victims that are not the token leaving the recent window: "
          + ", ".join(f"{preset} {share:.0%}" for preset, share in shares.items()))  # fmt: skip
    assert min(shares.values()) >= (0.05 if rolling else 0.1) and others.total() >= (0.1 if rolling else 0.15) * victims.total(), "weights not peaked enough"
    return {"other_victims": others.total(), "victims": victims.total(), "cases": goldens}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=CHECKPOINTS, help="make one checkpoint")
    parser.add_argument("--rolling-only", action="store_true", help="make h2o_rolling.json, for the checkpoints as they are")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    others = victims = 0
    for seed, (name, spec) in enumerate(CHECKPOINTS.items()):
        if arguments.only not in (None, name):
            continue
        print(name)
        grouped = spec["query_heads"] != spec["kv_heads"]
        tokenizer = None if arguments.rolling_only else make_checkpoint(name, spec, seed)
        long_name, long_case = LONG_ROLLING
        cases = ROLLING_CASES + [long_case] * (name == long_name)
        write_json(HERE / name / "h2o_rolling.json", h2o_goldens(name, grouped, cases, rolling=True))
        if arguments.rolling_only:
            continue
        write_json(HERE / name / "greedy.json", plain_goldens(name, tokenizer))
        h2o = h2o_goldens(name, grouped, H2O_CASES, rolling=False)
        write_json(HERE / name / "h2o.json", h2o)
        others, victims = others + h2o["other_victims"], victims + h2o["victims"]
    # A program that always drops the token leaving the recent window must fail these goldens.
    assert arguments.only or arguments.rolling_only or others >= 0.2 * victims


if __name__ == "__main__":
    main()
