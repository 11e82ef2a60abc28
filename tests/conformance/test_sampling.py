"""How tokens are chosen: penalties, biases, bans and filters as a client sees them. kernels/sampling.h says what they mean; its
tests compare distributions, these compare what comes out of a whole server."""

import concurrent.futures
import json

import pytest

PROMPT = "One, two, three, one, two, three, one, two,"
GREEDY = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
# Everything at once, on a prompt that repeats itself.
ALL = {
    "prompt": PROMPT,
    "max_tokens": 24,
    "temperature": 1.1,
    "top_p": 0.95,
    "top_k": 200,
    "min_p": 0.001,
    "presence_penalty": 0.4,
    "frequency_penalty": 0.3,
    "repetition_penalty": 1.2,
    "logit_bias": {"28": 2.5, "284": -3},
    "bad_words": ["three", "four"],
    "min_tokens": 10,
    "stop_token_ids": [1000],
    "seed": 11,
    "return_token_ids": True,
}


def choice_of(server, **body):
    return server.complete(**body)["choices"][0]


def ids_of(server, text):
    return server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json()["tokens"]


def test_a_bias_of_100_forces_and_one_of_minus_100_forbids(server):
    free = choice_of(server, **GREEDY)["token_ids"]
    forced = choice_of(server, **GREEDY | {"logit_bias": {"5000": 100}})["token_ids"]
    assert forced == [5000] * 24
    without = choice_of(server, **GREEDY | {"logit_bias": {str(free[0]): -100}})["token_ids"]
    assert free[0] not in without


def test_only_allowed_tokens_are_chosen(server):
    allowed = [28, 253, 284, 2000, 40000]
    for temperature in (0, 1, 2):
        body = GREEDY | {"temperature": temperature, "seed": 3, "allowed_token_ids": allowed, "logprobs": 5}
        choice = choice_of(server, **body)
        assert set(choice["token_ids"]) <= set(allowed)
        # Log-probabilities are those of the model, not of what was allowed.
        assert all(len(top) in (5, 6) for top in choice["logprobs"]["top_logprobs"])
    assert choice_of(server, **GREEDY | {"allowed_token_ids": [77]})["token_ids"] == [77] * 24


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty"])
def test_penalties_are_what_the_log_probabilities_say(server, name):
    """A greedy choice has the largest log-probability less what its token had to lose: checked against the 20 best."""
    strength = 2.0
    body = GREEDY | {"max_tokens": 64, name: strength, "logprobs": 20, "return_tokens_as_token_ids": True}
    choice = choice_of(server, **body)
    output = []
    changed = 0
    for token, value, top in zip(
        choice["token_ids"], choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]
    ):

        def lost(candidate):
            count = output.count(candidate)
            return strength * (min(count, 1) if name == "presence_penalty" else count)

        scores = {int(key.removeprefix("token_id:")): score for key, score in top.items()}
        assert scores[token] == value
        best = max(score - lost(candidate) for candidate, score in scores.items())
        assert value - lost(token) == pytest.approx(best, abs=1e-4)
        changed += value < max(scores.values())
        output.append(token)
    assert changed > 0  # else it says nothing


def test_a_repetition_penalty_counts_the_prompt(server):
    # Behind what it would have written itself any model says some of it again.
    ids = ids_of(server, PROMPT) + choice_of(server, **GREEDY)["token_ids"]
    body = GREEDY | {"prompt": ids}
    assert set(choice_of(server, **body)["token_ids"]) & set(ids)
    penalised = choice_of(server, **body | {"repetition_penalty": 10})["token_ids"]
    assert not set(penalised) & set(ids)
    assert len(set(penalised)) == len(penalised)


def test_bad_words_do_not_appear(server):
    ids = choice_of(server, **GREEDY)["token_ids"]
    words = {token: server.post("/detokenize", {"tokens": [token]}).json()["prompt"].strip() for token in ids}
    # One that is a token whether it begins a word or not.
    spellings = {word: [ids_of(server, word), ids_of(server, " " + word)] for word in words.values() if word.isalpha()}
    word = next(word for word, forms in spellings.items() if all(len(form) == 1 for form in forms))
    banned = {form[0] for form in spellings[word]}
    assert banned & set(ids)
    assert not banned & set(choice_of(server, **GREEDY | {"bad_words": [word]})["token_ids"])
    # Of several tokens: only where they come one after the other.
    pair = server.post("/detokenize", {"tokens": ids[3:5]}).json()["prompt"]
    if ids_of(server, pair) == ids[3:5]:
        other = choice_of(server, **GREEDY | {"bad_words": [pair]})["token_ids"]
        assert other[:4] == ids[:4]
        assert other[4] != ids[4]


def test_no_end_before_min_tokens(server):
    """The end would be chosen every time; until min_tokens it cannot be, and then it is."""
    eos = server.post("/tokenize", {"prompt": "<|im_end|>"}).json()["tokens"]
    assert len(eos) == 1
    body = GREEDY | {"ignore_eos": False, "logit_bias": {str(eos[0]): 100}}
    assert choice_of(server, **body)["token_ids"] == eos
    held = choice_of(server, **body | {"min_tokens": 5})
    assert eos[0] not in held["token_ids"][:5]
    assert held["token_ids"][5:] == eos
    assert held["finish_reason"] == "stop"
    stop = 5000
    held = choice_of(server, **GREEDY | {"logit_bias": {str(stop): 100}, "stop_token_ids": [stop], "min_tokens": 3})
    assert stop not in held["token_ids"][:3]
    assert held["stop_reason"] == stop
    assert len(held["token_ids"]) == 4


def test_bans_that_leave_nothing_are_no_error(server):
    choice = choice_of(
        server, **GREEDY | {"allowed_token_ids": [5000], "stop_token_ids": [5000], "min_tokens": 3, "ignore_eos": True}
    )
    # What is allowed stands; the end of it waits for min_tokens all the same.
    assert choice["token_ids"] == [5000] * 3


def test_company_changes_no_token(server):
    """The same request alone, beside others, as one of n samples, and in a stream."""
    alone = choice_of(server, **ALL)["token_ids"]
    others = [GREEDY | {"max_tokens": 40}, ALL | {"seed": 5}, ALL | {"repetition_penalty": 1.7}, {**GREEDY, "top_k": 3}]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        company = [pool.submit(server.complete, **body) for body in others]
        beside = [pool.submit(choice_of, server, **ALL) for _ in range(3)]
        assert [job.result()["token_ids"] for job in beside] == [alone] * 3
        for job in company:
            job.result()
    assert choice_of(server, **ALL | {"n": 3})["token_ids"] == alone
    events = server.post("/v1/completions", ALL | {"stream": True}).body.decode().split("\n\n")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events if event and not event.endswith("[DONE]")]
    assert [token for chunk in chunks for token in chunk["choices"][0]["token_ids"]] == alone


def test_a_session_is_penalised_as_its_whole_history_is(server):
    """What the session answered before is part of the prompt, whether its KV was kept or is computed again."""
    options = {key: value for key, value in ALL.items() if key not in ("prompt", "bad_words", "stop_token_ids")}
    options |= {"max_tokens": 8, "min_tokens": 8, "temperature": 0}
    first = choice_of(server, prompt=PROMPT, session_id="penalised", **options)
    prompt = ids_of(server, PROMPT) + first["token_ids"] + ids_of(server, " and")
    second = choice_of(server, prompt=prompt, session_id="penalised", **options)
    alone = choice_of(server, prompt=prompt, **options)
    assert second["token_ids"] == alone["token_ids"]


def test_prompt_logprobs_are_those_of_an_echo(server):
    body = {"prompt": PROMPT, "max_tokens": 1, "temperature": 0}
    choice = choice_of(server, **body, prompt_logprobs=3, echo=True, logprobs=1, return_token_ids=True)
    entries = choice["prompt_logprobs"]
    echoed = choice["logprobs"]["token_logprobs"]
    assert entries[0] is None
    assert len(entries) == len(choice["prompt_token_ids"]) == len(echoed) - 1
    for token, value, entry in zip(choice["prompt_token_ids"][1:], echoed[1:], entries[1:]):
        own = entry[str(token)]
        assert own["logprob"] == value
        assert isinstance(own["decoded_token"], str)
        assert len(entry) in (3, 4)
        ranks = sorted(candidate["rank"] for candidate in entry.values())
        assert ranks[:3] == [1, 2, 3]
        by_rank = sorted(entry.values(), key=lambda candidate: candidate["rank"])
        assert [c["logprob"] for c in by_rank] == sorted((c["logprob"] for c in by_rank), reverse=True)
    assert choice_of(server, **body)["prompt_logprobs"] is None
    only = choice_of(server, **body, prompt_logprobs=0)["prompt_logprobs"]
    assert all(len(entry) == 1 for entry in only[1:])


def test_tokens_may_be_reported_as_ids(server):
    body = GREEDY | {"max_tokens": 4, "logprobs": 2, "return_tokens_as_token_ids": True}
    choice = choice_of(server, **body)
    assert choice["logprobs"]["tokens"] == [f"token_id:{token}" for token in choice["token_ids"]]
    assert all(key.startswith("token_id:") for top in choice["logprobs"]["top_logprobs"] for key in top)
    assert choice["text"] == choice_of(server, **GREEDY | {"max_tokens": 4})["text"]
