#!/usr/bin/env python3
"""Every call on a file of --session-dir fails, comes to less than was asked for, or ends the process: once, one after the other. Beside
that a disk that is full or read-only for a while, a clock that is put back, and a directory that is removed. Whatever happens, an
acknowledged turn is there after the next start, another one is there whole or not at all, sessions that nobody used are as they
were, and a server that runs answers.

fault_test.py [--whole]: without it, some of the calls. Python's standard library only."""

import errno
import http.client
import mmap
import os
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from server_process import NotReady, ServerProcess, made_up_ids
from shadow import KINDS, TURN, Lost, ask, bare, delete, expected, get, key_flags, parser_of, small_model, tokens_of

FAIL, SHORT, KILL_BEFORE, KILL_AFTER, LOSE_POWER = range(5)  # fault_shim.cc has the same
EVER = 1 << 40
# name: (action, errno, how many calls from the chosen one on, whether only calls that change something count)
FAULTS = {
    "EIO": (FAIL, errno.EIO, 1, 0),
    "ENOSPC": (FAIL, errno.ENOSPC, 1, 0),
    "EROFS": (FAIL, errno.EROFS, 1, 0),
    "EINTR": (FAIL, errno.EINTR, 1, 0),
    "less than was asked for": (SHORT, 0, 1, 0),
    "killed before it": (KILL_BEFORE, 0, 1, 0),
    "killed after it": (KILL_AFTER, 0, 1, 0),
    "power lost before it": (LOSE_POWER, 0, 1, 1),
    "EIO twice": (FAIL, errno.EIO, 2, 1),
    "ENOSPC from there on": (FAIL, errno.ENOSPC, EVER, 1),
    "EIO from there on": (FAIL, errno.EIO, EVER, 1),
}
KILLS = (KILL_BEFORE, KILL_AFTER, LOSE_POWER)
CALLS_MAX = 400
REFUSED = (75, 78)  # cannot be read at present; is not a directory to use
DAY_S = 86400


class Shim:
    """What fault_shim.cc is told, and tells."""

    FIELDS = ("calls", "first", "count", "action", "error", "changes_only", "hits", "clock_s", "slow_us", "slow_open_us")

    def __init__(self, library, folder):
        self.library, self.path = library, f"{folder}/control"
        pathlib.Path(self.path).write_bytes(bytes(4096))
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 4096)

    def __getitem__(self, field):
        return struct.unpack_from("q", self.memory, 8 * self.FIELDS.index(field))[0]

    def plan(self, **fields):
        for field, value in fields.items():
            struct.pack_into("q", self.memory, 8 * self.FIELDS.index(field), value)

    def hit(self):
        return self.memory[8 * len(self.FIELDS) :].split(b"\0", 1)[0].decode(errors="replace")

    def environment(self, directory):
        return {"LD_PRELOAD": self.library, "HYDRANT_FAULT_DIRECTORY": directory, "HYDRANT_FAULT_CONTROL": self.path}


class Shadow:
    """A session as its client knows it."""

    def __init__(self, name, kv):
        self.name, self.kv = name, kv
        self.tokens = []  # acknowledged
        self.here = []  # what a server that lives on has: acknowledged or not
        self.possible = []  # what may be there instead after a start: lists of tokens
        self.turns = []  # what it had after each turn
        self.cut = None  # the turn whose end was not heard: (tokens before its answer, tokens of its answer)

    def heard(self, tokens, durable):
        self.here, self.cut = tokens, None
        self.turns.append(tokens)
        if durable:
            self.tokens, self.possible = tokens, []
        else:
            self.possible.append(tokens)

    def allows(self, there):
        if there == self.tokens or there in self.possible:
            return True
        return self.cut is not None and there[: len(self.cut[0])] == self.cut[0] and len(there) == len(self.cut[0]) + self.cut[1]

    def found(self, there):
        self.tokens = self.here = there
        self.possible, self.cut = [], None


def say(base, shadow, seed, count=4):
    """One more turn. Returns "durable", "said", or the code of the error."""
    prompt = made_up_ids(seed, 3)
    whole = shadow.here + prompt
    shadow.cut = (whole, count)
    body = {"prompt": prompt, "max_tokens": count, "kv": shadow.kv, "session_id": shadow.name, "session_append": bool(shadow.here), **TURN}
    status, answer = ask(base, body)
    if status != 200:
        shadow.cut = None
        return answer["error"]["code"]
    durable = answer["hydrant"]["durable"] == "tokens"
    shadow.heard(whole + answer["choices"][0]["token_ids"], durable)
    return "durable" if durable else "said"


def insist(base, shadow, seed, count=4):
    """A turn that has to be answered. One read that fails costs one answer, 404 session_damaged, and nothing else."""
    outcome = say(base, shadow, seed, count)
    if outcome == "session_damaged":
        outcome = say(base, shadow, seed, count)
    if outcome not in ("durable", "said"):
        raise Lost(f"{shadow.name}: a turn is answered with {outcome}")
    return outcome


def forget(base, shadow):
    shadow.possible.append([])
    status, answer = delete(base, shadow.name)
    if status == 200:
        shadow.found([])
    elif status != 503 or answer["error"]["code"] != "not_durable":
        raise Lost(f"{shadow.name}: DELETE is answered with {status} {answer}")
    shadow.here = []


class Bench:
    """The model, a directory to begin with, and what its sessions have said."""

    def __init__(self, binary, model, library, temp, keys):
        self.binary, self.model, self.library, self.temp, self.keys = binary, model, library, temp, keys
        self.template = f"{temp}/template"
        self.said = {}
        flags = self.flags(self.template)
        # A checkpoint, and a segment after it that a killed process left.
        with ServerProcess(binary, model, flags) as server:
            for number, kv in enumerate(KINDS):
                for name in (f"used{number}", f"left{number}"):
                    self.said[name] = Shadow(name, kv)
                    insist(server.base, self.said[name], number)
            self.said["gone"] = Shadow("gone", KINDS[0])
            insist(server.base, self.said["gone"], 1)
        server = ServerProcess(binary, model, flags)
        for number in range(len(KINDS)):
            for name in (f"used{number}", f"left{number}"):
                insist(server.base, self.said[name], 10 + number, 40)
        server.process.kill()
        server.process.wait()

    def flags(self, directory):
        return ("--session-dir", directory, "--session-dir-unsafe", *self.keys, "--threads", 1, "--no-ui", "--num-gpu-blocks-override", 64, "--max-model-len", 512)

    def sessions(self):
        copies = {}
        for name, shadow in self.said.items():
            copies[name] = Shadow(name, shadow.kv)
            copies[name].found(list(shadow.tokens))
        return copies

    def directory(self, name):
        path = f"{self.temp}/{name}"
        shutil.copytree(self.template, path)
        os.chmod(path, 0o700)
        return path


def live(base, sessions):
    """Some turns and an end; what a client does."""
    fresh = sessions["fresh"] = Shadow("fresh", KINDS[1])
    for number in range(len(KINDS)):
        insist(base, sessions[f"used{number}"], 20 + number)
    insist(base, fresh, 30)
    forget(base, sessions["gone"])
    insist(base, fresh, 31)
    insist(base, sessions["used0"], 32)


def check(bench, directory, sessions, where):
    """A start without faults: what was promised is there, and goes on."""
    with ServerProcess(bench.binary, bench.model, bench.flags(directory)) as server:
        for shadow in sessions.values():
            there = tokens_of(server.base, shadow.name)
            if not shadow.allows(there):
                raise Lost(f"{where}: {shadow.name} has {len(there)} tokens, not the {len(shadow.tokens)} that were acknowledged")
            shadow.found(there)
        first = sessions["used0"]
        whole = first.tokens + made_up_ids(50, 3)
        for number, name in enumerate(("used0", "used1", "fresh")):
            if name in sessions and say(server.base, sessions[name], 50 + number) != "durable":
                raise Lost(f"{where}: {name} does not go on")
        said, sure = expected(server.base, whole, 4, first.kv)
        if sure and first.tokens != whole + said:
            raise Lost(f"{where}: {first.name} does not go on from what was said")


def one_fault(bench, shim, name, first, where):
    """True: there was such a call."""
    action, error, count, changes_only = FAULTS[name]
    directory = bench.directory(f"d{name}{first}".replace(" ", "_"))
    sessions = bench.sessions()
    shim.plan(calls=0, hits=0, first=first, count=count, action=action, error=error, changes_only=changes_only)
    try:
        server = ServerProcess(bench.binary, bench.model, bench.flags(directory), shim.environment(directory))
    except NotReady as refused:
        where = f"{where} ({shim.hit()})"
        if action not in KILLS and (refused.code not in REFUSED or "--session-dir" not in refused.log):
            raise Lost(f"{where}: the start ends with {refused.code}: {refused.log}") from None
    else:
        try:
            live(server.base, sessions)
        except (OSError, http.client.HTTPException) as cut:
            if action not in KILLS:
                raise Lost(f"{where} ({shim.hit()}): {cut!r}") from None
        except Lost as lost:
            raise Lost(f"{where} ({shim.hit()}): {lost}") from None
        code = server.stop()
        where = f"{where} ({shim.hit()})"
        if action not in KILLS and code != 0:
            raise Lost(f"{where}: the server ends with {code}")
    there = shim["hits"] > 0
    shim.plan(count=0)
    check(bench, directory, sessions, where)
    shutil.rmtree(directory)
    return there


def each_call(bench, name, spots, library):
    """Faults at the calls of `spots`, until there are no more. Returns at how many there was one."""
    shim = Shim(library, tempfile.mkdtemp(dir=bench.temp))
    met = 0
    for first in spots:
        if not one_fault(bench, shim, name, first, f"{name} at call {first}"):
            break
        met += 1
    return met


# --- a while of it -------------------------------------------------------------------------------------------------------


def until(base, what, path, text, seconds=30):
    deadline = time.monotonic() + seconds
    while text not in bare(base, "GET", path)[1]:
        if time.monotonic() > deadline:
            raise Lost(f"{what}: {path} does not say {text}")
        time.sleep(0.1)


def check_a_while(bench, shim, error):
    """A disk that takes nothing, and does again. Requests that need none of it notice nothing."""
    what = errno.errorcode[error]
    directory, sessions = bench.directory(f"while{what}"), bench.sessions()
    with ServerProcess(bench.binary, bench.model, bench.flags(directory), shim.environment(directory)) as server:
        if insist(server.base, sessions["used1"], 60) != "durable":
            raise Lost(f"{what}: not durable before it began")
        shim.plan(calls=0, first=0, count=EVER, action=FAIL, error=error, changes_only=1)
        if insist(server.base, sessions["used1"], 61) != "said" or insist(server.base, sessions["used2"], 62) != "said":
            raise Lost(f"{what}: a turn is said to be durable on a disk that takes nothing")
        until(server.base, what, "/ready", "not durable")
        if server.metric("hydrant_session_log_read_only") != 1 or server.metric("hydrant_session_log_errors_total") < 2:
            raise Lost(f"{what}: the metrics do not say so")
        status, answer = ask(server.base, {"prompt": made_up_ids(63, 3), "max_tokens": 2, **TURN})
        if status != 200:
            raise Lost(f"{what}: a request without a session is answered with {answer}")
        forget(server.base, sessions["gone"])
        shim.plan(count=0)
        deadline = time.monotonic() + 30
        while insist(server.base, sessions["used1"], 64) != "durable":  # it is tried again every ten seconds
            if time.monotonic() > deadline:
                raise Lost(f"{what}: not durable after it was over")
            time.sleep(1)
        if "not durable" in bare(server.base, "GET", "/ready")[1] or server.metric("hydrant_session_log_read_only") != 0:
            raise Lost(f"{what}: /ready or the metric say that it is not over")
    check(bench, directory, sessions, what)


def check_the_clock(bench, shim):
    """A day back, and back to now: no session is lost to it, and none lives for ever."""
    directory, sessions = bench.directory("clock"), bench.sessions()
    flags = (*bench.flags(directory), "--session-ttl", 3600)
    for shift, seed in ((-DAY_S, 70), (0, 71)):
        shim.plan(clock_s=shift)
        with ServerProcess(bench.binary, bench.model, flags, shim.environment(directory)) as server:
            if insist(server.base, sessions["used0"], seed) != "durable":
                raise Lost(f"with the clock {shift} s off a turn is not durable")
            age = time.time() - get(server.base, "/v1/sessions/used0")["last_used"]  # by a clock that is right
            if not -60 < age < 60:
                raise Lost(f"with the clock {shift} s off a session was last used {age} s ago")
            for shadow in sessions.values():
                if tokens_of(server.base, shadow.name) != shadow.tokens:
                    raise Lost(f"with the clock {shift} s off {shadow.name} is another one")
    shim.plan(clock_s=DAY_S)
    with ServerProcess(bench.binary, bench.model, flags, shim.environment(directory)) as server:
        if get(server.base, "/v1/sessions")["data"]:
            raise Lost("a day later sessions of an hour are there")
    shim.plan(clock_s=0)


def damage(path, random_numbers):
    """A bit, or the end."""
    data = bytearray(path.read_bytes())
    at = random_numbers.randrange(len(data))
    if random_numbers.random() < 0.7:
        data[at] ^= 1 << random_numbers.randrange(8)
    else:
        del data[at:]
    path.write_bytes(data)
    return f"{path.name} of {len(data)} bytes, damaged at {at}"


def check_damage(bench, count):
    """What a session has after that is what it had after some turn, or nothing."""
    random_numbers = random.Random(7)
    for number in range(count):
        directory = bench.directory(f"damaged{number}")
        files = sorted(file for file in pathlib.Path(directory).rglob("*") if file.is_file() and file.name != "LOCK")
        where = damage(random_numbers.choice(files), random_numbers)
        try:
            with ServerProcess(bench.binary, bench.model, bench.flags(directory)) as server:
                for shadow in bench.said.values():
                    there = tokens_of(server.base, shadow.name)
                    if there and there not in shadow.turns:
                        raise Lost(f"{where}: {shadow.name} has {len(there)} tokens that it never had")
                    shadow_now = Shadow(shadow.name, shadow.kv)
                    shadow_now.found(there)
                    outcome = say(server.base, shadow_now, 90)
                    if outcome not in ("durable", "session_damaged"):
                        raise Lost(f"{where}: {shadow.name} is answered with {outcome}")
        except NotReady as refused:
            if refused.code not in REFUSED or "--session-dir" not in refused.log:
                raise Lost(f"{where}: the start ends with {refused.code}: {refused.log}") from None
        shutil.rmtree(directory)


def check_a_removed_directory(bench):
    """Turns go on, and nothing is said to be durable."""
    directory, sessions = bench.directory("removed"), bench.sessions()
    with ServerProcess(bench.binary, bench.model, bench.flags(directory)) as server:
        if insist(server.base, sessions["used0"], 80) != "durable":
            raise Lost("not durable before the directory was removed")
        shutil.rmtree(directory)
        for seed in (81, 82):
            if insist(server.base, sessions["used0"], seed) != "said":
                raise Lost("a turn is durable in a directory that was removed")
        until(server.base, "a removed directory", "/ready", "not durable")


def start(check, problems):
    """A thread for it: these wait most of their time."""

    def run():
        try:
            check()
        except Exception as problem:  # whatever it is, the main thread tells
            problems.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def start_environment(bench, library, damages, problems):
    def shim():
        return Shim(library, tempfile.mkdtemp(dir=bench.temp))

    def others():
        check_the_clock(bench, shim())
        check_a_removed_directory(bench)
        check_damage(bench, damages)

    whiles = [lambda error=error: check_a_while(bench, shim(), error) for error in (errno.ENOSPC, errno.EROFS)]
    return [start(check, problems) for check in (*whiles, others)]


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--whole", action="store_true", help="every call; else every 43rd")
    parser.add_argument("--fault", choices=FAULTS, action="append", help="these alone")
    parser.add_argument("--shim", default=os.environ.get("FAULT_SHIM", "build/release/tests/system/durable/libfault_shim.so"))
    arguments = parser.parse_args()
    with small_model(arguments.model) as (temp, model):
        library = str(pathlib.Path(arguments.shim).resolve())
        bench = Bench(arguments.binary, model, library, temp, key_flags(arguments, temp))
        problems, threads = [], []
        if not arguments.fault:
            threads = start_environment(bench, library, 60 if arguments.whole else 6, problems)
        met = 0
        for at, name in enumerate(arguments.fault or FAULTS):
            spots = range(CALLS_MAX) if arguments.whole else range(5 * at, CALLS_MAX, 43)
            faults = each_call(bench, name, spots, library)
            met += faults
            if arguments.whole:
                print(f"{name}: {faults} calls", flush=True)
        for thread in threads:
            thread.join()
        if problems:
            raise problems[0]
        print(f"{met} faults, nothing that was acknowledged is lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
