"""The attacks of isolation.py on the model's time and memory: what a tenant with a key and good requests takes from another one.
Python's standard library only."""

import asyncio

from isolation_attack import CONTEXT, H2O, REFUSED_S, Attack, text
from isolation_http import Connection, Numbered, get, post

EOS = 2  # of the default model
CANCELLED_AFTER_S = 0.2


def completions(words, max_tokens, **members):
    """Prompts that differ from their first token on."""

    async def loop(attacker, number):
        prompt = f"{Numbered.NUMBER} {text(number, words)}"
        body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0, **members}
        request = Numbered(body, attacker.key)
        await attacker.loop(lambda: request.at(next(attacker.numbers)))

    return loop


async def wide(attacker, number):
    """A short body that asks for many answers."""
    body = {"prompt": ["a"] * 64, "n": 2, "max_tokens": 256, "temperature": 1, "ignore_eos": True}
    request = post(body, attacker.key)
    await attacker.loop(lambda: request)


def sessions(words, further_words, max_tokens, kv):
    """Turn after turn of one session; begins anew when the server has forgotten it."""

    async def loop(attacker, number):
        body = {"session_id": f"session-{number}", "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0, "kv": kv}
        first = post({**body, "prompt": text(number, words)}, attacker.key)
        further = post({**body, "session_append": True, "prompt": " " + text(-number - 1, further_words)}, attacker.key)
        going = False

        def note(status):
            nonlocal going
            going = status == 200

        await attacker.loop(lambda: further if going else first, on_status=note)

    return loop


async def retries(attacker, number):
    """Far more clients than the tenant may have requests open; a refused one asks again at once, whatever Retry-After says.
    "At once" is 50 ms: more, and the attacker's own processor time would be the attack."""
    body = {"prompt": f"{Numbered.NUMBER} {text(number, 100)}", "max_tokens": 32, "ignore_eos": True, "kv": H2O}
    request = Numbered(body, attacker.key)
    await attacker.loop(lambda: request.at(next(attacker.numbers)), pause_s=0.05)


async def cancelled(attacker, number):
    """Two thirds keep a line of small requests; a third asks for long prompts and leaves while they are computed."""
    if number % 3 > 0:
        await completions(8, 64, kv=H2O)(attacker, number)
    body = {"prompt": f"{Numbered.NUMBER} {text(number, 7500)}", "max_tokens": 8, "kv": {**H2O, "prefill": "budgeted"}}
    request = Numbered(body, attacker.key)
    while True:
        try:
            connection = await Connection.open(attacker.address)
            answer = connection.ask(request.at(next(attacker.numbers)))
            await asyncio.wait([answer], timeout=CANCELLED_AFTER_S)
            if answer.done():
                attacker.met[answer.result()] += 1
                await asyncio.sleep(REFUSED_S)
            else:
                attacker.met["left"] += 1
            connection.close()
            await asyncio.wait([answer])
            answer.exception()
        except OSError:
            attacker.met["closed"] += 1
            await asyncio.sleep(CANCELLED_AFTER_S)


async def maps(attacker, number):
    """Asks again and again which tokens a session of its own holds."""
    session = f"map-{number}"
    body = {"session_id": session, "prompt": text(number, 480), "max_tokens": 1, "kv": {"policy": "h2o", "budget": 512}}
    connection = await Connection.open(attacker.address)
    await connection.ask(post(body, attacker.key))
    connection.close()
    await attacker.loop(lambda: get(f"/v1/sessions/{session}/kv", attacker.key))


# Why somebody may wait beside these, where nobody has a floor.
ROWS_HELD = (
    "what was admitted is not stopped (docs/decisions/0001-no-preemption.md), and without floors one tenant may be admitted to every "
    "row. The others come first as soon as one of its answers ends. A floor keeps a part of the rows; `sequences_max` and "
    "`max_tokens_max` bound what one tenant has in progress, and for how long"
)
# Its steps are as long as they may be: between two tokens 136 ms where a flood makes it 69.
LONG_STEPS = (
    "the victim's slowest requests are its own bursts, four within half a second; each waits for a few steps, and those that have a "
    "chunk of a full context are longer than others"
)
# As many choices of a full context as fit half of the pool that isolation.py gives the server.
HALF_THE_POOL = 4

ATTACKS = {
    "flood": Attack("256 clients, 20 prompt tokens, 16 generated, again and again", 256, completions(8, 16, kv=H2O)),
    "max-prompts": Attack("16 clients, 7,900 prompt tokens, `full`", 16, completions(7500, 1), bound=LONG_STEPS),
    "max-outputs": Attack(
        "256 clients, 8,000 tokens each, streamed, budget 256: a full batch that never ends",
        256, completions(8, 8000, kv=H2O, stream=True), bound=ROWS_HELD),
    "endless-streams": Attack(
        "256 streams of 1,000,000 tokens at a budget of 16, rolling positions: all rows, for days",
        256, completions(8, 1_000_000, stream=True, kv={"policy": "window", "budget": 16, "position": "rolling"}),
        bound=ROWS_HELD),
    "unique-prefixes": Attack(
        "64 clients, 1,000 prompt tokens never seen before, so that every block of the pool is published and pushed out",
        64, completions(950, 8)),
    "whole-pool": Attack(
        "4 requests that may take half of the pool each (4 choices of a full context), and end with their first token",
        4, completions(8, CONTEXT - 200, n=HALF_THE_POOL, temperature=1, ignore_eos=False, allowed_token_ids=[EOS])),
    "samples": Attack("16 clients, 8 answers of 64 tokens to each prompt of 1,000", 16, completions(950, 64, n=8, temperature=1)),
    "wide-requests": Attack(
        "4 clients, 64 prompts of one token and 2 answers to each in a request, 256 tokens per answer",
        4, wide, bound=ROWS_HELD),
    "cancelled-prompts": Attack(
        f"32 clients with small requests; 16 ask for 7,900 prompt tokens and leave after {1000 * CANCELLED_AFTER_S:.0f} ms", 48, cancelled),
    "sessions": Attack(
        "1,000 sessions, all of them in a turn: 30 new tokens, 16 generated, parked and restored", 1000, sessions(30, 30, 16, H2O)),
    "big-sessions": Attack(
        "2 sessions of 3,000 tokens and more, `full`; turns of 4 new tokens and one generated: 70 MB parked and restored for each",
        2, sessions(2850, 4, 1, {"policy": "full"})),
    "maps": Attack("8 clients that ask what every head holds of 500 tokens (`/v1/sessions/{id}/kv`), again and again", 8, maps),
    "retries": Attack(
        "64 clients where 8 requests may be open, that ask again 50 ms after every 429", 64, retries, {"concurrency_max": 8}),
}  # fmt: skip
