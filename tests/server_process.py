"""Runs the real hydrantd for scripts: started on a free port, ready when the constructor returns, stopped at the end of a
`with` block. Python's standard library only."""

import argparse
import ctypes
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEFAULT_MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
DEFAULT_BINARY = ROOT / "build" / "release" / "hydrantd"
READY_TIMEOUT_S = 120
STOP_TIMEOUT_S = 30


def made_up_ids(seed, count):
    """Token ids of a prompt that no other seed begins alike; any model of 40,100 tokens or more has them."""
    return [(seed * 7919 + i * 104729) % 40000 + 100 for i in range(count)]


def processor_name():
    """As /proc/cpuinfo has it; empty where it has none."""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return ""


def end_with_parent():
    """Called in the child: a script that is killed leaves no server behind."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port():
    """A port of loopback that nobody had a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, condition, timeout=30.0, pause=0.02):
    """What `condition()` returns once that is true; AssertionError, which says `what`, after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(pause)
    return result


class NotReady(RuntimeError):
    """The server ended, or did not become ready; `code` is its exit code."""

    def __init__(self, code, log):
        super().__init__("hydrantd did not become ready:\n" + log)
        self.code, self.log = code, log


def count(text):
    """A number above 0, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return int(text)


class ServerProcess:
    """`environment`: variables besides the script's own."""

    def __init__(self, binary=DEFAULT_BINARY, model=DEFAULT_MODEL, flags=(), environment=None, port=0):
        self.log = []
        self._listening = threading.Event()
        started = time.monotonic()
        self.process = subprocess.Popen(
            [str(binary), "serve", str(model), "--host", "127.0.0.1", "--port", str(port), *map(str, flags)],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, errors="replace", preexec_fn=end_with_parent,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
        threading.Thread(target=self._read_log, daemon=True).start()
        if not self._listening.wait(READY_TIMEOUT_S) or self.base is None:
            raise NotReady(self.stop(), "".join(self.log[-20:]))
        self.ready_s = time.monotonic() - started

    def _read_log(self):
        self.base = None
        for line in self.process.stderr:
            self.log.append(line)
            match = re.search(r"listening on (http://\S+)", line)
            if match:
                self.base = match[1]
                self._listening.set()
        self._listening.set()  # it ended: whoever waits looks at `base`

    @property
    def pid(self):
        return self.process.pid

    def get(self, path):
        with urllib.request.urlopen(self.base + path, timeout=60) as response:
            return response.read().decode()

    def open(self, path, body):
        """The response object of a POST, for streams."""
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"})
        try:
            return urllib.request.urlopen(request, timeout=600)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.code} {error.read().decode(errors='replace')}") from None

    def post(self, path, body):
        with self.open(path, body) as response:
            return json.load(response)

    def metrics_text(self):
        return self.get("/metrics")

    def metric(self, name, **labels):
        """The sum of a metric's series that carry these labels."""
        total = 0.0
        for line in self.metrics_text().splitlines():
            if re.match(re.escape(name) + r"[{ ]", line) and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def cpu_s(self, *names):
        """Processor time used so far, by the threads of these names or by all."""
        threads = pathlib.Path(f"/proc/{self.pid}/task").iterdir()
        those = [thread for thread in threads if not names or (thread / "comm").read_text().strip() in names]
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in those) / 1e9

    def stop(self):
        """SIGTERM and the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
