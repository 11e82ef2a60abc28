"""Replicas of hydrantd behind the balancer, and clients that talk to them. Python's standard library only."""

import http.client
import json
import os
import pathlib
import re
import signal
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("HYDRANTD", ROOT / "build" / "release" / "hydrantd"))
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
START_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 60
ADMIN_KEY = "an-operators-key"
OPERATORS = ("/metrics", "/load", "/v1/loads")  # paths that no gateway passes on

sys.path.insert(0, str(ROOT / "tests"))
from server_process import end_with_parent, wait_for  # noqa: E402


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIPPED)


def skip_without(tools, programs, build):
    """Ends the script where a tool is not installed, or a program not in the folder `build`."""
    for program in tools:
        if not shutil.which(program):
            skip(f"{program} is not installed")
    for program in programs:
        if not (build / program).exists():
            skip(f"there is no {program} in {build}")


def small_model():
    """A tiny random network with the default model's tokenizer; ends the script where there is none to make it of."""
    if not BINARY.exists():
        skip(f"there is no hydrantd at {BINARY}")
    if not MODEL.exists():
        skip(f"there is no model at {MODEL} (./hydrant up fetches it)")
    path = pathlib.Path(tempfile.mkdtemp(prefix="hydrant-deploy-")) / "small.gguf"
    subprocess.run([sys.executable, "-B", ROOT / "tests/conformance/small_model.py", MODEL, path], check=True)
    return path


def ask(port, method, path, body=None, **fields):
    """(status, body) of one request; (None, reason) where there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json", **fields})
        response = connection.getresponse()
        return response.status, response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return None, str(error)
    finally:
        connection.close()


class Process:
    """A program whose output is kept; ended with the script."""

    def __init__(self, command, before_exec=None, **options):
        """`before_exec`: called in the new process."""

        def prepare():
            end_with_parent()
            if before_exec is not None:
                before_exec()

        self._log = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            preexec_fn=prepare, **options,
        )  # fmt: skip

    def log(self):
        self._log.flush()
        with open(f"/proc/self/fd/{self._log.fileno()}", errors="replace") as file:
            return file.read()

    def find(self, pattern, timeout=START_TIMEOUT_S):
        """The first match in its output; AssertionError where it ends without."""

        def look():
            found = re.search(pattern, self.log())
            assert found or self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.log()}"
            return found

        return wait_for(f"{pattern!r} in the output", look, timeout)

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self, timeout=ANSWER_TIMEOUT_S):
        return self.process.wait(timeout)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Replica(Process):
    """A hydrantd on a port of its own, with an admin listener."""

    def __init__(self, model, *flags, port=0):
        flags = ["--threads", 1, "--num-gpu-blocks-override", 8192, "--max-model-len", 8192, "--admin-port", 0, *flags]
        environment = dict(os.environ, HYDRANT_ADMIN_KEY=ADMIN_KEY)
        super().__init__([BINARY, "serve", model, "--port", port, *flags], env=environment)
        self.port = int(self.find(r"\blistening on http://127\.0\.0\.1:(\d+)")[1])
        self.admin_port = int(self.find(r"admin listener on http://127\.0\.0\.1:(\d+)")[1])

    def ask(self, method, path, body=None):
        return ask(self.port, method, path, body)

    def ask_admin(self, method, path, body=None):
        return ask(self.admin_port, method, path, body, Authorization=f"Bearer {ADMIN_KEY}")


class Turn:
    """What became of one streamed request."""

    def __init__(self, replica, events):
        self.replica = replica
        choices = [choice for event in events for choice in event["choices"]]
        self.tokens = [token for choice in choices for token in choice.get("token_ids") or []]
        self.finish = choices[-1]["finish_reason"]
        self.cached = events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"]


class Client:
    """One kept connection to the balancer, as an SDK has; a closed one is opened again before the next request."""

    def __init__(self, port, fields=()):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S)
        self._fields = {"Content-Type": "application/json", **dict(fields)}

    def place_of(self, session):
        """The replica that this session's requests go to."""
        self._connection.request("GET", "/v1/models", headers={**self._fields, "X-Session-ID": session})
        response = self._connection.getresponse()
        response.read()
        return response.getheader("X-Served-By")

    def stream(self, started=None, **body):
        """Reads a stream to its end. AssertionError unless it is a whole one; OSError or HTTPException where it is cut.
        `started`: a threading.Event to set with the first token."""
        body = {"temperature": 0, "ignore_eos": True, "return_token_ids": True, "stream": True,
                "stream_options": {"include_usage": True}, **body}  # fmt: skip
        self._connection.request("POST", "/v1/completions", json.dumps(body), self._fields)
        response = self._connection.getresponse()
        assert response.status == 200, f"{response.status}: {response.read().decode(errors='replace')}"
        payloads = []
        for line in response:
            if line.startswith(b"data: "):
                payloads.append(line[len(b"data: ") :].strip())
                if started is not None:
                    started.set()
        assert payloads and payloads[-1] == b"[DONE]", f"a stream without [DONE], after {len(payloads)} events"
        events = [json.loads(payload) for payload in payloads[:-1]]
        assert not any("error" in event for event in events), events[-1]
        return Turn(response.getheader("X-Served-By"), events)


class Chat(threading.Thread):
    """A session that takes turn after turn through the balancer until it is told to stop. Histories are token ids, which
    leave no doubt about what a session's past is."""

    NEW_TOKENS = 10
    ANSWER_TOKENS = 20
    PAUSE_S = 0.2

    def __init__(self, port, index, **body):
        super().__init__(daemon=True)
        self.session = f"chat-{index}"
        self.turns = []  # (prompt, Turn)
        self.error = None
        self._client = Client(port, {"X-Session-ID": self.session})
        self._body = body
        self._index = index
        self._stop_asked = threading.Event()

    def take_turn(self):
        history = self.turns[-1][0] + self.turns[-1][1].tokens if self.turns else []
        # Chats differ from the first token on, so that none finds its past in what others computed.
        prompt = history + [1000 + 100 * self._index + len(self.turns)] * self.NEW_TOKENS
        turn = self._client.stream(prompt=prompt, max_tokens=self.ANSWER_TOKENS, **self._body)
        self.turns.append((prompt, turn))

    def run(self):
        try:
            while not self._stop_asked.is_set():
                self.take_turn()
                self._stop_asked.wait(self.PAUSE_S)
        except Exception as error:  # whoever stops it wants to know
            self.error = error

    def stop(self):
        self._stop_asked.set()
        self.join(ANSWER_TIMEOUT_S)
        return self.error
