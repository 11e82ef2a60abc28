"""HTTP/1 by hand: what goes over the wire is exactly what a test wrote, and what comes back is read without repair."""

import dataclasses
import json
import select
import socket
import time


@dataclasses.dataclass
class Response:
    status: int
    fields: list  # (lower-case name, value), in order
    body: bytes
    version: str = "HTTP/1.1"

    def field(self, name, otherwise=None):
        values = [value for key, value in self.fields if key == name]
        assert len(values) <= 1, f"{name} was sent {len(values)} times"
        return values[0] if values else otherwise

    def json(self):
        return json.loads(self.body.decode("utf-8"), parse_constant=_refuse_constant)


def _refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


class ConnectionEnded(Exception):
    """The peer closed or reset the connection before a whole response came."""


def head(method, path, fields=(), host="127.0.0.1", version="1.1"):
    """A request line and header block; `host=None` leaves the field out."""
    lines = [f"{method} {path} HTTP/{version}"]
    if host is not None:
        lines.append(f"Host: {host}")
    lines += [f"{name}: {value}" for name, value in fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def post(path, body, fields=(), **kwargs):
    """A whole POST; `body` is bytes, or anything json.dumps takes."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    own = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return head("POST", path, own + list(fields), **kwargs) + body


class Connection:
    """One TCP connection. Reads have a deadline in seconds that starts with each call."""

    def __init__(self, address, timeout=60.0, receive_buffer=None, source=None):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            self._socket.bind((source, 0))
        self._socket.settimeout(timeout)
        self._socket.connect(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timeout = timeout
        self._pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._socket.close()

    def reset(self):
        """Ends the connection with RST instead of FIN."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self._socket.close()

    def send(self, data):
        """Sends everything, or raises ConnectionEnded when the peer has gone."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionEnded(str(error)) from error

    def try_send(self, data):
        """Sends as much as the peer takes; it may answer and close early. True if all went out."""
        try:
            self._socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def readable(self):
        """True if bytes, or the end, are there to be read now."""
        return bool(self._pending) or bool(select.select([self._socket], [], [], 0)[0])

    def shut_write(self):
        self._socket.shutdown(socket.SHUT_WR)

    def _fill(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        self._socket.settimeout(left)
        try:
            data = self._socket.recv(65536)
        except ConnectionResetError as error:
            raise ConnectionEnded("reset") from error
        except socket.timeout as error:
            raise TimeoutError("no answer in time") from error
        finally:
            self._socket.settimeout(self._timeout)
        if not data:
            raise ConnectionEnded("closed")
        self._pending += data

    def _until(self, separator, deadline):
        while separator not in self._pending:
            self._fill(deadline)
        piece, self._pending = self._pending.split(separator, 1)
        return piece

    def _exactly(self, count, deadline):
        while len(self._pending) < count:
            self._fill(deadline)
        piece, self._pending = self._pending[:count], self._pending[count:]
        return piece

    def read_head(self, timeout=None):
        """Status line and fields; the body is left on the wire."""
        deadline = time.monotonic() + (timeout or self._timeout)
        block = self._until(b"\r\n\r\n", deadline).decode("latin-1")
        status_line, *lines = block.split("\r\n")
        version, status, *_ = status_line.split(" ", 2)
        assert version in ("HTTP/1.1", "HTTP/1.0"), status_line
        fields = []
        for line in lines:
            name, colon, value = line.partition(":")
            assert colon and name and name == name.strip(), f"bad field line {line!r}"
            fields.append((name.lower(), value.strip()))
        return Response(int(status), fields, b"", version)

    def chunks(self, timeout=None):
        """The chunks of a chunked body, one by one, as they were framed."""
        while True:
            deadline = time.monotonic() + (timeout or self._timeout)
            size = int(self._until(b"\r\n", deadline), 16)
            data = self._exactly(size, deadline)
            assert self._exactly(2, deadline) == b"\r\n"
            if size == 0:
                return
            yield data

    def read_response(self, timeout=None, method="POST"):
        """A whole response. An interim 1xx is returned as it is, without a body."""
        deadline = time.monotonic() + (timeout or self._timeout)
        response = self.read_head(timeout)
        if response.status < 200 or response.status == 204 or method == "HEAD":
            return response
        if response.field("transfer-encoding") == "chunked":
            response.body = b"".join(self.chunks(timeout))
        elif response.field("content-length") is not None:
            response.body = self._exactly(int(response.field("content-length")), deadline)
        else:
            response.body = self.read_to_end(deadline - time.monotonic())
        return response

    def read_to_end(self, timeout=None):
        """Everything up to the peer's close."""
        deadline = time.monotonic() + (timeout or self._timeout)
        try:
            while True:
                self._fill(deadline)
        except ConnectionEnded:
            data, self._pending = self._pending, b""
            return data

    def closed_within(self, seconds):
        """True if the peer ends the connection within `seconds` and sends nothing more before."""
        deadline = time.monotonic() + seconds
        try:
            self._fill(deadline)
        except ConnectionEnded:
            return not self._pending
        except TimeoutError:
            return False
        return False
