"""Prefixes are computed once: the second answer is the same, and says how much of its prompt it took over."""

import pytest

from hydrant_server import metric

PROMPT = [(i * 31) % 200 + 20 for i in range(300)]
POLICIES = [
    {"policy": "full"},
    {"policy": "h2o", "budget": 64},
    {"policy": "h2o", "budget": 64, "cadence": {"periodic": 32}},
    {"policy": "h2o-plus", "budget": 64},
    {"policy": "snapkv", "budget": 64},
    {"policy": "sinks", "budget": 64},
    {"policy": "window", "budget": 64},
]


def body(kv, first, **more):
    prompt = [first] + PROMPT
    return {"prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": True, "kv": kv, "logprobs": 1, **more}


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize("index, kv", list(enumerate(POLICIES)), ids=lambda v: v if isinstance(v, int) else v["policy"])
def test_the_second_answer_is_the_first_one_and_cheaper(server, index, kv):
    computed = metric(server.metrics(), "vllm:prompt_tokens_by_source_total", source="local_compute")
    hits = metric(server.metrics(), "vllm:prefix_cache_hits_total")
    cold = server.complete(**body(kv, 30 + index))
    warm = server.complete(**body(kv, 30 + index))
    assert cached(cold) == 0
    # A scored request starts from a snapshot; `h2o-plus` and `snapkv` compute their last rows again.
    assert 300 - 64 - 16 < cached(warm) <= 300
    assert warm["choices"] == cold["choices"]
    text = server.metrics()
    assert metric(text, "vllm:prefix_cache_hits_total") - hits == cached(warm)
    assert metric(text, "vllm:prompt_tokens_by_source_total", source="local_compute") - computed == 602 - cached(warm)


def test_a_longer_prompt_takes_over_what_a_shorter_one_computed(server):
    kv = {"policy": "h2o", "budget": 64}
    server.complete(**body(kv, 40))
    longer = body(kv, 40)
    longer["prompt"] = longer["prompt"] + [25] * 50
    warm = server.complete(**longer)
    assert cached(warm) == 288
    alone = server.complete(**longer, cache_salt="somebody who has computed nothing")
    assert cached(alone) == 0
    assert warm["choices"] == alone["choices"]


# 301 + 12 tokens, of which the last one was never fed back, in blocks of 16. What decoding computed is found where nobody could
# compare the answer with one for which it was computed again.
@pytest.mark.parametrize("fields, found", [
    ({}, 304), ({"temperature": 0.2}, 304), ({"temperature": 0}, 288), ({"seed": 5}, 288), ({"top_k": 1}, 288), ({"min_p": 1}, 288),
    ({"logprobs": 1}, 288),
], ids=str)  # fmt: skip
def test_what_was_generated_is_found_by_answers_that_are_drawn_anew(server, fields, found):
    salt = {"cache_salt": str(fields)}
    first = server.complete(**body({"policy": "full"}, 41), **salt, return_token_ids=True)
    prompt = [41] + PROMPT + first["choices"][0]["token_ids"] + [30] * 20
    assert cached(server.complete(prompt=prompt, max_tokens=1, **salt, **fields)) == found


@pytest.mark.parametrize("salt", ["a", "b"])
def test_salts_do_not_meet(server, salt):
    assert cached(server.complete(**body({"policy": "full"}, 42, cache_salt=salt))) == 0
    assert cached(server.complete(**body({"policy": "full"}, 42, cache_salt=salt))) > 0


def test_an_echo_with_log_probabilities_computes_its_prompt(server):
    server.complete(**body({"policy": "full"}, 43))
    assert cached(server.complete(**body({"policy": "full"}, 43, echo=True))) == 0


def test_samples_of_one_prompt_count_once(server):
    server.complete(**body({"policy": "full"}, 44))
    assert cached(server.complete(**body({"policy": "full"}, 44, n=3))) == 288


def test_it_can_be_switched_off(start_server):
    server = start_server("--no-enable-prefix-caching")
    server.complete(**body({"policy": "full"}, 45))
    assert cached(server.complete(**body({"policy": "full"}, 45))) == 0
    assert metric(server.metrics(), "vllm:prefix_cache_queries_total") == 0
