"""Tables F and H of the reliability design, and the rows of C about tenants: who may do what, how much of it, and how an
operator changes that under load."""

import concurrent.futures
import json
import math
import os
import signal
import time

import pytest

import raw_http
from checks import check_error, each
from hydrant_server import ENDLESS, PROMPT_MARK, SLOW, metric, read_events, wait_for
from tenants import ADMIN_KEY, TenantServer, TenantsFile, digest, key_of

SHORT = {"prompt": f"{PROMPT_MARK} hello", "max_tokens": 2, "temperature": 0, "ignore_eos": True}
LONG = {"prompt": f"{PROMPT_MARK} a story", "max_tokens": 3000, "temperature": 0, "ignore_eos": True}
OPEN = LONG | ENDLESS


def first_event(connection):
    assert connection.read_head().status == 200
    return next(read_events(connection))


def tenant_metric(server, name, tenant, **labels):
    return metric(server.metrics(), name, tenant=tenant, **labels)


# --- who asks (C35, C36, F2, F3, F13) -----------------------------------------------------------------------------------


def test_c35_a_tenant_is_its_key_and_nothing_else(start):
    server = start(a={}, b={})
    posing = {"user": "b", "cache_salt": "b", "x-tenant": "b", "tenant": "b"}
    assert server.ask("a", [("X-Tenant", "b"), ("X-Session-ID", "b")], **SHORT | posing).status == 200
    assert tenant_metric(server, "hydrant_requests_total", "a") == 1
    assert tenant_metric(server, "hydrant_requests_total", "b") == 0
    assert tenant_metric(server, "hydrant_generation_tokens_total", "a") == 2
    assert tenant_metric(server, "hydrant_generation_tokens_total", "b") == 0
    check_error(server.ask(None, [("X-Tenant", "b")], **SHORT), 401)
    # Two fields of that name: the first decides, whatever stands in the second.
    fields = server.as_tenant("a") + server.as_tenant("b")
    assert server.post("/v1/completions", SHORT, fields).status in (200, 400)
    assert tenant_metric(server, "hydrant_requests_total", "b") == 0


def test_c36_priority_is_bounded_by_the_tenant(start):
    server = start(a={"priority_max": 5}, b={})
    for value in (0, 5):
        assert server.ask("a", **SHORT | {"priority": value}).status == 200
    for tenant, value in (("a", 6), ("a", -1), ("a", -(1 << 31)), ("a", 1 << 31), ("a", "1"), ("b", 1)):
        check_error(server.ask(tenant, **SHORT | {"priority": value}), 400, param="priority")
    assert server.ask("b", **SHORT | {"priority": 0}).status == 200


def test_c38_endless_generations_stay_within_the_tenants_tokens(start):
    server = start(a={"tpm": 6100}, b={})
    endless = LONG | {"max_tokens": 1_000_000}
    check_error(server.ask("a", **endless), 400, code="context_length_exceeded")
    with concurrent.futures.ThreadPoolExecutor(20) as threads:
        opened = [threads.submit(lambda: server.open("a", **LONG)) for _ in range(20)]
        heads = []
        for future in opened:
            connection = future.result()
            heads.append((connection.read_head(), connection))
    statuses = sorted(head.status for head, _ in heads)
    assert statuses == [200] * 2 + [429] * 18, "2 x (3,000 + prompt) of 6,100 tokens, and a third lacks half a minute's"
    assert server.ask("b", **SHORT).status == 200
    for _, connection in heads:
        connection.close()


def test_f2_no_key_but_the_right_one_opens(start):
    server = start(a={}, b={})
    key = key_of("a")
    with server.connect() as connection:

        def status_of(authorization):
            fields = [("Authorization", authorization)]
            connection.send(raw_http.head("GET", "/v1/models", fields, host=server.host()))
            return connection.read_response().status

        refused = set()
        for at in range(len(key)):
            for bit in (1, 2, 32):
                wrong = key[:at] + chr(ord(key[at]) ^ bit) + key[at + 1 :]
                if "\x20" < wrong[at] < "\x7f":
                    refused.add(status_of(f"Bearer {wrong}"))
        for wrong in ("", "x", key[:-1], key + "x", key.upper(), digest(key), key_of("ab")):
            refused.add(status_of(f"Bearer {wrong}"))
        assert refused == {401, 429}, "wrong keys are refused, and told to stop after a while"
        assert status_of(f"Bearer {key}") == 200, "a valid key enters all the same"
    assert metric(server.metrics(), "hydrant_auth_failures_total") > 50


def test_f3_a_revoked_key_is_refused(start):
    server = start(a={"keys": [key_of("a"), key_of("next")]}, b={})
    assert server.ask("a", **SHORT).status == server.ask("next", **SHORT).status == 200, "two keys, for a rotation"
    server.file.write(a={"keys": [key_of("next")]}, b={})
    server.signal(signal.SIGHUP)
    wait_for(lambda: server.ask("a", **SHORT).status == 401)
    assert server.ask("next", **SHORT).status == 200
    server.file.write(b={})
    server.reload()
    check_error(server.ask("next", **SHORT), 401)
    assert server.ask("b", **SHORT).status == 200
    assert server.tenant("a")["configured"] is False


def test_f13_a_tenant_sees_nothing_of_the_others(start):
    server = start(a={}, b={})
    assert server.ask("a", **SHORT).status == 200
    check_error(server.get("/metrics"), 404)
    check_error(server.get("/metrics", server.as_tenant("b")), 404)
    check_error(server.get("/v1/models"), 401)
    models = server.get("/v1/models", server.as_tenant("b"))
    assert models.status == 200 and len(models.json()["data"]) == 1
    for path in ("/health", "/ping", "/ready"):
        response = server.get(path)
        assert (response.status, response.body) == (200, b""), path


def test_the_default_tenant_serves_who_has_no_key(start):
    server = start(a={}, guests={"keys": []})
    text = json.loads(server.file.path.read_text())
    server.file.write_text(json.dumps(text | {"default_tenant": "guests"}))
    server.reload()
    assert server.ask(None, **SHORT).status == 200
    assert tenant_metric(server, "hydrant_requests_total", "guests") == 1
    check_error(server.ask("revoked", **SHORT), 401)


# --- how much of it (F8, F10, F11) --------------------------------------------------------------------------------------


@pytest.mark.machine
def test_f8_requests_per_minute_say_when_to_come_again(start):
    server = start(a={"rpm": 30}, b={})
    began = time.monotonic()
    for left in range(29, -1, -1):
        response = server.ask("a", **SHORT)
        assert response.status == 200
        assert response.field("x-ratelimit-limit-requests") == "30"
        refilled = (time.monotonic() - began) / 2  # 30 a minute
        assert left <= int(response.field("x-ratelimit-remaining-requests")) <= left + refilled
    refused = server.ask("a", **SHORT)
    while refused.status == 200:
        refused = server.ask("a", **SHORT)
    error = check_error(refused, 429, param="rpm", code="rate_limit_exceeded")
    assert error["type"] == "rate_limit_error" and "rpm" in error["message"]
    wait_s = int(refused.field("retry-after"))
    assert 1 <= wait_s <= 2
    assert refused.field("x-ratelimit-remaining-requests") == "0"
    assert server.ask("b", **SHORT).status == 200, "another tenant's limit is its own"
    time.sleep(wait_s)
    assert server.ask("a", **SHORT).status == 200, "who comes again when it was said is served"
    assert tenant_metric(server, "hydrant_rejected_total", "a", reason="rpm") >= 1


def test_f8_tokens_per_minute_are_charged_as_used(start):
    server = start(a={"tpm": 1200})
    prompt = [5] * 100
    body = {"prompt": prompt, "max_tokens": 800, "temperature": 0, "ignore_eos": True, "stop": ["\0never"]}
    began = time.monotonic()
    response = server.ask("a", **body | {"max_tokens": 20})
    refilled = 20 * (time.monotonic() - began)  # 1200 a minute
    assert response.status == 200
    assert response.field("x-ratelimit-limit-tokens") == "1200"
    assert 1080 <= int(response.field("x-ratelimit-remaining-tokens")) <= 1081 + refilled, "what was not generated came back"
    with server.open("a", **body) as running:
        first_event(running)
        refused = server.ask("a", **body)
        check_error(refused, 429, param="tpm", code="rate_limit_exceeded")
        wait_s = int(refused.field("retry-after"))
        assert 1 <= wait_s <= 36, "for the 720 that lack, at most"
    check_error(server.ask("a", **body | {"max_tokens": 1101}), 400, param="max_tokens", code="tpm_exceeded")
    assert tenant_metric(server, "hydrant_rejected_total", "a", reason="tpm") == 1


def test_f8_open_requests_are_bounded_and_a_place_is_free_when_the_answer_is_there(start):
    server = start(a={"concurrency_max": 2}, b={})
    for _ in range(30):
        assert server.ask("a", **SHORT).status == 200, "one after the other, on connections of their own"
    running = [server.open("a", **OPEN) for _ in range(2)]
    for connection in running:
        first_event(connection)
    refused = server.ask("a", **SHORT)
    check_error(refused, 429, param="concurrency_max", code="rate_limit_exceeded")
    assert refused.field("x-ratelimit-limit-requests") == "2"
    assert server.ask("b", **SHORT).status == 200
    running[0].close()
    wait_for(lambda: server.ask("a", **SHORT).status == 200)
    running[1].close()


def test_f8_the_queue_is_bounded(start):
    server = start("--max-num-seqs", 1, a={"queue_max": 2}, b={})
    with server.open("a", **OPEN) as running:
        first_event(running)
        waiting = [server.open("a", **OPEN) for _ in range(2)]
        server.wait_tenant("a", waiting=2)
        check_error(server.ask("a", **SHORT), 429, param="queue_max")
        check_error(server.ask("b", **SHORT | {"n": 1, "kv": {"policy": "nope"}}), 400, param="kv.policy")
        for connection in waiting:
            connection.close()
        server.wait_tenant("a", waiting=0)
    wait_for(lambda: server.ask("a", **SHORT).status == 200)


def test_blocks_and_budgets_are_bounded_by_the_tenant(start):
    kv = {"policy": "h2o", "budget": 32, "budget_max": 64, "blocks_max": 20}
    server = start(a={"kv": kv}, b={"kv": {"floor_blocks": 100}})
    report = server.ask("a", **SHORT | {"kv_report": True}).json()["kv"]
    assert report["budget"] == 32, "its own default"
    assert server.ask("a", **SHORT | {"kv": {"budget": 64}}).status == 200
    for wrong in ({"budget": 65}, {"policy": "full"}, {"budget": {"ratio_of_total": 1.0}}):
        body = SHORT | {"kv": wrong, "prompt": [5] * 100, "max_tokens": 10}
        check_error(server.ask("a", **body), 400, param="kv.budget")
    too_long = SHORT | {"prompt": [5] * 330}
    check_error(server.ask("a", **too_long), 400, code="kv_capacity_exceeded")
    assert server.ask("b", **too_long).status == 200
    # Five need ten blocks each: two at a time, and the others wait.
    body = {"prompt": [5] * 150, "max_tokens": 5, "ignore_eos": True}
    with concurrent.futures.ThreadPoolExecutor(5) as threads:
        answers = list(threads.map(lambda _: server.ask("a", **body).status, range(5)))
    assert answers == [200] * 5


def test_f10_what_is_charged_is_what_was_computed(start):
    server = start(a={"tpm": 100_000}, b={"tpm": 100_000})

    def used(tenant):
        server.wait_tenant(tenant, running=0, waiting=0, open=0)  # and so are the tokens: one snapshot holds both
        shown = server.tenant(tenant)
        return shown["prompt_tokens"], shown["generated_tokens"], shown["tokens_remaining"]

    answer = server.ask("a", **SHORT | {"prompt": [5] * 40, "max_tokens": 7}).json()["usage"]
    assert (answer["prompt_tokens"], answer["completion_tokens"]) == (40, 7)
    prompt, generated, left = used("a")
    assert (prompt, generated) == (40, 7)
    assert 100_000 - 47 <= left <= 100_000
    # Gone in the middle: what was computed until the server noticed, and no more than that.
    began = time.monotonic()
    with server.open("b", **OPEN | {"max_tokens": 90_000}) as connection:
        first_event(connection)
        first_event_seen = server.tenant("b")["generated_tokens"]
    prompt, generated, left = used("b")
    assert 1 <= generated < 90_000 and generated >= first_event_seen
    refill = 100_000 / 60 * (time.monotonic() - began)
    assert 100_000 - prompt - generated <= left <= min(100_000, 100_000 - prompt - generated + refill)
    # Refused and failed ones cost nothing.
    before = used("a")[:2]
    for wrong in ({"prompt": ""}, {"max_tokens": -1}, {"max_tokens": 5000}):
        assert server.ask("a", **SHORT | wrong).status == 400
    assert used("a")[:2] == before


def test_f11_a_flood_is_answered_429_and_the_neighbour_is_served(start):
    server = start("--max-num-seqs", 4, flood={"queue_max": 8}, victim={})
    body = {"prompt": [7] * 64, "max_tokens": 24, "ignore_eos": True, "temperature": 0}
    alone = server.ask("victim", **body).json()["choices"][0]["text"]
    stop = []

    def pour(_):
        statuses = []
        while not stop:
            statuses.append(server.ask("flood", **body).status)
        return statuses

    with concurrent.futures.ThreadPoolExecutor(24) as threads:
        floods = [threads.submit(pour, i) for i in range(20)]
        wait_for(lambda: server.tenant("flood")["rejected"]["queue"] > 20)
        texts = [server.ask("victim", **body).json()["choices"][0]["text"] for _ in range(8)]
        stop.append(True)
        statuses = [status for flood in floods for status in flood.result()]
    assert set(statuses) == {200, 429}
    assert texts == [alone] * 8, "and what it is served is what it gets alone"
    assert server.tenant("victim")["rejected"]["queue"] == 0


# --- the operator (H1, H2, H3, H5, H7) ----------------------------------------------------------------------------------


def test_h1_admin_verbs_are_the_operators(start):
    server = start(a={})
    for method, path in (("POST", "/admin/reload"), ("POST", "/admin/drain"), ("GET", "/admin/tenants"),
                         ("POST", "/pause"), ("POST", "/resume"), ("POST", "/abort_requests"),
                         ("POST", "/reset_prefix_cache")):  # fmt: skip
        check_error(server.get(path, server.as_tenant("a"), method=method), 404)
        check_error(server.get(path, [("Authorization", f"Bearer {ADMIN_KEY}")], method=method), 404)
        check_error(server.admin(method, path, key=key_of("a")), 403)
        check_error(server.admin(method, path, key="wrong"), 401, 429)
    check_error(server.post("/v1/completions", SHORT, [("Authorization", f"Bearer {ADMIN_KEY}")]), 401)


def test_h2_a_wrong_file_changes_nothing_and_is_explained(start):
    server = start(a={"rpm": 1000}, b={})
    good = server.file.path.read_text()
    one = json.loads(good)["tenants"][0]

    def file_with(**members):
        return json.dumps({"tenants": [one | members]})

    cases = [
        ("no JSON", good.replace('"rpm": 1000', '"rpm": '), 0o600, ".json:"),
        ("NaN", good.replace("1000", "NaN"), 0o600, ".json:"),
        ("unknown field", file_with(rpms=5), 0o600, "tenants[0].rpms"),
        ("same name twice", json.dumps({"tenants": [one, one | {"api_keys_sha256": []}]}), 0o600, "tenants[1].name"),
        ("same key twice", json.dumps({"tenants": [one, one | {"name": "c"}]}), 0o600, "tenants[1].api_keys_sha256[0]"),
        ("weight 0", file_with(weight=0), 0o600, "tenants[0].weight"),
        ("weight -1", file_with(weight=-1), 0o600, "tenants[0].weight"),
        ("limit 0", file_with(concurrency_max=0), 0o600, "tenants[0].concurrency_max"),
        ("malformed digest", file_with(api_keys_sha256=["0" * 63]), 0o600, "tenants[0].api_keys_sha256[0]"),
        ("readable by all", good, 0o644, "chmod 600"),
        ("writable by the group", good, 0o620, "chmod 600"),
        ("empty", "", 0o600, ".json:1"),
    ]  # fmt: skip

    def refuse(text, mode, where):
        server.file.write_text(text, mode)
        response = server.admin("POST", "/admin/reload")
        error = check_error(response, 400, code="invalid_tenants_file")
        assert where in error["message"], error["message"]
        server.signal(signal.SIGHUP)
        assert server.ask("a", **SHORT).status == 200
        assert server.tenant("a")["limits"]["rpm"] == 1000
        assert server.tenant("b")["configured"]

    each(cases, refuse)
    server.file.path.unlink()
    check_error(server.admin("POST", "/admin/reload"), 400, code="invalid_tenants_file")
    assert server.ask("b", **SHORT).status == 200
    wait_for(lambda: "not reloaded" in server.log() and "tenants[0].weight" in server.log())


def test_h2_a_server_does_not_start_with_a_wrong_file():
    file = TenantsFile(a={"weight": 0})
    with pytest.raises(AssertionError, match=r"ended with 78(.|\n)*tenants\[0\]\.weight"):
        TenantServer(file)


def test_h3_a_reload_under_load_loses_no_stream(start):
    server = start("--max-num-seqs", 64, a={}, b={})
    count = int(100 / math.sqrt(SLOW))
    body = SHORT | {"max_tokens": 300, "stream": True}
    expected = server.ask("b", **SHORT | {"max_tokens": 300}).json()["choices"][0]["text"]

    def run(_):
        with server.open("a", **body) as connection:
            assert connection.read_head().status == 200
            return "".join(json.loads(event)["choices"][0]["text"] for event in read_events(connection))

    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        streams = [threads.submit(run, i) for i in range(count)]
        # Every one has been let in: the limit that is lowered below is not for them.
        wait_for(lambda: server.tenant("a")["open"] + sum(s.done() for s in streams) >= count, timeout=60.0)
        for i in range(20):
            server.file.write(a={"weight": i + 1, "concurrency_max": 1}, b={"weight": 2})
            server.reload()
        wait_for(lambda: server.tenant("a")["limits"]["concurrency_max"] == 1)
        if server.tenant("a")["open"] > 1:
            check_error(server.ask("a", **SHORT), 429, param="concurrency_max")
        # Its own tenant goes away while it runs.
        server.file.write(b={})
        server.reload()
        texts = [stream.result() for stream in streams]
    assert texts == [expected] * count
    check_error(server.ask("a", **SHORT), 401)


def test_h5_signals_come_in_bursts(start):
    server = start("--shutdown-timeout-s", 3600, "--stream-stall-s", 3600, a={})
    for signal_number in (signal.SIGUSR1, signal.SIGUSR2):
        server.signal(signal_number)
    server.file.write(a={"rpm": 7})
    began = time.monotonic()
    for _ in range(100):
        server.signal(signal.SIGHUP)
        time.sleep(0.001)
    took = time.monotonic() - began
    wait_for(lambda: server.tenant("a")["limits"].get("rpm") == 7)
    time.sleep(0.2)
    assert 1 <= server.log().count("reloaded: 1 tenants") <= 2 + took / 0.05, "coalesced: one in 50 ms"
    connection = server.open("a", **OPEN)
    first_event(connection)
    server.signal(signal.SIGTERM)
    wait_for(lambda: "draining" in server.log())
    server.signal(signal.SIGTERM)
    assert server.wait(30 * SLOW) == 0, "the second one ends it at once"
    connection.close()


def test_h5_a_hangup_without_a_file_is_ignored(start_server):
    server = start_server()
    for _ in range(5):
        server.signal(signal.SIGHUP)
    assert server.get("/health").status == 200
    assert "reload" not in server.log()


def test_h7_after_a_drain_new_requests_are_turned_away_and_running_ones_end(start):
    server = start("--shutdown-timeout-s", 3600, a={})
    connection = server.open("a", **SHORT | {"max_tokens": 400})
    first_event(connection)
    drained = server.admin("POST", "/admin/drain").json()
    assert drained["draining"] is True
    response = server.ask("a", **SHORT)
    check_error(response, 503, code="draining")
    assert response.field("connection") == "close"
    assert server.get("/ready").status == 503
    assert server.get("/health").status == 200
    events = [json.loads(event) for event in read_events(connection)]
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    server.signal(signal.SIGTERM)
    assert server.wait(30 * SLOW) == 0


def test_an_operator_aborts_pauses_and_resumes(start):
    server = start(a={}, b={})
    streams = {name: server.open(name, **OPEN | {"request_id": f"job-{name}"}) for name in ("a", "b")}
    for stream in streams.values():
        first_event(stream)
    assert server.admin("POST", "/abort_requests", {"request_ids": ["cmpl-job-a"]}).json() == {"aborted": 1}
    last = [json.loads(event) for event in read_events(streams["a"])][-1]
    assert last["choices"][0]["finish_reason"] == "abort"
    assert server.admin("POST", "/abort_requests", {"tenant": "b"}).json() == {"aborted": 1}
    assert [json.loads(event) for event in read_events(streams["b"])][-1]["choices"][0]["finish_reason"] == "abort"
    assert server.admin("POST", "/pause").json() == {"paused": True}
    waiting = server.open("a", **SHORT)
    server.wait_tenant("a", waiting=1, running=0)
    assert server.admin("POST", "/resume").json() == {"paused": False}
    assert waiting.read_head().status == 200
    waiting.close()


def test_the_admin_socket_needs_no_key_but_this_user(start, tmp_path):
    import socket

    path = tmp_path / "admin.sock"
    server = TenantServer(TenantsFile(a={}), "--admin-socket", path)
    try:
        assert os.stat(path).st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(path))
            client.sendall(raw_http.head("GET", "/admin/tenants", [("Connection", "close")], host="localhost"))
            assert client.recv(100).startswith(b"HTTP/1.1 401"), "a key was given, so it is asked for here too"
    finally:
        assert server.stop() == 0
        server.check_log()
        server.remove_log()
    assert not path.exists()


def test_f5_what_one_tenant_computed_is_not_there_for_another(start):
    server = start(a={}, b={})
    body = SHORT | {"prompt": [(i * 31) % 200 + 20 for i in range(200)]}

    def cached(tenant, **more):
        return server.ask(tenant, **body | more).json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached("a") == 0
    assert cached("a") > 0
    assert cached("b") == 0
    # A salt is the tenant's own: the same word says nothing about another's.
    assert cached("a", cache_salt="s") == 0
    assert cached("b", cache_salt="s") == 0
    server.admin("POST", "/reset_prefix_cache")
    assert cached("a") == 0


def test_a_tenants_default_agrees_for_its_requests(start):
    kv = {"policy": "h2o", "budget": 3500, "elastic": True}
    server = start("--no-enable-prefix-caching", a={"kv": kv}, b={})
    # Each is promised 219 of 512 blocks; the request that comes then needs 88.
    chats = [server.open("a", prompt=[first] * 300, max_tokens=3700, ignore_eos=True) for first in (1000, 2000)]
    for chat in chats:
        first_event(chat)
    assert server.ask("b", prompt=[3000] * 1400, max_tokens=2, ignore_eos=True).status == 200
    assert metric(server.metrics(), "hydrant_shrinks_total") == 1
    assert server.tenant("a")["running"] == 2
    for chat in chats:
        chat.reset()
