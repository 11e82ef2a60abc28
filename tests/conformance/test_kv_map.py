"""GET /v1/sessions/{id}/kv: what it says of a session's tokens is what the cache does."""

import json

import pytest

from checks import check_error
from hydrant_server import PROMPT_MARK, SLOW, read_events, wait_for

BUDGET = 32
H2O = {"policy": "h2o", "budget": BUDGET}
PROMPT = [40 + (i * 37) % 150 for i in range(100)]


def turn(server, session, prompt=PROMPT, **more):
    body = {"session_id": session, "prompt": prompt, "max_tokens": 40, "temperature": 0, "ignore_eos": True, "kv": H2O}
    return server.complete(**body | more)


def kv_map(server, session, query="", **kwargs):
    response = server.get(f"/v1/sessions/{session}/kv{query}", **kwargs)
    assert response.status == 200, response.body
    assert response.field("cache-control") == "no-store"
    return response.json()


def pairs_of(shown):
    return [(layer, head) for layer in range(shown["layers"]) for head in range(shown["kv_heads"])]


def check_sums(shown):
    """Every slot of every pair is one token's."""
    assert sum(shown["held"]) == shown["live"] * len(pairs_of(shown)), shown
    assert all(0 <= held <= len(pairs_of(shown)) for held in shown["held"])
    assert shown["held"][shown["logical"] :] == [0] * (shown["known"] - shown["logical"])
    assert len(shown["tokens"]) == len(shown["pieces"]) == len(shown["held"]) == shown["known"]
    # The newest tokens are nobody's victims.
    newest = shown["held"][shown["logical"] - shown["recent"] : shown["logical"]]
    assert newest == [len(pairs_of(shown))] * shown["recent"]


def test_a_parked_session_shows_the_budget_it_was_cut_to(server):
    answer = turn(server, "map", kv_report=True, return_token_ids=True)
    shown = kv_map(server, "map")
    assert (shown["object"], shown["id"], shown["state"]) == ("session.kv", "map", "parked")
    assert (shown["policy"], shown["budget"], shown["heavy"], shown["recent"]) == ("h2o", 32, 16, 16)
    assert shown["tokens"] == PROMPT + answer["choices"][0]["token_ids"]
    assert (shown["known"], shown["logical"], shown["after"], shown["has_more"]) == (140, 139, 0, False)
    # While it ran one slot more: the victim, which a next token would have replaced.
    assert shown["live"] == answer["kv"]["live"] - 1 == BUDGET
    assert shown["blocks"] == 2 and shown["unknown"] is None
    check_sums(shown)
    assert 0 in shown["held"] and any(0 < held < len(pairs_of(shown)) for held in shown["held"]), "heads differ"
    assert all((score > 0) == (held > 0) for score, held in zip(shown["scores"], shown["held"])), shown
    assert len(shown["reach"]) == shown["layers"] and len(shown["reach"][0]) == shown["kv_heads"]

    # Pair by pair it is the same.
    counts = [0] * shown["known"]
    for layer, head in pairs_of(shown):
        pair = kv_map(server, "map", f"?layer={layer}&head={head}")["pair"]
        assert (pair["layer"], pair["head"], len(pair["positions"])) == (layer, head, shown["live"])
        assert pair["positions"] == sorted(set(pair["positions"]))
        assert len(pair["scores"]) == len(pair["positions"]) and min(pair["scores"]) >= 0
        for position in pair["positions"]:
            counts[position] += 1
    assert counts == shown["held"]

    # And token by token.
    some = shown["held"].index(max(held for held in shown["held"] if held < len(pairs_of(shown))))
    token = kv_map(server, "map", f"?token={some}&limit=1")["token"]
    held_by = [score for row in token["scores"] for score in row if score is not None]
    assert token["position"] == some and len(held_by) == shown["held"][some]
    assert sum(held_by) / len(held_by) == pytest.approx(shown["scores"][some], rel=1e-3)


def test_a_window_is_a_part_of_the_whole(server):
    turn(server, "window")
    whole = kv_map(server, "window")
    first = kv_map(server, "window", "?after=10&limit=20")
    assert (first["after"], first["has_more"]) == (10, True)
    for name in ("tokens", "pieces", "held", "scores"):
        assert first[name] == whole[name][10:30]
    newest = kv_map(server, "window", "?limit=5")
    assert (newest["after"], newest["tokens"]) == (135, whole["tokens"][135:])
    assert kv_map(server, "window", "?after=9999")["tokens"] == []


def test_the_map_is_what_the_dump_says_was_decided(start_server, tmp_path):
    dump = tmp_path / "dump.jsonl"
    server = start_server("--num-gpu-blocks-override", 256, "--debug-kv-dump", dump)
    turn(server, "dump")
    # The engine answers first and writes then.
    wait_for(lambda: dump.read_text().endswith("\n"))
    decided = json.loads(dump.read_text().splitlines()[-1])
    shown = kv_map(server, "dump")
    assert len({tuple(kept) for heads in decided["kept_after_prefill"] for kept in heads}) > 1, "all heads keep the same"
    for layer, head in pairs_of(shown):
        held = set(decided["kept_after_prefill"][layer][head]) | set(range(len(PROMPT), shown["logical"]))
        victims = [victims[layer][head] for victims in decided["victims"] if victims is not None]
        assert kv_map(server, "dump", f"?layer={layer}&head={head}")["pair"]["positions"] == sorted(held - set(victims))
    # Rolling positions: the cache knows ranks alone, unless there is a dump.
    turn(server, "rolling", kv=H2O | {"position": "rolling"})
    check_sums(kv_map(server, "rolling"))


def looked_at_twice(server, session):
    """A turn's map soon after its first token and some tokens later; None where the turn was over before."""
    body = {"session_id": session, "prompt": PROMPT, "max_tokens": 3000, "ignore_eos": True, "kv": H2O}
    with server.open_stream(**body) as stream:
        assert stream.read_head().status == 200
        next(read_events(stream))
        shown = kv_map(server, session)
        wait_for(lambda: (now := kv_map(server, session))["logical"] > shown["logical"] + 3 or now["state"] != "busy")
        later = kv_map(server, session, "?layer=1&head=1")
        return (shown, later) if later["state"] == "busy" else None


def test_a_busy_session_shows_its_last_step(row):
    # No turn goes on for ever (rolling positions leave nothing to show), and tokens of the small model take little.
    shown, later = next(filter(None, (looked_at_twice(row, f"live-{number}") for number in range(5))))
    assert later["policy"] == "h2o"
    assert later["live"] == BUDGET + 1 and later["blocks"] == 3
    check_sums(later)
    assert later["tokens"][: shown["known"]] == shown["tokens"]
    assert len(later["pair"]["positions"]) == BUDGET + 1


def test_a_session_goes_on_being_shown_after_the_next_turn(server):
    turn(server, "next")
    turn(server, "next", [60, 61, 62], session_append=True)
    shown = kv_map(server, "next")
    assert (shown["state"], shown["known"], shown["live"]) == ("parked", 183, BUDGET)
    check_sums(shown)


def test_policies_without_scores_and_without_a_budget(server):
    turn(server, "sinks", kv={"policy": "sinks", "budget": BUDGET})
    shown = kv_map(server, "sinks")
    assert shown["scores"] is None
    # The same in every head: the first four and the newest.
    assert [i for i, held in enumerate(shown["held"]) if held] == [0, 1, 2, 3, *range(139 - 28, 139)]
    turn(server, "full", kv={"policy": "full"})
    shown = kv_map(server, "full", "?layer=0&head=1&token=5")
    assert shown["budget"] is None and shown["live"] == shown["logical"] == 139
    check_sums(shown)
    assert shown["pair"]["positions"] == list(range(139)) and shown["pair"]["scores"] is None


def test_says_why_it_does_not_know(server, start_server):
    turn(server, "rolls", kv=H2O | {"position": "rolling"})
    shown = kv_map(server, "rolls")
    assert (shown["held"], shown["scores"], shown["unknown"]) == (None, None, "rolling_positions")
    assert shown["live"] == BUDGET and len(shown["tokens"]) == 140
    cold = start_server("--num-gpu-blocks-override", 256, "--session-memory-bytes", 0)
    turn(cold, "cold")
    shown = kv_map(cold, "cold")
    assert (shown["state"], shown["held"], shown["unknown"], shown["live"]) == ("cold", None, "cold", 0)
    assert len(shown["pieces"]) == 140


def test_pieces_are_bytes_where_a_character_is_cut(server):
    text = f"{PROMPT_MARK} \N{CROCODILE}\N{OGHAM LETTER BEITH} é"
    turn(server, "bytes", text, max_tokens=1)
    pieces = kv_map(server, "bytes")["pieces"]
    assert any(isinstance(piece, list) for piece in pieces), "no token of the text is half a character"
    joined = b"".join(bytes(piece) if isinstance(piece, list) else piece.encode() for piece in pieces)
    assert joined.startswith(text.encode())


def test_errors_name_what_is_wrong(row):
    turn(row, "errors")
    path = "/v1/sessions/errors/kv"
    for query, param in (
        ("?limit=0", "limit"), ("?limit=4097", "limit"), ("?limit=x", "limit"), ("?after=-1", "after"),
        ("?layer=0", "head"), ("?layer=99&head=0", "layer"), ("?layer=0&head=99", "head"), ("?token=", "token"),
    ):  # fmt: skip
        check_error(row.get(path + query), 400, param=param)
    check_error(row.get("/v1/sessions/absent/kv"), 404, code="session_not_found")
    check_error(row.get("/v1/sessions/a%2Fb/kv"), 400, param="session_id")
    check_error(row.post(path, {}), 405)


def test_a_foreign_map_is_one_that_is_not_there(start):
    server = start(a={}, b={})
    assert server.ask("a", session_id="secret", prompt=f"{PROMPT_MARK} hello", max_tokens=2).status == 200

    def seen_by(tenant, session):
        response = server.get(f"/v1/sessions/{session}/kv", fields=server.as_tenant(tenant))
        fields = {name: value for name, value in response.fields if name not in ("date", "x-request-id")}
        return response.status, fields, response.body

    assert seen_by("b", "secret") == seen_by("b", "absent")
    assert seen_by("b", "secret")[0] == 404
    assert seen_by("a", "secret")[0] == 200
    check_error(server.get("/v1/sessions/secret/kv"), 401)


def test_looking_on_costs_an_answer_nothing_it_would_show(server):
    """The tokens of a turn are the same however often somebody looks."""
    alone = turn(server, "alone", max_tokens=60, return_token_ids=True)["choices"][0]["token_ids"]
    body = {"session_id": "watched", "prompt": PROMPT, "max_tokens": 60, "temperature": 0, "ignore_eos": True, "kv": H2O}
    looks = due = 0
    with server.open_stream(**body, return_token_ids=True) as stream:
        assert stream.read_head().status == 200
        tokens = []
        for event in read_events(stream):
            tokens += json.loads(event)["choices"][0]["token_ids"]
            if len(tokens) >= due:
                looks += kv_map(server, "watched")["live"] > 0
                due = len(tokens) + 4 * SLOW
    assert tokens == alone
    assert looks > 0
