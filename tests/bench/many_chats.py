#!/usr/bin/env python3
"""Throughput against the number of chats that share one pool, through the real server: every chat has a past of 4,000 tokens
and a session, all of them take a turn at once, over a pool that holds four such pasts in full. Writes docs/throughput.md and
the picture docs/pictures/throughput.svg. Alone on the machine, or the numbers mean little. Standard library only; five minutes."""

import argparse
import concurrent.futures
import datetime
import json
import pathlib
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import server_process
import throughput_picture

BLOCKS = 1024
PAST, SAID, ANSWER = 4000, 16, 64
CHATS = [1, 2, 4, 8, 16]
ROUNDS = 3
POLICIES = {"full": {"policy": "full"}, "h2o 256": {"policy": "h2o", "budget": 256}}
FULL_MAX = 8  # chats: 16 in full would take minutes for a turn


class Chat:
    """One session. A turn gives the moments at which its tokens came."""

    def __init__(self, server, number, kv):
        self.server, self.number, self.kv, self.turns = server, number, kv, 0
        self.turn(server_process.made_up_ids(number + 1, PAST), 1)

    def turn(self, said, tokens):
        body = {
            "prompt": said, "session_id": f"chat-{self.number}", "session_append": self.turns > 0, "kv": self.kv,
            "cache_salt": f"chat-{self.number}", "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
        }  # fmt: skip
        self.turns += 1
        moments = []
        with self.server.open("/v1/completions", body) as response:
            for line in response:
                if line.startswith(b"data: {"):
                    if "error" in json.loads(line[6:]):
                        raise RuntimeError(line.decode())
                    moments.append(time.monotonic())
        return moments


def percentile(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def measure(server, chats):
    """(tokens per second, p50 and p99 seconds to the first token) of chats that all take turns at once."""
    first, elapsed = [], 0.0
    with concurrent.futures.ThreadPoolExecutor(len(chats)) as pool:
        for round_ in range(ROUNDS):
            began = time.monotonic()
            said = server_process.made_up_ids(1000 + round_, SAID)
            turns = list(pool.map(lambda chat: chat.turn(said, ANSWER), chats))
            if round_ == 0:
                continue  # the number of chats has just changed
            elapsed += max(moments[-1] for moments in turns) - began
            first += [moments[0] - began for moments in turns]
    return (ROUNDS - 1) * len(chats) * ANSWER / elapsed, percentile(first, 0.5), percentile(first, 0.99)


def run(arguments, kv):
    """{chats: (tokens per second, p50, p99, parks)}"""
    results = {}
    flags = ["--num-gpu-blocks-override", BLOCKS, "--max-model-len", 8192]
    with server_process.ServerProcess(arguments.binary, arguments.model, flags) as server:
        chats = []
        for count in CHATS:
            if kv["policy"] == "full" and count > FULL_MAX:
                break
            while len(chats) < count:
                chats.append(Chat(server, len(chats), kv))
            before = server.metric("hydrant_parks_total")
            results[count] = (*measure(server, chats), int(server.metric("hydrant_parks_total") - before))
            print(f"  {count:3} chats: {results[count][0]:7.1f} tok/s, first token {results[count][1]:.2f} s (p99 "
                  f"{results[count][2]:.2f}), {results[count][3]} parks", flush=True)  # fmt: skip
    return results


def table(results):
    lines = ["| chats | " + " | ".join(f"{policy}: tok/s | first token p50 / p99, s | parks" for policy in results) + " |"]
    lines.append("|" + "---|" * (1 + 3 * len(results)))
    for count in CHATS:
        cells = [
            f"{r[count][0]:.0f} | {r[count][1]:.2f} / {r[count][2]:.2f} | {r[count][3]}" if count in r else "– | – | –"
            for r in results.values()
        ]
        lines.append(f"| {count} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(results, cpu, commit):
    text = (
        f"Measured {datetime.date.today()} at commit {commit} with the default model on {cpu}; `tests/bench/many_chats.py` repeats it. "
        f"Each chat has a session with a past of {PAST:,} tokens; all take a turn at once, {SAID} tokens said and {ANSWER} answered, "
        f"{ROUNDS - 1} rounds. The pool has {BLOCKS:,} blocks ({BLOCKS * 16:,} slots): four such pasts in full, sixty at a budget of 256. "
        "Chats that do not fit beside the others are parked in the host's memory and brought back for their turn."
    )
    return f"""# Throughput against the number of chats

![Tokens per second against the number of chats, by policy](pictures/throughput.svg)

{table(results)}

{textwrap.fill(text, 116)}
"""


def commit():
    out = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return out.stdout.strip() or "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=server_process.DEFAULT_BINARY)
    parser.add_argument("--model", default=server_process.DEFAULT_MODEL)
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    results = {}
    for policy, kv in POLICIES.items():
        print(policy, flush=True)
        results[policy] = run(arguments, kv)
    print(table(results))
    if arguments.no_write:
        return
    (ROOT / "docs" / "throughput.md").write_text(page(results, server_process.processor_name() or "an unknown processor", commit()))
    (ROOT / "docs" / "pictures" / "throughput.svg").write_text(throughput_picture.draw(results))


if __name__ == "__main__":
    main()
