"""Fixtures: the servers, and the postcondition that every row of bad input must leave."""

import os
import signal
import time

import pytest

import hydrant_server
from hydrant_server import API_KEY, PROMPT_MARK, SLOW, Companion, Server
from tenants import TenantServer, TenantsFile

# 2,048 blocks hold any test's sequences and cost well under 1 GB with the default model. What has to end by itself is not ended
# by a deadline while a test waits for it; but where a connection has shown no key it is kept for 10 s at most, whatever the flag
# says, and a body has to come at a rate after 10 s.
COMMON = ("--num-gpu-blocks-override", 2048, "--max-model-len", 4096, "--header-timeout-s", 3600, "--body-timeout-s", 3600,
          "--keepalive-timeout-s", 3600)  # fmt: skip

CANARY = {
    "prompt": f"{PROMPT_MARK} The three primary colours are",
    "max_tokens": 4,
    "temperature": 0,
    "logprobs": 2,
    "return_token_ids": True,
}
COMPANION = {"prompt": f"{PROMPT_MARK} A short story about a lighthouse:", "max_tokens": 24, "temperature": 0}


def pytest_addoption(parser):
    parser.addoption("--shard", metavar="K/N", default="0/1", help="run the K-th of N parts (K from 0): every N-th function")


def shard_of(items, shard):
    """A function's rows stay together, so that what they share is made once."""
    part, parts = (int(number) for number in shard.split("/"))
    functions = {}
    for item in items:
        functions.setdefault((item.path, item.originalname), len(functions))
    return [item for item in items if functions[item.path, item.originalname] % parts == part]


# Last, so that the parts are those of what `-m` has left.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    kept = shard_of(items, config.getoption("--shard"))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
    left_out = {}
    if SLOW != 1:
        left_out["timing"] = "says nothing in an instrumented program"
    if "HYDRANT_SMALL" in os.environ:
        left_out["paced"] = "the small model is too fast for it"
    for item in items:
        for mark, reason in left_out.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_sessionstart(session):
    for what, path in (("binary", hydrant_server.binary_path()), ("model", hydrant_server.model_path())):
        if not path.exists():
            pytest.exit(f"there is no {what} at {path}", returncode=77)


class ServerPool:
    """Starts servers by their flags, keeps them for the session, and checks each log and exit code at the end."""

    def __init__(self):
        self._kept = {}

    def kept(self, *flags):
        if flags not in self._kept:
            server = Server(*flags)
            server.canary = canary_of(server)
            server.companion_text = server.complete(**COMPANION)["choices"][0]["text"]
            server.wait_idle()
            time.sleep(0.1)
            server.idle_fds = server.fds()
            self._kept[flags] = server
        return self._kept[flags]

    def finish(self):
        problems = []
        for server in self._kept.values():
            try:
                code = server.stop()
                assert code == 0, f"exit code {code}\n{server.log()[-4000:]}"
                server.check_log()
                server.remove_log()
            except AssertionError as error:
                problems.append(f"{server.flags}: {error}")
                server.kill()
        assert not problems, "\n".join(problems)


@pytest.fixture(scope="session")
def pool():
    servers = ServerPool()
    yield servers
    servers.finish()


@pytest.fixture(scope="session")
def server(pool):
    """The server most tests share."""
    return pool.kept(*COMMON)


@pytest.fixture(scope="session")
def keyed_server(pool):
    return pool.kept(*COMMON, "--api-key", API_KEY)


@pytest.fixture(scope="session")
def impatient_server(pool):
    """Short deadlines and a short context: what takes 10 to 30 s by default takes 1 to 2 s here."""
    deadlines = ("--header-timeout-s", 1.5 * SLOW, "--body-timeout-s", 2 * SLOW)
    return pool.kept("--num-gpu-blocks-override", 256, "--max-model-len", 256, *deadlines)


@pytest.fixture
def start_server():
    """Starts a server of the test's own; it is ended, and its log checked, afterwards."""
    started = []

    def start(*flags, **kwargs):
        server = Server(*flags, **kwargs)
        started.append(server)
        return server

    yield start
    for server in started:
        if server.running():
            server.signal(signal.SIGTERM)
            try:
                server.wait(20 * SLOW)
            finally:
                server.kill()
        server.check_log()
        server.remove_log()


@pytest.fixture
def start():
    """Starts a server with these tenants; ends it, checks its exit code and its log afterwards."""
    started = []

    def start_with(*flags, **tenants):
        server = TenantServer(TenantsFile(**tenants), *flags)
        started.append(server)
        return server

    yield start_with
    for server in started:
        try:
            if server.running():
                server.signal(signal.SIGTERM)
                server.signal(signal.SIGTERM)
                server.wait(20 * SLOW)
        finally:
            server.kill()
        server.check_log()
        server.remove_log()


def canary_of(server):
    """The canary's answer without what differs by design."""
    answer = server.complete(**CANARY)
    del answer["id"], answer["created"]
    return answer


def check_health(server):
    """No io thread is held up. On a busy machine an answer may take seconds."""
    assert server.running(), f"hydrantd ended:\n{server.log()[-4000:]}"
    assert server.get("/health", timeout=10.0).status == 200


def check_postcondition(server):
    """Same process, healthy, the canary's answer as before, and everything a row could hold given back."""
    check_health(server)
    server.wait_idle()
    assert canary_of(server) == server.canary
    server.wait_idle()
    hydrant_server.wait_for(
        lambda: server.fds() <= server.idle_fds, lambda: f"{server.fds()} fds, {server.idle_fds} when idle"
    )
    server.check_log()


def row_of(server):
    pid = server.pid
    with Companion(server, COMPANION, server.companion_text):
        yield server
        check_health(server)  # at once: the companion waits for longer
    check_postcondition(server)
    assert server.pid == pid


@pytest.fixture
def row(server):
    """The shared server for one row of bad input: a stream runs beside it, and the postcondition is checked after it."""
    yield from row_of(server)


@pytest.fixture
def quiet_row(server):
    """A row without the stream beside it: what the process spends is spent on the row."""
    server.wait_idle()
    yield server
    check_postcondition(server)


@pytest.fixture
def keyed_row(keyed_server):
    yield from row_of(keyed_server)


@pytest.fixture
def impatient_row(impatient_server):
    yield from row_of(impatient_server)
