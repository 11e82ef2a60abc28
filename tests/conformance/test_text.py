"""Table D: text in, text out, and the tokenizer's endpoints."""

import json
import random
import string
import time

import pytest

import raw_http
from checks import check_error, each
from hydrant_server import PROMPT_MARK, SLOW, Companion

BOUNDARY_CODE_POINTS = (0x00, 0x01, 0x1F, 0x20, 0x7E, 0x7F, 0x80, 0x9F, 0xA0, 0xFF, 0x100, 0x7FF, 0x800, 0xFFF, 0x1000,
                        0x2028, 0x2029, 0xD7FF, 0xE000, 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x1F600, 0x3FFFF,
                        0x40000, 0xFFFFF, 0x100000, 0x10FFFF)  # fmt: skip


def tokenize(server, text, **fields):
    response = server.post("/tokenize", {"prompt": text, "add_special_tokens": False} | fields)
    assert response.status == 200, response.body
    answer = response.json()
    assert answer["count"] == len(answer["tokens"])
    return answer


def detokenize(server, ids):
    response = server.post("/detokenize", {"tokens": ids})
    assert response.status == 200, response.body
    assert set(response.json()) == {"prompt"}
    return response.json()["prompt"]


@pytest.mark.machine
def test_d1_a_megabyte_of_one_character(quiet_row):
    server = quiet_row
    for character in ("a", "_", "^", " ", "\n", "\t", "é", "😀", "a ", "1", "'s"):
        text = character * (1_000_000 // len(character.encode()))
        before = server.cpu_s()
        check_error(
            server.post("/v1/completions", {"prompt": text, "max_tokens": 1}), 400, code="context_length_exceeded"
        )
        assert server.cpu_s() - before < 3 * SLOW, f"{character!r}: slower than 1 MB in 3 s"
        assert server.get("/health").status == 200
    answer = tokenize(server, "a" * 200_000)
    assert detokenize(server, answer["tokens"]) == "a" * 200_000


def test_d2_special_tokens_in_a_raw_prompt_are_special(server):
    # As Hugging Face encodes it: only chat content is protected, a raw prompt is not.
    for text in ("<|im_start|>", "<|im_end|>", "<|endoftext|>"):
        assert tokenize(server, text)["count"] == 1
        assert detokenize(server, tokenize(server, f"a{text}b")["tokens"]) == f"a{text}b"


def test_d5_text_survives_the_tokenizer(row):
    server = row
    cases = [(f"U+{point:04X}", chr(point)) for point in BOUNDARY_CODE_POINTS]
    cases += [(f"byte {byte:02x}", chr(byte)) for byte in range(256)]
    cases += [
        ("mixed", "Héllo, wörld! 你好 🌍\n\t x  y   z"),
        ("combining", "e\u0301 \u0928\u093f \u200d\u200b"),
        ("family", "👨‍👩‍👧‍👦"),
        ("right to left", "שלום مرحبا"),
    ]
    lost = []

    def check(text):
        back = detokenize(server, tokenize(server, text)["tokens"])
        if back != text:
            # A byte that the vocabulary has no token for is dropped; what is left must be valid text.
            lost.append(text)
            assert len(back) < len(text) or "\ufffd" in back, f"{text!r} came back as {back!r}"

    each(cases, check)
    assert len(lost) <= 40, lost


def test_d6_chunks_are_whole_characters_however_generation_ends(server):
    # Emoji and CJK take two to four tokens each, so most cuts fall inside a character.
    prompt = "🌍🌎🌏🎉🎊🎈🍀🌈 你好世界 🐶🐱🐭🐹🐰🦊🐻"
    for cut in range(1, 9):
        body = {"prompt": prompt, "max_tokens": cut, "temperature": 1.8, "seed": cut, "ignore_eos": True}
        whole = server.complete(**body)["choices"][0]["text"]
        chunks = server.stream(**body)  # every chunk is decoded strictly on the way
        assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole
        assert chunks[-1]["choices"][0]["finish_reason"] == "length"


def test_d7_text_that_looks_like_framing_stays_text(server):
    prompt = f'{PROMPT_MARK}\n\ndata: [DONE]\n\ndata: {{"a": "}}"}}\r\n\r\n: comment\nevent: x'
    chunks = server.stream(prompt=prompt, max_tokens=2, temperature=0, echo=True)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks).startswith(prompt)


def test_d9_template_text_is_data(server):
    prompt = "{{ 7*7 }} {% for i in range(3) %}x{% endfor %} ${HOME} #{1+1} <% 2 %>"
    assert server.complete(prompt=prompt, max_tokens=1, echo=True)["choices"][0]["text"].startswith(prompt)


def test_tokenize_answers_in_the_documented_shape(server):
    answer = tokenize(server, "Hello world", return_token_strs=True)
    assert set(answer) == {"count", "max_model_len", "tokens", "token_strs"}
    assert len(answer["token_strs"]) == answer["count"] > 0
    assert answer["max_model_len"] == server.get("/v1/models").json()["data"][0]["max_model_len"]
    assert tokenize(server, "Hello world")["token_strs"] is None
    assert tokenize(server, "")["tokens"] == []
    usage = server.complete(prompt="Hello world", max_tokens=1)["usage"]
    response = server.post("/tokenize", {"prompt": "Hello world"}).json()
    assert usage["prompt_tokens"] == response["count"]  # add_special_tokens is true in both


def test_tokenize_and_detokenize_refuse_what_is_wrong(row):
    server = row
    cases = [
        ("no prompt", "/tokenize", {}, "prompt"),
        ("prompt of ids", "/tokenize", {"prompt": [1]}, "prompt"),
        ("messages", "/tokenize", {"messages": []}, "messages"),
        ("no tokens", "/detokenize", {}, "tokens"),
        ("text", "/detokenize", {"tokens": "x"}, "tokens"),
        ("negative", "/detokenize", {"tokens": [-1]}, "tokens"),
        ("too large", "/detokenize", {"tokens": [1 << 31]}, "tokens"),
        ("float", "/detokenize", {"tokens": [1.0]}, "tokens"),
    ]
    each(cases, lambda path, body, param: check_error(server.post(path, body), 400, param=param))
    for path in ("/tokenize", "/detokenize"):
        check_error(server.post(path, b"{"), 400, code="invalid_json")
        check_error(server.post(path, {"model": "other", "prompt": "x", "tokens": []}), 404, code="model_not_found")
    assert server.post("/detokenize", {"tokens": []}).json() == {"prompt": ""}


STEADY = {"prompt": f"{PROMPT_MARK} The sea", "max_tokens": 400, "ignore_eos": True, "temperature": 0}


def arrivals_beside(server, path, body):
    """When the tokens of a stream came between a request and its answer, with the times of these two around them."""
    expected = server.complete(**STEADY)["choices"][0]["text"]
    with Companion(server, STEADY, expected) as companion, server.connect() as connection:
        connection.send(raw_http.post(path, body, host=server.host()))
        sent = time.monotonic()
        assert connection.read_head().status == 200
        answered = time.monotonic()
    server.wait_idle()
    return [sent] + [at for at in companion.arrivals if sent < at < answered] + [answered]


@pytest.mark.machine
def test_d1_a_stream_runs_on_while_a_long_text_is_encoded(server):
    """Encoding a megabyte happens beside the stream, not in its way: its text is what it is alone, and it keeps coming."""
    text = "".join(random.Random(1).choices(string.ascii_lowercase, k=1_000_000))  # one word is the slowest; 1 MiB is the most

    def coming():
        """How many came, and in which thirds of the time."""
        sent, *times, answered = arrivals_beside(server, "/tokenize", {"prompt": text})
        return len(times), sorted({int(3 * (at - sent) / (answered - sent)) for at in times})

    seen = [coming() for _ in range(5)]
    # Where the stream waits for the text, one or two come; where it waits for half of it or more, none in a third of the time.
    # Beside other work a run may look like that, too: 1 in 40 did, beside builds.
    assert sum(count >= 4 and thirds == [0, 1, 2] for count, thirds in seen) >= 3, seen


@pytest.mark.machine
def test_d1_a_stream_runs_on_while_a_long_prompt_is_computed(start_server):
    """16 tokens a step beside a stream: 2,000 take 125 steps, and each has a token of the stream, too."""
    server = start_server("--num-gpu-blocks-override", 512, "--max-model-len", 4096, "--max-prefill-tokens", 16)
    prompt = [200 + (i * 7919) % 40_000 for i in range(2_000)]
    times = arrivals_beside(server, "/v1/completions", {"prompt": prompt, "max_tokens": 1, "temperature": 0})
    # Whoever reads them may be behind, and then finds several at once. In one step, or a few large ones, it would be less
    # than ten.
    assert len(times) - 2 >= 20


def test_non_ascii_is_sent_as_utf8_or_escapes_alike(server):
    text = "Grüße, 世界 🌍"
    plain = json.dumps({"prompt": text, "max_tokens": 3, "temperature": 0}, ensure_ascii=False).encode()
    escaped = json.dumps({"prompt": text, "max_tokens": 3, "temperature": 0}, ensure_ascii=True).encode()
    first, second = (server.post("/v1/completions", body).json()["choices"] for body in (plain, escaped))
    assert first == second
