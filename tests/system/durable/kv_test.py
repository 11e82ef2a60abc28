#!/usr/bin/env python3
"""KV of sessions on the disk, with the real binary: a server with --session-dir is stopped or killed, another one started on the
directory, and what it says next is compared with what a server says that was never stopped: tokens and log-probabilities bit for bit,
under every policy. A file that is damaged, of other weights, of another session or of an older turn is not used: the session is cold,
the refusal is counted, and the answer is that of its whole history.

kv_test.py [--model FILE]; HYDRANT_LONG=1: with what takes long. Python's standard library only."""

import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from fault_test import Shim
from server_process import NotReady, ServerProcess, made_up_ids, wait_for
from shadow import ask, key_file, key_flags, parser_of, small_model

POLICIES = {
    "full": {"policy": "full"},
    "h2o": {"policy": "h2o", "budget": 48},
    "window": {"policy": "window", "budget": 48},
    "rolling": {"policy": "h2o", "budget": 48, "position": "rolling", "prefill": "budgeted"},
    "decay": {"policy": "h2o-decay", "budget": 48},
    "periodic": {"policy": "h2o", "budget": 48, "cadence": {"periodic": 16}},
}
RECALLS = {
    "recalls": {"policy": "h2o", "budget": 48, "recall": "turn"},
    "pins": {"policy": "auto", "budget": 96, "recall": "turn"},
}
ADMIN_KEY = "an-operators-key"
ADMIN = ("--admin-port", 0, "--admin-api-key", ADMIN_KEY)
TURN = {"temperature": 0, "ignore_eos": True, "return_token_ids": True, "logprobs": 3}


def turn_of(session, turn, max_tokens=12, length=20):
    """The body of the session's next turn."""
    body = {"prompt": made_up_ids(100 * turn + len(session.split("-")[0]), length), "max_tokens": max_tokens, "session_id": session, "session_append": turn > 1, **TURN}
    kv = session.split("-")[0]
    if turn == 1:
        body["kv"] = (POLICIES | RECALLS)[kv]
    return body


def said_of(choice):
    """What an answer says of every token."""
    return choice["token_ids"], choice["logprobs"]["top_logprobs"]


def say(server, session, turn, max_tokens=12, length=20, durable=None):
    """The next turn: (what it says of every token, how many tokens of the history were not computed)."""
    status, answer = ask(server.base, turn_of(session, turn, max_tokens, length))
    assert status == 200, (session, turn, status, answer)
    said = answer["hydrant"]
    assert durable is None or (said["turn"], said["durable"]) == (turn, durable), (session, said)
    return said_of(answer["choices"][0]), answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def metric(server, name):
    return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", server.get("/metrics"), re.M))


def state(server, session):
    return re.search(r'"state":"(\w+)"', server.get(f"/v1/sessions/{session}"))[1]


class Test:
    def __init__(self, binary, model, temp, shim, keys):
        self.binary, self.model, self.temp, self.shim, self.keys = binary, model, temp, shim, keys
        self.expected = {}

    def server(self, directory=None, *more, model=None, environment=None, keys=None, context=512, prefixes=False):
        flags = ("--threads", 2, "--no-ui", "--max-model-len", context, *more)
        if not prefixes:
            flags = ("--no-enable-prefix-caching", *flags)
        if directory is not None:
            flags = ("--session-dir", directory, *(self.keys if keys is None else keys), *flags)
        return ServerProcess(self.binary, model or self.model, flags, environment)

    def never_stopped(self):
        with self.server() as server:
            for policy in POLICIES:
                self.expected[policy] = [say(server, policy, turn)[0] for turn in (1, 2, 3)]

    def check(self, server, policy, turn, warm, durable=None, session=None):
        said, cached = say(server, session or policy, turn, durable=durable)
        assert (cached > 0) == warm, f"{policy}, turn {turn}: {cached} tokens were not computed"
        if warm or turn == 1:
            assert said == self.expected[policy][turn - 1], f"{policy}, turn {turn}: not what a server says that was never stopped"

    def stopped(self):
        """A server that is told to stop writes what is parked; the next one goes on from it."""
        directory = f"{self.temp}/stopped"
        with self.server(directory) as server:
            for policy in POLICIES:
                self.check(server, policy, 1, False, "tokens")
        with self.server(directory) as server:
            wait_for("the sweep", lambda: metric(server, "hydrant_session_kv_files") == len(POLICIES))
            for policy in POLICIES:
                assert state(server, policy) == "on_disk"
                self.check(server, policy, 2, True, "tokens")
                assert state(server, policy) == "parked"
            assert metric(server, "hydrant_session_kv_rejected_total") == 0
        with self.server(directory) as server:
            for policy in POLICIES:  # at once: nobody waits for the sweep
                self.check(server, policy, 3, True)

    def killed(self):
        """A turn whose end says "kv" survives kill -9 with its KV."""
        directory = f"{self.temp}/killed"
        for turn in (1, 2, 3):
            server = self.server(directory, "--session-durability", "kv")
            for policy in POLICIES:
                self.check(server, policy, turn, turn > 1, "kv")
            server.process.kill()
            server.process.wait()
        files = sorted(pathlib.Path(directory, "kv").iterdir())
        assert len(files) == len(POLICIES) and all(file.name.endswith(".3.kv") for file in files), files

    def recalled(self):
        """A turn that recalls goes on after kill -9 from what the one before left of its prompt, and says what it would if nothing had been left."""
        directory, expected = f"{self.temp}/recalled", {}
        with self.server(None, "--session-memory-bytes", 0) as server:
            for kv in RECALLS:
                turns = [say(server, kv, turn, length=120) for turn in (1, 2, 3)]
                assert [cached for _, cached in turns] == [0, 0, 0], turns
                expected[kv] = [said for said, _ in turns]
        for turn in (1, 2, 3):
            server = self.server(directory, "--session-durability", "kv", prefixes=True)
            for kv in RECALLS:
                said, cached = say(server, kv, turn, length=120, durable="kv")
                assert said == expected[kv][turn - 1], f"{kv}, turn {turn}: not what it says of all of its history"
                prompt_before = 120 * (turn - 1) + 12 * (turn - 2)
                assert turn == 1 or prompt_before - 16 <= cached < prompt_before, f"{kv}, turn {turn}: {cached} of {prompt_before}"
            assert metric(server, "hydrant_session_kv_rejected_total") == 0
            server.process.kill()
            server.process.wait()

    def grows(self):
        """A chat that keeps everything writes what a turn adds, goes on from all its files after kill -9, and from none that changed."""
        directory, lengths, context = f"{self.temp}/grows", (7700, 100, 100), 8192  # a MiB of KV is 1,900 or 3,600 tokens
        with self.server(context=context) as server:
            expected = [say(server, "full-long", turn, length=length)[0] for turn, length in enumerate(lengths, 1)]
        written = []
        for turn, length in enumerate(lengths, 1):
            server = self.server(directory, "--session-durability", "kv", context=context)
            said, cached = say(server, "full-long", turn, length=length, durable="kv")
            assert said == expected[turn - 1] and (cached > 0) == (turn > 1), f"turn {turn}: {cached} tokens were not computed"
            written.append(metric(server, "hydrant_session_kv_written_bytes_total"))
            server.process.kill()
            server.process.wait()
        files = sorted(pathlib.Path(directory, "kv").iterdir())
        assert len(files) == 3 and written[1] < written[0] / 2, (files, written)
        content = bytearray(files[0].read_bytes())
        content[500_000] ^= 0x10
        files[0].write_bytes(content)
        with self.server(directory, "--session-durability", "kv", context=context) as server:
            assert say(server, "full-long", 4, durable="kv")[1] == 0, "a damaged file is gone on from"
            assert metric(server, 'hydrant_session_kv_rejected_total{reason="damaged"}') == 1
            wait_for("the files before to go, as all is written anew", lambda: len(list(pathlib.Path(directory, "kv").iterdir())) == 1)

    def moved(self):
        """A session's state goes to another server with its KV, over HTTP, by way of a file and by a handover."""
        (one, two, three), sent = (f"{self.temp}/moved{i}" for i in range(3)), {}

        def tool(*arguments):
            command = [self.binary, "sessions", *arguments]
            environment = {**os.environ, "HYDRANT_ADMIN_KEY": ADMIN_KEY}
            return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

        with self.server(one, *ADMIN) as old, self.server(two, *ADMIN) as new, self.server(three, *ADMIN) as third:
            for policy in POLICIES:
                self.check(old, policy, 1, False, "tokens")
                status, sent[policy] = transfer(old, "GET", policy, query="?kv=1")
                assert status == 200
                assert 0 < 4 * len(transfer(old, "GET", policy)[1]) < len(sent[policy]), "KV comes where it is asked for"
                for damaged in attacked(sent[policy]):
                    status, answer = transfer(new, "PUT", policy, damaged)
                    assert status == 400 and b"invalid_session_state" in answer, (status, answer)
                status, answer = transfer(new, "PUT", policy, sent[policy], operator=False)
                assert status == 201 and b'"kv":"not_operator"}' in answer, (status, answer)
                delete(new, policy)
            assert [file.name for file in pathlib.Path(two, "kv").iterdir()] == []
            for policy in POLICIES:
                status, answer = transfer(new, "PUT", policy, sent[policy])
                assert status == 201 and b'"durable":"tokens","kv":"taken"}' in answer, (status, answer)
                assert state(new, policy) == "on_disk"
                assert transfer(new, "GET", policy, query="?kv=1")[1] == sent[policy], "it is what came"
                self.check(new, policy, 2, True, "tokens")
            delete(old, "h2o")
            tool("export", "h2o", "--kv", "--url", admin(new), "--output", f"{self.temp}/moved.session")
            tool("import", f"{self.temp}/moved.session", "--url", admin(old))
            self.check(old, "h2o", 3, True)
            said = tool("handover", "--from", admin(new), "--to", admin(third), "--json")
            assert f'"moved":{len(POLICIES)},' in said and f'"kv_taken":{len(POLICIES)}}}' in said, said
            for policy in POLICIES:
                self.check(third, policy, 3, True, "tokens")

    def moved_in_vain(self):
        """What cannot be used of a KV that comes is said, and the session is taken without it. Runs with HYDRANT_LONG=1."""
        with self.server(f"{self.temp}/vain", *ADMIN) as server:
            self.check(server, "full", 1, False, "tokens")
            sent = transfer(server, "GET", "full", query="?kv=1")[1]
        for says, directory, flags in (
            ("no_directory", None, ()),
            ("layout", "vain0", ("--kv-cache-dtype", "int8")),
            ("no_room", "vain1", ("--session-disk-bytes", 5000)),
        ):
            path = directory and f"{self.temp}/{directory}"
            with self.server(path, *ADMIN, *flags) as server:
                wait_for(says, lambda: put_says(server, "full", sent, says))  # there is no room before the start's sweep
                assert path is None or list(pathlib.Path(path, "kv").iterdir()) == [], says
                if path is None:
                    self.check(server, "full", 2, False)

    def idle(self):
        """What is left alone is written, and what was deleted is gone."""
        directory = f"{self.temp}/idle"
        server = self.server(directory)
        self.check(server, "h2o", 1, False, "tokens")
        self.check(server, "h2o", 1, False, "tokens", session="h2o-b")
        wait_for("KV of idle sessions", lambda: metric(server, "hydrant_session_kv_files") == 2)
        assert state(server, "h2o") == "parked", "it is in memory, too"
        status, _ = delete(server, "h2o-b")
        assert status == 200 and len(list(pathlib.Path(directory, "kv").iterdir())) == 1, "its KV went before the answer came"
        server.process.kill()
        server.process.wait()
        with self.server(directory) as server:
            self.check(server, "h2o", 2, True)

    def pushed_out(self):
        """Sessions that must make room in memory are on the disk, and come back while others are computed."""
        directory = f"{self.temp}/pushed"
        with self.server(directory, "--session-memory-bytes", self.one_session()) as server:
            names = [f"h2o-{i}" for i in range(6)]
            for name in names:
                self.check(server, "h2o", 1, False, "tokens", session=name)
            wait_for("what was pushed out", lambda: metric(server, "hydrant_session_kv_files") >= len(names) - 2)
            for name in names[:4]:
                self.check(server, "h2o", 2, True, session=name)
            assert metric(server, "hydrant_session_kv_rejected_total") == 0

    def contended(self):
        """Turns that were promised their KV get it although memory holds fewer than there are, or are told to come again."""
        with self.server(f"{self.temp}/contended", "--session-memory-bytes", self.one_session(), "--session-durability", "kv") as server:
            for number in range(6):
                with concurrent.futures.ThreadPoolExecutor() as clients:
                    kept = list(clients.map(lambda i: self.kept_turns(server, f"h2o-{number}-{i}"), range(6)))
                assert max(kept) > 1, f"nobody was promised its KV: {kept}"

    def kept_turns(self, server, session):
        """How many turns the session had until one was not promised its KV; each is as a server says that was never stopped."""
        for turn in (1, 2, 3):
            until = time.monotonic() + 60
            status, answer = ask(server.base, turn_of(session, turn))
            while status == 503 and time.monotonic() < until:
                assert answer["error"]["code"] == "session_kv_busy", answer
                status, answer = ask(server.base, turn_of(session, turn))
            assert status == 200, (session, turn, status, answer)
            assert said_of(answer["choices"][0]) == self.expected["h2o"][turn - 1], f"{session}, turn {turn}: {answer['hydrant']}"
            if answer["hydrant"]["durable"] != "kv":
                break
            assert answer["hydrant"]["resumed"] == (turn > 1), (session, turn)
        return turn

    def one_session(self):
        """Bytes in which two sessions of the h2o policy find room, and not three."""
        directory = f"{self.temp}/sized"
        with self.server(directory) as server:
            self.check(server, "h2o", 1, False)
        (file,) = pathlib.Path(directory, "kv").iterdir()
        return int(2.5 * (file.stat().st_size - 2 * 4096))  # without header and table

    def hanging(self):
        """A disk that does not answer holds up no turn for longer than it may; whoever comes meanwhile does not wait at all."""
        for number, slow in enumerate(("slow_us", "slow_open_us")):
            self.hangs(f"{self.temp}/hanging{number}", slow)

    def hangs(self, directory, slow):
        later = [f"window-{number}" for number in range(22)]  # one every 1.5 s, for as long as anything is waited for
        with self.server(directory) as server:
            for session in ("h2o", "full", *later):
                self.check(server, session.split("-")[0], 1, False, "tokens", session=session)
        shim = Shim(str(pathlib.Path(self.shim).resolve()), self.temp)
        patience, ever = 3.0, 3600.0
        with self.server(directory, "--session-read-timeout-s", patience, environment=shim.environment(directory)) as server:
            timeouts = lambda: metric(server, 'hydrant_session_kv_rejected_total{reason="timeout"}')
            shim.plan(**{slow: int(ever * 1e6)})
            began = time.monotonic()
            self.check(server, "h2o", 2, False, "tokens")
            first = time.monotonic() - began
            assert patience <= first and timeouts() == 1, (first, timeouts())
            self.check(server, "full", 2, False, "tokens")
            second = time.monotonic() - began - first
            assert second < patience and timeouts() == 2, (second, timeouts())
            shim.plan(**{slow: 0})
            wait_for("a disk that answers again", lambda: say(server, later.pop(), 2, durable="tokens")[1] > 0, pause=1.5)
            before = timeouts()
            self.check(server, "window", 2, True, "tokens", session=later.pop())
            assert say(server, "h2o", 3, durable="tokens")[1] > 0, "it goes on from what was computed"
            assert timeouts() == before

    def no_bigger_file(self):
        """A file that may not grow is a write that fails: the server goes on."""
        with self.server(f"{self.temp}/limited", "--session-durability", "kv") as server:
            self.check(server, "full", 1, False, "kv")
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, 0))
            self.check(server, "full", 2, True)
            assert server.process.poll() is None

    def nobody_keeps(self):
        """Where no KV is kept there is none; and a session that an operator forgets takes its KV along."""
        directory = f"{self.temp}/nobody"
        for flags in (("--session-disk-bytes", 0), ("--session-memory-bytes", 0)):
            with self.server(directory) as server:
                for session in (f"h2o-{flags[0]}", f"full-{flags[0]}"):
                    self.check(server, session.split("-")[0], 1, False, "tokens", session=session)
            files = list(pathlib.Path(directory, "kv").iterdir())
            assert len(files) == 2, files
            if flags[1] == 0 and flags[0] == "--session-memory-bytes":
                key = [str(flag) for flag in self.keys]
                subprocess.run([self.binary, "sessions", "forget", f"h2o-{flags[0]}", "--session-dir", directory, *key], check=True, capture_output=True)
                assert len(list(pathlib.Path(directory, "kv").iterdir())) == 1, "its KV is left"
            with self.server(directory, *flags):
                assert list(pathlib.Path(directory, "kv").iterdir()) == []

    def slower(self):
        """What keeps everything is computed where that is faster than reading; what evicted, or was promised, is read all the same."""
        directory = f"{self.temp}/slower"
        names = ["full", "full-b", "full-c", "h2o"]
        with self.server(directory) as server:
            for name in names:
                self.check(server, name.split("-")[0], 1, False, session=name)
        shim = Shim(str(pathlib.Path(self.shim).resolve()), self.temp)
        shim.plan(slow_us=300_000)
        with self.server(directory, environment=shim.environment(directory)) as server:
            self.check(server, "full", 2, True)  # nobody knows yet
            self.check(server, "full", 2, False, session="full-b")
            assert metric(server, 'hydrant_session_kv_rejected_total{reason="slower"}') == 1
            self.check(server, "h2o", 2, True)
        with self.server(directory, "--session-durability", "kv", environment=shim.environment(directory)) as server:
            self.check(server, "h2o", 3, True)
            self.check(server, "full", 2, True, session="full-c")

    def rotated(self):
        """A directory that is encrypted starts with its keys alone, and another key takes the first one's place."""
        directory = f"{self.temp}/rotated"
        first, second, both = (("--session-key-file", key_file(self.temp, *keys)) for keys in (("1",), ("2",), ("2", "1")))

        def refused(keys):
            try:
                self.server(directory, keys=keys).stop()
            except NotReady as error:
                assert error.code == 78, error.code
                return str(error.log)
            raise AssertionError(f"it starts with {keys}")

        for turn, keys in ((1, first), (2, first), (3, both)):
            with self.server(directory, "--session-durability", "kv", keys=keys) as server:
                for policy in ("full", "h2o"):
                    self.check(server, policy, turn, turn > 1, "kv")
                assert metric(server, "hydrant_session_kv_rejected_total") == 0
                if keys == both:
                    wait_for("the new key alone", lambda: len(pathlib.Path(directory, "keys").read_text().splitlines()) == 2)
            if keys == first:
                assert "--session-key-file is needed" in refused(()) and "which is not in --session-key-file" in refused(second)
        assert "which is not in --session-key-file" in refused(first)
        with self.server(directory, keys=second) as server:
            assert metric(server, "hydrant_session_log_damaged_total") == 0
            for policy in ("full", "h2o"):
                assert say(server, policy, 4)[1] > 0, f"{policy} has lost its KV"
        for file in pathlib.Path(directory).rglob("*"):
            assert file.is_dir() or b"h2o" not in file.read_bytes(), f"{file.name} names a session"

    def refused(self):
        """A file that is not what it should be is not used, and says so."""
        saved = f"{self.temp}/saved"
        with self.server(saved) as server:
            self.check(server, "full", 1, False)
            self.check(server, "h2o", 1, False)
        bytes_ = bytearray(pathlib.Path(self.model).read_bytes())
        bytes_[len(bytes_) - 100_001] ^= 0x01  # one weight, the same name and size
        os.makedirs(f"{self.temp}/elsewhere")
        other = f"{self.temp}/elsewhere/{pathlib.Path(self.model).name}"
        pathlib.Path(other).write_bytes(bytes_)

        def flip(directory, at):
            for file in pathlib.Path(directory, "kv").iterdir():
                content = bytearray(file.read_bytes())
                content[at if at >= 0 else len(content) + at] ^= 0x10
                file.write_bytes(content)

        def cut(directory):
            for file in pathlib.Path(directory, "kv").iterdir():
                os.truncate(file, file.stat().st_size - 4096)

        def swap(directory):
            one, two = pathlib.Path(directory, "kv").iterdir()
            content = one.read_bytes()
            one.write_bytes(two.read_bytes())
            two.write_bytes(content)

        cases = [
            ("damaged", lambda d: flip(d, 60), None),
            ("damaged", lambda d: flip(d, -3000), None),
            ("damaged", lambda d: flip(d, -10), None),
            ("short", cut, None),
            ("session", swap, None),
            ("model", lambda d: None, other),
            ("layout", lambda d: None, ("--kv-cache-dtype", "int8")),
        ]
        for number, (reason, change, how) in enumerate(cases):
            directory = f"{self.temp}/refused{number}"
            shutil.copytree(saved, directory)
            change(directory)
            with self.server(directory, *(how if isinstance(how, tuple) else ()), model=how if isinstance(how, str) else None) as server:
                for policy in ("full", "h2o"):
                    self.check(server, policy, 2, False)
                counted = metric(server, f'hydrant_session_kv_rejected_total{{reason="{reason}"}}')
                assert counted == 2, f"{reason}: {counted}"
                assert metric(server, "hydrant_session_kv_read_bytes_total") == 0


def delete(server, session):
    import http.client
    import urllib.parse

    url = urllib.parse.urlsplit(server.base)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    try:
        connection.request("DELETE", f"/v1/sessions/{session}")
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def admin(server):
    """The address of its admin listener."""
    (url,) = (found[1] for line in server.log if (found := re.search(r"admin listener on (http://\S+)", line)))
    return url


def transfer(server, method, session, body=None, query="", operator=True):
    """A session's state, there or back, KV as the operator's alone: (status, what came)."""
    import http.client
    import urllib.parse

    url = urllib.parse.urlsplit(admin(server) if operator else server.base)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    try:
        fields = {"If-None-Match": "*", "Content-Type": "application/vnd.hydrant.session"} if body is not None else {}
        fields["Authorization"] = f"Bearer {ADMIN_KEY}"
        connection.request(method, f"/{'admin' if operator else 'v1'}/sessions/{session}/state{query}", body, fields)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def put_says(server, session, sent, says):
    """Whether the session's state was taken and this was said of its KV; if not, the session is not there."""
    status, answer = transfer(server, "PUT", session, sent)
    assert status == 201, (status, answer)
    if f'"kv":"{says}"'.encode() in answer:
        return True
    assert delete(server, session)[0] == 200
    return False


def attacked(sent):
    """What somebody may have made of a session's state."""
    for at in (40, len(sent) // 3, len(sent) // 2, len(sent) - 5):
        yield sent[:at] + bytes([sent[at] ^ 0x10]) + sent[at + 1 :]
    yield sent[: len(sent) // 2]
    yield sent + b"x"


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--only", action="append", help="this part alone")
    parser.add_argument("--shim", default=os.environ.get("FAULT_SHIM", "build/release/tests/system/durable/libfault_shim.so"))
    arguments = parser.parse_args()
    with small_model(arguments.model) as (temp, model):
        test = Test(arguments.binary, model, temp, arguments.shim, key_flags(arguments, temp))
        test.never_stopped()
        parts = {part.__name__: part for part in (test.stopped, test.killed, test.recalled, test.grows, test.moved, test.idle, test.pushed_out, test.contended, test.no_bigger_file, test.nobody_keeps, test.hanging, test.slower, test.rotated, test.refused)}
        if os.environ.get("HYDRANT_LONG"):
            parts["moved_in_vain"] = test.moved_in_vain
        for name, part in parts.items():
            if arguments.only and name not in arguments.only:
                continue
            began = time.monotonic()
            part()
            print(f"{part.__name__}: {part.__doc__.splitlines()[0]} ({time.monotonic() - began:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
