"""Serves a small random model with the real hydrantd and asks it what clients ask: serve_check.py HYDRANTD FOLDER [DEVICE [FLAG …]].

The model is written into FOLDER. A server on DEVICE (default: cuda), started with the FLAGs as well, must answer streamed completions with budgets and the turns of a chat that recalls, the same tokens in
fp32 as one on the processor, also with weights that it keeps in four bits, count them in /metrics, give every block back, and end with 0 on SIGTERM. Exit 77: there is no
HYDRANTD. Python's standard library only."""

import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from random_model import BYTES, Shape, write_model
from server_process import ServerProcess, made_up_ids, wait_for

SKIPPED = 77
VOCABULARY = Shape().vocabulary
CHATS, PROMPT, GENERATED, BUDGET = 4, 180, 32, 64
POLICIES = ("h2o", "auto")
WAIT_S = 900


def made_up_bytes(seed, count):
    return [token % BYTES for token in made_up_ids(seed, count)]


def stream(server, prompt, kv, **more):
    """Token ids and the report on the cache of one streamed completion."""
    body = {
        "prompt": prompt, "max_tokens": GENERATED, "temperature": 0, "ignore_eos": True, "stream": True,
        "kv": {"budget": BUDGET} | kv, "kv_report": True, "return_token_ids": True,
    } | more  # fmt: skip
    ids, report = [], None
    with server.open("/v1/completions", body) as response:
        events = response.read().decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""], events[-2:]
    for event in events[:-2]:
        if event.startswith(":"):  # a server that has to wait says that it is still there
            continue
        chunk = json.loads(event.removeprefix("data: "))
        report = chunk.get("kv") or report
        for choice in chunk["choices"]:
            ids += choice["token_ids"] or []
    return ids, report


def answers(server):
    """Of CHATS completions at once, after checks of what they and /metrics say."""
    found = [None] * CHATS

    def ask(chat):
        found[chat] = stream(server, made_up_bytes(chat, PROMPT), {"policy": POLICIES[chat % len(POLICIES)]})

    threads = [threading.Thread(target=ask, args=(chat,), daemon=True) for chat in range(CHATS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert all(found), f"answered: {[answer is not None for answer in found]}"
    for ids, report in found:
        assert len(ids) == GENERATED and all(0 <= token < VOCABULARY for token in ids), ids
        # The last token is not in the cache; its place is among those that the budget allows and the next one would take.
        assert report["budget"] == BUDGET and BUDGET <= report["live"] <= BUDGET + 1, report
        assert report["evicted"] == PROMPT + GENERATED - 1 - report["live"], report
    evicted = sum(report["evicted"] for _, report in found)
    counted = {
        ("hydrant_generation_tokens_total", ()): CHATS * GENERATED,
        ("hydrant_prompt_tokens_total", ()): CHATS * PROMPT,
        ("hydrant_evicted_tokens_total", ()): evicted,
        ("hydrant_kv_blocks", (("state", "used"),)): 0,
    }
    # A stream's end may be here before the step is counted.
    deadline = time.monotonic() + 10
    while True:
        seen = {key: server.metric(key[0], **dict(key[1])) for key in counted}
        if seen == counted or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert seen == counted, f"/metrics says {seen} for {counted}"
    assert server.metric("hydrant_freed_blocks_total", cause="prefill") > 0
    return [ids for ids, _ in found]


def turns(server):
    """Answers of a chat that recalls."""
    found = []
    for turn, tokens in enumerate((PROMPT, 40)):
        more = {"session_append": True} if turn > 0 else {}
        ids, _ = stream(server, made_up_bytes(CHATS + turn, tokens), {"policy": "auto", "recall": "turn"}, session_id="chat", **more)
        found.append(ids)
    # The next turn goes on from whole blocks of all that was said, not from what the budget kept.
    live = lambda: json.loads(server.get("/v1/sessions/chat"))["live"]
    wait_for("the chat's history", lambda: live() >= PROMPT + GENERATED)
    return found


def served(binary, model, device, dtype, flags, formats=()):
    """Tokens of every chat. /metrics has to say that weights are of these formats."""
    flags = ("--log-level", "debug", "--device", device, "--dtype", dtype, "--num-gpu-blocks-override", 1024, *flags)
    server = ServerProcess(binary, model, flags)
    try:
        # Which tokens are right can be said in fp32 alone.
        ids = answers(server) + (turns(server) if dtype == "float32" else [])
        for name in formats:
            assert server.metric("hydrant_weight_bytes", format=name) > 0, f"no weights in {name}"
        assert device == "cpu" or any("warm-up took" in line for line in server.log), "the device was not warmed up"
        print(f"{device}, {dtype}: ready after {server.ready_s:.1f} s, {CHATS} chats of {PROMPT} + {GENERATED} tokens", flush=True)
    except BaseException:
        print("".join(server.log[-20:]), flush=True)
        raise
    finally:
        status = server.stop()
    assert status == 0, f"hydrantd ended with {status} on SIGTERM:\n" + "".join(server.log[-20:])
    return ids


def main(binary, folder, device="cuda", *flags):
    if not pathlib.Path(binary).exists():
        print(f"there is no {binary}")
        return SKIPPED
    model = pathlib.Path(folder) / "random_model"
    write_model(model)
    expected = served(binary, model, "cpu", "float32", flags)
    assert len({tuple(ids) for ids in expected}) == len(expected), "prompts have the same answer"
    found = served(binary, model, device, "float32", flags)
    assert found == expected, f"{device} says\n{found}\nand the processor\n{expected}"
    served(binary, model, device, "bfloat16", flags)
    served(binary, model, device, "bfloat16", (*flags, "--quantization", "int4"), ("Q4_0", "Q8_0"))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
