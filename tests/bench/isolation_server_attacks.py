"""The attacks of isolation.py on threads, connections and memory for bodies and answers: some by a tenant with a key, some without.
Each once stopped or slowed everybody (docs/design/hostile-clients.md). Python's standard library only."""

import asyncio
import socket

from isolation_attack import REFUSED_S, Attack, text
from isolation_http import Connection, Pipeline, get, post

BODY_BYTES = 8_000_000
TEXT_BYTES = 1_000_000
TRICKLE_S = 1.0
HELD_S = 20.0  # until a client that does not read its answer tries another one


async def connections(attacker, number):
    """By turns: says nothing; sends half a header and no more; sends a header byte by byte."""
    begun = post({"prompt": "x"}, attacker.key).split(b"\r\n\r\n")[0][: 40 + number % 40]
    await asyncio.sleep(number / 1000)  # a thousand new ones a second, not all at once
    while True:
        try:
            connection = await Connection.open(attacker.address)
            attacker.met["opened"] += 1
            if number % 3 > 0:
                connection.transport.write(begun)
            while not connection.closed:
                await asyncio.sleep(3)
                if number % 3 == 2:
                    connection.transport.write(b"x")
            attacker.met["closed"] += 1
        except OSError:
            attacker.met["refused"] += 1
            await asyncio.sleep(REFUSED_S)


async def reconnects(attacker, number):
    """Opens a connection and drops it, as fast as it goes."""
    while True:
        try:
            connection = await Connection.open(attacker.address)
            attacker.met["opened"] += 1
            connection.close()
        except OSError:
            attacker.met["refused"] += 1
            await asyncio.sleep(REFUSED_S)


async def pipelines(attacker, number):
    """Requests without a key, one behind the other, without waiting for answers; half of them ask for what needs one."""
    requests = (get("/health") if number % 2 == 0 else post({"prompt": "x"}, "wrong")) * 200
    while True:
        try:
            pipeline = await Pipeline.open(attacker.address, attacker.met)
            await pipeline.send(requests)
            attacker.met["closed"] += 1
        except OSError:
            attacker.met["refused"] += 1
        await asyncio.sleep(REFUSED_S)


async def wrong_keys(attacker, number):
    """Asks with keys that nobody has."""
    await attacker.loop(lambda: post({"prompt": "x"}, f"wrong-{next(attacker.numbers)}"), pause_s=0.01)


async def slow_bodies(attacker, number):
    """Announces a large body and sends a byte of it now and then."""
    head = post({"prompt": "x"}, attacker.key, content_length=BODY_BYTES).split(b"\r\n\r\n")[0] + b"\r\n\r\n{"
    while True:
        try:
            connection = await Connection.open(attacker.address)
            answer = connection.ask(head)
            while not answer.done():
                await asyncio.wait([answer], timeout=TRICKLE_S)
                connection.transport.write(b" ")
            attacker.met[answer.result()] += 1
            connection.close()
        except OSError:
            attacker.met["closed"] += 1
        await asyncio.sleep(REFUSED_S)


def large_bodies(character):
    """Prompts of eight million times a character: none fits the context."""

    async def loop(attacker, number):
        request = post({"prompt": character * BODY_BYTES}, attacker.key)
        await attacker.loop(lambda: request)

    return loop


async def tokenize(attacker, number):
    request = post({"prompt": text(number, 200_000)[: TEXT_BYTES // 2] + " " * (TEXT_BYTES // 2)}, attacker.key, path="/tokenize")
    await attacker.loop(lambda: request)


async def unread(attacker, number):
    """Asks for answers of megabytes and does not read them."""
    body = {"prompt": text(number, 200_000)[: TEXT_BYTES - 100], "return_token_strs": True}
    request = post(body, attacker.key, path="/tokenize")
    while True:
        try:
            connection = await Connection.open(attacker.address)
            connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.transport.pause_reading()
            connection.transport.write(request)
            attacker.met["unread"] += 1
            await asyncio.sleep(HELD_S)
            connection.close()
        except OSError:
            attacker.met["refused"] += 1
            await asyncio.sleep(REFUSED_S)


async def long_chats(attacker, number):
    """Conversations whose template is rendered to more than the context has."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": f"{number}"} for i in range(3001)]
    request = post({"messages": messages, "max_tokens": 1}, attacker.key, path="/v1/chat/completions")
    await attacker.loop(lambda: request)


ATTACKS = {
    "pipelines": Attack("4 connections without a key that send request after request and wait for no answer", 4, pipelines),
    "connections": Attack(
        "4,000: a third says nothing, a third stops in the middle of the header, a third sends a byte every 3 s; each comes back when "
        "it is closed", 4000, connections),
    "reconnects": Attack("64 clients that connect and go away, as fast as it goes", 64, reconnects),
    "wrong-keys": Attack("32 clients with keys that nobody has, 10 ms after every 401 or 429", 32, wrong_keys),
    "slow-bodies": Attack("64 bodies of 8 MB are announced, and come at a byte a second", 64, slow_bodies),
    "large-bodies": Attack("4 clients, prompts of 8,000,000 spaces: 400, since no context has room for that", 4, large_bodies(" ")),
    "large-texts": Attack("2 clients, prompts of 8,000,000 apostrophes: a slow text for the tokenizer, as large", 2, large_bodies("'")),
    "tokenize": Attack("8 clients, `/tokenize` of 1 MB, half of it spaces", 8, tokenize),
    "unread-answers": Attack(f"40 `/tokenize` of 1 MB whose answers nobody reads for {HELD_S:.0f} s", 40, unread),
    "long-chats": Attack("16 clients, chats of 3,001 messages: the template renders them, the context has no room", 16, long_chats),
}  # fmt: skip
