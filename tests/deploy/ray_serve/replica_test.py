#!/usr/bin/env python3
"""What a replica of deploy/ray_serve does with its peers' sessions, without Ray: hydrantds that say the little that is asked of them, and
real ones; and the part of aiohttp that is used, over the standard library."""

import asyncio
import collections
import http.client
import http.server
import json
import pathlib
import sys
import tempfile
import threading
import types
import unittest
import urllib.parse
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2] / "deploy" / "ray_serve"), str(HERE.parent)]

import serving  # noqa: E402


class Client:
    """aiohttp.ClientSession."""

    def request(self, method, url, headers=(), data=None, **_):
        return Exchange(method, str(url), dict(headers), data)

    def get(self, url, headers=(), timeout=None):
        return self.request("GET", url, headers)

    def put(self, url, headers=(), data=None, timeout=None):
        return self.request("PUT", url, headers, data)

    def delete(self, url, headers=(), timeout=None):
        return self.request("DELETE", url, headers)


class Exchange:
    def __init__(self, *request):
        self._request = request

    async def __aenter__(self):
        return await asyncio.to_thread(self._ask, *self._request)

    async def __aexit__(self, *_):
        pass

    @staticmethod
    def _ask(method, url, headers, data):
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        try:
            connection.request(method, parts.path, data, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.content_type = status, headers, headers.get_content_type()
        self.raw_headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._body, self.content = body, self

    async def read(self):
        return self._body

    async def json(self):
        return json.loads(self._body)

    async def iter_any(self):
        yield self._body


class Hydrantd(http.server.ThreadingHTTPServer):
    """Sessions by their path, each of so many turns and held by a key; a turn that is appended needs the ones before it."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.sessions = {}
        self.asked = []
        self.silent = False
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, value=None, **fields):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, field in {"Content-Type": "application/json", "Content-Length": str(len(body)), **fields}.items():
            self.send_header(name, field)
        self.end_headers()
        self.wfile.write(body)

    def begin(self):
        """The session of the path, if it is there for this key."""
        self.server.asked.append(f"{self.command} {self.path}")
        self.name = (self.headers["Authorization"], self.path.split("/")[3] if self.path.startswith("/v1/sessions/") else "")
        return self.server.sessions.get(self.name)

    def do_GET(self):
        turn = self.begin()
        if self.server.silent:
            return None
        if turn is None:
            return self.answer(404)
        return self.answer(200, turn if self.path.endswith("/state") else {"turn": turn}, ETag=f'"{turn}"')

    def do_PUT(self):
        self.begin()
        self.server.sessions[self.name] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(201)

    def do_DELETE(self):
        if self.headers["If-Match"] != f'"{self.begin()}"':
            return self.answer(412)
        del self.server.sessions[self.name]
        return self.answer(200)

    def do_POST(self):
        self.begin()
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = (self.headers["Authorization"], self.headers["X-Session-ID"] or request.get("session_id"))
        if request.get("session_append") and name not in self.server.sessions:
            return self.answer(404, {"error": {"code": "session_not_found"}})
        self.server.sessions[name] = turn = self.server.sessions.get(name, 0) + 1
        return self.answer(200, {"turn": turn})


STRANGERS = {
    "aiohttp": types.SimpleNamespace(
        ClientTimeout=mock.Mock(), ClientError=OSError, ClientConnectorError=ConnectionRefusedError, ServerDisconnectedError=http.client.HTTPException,
        ClientOSError=ConnectionResetError, client=types.SimpleNamespace(URL=lambda url, encoded: url),
    ),
    "ray": mock.MagicMock(),
    "starlette": mock.MagicMock(),
    "starlette.responses": types.SimpleNamespace(Response=object),
    "hydrant_ray.directory": mock.MagicMock(),
}  # fmt: skip
with mock.patch.dict(sys.modules, STRANGERS):
    from hydrant_ray import affinity, replica, slots


class Replica(replica.Replica):
    def __del__(self):  # Serve awaits the one above
        pass

    def ask(self, method, path, body=None, headers=()):
        """(status, body) of what it makes of a request that Serve gave it."""
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"method": method, "path": path, "query_string": b"", "headers": [(b"content-type", b"application/json"), *headers]}
        asyncio.run(self.serve(scope, b"" if body is None else json.dumps(body).encode(), send))
        return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))


class Cluster:
    """`nodes`: that of each slot. Replicas as they are once they have told the directory."""

    def __init__(self, nodes, folder=None, daemons=None, options=None):
        table = slots.Slots()
        self.daemons = daemons or {slot: types.SimpleNamespace(url=f"http://{slot}") for slot in nodes}
        self.replicas = {}
        for slot, node in nodes.items():
            table.tell(f"owner-{slot}", slot, node, 1, self.daemons[slot].url, 0, 0)
        for slot, node in nodes.items():
            one = self.replicas[slot] = Replica.__new__(Replica)
            one.slot, one.peers = slot, replica.Peers(slot, node, self.daemons[slot].url)
            one.peers.learn(table.tell(f"owner-{slot}", slot, node, 1, self.daemons[slot].url, 0, 0))
            one._in_flight, one._known, one._vacant = 0, collections.OrderedDict(), {}
            one._options, one._root = options, folder and folder / node
            one.daemon = types.SimpleNamespace(
                url=self.daemons[slot].url, client=Client(), directory=folder and folder / node / f"slot-{slot}"
            )


class Adoption(unittest.TestCase):
    def test_each_node_adopts_what_lies_on_it(self):
        nodes = {0: "A", 1: "B", 3: "B"}
        with tempfile.TemporaryDirectory() as name, mock.patch.object(replica, "ADOPT_AFTER_S", 0), mock.patch("builtins.print"):
            folder = pathlib.Path(name)
            program = folder / "hydrantd"
            program.write_text(f'#!/bin/sh\necho "$@" >>{folder}/calls\n')
            program.chmod(0o700)
            for place in ("A/slot-0", "A/slot-2", "B/slot-0", "B/slot-1", "B/slot-2", "B/slot-3"):
                (folder / place / "sessions").mkdir(parents=True)
            cluster = Cluster(nodes, folder, options={"hydrantd": program})
            for _ in range(2):  # the second time there is nothing left to do
                for one in cluster.replicas.values():
                    asyncio.run(one._adopt())
            calls = {tuple(line.split()[3::2]) for line in (folder / "calls").read_text().splitlines()}
            self.assertEqual(len((folder / "calls").read_text().splitlines()), 3)
            # Slot 0 of B lives on A now: what it left on B is B's to adopt.
            moves = (("A/slot-2", "A/slot-0"), ("B/slot-0", "B/slot-1"), ("B/slot-2", "B/slot-1"))
            self.assertEqual(calls, {(f"{folder}/{gone}/sessions", f"unix:{folder}/{to}/admin.sock") for gone, to in moves})

    def test_a_slot_that_comes_back_in_time_is_left_alone(self):
        with tempfile.TemporaryDirectory() as name, mock.patch.object(replica, "time") as time:
            folder = pathlib.Path(name)
            (folder / "A" / "slot-1" / "sessions").mkdir(parents=True)
            one = Cluster({0: "A"}, folder, options={"hydrantd": "/no/such/program"}).replicas[0]
            for now, here in ((0, {0}), (29, {0}), (31, {0, 1}), (60, {0}), (89, {0})):  # at 60 its time begins anew
                one.peers.here, time.monotonic.return_value = here, now
                asyncio.run(one._adopt())


class Pulling(unittest.TestCase):
    def setUp(self):
        self.daemons = {slot: Hydrantd() for slot in range(3)}
        self.cluster = Cluster({slot: "A" for slot in range(3)}, daemons=self.daemons)
        self.key = [(b"authorization", b"Bearer a")]
        self.name = ("Bearer a", "chat")
        order = affinity.ranked(affinity.key_of_head([*self.key, (b"x-session-id", b"chat")], "/"), range(3))
        self.home, self.other, self.third = (self.daemons[slot] for slot in order)
        self.replica, self.stranger = (self.cluster.replicas[slot] for slot in order[:2])

    def tearDown(self):
        for daemon in self.daemons.values():
            daemon.shutdown()
            daemon.server_close()

    def ask(self, one, body, **fields):
        """(status, body) of what replica `one` makes of a turn."""
        return one.ask("POST", "/v1/completions", body, [*self.key, *((name.replace("_", "-").encode(), value.encode()) for name, value in fields.items())])

    def test_a_turn_goes_on_from_where_a_peer_left_it(self):
        self.other.sessions[self.name], self.third.sessions[self.name] = 4, 2
        self.assertEqual(self.ask(self.replica, {"session_append": True}, x_session_id="chat"), (200, {"turn": 5}), "the latest one's")
        self.assertEqual((self.home.sessions, self.other.sessions), ({self.name: 5}, {}))
        asked = len(self.other.asked)
        self.assertEqual(self.ask(self.replica, {"session_append": True}, x_session_id="chat"), (200, {"turn": 6}))
        self.assertEqual(len(self.other.asked), asked, "it is known to be where it belongs")

    def test_one_that_its_body_names_is_fetched_to_its_slot_by_whoever_got_the_request(self):
        self.third.sessions[self.name] = 2
        self.assertEqual(self.ask(self.stranger, {"session_append": True, "session_id": "chat"}), (200, {"turn": 3}))
        self.assertEqual((self.home.sessions, self.third.sessions), ({self.name: 3}, {}))

    def test_one_that_is_at_home_stays_and_another_tenants_is_not_found(self):
        self.home.sessions[self.name], self.other.sessions[self.name] = 3, 9
        self.other.sessions[("Bearer b", "mine")] = 1
        self.assertEqual(self.ask(self.replica, {"session_append": True}, x_session_id="chat"), (200, {"turn": 4}))
        self.assertEqual(self.ask(self.replica, {"session_append": True}, x_session_id="mine")[0], 404)
        self.assertEqual(self.other.sessions[("Bearer b", "mine")], 1)

    def test_what_nobody_had_is_looked_for_again(self):
        self.other.sessions[self.name] = 1
        for daemon in (self.other, self.home):
            daemon.silent = True
            self.assertEqual(self.ask(self.replica, {"session_append": True}, x_session_id="chat")[0], 404)
            daemon.silent = False
        self.assertEqual(self.ask(self.replica, {"session_append": True}, x_session_id="chat"), (200, {"turn": 2}))
        self.assertEqual(self.ask(self.replica, {"session_append": True}, x_session_id="late")[0], 404)
        self.third.sessions[("Bearer a", "late")] = 5  # adopted meanwhile
        self.assertEqual(self.ask(self.replica, {"session_append": True}, x_session_id="late"), (200, {"turn": 6}))

    def test_one_that_has_been_elsewhere_is_fetched_back(self):
        self.home.sessions[self.name] = 1
        self.assertEqual(self.ask(self.replica, {"session_append": True}, x_session_id="chat"), (200, {"turn": 2}))
        self.other.sessions[self.name] = self.home.sessions.pop(self.name)  # a slot came that it belonged to, and went
        entries = {slot: {"node": "A", "url": daemon.url, "load": 0} for slot, daemon in self.daemons.items()}
        self.replica._owner, self.replica._node, self.replica._directory = "o", "A", mock.MagicMock()
        for there in ({**entries, 3: {"node": "A", "url": "http://127.0.0.1:9", "load": 0}}, entries):
            self.replica._directory.tell.remote = mock.AsyncMock(return_value=there)
            asyncio.run(self.replica._tell())
        self.assertEqual(self.ask(self.replica, {"session_append": True}, x_session_id="chat"), (200, {"turn": 3}))

    def test_a_peer_that_is_gone_is_no_error(self):
        self.third.shutdown()
        self.third.server_close()
        self.other.sessions[self.name] = 1
        self.assertEqual(self.ask(self.replica, {"session_append": True}, x_session_id="chat"), (200, {"turn": 2}))
        self.assertEqual(self.ask(self.replica, {}, x_session_id="new"), (200, {"turn": 1}))


@unittest.skipUnless(serving.BINARY.exists() and serving.DEFAULT_MODEL.exists(), "no hydrantd, or no model")
class RealPeers(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="hydrant-ray-")
        self.addCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        model = serving.small_model(serving.folder("ray_replica"))
        flags = ("--threads", 1, "--max-model-len", 1024, "--num-gpu-blocks-override", 256, "--no-ui")
        self.daemons = {}
        for slot in range(3):
            place = folder / "A" / f"slot-{slot}"
            place.mkdir(parents=True)
            own = ("--session-dir", place / "sessions", "--admin-socket", place / "admin.sock")
            daemon = self.daemons[slot] = serving.ServerProcess(serving.BINARY, model, (*flags, *own))
            self.addCleanup(daemon.stop)
            daemon.url = daemon.base
        nodes = {slot: "A" for slot in range(3)}
        self.replicas = Cluster(nodes, folder, self.daemons, {"hydrantd": serving.BINARY}).replicas

    def ask(self, slot, method, path, body=None):
        status, answer = self.replicas[slot].ask(method, path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def respond(self, slot, **more):
        return self.ask(slot, "POST", "/v1/responses", {"input": "Who?", "max_output_tokens": 4, "temperature": 0, **more})

    def home(self, path):
        """The slot to which Serve's router gives a request with this path."""
        return affinity.ranked(affinity.key_of_head([], path), range(3))[0]

    def test_what_was_said_to_a_slot_that_is_gone_is_gone_on_from(self):
        def say(slot, chat, **more):
            body = {"prompt": [100 + slot] * 20, "max_tokens": 4, "temperature": 0, "ignore_eos": True, "session_id": chat, **more}
            return self.ask(slot, "POST", "/v1/completions", body)

        chats = [f"chat-{i}" for i in range(12)]
        homes = {chat: self.home(f"/v1/sessions/{chat}") for chat in chats}
        for chat in chats:
            self.assertEqual(say(0, chat)["hydrant"]["turn"], 1)
        self.assertEqual(self.daemons.pop(2).stop(), 0)
        for one in (self.replicas[0], self.replicas[1]):
            one.peers.learn({slot: {"node": "A", "url": daemon.url, "load": 0} for slot, daemon in self.daemons.items()})
        with mock.patch.object(replica, "ADOPT_AFTER_S", 0), mock.patch("builtins.print") as said:
            for slot in (1, 0):
                asyncio.run(self.replicas[slot]._adopt())
        said.assert_called_once_with("slot 0: adopted the sessions of slot-2: exit code 0", flush=True)
        for chat in chats:
            answer = say(1, chat, session_append=True)
            self.assertEqual((answer["hydrant"]["turn"], answer["usage"]["prompt_tokens"]), (2, 44), (chat, homes[chat]))
        # Those of the slot that is gone are where they belong now, not all where they were adopted.
        orphans = [chat for chat in chats if homes[chat] == 2]
        self.assertEqual({affinity.ranked(affinity.key_of_head([], f"/v1/sessions/{chat}"), range(2))[0] for chat in orphans}, {0, 1})

    def test_chains_and_conversations_are_found_from_everywhere(self):
        for i in range(4):  # whose slots are drawn
            first = self.respond(i % 3, input=f"I am {i}.")
            second = self.respond((i + 1) % 3, previous_response_id=first["id"])
            third = self.respond((i + 2) % 3, previous_response_id=second["id"])
            self.assertGreater(third["usage"]["input_tokens_details"]["cached_tokens"], second["usage"]["input_tokens"] // 2)
            path = f"/v1/responses/{second['id']}"
            self.assertEqual(self.ask(self.home(path), "GET", path)["id"], second["id"])
            said = {"items": [{"type": "message", "role": "user", "content": f"I am {i}."}]}
            talk = self.ask(i % 3, "POST", "/v1/conversations", said)["id"]
            self.respond((i + 1) % 3, conversation=talk)
            self.respond((i + 2) % 3, conversation={"id": talk})
            path = f"/v1/conversations/{talk}/items"
            self.assertEqual(len(self.ask(self.home(path), "GET", path)["data"]), 5)


if __name__ == "__main__":
    unittest.main()
