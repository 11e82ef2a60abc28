"""Leaving early, leaving for good: disconnects and shutdown."""

import json
import signal
import threading
import time
from concurrent import futures

import pytest

import hydrant_server
import raw_http
from checks import check_error
from hydrant_server import ENDLESS, PATIENCE_S, PROMPT_MARK, SLOW, Companion, metric, read_events, wait_for

LONG = {"prompt": f"{PROMPT_MARK} Tell me everything.", "temperature": 0, **ENDLESS}
# It goes on long enough to be seen even where the prompt takes no time.
PREFILL = {"prompt": [(i * 7919) % 40000 + 100 for i in range(3500)], **ENDLESS}
# Whoever does not go by itself does not go while a test waits for it.
PATIENT = ("--shutdown-timeout-s", 3600, "--header-timeout-s", 3600, "--stream-stall-s", 3600)
ENDS_S = PATIENCE_S * SLOW


def running(server):
    return server.gauges()["running"]


def blocks_used(server):
    return server.gauges()["blocks used"]


def read_some(connection, count):
    events = read_events(connection)
    return [json.loads(next(events)) for _ in range(count)]


@pytest.mark.parametrize("after", [1, 3, 30])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_a_stream_frees_its_blocks(row, after, how):
    server = row
    connection = server.open_stream(**LONG)
    connection.read_head()
    read_some(connection, after)
    assert blocks_used(server) > 0
    connection.close() if how == "close" else connection.reset()


def test_a_client_that_leaves_during_prefill_frees_its_blocks(server):
    connection = server.open_stream(**PREFILL)
    wait_for(lambda: blocks_used(server) > 0)
    connection.close()
    server.wait_idle()


def test_a_client_that_leaves_without_streaming_is_noticed(server):
    connection = server.connect()
    connection.send(raw_http.post("/v1/completions", LONG, host=server.host()))
    wait_for(lambda: running(server) == 1)
    connection.close()
    server.wait_idle()


def test_leaving_while_queued_frees_the_place(start_server):
    server = start_server("--max-num-seqs", 2, "--num-gpu-blocks-override", 512, "--max-model-len", 4096)
    streams = [server.open_stream(**LONG) for _ in range(2)]
    for stream in streams:
        stream.read_head()
    queued = [server.open_stream(**LONG) for _ in range(4)]
    wait_for(lambda: server.gauges()["waiting"] == 4, server.gauges)
    for stream in queued:
        stream.close()
    wait_for(lambda: server.gauges()["waiting"] == 0, server.gauges)
    assert running(server) == 2
    for stream in streams:
        stream.close()
    server.wait_idle()


def test_cancelled_streams_do_not_touch_the_others(server):
    body = {"prompt": "The sea is", "max_tokens": 60, "temperature": 0, "ignore_eos": True}
    expected = server.complete(**body)["choices"][0]["text"]
    with Companion(server, body, expected):
        for i in range(12):
            connection = server.open_stream(**LONG | {"prompt": f"Story {i}:"})
            connection.read_head()
            read_some(connection, i % 4 + 1)
            connection.close()
    server.wait_idle()


def test_aborts_are_counted(server):
    before = metric(server.metrics(), "vllm:request_success_total", finished_reason="abort")
    connection = server.open_stream(**LONG)
    connection.read_head()
    read_some(connection, 2)
    connection.close()
    server.wait_idle()
    wait_for(lambda: metric(server.metrics(), "vllm:request_success_total", finished_reason="abort") == before + 1)


def test_a_reader_that_never_reads_holds_up_nobody(server):
    with server.connect(receive_buffer=4096) as lazy:
        server.open_stream(lazy, **LONG | {"logprobs": 20, "max_tokens": 400})
        body = {"prompt": "The sea is", "max_tokens": 30, "temperature": 0}
        expected = server.complete(**body)["choices"][0]["text"]
        for _ in range(3):
            assert server.complete(**body)["choices"][0]["text"] == expected
    server.wait_idle()


# --- shutdown -----------------------------------------------------------------------------------------------------------


def test_sigterm_lets_streams_finish_and_exits_0(start_server):
    server = start_server(*PATIENT)
    body = {"prompt": "Once upon a time", "max_tokens": 1000, "temperature": 0, "ignore_eos": True}
    expected = server.complete(**body)["choices"][0]["text"]
    with server.open_stream(**body) as connection:
        connection.read_head()
        texts = [read_some_text(connection)]
        idle = server.connect()
        server.signal(signal.SIGTERM)
        wait_until_draining(server)
        try:
            assert server.get("/ready").status == 503
        except (OSError, raw_http.ConnectionEnded):
            pass  # the listener is closed already
        try:
            response = server.post("/v1/completions", {"prompt": "late", "max_tokens": 1})
            check_error(response, 503)
            assert response.field("connection") == "close"
        except (OSError, raw_http.ConnectionEnded):
            pass
        texts += [json.loads(event)["choices"][0]["text"] for event in read_events_after_first(connection)]
        assert "".join(texts) == expected
        idle.close()
    assert server.wait(ENDS_S) == 0


def wait_until_draining(server):
    """Until a signal was heard: two at once may count as one."""
    wait_for(lambda: "draining: /ready answers 503" in server.log(), server.log)


def read_some_text(connection):
    """The text of the first event; its reader is kept on the connection for the rest."""
    connection.events = read_events(connection)
    return json.loads(next(connection.events))["choices"][0]["text"]


def read_events_after_first(connection):
    yield from connection.events


def test_a_second_sigterm_is_fast(start_server):
    server = start_server(*PATIENT)
    with server.open_stream(**LONG) as connection:
        connection.read_head()
        read_some(connection, 2)
        with futures.ThreadPoolExecutor() as pool:
            rest = pool.submit(connection.read_to_end)
            server.signal(signal.SIGTERM)
            wait_until_draining(server)
            time.sleep(0.3)
            assert server.running() and not rest.done(), "the first SIGTERM did not wait for the stream"
            server.signal(signal.SIGTERM)
            assert server.wait(ENDS_S) == 0
            assert rest.result().endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def test_a_second_sigterm_does_not_wait_for_a_reader_that_is_behind(start_server):
    server = start_server(*PATIENT)
    with server.connect(receive_buffer=4096) as connection:
        server.open_stream(connection, **LONG | {"logprobs": 20})
        connection.read_head()
        time.sleep(0.3 * SLOW)
        server.signal(signal.SIGTERM)
        wait_until_draining(server)
        server.signal(signal.SIGTERM)
        assert server.wait(ENDS_S) == 0


def test_sigterm_when_idle_waits_for_nobody(start_server):
    server = start_server(*PATIENT)
    server.complete(prompt="a", max_tokens=1)
    lingering = [server.connect() for _ in range(10)]
    server.signal(signal.SIGTERM)
    assert server.wait(ENDS_S) == 0
    for connection in lingering:
        connection.close()


def test_sigint_stops_like_sigterm(start_server):
    server = start_server(*PATIENT)
    server.signal(signal.SIGINT)
    assert server.wait(ENDS_S) == 0


def test_a_burst_of_sighup_changes_nothing(start_server):
    server = start_server()
    text = server.complete(prompt="The sky is", max_tokens=4, temperature=0)["choices"][0]["text"]
    for _ in range(100):
        server.signal(signal.SIGHUP)
    assert server.complete(prompt="The sky is", max_tokens=4, temperature=0)["choices"][0]["text"] == text


# --- starting -------------------------------------------------------------------------------------------------------------


def code_and_output(*arguments):
    ended = hydrant_server.run_to_end(*arguments)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "arguments, word",
    [
        (["serve"], "MODEL"),
        (["serve", "MODEL", "--no-such-flag"], "no-such-flag"),
        (["serve", "MODEL", "--port", "65536"], "port"),
        (["serve", "MODEL", "--port", "x"], "port"),
        (["serve", "MODEL", "--max-num-seqs", "0"], "max-num-seqs"),
        (["serve", "MODEL", "--kv-policy", "nope"], "kv-policy"),
        (["serve", "MODEL", "--kv-policy", "h2o", "--kv-budget", "0"], "kv-budget"),
        (["nonsense"], ""),
    ],
)
def test_wrong_usage_is_exit_64_and_names_the_flag(arguments, word):
    arguments = [str(hydrant_server.model_path()) if a == "MODEL" else a for a in arguments]
    code, output = code_and_output(*arguments)
    assert code == 64, output
    assert word.lower() in output.lower()


@pytest.mark.parametrize("name", ["missing", "empty.gguf", "text.gguf", "directory", "dev-zero"])
def test_a_model_that_is_none_is_exit_78_before_a_port_is_bound(tmp_path, name):
    path = {"missing": tmp_path / "nothing.gguf", "dev-zero": "/dev/zero"}.get(name, tmp_path / name)
    if name.endswith(".gguf"):
        path.write_bytes(b"" if name == "empty.gguf" else b"not a model\n" * 100)
    if name == "directory":
        path.mkdir()
    code, output = code_and_output("serve", path, "--port", 0)
    assert code == 78, output
    assert "listening" not in output
    assert len(output.strip().splitlines()) <= 3, output


def test_a_taken_port_is_exit_75(server):
    code, output = code_and_output("serve", hydrant_server.model_path(), "--port", server.address[1])
    assert code == 75, output
    assert str(server.address[1]) in output


def test_version_and_help():
    code, output = code_and_output("--version")
    assert code == 0 and output.strip()
    code, output = code_and_output("--help")
    assert code == 0 and "serve" in output


def test_config_file_gives_flags_and_flags_win(start_server, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"max_model_len": 128, "served_model_name": "from-file"}))
    server = start_server("--config", config, "--served-model-name", "from-flag")
    card = server.get("/v1/models").json()["data"][0]
    assert card["id"] == "from-flag" and card["max_model_len"] == 128


def test_thirty_requests_at_once_are_all_answered(server):
    answers = [None] * 30

    def ask(i):
        answers[i] = server.complete(prompt=f"Item {i}:", max_tokens=3, temperature=0)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(answers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answer["usage"]["completion_tokens"] >= 1 for answer in answers)
    server.wait_idle()
