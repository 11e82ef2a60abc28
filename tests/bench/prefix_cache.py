#!/usr/bin/env python3
"""What the prefix cache saves, through the real server: a prompt of 2,000 tokens of which the first 1,500 were computed
before, with and without eviction. Prints a table; alone on the machine, or the times mean little. Standard library only."""

import argparse
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import server_process

ROUNDS = 5
SHARED = 1500
OWN = 500
POLICIES = {
    "full": {"policy": "full"},
    "h2o, budget 256": {"policy": "h2o", "budget": 256},
    "h2o-plus, budget 256": {"policy": "h2o-plus", "budget": 256},
    "sinks, budget 256": {"policy": "sinks", "budget": 256},
}


def ask(server, prompt, kv):
    """(seconds to the first token, cached tokens)"""
    began = time.monotonic()
    answer = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1, "temperature": 0, "kv": kv})
    return time.monotonic() - began, answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=server_process.DEFAULT_BINARY)
    parser.add_argument("--model", default=server_process.DEFAULT_MODEL)
    arguments = parser.parse_args()
    print(f"{'policy':24} {'cold s':>8} {'warm s':>8} {'ratio':>6} {'found':>6} {'of':>5} {'snapshots':>10} {'MB':>6}")
    for label, kv in POLICIES.items():
        with server_process.ServerProcess(arguments.binary, arguments.model) as server:
            cold, warm, found = [], [], set()
            for turn in range(ROUNDS):
                shared = server_process.made_up_ids(turn, SHARED)
                cold.append(ask(server, shared + server_process.made_up_ids(1000 + turn, OWN), kv)[0])
                seconds, cached = ask(server, shared + server_process.made_up_ids(2000 + turn, OWN), kv)
                warm.append(seconds)
                found.add(cached)
            snapshots = server.metric("hydrant_prefix_snapshots")
            megabytes = server.metric("hydrant_prefix_snapshot_bytes") / 1e6
        cold_s, warm_s = statistics.median(cold), statistics.median(warm)
        print(f"{label:24} {cold_s:8.3f} {warm_s:8.3f} {cold_s / warm_s:6.1f} {min(found):6} {SHARED:5} "
              f"{snapshots:10.0f} {megabytes:6.1f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
