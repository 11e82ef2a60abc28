"""Table C for /v1/completions: every field's range, and what the fields do."""

import time

import pytest

import hydrant_server
from checks import check_error, each
from hydrant_server import PROMPT_MARK, SLOW

PROMPT = f"{PROMPT_MARK} hello"
VOCABULARY = 49152  # of the default model


def bad(server, *, status=400, code=None, **fields):
    body = {"prompt": PROMPT, "max_tokens": 1} | fields
    return check_error(server.post("/v1/completions", body), status, code=code)


def refuse_all(server, field, values, code=None, **others):
    """Every value of `field` is a 400 that names it."""

    def check(value):
        body = {"prompt": PROMPT, "max_tokens": 1} | others | {field: value}
        check_error(server.post("/v1/completions", body), 400, param=field, code=code)

    each([(repr(value)[:60], value) for value in values], check)


def accept_all(server, field, values, **others):
    def check(value):
        body = {"prompt": PROMPT, "max_tokens": 1, "temperature": 0} | others | {field: value}
        response = server.post("/v1/completions", body)
        assert response.status == 200, response.body

    each([(repr(value)[:60], value) for value in values], check)


def test_c1_model(row):
    server = row
    served = server.get("/v1/models").json()["data"][0]["id"]
    accept_all(server, "model", [served, None])
    for name in ("gpt-4", "", "../../x", served + "x", "x" * 1_000_000):
        error = check_error(server.post("/v1/completions", {"prompt": PROMPT, "model": name}), 404, param="model")
        assert error["code"] == "model_not_found"
        assert len(error["message"]) < 200
    refuse_all(server, "model", [{}, 1, True, [served]])


def test_c6_empty_prompts(row):
    for prompt in ("", [], [""], [[]], ["a", ""], [[1], []]):
        bad(row, prompt=prompt, code="empty_prompt")
    check_error(row.post("/v1/completions", {"max_tokens": 1}), 400, param="prompt")
    check_error(row.post("/v1/completions", {"prompt": None}), 400, param="prompt")


def test_c7_token_ids(row):
    values = [[-1], [1 << 31], [1 << 32], [1 << 63], [1.5], [1, "5"], [1, None], [True], [1, [2]], [[1, -1]]]
    refuse_all(row, "prompt", values, "token_id_out_of_range")
    if hydrant_server.model_path().name == hydrant_server.DEFAULT_MODEL.name:
        refuse_all(row, "prompt", [[VOCABULARY], [VOCABULARY + 1]], "token_id_out_of_range")
        accept_all(row, "prompt", [[VOCABULARY - 1], [0]])
    refuse_all(row, "prompt", [["a", 1], {"a": 1}, 5, True, [[1], "a"]])


def test_c9_c10_the_context_is_a_boundary(impatient_row):
    server = impatient_row
    context = server.get("/v1/models").json()["data"][0]["max_model_len"]
    assert context == 256
    ids = [100] * context
    overflow = "context_length_exceeded"
    error = bad(server, prompt=ids + [100], code=overflow)
    assert error["message"].startswith(
        f"This model's maximum context length is {context} tokens. However, you requested 1 output tokens and your "
        f"prompt contains {context + 1} input tokens, for a total of {context + 2} tokens."
    )
    bad(server, prompt=ids, code=overflow)
    bad(server, prompt=ids[1:], max_tokens=2, code=overflow)
    bad(server, prompt=[100], max_tokens=context, code=overflow)
    bad(server, prompt=[100], max_tokens=(1 << 31) - 1, code=overflow)
    answer = server.complete(prompt=ids[1:], max_tokens=1, ignore_eos=True)
    assert answer["usage"]["total_tokens"] == context
    rolling = {"policy": "h2o", "budget": 64, "position": "rolling"}
    answer = server.complete(prompt=[100], max_tokens=2 * context, ignore_eos=True, temperature=0, kv=rolling)
    assert answer["usage"]["completion_tokens"] == 2 * context
    bad(server, prompt=ids + [100], max_tokens=1, kv=rolling, code=overflow)
    bad(server, prompt=[100], max_tokens=2 * context, kv={**rolling, "budget": context}, code=overflow)
    bad(server, prompt=[100], max_tokens=1 << 30, kv=rolling)
    answer = server.complete(prompt=[100], max_tokens=context - 1, ignore_eos=True, temperature=0)
    assert answer["usage"]["total_tokens"] == context
    assert answer["choices"][0]["finish_reason"] == "length"
    answer = server.complete(prompt=ids, max_tokens=0, echo=True)
    assert answer["usage"]["prompt_tokens"] == context


def test_c11_max_tokens(row):
    refuse_all(row, "max_tokens", [0, -1, 1 << 31, 1 << 63, 1.5, 16.0, "16", True, [16]])
    answer = row.complete(prompt=PROMPT, max_tokens=None, temperature=0, ignore_eos=True)
    assert answer["usage"]["completion_tokens"] == 16


def test_a_timeout_ends_a_request_by_its_field_or_its_header(row):
    refuse_all(row, "timeout", [0, -1, -0.5, 1e8, "1", True, [1], {}])
    accept_all(row, "timeout", [60, 60.5, None])
    rolling = {"policy": "h2o", "budget": 64, "position": "rolling"}
    long = {"prompt": PROMPT, "max_tokens": 1_000_000, "ignore_eos": True, "kv": rolling}
    for text in ("", "0", "-1", "nan", "inf", "1s", "1e8"):
        response = row.post("/v1/completions", long, [("X-Request-Timeout", text)])
        check_error(response, 400, param="X-Request-Timeout")
    began = time.monotonic()
    check_error(row.post("/v1/completions", long | {"timeout": 0.3}), 504, code="request_time_exceeded")
    check_error(row.post("/v1/completions", long, [("X-Request-Timeout", "0.3")]), 504, code="request_time_exceeded")
    assert time.monotonic() - began >= 0.6
    stream = row.post("/v1/completions", long | {"timeout": 0.5 * SLOW, "stream": True})
    assert stream.body.endswith(b"data: [DONE]\n\n") or stream.status == 504
    assert b'"code":"request_time_exceeded"' in stream.body


def test_c13_scoring_without_generating(row):
    answer = row.complete(prompt=PROMPT, echo=True, max_tokens=0, logprobs=1)
    choice = answer["choices"][0]
    assert choice["text"] == PROMPT
    assert answer["usage"]["completion_tokens"] == 0
    assert len(choice["logprobs"]["tokens"]) == answer["usage"]["prompt_tokens"]
    assert choice["finish_reason"] == "length"


@pytest.mark.machine
def test_c14_n(quiet_row):
    before = quiet_row.cpu_s()
    refuse_all(quiet_row, "n", [0, -1, 17, 1_000_000, 1_000_000_000, 1 << 62, 1.0, True, "1"])
    assert quiet_row.cpu_s() - before < 0.5 * SLOW


def test_c14_a_request_is_bounded_as_a_whole(row):
    """8 MiB of digits as 1,024 prompts with n=16 would be millions of tokens."""
    prompts = ["0123456789" * 100] * 1024
    refuse_all(row, "prompt", [prompts], n=16)
    refuse_all(row, "logprobs", [20], prompt=["a"] * 1024, n=16, max_tokens=100)


def test_c15_best_of(row):
    refuse_all(row, "best_of", [1_000_000, 0, 2, -1, "1"])
    refuse_all(row, "best_of", [2], n=3)
    refuse_all(row, "best_of", [2], n=2, stream=True)
    accept_all(row, "best_of", [None, 1])
    accept_all(row, "best_of", [2], n=2)


def test_c16_temperature(row):
    refuse_all(row, "temperature", [-0.1, 2.1, 1e38, "1", True, []])
    accept_all(row, "temperature", [0, 2, 1e-300, 1e-30])


def test_c17_top_p(row):
    refuse_all(row, "top_p", [0, -1, 1.0001, "1"])
    tiny = row.complete(prompt=PROMPT, max_tokens=8, top_p=1e-300, seed=1)
    greedy = row.complete(prompt=PROMPT, max_tokens=8, temperature=0)
    assert tiny["choices"][0]["text"] == greedy["choices"][0]["text"]  # one token is always kept: the best


def test_c18_top_k(row):
    refuse_all(row, "top_k", [-2, 1.5, 1 << 31, "1"])
    accept_all(row, "top_k", [-1, 0, 1, 1_000_000], temperature=1)


def test_c19_min_p(row):
    refuse_all(row, "min_p", [-0.1, 1.1, "0"])
    refuse_all(row, "typical_p", [-0.1, 1.1])
    accept_all(row, "min_p", [0, 0.5, 1], temperature=1)


def test_c20_penalties(row):
    for name in ("frequency_penalty", "presence_penalty"):
        refuse_all(row, name, [2.1, -2.1, 1e38, "0"])
        accept_all(row, name, [0, 0.0, None, 0.5, -2, 2], max_tokens=8)
    refuse_all(row, "repetition_penalty", [0, -1, 1e-30, 1e30])
    accept_all(row, "repetition_penalty", [1, 1.0, 0.001, 10], max_tokens=8)


def test_c22_logit_bias(row):
    refuse_all(row, "logit_bias", [{"1": 101}, {"1": -1e38}, {"1": None}, {"x": 1}, {"-1": 1}, [1]])
    refuse_all(row, "logit_bias", [{str(i): 0 for i in range(2000)}])
    refuse_all(row, "logit_bias", [{str(i): 0 for i in range(150_000)}])
    accept_all(row, "logit_bias", [{}, {"1": 0}, {"1": 5, "2": -100}, {str(i): -100 for i in range(1024)}], max_tokens=8)


def test_c25_prompt_logprobs(row):
    refuse_all(row, "prompt_logprobs", [-1, 21, True, "1", 1.0])
    refuse_all(row, "prompt_logprobs", [0, 1], stream=True)
    accept_all(row, "prompt_logprobs", [0, 20, None])
    refuse_all(row, "prompt_logprobs", [20], prompt=[[5] * 4000] * 16)  # 1.3 million of them


def test_c26_allowed_and_forbidden_tokens(row):
    refuse_all(row, "allowed_token_ids", [[], [-1], [1 << 31], 5, ["5"]])
    accept_all(row, "allowed_token_ids", [None, [5], list(range(1000))])
    refuse_all(row, "bad_words", [[""], [1], 5, ["x" * 257], ["x"] * 129, [" "]])
    accept_all(row, "bad_words", [None, [], "x", ["x", " y", "z" * 256]])


def test_c24_logprobs(row):
    refuse_all(row, "logprobs", [21, -1, True, 1.0, "1"])
    accept_all(row, "logprobs", [0, 20, None])


def test_c27_stops(row):
    refuse_all(row, "stop", ["", ["a", ""], ["x"] * 17, "x" * 257, [1], 5, {}])
    refuse_all(row, "stop_token_ids", [[-1], [1 << 31], [1.5], 5])
    accept_all(row, "stop", [None, [], "x" * 256, ["x"] * 16])


def test_c34_what_another_version_does_is_refused_by_name(row):
    for field, value in {
        "guided_whitespace_pattern": " ",
        "chat_template": "{{ messages }}",
        "chat_template_kwargs": {"a": 1},
        "prompt_embeds": "AAAA",
        "multi_modal_data": {},
        "image_url": "http://127.0.0.1:9/x.png",
        "logprob_token_ids": [1],
        "tools": [{"type": "function"}],
        "suffix": "x",
        "use_beam_search": True,
    }.items():
        error = check_error(row.post("/v1/completions", {"prompt": PROMPT, field: value}), 400, param=field)
        assert error["code"] == "unsupported"


def test_c39_unknown_fields_are_ignored(row):
    accept_all(row, "foo", [1, None, {"bar": [1]}, "x" * 1000])


def test_stream_options_need_a_stream(row):
    refuse_all(row, "stream_options", [{}, {"include_usage": True}])
    refuse_all(row, "stream_options", [{}], stream=False)
    bad(row, stream=True, stream_options={"include_usage": 1})


def test_kv_fields(row):
    cases = [
        ({"policy": "nope", "budget": 64}, "kv.policy"),
        ({"policy": "h2o"}, "kv.budget"),
        ({"policy": "h2o", "budget": 0}, "kv.budget"),
        ({"policy": "h2o", "budget": 1 << 40}, "kv.budget"),
        ({"policy": "h2o", "budget": {"ratio_of_prompt": 1.5}}, "kv.budget.ratio_of_prompt"),
        ({"policy": "h2o", "budget": 64, "recent": 65}, "kv.recent"),
        ({"policy": "h2o-plus"}, "kv.budget"),
        ({"policy": "h2o-plus", "budget": 64, "recent": 65}, "kv.recent"),
        ({"policy": "h2o_plus", "budget": 64}, "kv.policy"),
        ({"policy": "snapkv", "budget": 0}, "kv.budget"),
        ({"policy": "h2o-decay", "budget": 64, "recent": 0}, "kv.recent"),
        ({"policy": "sinks", "budget": 4}, "kv.budget"),
        ({"policy": "full", "budget": 64}, "kv.budget"),
        ({"policy": "h2o", "budget": 64, "cadence": {"periodic": 0}}, "kv.cadence.periodic"),
        ({"policy": "h2o", "budget": 64, "position": "spinning"}, "kv.position"),
        ({"policy": "full", "position": "rolling"}, "kv.position"),
        ({"position": "rolling"}, "kv.position"),
        ({"policy": "h2o", "budget": 64, "elastic": "yes"}, "kv.elastic"),
        ({"policy": "full", "elastic": True}, "kv.elastic"),
        ({"policy": "h2o", "budget": 64, "floor": 65}, "kv.floor"),
        ({"policy": "h2o", "budget": 64, "floor": 0}, "kv.floor"),
        ({"policy": "h2o", "budget": 64, "elastic": False, "floor": 32}, "kv.floor"),
        ({"policy": "h2o", "budget": 64, "prefill": "half"}, "kv.prefill"),
        ({"policy": "h2o-plus", "budget": 64, "prefill": "budgeted"}, "kv.prefill"),
        ({"policy": "full", "prefill": "budgeted"}, "kv.prefill"),
        (7, "kv"),
    ]

    def check(kv, param):
        check_error(row.post("/v1/completions", {"prompt": PROMPT, "kv": kv}), 400, param=param)

    each([(str(kv), kv, param) for kv, param in cases], check)


KV_CASES = {
    "full": ({"policy": "full"}, None),
    "h2o": ({"policy": "h2o", "budget": 32}, 32),
    "h2o-llama3": ({"policy": "h2o-llama3", "budget": 32}, 32),
    "snapkv": ({"policy": "snapkv", "budget": 32}, 32),
    "h2o-plus": ({"policy": "h2o-plus", "budget": 32}, 32),
    "h2o-plus of one": ({"policy": "h2o-plus", "budget": 1}, 1),
    "auto": ({"policy": "auto", "budget": 32}, 32),
    "auto of one": ({"policy": "auto", "budget": 1}, 1),
    "h2o rolling": ({"policy": "h2o", "budget": 32, "position": "rolling"}, 32),
    "h2o-streaming": ({"policy": "h2o-streaming", "budget": 50, "recent": 20}, 50),
    "h2o-decay": ({"policy": "h2o-decay", "budget": {"ratio_of_prompt": 0.2}}, 20),
    "window": ({"policy": "window", "budget": 16}, 16),
    "sinks": ({"policy": "sinks", "budget": 17}, 17),
    "smallest": ({"policy": "h2o", "budget": 1}, 1),
    "all recent": ({"policy": "h2o", "budget": 31, "recent": 31}, 31),
    "ratio of prompt": ({"policy": "h2o", "budget": {"ratio_of_prompt": 0.25}}, 25),
    "ratio of total": ({"policy": "h2o", "budget": {"ratio_of_total": 0.2}}, 28),
    "no policy": ({"budget": 48}, 48),
}


@pytest.mark.parametrize("name", KV_CASES)
def test_kv_report_counts_what_is_kept(server, name):
    kv, budget = KV_CASES[name]
    answer = server.complete(
        prompt=list(range(1000, 1100)), max_tokens=40, ignore_eos=True, temperature=0, kv=kv, kv_report=True
    )
    report = answer["kv"]
    assert set(report) == {"live", "budget", "evicted", "blocks", "session"}
    assert report["budget"] == budget
    if budget is None:
        assert report["evicted"] == 0
        assert 139 <= report["live"] <= 140  # the last sampled token need not be in the cache
    else:
        assert budget <= report["live"] <= budget + 1
        assert report["evicted"] > 0
    assert report["blocks"] == -(-report["live"] // 16)
    server.wait_idle()


def test_kv_periodic_cuts_back_to_the_budget(server):
    kv = {"policy": "h2o", "budget": 32, "cadence": {"periodic": 16}}
    report = server.complete(prompt=list(range(1000, 1100)), max_tokens=40, ignore_eos=True, kv=kv, kv_report=True)["kv"]
    assert 32 <= report["live"] <= 48
    server.wait_idle()


def test_kv_is_not_reported_unasked(server):
    assert "kv" not in server.complete(prompt="a", max_tokens=1)


def test_many_prompts_have_their_own_choices(server):
    prompts = ["One", "Two three", [5, 6, 7]]
    alone = [server.complete(prompt=p, max_tokens=4, temperature=0)["choices"][0]["text"] for p in prompts]
    with pytest.raises(AssertionError):  # texts and ids do not mix in one request
        server.complete(prompt=prompts)
    answer = server.complete(prompt=prompts[:2], n=2, max_tokens=4, temperature=0)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert [choice["text"] for choice in answer["choices"]] == [alone[0], alone[0], alone[1], alone[1]]
    assert answer["usage"]["completion_tokens"] == sum(
        len(server.complete(prompt=p, max_tokens=4, temperature=0, return_token_ids=True)["choices"][0]["token_ids"])
        for p in (prompts[0], prompts[0], prompts[1], prompts[1])
    )


def test_a_seed_repeats_and_samples_differ(server):
    body = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 1.5, "seed": 7, "n": 4}
    first = [choice["text"] for choice in server.complete(**body)["choices"]]
    again = [choice["text"] for choice in server.complete(**body)["choices"]]
    assert first == again
    assert len(set(first)) > 1
    other = [choice["text"] for choice in server.complete(**body | {"seed": 8})["choices"]]
    assert other != first
    unseeded = {server.complete(prompt="Once upon a time", max_tokens=12, temperature=1.5)["choices"][0]["text"] for _ in range(3)}
    assert len(unseeded) > 1


def test_stop_token_ids_and_ignore_eos(server):
    body = {"prompt": "Count: one two three", "max_tokens": 12, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    ids = server.complete(**body)["choices"][0]["token_ids"]
    assert len(ids) == 12
    stop_id = ids[5]
    stopped = server.complete(**body, stop_token_ids=[stop_id])["choices"][0]
    assert stopped["finish_reason"] == "stop"
    assert stopped["stop_reason"] == stop_id
    assert stopped["token_ids"] == ids[: ids.index(stop_id) + 1]


def test_min_tokens_holds_back_the_stop(server):
    body = {"prompt": "Count: one two three", "max_tokens": 12, "temperature": 0, "return_token_ids": True}
    free = server.complete(**body, ignore_eos=True)["choices"][0]["token_ids"]
    stop_id = free[2]
    held = server.complete(**body, ignore_eos=True, stop_token_ids=[stop_id], min_tokens=8)["choices"][0]
    assert len(held["token_ids"]) >= 8


def test_truncation_keeps_the_end(server):
    ids = list(range(1000, 1050))
    short = server.complete(prompt=ids[-8:], max_tokens=4, temperature=0, return_token_ids=True)
    cut = server.complete(prompt=ids, truncate_prompt_tokens=8, max_tokens=4, temperature=0, return_token_ids=True)
    assert cut["choices"][0]["prompt_token_ids"] == ids[-8:]
    assert cut["choices"][0]["token_ids"] == short["choices"][0]["token_ids"]
    assert cut["usage"]["prompt_tokens"] == 8
