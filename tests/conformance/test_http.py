"""Table A of the reliability design: HTTP and TCP as no client library would send them."""

import random
import re
import socket
import time

import pytest

import raw_http
from checks import check_error, each
from hydrant_server import API_KEY, PATIENCE_S, PROMPT_MARK, SLOW

GOOD = {"prompt": f"{PROMPT_MARK} hello", "max_tokens": 1, "temperature": 0}


def check_ended(connection, response):
    """The answer says that it is the last one, and the server closes without another byte. An idle connection ends, too, but later
    and without a word before."""
    assert response.field("connection") == "close", "the answer does not say that the connection ends"
    assert connection.closed_within(PATIENCE_S * SLOW), "the connection stayed open"


def answer_then_close(server, data, *statuses, **expected):
    """Sends `data`; the answer must be an error of `statuses`, and then the connection must end."""
    with server.connect() as connection:
        connection.try_send(data)
        response = connection.read_response()
        check_error(response, *statuses, **expected)
        check_ended(connection, response)
        return response


def refused_or_closed(server, data, *statuses):
    """As answer_then_close, or closed without an answer."""
    with server.connect() as connection:
        connection.try_send(data)
        try:
            response = connection.read_response()
        except raw_http.ConnectionEnded:
            return
        check_error(response, *statuses)
        check_ended(connection, response)


def completion(server, fields=(), **kwargs):
    return raw_http.post("/v1/completions", GOOD, fields, host=kwargs.pop("host", server.host()), **kwargs)


# --- slow and silent peers ----------------------------------------------------------------------------------------------

# Pauses in which the short deadline of a header ends it and, in Release, the default of 10 s does not. Counted, not timed: on a busy
# machine the pauses are longer, too.
PAUSES = 30
PAUSE_S = 0.2 * SLOW


def test_a1_slow_headers_meet_a_total_deadline(impatient_row):
    server = impatient_row
    connections = [server.connect() for _ in range(int(200 / SLOW))]
    request = raw_http.head("GET", "/health", [("X-Slow", "y" * 1000)], host=server.host())
    try:
        # A byte at a time, often enough that a deadline per read would never end.
        waiting = connections
        for at in range(PAUSES):
            for connection in waiting:
                connection.try_send(request[at : at + 1])
            time.sleep(PAUSE_S)
            waiting = [connection for connection in waiting if not connection.readable()]
            if at == 5:
                assert server.get("/health").status == 200
            if not waiting:
                break
        assert not waiting, f"{len(waiting)} headers at 5 B/s were waited for"
        for connection in connections:
            try:
                assert connection.read_response().status == 408
            except raw_http.ConnectionEnded:
                pass
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.machine
def test_a2_a_slow_body_meets_its_deadline(impatient_row):
    server = impatient_row
    with server.connect() as connection:
        connection.send(
            raw_http.head("POST", "/v1/completions", [("Content-Type", "application/json"), ("Content-Length", 8_000_000)])
        )
        started = time.monotonic()
        ended_early = False
        # At 25 kB/s, which is more than the least rate: only the deadline of the whole ends it, and the default is 30 s.
        while time.monotonic() - started < 20 * SLOW and not ended_early:
            ended_early = not connection.try_send(b" " * 5000) or connection.readable()
            time.sleep(0.2)
        assert ended_early, "a body of five minutes was waited for"
        try:
            check_error(connection.read_response(), 408)
        except raw_http.ConnectionEnded:
            pass


@pytest.mark.machine
def test_a3_silent_connections_are_cheap_and_closed(impatient_row):
    server = impatient_row
    count = int(500 / SLOW)
    before = server.rss_kib()
    connections = [server.connect() for _ in range(count)]
    try:
        if SLOW == 1:  # an instrumented allocator has its own ideas of memory
            assert server.rss_kib() - before <= 80 * count
        for _ in range(PAUSES):
            time.sleep(PAUSE_S)
            if all(connection.readable() for connection in connections):
                break
        for connection in connections:
            assert connection.readable(), "a silent connection was waited for"
            try:
                assert connection.read_response().status == 408
            except raw_http.ConnectionEnded:
                pass
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.machine
def test_a34_a_storm_of_resets_leaves_the_listener_alive(row):
    server = row
    for count in range(int(10_000 / SLOW)):
        connection = server.connect()
        if count % 2:
            connection.try_send(b"POST /v1/comp")
        connection.reset()
    assert server.get("/health").status == 200


# --- too much of something ----------------------------------------------------------------------------------------------


def test_a4_a_long_header_is_431(row):
    answer_then_close(row, raw_http.head("GET", "/health", [("X-Long", "y" * 9000)], host=row.host()), 431)


def test_a4_an_endless_header_is_not_read(row):
    server = row
    with server.connect() as connection:
        connection.send(b"GET /health HTTP/1.1\r\nX-Endless: ")
        before = server.rss_kib()
        sent = 0
        while sent < 1 << 30 and connection.try_send(b"y" * 65536):
            sent += 65536
        # 64 KiB are read; the sockets of both sides hold the rest.
        assert sent <= 8 << 20, f"{sent} bytes were taken"
        if SLOW == 1:
            assert server.rss_kib() - before < 4096


def test_a4_a_long_target_is_414(row):
    answer_then_close(row, raw_http.head("GET", "/" + "y" * 5000, host=row.host()), 414)


def test_a6_a_hundred_fields_are_enough(row):
    fields = "".join("a:\r\n" for _ in range(1500)).encode()
    answer_then_close(row, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + fields + b"\r\n", 431)


def chunked(server, body, fields=(), trailer=b"", version="1.1"):
    own = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
    return raw_http.head("POST", "/v1/completions", own + list(fields), host=server.host(), version=version) + body + trailer


@pytest.mark.parametrize("trailer_bytes", [65_533, 65_534, 65_535, 66_000, 1 << 20])
def test_a7_a_huge_trailer_is_refused_and_kills_nobody(row, trailer_bytes):
    body = b'{"prompt":"hi","max_tokens":1}'
    data = chunked(row, b"%x\r\n%s\r\n0\r\nX-T: " % (len(body), body) + b"y" * trailer_bytes + b"\r\n\r\n")
    refused_or_closed(row, data, 400, 413, 431)


def test_a7_endless_chunk_extensions_are_refused(row):
    refused_or_closed(row, chunked(row, b"1;" + b"x" * (1 << 20)), 400, 413, 431)


@pytest.mark.machine
def test_a10_a_million_tiny_chunks_cost_little(quiet_row):
    server = quiet_row
    text = b'{"prompt":"' + PROMPT_MARK.encode() + b'","max_tokens":1'
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in text) + b"1\r\n \r\n" * 500_000 + b"1\r\n}\r\n0\r\n\r\n"
    before = server.cpu_s()
    with server.connect() as connection:
        connection.try_send(chunked(server, body))
        response = connection.read_response()
    assert response.status in (200, 413), response.body
    assert server.cpu_s() - before < 3 * SLOW


def test_a10_wire_bytes_of_chunks_count(row):
    refused_or_closed(row, chunked(row, b"1\r\n \r\n" * 2_000_000), 413)


def test_a11_chunk_sizes_that_are_none(row):
    cases = [
        (size, f"{size}\r\n".encode() + b"x" * 64)
        for size in ("fffffffffffffffff", "-1", "0x5", "7fffffffffffffff", "", " 5", "+5", "g")
    ]
    each(cases, lambda body: answer_then_close(row, chunked(row, body), 400, 413))


@pytest.mark.parametrize("path", ["/v1/completions", "/ping"])
def test_a16_an_absurd_length_is_refused_before_reading(row, path):
    server = row
    before = server.rss_kib()
    for length in (1 << 63, 1 << 40, (1 << 64) + 5, 9 << 20):
        fields = [("Content-Type", "application/json"), ("Content-Length", length)]
        answer_then_close(server, raw_http.head("POST", path, fields, host=server.host()), 413, 400)
    if SLOW == 1:
        assert server.rss_kib() - before < 8192


# --- framing that two readers could understand differently -------------------------------------------------------------


def test_a13_two_framings_are_400(row):
    length = ("Content-Length", "5")
    coding = ("Transfer-Encoding", "chunked")
    for fields in ([length, coding], [coding, length]):
        data = raw_http.head("POST", "/v1/completions", fields, host=row.host()) + b"0\r\n\r\n"
        answer_then_close(row, data, 400)


def test_a14_two_lengths_are_400(row):
    cases = [
        ("differing", [("Content-Length", "2"), ("Content-Length", "3")]),
        ("a list", [("Content-Length", "2, 2")]),
        ("equal", [("Content-Length", "2"), ("Content-Length", "2")]),
        ("plus", [("Content-Length", "+2")]),
        ("minus", [("Content-Length", "-2")]),
        ("hex", [("Content-Length", "0x2")]),
        ("empty", [("Content-Length", "")]),
    ]
    each(
        cases,
        lambda fields: answer_then_close(
            row, raw_http.head("POST", "/v1/completions", fields, host=row.host()) + b"{}", 400
        ),
    )


def test_a18_a_hidden_second_request_is_never_executed(row):
    server = row
    hidden = completion(server)
    cases = [
        ("unknown coding", ("Transfer-Encoding", "xchunked"), "1.1"),
        ("identity after chunked", ("Transfer-Encoding", "chunked, identity"), "1.1"),
        ("gzip, chunked", ("Transfer-Encoding", "gzip, chunked"), "1.1"),
        ("chunked twice", ("Transfer-Encoding", "chunked, chunked"), "1.1"),
        ("chunked on HTTP/1.0", ("Transfer-Encoding", "chunked"), "1.0"),
        ("space before the colon", ("Transfer-Encoding ", "chunked"), "1.1"),
    ]

    def check(field, version):
        data = raw_http.head("POST", "/v1/completions", [field], host=server.host(), version=version) + hidden
        with server.connect() as connection:
            connection.try_send(data)
            everything = connection.read_to_end()
        assert b"\r\nconnection: close\r\n" in everything, everything
        assert len(re.findall(rb"HTTP/1\.[01] [0-9]{3} ", everything)) == 1, everything
        assert everything.split(b" ", 2)[1] in (b"400", b"501"), everything

    each(cases, check)


def test_a18_two_transfer_encodings_are_refused(row):
    fields = [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "identity")]
    answer_then_close(row, raw_http.head("POST", "/v1/completions", fields, host=row.host()) + b"0\r\n\r\n", 400, 501)


def test_a21_exactly_one_host(row):
    server = row
    answer_then_close(server, raw_http.head("GET", "/health", host=None), 400)
    answer_then_close(server, raw_http.head("GET", "/health", [("Host", "127.0.0.1")], host=server.host()), 400)


def test_a24_other_protocols_are_answered_or_closed(row):
    server = row
    noise = random.Random(5)
    cases = [
        ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
        ("TLS hello", b"\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03" + noise.randbytes(233)),
        ("SSH banner", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("random", noise.randbytes(1024)),
        ("NULs", b"\x00" * 64),
        ("bare LF lines", b"GET /health HTTP/1.1\nHost: 127.0.0.1\n\n"),
        ("HTTP/0.9", b"GET /health\r\n\r\n"),
        ("HTTP/3.7", b"GET /health HTTP/3.7\r\nHost: 127.0.0.1\r\n\r\n"),
    ]

    def check(data):
        with server.connect() as connection:
            connection.try_send(data)
            everything = connection.read_to_end()  # a header has an hour here
        if everything:
            assert everything.split(b" ", 2)[1] in (b"400", b"501", b"505"), everything[:200]
            assert b"\r\nconnection: close\r\n" in everything, everything[:500]

    each(cases, check)


def test_control_bytes_and_folded_fields_are_400(row):
    server = row
    start = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    cases = [
        ("folded", start + b"X-A: b\r\n c\r\n\r\n"),
        ("no name", start + b": b\r\n\r\n"),
        ("no colon", start + b"X-A\r\n\r\n"),
        ("NUL in a value", start + b"X-A: b\x00c\r\n\r\n"),
        ("bare CR in a value", start + b"X-A: b\rc\r\n\r\n"),
        ("two Authorizations", start + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n"),
        ("space in the target", b"GET /hea lth HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
    ]
    each(cases, lambda data: refused_or_closed(server, data, 400))


# --- methods, paths, fields ---------------------------------------------------------------------------------------------


def test_a25_methods_that_a_path_does_not_answer(row):
    server = row
    for path in ("/v1/completions", "/health", "/v1/models", "/metrics", "/tokenize"):
        for method in ("TRACE", "PUT", "DELETE", "PATCH"):
            check_error(server.get(path, method=method), 405, 501)
    for method in ("get", "FOO", "BREW"):
        check_error(server.get("/health", method=method), 405, 501, 400)
    check_error(server.get("127.0.0.1:80", method="CONNECT"), 400, 405, 501)
    check_error(server.get("*", method="OPTIONS"), 405, 501, 400)


def test_a26_wrong_method_and_unknown_path(row):
    server = row
    error = server.get("/v1/completions")
    check_error(error, 405)
    assert "POST" in error.field("allow")
    check_error(server.post("/v1/models", {}), 405)
    for path in ("/v1", "/v1/nothing", "/v1/completions/", "/v1/completionsx", "//v1/completions", "/../v1/models",
                 "/v1/models/%2e%2e", "/admin/reload", "/admin/drain", "/v1/completions%00"):  # fmt: skip
        check_error(server.get(path), 404, 400)
    root = server.get("/")
    assert (root.status, root.field("location")) == (302, "/ui")


def test_a28_a_post_without_a_body(row):
    server = row
    with server.connect() as connection:
        connection.send(raw_http.head("POST", "/v1/completions", [("Content-Type", "application/json")], host=server.host()))
        check_error(connection.read_response(), 411, 400)


def test_a30_expect(keyed_row):
    server = keyed_row
    expect = ("Expect", "100-continue")
    key = ("Authorization", f"Bearer {API_KEY}")
    body = raw_http.post("/v1/completions", GOOD).split(b"\r\n\r\n", 1)[1]
    own = [("Content-Type", "application/json"), ("Content-Length", len(body))]

    with server.connect() as connection:
        wrong = ("Authorization", f"Bearer {API_KEY}x")
        connection.send(raw_http.head("POST", "/v1/completions", own + [expect, wrong], host=server.host()))
        check_error(connection.read_response(), 401)  # and no 100 before it

    with server.connect() as connection:
        connection.send(raw_http.head("POST", "/v1/completions", own + [expect, key], host=server.host()))
        assert connection.read_response().status == 100
        connection.send(body)
        assert connection.read_response().status == 200

    with server.connect() as connection:
        connection.send(raw_http.head("POST", "/v1/completions", own + [("Expect", "foo"), key], host=server.host()))
        check_error(connection.read_response(), 417)


def test_a32_compressed_bodies_are_415(row):
    for coding in ("gzip", "deflate", "br", "zstd", "gzip, gzip"):
        response = row.post("/v1/completions", b"\x1f\x8b" + b"\x00" * 100, [("Content-Encoding", coding)])
        check_error(response, 415)
    assert row.post("/v1/completions", GOOD, [("Content-Encoding", "identity")]).status in (200, 415)


def test_a35_browsers_from_elsewhere_are_403(row):
    server = row
    port = server.address[1]
    refused = [
        ("foreign origin", [("Origin", "http://evil.example")], server.host()),
        ("origin on another port", [("Origin", f"http://127.0.0.1:{port ^ 1}")], server.host()),
        ("null origin", [("Origin", "null")], server.host()),
        ("foreign host", [], "evil.example"),
        ("a host that ends like ours", [], "127.0.0.1.evil.example"),
        ("rebinding", [("Origin", f"http://evil.example:{port}")], f"evil.example:{port}"),
    ]

    def refuse(fields, host):
        with server.connect() as connection:
            connection.send(completion(server, fields, host=host))
            check_error(connection.read_response(), 403)

    each(refused, refuse)
    accepted = [
        ("own origin", [("Origin", f"http://127.0.0.1:{port}")], server.host()),
        ("localhost", [], f"localhost:{port}"),
        ("localhost origin", [("Origin", f"http://localhost:{port}")], f"localhost:{port}"),
    ]

    def accept(fields, host):
        with server.connect() as connection:
            connection.send(completion(server, fields, host=host))
            assert connection.read_response().status == 200

    each(accepted, accept)


# --- keys -----------------------------------------------------------------------------------------------------------------


def test_a17_a_key_is_asked_for_before_any_body_is_read(keyed_row):
    server = keyed_row
    before = server.rss_kib()
    connections = []
    try:
        for _ in range(int(200 / SLOW)):
            connection = server.connect()
            connections.append(connection)
            fields = [("Content-Type", "application/json"), ("Content-Length", 8 << 20)]
            connection.send(raw_http.head("POST", "/v1/completions", fields, host=server.host()))
        for connection in connections:
            check_error(connection.read_response(), 401)
        if SLOW == 1:
            assert server.rss_kib() - before <= 80 * len(connections)
    finally:
        for connection in connections:
            connection.close()


def test_a22_no_host_gets_around_the_key(keyed_row):
    server = keyed_row
    for host in ("a/v1?x", "127.0.0.1/health?", "127.0.0.1#", "health", "[::1]/"):
        with server.connect() as connection:
            connection.send(completion(server, host=host))
            # 401 is the answer; a host that is malformed or foreign may be refused before that.
            check_error(connection.read_response(), 401, 400, 403)


def test_wrong_keys_are_401(keyed_row):
    server = keyed_row
    cases = [
        ("none", []),
        ("empty", [("Authorization", "")]),
        ("Bearer alone", [("Authorization", "Bearer")]),
        ("another scheme", [("Authorization", f"Basic {API_KEY}")]),
        ("one character more", [("Authorization", f"Bearer {API_KEY}x")]),
        ("one character less", [("Authorization", f"Bearer {API_KEY[:-1]}")]),
        ("two words", [("Authorization", f"Bearer {API_KEY} {API_KEY}")]),
        ("the key in the query", []),
    ]

    def check(fields):
        for target in ("/v1/completions", f"/v1/completions?api_key={API_KEY}"):
            with server.connect() as connection:
                connection.send(raw_http.post(target, GOOD, fields, host=server.host()))
                response = connection.read_response()
                check_error(response, 401)
                assert API_KEY.encode() not in response.body

    each(cases, check)
    with server.connect() as connection:
        connection.send(completion(server, [("Authorization", f"Bearer {API_KEY}")]))
        assert connection.read_response().status == 200


# --- connections that live on ---------------------------------------------------------------------------------------------


def test_one_connection_serves_many_requests(row):
    server = row
    with server.connect() as connection:
        for _ in range(3):
            connection.send(completion(server))
            assert connection.read_response().status == 200
        connection.send(raw_http.post("/v1/completions", b"{", host=server.host()))
        check_error(connection.read_response(), 400)  # a bad body is no framing error
        connection.send(completion(server))
        assert connection.read_response().status == 200


def test_pipelined_requests_are_answered_in_order(row):
    server = row
    with server.connect() as connection:
        names = [f"pipeline-{i}" for i in range(4)]
        connection.send(b"".join(completion(server, [("X-Request-Id", name)]) for name in names))
        for name in names:
            response = connection.read_response()
            assert response.status == 200
            assert response.field("x-request-id") == name


def test_connection_close_closes(row):
    server = row
    with server.connect() as connection:
        connection.send(completion(server, [("Connection", "close")]))
        response = connection.read_response()
        assert response.status == 200
        check_ended(connection, response)


def test_http_1_0_gets_a_length_and_a_close(row):
    server = row
    with server.connect() as connection:
        connection.send(completion(server, version="1.0"))
        response = connection.read_response()
        assert response.status == 200
        assert response.field("transfer-encoding") is None
        check_ended(connection, response)


def test_bodies_arrive_in_any_pieces(row):
    server = row
    data = completion(server)
    with server.connect() as connection:
        for at in range(0, len(data), 7):
            connection.send(data[at : at + 7])
            if at % 70 == 0:
                time.sleep(0.001)
        assert connection.read_response().status == 200


def test_a_client_that_leaves_mid_body_costs_nothing(row):
    server = row
    for at in (10, 60, 200):
        connection = server.connect()
        connection.send(completion(server)[:at])
        connection.close()
        connection = server.connect()
        connection.send(completion(server)[:at])
        connection.reset()


def test_request_ids_are_echoed_when_harmless(row):
    server = row
    assert server.get("/health", [("X-Request-Id", "abc-1.2_3")]).field("x-request-id") == "abc-1.2_3"
    for odd in ("a b", "<script>", "x" * 5000, 'a"b'):
        response = server.get("/health", [("X-Request-Id", odd)])
        assert response.status in (200, 431)
        assert response.field("x-request-id") not in (odd, None, "")


def test_head_has_no_body(row):
    with row.connect() as connection:
        connection.send(raw_http.head("HEAD", "/health", host=row.host()) + raw_http.head("GET", "/version", host=row.host()))
        first = connection.read_response(method="HEAD")
        assert first.status in (200, 405)
        if first.status == 405:
            return
        second = connection.read_response(method="GET")
        assert second.status == 200 and second.json()["version"]


def test_ipv6_style_garbage_addresses_do_not_matter(row):
    with socket.create_connection(row.address) as sock:
        sock.sendall(b"GET http://[::1]:99999/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        data = sock.recv(4096)
        assert data.split(b" ", 2)[1] in (b"200", b"400", b"403", b"404")
