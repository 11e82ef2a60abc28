#!/usr/bin/env python3
"""What a policy costs while a prompt is computed: the server's processor time for prompts that nobody has seen, two policies in
turn, one thread. Prints tokens per second of each and the median of the pairs' ratios with their quartiles. Processor time and
not seconds, so that a machine that others use will do. Python's standard library only.

    tests/bench/prompt_policies.py --policies h2o auto --tokens 256 1024 4096"""

import argparse
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ServerProcess, made_up_ids

# Of processor time, for each measurement: the kernel counts in hundredths of a second.
TOKENS_AT_ONCE = 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=DEFAULT_BINARY)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--policies", nargs=2, default=["h2o", "auto"])
    parser.add_argument("--tokens", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--budget", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--server-flag", action="append", default=[], help="for hydrantd, e.g. --server-flag=--threads=2")
    arguments = parser.parse_args()
    seed = 0
    flags = ["--threads=1", "--no-enable-prefix-caching", *arguments.server_flag]
    with ServerProcess(arguments.binary, arguments.model, flags) as server:
        for tokens in arguments.tokens:
            found = {policy: [] for policy in arguments.policies}
            for turn in range(arguments.rounds + 1):
                for policy in arguments.policies[:: 1 if turn % 2 else -1]:
                    began = server.cpu_s()
                    for _ in range(max(1, TOKENS_AT_ONCE // tokens)):
                        seed += 1
                        kv = {"policy": policy, "budget": arguments.budget}
                        server.post("/v1/completions", {"prompt": made_up_ids(seed, tokens), "max_tokens": 1, "kv": kv})
                    if turn > 0:  # the first one warms up
                        found[policy].append((server.cpu_s() - began) / max(1, TOKENS_AT_ONCE // tokens) / tokens)
            speeds = ", ".join(f"{policy} {1 / statistics.median(each):.0f} tok/s" for policy, each in found.items())
            first, second = (found[policy] for policy in arguments.policies)
            low, middle, high = statistics.quantiles([b / a for a, b in zip(first, second)], n=4)
            print(f"{tokens:5} tokens: {speeds}; {arguments.policies[1]} takes {middle:.3f} of the time ({low:.3f}-{high:.3f})", flush=True)


if __name__ == "__main__":
    main()
