"""Starts, watches and ends one hydrantd. Everything a test wants to know about the process comes from here."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

import raw_http

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_MODEL = REPOSITORY / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"

# How much slower than a Release build the binary is: 1 for Release, more for instrumented ones. Deadlines grow with it,
# counts shrink.
SLOW = float(os.environ.get("HYDRANT_SLOW", "1"))
# How long the tests wait for what takes a moment, on a machine that may have other things to do. What they guard against is
# that it never comes: only a failure waits for so long.
PATIENCE_S = 30.0
# A stream of this takes minutes, so that what a test does beside it is beside it.
ENDLESS = {"max_tokens": 1_000_000, "ignore_eos": True, "kv": {"policy": "window", "budget": 16, "position": "rolling"}}

# Stands in every prompt of the suite; the log must never hold it.
PROMPT_MARK = "zqx-prompt-mark"
API_KEY = "zqx-secret-key"

SANITIZER_REPORT = re.compile(r"(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error:")


def binary_path():
    return pathlib.Path(os.environ.get("HYDRANTD", REPOSITORY / "build" / "release" / "hydrantd"))


def model_path():
    return pathlib.Path(os.environ.get("HYDRANT_MODEL", DEFAULT_MODEL))


def run_to_end(*arguments, timeout=60.0):
    """Runs hydrantd with these arguments until it ends by itself: returncode, stdout and stderr."""
    command = [str(binary_path()), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout * SLOW)


class Server:
    """A running hydrantd on a port of its own, with the suite's model or another. Its stdout and stderr go to a file."""

    def __init__(self, *flags, model=None, start_timeout=60.0):
        self._log_file = tempfile.NamedTemporaryFile(prefix="hydrantd-", suffix=".log", delete=False)
        self._process = subprocess.Popen(
            # What the process says of itself in /proc is closed to others without that flag, to its own user too.
            [str(binary_path()), "serve", str(model or model_path()), "--port", "0", "--allow-core-dumps",
             *map(str, flags)],
            stdin=subprocess.DEVNULL,
            stdout=self._log_file,
            stderr=subprocess.STDOUT,
        )
        self.flags = flags
        self.address = self._wait_until_listening(start_timeout * SLOW)
        self.key = API_KEY if "--api-key" in flags else None

    def _wait_until_listening(self, timeout):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            found = re.search(r"listening on http://([0-9.]+):([0-9]+)", self.log())
            if found:
                return found.group(1), int(found.group(2))
            if self._process.poll() is not None:
                raise AssertionError(f"hydrantd ended with {self._process.returncode}:\n{self.log()}")
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"hydrantd does not listen after {timeout} s:\n{self.log()}")

    @property
    def pid(self):
        return self._process.pid

    @property
    def url(self):
        return f"http://{self.address[0]}:{self.address[1]}"

    def running(self):
        return self._process.poll() is None

    def log(self):
        with open(self._log_file.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    # --- ending -------------------------------------------------------------------------------------------------------

    def signal(self, number=signal.SIGTERM):
        self._process.send_signal(number)

    def wait(self, timeout):
        return self._process.wait(timeout)

    def kill(self):
        if self.running():
            self._process.kill()
            self._process.wait()

    def stop(self, timeout=20.0):
        """SIGTERM; returns the exit code. Kills after the deadline, which is a failure."""
        if self.running():
            self.signal()
            try:
                self.wait(timeout * SLOW)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"hydrantd did not stop within {timeout * SLOW} s of SIGTERM") from None
        return self._process.returncode

    def check_log(self):
        """No sanitizer report, no prompt, no key."""
        log = self.log()
        report = SANITIZER_REPORT.search(log)
        assert report is None, log[max(0, report.start() - 200) : report.start() + 4000]
        assert PROMPT_MARK not in log, "the log holds prompt text"
        assert API_KEY not in log, "the log holds the API key"

    def remove_log(self):
        with contextlib.suppress(OSError):
            os.unlink(self._log_file.name)

    # --- the process, seen from outside -------------------------------------------------------------------------------

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def _status_kib(self, name):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            return int(re.search(rf"^{name}:\s+([0-9]+) kB", file.read(), re.MULTILINE).group(1))

    def rss_kib(self):
        return self._status_kib("VmRSS")

    def peak_rss_kib(self):
        """The most since reset_peak."""
        return self._status_kib("VmHWM")

    def reset_peak(self):
        with open(f"/proc/{self.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")

    def cpu_s(self):
        """User and system time so far."""
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
            values = file.read().rsplit(")", 1)[1].split()
        return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")

    # --- requests -----------------------------------------------------------------------------------------------------

    def connect(self, timeout=60.0, **kwargs):
        return raw_http.Connection(self.address, timeout * SLOW, **kwargs)

    def _auth(self, fields):
        return list(fields) + ([("Authorization", f"Bearer {self.key}")] if self.key else [])

    def host(self):
        return f"{self.address[0]}:{self.address[1]}"

    def get(self, path, fields=(), method="GET", timeout=60.0):
        with self.connect(timeout) as connection:
            connection.send(
                raw_http.head(method, path, self._auth(fields) + [("Connection", "close")], host=self.host())
            )
            return connection.read_response(method=method)

    def post(self, path, body, fields=(), timeout=60.0):
        """POST on a connection of its own. `body` is bytes, or anything json.dumps takes."""
        with self.connect(timeout) as connection:
            fields = self._auth(fields) + [("Connection", "close")]
            connection.try_send(raw_http.post(path, body, fields, host=self.host()))
            return connection.read_response()

    def complete(self, **body):
        """A completion that must succeed, as a dict."""
        response = self.post("/v1/completions", body)
        assert response.status == 200, response.body
        return response.json()

    def open_stream(self, connection=None, path="/v1/completions", **body):
        """Sends a streamed request; the caller reads it with read_events."""
        connection = connection or self.connect()
        body["stream"] = True
        connection.send(raw_http.post(path, body, self._auth([]), host=self.host()))
        return connection

    def stream(self, **body):
        """A whole stream: the list of its JSON chunks, [DONE] checked and left out."""
        with self.open_stream(**body) as connection:
            response = connection.read_head()
            assert response.status == 200, connection.read_to_end()
            return [json.loads(event) for event in read_events(connection)]

    def metrics(self):
        """Series -> value, as exposed."""
        response = self.get("/metrics")
        assert response.status == 200
        values = {}
        for line in response.body.decode("utf-8").splitlines():
            if line and not line.startswith("#"):
                series, value = line.rsplit(" ", 1)
                values[series] = float(value)
        return values

    def gauges(self):
        """What must come back to where it was when nothing runs."""
        metrics = self.metrics()
        return {
            "running": metric(metrics, "vllm:num_requests_running"),
            "waiting": metric(metrics, "vllm:num_requests_waiting"),
            "blocks used": metric(metrics, "hydrant_kv_blocks", state="used"),
        }

    def wait_idle(self):
        """Waits until nothing runs and no block is in use."""
        return wait_for(lambda: all(value == 0 for value in self.gauges().values()), self.gauges)


def metric(metrics, name, **labels):
    """The value of the one series called `name` whose labels include `labels`."""
    found = []
    for series, value in metrics.items():
        series_name, _, text = series.partition("{")
        have = dict(re.findall(r'([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"', text))
        if series_name == name and all(have.get(key) == wanted for key, wanted in labels.items()):
            found.append(value)
    assert len(found) == 1, f"{len(found)} series match {name} {labels}"
    return found[0]


def read_events(connection):
    """The payloads of a stream's events, [DONE] checked and left out. Every framing rule is checked on the way."""
    pending = b""
    done = False
    for chunk in connection.chunks():
        pending += chunk
        while b"\n\n" in pending:
            event, pending = pending.split(b"\n\n", 1)
            assert not done, "an event after [DONE]"
            if event == b": still here":  # a server that has to wait says so
                continue
            assert event.startswith(b"data: "), event
            payload = event[len(b"data: ") :].decode("utf-8")  # strict: half a character is an error
            assert "\n" not in payload and "\r" not in payload
            if payload == "[DONE]":
                done = True
            else:
                yield payload
    assert not pending, f"text after the last event: {pending!r}"
    assert done, "the stream ended without [DONE]"


def wait_for(condition, describe=lambda: "", timeout=PATIENCE_S):
    """Polls until `condition()` is true; returns the seconds it took. `timeout` is for a Release build."""
    started = time.monotonic()
    while True:
        if condition():
            return time.monotonic() - started
        if time.monotonic() - started > timeout * SLOW:
            raise AssertionError(f"not within {timeout * SLOW} s: {describe()}")
        time.sleep(0.02)


class Companion:
    """A stream beside a test: repeats one greedy completion and compares it, chunk by chunk, with the text it has alone.

    When the test is over the stream under way has to give one more chunk; then it is left where it is."""

    def __init__(self, server, body, expected):
        self._server = server
        self._body = body
        self._expected = expected
        self._stop = threading.Event()
        self._error = None
        self.runs = 0
        self.arrivals = []  # when each event came
        self._first_chunk = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        self._first_chunk.wait(30 * SLOW)
        return self

    def _run(self):
        try:
            while True:
                text = ""
                over = False
                with self._server.open_stream(**self._body) as connection:
                    response = connection.read_head()
                    assert response.status == 200, f"the companion got {response.status}"
                    for event in read_events(connection):
                        self.arrivals.append(time.monotonic())
                        text += json.loads(event)["choices"][0]["text"]
                        assert self._expected.startswith(text), f"the companion's text changed: {text!r}"
                        self._first_chunk.set()
                        if over:
                            return
                        over = self._stop.is_set()
                assert text == self._expected, f"the companion's text changed: {text!r}"
                self.runs += 1
                if self._stop.is_set():
                    return
        except Exception as error:  # handed to the test's thread below
            self._error = error
            self._first_chunk.set()

    def __exit__(self, kind, *_):
        self._stop.set()
        self._thread.join(60 * SLOW)
        assert not self._thread.is_alive(), "the companion hangs"
        if self._error is not None and kind is None:
            raise self._error
