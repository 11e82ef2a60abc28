"""A Ray Serve application of three hydrantds on this machine, and clients of it. Standard library, and `serve` of the venv."""

import functools
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
APP = ROOT / "deploy" / "ray_serve"
BINARY = pathlib.Path(os.environ.get("HYDRANTD", ROOT / "build" / "release" / "hydrantd"))
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
PATIENCE_S = 180

sys.path.insert(0, str(ROOT / "tests"))
import server_process  # noqa: E402
from server_process import end_with_parent, free_port  # noqa: E402

wait_for = functools.partial(server_process.wait_for, timeout=PATIENCE_S, pause=0.1)


def serve_program():
    """`serve` of a virtual environment with deploy/ray_serve/requirements.txt, named by HYDRANT_RAY_VENV; ends the script without."""
    venv = os.environ.get("HYDRANT_RAY_VENV", "")
    program = pathlib.Path(venv) / "bin" / "serve"
    if not venv or not program.exists():
        print("skipped: HYDRANT_RAY_VENV names no virtual environment with ray[serve] (deploy/ray_serve/requirements.txt, 493 MB)")
        sys.exit(SKIPPED)
    for path in (BINARY, MODEL):
        if not path.exists():
            print(f"skipped: there is no {path}")
            sys.exit(SKIPPED)
    return program


def small_model(folder):
    path = folder / "small.gguf"
    subprocess.run([sys.executable, "-B", ROOT / "tests/conformance/small_model.py", MODEL, path], check=True)
    return path


class Cluster:
    """`replicas`: how many, where there is no `autoscaling` configuration."""

    def __init__(self, program, model=None, settings=None, replicas=3, autoscaling=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hydrant-ray-"))
        self.sessions = self.folder / "sessions"
        self.port = free_port()
        self._program = program
        self._model = str(model or small_model(self.folder))
        self._settings = {"threads": 1, "num_gpu_blocks_override": 4096, "max_model_len": 4096,
                          "kv_policy": "h2o", "kv_budget": 64, **(settings or {})}  # fmt: skip
        self._shape = {"num_replicas": replicas} if autoscaling is None else {"autoscaling_config": autoscaling}
        self._version = 0
        self._log = open(self.folder / "serve.log", "w+")
        self._environment = dict(
            os.environ, RAY_USAGE_STATS_ENABLED="0", PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=str(APP), RAY_SERVE_LOG_TO_STDERR="1",
            RAY_AUTH_MODE="disabled", PATH=f"{program.parent}:{os.environ['PATH']}", RAY_DEDUP_LOGS="0",
        )  # fmt: skip
        self._process = subprocess.Popen(
            [program, "run", "--app-dir", APP, self.write()], stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            env=self._environment, preexec_fn=end_with_parent, cwd=self.folder,
        )  # fmt: skip
        try:
            self.wait_for_replicas(replicas if autoscaling is None else autoscaling["min_replicas"])
        except BaseException:
            print(self.log()[-8000:])
            self.end()
            raise

    def write(self):
        deployment = {"name": "Hydrant", "ray_actor_options": {"num_cpus": 0.1}, **self._shape}
        config = {
            "http_options": {"host": "127.0.0.1", "port": self.port},
            "applications": [{
                "name": "hydrant", "import_path": "hydrant_ray.app:build", "route_prefix": "/", "deployments": [deployment],
                "args": {"hydrantd": str(BINARY), "model": self._model, "directory": str(self.sessions), "stop_patience_s": 20,
                         "settings": {**self._settings, "session_purge_s": 3600 + self._version}},
            }],
        }  # fmt: skip
        path = self.folder / "serve.yaml"
        path.write_text(json.dumps(config))  # which is YAML, too
        return path

    def deploy(self, replicas=None, new_version=False):
        """As `serve deploy` does: another number of replicas, or the same ones upgraded one by one."""
        self._version += new_version
        if replicas is not None:
            self._shape = {"num_replicas": replicas}
        code = ("import sys,json,ray\nfrom ray.serve.schema import ServeDeploySchema\nfrom ray.serve._private.api import serve_start\n"
                "ray.init(address='auto',namespace='serve',logging_level=50)\n"
                "client=serve_start()\nclient.deploy_apps(ServeDeploySchema(**json.load(open(sys.argv[1]))))\n")  # fmt: skip
        subprocess.run(
            [self._program.parent / "python", "-c", code, self.write()], check=True, env=self._environment, cwd=self.folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE_S,
        )  # fmt: skip

    def log(self):
        self._log.flush()
        return (self.folder / "serve.log").read_text(errors="replace")

    def daemons(self):
        """{slot: pid} of the hydrantds that answer on their sockets."""
        found = {}
        for path in self.sessions.glob("slot-*"):
            pid = self._pid_of(path)
            if pid:
                found[int(path.name.split("-")[1])] = pid
        return found

    def _pid_of(self, path):
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if str(path / "admin.sock").encode() in words and words[0].endswith(b"hydrantd"):
                return int(entry.parent.name)
        return None

    def admin(self, slot, path):
        """The body of a GET on the daemon's admin socket; None where nobody answers."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            try:
                connection.connect(str(self.sessions / f"slot-{slot}" / "admin.sock"))
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                data = b"".join(iter(lambda: connection.recv(65536), b""))
            except OSError:
                return None
        head, _, body = data.partition(b"\r\n\r\n")
        return body.decode() if b" 200 " in head.split(b"\r\n")[0] else None

    def sessions_of(self, slot):
        body = self.admin(slot, "/admin/sessions?limit=1000")
        return {card["id"]: card for card in json.loads(body)["data"]} if body else {}

    def wait_for_replicas(self, count):
        """Until so many daemons answer, and the proxy, and those that were there before are gone."""

        def there():
            assert self._process.poll() is None, f"serve ended with {self._process.returncode}"
            daemons = self.daemons()
            if len(daemons) != count or not all(self.admin(slot, "/metrics") for slot in daemons):
                return False
            # The proxy hears of replicas a little later.
            seen = {self.ask("/v1/models", X_Session_ID=f"probe-{i}")[1].get("x-hydrant-replica") for i in range(16 * count)}
            return seen == {f"slot-{slot}" for slot in daemons}

        wait_for(f"{count} replicas", there)

    def ask(self, path, body=None, timeout=60, **fields):
        """(status, head fields, body) of one request; (None, {}, reason) where there is no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in fields.items()}}
            connection.request("GET" if body is None else "POST", path, data, headers)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return None, {}, repr(error)
        finally:
            connection.close()

    def end(self):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Chat(threading.Thread):
    """A session that takes turn after turn until it is told to stop; whole histories of token ids, or what is new alone (`append`)."""

    def __init__(self, cluster, index, pause_s=0.1, by_body=False, append=False):
        super().__init__(daemon=True)
        self.session = f"chat-{index}"
        self.turns = []  # (slot, whether it was resumed)
        self.failed = []
        self.pause_s = pause_s
        self._cluster, self._index, self._by_body, self._append = cluster, index, by_body, append
        self._history = []
        self._asked = threading.Event()

    def take_turn(self):
        prompt = self._history + [1000 + 50 * self._index + len(self.turns)] * 8
        body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        fields = {} if self._by_body else {"X-Session-ID": self.session}
        if self._by_body:
            body["session_id"] = self.session
        if self._append and self.turns:
            body |= {"prompt": prompt[len(self._history) :], "session_append": True}
        status, head, text = self._cluster.ask("/v1/completions", body, **fields)
        if status != 200:
            self.failed.append((time.monotonic(), status, text[:300]))
            return
        answer = json.loads(text)
        if answer["usage"]["prompt_tokens"] != len(prompt):
            self.failed.append((time.monotonic(), "what was said is not what was gone on from", text[:300]))
        self._history = prompt + answer["choices"][0]["token_ids"]
        self.turns.append((head["x-hydrant-replica"], answer["hydrant"]["resumed"]))

    def run(self):
        while not self._asked.is_set():
            self.take_turn()
            self._asked.wait(self.pause_s)

    def stop(self):
        self._asked.set()
        self.join(120)
