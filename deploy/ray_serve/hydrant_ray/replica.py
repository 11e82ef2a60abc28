"""The deployment: one replica is one hydrantd, and a proxy that hands bytes through as they come."""

import asyncio
import collections
import contextlib
import json
import os
import pathlib
import re
import time

import aiohttp
import ray
from ray import serve
from starlette.responses import Response

from hydrant_ray import affinity
from hydrant_ray.daemon import Daemon
from hydrant_ray.directory import directory_of

TELL_EVERY_S = 0.5
START_TRIES = 20  # while the process that had the slot before ends
START_AGAIN_S = 0.5
ADOPT_AFTER_S = 30.0  # a slot that nobody has had for so long is not coming back
PEER_PATIENCE_S = 0.25  # for a peer to say whether it has a session
MOVE_PATIENCE_S = 5.0
SESSIONS_KNOWN_MAX = 100_000  # of which it is remembered that they are where they belong: some 20 MB
SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Of a connection, and not of what goes through it; aiohttp writes its own.
HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"host", b"content-length",
})  # fmt: skip
NOTHING_CAME = (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


class Proxied(Response):
    """What a replica returns to Serve: it is asked to send itself."""

    def __init__(self, replica, request):
        self._replica, self._request = replica, request
        self.background, self.status_code = None, 200

    async def __call__(self, scope, receive, send):
        await self._replica.serve(scope, await self._request.body(), send)


class Peers:
    """The slots and the addresses of their daemons, as the directory said last, this replica's own among them. `here`: the slots of
    its node, whose directories are on the same disk."""

    def __init__(self, slot, node, url):
        self.slot, self.node = slot, node
        self.urls, self.loads, self.here = {slot: url}, {}, {slot}

    def learn(self, entries):
        """Whether others are there than before."""
        before = self.urls
        self.urls = {**{slot: entry["url"] for slot, entry in entries.items()}, self.slot: self.urls[self.slot]}
        self.loads = {slot: entry["load"] for slot, entry in entries.items()}
        self.here = {slot for slot, entry in entries.items() if entry["node"] == self.node} | {self.slot}
        return self.urls != before

    def others(self, slot):
        return [url for other, url in self.urls.items() if other != slot]


class Replica:
    async def __init__(self, options):
        self._options = options
        context = serve.get_replica_context()
        self._owner = context.replica_id.unique_id
        self._node = ray.get_runtime_context().get_node_id()
        self._directory = directory_of(context.app_name)
        self._root = pathlib.Path(options["directory"])
        self._in_flight = 0
        self._known = collections.OrderedDict()  # sessions that have been seen where they belong
        self._vacant = {}  # slot directory -> since when nobody has it
        self._tasks = []
        dead = [owner for owner, pid in await self._directory.holders.remote(self._node) if not pathlib.Path(f"/proc/{pid}").exists()]
        self.slot = await self._directory.claim.remote(self._owner, self._node, os.getpid(), dead)
        self._lost = False
        await self._start()
        self.peers = Peers(self.slot, self._node, self.daemon.url)
        await self._tell()
        self._tasks.append(asyncio.create_task(self._keep_telling()))

    async def _start(self):
        options = self._options
        host = ray.util.get_node_ip_address() if options["host"] == "auto" else options["host"]
        for tries_left in reversed(range(START_TRIES)):
            self.daemon = Daemon(
                options["hydrantd"], options["model"], host, self._root / f"slot-{self.slot}", options["settings"], f"slot-{self.slot}"
            )
            try:
                # While it starts, the slot is spoken for.
                start = asyncio.create_task(self.daemon.start())
                while not (await asyncio.wait({start}, timeout=TELL_EVERY_S))[0]:
                    await self._directory.tell.remote(self._owner, self.slot, self._node, os.getpid(), "", 0)
                await start
                return
            except RuntimeError as error:
                await self.daemon.stop(1.0)
                if tries_left == 0 or "directory" not in str(error):
                    raise
                await asyncio.sleep(START_AGAIN_S)

    # What Serve asks.

    def record_replica_metadata(self):
        return {"slot": self.slot}

    async def check_health(self):
        if not self.daemon.alive():
            raise RuntimeError("hydrantd has ended")
        if self._lost:
            raise RuntimeError(f"slot {self.slot} has become another replica's")
        if not await self.daemon.ready():
            raise RuntimeError("hydrantd is not ready")

    async def record_autoscaling_stats(self):
        return {**await self.daemon.load(), "rows": float(self._options["settings"].get("max_num_seqs", 256))}

    async def __del__(self):
        for task in self._tasks:
            task.cancel()
        await self._directory.leave.remote(self._owner, self.slot)
        await self.daemon.stop(self._options["stop_patience_s"])

    async def __call__(self, request):
        return Proxied(self, request)

    # What it does by itself.

    async def _tell(self):
        entries = await self._directory.tell.remote(
            self._owner, self.slot, self._node, os.getpid(), self.daemon.url, self._in_flight
        )
        if entries is None:
            self._lost = True
        elif self.peers.learn(entries):
            self._known.clear()  # they belong to other slots now, or have been there

    async def _keep_telling(self):
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            try:
                if self.daemon.alive():
                    await self._tell()
                    await self._adopt()
            except Exception as error:  # the directory starts anew, or a disk is full: it is tried again
                print(f"slot {self.slot}: {error}", flush=True)

    async def _adopt(self):
        """The sessions of slots that are gone for good come here, by the lowest slot of the node alone; who needs one fetches it."""
        if self.slot != min(self.peers.here):
            return
        now = time.monotonic()
        held = {f"slot-{slot}" for slot in self.peers.here}  # one that came again on another node left its sessions on this one
        here = {path.name for path in self._root.glob("slot-*") if (path / "sessions").is_dir()} - held
        self._vacant = {name: self._vacant.get(name, now) for name in here}
        for name, since in self._vacant.items():
            if since is None or now - since < ADOPT_AFTER_S:
                continue
            self._vacant[name] = None  # once
            process = await asyncio.create_subprocess_exec(
                str(self._options["hydrantd"]), "sessions", "handover", "--from", str(self._root / name / "sessions"),
                "--to", f"unix:{self.daemon.directory / 'admin.sock'}",
            )  # fmt: skip
            print(f"slot {self.slot}: adopted the sessions of {name}: exit code {await process.wait()}", flush=True)

    # Requests.

    async def serve(self, scope, body, send):
        headers, path = scope["headers"], scope["path"]
        session = affinity.session_of(headers, path)
        order = [self.slot]
        if not affinity.key_of_head(headers, path) and scope["method"] == "POST" and path in affinity.GENERATIONS:
            request = affinity.read_body(body)
            key, is_session = affinity.key_of_body(request, headers)
            if key:
                order = affinity.ranked(key, self.peers.urls)
                if is_session:
                    session = affinity.session_of_body(request)
                else:
                    first = affinity.least_crowded(order, {**self.peers.loads, self.slot: self._in_flight})
                    order = [first, *(slot for slot in order if slot != first)]
        order += [slot for slot in affinity.ranked(session or path, self.peers.urls) if slot not in order]
        self._in_flight += 1
        try:
            if SESSION_ID.fullmatch(session):
                await self._fetch_session(order[0], session, headers)
            await self._forward(order, scope, body, send)
        finally:
            self._in_flight -= 1

    async def _forward(self, order, scope, body, send):
        """To the first slot that takes it. One that ends under a request without having answered is followed by one more, not by all:
        the request may be what ended it."""
        deaths = 0
        for slot in order:
            url = self.peers.urls.get(slot)
            if url is None:
                continue
            try:
                await self._through(url, scope, body, send)
                return
            except aiohttp.ClientConnectorError:
                continue
            except NOTHING_CAME:
                deaths += 1
                if deaths > 1:
                    break
        await _refuse(send, deaths)

    async def _through(self, url, scope, body, send):
        target = url + scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        if scope["query_string"]:
            target += "?" + scope["query_string"].decode("latin-1")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"] if name.lower() not in HOP_BY_HOP]
        if scope.get("client"):
            headers.append(("X-Forwarded-For", scope["client"][0]))
        data = body if body or scope["method"] in ("POST", "PUT") else None
        yarl = aiohttp.client.URL(target, encoded=True)
        async with self.daemon.client.request(scope["method"], yarl, headers=headers, data=data, allow_redirects=False,
                                              skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type")) as answer:  # fmt: skip
            fields = [(name.lower(), value) for name, value in answer.raw_headers if name.lower() not in HOP_BY_HOP - {b"content-length"}]
            await send({"type": "http.response.start", "status": answer.status, "headers": fields})
            try:
                async for piece in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except (aiohttp.ClientError, OSError) as error:
                if not answer.content_type.startswith("text/event-stream"):
                    raise RuntimeError("hydrantd ended in the middle of its answer") from error
                await send({"type": "http.response.body", "body": _stream_error(scope["path"]), "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    # Sessions.

    async def _fetch_session(self, slot, session, headers):
        """Until a session is seen where it belongs: from the peer that has it, where one does. What goes wrong is no error of the
        request: its history is computed."""
        target = self.peers.urls.get(slot)
        others = self.peers.others(slot)
        keys = tuple((name, value) for name in affinity.CREDENTIALS if (value := affinity.header(headers, name)))
        known = (target, session, keys)
        if known in self._known:
            self._known.move_to_end(known)
            return
        if target is None or not others:
            return
        with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError):
            if await self._move_here(target, others, f"/v1/sessions/{session}", dict(keys)):
                self._known[known] = None
        if len(self._known) > SESSIONS_KNOWN_MAX:
            self._known.popitem(last=False)

    async def _move_here(self, target, others, path, keys):
        """Whether it is there now. Where nobody has it, somebody may later: whoever adopts it."""
        if await self._turn_of(target, path, keys) is not None:
            return True
        turns = await asyncio.gather(*(self._turn_of(url, path, keys) for url in others), return_exceptions=True)
        found = [(turn, url) for turn, url in zip(turns, others) if isinstance(turn, int)]
        if not found:
            return False
        _, source = max(found)
        client, patience = self.daemon.client, aiohttp.ClientTimeout(total=MOVE_PATIENCE_S)
        async with client.get(f"{source}{path}/state", headers=keys, timeout=patience) as answer:
            if answer.status != 200:
                return False
            tag, state = answer.headers["ETag"], await answer.read()
        fields = {**keys, "If-None-Match": "*", "Content-Type": "application/vnd.hydrant.session"}
        async with client.put(f"{target}{path}/state", headers=fields, data=state, timeout=patience) as answer:
            if answer.status != 201:
                return False
        async with client.delete(source + path, headers={**keys, "If-Match": tag}, timeout=patience):
            return True  # where it has gone on meanwhile it stays, and is the newer one

    async def _turn_of(self, url, path, keys):
        """The session's last turn at `url`; None: it has no such session. An error where it does not say so soon."""
        async with self.daemon.client.get(url + path, headers=keys, timeout=aiohttp.ClientTimeout(total=PEER_PATIENCE_S)) as answer:
            return (await answer.json()).get("turn") or 0 if answer.status == 200 else None


def _stream_error(path):
    """The last event of a stream whose engine is gone: no [DONE] follows, so that nobody takes it for whole."""
    error = {"message": "The replica ended in the middle of the answer.", "type": "server_error", "param": None, "code": "replica_lost"}
    if path == "/v1/messages":
        return b"event: error\ndata: " + json.dumps({"type": "error", "error": {"type": "api_error", **error}}).encode() + b"\n\n"
    return b"data: " + json.dumps({"error": error}).encode() + b"\n\n"


async def _refuse(send, deaths):
    message = "Replicas ended under this request." if deaths > 1 else "There is no replica."
    error = {"message": message, "type": "server_error", "param": None, "code": "no_replica"}
    fields = [(b"content-type", b"application/json"), (b"retry-after", b"2")]
    await send({"type": "http.response.start", "status": 503, "headers": fields})
    await send({"type": "http.response.body", "body": json.dumps({"error": error}).encode()})
