"""The memory proof: with a budget, blocks go back to the pool while the request still runs."""

import pytest

from hydrant_server import metric, read_events, wait_for

pytestmark = pytest.mark.real_model

PROMPT = [(i * 7919) % 40000 + 100 for i in range(2000)]
GENERATED = 500
H2O = {"policy": "h2o", "budget": 256}
# 2,500 tokens in blocks of 16.
FULL_BLOCKS = 157


def body(kv, max_tokens=GENERATED, first=0):
    prompt = [first + 50] + PROMPT[1:]  # a first token of its own, so that no two prompts share a prefix
    return {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0, "kv": kv}


def blocks_over_a_generation(server, kv):
    """Blocks in use, looked at after every event from the second one on until the end."""
    used = []
    with server.open_stream(**body(kv)) as connection:
        assert connection.read_head().status == 200
        for count, _ in enumerate(read_events(connection), start=1):
            # The first token leaves with the last prefill chunk; the cut has happened when it is seen.
            if count >= 2:
                used.append(server.gauges()["blocks used"])
    server.wait_idle()
    while used and used[-1] == 0:
        used.pop()  # the server may have ended before the reader
    return used


@pytest.mark.paced
def test_a_budget_of_256_keeps_17_blocks(server):
    before = metric(server.metrics(), "hydrant_freed_blocks_total", cause="prefill")
    used = blocks_over_a_generation(server, H2O)
    assert len(used) >= 10
    # Right after the cut 256 slots are left; the first generated token is the 257th.
    assert used[0] in (16, 17) and set(used[1:]) == {17}, used
    # 2,000 prompt tokens took 125 blocks, 256 kept ones take 16.
    assert metric(server.metrics(), "hydrant_freed_blocks_total", cause="prefill") - before == 125 - 16


@pytest.mark.paced
def test_full_grows(server):
    used = blocks_over_a_generation(server, {"policy": "full"})
    assert used == sorted(used)
    # What a sequence may still grow into can be reserved ahead, but is not in use.
    assert 125 <= used[0] <= 140 and 150 <= used[-1] <= FULL_BLOCKS, used


def test_a_pool_of_two_full_sequences_holds_ten_budgeted_ones(start_server):
    server = start_server("--num-gpu-blocks-override", 2 * FULL_BLOCKS, "--max-model-len", 4096)

    def running_once_all_generate(kv, asked, held, max_tokens=GENERATED):
        """Asks for `asked` sequences at once; returns how many run when `held` of them have a token."""
        tokens_before = metric(server.metrics(), "vllm:time_to_first_token_seconds_count")
        streams = [server.open_stream(**body(kv, max_tokens, first=i)) for i in range(asked)]
        try:
            first_tokens = lambda: metric(server.metrics(), "vllm:time_to_first_token_seconds_count") - tokens_before
            wait_for(lambda: first_tokens() >= held, server.gauges, timeout=400.0)
            gauges = server.gauges()
            assert gauges["running"] + gauges["waiting"] == asked, gauges
            return gauges["running"]
        finally:
            for stream in streams:
                stream.reset()
            server.wait_idle()

    # Enough to generate that none ends before the tenth begins, also on a machine that has other things to do.
    assert running_once_all_generate(H2O, asked=11, held=10, max_tokens=2000) >= 10
    # Asked to hold three, it holds two: the third waits until one ends.
    assert running_once_all_generate({"policy": "full"}, asked=3, held=2) == 2


def test_a_prompt_that_can_never_fit_is_refused(start_server):
    server = start_server("--num-gpu-blocks-override", 16, "--max-model-len", 4096)
    response = server.post("/v1/completions", body({"policy": "full"}))
    assert response.status == 400
    assert response.json()["error"]["code"] == "kv_capacity_exceeded"
    answer = server.complete(prompt=PROMPT[:100], max_tokens=4, kv={"policy": "h2o", "budget": 32})
    assert answer["usage"]["completion_tokens"] >= 1


def test_a_budgeted_prefill_takes_a_prompt_longer_than_the_pool(start_server):
    # 24 blocks are 384 slots; a budget of 64 needs 64 + 256 = 320 of them, however long the prompt is.
    server = start_server("--num-gpu-blocks-override", 24, "--max-model-len", 4096)
    kv = {"policy": "h2o", "budget": 64}
    assert server.post("/v1/completions", body(kv)).json()["error"]["code"] == "kv_capacity_exceeded"
    ask = body(dict(kv, prefill="budgeted"), max_tokens=20) | {"kv_report": True, "return_token_ids": True}
    answer = server.complete(**ask)
    assert answer["kv"] == {"live": 65, "budget": 64, "evicted": 2019 - 65, "blocks": 5, "session": None}
    # Cuts are where the prompt's length says, so company changes no token.
    others = [server.open_stream(**body(dict(kv, prefill="budgeted"), max_tokens=50, first=i)) for i in range(1, 4)]
    try:
        again = server.complete(**ask)
    finally:
        for stream in others:
            stream.reset()
    assert again["choices"][0]["token_ids"] == answer["choices"][0]["token_ids"]


def test_the_server_default_policy_applies_and_can_be_overruled(start_server):
    server = start_server("--kv-policy", "h2o", "--kv-budget", 32, "--num-gpu-blocks-override", 512)
    ask = {"prompt": PROMPT[:100], "max_tokens": 8, "ignore_eos": True, "kv_report": True}
    assert server.complete(**ask)["kv"]["budget"] == 32
    assert server.complete(**ask, kv={"policy": "full"})["kv"]["budget"] is None
    assert server.complete(**ask, kv={"budget": 48})["kv"]["budget"] == 48
