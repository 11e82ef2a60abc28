#!/usr/bin/env python3
"""`./hydrant bench operations`: how long a scrape of /metrics takes while the server is fully loaded, and how long after a client went
away its KV blocks are free. The real server on the default model; docs/operations.md holds the figures.

Load: 64 streams that never pause, each 300 prompt tokens and 150 generated ones under h2o with a budget of 256, from a process of
its own. Scrapes come every 50 ms, as gateways send them, on one connection. A client that goes away is a tenant of its own, whose blocks
/metrics shows: it is asked again and again from the moment the socket is closed, so a time holds the scrape that said zero. Alone on the
machine, or the times mean little. Two minutes; exit code 1: a target was missed. Python's standard library only."""

import argparse
import asyncio
import hashlib
import http.client
import json
import multiprocessing
import os
import pathlib
import random
import re
import socket
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from isolation_http import Connection, post
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ServerProcess, count

SCRAPE_TARGET_S, ABORT_TARGET_S = 0.050, 0.250
STREAMS = 64
SCRAPE_EVERY_S = 0.05
WARM_UP_S = 5
ADMIN_KEY = "admin-key"
H2O = {"policy": "h2o", "budget": 256}
FLAGS = ("--num-gpu-blocks-override", 4096, "--max-num-seqs", STREAMS + 8, "--admin-port", 0, "--admin-api-key", ADMIN_KEY)


def ids(noise, count):
    return [noise.randrange(300, 40000) for _ in range(count)]


def stream_body(noise, prompt, max_tokens):
    return {"prompt": ids(noise, prompt), "max_tokens": max_tokens, "ignore_eos": True, "stream": True, "temperature": 0, "kv": H2O}


class Server(ServerProcess):
    """With `count` tenants: the load, who goes away, and others that only have series."""

    def __init__(self, arguments, count):
        names = ["load", "leaver", *(f"tenant-{number}" for number in range(count - 2))]
        tenants = [{"name": name, "api_keys_sha256": [hashlib.sha256(f"{name}-key".encode()).hexdigest()]} for name in names]
        with tempfile.TemporaryDirectory(prefix="hydrant-operations-") as directory:
            path = pathlib.Path(directory) / "tenants.json"
            path.touch(mode=0o600)
            path.write_text(json.dumps({"tenants": tenants}))
            super().__init__(arguments.binary, arguments.model, ("--tenants", path, *FLAGS))
        self.address = self._split(self.base)
        self._admin = http.client.HTTPConnection(*self._split(next(line.split()[-1] for line in self.log if "admin listener on" in line)))

    @staticmethod
    def _split(url):
        host, port = url.removeprefix("http://").split(":")
        return host, int(port)

    def scrape(self):
        """(seconds, text)"""
        began = time.perf_counter()
        self._admin.request("GET", "/metrics", headers={"Authorization": f"Bearer {ADMIN_KEY}"})
        text = self._admin.getresponse().read()
        return time.perf_counter() - began, text

    def blocks_of_leaver(self):
        return float(re.search(rb'^hydrant_blocks\{tenant="leaver"\} (\S+)$', self.scrape()[1], re.MULTILINE)[1])


def load(address, streams):
    """Keeps so many streams open until it is ended."""

    async def one(number):
        noise = random.Random(number)
        connection = await Connection.open(address)
        while True:
            status = await connection.ask(post(stream_body(noise, 300, 150), "load-key"))
            assert status == 200, status

    async def all_of_them():
        await asyncio.gather(*(one(number) for number in range(streams)))

    asyncio.run(all_of_them())


class Load:
    def __init__(self, server, streams):
        self.process = multiprocessing.Process(target=load, args=(server.address, streams), daemon=True)
        self.streams = streams

    def __enter__(self):
        if self.streams:
            self.process.start()
            time.sleep(WARM_UP_S)

    def __exit__(self, *_):
        if self.streams:
            assert self.process.is_alive(), "the load ended by itself"
            self.process.terminate()
            self.process.join()


def measure_scrapes(server, seconds):
    times, begin = [], time.perf_counter()
    size = 0
    while (now := time.perf_counter() - begin) < seconds:
        took, text = server.scrape()
        times.append(took)
        size = len(text)
        time.sleep(max(0.0, SCRAPE_EVERY_S - (time.perf_counter() - begin - now)))
    return times, size


def go_away(server, noise, prompt, events):
    """Seconds from the end of a client, after so many events of its stream, to a scrape that says its blocks are free. With no events
    to wait for, it goes while its prompt is computed."""
    with socket.create_connection(server.address) as client:
        client.sendall(post(stream_body(noise, prompt, 400), "leaver-key"))
        seen = 0
        while seen < events:
            seen += client.recv(65536).count(b"data: {")
        while server.blocks_of_leaver() == 0:
            time.sleep(0.005)
        time.sleep(noise.random() * 0.2)  # at any moment of a step
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # as a killed process's: reset
    began = time.perf_counter()
    while server.blocks_of_leaver() > 0:
        time.sleep(0.005)  # a scrape costs the server 2 ms
    return time.perf_counter() - began


def row(what, times, target):
    """Whether the target was met."""
    times = sorted(times)
    p99 = times[min(len(times) - 1, int(0.99 * len(times)))]
    print(f"{what:<58} {len(times):>5} {1e3 * statistics.median(times):>8.1f} {1e3 * p99:>8.1f} {1e3 * times[-1]:>8.1f} "
          f"{1e3 * target:>6.0f} {'ok' if p99 < target else 'MISSED':>7}", flush=True)  # fmt: skip
    return p99 < target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=DEFAULT_BINARY)
    parser.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL)
    parser.add_argument("--seconds", type=float, default=30, help="of scrapes, per row")
    parser.add_argument("--aborts", type=count, default=40, help="per row")
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"{'':<58} {'count':>5} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'target':>6}")
    met = []
    for tenants in (2, 100):
        with Server(arguments, tenants) as server, Load(server, STREAMS):
            times, size = measure_scrapes(server, arguments.seconds)
            met.append(row(f"/metrics, {STREAMS} streams, {tenants} tenants ({size // 1000} kB)", times, SCRAPE_TARGET_S))
    for streams in (0, STREAMS):
        with Server(arguments, 2) as server, Load(server, streams):
            noise = random.Random(streams)
            beside = f"beside {streams} streams" if streams else "alone"
            for what, prompt, events in (("while it generates", 300, 3), ("while its prompt of 6,000 is computed", 6000, 0)):
                times = [go_away(server, noise, prompt, events) for _ in range(arguments.aborts)]
                met.append(row(f"client gone {what}, {beside}", times, ABORT_TARGET_S))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
