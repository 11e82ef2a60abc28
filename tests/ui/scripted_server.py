"""The live view's files under the policy of the real server, and behind them a server that answers what a test tells it to, when
it tells it to. It is for what a real one does too rarely to be waited for: answers that overtake each other, sessions longer than a
context, full queues. Standard library only."""

import http.server
import json
import pathlib
import re
import socket
import threading
import time
import urllib.parse

UI = pathlib.Path(__file__).resolve().parents[2] / "server" / "live_view" / "ui"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = "".join(re.findall(r'"(.*?)"', re.search(r"kUiSecurityPolicy\[\] =(.*?);\n", (UI.parent / "ui_routes.h").read_text(), re.S)[1]))
LAYERS, HEADS = 3, 2
MODEL = {"id": "a-model", "max_model_len": 8192, "kv_block_bytes": 400_000}


def kv_answer(session, known, query):
    """GET /v1/sessions/{id}/kv of a session that holds everything and has parked it."""
    limit = int(query.get("limit", 4096))
    after = int(query.get("after", max(0, known - limit)))
    window = range(after, min(known, after + limit))
    answer = {
        "id": session, "state": "parked", "policy": "full", "budget": None, "heavy": 0, "recent": 0, "layers": LAYERS,
        "kv_heads": HEADS, "known": known, "logical": known, "live": known, "blocks": -(-known // 16), "ahead": None, "after": after,
        "aside": False, "has_more": after + limit < known, "tokens": [100 + at for at in window], "pieces": [f" {at}" for at in window],
        "specials": [], "held": [LAYERS * HEADS] * len(window), "scores": None, "reach": [[0.5] * HEADS] * LAYERS, "unknown": None,
    }  # fmt: skip
    if "layer" in query:
        answer["pair"] = {"positions": list(window)[:1], "scores": None}
    return answer


class Request:
    def __init__(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        self.method, self.path = handler.command, url.path
        self.query = dict(urllib.parse.parse_qsl(url.query))
        self.headers = dict(handler.headers)
        self.body = json.loads(handler.rfile.read(int(handler.headers.get("Content-Length", 0))) or "null")
        # What its path names, where it names one.
        self.session = self.path.split("/")[3] if self.path.startswith("/v1/sessions/") else None


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # a page asks for all its files at once, and the five of the library end in a reset where the machine is busy


class ScriptedServer:
    """`kv(request)`, `chat(request)`, `models(request)` and `forget(request)` return (status, JSON) or (status, JSON, fields of the
    head). In the place of the JSON there may be the events of a stream, which are sent as they come from a list or a generator, a text
    as it is. While it is `away` no request is answered. They are called on a thread of the request's own, so one may wait while others
    are answered. A test replaces what it is about."""

    def __init__(self):
        self.requests = []  # to /v1/, in the order they came
        self.away = False
        self.known = 40  # tokens of every session
        self.chat = lambda request: (200, [{"choices": [{"delta": {"content": "An answer."}}]}])
        self.kv = lambda request: (200, kv_answer(request.session, self.known, request.query))
        self.models = lambda request: (200, {"data": [MODEL]})
        self.forget = lambda request: (200, {"deleted": True})
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                outer._serve(self)

            do_POST = do_DELETE = do_GET

        self._server = Listener(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def asked(self, **query):
        """Requests for a session's KV whose query has these members; None: it lacks this one."""
        return [request for request in list(self.requests) if request.path.endswith("/kv")
                and all(request.query.get(name) == value for name, value in query.items())]  # fmt: skip

    def wait_for(self, method, timeout=30.0):
        """Until a request of this method has come."""
        deadline = time.monotonic() + timeout
        while not any(request.method == method for request in list(self.requests)):
            assert time.monotonic() < deadline, f"no {method} within {timeout} s"
            time.sleep(0.01)

    def _serve(self, handler):
        request = Request(handler)
        if request.path.startswith("/ui"):
            file = UI / (request.path.removeprefix("/ui").lstrip("/") or "index.html")
            return self._send(handler, 200, TYPES[file.suffix], file.read_bytes(), {"Content-Security-Policy": POLICY})
        self.requests.append(request)
        if self.away:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return None
        status, answer, *fields = self._answer(request)
        if isinstance(answer, dict):
            return self._send(handler, status, "application/json", json.dumps(answer).encode(), *fields)
        return self._stream(handler, status, answer, *fields)

    def _answer(self, request):
        if request.path == "/v1/models":
            return self.models(request)
        if request.method == "POST":
            return self.chat(request)
        return self.forget(request) if request.method == "DELETE" else self.kv(request)

    @staticmethod
    def _send(handler, status, kind, body, fields=None):
        try:
            handler.send_response(status)
            for name, value in ({"Content-Type": kind, "Content-Length": str(len(body))} | (fields or {})).items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body)
        except OSError:
            pass  # the page no longer wanted it

    @staticmethod
    def _stream(handler, status, events, fields=None):
        try:
            handler.send_response(status)
            for name, value in ({"Content-Type": "text/event-stream"} | (fields or {})).items():
                handler.send_header(name, value)
            handler.end_headers()
            for event in events:
                handler.wfile.write((event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n").encode())
            handler.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass
