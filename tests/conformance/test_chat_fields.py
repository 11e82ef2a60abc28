"""Table C for /v1/chat/completions: the fields it has in common with completions, through its own reader."""

import pytest

from checks import check_error, each
from hydrant_server import PROMPT_MARK, SLOW

PATH = "/v1/chat/completions"
HI = [{"role": "user", "content": f"{PROMPT_MARK} hello"}]

# Each is a 400 that names the field.
REFUSED = {
    "C11": [("max_tokens", value) for value in (0, -1, 1 << 31, 1 << 63, 1.5, 16.0, "16", True, [16])],
    "C11 of its other name": [("max_completion_tokens", value) for value in (0, -1, 1 << 31, 1.5, "16", True)],
    "C14": [("n", value) for value in (0, -1, 17, 1_000_000, 1_000_000_000, 1 << 62, 1.0, True, "1")],
    "C15": [("best_of", value) for value in (1_000_000, 0, 2, -1, "1")],
    "C16": [("temperature", value) for value in (-0.1, 2.1, 1e38, "1", True, [])],
    "C17": [("top_p", value) for value in (0, -1, 1.0001, "1")],
    "C18": [("top_k", value) for value in (-2, 1.5, 1 << 31, "1")],
    "C19": [("min_p", -0.1), ("min_p", 1.1), ("min_p", "0"), ("typical_p", -0.1), ("typical_p", 1.1)],
    "C20": [(f"{name}_penalty", value) for name in ("frequency", "presence") for value in (2.1, -2.1, 1e38, "0")]
    + [("repetition_penalty", value) for value in (0, -1, 1e-30, 1e30)],
    "C22": [("logit_bias", {"1": value}) for value in (101, -1e38, None, "x")]
    + [("logit_bias", {str(i): 0 for i in range(150_000)}), ("logit_bias", {"-1": 1}), ("logit_bias", [1])],
    "C24": [("logprobs", 21), ("logprobs", 1), ("logprobs", "x"), ("top_logprobs", 2)],
    "C25": [("prompt_logprobs", -1), ("prompt_logprobs", 21), ("prompt_logprobs", "x")],
    "C27": [("stop_token_ids", [value]) for value in (-1, 1 << 31, 1.5)]
    + [("stop", value) for value in ("", ["a", ""], ["x"] * 17, "x" * 257, [1], 5, {})],
    "C35": [("session_id", "../../x"), ("session_id", ""), ("session_id", 7), ("cache_salt", 7), ("cache_salt", "x" * 257)],
    "C36": [("priority", value) for value in (-(1 << 31), 1 << 31, "high")],
    "C40": [("prompt_embeds", "AAAA"), ("multi_modal_data", {}), ("image_url", "http://127.0.0.1:9/x.png")],
    "what a chat has no place for": [("use_beam_search", True), ("session_append", True)],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(row, name):
    def check(field, value):
        check_error(row.post(PATH, {"messages": HI, "max_tokens": 1, field: value}), 400, param=field)

    # Beside max_tokens its other name would be refused for being another number.
    def check_alone(field, value):
        check_error(row.post(PATH, {"messages": HI, field: value}), 400, param=field)

    check_one = check_alone if "other name" in name else check
    each([(f"{field}={value!r}"[:80], field, value) for field, value in REFUSED[name]], check_one)


def test_c31_and_c32_schemas_cost_nothing_before_they_are_read(row):
    def check(field, value):
        error = check_error(row.post(PATH, {"messages": HI, "max_tokens": 1, field: value}), 400)
        assert error["param"].startswith(field)

    many = {"enum": [str(i) for i in range(70_000)]}
    each(
        [
            ("a large schema", "response_format", {"type": "json_schema", "json_schema": {"schema": many}}),
            ("no schema", "response_format", {"type": "json_schema", "json_schema": {"name": "s"}}),
            ("a nested grammar", "structured_outputs", {"grammar": "(" * 30_000 + ")" * 30_000}),
            ("an unknown member", "structured_outputs", {"jsn": {}}),
        ],
        check,
    )


ACCEPTED = {
    "C15": [{"best_of": None}, {"best_of": 1}, {"best_of": 2, "n": 2}],
    "C16 to C20": [
        {"temperature": 1e-300}, {"temperature": 2}, {"top_p": 1e-300}, {"top_k": -1}, {"min_p": 1},
        {"presence_penalty": -2}, {"frequency_penalty": 2}, {"repetition_penalty": 0.001}, {"repetition_penalty": 10},
    ],
    "C22 to C27": [
        {"logit_bias": {"1": 5, "2": -100}}, {"logprobs": True, "top_logprobs": 20}, {"logprobs": False},
        {"prompt_logprobs": 2}, {"stop": None}, {"stop": ["x"] * 16},
    ],
    "C39": [{"foo": value} for value in (1, None, {"bar": [1]}, "x" * 1000)],
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(row, name):
    def check(fields):
        response = row.post(PATH, {"messages": HI, "max_tokens": 2, "temperature": 0} | fields)
        assert response.status == 200, response.body

    each([(repr(fields)[:80], fields) for fields in ACCEPTED[name]], check)


def test_c9_c10_and_c38_the_context_is_a_boundary(impatient_row):
    server = impatient_row
    context = server.get("/v1/models").json()["data"][0]["max_model_len"]
    prompt = server.post("/tokenize", {"messages": HI}).json()["count"]
    room = context - prompt
    overflow = "context_length_exceeded"
    for body in (
        {"messages": [{"role": "user", "content": "hello " * 2 * context}]},
        {"messages": [{"role": "user", "content": "hello " * 2 * context}], "max_tokens": 1},
        {"messages": HI, "max_tokens": room + 1},
        {"messages": HI, "max_tokens": 1_000_000, "ignore_eos": True},
    ):
        check_error(server.post(PATH, body), 400, code=overflow)
    for said in ({"max_tokens": room}, {"max_completion_tokens": room}, {"max_tokens": None}, {}):
        answer = server.post(PATH, {"messages": HI, "ignore_eos": True, "temperature": 0} | said).json()
        assert answer["usage"]["total_tokens"] == context, said
        assert answer["choices"][0]["finish_reason"] == "length"


def test_an_answer_that_does_not_say_has_the_operators_length(start_server):
    server = start_server(
        "--num-gpu-blocks-override", 256, "--max-model-len", 256,
        "--override-generation-config", '{"max_new_tokens": 5, "temperature": 0}',
    )  # fmt: skip
    for said, tokens in (({}, 5), ({"max_tokens": 9}, 9), ({"min_tokens": 7}, 7)):
        answers = [server.post(PATH, {"messages": HI, "ignore_eos": True} | said).json() for _ in range(2)]
        assert answers[0]["usage"]["completion_tokens"] == tokens
        assert answers[0]["choices"][0]["message"] == answers[1]["choices"][0]["message"], "greedy unless asked otherwise"
    assert server.complete(prompt="x", ignore_eos=True)["usage"]["completion_tokens"] == 16, "completions have OpenAI's"


def test_b8_arguments_of_calls_are_part_of_the_request(row):
    """Texts of JSON in a body cost what the body may cost, all together."""
    arguments = '{"x":[0' + ",0" * 150_000 + "]}"
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    body = {"messages": HI + [{"role": "assistant", "content": "", "tool_calls": [call] * 24}]}
    row.reset_peak()
    before = row.rss_kib()
    check_error(row.post(PATH, body), 400, param="messages[1].tool_calls", code="json_too_many_nodes")
    if SLOW == 1:
        assert row.peak_rss_kib() - before <= 128 << 10  # each of the 24 by itself: half a gigabyte
