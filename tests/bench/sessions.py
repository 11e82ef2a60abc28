#!/usr/bin/env python3
"""What a session saves, through the real server: a chat of 20 turns at a budget of 512 tokens, seconds to each turn's first
token with a session, without one but with the prefix cache, and with neither. Alone on the machine, or the times mean
little. Standard library only."""

import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import server_process

TURNS = 20
SAID = 60
ANSWER = 40
KV = {"policy": "h2o", "budget": 512}
SHOWN = (1, 2, 5, 10, 15, 20)


def ask(server, **body):
    """(seconds to the first token, the answer's token ids, its usage and kv report)"""
    body |= {"temperature": 0, "ignore_eos": True, "kv": KV, "stream": True, "return_token_ids": True}
    body |= {"kv_report": True, "stream_options": {"include_usage": True}}
    began = time.monotonic()
    first = None
    tokens = []
    with server.open("/v1/completions", body) as response:
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            first = first or time.monotonic() - began
            chunk = json.loads(line[6:])
            for choice in chunk["choices"]:
                tokens += choice["token_ids"]
    return first, tokens, chunk["usage"], chunk["kv"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=server_process.DEFAULT_BINARY)
    parser.add_argument("--model", default=server_process.DEFAULT_MODEL)
    parser.add_argument("--rounds", type=server_process.count, default=3)
    arguments = parser.parse_args()
    seconds = {(turn, way): [] for turn in range(1, TURNS + 1) for way in ("session", "cached", "cold")}
    facts = {}
    with server_process.ServerProcess(arguments.binary, arguments.model) as server:
        for round_ in range(arguments.rounds):
            history = []
            for turn in range(1, TURNS + 1):
                said = server_process.made_up_ids(100 * round_ + turn, SAID)
                history += said
                session = {"session_id": f"round-{round_}", "cache_salt": f"own-{round_}"}
                append = {"session_append": True, "prompt": said} if turn > 1 else {"prompt": history}
                first, answer, usage, kv = ask(server, **session, **append, max_tokens=ANSWER)
                seconds[turn, "session"].append(first)
                cached = usage["prompt_tokens_details"]["cached_tokens"]
                facts[turn] = (usage["prompt_tokens"], usage["prompt_tokens"] - cached, kv["live"], kv["blocks"])
                for way, salt in (("cached", f"cached-{round_}"), ("cold", f"cold-{round_}-{turn}")):
                    first = ask(server, prompt=history, cache_salt=salt, max_tokens=1)[0]
                    seconds[turn, way].append(first)
                history += answer
        parks = server.metric("hydrant_parks_total")
        restores = server.metric("hydrant_restores_total")
    print(f"{'turn':>4} {'history':>8} {'computed':>9} {'live':>5} {'blocks':>7} | {'session s':>9} {'cached s':>9} {'cold s':>7}")
    for turn in SHOWN:
        median = {way: statistics.median(seconds[turn, way]) for way in ("session", "cached", "cold")}
        history, computed, live, blocks = facts[turn]
        print(f"{turn:4} {history:8} {computed:9} {live:5} {blocks:7} | {median['session']:9.3f} {median['cached']:9.3f} "
              f"{median['cold']:7.3f}")  # fmt: skip
    print(f"{parks:.0f} parks, {restores:.0f} restores")


if __name__ == "__main__":
    main()
