"""The client of isolation.py: HTTP/1.1 over asyncio transports, with as little work per byte as will do, since it runs on the
machine that it measures. Python's standard library only."""

import asyncio
import json
import re


def get(path, key=None):
    """The bytes of a GET."""
    return (f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n" + (f"Authorization: Bearer {key}\r\n" if key else "") + "\r\n").encode()


def post(body, key, keep_alive=True, content_length=None, path="/v1/completions"):
    """The bytes of a POST."""
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data) if content_length is None else content_length}\r\n"
        f"Connection: {'keep-alive' if keep_alive else 'close'}\r\n\r\n"
    )
    return head.encode() + data


class Numbered:
    """A request whose body holds NUMBER once; at(n) puts n there, in as many digits."""

    NUMBER = "000000000000"

    def __init__(self, body, key):
        self.before, self.after = post(body, key).split(self.NUMBER.encode())

    def at(self, number):
        return b"%s%0*d%s" % (self.before, len(self.NUMBER), number, self.after)


class Connection(asyncio.Protocol):
    """One request at a time: `status = await connection.ask(data)`. Of a body only its end is looked for, unless
    `on_body` is set, which gets its bytes as they come."""

    LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
    LAST_CHUNK = b"\r\n0\r\n\r\n"

    @classmethod
    async def open(cls, address):
        _, connection = await asyncio.get_running_loop().create_connection(cls, *address)
        return connection

    def __init__(self):
        self.on_body = None
        self.transport = self.answer = None
        self.closed = False

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, _):
        self.closed = True
        self._end(ConnectionError("the server closed the connection"))

    def ask(self, data):
        self.answer = asyncio.get_running_loop().create_future()
        if self.closed:
            self._end(ConnectionError("closed"))
        else:
            self.head, self.status, self.left, self.tail = b"", None, None, b""
            self.transport.write(data)
        return self.answer

    def close(self):
        self.transport.abort()

    def data_received(self, data):
        if self.answer is None or self.answer.done():
            return  # nothing was asked: the answer to a header that never ended
        if self.status is None:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            head, data = self.head[:end], self.head[end + 4 :]
            self.status = int(head[9:12])
            length = self.LENGTH.search(head)
            self.left = int(length[1]) if length else None
        if self.on_body:
            self.on_body(data)
        if self.left is not None:
            self.left -= len(data)
            ended = self.left <= 0
        else:
            self.tail = (self.tail + data)[-len(self.LAST_CHUNK) :]
            ended = self.tail == self.LAST_CHUNK
        if ended:
            self._end()

    def _end(self, error=None):
        if self.answer is None or self.answer.done():
            return
        if error:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(self.status)


class Pipeline(asyncio.Protocol):
    """Sends, and sends on without waiting for answers, which it counts in `met` by their status."""

    STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d)")

    @classmethod
    async def open(cls, address, met):
        _, pipeline = await asyncio.get_running_loop().create_connection(lambda: cls(met), *address)
        return pipeline

    def __init__(self, met):
        self.met, self.closed, self.may_write = met, False, asyncio.Event()
        self.may_write.set()

    def connection_made(self, transport):
        self.transport = transport

    def pause_writing(self):
        self.may_write.clear()

    def resume_writing(self):
        self.may_write.set()

    def connection_lost(self, _):
        self.closed = True
        self.may_write.set()

    def data_received(self, data):
        for status in self.STATUS.findall(data):  # one that is split over two reads is not counted
            self.met[int(status)] += 1

    async def send(self, data):
        """The same bytes, again and again until the server closes the connection."""
        while not self.closed:
            self.transport.write(data)
            await asyncio.sleep(0)
            await self.may_write.wait()
