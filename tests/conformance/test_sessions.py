"""Table G of the reliability design, the rows of C and F about sessions, and a chat of twenty turns."""

import json

import pytest

from checks import check_error, each
from hydrant_server import ENDLESS, PROMPT_MARK, SLOW, metric, read_events, wait_for

KV = {"policy": "h2o", "budget": 512}


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def card(server, session, **kwargs):
    response = server.get(f"/v1/sessions/{session}", **kwargs)
    return response.json() if response.status == 200 else response.status


def turn(server, session, prompt, **more):
    body = {"session_id": session, "prompt": prompt, "max_tokens": 30, "temperature": 0, "ignore_eos": True}
    return server.complete(**body | more)


def delete(server, session, **kwargs):
    return server.get(f"/v1/sessions/{session}", method="DELETE", **kwargs)


# --- what a session is for ----------------------------------------------------------------------------------------------


def test_twenty_turns_compute_only_what_is_new(server):
    """The client sends its whole history each time; memory stays flat once the budget is full."""
    history = f"{PROMPT_MARK} A talk between two keepers of a lighthouse.\n"
    computed = metric(server.metrics(), "vllm:prompt_tokens_by_source_total", source="local_compute")
    said = known = 0
    for index in range(20):
        history += f"\nKeeper {index}: the lamp went out again, {'and the sea was rough, ' * 4}what now?\nAnswer:"
        answer = turn(server, "twenty", history, kv=KV, kv_report=True)
        usage = answer["usage"]
        assert cached(answer) == known, f"turn {index}"
        assert answer["kv"]["session"] == "twenty"
        assert answer["kv"]["live"] == min(513, usage["prompt_tokens"] + 29), "flat once the budget is full"
        assert answer["kv"]["blocks"] <= 33
        said += usage["prompt_tokens"] - known
        known = usage["total_tokens"] - 1  # the last token of an answer was never fed back
        history += answer["choices"][0]["text"]
    assert known > 1000, "it was long enough to evict"
    text = server.metrics()
    assert metric(text, "vllm:prompt_tokens_by_source_total", source="local_compute") - computed == said
    assert card(server, "twenty")["state"] == "parked"
    assert card(server, "twenty")["live"] == 512
    delete(server, "twenty")


def test_appending_and_sending_everything_are_the_same_chat(server):
    """Token for token, by ids, which leave no doubt about where a text is cut."""
    prompts = [[40 + i for i in range(100)], [90, 91, 92], [60] * 40, [33]]
    history = []
    for prompt in prompts:
        # Salts, or the second one would find the first one's prompt in the prefix cache.
        more = {"kv": KV, "return_token_ids": True}
        whole = turn(server, "whole", history + prompt, **more, cache_salt="whole")
        appended = turn(server, "append", prompt, **more, cache_salt="append", session_append=bool(history))
        for key in ("text", "token_ids", "finish_reason"):
            assert whole["choices"][0][key] == appended["choices"][0][key]
        assert whole["usage"] == appended["usage"]
        history += prompt + whole["choices"][0]["token_ids"]
    assert card(server, "append")["tokens"] == len(history)


def test_a_session_without_a_budget_answers_as_the_whole_prompt_does(server):
    history = [40 + i for i in range(70)]
    first = turn(server, "dense", history, return_token_ids=True)
    history += first["choices"][0]["token_ids"] + [50, 51]
    second = turn(server, "dense", history, return_token_ids=True)
    alone = server.complete(prompt=history, max_tokens=30, temperature=0, ignore_eos=True, return_token_ids=True)
    assert cached(second) == 99
    assert second["choices"][0]["token_ids"] == alone["choices"][0]["token_ids"]


def test_a_stream_ends_its_turn_before_its_last_event(server):
    for index in range(10):
        chunks = server.stream(
            session_id="stream", prompt=[40 + index], session_append=index > 0, max_tokens=3, ignore_eos=True
        )
        assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert card(server, "stream")["tokens"] == 40


@pytest.mark.parametrize("where", ["body", "header", "xargs", "conversation", "affinity"])
def test_an_id_is_found_wherever_clients_put_it(server, where):
    session = f"by-{where}"
    body = {"prompt": "hi", "max_tokens": 1}
    more, fields = {
        "body": ({"session_id": session}, []),
        "header": ({}, [("X-Session-ID", session)]),
        "xargs": ({"vllm_xargs": {"session_id": session}}, []),
        "conversation": ({"conversation_id": session}, []),
        "affinity": ({}, [("x-session-affinity", session)]),
    }[where]
    assert server.post("/v1/completions", body | more, fields).status == 200
    assert card(server, session)["id"] == session


# --- bad input (G1, G5, G6, G7) -----------------------------------------------------------------------------------------

BAD_IDS = {
    "path": "../../etc/passwd",
    "slash": "a/b",
    "nul": "a\0b",
    "long": "x" * 65,
    "1 MB": "x" * (1 << 20),
    "empty": "",
    "look-alike": "\u0430dmin",
    "number": 7,
    "list": ["a"],
    "object": {},
}


def test_g1_an_id_that_is_none(row):
    def check(value):
        check_error(row.post("/v1/completions", {"prompt": "x", "session_id": value}), 400, param="session_id")

    each(BAD_IDS.items(), check)


def test_g1_an_id_that_is_none_in_a_header_or_a_path(row):
    for value in ("a/b", "", "a b", "x" * 65):
        response = row.post("/v1/completions", {"prompt": "x"}, [("X-Session-ID", value)])
        check_error(response, 400, param="X-Session-ID")
    for path in ("a%2fb", "%2e%2e%2fetc", "a%00", "x" * 65):
        check_error(row.get(f"/v1/sessions/{path}"), 400, param="session_id")
        check_error(delete(row, path), 400, param="session_id")


def test_g3_a_second_turn_at_once(row):
    body = {"session_id": "busy", "prompt": f"{PROMPT_MARK} x", **ENDLESS}
    with row.open_stream(**body) as stream:
        assert stream.read_head().status == 200
        next(read_events(stream))
        check_error(row.post("/v1/completions", body), 409, code="session_busy")
        check_error(delete(row, "busy"), 409, code="session_busy")
        assert card(row, "busy")["state"] == "busy"
    # Its only turn was cut off: there never was a session.
    wait_for(lambda: card(row, "busy") == 404)


def test_g5_a_session_that_expired(start_server):
    server = start_server("--session-ttl", 1 * SLOW, "--num-gpu-blocks-override", 256)
    for _ in range(20):  # where the machine has other things to do, a second may be over before the next turn
        turn(server, "short", [40, 41, 42])
        again = server.post("/v1/completions", {"session_id": "short", "prompt": [43], "session_append": True, "max_tokens": 30})
        if again.status == 200:
            break
        check_error(again, 404, code="session_expired")
    assert again.json()["usage"]["prompt_tokens"] == 34
    wait_for(lambda: card(server, "short") == 404)
    late = {"session_id": "short", "prompt": [44], "session_append": True}
    check_error(server.post("/v1/completions", late), 404, code="session_expired")
    late["session_id"] = "never"
    check_error(server.post("/v1/completions", late), 404, code="session_not_found")
    # The engine lets go of the KV when it next looks for work, a moment after the session is gone.
    wait_for(lambda: metric(server.metrics(), "hydrant_parked_blocks") == 0)
    # The whole history begins it anew.
    assert turn(server, "short", [40, 41, 42])["usage"]["prompt_tokens"] == 3


def test_g6_a_turn_too_long_for_the_context(row):
    turn(row, "context", [40] * 100)
    too_long = {"session_id": "context", "prompt": [41], "session_append": True, "max_tokens": 4000}
    check_error(row.post("/v1/completions", too_long), 400, code="context_length_exceeded")
    assert card(row, "context")["tokens"] == 130
    assert cached(turn(row, "context", [41], session_append=True)) == 129


def test_g7_an_edited_history_is_answered_as_if_there_were_no_session(server):
    history = [40 + i % 100 for i in range(200)]
    turn(server, "edited", history, kv=KV)
    history[7] = 200
    again = turn(server, "edited", history, kv=KV, return_token_ids=True)
    body = {"prompt": history, "max_tokens": 30, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    alone = server.complete(**body, kv=KV, cache_salt="nobody else's")
    assert again["choices"] == alone["choices"]
    # That is its past now.
    history += again["choices"][0]["token_ids"] + [60]
    assert cached(turn(server, "edited", history, kv=KV)) == 229


def test_fields_that_contradict_a_session_are_named(row):
    past = {"session_id": "fields", "prompt": "x"}
    for more, param in (
        ({"n": 2}, "n"),
        ({"prompt": ["x", "y"]}, "prompt"),
        ({"session_append": 1}, "session_append"),
        ({"session_append": True, "echo": True}, "echo"),
        ({"session_append": True, "truncate_prompt_tokens": 5}, "truncate_prompt_tokens"),
    ):
        check_error(row.post("/v1/completions", past | more), 400, param=param)
    check_error(row.post("/v1/completions", {"prompt": "x", "session_append": True}), 400, param="session_append")
    assert card(row, "fields") == 404


# --- memory -------------------------------------------------------------------------------------------------------------


def test_a_hundred_chats_live_in_a_pool_for_ten(start_server):
    """Each of 50 sessions needs 5 blocks at its budget; the pool has 24, and no turn is ever turned away."""
    server = start_server("--num-gpu-blocks-override", 24, "--session-memory-bytes", 1 << 30)
    sessions = [f"chat-{index}" for index in range(int(50 / SLOW) + 2)]
    kv = {"policy": "h2o", "budget": 64}
    for round_ in range(4):
        for index, session in enumerate(sessions):
            prompt = [40 + (index * 7 + round_ * 3 + i) % 150 for i in range(60)]
            answer = turn(server, session, prompt, kv=kv, session_append=round_ > 0)
            assert cached(answer) == (0 if round_ == 0 else 90 * round_ - 1)
    assert card(server, "chat-0")["tokens"] == 360
    # The turn before stays parked until the last one is settled, which a client may be told of a moment later.
    wait_for(lambda: metric(server.metrics(), "hydrant_parked_blocks") == 4 * len(sessions))
    assert metric(server.metrics(), "hydrant_kv_blocks", state="used") == 0
    for session in sessions:
        assert delete(server, session).json() == {"id": session, "object": "session", "deleted": True}
    wait_for(lambda: metric(server.metrics(), "hydrant_parked_blocks") == 0)


def test_without_parking_the_answer_is_computed_from_the_tokens(start_server):
    server = start_server("--session-memory-bytes", 0, "--num-gpu-blocks-override", 256)
    prompts = [[40 + i for i in range(50)], [90, 91, 92]]
    turn(server, "cold", prompts[0])
    assert card(server, "cold")["state"] == "cold"
    answer = turn(server, "cold", prompts[1], session_append=True)
    assert answer["usage"]["prompt_tokens"] == 83
    assert metric(server.metrics(), "hydrant_parks_total") == 0


# --- tenants (C35, F4, G2) ----------------------------------------------------------------------------------------------


def as_seen_by(server, tenant, method, path):
    response = server.get(path, fields=server.as_tenant(tenant), method=method)
    fields = {name: value for name, value in response.fields if name not in ("date", "x-request-id")}
    return response.status, fields, response.body


def test_f4_a_foreign_session_is_one_that_is_not_there(start):
    server = start(a={}, b={})
    body = {"session_id": "secret", "prompt": f"{PROMPT_MARK} hello", "max_tokens": 2}
    assert server.ask("a", **body).status == 200
    for method in ("GET", "DELETE"):
        foreign = as_seen_by(server, "b", method, "/v1/sessions/secret")
        absent = as_seen_by(server, "b", method, "/v1/sessions/absent")
        assert foreign == absent
        assert foreign[0] == 404
    foreign = server.ask("b", **body | {"session_append": True})
    absent = server.ask("b", **body | {"session_append": True, "session_id": "absent"})
    assert (foreign.status, foreign.body) == (absent.status, absent.body)
    assert json.loads(as_seen_by(server, "b", "GET", "/v1/sessions")[2])["data"] == []
    # The same name in another tenant is another session, also while the first one has a turn in progress.
    with server.open("a", **body | {"max_tokens": 3000, "ignore_eos": True}) as stream:
        assert stream.read_head().status == 200
        assert server.ask("b", **body).status == 200
    assert as_seen_by(server, "a", "GET", "/v1/sessions/secret")[0] == 200
    assert as_seen_by(server, "b", "DELETE", "/v1/sessions/secret")[0] == 200
    assert as_seen_by(server, "a", "GET", "/v1/sessions/secret")[0] == 200
    check_error(server.get("/v1/sessions"), 401)


def test_g2_a_tenants_sessions_are_bounded(start):
    server = start(a={"sessions_max": 2}, b={})
    body = {"prompt": "x", "max_tokens": 1}
    for session in ("one", "two", "three"):
        assert server.ask("a", **body | {"session_id": session}).status == 200
    assert server.ask("b", **body | {"session_id": "one"}).status == 200
    data = json.loads(as_seen_by(server, "a", "GET", "/v1/sessions")[2])["data"]
    assert [entry["id"] for entry in data] == ["three", "two"]
    gone = server.ask("a", **body | {"session_id": "one", "session_append": True})
    check_error(gone, 404, code="session_expired")
    long = body | ENDLESS
    with server.open("a", **long | {"session_id": "two"}) as two, server.open("a", **long | {"session_id": "three"}) as three:
        assert two.read_head().status == three.read_head().status == 200
        refused = server.ask("a", **body | {"session_id": "four"})
        check_error(refused, 429, code="session_limit_exceeded")
        assert int(refused.field("retry-after")) >= 1
    assert metric(server.metrics(), "hydrant_rejected_total", tenant="a", reason="sessions") == 1
