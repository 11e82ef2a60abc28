"""Table B: bodies that are not what they should be."""

import json

import pytest

from checks import check_error, each
from hydrant_server import PROMPT_MARK, SLOW

GOOD = {"prompt": f"{PROMPT_MARK} hello", "max_tokens": 1, "temperature": 0}


def bad(server, body, code=None):
    return check_error(server.post("/v1/completions", body), 400, code=code)


def test_b1_a_body_is_an_object(row):
    cases = [(repr(body), body) for body in (b"", b" ", b"null", b"[]", b'"x"', b"1", b"true")]
    each(cases, lambda body: bad(row, body, "invalid_json"))


def test_b2_almost_json(row):
    mark = PROMPT_MARK.encode()
    cases = [
        ("truncated", b'{"prompt":"%s' % mark),
        ("trailing garbage", b'{"prompt":"%s"} %s' % (mark, mark)),
        ("two documents", b'{"prompt":"a"}{"prompt":"%s"}' % mark),
        ("comment", b'{"prompt":"a"/*%s*/}' % mark),
        ("trailing comma", b'{"prompt":"%s",}' % mark),
        ("leading zeros", b'{"prompt":"a","n":0123}'),
        ("number without digits", b'{"prompt":"a","temperature":1.}'),
        ("single quotes", b"{'prompt':'%s'}" % mark),
        ("bare word", b"{prompt:1}"),
        ("raw line break in a string", b'{"prompt":"a\n%s"}' % mark),
    ]

    def check(body):
        error = bad(row, body, "invalid_json")
        assert "byte" in error["message"]
        assert len(error["message"]) < 100

    each(cases, check)


def test_b3_numbers_that_json_does_not_have(row):
    cases = [(word, b'{"prompt":"a","temperature":%s}' % word.encode()) for word in
             ("NaN", "Infinity", "-Infinity", "nan", "1e999", "0x10", "+1")]  # fmt: skip
    each(cases, lambda body: bad(row, body, "invalid_json"))


def test_b6_depth(row):
    def nested(depth):
        return b'{"prompt":"a","x":' + b"[" * depth + b"]" * depth + b"}"

    assert row.post("/v1/completions", nested(63)[:-1] + b',"max_tokens":1}').status == 200
    for depth in (64, 1000, 100_000):
        bad(row, nested(depth), "json_too_deep")
    bad(row, b'{"a":' * 100_000, "json_too_deep")


@pytest.mark.machine
def test_b6_depth_costs_little(quiet_row):
    before = quiet_row.cpu_s()
    bad(quiet_row, b"[" * 4_000_000, "json_too_deep")
    assert quiet_row.cpu_s() - before < 0.5 * SLOW


def test_b8_too_many_values(row):
    server = row
    before = server.rss_kib()
    keys = b'{"prompt":"a"' + b"".join(b',"k%d":0' % i for i in range(300_000)) + b"}"
    bad(server, keys, "json_too_many_nodes")
    numbers = b'{"prompt":[0' + b",0" * 2_000_000 + b"]}"
    bad(server, numbers, "json_too_many_nodes")
    if SLOW == 1:
        assert server.rss_kib() - before <= 16 * len(numbers) // 1024


def test_b10_invalid_utf8(row):
    cases = []
    for name, piece in (
        ("ff", b"\xff"),
        ("overlong", b"\xc0\x80"),
        ("CESU", b"\xed\xa0\x80"),
        ("truncated", b"\xf0\x9f\x98"),
        ("too high", b"\xf4\x90\x80\x80"),
    ):
        cases.append((f"{name} in a value", b'{"prompt":"a' + piece + b'"}'))
        cases.append((f"{name} in a key", b'{"prompt":"a","k' + piece + b'":1}'))
        cases.append((f"{name} bare", b'{"prompt":' + piece + b"}"))
    cases.append(("lone surrogate escape", b'{"prompt":"\\ud800"}'))
    each(cases, lambda body: bad(row, body, "invalid_json"))


def test_b12_nul_is_text_in_a_prompt_and_wrong_in_names(row):
    server = row
    answer = server.complete(prompt="a\0b", max_tokens=1, temperature=0, echo=True)
    assert answer["choices"][0]["text"].startswith("a\0b")
    assert server.post("/v1/completions", GOOD | {"stop": "\0"}).status == 200
    for name in ("model", "user", "request_id"):
        check_error(server.post("/v1/completions", GOOD | {name: "a\0b"}), 400, param=name)


def test_b13_other_encodings(row):
    text = json.dumps(GOOD)
    assert row.post("/v1/completions", b"\xef\xbb\xbf" + text.encode()).status == 200  # a byte-order mark is skipped
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        bad(row, text.encode(encoding), "invalid_json")


def test_b15_strange_keys_are_ignored(row):
    server = row
    assert server.post("/v1/completions", GOOD | {"k" * 1_000_000: 1}).status == 200
    assert server.post("/v1/completions", GOOD | {f"key{i}": i for i in range(10_000)}).status == 200
    assert "kkkkkkkk" not in server.log()
    assert "kkkkkkkk" not in server.get("/metrics").body.decode()
    body = b'{"prompt":"a","max_tokens":0,"max_tokens":1,"temperature":0}'  # the last of two wins, as in Python
    assert server.post("/v1/completions", body).status == 200
