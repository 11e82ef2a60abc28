#!/usr/bin/env python3
"""What elastic budgets do for those who wait, through the real server: chats that come one after the other into a pool of a
tenth of what they would need in full, with plain budgets and with elastic ones. Prints a table; alone on the machine, or
the times mean little. Standard library only."""

import argparse
import json
import pathlib
import re
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import server_process

CHATS = 24
PROMPT = 320
GENERATED = 160
EVERY_S = 0.4  # one chat comes
BLOCK = 16
BUDGET = {"policy": "h2o", "budget": 256}
ROWS = {
    "budget 256": BUDGET,
    "elastic, floor 128": BUDGET | {"elastic": True},
    "elastic, floor 64": BUDGET | {"floor": 64},
}


def ids(seed):
    return [(seed * 7919 + i * 104729) % 40000 + 100 for i in range(PROMPT)]


class Chat(threading.Thread):
    def __init__(self, server, number, kv):
        super().__init__()
        self.body = {"prompt": ids(number), "max_tokens": GENERATED, "temperature": 0, "ignore_eos": True, "stream": True,
                     "kv": kv, "kv_report": True}  # fmt: skip
        self.server, self.first_s, self.budget = server, None, None
        self.began = time.monotonic()
        self.start()

    def run(self):
        with self.server.open("/v1/completions", self.body) as response:
            for line in response:
                if not line.startswith(b"data: {"):
                    continue
                if self.first_s is None:
                    self.first_s = time.monotonic() - self.began
                report = json.loads(line[6:]).get("kv")
                self.budget = report["budget"] if report else self.budget
        self.ended_s = time.monotonic() - self.began


def queue_quantiles(server, shares):
    """Seconds between arrival and admission, from the histogram: linear within a bucket."""
    buckets = []
    for line in server.get("/metrics").splitlines():
        if match := re.match(r'hydrant_queue_seconds_bucket\{.*le="([^"]+)"\} (\S+)', line):
            buckets.append((float(match[1]), float(match[2])))
    quantiles = []
    for share in shares:
        wanted, below, edge = share * buckets[-1][1], 0.0, 0.0
        for upper, count in buckets:
            if count >= wanted:
                within = (wanted - below) / (count - below) if count > below else 1.0
                quantiles.append(edge if upper == float("inf") else edge + (upper - edge) * within)
                break
            below, edge = count, upper
    return quantiles


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=server_process.DEFAULT_BINARY)
    parser.add_argument("--model", default=server_process.DEFAULT_MODEL)
    arguments = parser.parse_args()
    blocks = CHATS * -(-(PROMPT + GENERATED) // BLOCK) // 10
    print(f"{CHATS} chats of {PROMPT} + {GENERATED} tokens, one every {EVERY_S} s, in {blocks} blocks")
    print(f"{'':20} {'queue p50 s':>11} {'p99':>6} {'first token p50 s':>17} {'all done s':>10} {'completed':>9} "
          f"{'preempted':>9} {'shrinks':>7} {'mean budget':>11}")  # fmt: skip
    for label, kv in ROWS.items():
        flags = ("--num-gpu-blocks-override", blocks, "--no-enable-prefix-caching")
        with server_process.ServerProcess(arguments.binary, arguments.model, flags) as server:
            began = time.monotonic()
            chats = []
            for number in range(CHATS):
                time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
                chats.append(Chat(server, number, kv))
            for chat in chats:
                chat.join()
            seconds = time.monotonic() - began
            p50, p99 = queue_quantiles(server, (0.5, 0.99))
            completed = server.metric("vllm:request_success_total", finished_reason="length")
            preempted = server.metric("vllm:num_preemptions_total")
            shrinks = server.metric("hydrant_shrinks_total")
        first = statistics.median(chat.first_s for chat in chats)
        budget = statistics.mean(chat.budget for chat in chats)
        print(f"{label:20} {p50:11.1f} {p99:6.1f} {first:17.1f} {seconds:10.1f} {completed:9.0f} {preempted:9.0f} "
              f"{shrinks:7.0f} {budget:11.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
