#!/usr/bin/env python3
"""`./hydrant bench shapes`: what streams notice when half of those beside them answer in a shape, through the real server. STREAMS streams
run all the time. In turns of some seconds half of them are held to a JSON schema, or all are free; those that are free in both have
the same prompts. Printed are the times between a free stream's events, median and 99th percentile of each
round, and how they relate. Python's standard library only."""

import argparse
import json
import pathlib
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import spin
from many_chats import percentile
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ServerProcess, count

STREAMS = 8
ANSWER = 400
# Behind their first tokens, and before the first of them ends.
SETTLE_S = 1.0
SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 80},
        "rows": {
            "type": "array",
            "minItems": 60,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "pattern": "^[A-Z][a-z]{2,12}$"},
                    "count": {"type": "integer", "minimum": 0, "maximum": 9999},
                    "kind": {"enum": ["red", "green", "blue", None]},
                },
                "required": ["name", "count", "kind"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["title", "rows"],
    "additionalProperties": False,
}
SHAPE = {"response_format": {"type": "json_schema", "json_schema": {"name": "table", "strict": True, "schema": SCHEMA}}}


class Stream(threading.Thread):
    """One answer after another until `stop`; when its events came is in `times`, a list for each answer."""

    def __init__(self, server, number, shape):
        super().__init__(daemon=True)
        self.server, self.stop, self.times = server, threading.Event(), []
        question = f"Write a long list of boats with a name, a count and a colour. Begin with number {number}."
        self.body = {"messages": [{"role": "user", "content": question}], "max_tokens": ANSWER, "temperature": 0.7, "stream": True}
        self.body |= {"ignore_eos": True} if shape is None else shape

    def run(self):
        seed = 0
        while not self.stop.is_set():
            self.times.append([])
            with self.server.open("/v1/chat/completions", self.body | {"seed": seed}) as response:
                for line in response:
                    if line.startswith(b"data: {"):
                        self.times[-1].append(time.monotonic())
                    if self.stop.is_set():
                        break
            seed += 1


def gaps(server, seconds, shaped):
    """Milliseconds between the events of the free half, of a round in which the other half is free or has a shape."""
    streams = [Stream(server, number, SHAPE if shaped and number % 2 else None) for number in range(STREAMS)]
    for stream in streams:
        stream.start()
    time.sleep(SETTLE_S)
    begin = time.monotonic()
    time.sleep(seconds)
    end = time.monotonic()
    for stream in streams:
        stream.stop.set()
    for stream in streams:
        stream.join(30)
    found = []
    for stream in streams[::2]:
        for answer in stream.times:
            # The first event has no token.
            found += [1e3 * (b - a) for a, b in zip(answer[1:], answer[2:]) if begin <= a and b <= end]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=DEFAULT_BINARY)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--rounds", type=count, default=6)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--flags", default="", help="more flags of the server")
    arguments = parser.parse_args()
    ratios = {"median": [], "p99": []}
    print(f"two spinning processes: {spin.gain():.2f} of one (a quiet machine: {spin.QUIET} or more)")
    with ServerProcess(arguments.binary, arguments.model, arguments.flags.split()) as server:
        gaps(server, arguments.seconds, shaped=True)  # the schema is compiled once
        for round_ in range(arguments.rounds):
            order = (False, True) if round_ % 2 == 0 else (True, False)
            measured = {shaped: gaps(server, arguments.seconds, shaped) for shaped in order}
            parts = []
            for name, share in (("median", 0.5), ("p99", 0.99)):
                free, beside = (percentile(measured[shaped], share) for shaped in (False, True))
                ratios[name].append(beside / free)
                parts.append(f"{name} {free:.1f} ms among free ones, {beside:.1f} beside shapes")
            print(f"round {round_ + 1}: {'; '.join(parts)}", flush=True)
    for name, values in ratios.items():
        print(f"{name}: {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
