"""Eight concurrent streams produce byte for byte what each produces alone, in any order of arrival."""

import random
import threading
import time

import pytest

from hydrant_server import SLOW

pytestmark = pytest.mark.real_model

REQUESTS = [
    {"prompt": "The capital of France is", "temperature": 0},
    {"prompt": "Once upon a time, in a land far away, there lived", "temperature": 0.9, "seed": 11},
    {"prompt": [(i * 31) % 20000 + 500 for i in range(700)], "temperature": 0},
    {"prompt": "A" * 40, "temperature": 1.3, "seed": 5, "top_p": 0.9},
    {"prompt": "def fibonacci(n):\n", "temperature": 0, "kv": {"policy": "h2o", "budget": 16}},
    {"prompt": [(i * 17) % 20000 + 500 for i in range(300)], "temperature": 0, "kv": {"policy": "h2o", "budget": 64}},
    {"prompt": "List of fruits:", "temperature": 1, "seed": 1, "top_k": 40, "kv": {"policy": "window", "budget": 24}},
    {"prompt": [(i * 13) % 20000 + 500 for i in range(40)], "temperature": 0.7, "seed": 2, "min_p": 0.05,
     "kv": {"policy": "sinks", "budget": 33, "cadence": {"periodic": 16}}},
    {"prompt": [(i * 19) % 20000 + 500 for i in range(250)], "temperature": 0, "kv": {"policy": "h2o-plus", "budget": 48}},
    {"prompt": [(i * 23) % 20000 + 500 for i in range(150)], "temperature": 0.8, "seed": 3,
     "kv": {"policy": "snapkv", "budget": 40}},
]  # fmt: skip


def run_one(server, request):
    chunks = server.stream(**request, max_tokens=32, ignore_eos=True, return_token_ids=True, logprobs=1)
    choices = [chunk["choices"][0] for chunk in chunks]
    return (
        "".join(choice["text"] for choice in choices),
        sum((choice["token_ids"] for choice in choices), []),
        sum((choice["logprobs"]["token_logprobs"] for choice in choices if choice["logprobs"]), []),
    )


@pytest.fixture(scope="module")
def alone(server):
    return [run_one(server, request) for request in REQUESTS]


def together(server, order, gap_s):
    answers = [None] * len(REQUESTS)

    def ask(i):
        answers[i] = run_one(server, REQUESTS[i])

    threads = [threading.Thread(target=ask, args=(i,)) for i in order]
    for thread in threads:
        thread.start()
        time.sleep(gap_s)
    for thread in threads:
        thread.join(120 * SLOW)
    return answers


def test_alone_is_repeatable(server, alone):
    assert [run_one(server, request) for request in REQUESTS] == alone
    assert all(len(ids) == 32 for _, ids, _ in alone)


@pytest.mark.parametrize("seed", range(3))
def test_company_and_order_change_nothing(server, alone, seed):
    shuffle = random.Random(seed)
    order = list(range(len(REQUESTS)))
    shuffle.shuffle(order)
    answers = together(server, order, shuffle.choice([0, 0.02, 0.15]))  # each gap once
    for i, (answer, expected) in enumerate(zip(answers, alone)):
        assert answer == expected, f"request {i}, order {order}"


def test_chunking_changes_nothing(start_server, alone):
    """Small steps cut prompts into many chunks and mix them with other streams' tokens."""
    server = start_server(
        "--max-num-batched-tokens", 64, "--max-num-seqs", 16, "--num-gpu-blocks-override", 1024, "--max-model-len", 4096
    )  # fmt: skip
    assert [run_one(server, request) for request in REQUESTS] == alone
    assert together(server, range(len(REQUESTS)), 0) == alone


def test_scarce_blocks_change_nothing(start_server, alone):
    """A pool that holds one long sequence and little else makes the others wait, not differ."""
    server = start_server("--num-gpu-blocks-override", 60, "--max-model-len", 900)
    assert together(server, range(len(REQUESTS)), 0) == alone


def test_one_row_at_a_time_changes_nothing(start_server, alone):
    server = start_server("--max-num-seqs", 1, "--num-gpu-blocks-override", 1024, "--max-model-len", 4096)
    assert together(server, range(len(REQUESTS)), 0) == alone
