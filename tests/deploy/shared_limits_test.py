"""Limits that several servers hold together in a real Redis (`--shared-limits`): exact over two of them, open or closed when the store
is killed, and going on when it is back. Standard library only."""

import concurrent.futures
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse

import serving
from serving import TenantServer, skip
from server_process import end_with_parent, free_port, wait_for

REDIS = shutil.which("redis-server")
PASSWORD = "the-password-of-the-test"
SHORT = {"prompt": "a b c", "max_tokens": 4, "ignore_eos": True}
PLACE_TTL_S = 10  # LimitStore::kPlaceTtlMs


def scripts():
    """What the server has the store run, by name."""
    text = (serving.ROOT / "server" / "shared_limits" / "limit_scripts.h").read_text(encoding="utf-8")
    parts = dict(re.findall(r'k(?:Script)?(\w+)\[\] = R"\((.*?)\)";', text, re.DOTALL))
    return {"Take": parts["Head"] + parts["TakeBody"], "Give": parts["Head"] + parts["GiveBody"]}


SCRIPTS = scripts()


class Store:
    """A redis-server in a folder of its own, on a Unix socket or a port of loopback."""

    def __init__(self, path=None, port=0, flags=()):
        self.path, self.port, self.flags = path, port, flags
        self.start()

    def start(self):
        where = ("--port", 0, "--unixsocket", self.path) if self.path else ("--bind", "127.0.0.1", "--port", self.port)
        command = [REDIS, *where, "--save", "", "--requirepass", PASSWORD, *self.flags]
        self.process = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent)  # fmt: skip
        wait_for("the store answers", lambda: self.answers())

    def answers(self):
        try:
            return self.call("PING") == b"+PONG"
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    @property
    def url(self):
        return f"unix://{self.path}" if self.path else f"redis://127.0.0.1:{self.port}"

    def call(self, *words):
        """The answer's line, a text's bytes, or a list of them."""
        connection = socket.socket(socket.AF_UNIX if self.path else socket.AF_INET)
        connection.settimeout(10)
        with connection:
            connection.connect(str(self.path) if self.path else ("127.0.0.1", self.port))
            file = connection.makefile("rwb")
            for command in (("AUTH", PASSWORD), words):
                encoded = [str(word).encode() for word in command]
                file.write(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(e), e) for e in encoded))
                file.flush()
                answer = self.read(file)
            return answer

    def read(self, file):
        line = file.readline().rstrip()
        if line[:1] == b"$" and line != b"$-1":
            return file.read(int(line[1:]) + 2)[:-2]
        return [self.read(file) for _ in range(int(line[1:]))] if line[:1] == b"*" else line

    def take(self, key, per_minute, amount):
        """What the script that asks answers: its verdict, what is left, the wait in microseconds."""
        words = (per_minute, amount, 0, 0, "name", 10_000)
        return [int(number[1:]) for number in self.call("EVAL", SCRIPTS["Take"], 2, key, key + ":places", *words)]

    def give(self, key, per_minute, amount):
        return self.call("EVAL", SCRIPTS["Give"], 2, key, key + ":places", per_minute, amount, 0, "name")


def ask(server, tenant, **body):
    """Status, fields and body of a completion."""
    try:
        with server.ask(tenant, {**SHORT, **body}) as response:
            return response.status, response.headers, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, json.load(error)


def store_away(server):
    return "\nhydrant_shared_limits_away 1" in server.metrics_text()


def asks(server, result):
    """How many questions to the store have ended so."""
    return server.metric("hydrant_shared_limits_asks_total", result=result)


class Open:
    """A stream whose first event has come, and which goes on until it is closed."""

    def __init__(self, server, tenant, **body):
        url = urllib.parse.urlsplit(server.base)
        self.connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
        rolling = {"policy": "window", "budget": 16, "position": "rolling"}
        body = {**SHORT, "stream": True, "max_tokens": 1_000_000, "kv": rolling, **body}
        headers = {"Authorization": f"Bearer {tenant}-key", "Content-Type": "application/json"}
        self.connection.request("POST", "/v1/completions", json.dumps(body), headers)
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.response.readline()

    def close(self):
        self.response.close()
        self.connection.close()


class SharedLimitsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = serving.folder("shared_limits")
        cls.password = cls.folder / "password"
        cls.password.write_text(PASSWORD + "\n", encoding="utf-8")
        cls.password.chmod(0o600)

    def setUp(self):
        # The path of a socket is short.
        folder = tempfile.mkdtemp(prefix="hydrant-store-")
        self.addCleanup(shutil.rmtree, folder)
        self.store = Store(path=f"{folder}/s")
        self.addCleanup(self.store.kill)

    def servers(self, tenants, count=2, store=None, flags=(), patience_s=2):
        """Several of these tests share a machine, so patience is long where it is not what is tested."""
        made = []
        for i in range(count):
            folder = self.folder / f"server{i}"
            folder.mkdir(exist_ok=True)
            where = ("--shared-limits", (store or self.store).url, "--shared-limits-password-file", self.password)
            server = TenantServer(folder, tenants, (*where, "--shared-limits-timeout-s", patience_s, *flags))
            self.addCleanup(server.stop)
            wait_for("the store is there", lambda server=server: not store_away(server))
            made.append(server)
        return made

    def test_requests_per_minute_are_counted_together(self):
        servers = self.servers({"t": {"rpm": 6}, "other": {}})
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(lambda i: ask(servers[i % 2], "t"), range(20)))
        elapsed = time.monotonic() - began
        granted = sum(status == 200 for status, _, _ in answers)
        # One comes back each ten seconds.
        self.assertGreaterEqual(granted, 6)
        self.assertLessEqual(granted, 6 + int(elapsed / 10))
        refusals = [answer for answer in answers if answer[0] != 200]
        for status, fields, body in refusals:
            self.assertEqual((status, body["error"]["param"]), (429, "rpm"))
            self.assertLessEqual(int(fields["retry-after"]), 10)
            self.assertEqual(fields["x-ratelimit-remaining-requests"], "0")
        self.assertTrue(any("on all servers together" in body["error"]["message"] for _, _, body in refusals))
        self.assertEqual(ask(servers[0], "other")[0], 200)
        self.assertIn('hydrant_shared_limits_asks_total{result="refused"}', servers[0].metrics_text())

    def test_tokens_are_taken_together_and_what_was_not_used_comes_back(self):
        servers = self.servers({"t": {"tpm": 1200}})
        stream = Open(servers[0], "t", max_tokens=900)
        self.assertEqual(stream.status, 200)
        status, _, body = ask(servers[1], "t", max_tokens=600)
        self.assertEqual((status, body["error"]["param"]), (429, "tpm"))
        self.assertIn("on all servers together", body["error"]["message"])
        stream.close()  # long before its 900 tokens
        status, fields, body = wait_for(
            "the rest comes back", lambda: (answer := ask(servers[1], "t", max_tokens=600))[0] == 200 and answer)
        used, _ = wait_for("it is given back", lambda: self.store.call("GET", "hydrant:{t}:tpm")).split()
        self.assertLess(float(used), 1200)
        self.assertGreater(float(used), 500)  # 600 generated, some drained meanwhile

    def test_open_requests_are_counted_together_and_go_with_their_server(self):
        servers = self.servers({"t": {"concurrency_max": 2}})
        streams = [Open(server, "t") for server in servers]
        self.assertEqual([stream.status for stream in streams], [200, 200])
        status, fields, body = ask(servers[0], "t")
        self.assertEqual((status, body["error"]["param"]), (429, "concurrency_max"))
        self.assertEqual(fields["x-ratelimit-remaining-requests"], "0")
        streams[0].close()
        wait_for("a place is free", lambda: ask(servers[0], "t")[0] == 200)
        again = wait_for("it is taken again", lambda: (found := Open(servers[1], "t")).status == 200 and found)
        self.assertEqual(ask(servers[0], "t")[0], 429)
        os.kill(servers[1].pid, signal.SIGKILL)
        began = time.monotonic()
        wait_for("its places end", lambda: ask(servers[0], "t")[0] == 200, timeout=PLACE_TTL_S + 30)
        print(f"the places of a server that was killed ended after {time.monotonic() - began:.1f} s")
        again.close()
        streams[1].close()

    def test_places_outlive_their_time_for_as_long_as_they_are_held(self):
        server, other = self.servers({"t": {"concurrency_max": 1}})
        url = urllib.parse.urlsplit(server.base)
        slow = socket.create_connection((url.hostname, url.port), timeout=60)  # whose body takes its time
        slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n"
                     b"Authorization: Bearer t-key\r\n\r\n{")  # fmt: skip
        wait_for("it has a place", lambda: self.store.call("ZCARD", "hydrant:{t}:open") == b":1")
        self.store.call("FLUSHALL")
        wait_for("it says again that it has them", lambda: self.store.call("ZCARD", "hydrant:{t}:open") == b":1")
        ends_us = float(self.store.call("ZRANGE", "hydrant:{t}:open", 0, 0, "WITHSCORES")[1])

        def over():
            slow.sendall(b" " * 1000)  # a body that does not come is not waited for
            seconds, micros = self.store.call("TIME")
            return int(seconds) * 1_000_000 + int(micros) > ends_us + 100_000

        wait_for("its first time is over", over, timeout=PLACE_TTL_S + 30)
        status, _, body = ask(other, "t")
        self.assertEqual((status, body["error"]["param"]), (429, "concurrency_max"), "the place is still held")
        slow.close()
        wait_for("and that it has not", lambda: self.store.call("ZCARD", "hydrant:{t}:open") == b":0")

    def test_open_each_server_goes_by_itself_until_the_store_is_back(self):
        servers = self.servers({"t": {"rpm": 6}})
        self.store.kill()
        began = time.monotonic()
        granted = [sum(ask(server, "t")[0] == 200 for _ in range(10)) for server in servers]
        self.assertGreaterEqual(min(granted), 6)
        self.assertLessEqual(max(granted), 6 + int((time.monotonic() - began) / 10) + 1)
        for server in servers:
            self.assertTrue(store_away(server))
            self.assertTrue(any("is away" in line for line in server.log))
            server.get("/ready")  # which would fail
        self.store.start()
        for server in servers:
            wait_for("it is asked again", lambda server=server: not store_away(server))

    def test_closed_they_refuse_until_the_store_is_back(self):
        servers = self.servers({"t": {"rpm": 600}, "free": {}}, flags=("--shared-limits-fail", "closed"), patience_s=10)
        self.assertEqual(ask(servers[0], "t")[0], 200)
        self.store.kill()
        wait_for("it is away", lambda: store_away(servers[0]))
        before = asks(servers[0], "away")
        status, fields, body = ask(servers[0], "t")
        told = asks(servers[0], "away") - before
        self.assertEqual((told, asks(servers[0], "timeout")), (1, 0), "nobody waits for a store that is known to be away")
        self.assertEqual((status, body["error"]["code"], fields["retry-after"]), (503, "limits_unavailable", "1"))
        self.assertEqual(ask(servers[0], "free")[0], 200)
        self.store.start()
        wait_for("it goes on", lambda: ask(servers[0], "t")[0] == 200)

    def test_a_store_that_is_full_or_forgets_its_scripts(self):
        (server,) = self.servers({"t": {"rpm": 600}}, count=1, flags=("--shared-limits-fail", "closed"))
        self.store.call("SCRIPT", "FLUSH")
        self.assertEqual(ask(server, "t")[0], 200)
        self.store.call("CONFIG", "SET", "maxmemory", "1")
        self.assertEqual([ask(server, "t")[0] for _ in range(10)], [503] * 10)
        wait_for("it is away", lambda: store_away(server))
        self.assertTrue(any("OOM" in line for line in server.log))
        self.store.call("CONFIG", "SET", "maxmemory", "0")
        wait_for("it goes on", lambda: ask(server, "t")[0] == 200)

    def test_a_stopped_store_costs_few_requests_their_patience(self):
        patience_s = 0.5
        (server,) = self.servers({"t": {"rpm": 6000}}, count=1, patience_s=patience_s)
        os.kill(self.store.process.pid, signal.SIGSTOP)
        times = []
        for _ in range(40):
            began = time.monotonic()
            self.assertEqual(ask(server, "t")[0], 200)
            times.append(time.monotonic() - began)
        timeouts, away = asks(server, "timeout"), asks(server, "away")
        os.kill(self.store.process.pid, signal.SIGCONT)
        print(f"first {times[0] * 1e3:.0f} ms, the slowest of the last 20 {max(times[20:]) * 1e3:.0f} ms")
        self.assertGreaterEqual(times[0], patience_s)
        # Five failures open it. What is asked before its thread has seen the one before is the same pause, and is not counted.
        self.assertEqual(timeouts + away, 40)
        self.assertGreaterEqual(timeouts, 5)
        # Pauses become longer; where the machine is slow there are some more of them.
        self.assertLess(timeouts, 20)
        wait_for("it is asked again", lambda: not store_away(server))

    def test_a_server_stops_while_the_store_hangs_and_a_client_has_left(self):
        (server,) = self.servers({"t": {"rpm": 6000, "tpm": 6000}}, count=1, patience_s=10, flags=("--shutdown-timeout-s", 3600))
        os.kill(self.store.process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, self.store.process.pid, signal.SIGCONT)
        url = urllib.parse.urlsplit(server.base)
        body = json.dumps(SHORT).encode()
        with socket.create_connection((url.hostname, url.port), timeout=60) as gone:
            gone.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         b"Authorization: Bearer t-key\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))  # fmt: skip
            wait_for("it is read", lambda: 'hydrant_requests_total{tenant="t"} 1' in server.metrics_text())
            server.get("/ready")  # it is asked about by now
        self.assertEqual(server.stop(), 0)  # which gives it 30 s

    def test_the_rights_that_the_manual_names_are_enough(self):
        text = (serving.ROOT / "docs" / "tenants.md").read_text(encoding="utf-8")
        rights = re.search(r"The user needs (.*?) on `(.*?)`", text, re.DOTALL)
        commands = ["+" + name.lower().replace(" ", "|") for name in re.findall(r"`(.*?)`", rights[1])]
        store = Store(port=(port := free_port()))
        self.addCleanup(store.kill)
        self.assertEqual(store.call("ACL", "SETUSER", "limited", "on", f">{PASSWORD}", f"~{rights[2]}", *commands), b"+OK")
        where = ("--shared-limits", f"redis://limited@127.0.0.1:{port}/1", "--shared-limits-fail", "closed")
        limits = {"rpm": 60, "tpm": 6000, "concurrency_max": 2, "sequences_max": 2}
        server = TenantServer(self.folder / "server0", {"t": limits},
                              (*where, "--shared-limits-password-file", self.password))  # fmt: skip
        self.addCleanup(server.stop)
        wait_for("the store is there", lambda: not store_away(server))
        self.assertEqual(ask(server, "t")[0], 200)
        self.assertFalse(any("NOPERM" in line for line in server.log))

    def test_a_debt_is_paid_before_anything_is_granted(self):
        began = time.monotonic()
        self.assertEqual(self.store.take("k", 60, 50), [1, 10, 0])
        self.assertEqual(self.store.give("k", 60, -70), b":1")
        verdict, left, wait_us = self.store.take("k", 60, 1)
        self.assertEqual((verdict, left), (2, 0))
        self.assertGreater(wait_us, (60 - (time.monotonic() - began)) * 1e6)  # 61 tokens too many, one a second
        self.assertLessEqual(wait_us, 61_000_000)

    def test_a_clock_that_was_set_back_stops_nothing(self):
        seconds, _ = self.store.call("TIME")
        self.store.call("SET", "k", f"60 {(int(seconds) + 3600) * 1_000_000}")
        self.assertEqual(self.store.take("k", 60, 1), [2, 0, 1_000_000])
        used, at = self.store.call("GET", "k").split()
        self.assertEqual(float(used), 60)
        self.assertLess(int(at), (int(seconds) + 600) * 1_000_000)
        wait_for("it drains again", lambda: self.store.take("k", 60, 1)[0] == 1)

    def test_a_limit_that_a_reload_changed_keeps_what_was_used(self):
        began = time.monotonic()
        self.assertEqual(self.store.take("k", 1000, 100), [1, 900, 0])
        verdict, left, _ = self.store.take("k", 60, 1)
        self.assertEqual((verdict, left), (2, 0))
        verdict, left, _ = self.store.take("k", 2000, 1)
        came_back = 2000 / 60 * (time.monotonic() - began)
        self.assertEqual(verdict, 1)
        self.assertLess(left, 2000 - 100 + came_back)
        self.assertGreater(left, 2000 - 110)

    def test_by_tcp_and_without_the_password(self):
        store = Store(port=free_port())
        self.addCleanup(store.kill)
        self.servers({"t": {"rpm": 60}}, count=1, store=store)
        folder = self.folder / "server0"
        server = TenantServer(folder, {"t": {"rpm": 60}}, ("--shared-limits", store.url))
        self.addCleanup(server.stop)
        wait_for("it says why", lambda: any("NOAUTH" in line for line in server.log))
        self.assertEqual(ask(server, "t")[0], 200)
        self.assertFalse(any(PASSWORD in line for line in server.log))


if __name__ == "__main__":
    if REDIS is None:
        skip("redis-server is not installed (deploy/debian-packages.txt, use `check`)")
    unittest.main(verbosity=2, warnings="ignore")  # about connections that end with the script
