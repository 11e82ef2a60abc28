"""Log-probabilities as evaluation harnesses use them: scored with echo, compared with exact float equality."""

import math

import pytest

TEXTS = [
    ("The capital of France is", " Paris"),
    ("Two plus two equals", " four, of course."),
    ("Grüße aus", " München 🌍!"),
    ("def add(a, b):\n    return", " a + b\n"),
]


def ids_of(server, text):
    return server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json()["tokens"]


def test_a_harness_scores_continuations_as_lm_eval_does(server):
    """lm-eval's local-completions: [[ids]], echo, max_tokens 1, logprobs 1; greedy is token == max(top), exactly."""
    prompts, context_lengths = [], []
    for context, continuation in TEXTS:
        context_ids = ids_of(server, context)
        prompts.append(context_ids + ids_of(server, continuation))
        context_lengths.append(len(context_ids))
    answer = server.complete(prompt=prompts, echo=True, max_tokens=1, logprobs=1, temperature=0, seed=1234)
    choices = sorted(answer["choices"], key=lambda choice: choice["index"])
    assert len(choices) == len(prompts)
    for ids, context_length, choice in zip(prompts, context_lengths, choices):
        logprobs = choice["logprobs"]
        assert len(logprobs["tokens"]) == len(ids) + 1
        continuation = logprobs["token_logprobs"][context_length:-1]
        tops = logprobs["top_logprobs"][context_length:-1]
        assert len(continuation) == len(ids) - context_length
        assert all(isinstance(value, float) and value <= 0 and math.isfinite(value) for value in continuation)
        for value, token, top in zip(continuation, logprobs["tokens"][context_length:-1], tops):
            assert top[token] == value  # the identical number
            assert value <= max(top.values())
        assert logprobs["token_logprobs"][-1] == max(logprobs["top_logprobs"][-1].values())  # the sampled one is greedy
    assert choices[0]["logprobs"]["token_logprobs"][0] is None
    assert choices[0]["logprobs"]["top_logprobs"][0] is None


def test_scores_do_not_depend_on_company_or_on_the_rest_of_the_request(server):
    prompts = [ids_of(server, context + continuation) for context, continuation in TEXTS]
    together = server.complete(prompt=prompts, echo=True, max_tokens=1, logprobs=1, temperature=0)["choices"]
    for ids, batched in zip(prompts, together):
        alone = server.complete(prompt=ids, echo=True, max_tokens=1, logprobs=1, temperature=0)["choices"][0]
        assert alone["logprobs"] == batched["logprobs"]
        only = server.complete(prompt=ids, echo=True, max_tokens=0, logprobs=1)["choices"][0]
        assert only["logprobs"]["token_logprobs"] == alone["logprobs"]["token_logprobs"][:-1]


def test_greedy_tokens_score_as_the_best(server):
    """What greedy decoding chose is, scored again as a prompt, the best candidate (up to rounding) at every position."""
    prompt = ids_of(server, "Once upon a time")
    generated = server.complete(
        prompt=prompt, max_tokens=16, temperature=0, logprobs=1, return_token_ids=True, ignore_eos=True
    )["choices"][0]
    scored = server.complete(prompt=prompt + generated["token_ids"], echo=True, max_tokens=0, logprobs=1)["choices"][0]
    again = scored["logprobs"]["token_logprobs"][len(prompt) :]
    for first, second in zip(generated["logprobs"]["token_logprobs"], again):
        assert first == pytest.approx(second, abs=0.05)


def test_every_count_of_candidates(server):
    for count in (0, 1, 2, 5, 20):
        choice = server.complete(prompt="A list of", max_tokens=6, temperature=0, logprobs=count)["choices"][0]
        logprobs = choice["logprobs"]
        for token, value, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
            assert top[token] == value
            assert len(top) == max(1, count)
            assert value == max(top.values())
            assert sum(math.exp(v) for v in top.values()) <= 1 + 1e-4
    sampled = server.complete(prompt="A list of", max_tokens=20, temperature=2, seed=1, logprobs=2)["choices"][0]["logprobs"]
    for token, value, top in zip(sampled["tokens"], sampled["token_logprobs"], sampled["top_logprobs"]):
        assert top[token] == value
        assert len(top) in (2, 3)


def test_candidates_are_nested_and_before_temperature(server):
    body = {"prompt": "A list of", "max_tokens": 6, "temperature": 0}
    few = server.complete(**body, logprobs=2)["choices"][0]["logprobs"]
    many = server.complete(**body, logprobs=10)["choices"][0]["logprobs"]
    assert few["token_logprobs"] == many["token_logprobs"]
    for small, large in zip(few["top_logprobs"], many["top_logprobs"]):
        assert small.items() <= large.items()
    hot = server.complete(**body | {"temperature": 1.5, "top_k": 1, "seed": 1}, logprobs=2)["choices"][0]["logprobs"]
    assert hot["token_logprobs"] == few["token_logprobs"]


def test_offsets_point_into_the_text(server):
    for echo in (False, True):
        choice = server.complete(
            prompt="Grüße: one, two, three", max_tokens=12, temperature=0, logprobs=1, echo=echo
        )["choices"][0]
        offsets = choice["logprobs"]["text_offset"]
        assert offsets[0] == 0
        assert offsets == sorted(offsets)
        for offset, token in zip(offsets, choice["logprobs"]["tokens"]):
            if not token.startswith("bytes:") and not token.startswith("<|"):
                assert choice["text"][offset : offset + len(token)] == token
