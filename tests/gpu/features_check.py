"""What a server answers on a device against what one on the processor answers, in fp32: features_check.py HYDRANTD FOLDER
[DEVICE [SCENARIO,…]].

Each scenario is a small random model, flags and requests, many of them at once: policies, sampling, shapes of answers, turns,
prefixes, more chats than the pool holds, adapters, experts, odd sizes, hundreds of chats, long prompts, a restart. Every answer
must be the same on both. Exit 77: there is no HYDRANTD. Python's standard library only."""

import pathlib
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from random_model import Shape, write_adapter, write_model
from server_process import ServerProcess, wait_for

SKIPPED = 77
WAIT_S = 300
WORDS = "the a red old ship king sees finds near far stone river. he she it was, is! who? 7 42 key door".split()

FULL, H2O, AUTO = {"policy": "full"}, {"policy": "h2o", "budget": 64}, {"policy": "auto", "budget": 64}
RECALL, ROLLING = AUTO | {"recall": "turn"}, {"policy": "h2o", "budget": 48, "position": "rolling"}


def text(seed, length):
    choose, said = random.Random(seed), ""
    while len(said) < length:
        said += choose.choice(WORDS) + " "
    return said[:length]


def ask(which, length=180, tokens=20, **more):
    body = {"prompt": text(which, length), "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    return body | more


def told(answer):
    """What of an answer has to be the same: log-probabilities to two digits, the best tokens as a set."""
    if "data" in answer:
        return [[round(x, 3) for x in row["embedding"][:64]] for row in answer["data"]]
    found = []
    for choice in answer["choices"]:
        logprobs = choice.get("logprobs") or {}
        own = [None if x is None else round(x, 2) for x in logprobs.get("token_logprobs") or []]
        best = [sorted(tops) if tops else None for tops in logprobs.get("top_logprobs") or []]
        found.append((choice.get("token_ids") or choice["text"], choice["finish_reason"], own, best))
    return found


def asked_at_once(server, requests):
    """requests {name: body, or (body, path)} -> {name: what was told, or the error}."""
    found = {}

    def one(name, body, path="/v1/completions"):
        try:
            found[name] = told(server.post(path, body))
        except RuntimeError as error:
            found[name] = f"error: {error}"

    threads = []
    for name, request in requests.items():
        arguments = request if isinstance(request, tuple) else (request,)
        threads.append(threading.Thread(target=one, args=(name, *arguments), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(found) == len(requests), f"without an answer: {sorted(set(requests) - set(found))}"
    return found


# --- what is asked; each yields requests that are asked at once


def policies():
    names = ("h2o", "h2o-plus", "auto", "h2o-decay", "snapkv", "h2o-llama3", "h2o-streaming", "sinks", "window")
    yield {f"policy {name}": ask(i, kv={"policy": name, "budget": 64}) for i, name in enumerate(names)} | {
        "policy full": ask(10),
        "rolling": ask(20, kv=ROLLING),
        "periodic": ask(21, tokens=40, kv={"policy": "h2o", "budget": 40, "cadence": {"periodic": 7}}),
        "budgeted": ask(22, 700, kv=H2O | {"prefill": "budgeted"}),
        "budgeted rolling": ask(23, 900, kv=ROLLING | {"prefill": "budgeted"}),
        "ratio": ask(24, kv={"policy": "h2o-plus", "budget": {"ratio_of_total": 0.3}}),
    }


def sampling():
    schema = {
        "type": "object", "required": ["a", "b"], "additionalProperties": False,
        "properties": {"a": {"type": "boolean"}, "b": {"enum": ["x", "yy"]}},
    }  # fmt: skip
    shaped = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    yield {
        "logprobs": ask(1, logprobs=5),
        "prompt's logprobs": ask(3, tokens=2, echo=True, logprobs=2),
        "seed": ask(4, temperature=0.8, seed=7),
        "top_k": ask(5, temperature=1.5, seed=8, top_k=3),
        "top_k of more than there are": ask(6, temperature=1.0, seed=9, top_k=100000),
        "top_p": ask(7, temperature=1.2, seed=10, top_p=0.5),
        "min_p": ask(8, temperature=1.2, seed=11, min_p=0.2),
        "penalties": ask(9, presence_penalty=1.0, frequency_penalty=0.5, repetition_penalty=1.3),
        "bias": ask(10, logit_bias={"65": 100, "66": -100}),
        "n": ask(11, temperature=0.9, seed=12, n=3),
        "stop": ask(13, tokens=60, stop=["e"], ignore_eos=False),
        "regex": ask(14, guided_regex="[ab]{3,9}", ignore_eos=False),
        "choice": ask(15, guided_choice=["yes", "no, thanks"], ignore_eos=False),
        "schema": ask(16, tokens=80, ignore_eos=False, response_format=shaped),
        "allowed": ask(19, allowed_token_ids=[97, 98, 99]),
        "embeddings": ({"input": [text(30, 100), text(31, 33)]}, "/v1/embeddings"),
    }


def turns(first=0, last=4):
    kinds = {"h2o": H2O, "auto": AUTO, "recall": RECALL, "rolling": ROLLING, "full": FULL}
    for turn in range(first, last):
        more = {"session_append": True} if turn else {}
        yield {
            f"{name}, turn {turn}": ask(100 + turn, 40 if turn else 180, 16, kv=kv, session_id=name, **more)
            for name, kv in kinds.items()
        }


def prefixes():
    for time_ in ("first", "again"):
        yield {f"{time_} {kv['policy']}": ask(50, 400, 12, kv=kv) for kv in (FULL, H2O, AUTO)}
    begun = text(50, 400)
    yield {f"longer {kv['policy']}": ask(0, tokens=12, kv=kv) | {"prompt": begun + text(60, 90)} for kv in (FULL, H2O, AUTO)}


def crowd():
    kinds = (FULL, {"policy": "h2o", "budget": 96}, {"policy": "auto", "budget": 96}, ROLLING)
    yield {f"crowd {i}": ask(200 + i, 200, 70, kv=kinds[i % len(kinds)]) for i in range(14)}


def adapters():
    kinds = (("one", FULL), ("two", H2O), ("three", FULL), ("one", AUTO), ("two", FULL))
    yield {f"{name}, {i}": ask(400 + i, model=name, kv=kv) for i, (name, kv) in enumerate(kinds)} | {"base": ask(400)}


def many():
    kinds = (FULL, H2O, AUTO, ROLLING, FULL, {"policy": "snapkv", "budget": 50})
    requests = {}
    for i in range(300):
        drawn = {"temperature": 0.9, "seed": i, "top_p": 0.9} if i % 2 else {}
        requests[f"many {i}"] = ask(1000 + i, 60 + i % 97, 24, kv=kinds[i % len(kinds)], **drawn)
    yield requests


def long():
    kinds = (FULL, {"policy": "h2o", "budget": 300}, {"policy": "auto", "budget": 300}, {"policy": "snapkv", "budget": 300})
    yield {f"long {kv['policy']}": ask(900 + i, 6000, 24, kv=kv) for i, kv in enumerate(kinds)} | {
        f"beside {i}": ask(920 + i, 40, 60) for i in range(6)
    }


# --- scenarios

PLAIN = Shape()
MODELS = {
    "plain": PLAIN,
    "experts": Shape(experts=5, ffn=160),
    "odd": Shape(hidden=72, heads=3, kv_heads=1, head_dim=40, ffn=100, vocabulary=263),
    "heads of 128": Shape(heads=9, kv_heads=1, head_dim=128),
    "longer": Shape(heads=8, context=16384),
}
WIDE = ("--max-num-batched-tokens", 512, "--max-num-seqs", 16, "--num-gpu-blocks-override", 2048)
NARROW = ("--max-num-batched-tokens", 256, "--max-num-seqs", 16, "--num-gpu-blocks-override", 96, "--swap-space", 1)
LARGE = ("--max-num-batched-tokens", 2048, "--max-num-seqs", 512, "--num-gpu-blocks-override", 8192)
# Model, flags, what is asked of one server after the other.
SCENARIOS = {
    "plain": ("plain", WIDE, ([policies, sampling, turns, prefixes],)),
    "crowd": ("plain", NARROW, ([crowd],)),
    "adapters": ("plain", WIDE, ([adapters],)),
    "experts": ("experts", WIDE, ([policies, turns],)),
    "odd": ("odd", WIDE, ([policies, sampling, turns],)),
    "heads": ("heads of 128", WIDE, ([policies],)),
    "many": ("plain", LARGE, ([many],)),
    "long": ("longer", LARGE, ([long],)),
    "restart": ("plain", WIDE, ([turns], [lambda: turns(4, 6)])),
}


def more_flags(name, folder):
    """Of a scenario whose server needs a folder."""
    if name == "adapters":
        modules = [f"{one}={write_adapter(folder / one, PLAIN, 3 + 4 * i, i)}" for i, one in enumerate(("one", "two", "three"))]
        return ("--enable-lora", "--max-loras", 3, "--lora-modules", ",".join(modules))
    return ("--session-dir", folder, "--session-durability", "kv") if name == "restart" else ()


def served(binary, device, model, flags, kinds):
    server = ServerProcess(binary, model, ("--device", device, "--dtype", "float32", *flags))
    found = {}
    try:
        for kind in kinds:
            for requests in kind():
                found |= asked_at_once(server, requests)
        wait_for("every block is given back", lambda: server.metric("hydrant_kv_blocks", state="used") == 0)
    except BaseException:
        print("".join(server.log[-20:]), flush=True)
        raise
    finally:
        status = server.stop()
    assert status == 0, f"hydrantd ended with {status} on SIGTERM:\n" + "".join(server.log[-20:])
    return found


def main(binary, folder, device="cuda", only=""):
    if not pathlib.Path(binary).exists():
        print(f"there is no {binary}")
        return SKIPPED
    root, bad = pathlib.Path(folder), 0
    for name, (model, flags, servers) in SCENARIOS.items():
        if only and name not in only.split(","):
            continue
        written = write_model(root / model.replace(" ", "_"), MODELS[model])
        began, found = time.monotonic(), {}
        for where in ("cpu", device):
            with tempfile.TemporaryDirectory(dir=root) as own:
                every = (*flags, *more_flags(name, pathlib.Path(own)))
                found[where] = {}
                for kinds in servers:
                    found[where] |= served(binary, where, written, every, kinds)
        expected, actual = found["cpu"], found[device]
        errors = {key: value for key, value in expected.items() if isinstance(value, str)}
        assert not errors, f"{name}: {errors}"
        differ = [key for key in expected if expected[key] != actual[key]]
        print(f"{name}: {len(expected)} answers, {len(differ)} differ, {time.monotonic() - began:.1f} s", flush=True)
        for key in differ:
            print(f"  {key}\n    cpu  {str(expected[key])[:300]}\n    {device} {str(actual[key])[:300]}", flush=True)
        bad += len(differ)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
