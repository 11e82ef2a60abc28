"""Elastic budgets on the real server: who agreed gives way to who waits, and nobody else does."""

import contextlib
import json
import threading

from hydrant_server import metric, read_events, wait_for

# 40 blocks. Two budgets of 256 hold 17 each; the request that comes then needs 10.
FLAGS = ("--num-gpu-blocks-override", 40, "--max-model-len", 4096, "--no-enable-prefix-caching")
BUDGET = {"policy": "h2o", "budget": 256}


def prompt(first, count):
    return [first] + [(i * 7919) % 40000 + 100 for i in range(count - 1)]


class Chat(threading.Thread):
    """A stream that is read to its end in the background."""

    def __init__(self, server, kv, first):
        super().__init__(daemon=True)
        self.events, self.report = 0, None
        self.connection = server.open_stream(
            prompt=prompt(first, 300), max_tokens=3000, ignore_eos=True, temperature=0, kv=kv, kv_report=True
        )
        self.start()

    def run(self):
        # A test that has seen enough closes the connection.
        with contextlib.suppress(OSError):
            assert self.connection.read_head().status == 200
            for event in read_events(self.connection):
                self.events += 1
                self.report = json.loads(event).get("kv") or self.report


def start_chats(server, *kvs):
    chats = [Chat(server, kv, first) for first, kv in enumerate(kvs, start=50)]
    wait_for(lambda: all(chat.events >= 2 for chat in chats), server.gauges)
    return chats


WAITING = {"prompt": prompt(90, 150), "max_tokens": 2, "ignore_eos": True, "temperature": 0, "kv": {"policy": "full"}}


def shrinks(server):
    return metric(server.metrics(), "hydrant_shrinks_total")


def test_who_agreed_gives_way_and_a_plain_budget_is_a_guarantee(start_server):
    server = start_server(*FLAGS)
    assert shrinks(server) == 0
    guaranteed, elastic = start_chats(server, BUDGET, dict(BUDGET, elastic=True))
    assert server.complete(**WAITING)["usage"]["completion_tokens"] == 2
    assert guaranteed.is_alive() and elastic.is_alive(), "it was let in beside the two, not after one of them"
    assert shrinks(server) == 1
    # 271 of its slots were 17 blocks; four are given back, as 6 of the 10 were free.
    assert metric(server.metrics(), "hydrant_freed_blocks_total", cause="shrink") == 4
    for chat in (guaranteed, elastic):
        chat.join(120.0)
    assert guaranteed.report["budget"] == 256 and guaranteed.report["live"] == 257
    assert elastic.report["budget"] == 207 and elastic.report["live"] == 208, "13 blocks, and it never grew again"
    assert shrinks(server) == 1


def test_without_consent_the_next_one_waits(start_server):
    server = start_server(*FLAGS)
    chats = start_chats(server, BUDGET, dict(BUDGET, floor=200))
    # Down to 200 slots three or four blocks come free, and more are missing: nothing is cut in vain.
    late = server.open_stream(**dict(WAITING, prompt=prompt(90, 250)))
    wait_for(lambda: server.gauges()["waiting"] == 1, server.gauges)
    seen = [chat.events for chat in chats]
    wait_for(lambda: all(chat.events > before + 20 for chat, before in zip(chats, seen)), server.gauges)
    assert server.gauges()["waiting"] == 1
    assert shrinks(server) == 0
    chats[0].connection.reset()
    assert late.read_head().status == 200
    chats[1].connection.reset()
