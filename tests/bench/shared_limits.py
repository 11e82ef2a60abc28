#!/usr/bin/env python3
"""What --shared-limits adds to the first token: streams of two tokens, one at a time, of three servers in turn, of which one has no
store, one asks it once per request (rpm) and one twice (rpm and tpm). The store is a redis-server on a Unix socket, or with --tcp on
loopback. Prints milliseconds to the first event. Standard library only."""

import argparse
import http.client
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "deploy"))

import serving
from serving import TenantServer

PORT = 16379
RPM, TPM = {"rpm": 10**9, "concurrency_max": 100}, {"tpm": 10**12, "sequences_max": 100}
SETTINGS = {"no store": RPM | TPM, "rpm": RPM, "rpm, tpm": RPM | TPM}


class Client:
    def __init__(self, server):
        url = urllib.parse.urlsplit(server.base)
        self.connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
        self.times = []

    def ask(self):
        body = json.dumps({"prompt": [100, 200, 300], "max_tokens": 2, "ignore_eos": True, "stream": True})
        began = time.perf_counter()
        self.connection.request("POST", "/v1/completions", body, {"Authorization": "Bearer t-key", "Content-Type": "application/json"})
        response = self.connection.getresponse()
        response.readline()
        self.times.append((time.perf_counter() - began) * 1e3)
        assert response.status == 200
        response.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="of each server")
    parser.add_argument("--tcp", action="store_true")
    options = parser.parse_args()
    folder = serving.folder("shared_limits_bench")
    with tempfile.TemporaryDirectory(prefix="hydrant-store-") as place:
        path = f"{place}/s"
        where = ["--bind", "127.0.0.1", "--port", str(PORT)] if options.tcp else ["--port", "0", "--unixsocket", path]
        store = subprocess.Popen([shutil.which("redis-server"), *where, "--save", ""], stdout=subprocess.DEVNULL)
        url = f"redis://127.0.0.1:{PORT}" if options.tcp else f"unix://{path}"
        servers, clients = [], {}
        try:
            for name, limits in SETTINGS.items():
                own = folder / name.replace(", ", "_").replace(" ", "_")
                own.mkdir(exist_ok=True)
                flags = ("--shared-limits", url) if name != "no store" else ()
                servers.append(TenantServer(own, {"t": limits}, ("--threads", 1, *flags)))
                clients[name] = Client(servers[-1])
            time.sleep(6)  # the longest pause of a server that found no store yet
            for _ in range(options.requests):
                for client in clients.values():
                    client.ask()
            for name, client in clients.items():
                steps = statistics.quantiles(client.times, n=100)
                print(f"{name:10} p50 {steps[49]:.3f} p90 {steps[89]:.3f} p99 {steps[98]:.3f} ms")
            for server in servers[1:]:
                print(*[line for line in server.metrics_text().splitlines() if line.startswith("hydrant_shared_limits")], sep="\n")
        finally:
            for server in servers:
                server.stop()
            store.kill()


if __name__ == "__main__":
    main()
