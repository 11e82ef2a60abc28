#!/usr/bin/env python3
"""Two replicas behind deploy/haproxy/haproxy.cfg, under load all the time, are drained and restarted one after the other:
no request fails, no stream is cut, and every answer is the one a lone server gives."""

import itertools
import os
import shutil
import signal
import threading
import time
import unittest

from replicas import OPERATORS, ROOT, Chat, Client, Process, Replica, ask, skip, small_model, wait_for
from server_process import free_port

CHATS = 8
# Longer than HAProxy needs to notice (deploy/haproxy/haproxy.cfg: 1.25 s), on a machine that has other things to do.
DELAY_S = 5.0


class Balancer(Process):
    def __init__(self, replicas):
        self.port, self.operator_port = free_port(), free_port()
        environment = dict(os.environ, HYDRANT_BIND=f"127.0.0.1:{self.port}",
                           HYDRANT_STATS_BIND=f"127.0.0.1:{self.operator_port}",
                           **{f"HYDRANT_REPLICA_{name.upper()}": f"127.0.0.1:{replica.port}"
                              for name, replica in replicas.items()})  # fmt: skip
        super().__init__([HAPROXY, "-db", "-f", ROOT / "deploy" / "haproxy" / "haproxy.cfg"], env=environment)

    def ask(self, method, path, **fields):
        return ask(self.port, method, path, **fields)


class TwoReplicas:
    @classmethod
    def setUpClass(cls):
        cls.model = small_model()
        cls.replicas = {name: cls.replica() for name in "ab"}
        cls.balancer = Balancer(cls.replicas)
        wait_for("the balancer finds a replica", lambda: cls.balancer.ask("GET", "/ready")[0] == 200)

    @classmethod
    def tearDownClass(cls):
        for process in (cls.balancer, *cls.replicas.values()):
            process.end()
        shutil.rmtree(cls.model.parent)

    @classmethod
    def replica(cls, port=0):
        return Replica(cls.model, "--shutdown-delay-s", DELAY_S, "--shutdown-timeout-s", 600, port=port)

    def client(self, **fields):
        return Client(self.balancer.port, {name.replace("_", "-"): value for name, value in fields.items()})

    def client_of(self, name):
        """A client whose session is at this replica."""
        clients = (self.client(X_Session_ID=f"of-{name}-{index}") for index in itertools.count())
        return next(client for client in clients if client.stream(prompt=[7], max_tokens=1).replica == name)

    def stream_long(self, client, tokens, **more):
        """A stream that has begun, on a thread. Rolling positions: as long as it is asked for, whatever the context is."""
        stream = LongStream(client, tokens, **more)
        stream.start()
        self.assertTrue(stream.started.wait(30), stream.error)
        return stream


class Routing(TwoReplicas, unittest.TestCase):
    def test_requests_without_a_session_go_where_there_is_least_to_do(self):
        started, streams, threads = [], [], []
        for _ in self.replicas:
            event = threading.Event()
            run = lambda event=event: streams.append(  # noqa: E731
                self.client().stream(started=event, prompt=[7] * 8, max_tokens=6000, stream_interval=100))
            threads.append(threading.Thread(target=run))
            threads[-1].start()
            started.append(event)
            self.assertTrue(event.wait(30))
        for thread in threads:
            thread.join()
        self.assertEqual({stream.replica for stream in streams}, set(self.replicas))

    def test_the_session_of_another_key_is_another_session(self):
        def replica_of(**key):
            return self.client(X_Session_ID="same", **key).stream(prompt=[7], max_tokens=1).replica

        keys = [f"key-{index}" for index in range(8)]
        places = [replica_of(Authorization=f"Bearer {key}") for key in keys]
        # However a key is sent, it is the same.
        self.assertEqual(places, [replica_of(Authorization=f"bearer {key}") for key in keys])
        self.assertEqual(places, [replica_of(X_API_Key=key) for key in keys])
        self.assertEqual(set(places), set(self.replicas))

    def test_a_session_is_found_by_the_other_header_and_by_its_path(self):
        for index in range(4):
            session = f"by-name-{index}"
            place = self.client(X_Session_Affinity=session).stream(prompt=[7, 8], max_tokens=2).replica
            self.assertEqual(self.client(X_Session_ID=session).stream(prompt=[7], max_tokens=1).replica, place)
            said_twice = self.client(X_Session_ID=session).stream(prompt=[7], max_tokens=1, session_id=session)
            self.assertEqual(said_twice.replica, place)
            # By its path alone, and with the header too, as the live view asks.
            for fields in ({}, {"X-Session-ID": session}):
                self.assertEqual(self.balancer.ask("GET", f"/v1/sessions/{session}/kv", **fields)[0], 200, "asked where it is")
            self.assertEqual(self.balancer.ask("DELETE", f"/v1/sessions/{session}")[0], 200, "asked where it is")

    def test_sessions_are_spread_evenly(self):
        client = self.client()
        places = [client.place_of(f"{index}-of-many") for index in range(400)]
        self.assertAlmostEqual(places.count("a") / len(places), 0.5, delta=0.08)

    def test_what_is_the_operators_is_not_passed_on(self):
        for path in OPERATORS:
            self.assertEqual(self.balancer.ask("GET", path)[0], 404)


class Losing(TwoReplicas, unittest.TestCase):
    def test_requests_for_a_replica_that_was_killed_are_served_by_the_other(self):
        clients = [self.client_of("a") for _ in range(4)]
        lost = self.stream_long(self.client_of("a"), 100_000)
        self.replicas["a"].signal(signal.SIGKILL)
        self.replicas["a"].wait()
        # At once: nobody has looked whether it is there.
        self.assertEqual([client.stream(prompt=[7], max_tokens=1).replica for client in clients], ["b"] * 4)
        lost.join()
        self.assertIsNotNone(lost.error, "what it had begun is lost, and can be seen to be: there is no [DONE]")


class LongStream(threading.Thread):
    """Tokens until there are as many as that, or until it is aborted by the name that `more` gives it."""

    def __init__(self, client, tokens, **more):
        super().__init__(daemon=True)
        self._client = client
        self._tokens = tokens
        self._more = more
        self.started = threading.Event()
        self.error = None

    def run(self):
        try:
            turn = self._client.stream(self.started, prompt=[11] * 8, max_tokens=self._tokens, stream_interval=200,
                                       kv={"policy": "h2o-streaming", "budget": 128}, **self._more)  # fmt: skip
            whole = turn.finish == "abort" if self._more else (len(turn.tokens), turn.finish) == (self._tokens, "length")
            assert whole, f"{len(turn.tokens)}, {turn.finish}"
        except Exception as error:  # whoever joins it wants to know
            self.error = error


class Draining(TwoReplicas, unittest.TestCase):
    def test_each_replica_can_be_drained_and_restarted_under_load(self):
        chats = [Chat(self.balancer.port, index) for index in range(CHATS)]
        for chat in chats:
            chat.take_turn()
            chat.take_turn()
        home = {chat.session: chat.turns[0][1].replica for chat in chats}
        self.assertEqual(set(home.values()), set(self.replicas), "both have sessions")
        for chat in chats:
            chat.start()
        self.drain("a", chats, lambda replica: replica.signal(), stays=False)
        self.replicas["a"] = self.replica(port=self.replicas["a"].port)
        wait_for("a is found again", lambda: self.failures(chats) or any(chat.turns[-1][1].replica == "a" for chat in chats))
        self.everybody_takes(2, chats)
        by_hand = lambda replica: self.assertEqual(replica.ask_admin("POST", "/admin/drain")[0], 200)  # noqa: E731
        self.drain("b", chats, by_hand, stays=True)
        for chat in chats:
            chat.stop()
        self.assertEqual(self.failures(chats), [])
        self.check_sessions_stayed(chats, home)
        self.check_answers(chats)
        turns = sum(len(chat.turns) for chat in chats)
        print(f"{CHATS} chats, {turns} turns, 2 drains: no request failed")

    def failures(self, chats):
        return [f"{chat.session}, turn {len(chat.turns)}: {chat.error!r}" for chat in chats if chat.error]

    def everybody_takes(self, turns, chats):
        before = {chat: len(chat.turns) for chat in chats}
        wait_for("more turns", lambda:
                 self.failures(chats) or all(len(chat.turns) >= before[chat] + turns for chat in chats))

    def drain(self, name, chats, order, stays):
        """Drains one replica while long streams and the chats run, and waits for its end. `stays`: it ends only when told
        to once more."""
        replica = self.replicas[name]
        client = self.client_of(name)
        began = time.monotonic()
        self.stream_long(client, 2000).join()
        rate = 2000 / (time.monotonic() - began)
        streams = [self.stream_long(client, int(rate * DELAY_S))]
        began = time.monotonic()
        order(replica)
        wait_for("/ready says 503", lambda: replica.ask("GET", "/ready")[0] == 503)
        noticed = time.monotonic() - began
        self.assertLess(noticed, DELAY_S)
        # Late, but a balancer may be: these are served. They go on when others are turned away.
        streams.append(self.stream_long(Client(replica.port), int(rate * 2)))
        endless = self.stream_long(Client(replica.port), 1_000_000, request_id="endless")
        late = {"prompt": "late", "max_tokens": 1}
        wait_for("new requests are refused",
                 lambda: replica.ask("POST", "/v1/completions", late)[0] in (503, None), DELAY_S + 30)  # fmt: skip
        refused = time.monotonic() - began
        self.assertGreater(refused, DELAY_S - 0.2)
        self.assertTrue(endless.is_alive(), "a stream outlives the refusal of new requests")
        for stream in streams:
            stream.join()
            self.assertIsNone(stream.error)
        ended = replica.ask_admin("POST", "/abort_requests", {"request_ids": ["endless"]})
        self.assertEqual(ended, (200, '{"aborted":1}'), "and goes on")
        endless.join()
        self.assertIsNone(endless.error)
        if stays:
            replica.signal()
        self.assertEqual(replica.wait(), 0, replica.log())
        print(f"{name}: /ready 503 after {noticed:.2f} s, refused after {refused:.2f} s, "
              f"ended after {time.monotonic() - began:.2f} s")  # fmt: skip
        self.everybody_takes(2, chats)

    def check_sessions_stayed(self, chats, home):
        for chat in chats:
            places = [turn.replica for _, turn in chat.turns]
            for index in range(1, len(places)):
                if places[index] == places[index - 1]:
                    prompt, turn = chat.turns[index]
                    # The last token of an answer was never fed back.
                    known = len(prompt) - chat.NEW_TOKENS - 1
                    self.assertEqual(turn.cached, known, f"{chat.session}, turn {index}: its KV was there")
            # Away while its replica is away, back when that is back, away for good with the only one left.
            path = [places[0]] + [places[index] for index in self.moves(chat)]
            self.assertEqual(path, ["a", "b", "a"] if home[chat.session] == "a" else ["b", "a"], chat.session)

    def moves(self, chat):
        """Turns that were not where the one before was."""
        return [index for index in range(1, len(chat.turns))
                if chat.turns[index][1].replica != chat.turns[index - 1][1].replica]  # fmt: skip

    def check_answers(self, chats):
        """What a replica computes anew for a session that came to it is what a server without sessions answers."""
        lone = Client(self.replicas["a"].port)
        count = 0
        for chat in chats:
            for index in self.moves(chat):
                prompt, turn = chat.turns[index]
                self.assertEqual(turn.cached, 0, f"{chat.session}, turn {index}: computed anew")
                alone = lone.stream(prompt=prompt, max_tokens=chat.ANSWER_TOKENS, cache_salt=f"{chat.session}-{index}")
                self.assertEqual(turn.tokens, alone.tokens, f"{chat.session}, turn {index}")
                count += 1
        print(f"{count} moves of sessions, each answered as if it had none")


HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
if __name__ == "__main__":
    if HAPROXY is None:
        skip("haproxy is not installed (deploy/debian-packages.txt, use `check`)")
    unittest.main(verbosity=2, warnings="ignore")  # about connections that end with the script
