"""The streaming contract, line by line, read from the wire."""

import json
import time

import pytest

import raw_http
from hydrant_server import PROMPT_MARK, SLOW, metric, read_events

BODY = {"prompt": f"{PROMPT_MARK} Once upon a time there was", "max_tokens": 20, "temperature": 0, "ignore_eos": True}

CHUNK_KEYS = {"id", "object", "created", "model", "choices"}
CHOICE_KEYS = {"index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_token_ids", "token_ids"}


def text_of(chunks, index=0):
    return "".join(choice["text"] for chunk in chunks for choice in chunk["choices"] if choice["index"] == index)


def test_the_head_of_a_stream(server):
    with server.open_stream(**BODY) as connection:
        response = connection.read_head()
        assert response.status == 200
        assert response.field("content-type") == "text/event-stream; charset=utf-8"
        assert response.field("transfer-encoding") == "chunked"
        assert response.field("content-length") is None
        assert response.field("x-request-id")
        list(read_events(connection))


def test_every_event_is_one_data_line_and_the_last_is_done(server):
    with server.open_stream(**BODY) as connection:
        connection.read_head()
        wire = b"".join(connection.chunks())
    assert wire.endswith(b"data: [DONE]\n\n")
    assert b"\r" not in wire
    events = wire.split(b"\n\n")
    assert events.pop() == b""
    events = [event for event in events if event != b": still here"]  # of a server that has to wait
    assert all(event.startswith(b"data: ") and b"\n" not in event for event in events)
    assert sum(event == b"data: [DONE]" for event in events) == 1


@pytest.mark.paced
@pytest.mark.real_model
def test_one_event_per_write_when_the_reader_keeps_up(server):
    with server.open_stream(**BODY) as connection:
        connection.read_head()
        writes = list(connection.chunks())
    assert len(writes) >= BODY["max_tokens"] * 0.8
    assert all(write.endswith(b"\n\n") for write in writes)


def test_chunks_have_the_documented_members(server):
    chunks = server.stream(**BODY)
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["id"].startswith("cmpl-")
    assert len({chunk["created"] for chunk in chunks}) == 1
    assert abs(chunks[0]["created"] - time.time()) < 60
    for chunk in chunks[:-1]:
        assert set(chunk) == CHUNK_KEYS
        assert chunk["object"] == "text_completion"
        assert len(chunk["choices"]) == 1
        choice = chunk["choices"][0]
        assert set(choice) == CHOICE_KEYS
        assert choice["finish_reason"] is None and choice["stop_reason"] is None and choice["logprobs"] is None
    assert set(chunks[-1]) == CHUNK_KEYS | {"system_fingerprint"}


@pytest.mark.real_model
def test_finish_reason_rides_on_the_last_token(server):
    chunks = server.stream(**BODY, return_token_ids=True)
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons[-1] == "length" and set(reasons[:-1]) <= {None}
    assert chunks[-1]["choices"][0]["token_ids"], "the chunk with the reason carries no token"


def test_a_stream_says_what_the_whole_answer_says(server):
    whole = server.complete(**BODY, return_token_ids=True, logprobs=3)["choices"][0]
    chunks = server.stream(**BODY, return_token_ids=True, logprobs=3)
    choices = [chunk["choices"][0] for chunk in chunks]
    assert text_of(chunks) == whole["text"]
    assert sum((choice["token_ids"] for choice in choices), []) == whole["token_ids"]
    assert choices[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert all(choice["prompt_token_ids"] is None for choice in choices[1:])
    for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        joined = sum((choice["logprobs"][key] for choice in choices if choice["logprobs"]), [])
        assert joined == whole["logprobs"][key], key


def test_usage_comes_only_when_asked_for(server):
    assert all("usage" not in chunk for chunk in server.stream(**BODY))
    assert all("usage" not in chunk for chunk in server.stream(**BODY, stream_options={"include_usage": False}))
    chunks = server.stream(**BODY, stream_options={"include_usage": True})
    assert all("usage" not in chunk for chunk in chunks[:-1])
    assert chunks[-1]["choices"] == []
    usage = chunks[-1]["usage"]
    assert usage == server.complete(**BODY)["usage"]
    assert usage["completion_tokens"] == BODY["max_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_continuous_usage_counts_up(server):
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = server.stream(**BODY, stream_options=options)
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts)
    assert counts[0] >= 1 and counts[-1] == BODY["max_tokens"]


def test_several_choices_share_a_stream(server):
    body = BODY | {"prompt": ["One", "Two"], "n": 2, "temperature": 1, "seed": 3}
    whole = server.complete(**body)
    chunks = server.stream(**body, stream_options={"include_usage": True})
    for choice in whole["choices"]:
        assert text_of(chunks, choice["index"]) == choice["text"]
    finishes = [c["index"] for chunk in chunks for c in chunk["choices"] if c["finish_reason"]]
    assert sorted(finishes) == [0, 1, 2, 3]
    assert [chunk for chunk in chunks if not chunk["choices"]] == [chunks[-1]]
    assert chunks[-1]["usage"] == whole["usage"]


def test_nothing_is_sent_before_the_first_token(server):
    body = BODY | {"prompt": [(i * 7919) % 40000 + 100 for i in range(3000)], "max_tokens": 2}
    first_tokens = lambda: metric(server.metrics(), "vllm:time_to_first_token_seconds_count")
    before = first_tokens()
    with server.open_stream(**body) as connection:
        response = connection.read_head()
        assert first_tokens() == before + 1, "the head came before the prompt was computed"
        first = next(connection.chunks())
        assert response.status == 200
        assert json.loads(first.split(b"\n\n")[0][6:])["choices"], "an empty chunk came first"


def test_stop_strings_never_leak(server):
    text = server.complete(**BODY)["choices"][0]["text"]
    for begin, length in ((3, 4), (7, 9), (len(text) // 2, 5), (0, 1), (len(text) - 2, 2)):
        stop = text[begin : begin + length]
        expected = text[: text.index(stop)]
        for extra in ({}, {"include_stop_str_in_output": True}):
            whole = server.complete(**BODY, stop=stop, **extra)["choices"][0]
            chunks = server.stream(**BODY, stop=["never seen", stop], **extra)
            wanted = expected + (stop if extra else "")
            assert whole["text"] == wanted
            assert text_of(chunks) == wanted
            assert whole["finish_reason"] == "stop" and whole["stop_reason"] == stop
            assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
            assert chunks[-1]["choices"][0]["stop_reason"] == stop


def test_text_held_back_for_a_stop_string_is_sent_in_the_end(server):
    text = server.complete(**BODY)["choices"][0]["text"]
    almost = text[-6:] + "\x01"  # the end of the text is its beginning, and the rest never comes
    chunks = server.stream(**BODY, stop=almost)
    assert text_of(chunks) == text
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.paced
@pytest.mark.real_model
def test_stream_interval_makes_fewer_chunks_of_the_same_text(server):
    every = server.stream(**BODY)
    fourth = server.stream(**BODY, stream_interval=4)
    assert text_of(fourth) == text_of(every)
    assert len(fourth) <= len(every) // 2


def test_echo_streams_the_prompt_first(server):
    chunks = server.stream(**BODY, echo=True)
    assert text_of(chunks).startswith(BODY["prompt"])
    assert text_of(chunks) == server.complete(**BODY, echo=True)["choices"][0]["text"]


def test_one_token_is_one_chunk_with_its_reason(server):
    chunks = server.stream(**BODY | {"max_tokens": 1})
    assert len(chunks) == 1
    assert chunks[0]["choices"][0]["finish_reason"] == "length"


def test_an_error_before_the_stream_is_plain_json(server):
    response = server.post("/v1/completions", BODY | {"stream": True, "n": 17})
    assert response.status == 400
    assert response.field("content-type").startswith("application/json")


def test_a_connection_outlives_its_stream(server):
    with server.connect() as connection:
        for _ in range(2):
            server.open_stream(connection, **BODY)
            assert connection.read_head().status == 200
            list(read_events(connection))
        connection.send(raw_http.head("GET", "/health", host=server.host()))
        assert connection.read_response(method="GET").status == 200


def test_http_1_0_streams_until_the_connection_ends(server):
    with server.connect() as connection:
        connection.send(raw_http.post("/v1/completions", BODY | {"stream": True}, host=server.host(), version="1.0"))
        response = connection.read_head()
        assert response.status == 200
        assert response.field("transfer-encoding") is None
        assert connection.read_to_end().endswith(b"data: [DONE]\n\n")


def test_special_tokens_can_be_shown(server):
    # The model's own end token, forced to appear by continuing after it.
    ids = server.post("/tokenize", {"prompt": "Hi<|im_end|>", "add_special_tokens": False}).json()["tokens"]
    shown = server.complete(prompt=ids, echo=True, max_tokens=0, skip_special_tokens=False)["choices"][0]["text"]
    hidden = server.complete(prompt=ids, echo=True, max_tokens=0, skip_special_tokens=True)["choices"][0]["text"]
    assert shown == "Hi<|im_end|>" and hidden == "Hi"


def test_a_typed_special_token_is_part_of_the_prompt(server):
    # It is also the model's BOS, which this tokenizer does not add by itself.
    prompt = "<|im_start|>user"
    answer = server.complete(prompt=prompt, echo=True, max_tokens=0)
    assert answer["choices"][0]["text"] == prompt
    cut = server.complete(prompt=prompt, max_tokens=1, truncate_prompt_tokens=1, return_token_ids=True)["choices"][0]
    assert cut["prompt_token_ids"] == server.post("/tokenize", {"prompt": "user"}).json()["tokens"]


@pytest.mark.parametrize("pause_s", [0.0, 0.5])
def test_a_reader_that_pauses_gets_everything(server, pause_s):
    body = BODY | {"max_tokens": 60}
    expected = server.complete(**body)["choices"][0]["text"]
    with server.connect(receive_buffer=4096) as connection:
        server.open_stream(connection, **body)
        connection.read_head()
        time.sleep(pause_s * SLOW)
        text = "".join(json.loads(event)["choices"][0]["text"] for event in read_events(connection))
    assert text == expected
