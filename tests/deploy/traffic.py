"""Traffic that moves every series: tenants with unequal shares, budgets of each kind, chats with sessions, clients that go away, and
requests that are refused. Standard library only."""

import contextlib
import random
import threading
import urllib.error

TENANTS = {
    "chats": {"weight": 2},
    "batch": {"weight": 1},
    "one_chat": {"sessions_max": 1},
    "capped": {"kv": {"blocks_max": 12}},
    "limited": {"rpm": 5},
}
# A pool that is too small for all of them, and memory for a few parked sessions.
FLAGS = ("--num-gpu-blocks-override", 120, "--max-num-seqs", 6, "--max-num-batched-tokens", 256, "--session-memory-bytes", 300_000)
COMMON = [300 + 3 * i for i in range(80)]  # what prompts begin with


class Traffic:
    """Runs until the end of its `with` block. A worker that is surprised ends the test: `check` raises what it saw."""

    def __init__(self, server):
        self.server, self.errors, self.stop = server, [], threading.Event()
        self.counts = {}
        self.threads = []
        for number in range(2):
            self.worker(self.elastic, number)
            self.worker(self.capped, number)
            self.worker(self.session, number)
        for number in range(5):
            self.worker(self.batch, number)
        for work in (self.periodic, self.goes_away, self.refused, self.two_sessions, self.many_sessions):
            self.worker(work, 9)

    def worker(self, work, number):
        def run():
            noise, turn = random.Random(f"{work.__name__} {number}"), 0
            try:
                while not self.stop.is_set():
                    work(noise, number, turn)
                    turn += 1
                    self.stop.wait(0.05)  # leaves the processors to the others
                with contextlib.suppress(KeyError):
                    self.counts[work.__name__] += turn
            except Exception as error:
                if not self.stop.is_set():
                    self.errors.append(error)

        self.counts.setdefault(work.__name__, 0)
        self.threads.append(threading.Thread(target=run, daemon=True))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(60)

    def check(self):
        if self.errors:
            raise self.errors[0]

    def ids(self, noise, count):
        return COMMON + [noise.randrange(300, 40000) for _ in range(count)]

    def complete(self, tenant, prompt, max_tokens, **fields):
        return self.server.complete(tenant, prompt=prompt, max_tokens=max_tokens, ignore_eos=True, **fields)

    # --- what the workers do over and over ---------------------------------------------------------------------------------

    def batch(self, noise, number, turn):
        """Ten times what the pool holds, so that some of it always waits, also between two requests of a worker."""
        self.complete("batch", self.ids(noise, 60), 250, n=10 + turn % 2)

    def elastic(self, noise, number, turn):
        self.complete("chats", self.ids(noise, 300), 200, kv={"policy": "h2o", "budget": 256, "floor": 32})

    def periodic(self, noise, number, turn):
        self.complete("chats", self.ids(noise, 100), 120, kv={"policy": "h2o-plus", "budget": 64, "cadence": {"periodic": 16}})
        # Of which nothing is evicted, so that there is nothing to audit.
        self.complete("chats", self.ids(noise, 10), 4, kv={"policy": "h2o", "budget": 256})

    def capped(self, noise, number, turn):
        self.complete("capped", self.ids(noise, 20), 60)

    def session(self, noise, number, turn):
        """A chat of four turns, then another."""
        name = f"chat-{number}-{turn // 4}"
        self.complete("chats", self.ids(noise, 40), 20, session_id=name, session_append=turn % 4 > 0, kv={"policy": "h2o", "budget": 128})

    def many_sessions(self, noise, number, turn):
        """One turn each: they fill the memory for parked KV."""
        self.complete("chats", self.ids(noise, 100), 4, session_id=f"once-{turn}")
        if turn >= 8:  # its KV had to make room long ago, and is on the disk where there is one
            self.complete("chats", self.ids(noise, 2), 2, session_id=f"once-{turn - 8}", session_append=True)

    def two_sessions(self, noise, number, turn):
        """The tenant may keep one session, and its turn is under way. Nothing else of it waits: it is refused again and again."""
        body = {"prompt": self.ids(noise, 20), "max_tokens": 300, "ignore_eos": True, "stream": True, "session_id": f"first-{turn}"}
        with self.server.ask("one_chat", body) as response:
            response.readline()
            status = self.server.refused("one_chat", prompt="x", session_id="second")
            assert status == 429, status

    def goes_away(self, noise, number, turn):
        body = {"prompt": self.ids(noise, 30), "max_tokens": 800, "ignore_eos": True, "stream": True}
        with self.server.ask("chats", body) as response:
            for _ in range(6):
                response.readline()

    def refused(self, noise, number, turn):
        try:
            self.complete("limited", "x", 1)
        except urllib.error.HTTPError as error:
            error.read()
            assert error.code == 429, error.code
        assert self.server.refused("limited", prompt="x", max_tokens=-1) in (400, 429)
        assert self.server.refused("chats", prompt="x", max_tokens=-1) == 400
        assert self.server.refused("chats", key="not-a-key", prompt="x") in (401, 429)
