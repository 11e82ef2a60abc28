#!/usr/bin/env python3
"""`./hydrant bench start`: how long each model at hand takes from the start of the server until it is ready, and what the process
weighs beside its KV pool, at most while it loads and once it serves; docs/performance.md holds the figures.

The pool is small and nothing touches it, so it weighs nothing. The file cache is warm. Exit code 1: a target was missed. Python's
standard library only."""

import argparse
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ServerProcess

STARTS = 5
POOL_BYTES = 64 << 20
MEMORY_PER_FILE, MEMORY_BESIDE_MB = 1.2, 40
SMALL_MB, SMALL_READY_S, READY_S = 200, 1.0, 2.0


def memory_mb(pid, field):
    return int(re.search(rf"^{field}:\s+(\d+) kB$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]) * 1024 / 1e6


def measure(binary, model):
    """(seconds to ready, median; most MB; MB once it serves)"""
    model.read_bytes()
    ready, most, serving = [], 0, 0
    for _ in range(STARTS):
        with ServerProcess(binary, model, ("--kv-cache-memory-bytes", POOL_BYTES)) as server:
            ready.append(server.ready_s)
            most = max(most, memory_mb(server.pid, "VmHWM"))
            serving = max(serving, memory_mb(server.pid, "VmRSS"))
    return statistics.median(ready), most, serving


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=pathlib.Path, default=DEFAULT_BINARY)
    parser.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL, help="and what lies beside it")
    arguments = parser.parse_args()
    models = sorted({arguments.model, *arguments.model.parent.glob("*.gguf")}, key=lambda path: path.stat().st_size)
    missed = False
    print(f"{'model':<44} {'file':>6} {'ready':>7} {'limit':>6} {'most':>6} {'serving':>8} {'limit':>6}  MB")
    for model in models:
        file_mb = model.stat().st_size / 1e6
        ready_max = SMALL_READY_S if file_mb < SMALL_MB else READY_S
        memory_max = MEMORY_PER_FILE * file_mb + MEMORY_BESIDE_MB
        ready, most, serving = measure(arguments.binary, model)
        met = ready <= ready_max and most <= memory_max
        missed |= not met
        print(f"{model.name:<44} {file_mb:>6.0f} {ready:>5.2f} s {ready_max:>4.1f} s {most:>6.0f} {serving:>8.0f} {memory_max:>6.0f}  {'ok' if met else 'MISSED'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
