#!/usr/bin/env python3
"""What deploy/ray_serve decides, without Ray: where a request goes, who has a slot, how many replicas there should be."""

import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "deploy" / "ray_serve"))

from hydrant_ray import affinity, scaling, slots  # noqa: E402


def head(**fields):
    return [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]


class Programs(unittest.TestCase):
    def test_hydrantd_is_found_wherever_the_wheel_was_unpacked(self):
        strangers = ("ray", "ray.serve", "ray.serve.config", "hydrant_ray.replica", "hydrant_ray.router")
        source = (pathlib.Path(affinity.__file__).parent / "app.py").read_text()
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in strangers}):
            program = pathlib.Path(folder) / "hydrant" / "bin" / "hydrantd"
            program.parent.mkdir(parents=True)
            program.touch()
            with mock.patch.dict(os.environ, PATH=folder):
                os.environ.pop("HYDRANTD", None)
                for place in ("/hydrant_ray/app.py", "/site/hydrant_ray/app.py"):  # pip install --target /site
                    app = {"__name__": "app", "__file__": place}
                    exec(compile(source, place, "exec"), app)
                    with self.assertRaisesRegex(ValueError, "hydrantd: there is none"):
                        app["_find_hydrantd"]("")
                app = {"__name__": "app", "__file__": f"{folder}/hydrant_ray/app.py"}
                exec(compile(source, "app.py", "exec"), app)
                self.assertEqual(app["_find_hydrantd"](""), str(program.resolve()))


class Affinity(unittest.TestCase):
    def test_a_slot_that_goes_moves_its_own_keys_alone(self):
        keys = [f"session  chat-{i}" for i in range(3000)]
        before = {key: affinity.ranked(key, [0, 1, 2])[0] for key in keys}
        for gone in range(3):
            left = [slot for slot in range(3) if slot != gone]
            moved = [key for key in keys if affinity.ranked(key, left)[0] != before[key]]
            self.assertTrue(all(before[key] == gone for key in moved))
            self.assertLess(len(moved), 0.37 * len(keys))
            # And they go to where the key's own order says, so that they are there before the slot comes back, too.
            self.assertTrue(all(affinity.ranked(key, left)[0] == affinity.ranked(key, [0, 1, 2])[1] for key in moved))

    def test_the_order_is_the_same_in_every_process(self):
        self.assertEqual([affinity.ranked(f"k{i}", range(4))[0] for i in range(8)], [2, 0, 0, 2, 1, 0, 0, 0])

    def test_a_head_names_a_session_by_its_first_field_or_its_path(self):
        key = affinity.key_of_head(head(x_session_id="a", x_session_affinity="b"), "/v1/completions")
        self.assertEqual(key, affinity.key_of_head(head(x_session_id="a"), "/v1/models"))
        self.assertEqual(affinity.key_of_head([], "/v1/sessions/a/state"), key)
        self.assertEqual(affinity.key_of_head(head(session_id="a"), "/"), key)
        self.assertEqual(affinity.key_of_head([], "/v1/sessions"), "")
        self.assertEqual(affinity.key_of_head(head(content_type="a"), "/v1/completions"), "")

    def test_what_responses_are_kept_in_is_a_session(self):
        chain, talk = "resp_0123456789abcdef_r42_a", affinity.key_of_head([], "/v1/sessions/conv_1")
        key = affinity.key_of_head([], "/v1/sessions/r42_a")
        for path in (f"/v1/responses/{chain}", f"/v1/responses/{chain}/input_items"):
            self.assertEqual((affinity.key_of_head([], path), affinity.session_of([], path)), (key, "r42_a"))
        for path in ("/v1/conversations/conv_1", "/v1/conversations/conv_1/items/msg_1"):
            self.assertEqual((affinity.key_of_head([], path), affinity.session_of([], path)), (talk, "conv_1"))
        for path in ("/v1/responses", "/v1/responses/resp_1", "/v1/conversations"):
            self.assertEqual(affinity.key_of_head([], path), "")
        # Another name beside it is where hydrantd does not look.
        body = {"previous_response_id": chain, "input": "x", "prompt_cache_key": "p", "session_id": "s"}
        self.assertEqual((affinity.key_of_body(body, []), affinity.session_of_body(body)), ((key, True), "r42_a"))
        for conversation in ("conv_1", {"id": "conv_1"}):
            body = {"conversation": conversation, "input": "x"}
            self.assertEqual((affinity.key_of_body(body, []), affinity.session_of_body(body)), ((talk, True), "conv_1"))
        for body in ({"conversation": {}}, {"conversation": 3}, {"previous_response_id": 3}, {"previous_response_id": "resp_1"}):
            self.assertEqual(affinity.key_of_body(body, []), ("", False))

    def test_two_tenants_with_one_id_are_two_sessions(self):
        keys = {affinity.key_of_head(head(x_session_id="a", authorization=key), "/") for key in ("Bearer a", "bearer  a", "Bearer b")}
        # The first is sent by others' clients, too.
        keys.add(affinity.key_of_head(head(x_session_id="a", x_api_key="a"), "/"))
        self.assertEqual(len(keys), 2)

    def test_a_body_names_the_same_session_as_a_head(self):
        fields = head(authorization="Bearer a")
        key, is_session = affinity.key_of_body({"session_id": "a", "prompt": "x"}, fields)
        self.assertTrue(is_session)
        self.assertEqual(key, affinity.key_of_head(fields + head(x_session_id="a"), "/"))

    def test_a_chat_without_a_name_stays_by_how_it_begins(self):
        system = {"role": "system", "content": "You are terse. " * 50}
        turns = [{"messages": [system, {"role": "user", "content": "Hello."}]}]
        turns.append({"messages": [*turns[0]["messages"], {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Go on."}]})
        keys = {affinity.key_of_body(turn, []) for turn in turns}
        self.assertEqual(len(keys), 1)
        self.assertFalse(next(iter(keys))[1])
        self.assertNotEqual(affinity.key_of_body({"prompt": "a"}, []), affinity.key_of_body({"prompt": "b"}, []))
        self.assertEqual(affinity.key_of_body({"max_tokens": 3}, []), ("", False))

    def test_what_is_no_request_goes_anywhere(self):
        for body in (b"", b"{", b"[1]", b"3", b"\xff", b"[" * 100_000, b"{" + b" " * affinity.BODY_BYTES_MAX + b"}"):
            self.assertEqual(affinity.read_body(body), {})
        for body in (b'{"session_id":3}', b'{"session_id":["a"]}', b'{"session_id":""}'):
            self.assertEqual(affinity.key_of_body(affinity.read_body(body), []), ("", False))
        self.assertEqual(affinity.key_of_body({"prompt": "\ud800"}, [])[1], False)
        affinity.ranked(affinity.key_of_body({"prompt": "\ud800"}, [])[0], [0, 1])

    def test_a_prefix_that_all_share_does_not_fill_one_slot_alone(self):
        loads = {0: 0, 1: 0, 2: 0}
        for _ in range(300):
            loads[affinity.least_crowded([2, 0, 1], loads)] += 1
        self.assertGreater(min(loads.values()), 40, loads)
        self.assertEqual(affinity.least_crowded([2, 0, 1], {}), 2)


class Slots(unittest.TestCase):
    def setUp(self):
        self.table = slots.Slots()

    def claim(self, owner, now=0, dead=()):
        return self.table.claim(owner, "n", ord(owner), dead, now)

    def tell(self, owner, slot, now, load=0):
        return self.table.tell(owner, slot, "n", ord(owner), f"http://{owner}", load, now)

    def test_a_new_replica_takes_the_lowest_free_slot(self):
        self.assertEqual([self.claim(owner) for owner in "abc"], [0, 1, 2])
        self.assertEqual(self.claim("b"), 1, "it has one")
        self.table.leave("c", 1)
        self.assertEqual(self.claim("d"), 3, "c had no right to leave b's")
        self.table.leave("b", 1)
        self.assertEqual(self.claim("e"), 1, "the successor has the directory of the one before")

    def test_a_dead_owner_is_followed_at_once_and_a_silent_one_late(self):
        self.assertEqual([self.claim(owner) for owner in "ab"], [0, 1])
        self.assertEqual(self.table.holders("n"), [("a", ord("a")), ("b", ord("b"))])
        self.assertEqual(self.table.holders("m"), [])
        self.assertEqual(self.claim("c", 30), 2, "silence is no death")
        self.assertEqual(self.claim("d", 30, dead=["b"]), 1)
        self.assertIsNone(self.tell("b", 1, 31), "its slot is d's")
        self.assertEqual(self.claim("e", 100), 0)

    def test_peers_are_those_that_speak(self):
        for owner in "ab":
            self.tell(owner, self.claim(owner), 0, load=1)
        a, b = ({"node": "n", "url": f"http://{owner}", "load": load} for owner, load in (("a", 1), ("b", 2)))
        self.assertEqual(self.tell("b", 1, 4, 2), {0: a, 1: b})
        self.assertEqual(list(self.tell("b", 1, 6)), [1], "a is silent")
        self.claim("c", 6)
        self.assertEqual(list(self.tell("a", 0, 7)), [0, 1], "c has no address yet")

    def test_a_directory_that_died_learns_again(self):
        self.assertEqual(list(self.tell("b", 1, 0)), [1])
        self.assertEqual(self.claim("c"), 0)


class Scaling(unittest.TestCase):
    def test_what_waits_and_kv_ask_for_more(self):
        self.assertEqual(scaling.wanted(waiting=0, running=4, kv=0.3, current=2, running_per_replica=8), 2)
        self.assertEqual(scaling.wanted(waiting=12, running=16, kv=0.3, current=2, running_per_replica=8), 3)
        self.assertEqual(scaling.wanted(waiting=40, running=16, kv=0.3, current=2, running_per_replica=8), 7)
        self.assertEqual(scaling.wanted(waiting=0, running=4, kv=0.95, current=2, running_per_replica=8), 3)

    def test_one_goes_where_the_others_can_carry_its_share(self):
        self.assertEqual(scaling.wanted(waiting=0, running=3, kv=0.1, current=3, running_per_replica=8), 2)
        self.assertEqual(scaling.wanted(waiting=0, running=9, kv=0.1, current=3, running_per_replica=8), 3, "its rows are needed")
        self.assertEqual(scaling.wanted(waiting=0, running=1, kv=0.4, current=3, running_per_replica=8), 3, "its KV is needed")
        self.assertEqual(scaling.wanted(waiting=0, running=0, kv=0, current=1, running_per_replica=8), 1)

    def test_down_takes_patience_and_up_does_not(self):
        def ctx(waiting, state, replicas=2):
            metrics = {name: {i: value for i in range(replicas)} for name, value in
                       {"waiting": waiting / replicas, "running": 0, "kv": 0, "rows": 8}.items()}  # fmt: skip
            return types.SimpleNamespace(
                aggregated_metrics=metrics, policy_state=state, current_num_replicas=replicas, target_num_replicas=replicas,
                capacity_adjusted_min_replicas=1, capacity_adjusted_max_replicas=3,
            )  # fmt: skip

        target, state = scaling.decide(ctx(0, {"patience": 3}))
        self.assertEqual(target, 2)
        target, state = scaling.decide(ctx(0, state))
        self.assertEqual(target, 2)
        self.assertEqual(scaling.decide(ctx(100, state))[0], 3, "and no more than there may be")
        self.assertEqual(scaling.decide(ctx(100, state))[1]["spare"], 0)
        self.assertEqual(scaling.decide(ctx(0, state))[0], 1)
        quiet = ctx(0, state)
        quiet.aggregated_metrics = {"waiting": {0: 0.0}}
        self.assertEqual(scaling.decide(quiet)[0], 2, "one of two has not told")


if __name__ == "__main__":
    unittest.main()
