"""Who attacks in isolation.py, each a tenant that takes what it can get. They run in a process of their own, so that what
they cost their own event loop is not counted as latency of the victim. Python's standard library only."""

import asyncio
import collections
import dataclasses
import itertools
import os
import random
import time

from isolation_http import Connection, Numbered, post

# Common words, nearly all of them one token: the length of a text in words is about its length in tokens.
WORDS = (
    "the of and to in is was for on that with as be at by this had not are but from have they which one you were all her she "
    "there would their we him been has when who will no more if out so said what up its about into than them can only other "
    "time new some could these two may first then do any like my now over such our man me even most made after also did many"
).split()  # fmt: skip
CONTEXT = 8192
H2O = {"policy": "h2o", "budget": 256}
# On a machine of its own the attacker would take nothing from the server. Not less than this: it has to keep the server busy.
NICE = 5
# Who is refused or thrown out tries again after this long, unless trying again is the attack.
REFUSED_S = 0.1


def text(seed, words):
    generator = random.Random(seed)
    return " ".join(generator.choice(WORDS) for _ in range(words))


@dataclasses.dataclass(frozen=True)
class Attack:
    """`clients` loops that never wait for anything but an answer."""

    what: str
    clients: int
    loop: object  # async (Attacker, number of the client)
    tenant: dict = dataclasses.field(default_factory=dict)  # its limits in the tenants file


class Attacker:
    """Counts what the clients met, by status; "closed" is a connection that the server ended."""

    def __init__(self, address, key):
        self.address, self.key = address, key
        self.numbers = itertools.count()
        self.met = collections.Counter()

    async def loop(self, next_request, pause_s=0.0, on_status=None):
        """Asks next_request() again and again on one connection."""
        connection = None
        while True:
            try:
                if connection is None or connection.closed:
                    connection = await Connection.open(self.address)
                status = await connection.ask(next_request())
                self.met[status] += 1
                if on_status:
                    on_status(status)
                if pause_s or status != 200:
                    await asyncio.sleep(pause_s or REFUSED_S)
            except OSError:
                self.met["closed"] += 1
                await asyncio.sleep(REFUSED_S)


def completions(words, max_tokens, **members):
    """Prompts that differ from their first token on."""

    async def loop(attacker, number):
        prompt = f"{Numbered.NUMBER} {text(number, words)}"
        body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0, **members}
        request = Numbered(body, attacker.key)
        await attacker.loop(lambda: request.at(next(attacker.numbers)))

    return loop


async def sessions(attacker, number):
    """Turn after turn of one session; begins anew when the server has forgotten it."""
    body = {"session_id": f"session-{number}", "max_tokens": 16, "ignore_eos": True, "temperature": 0, "kv": H2O}
    first = post({**body, "prompt": text(number, 30)}, attacker.key)
    further = post({**body, "session_append": True, "prompt": " " + text(-number - 1, 30)}, attacker.key)
    going = False

    def note(status):
        nonlocal going
        going = status == 200

    await attacker.loop(lambda: further if going else first, on_status=note)


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


async def retries(attacker, number):
    """Far more clients than the tenant may have requests open; a refused one asks again at once, whatever Retry-After says.
    "At once" is 50 ms: more, and the attacker's own processor time would be the attack."""
    body = {"prompt": f"{Numbered.NUMBER} {text(number, 100)}", "max_tokens": 32, "ignore_eos": True, "kv": H2O}
    request = Numbered(body, attacker.key)
    await attacker.loop(lambda: request.at(next(attacker.numbers)), pause_s=0.05)


ATTACKS = {
    "flood": Attack("256 clients, 20 prompt tokens, 16 generated", 256, completions(8, 16, kv=H2O)),
    "max-prompts": Attack("16 clients, 7,900 prompt tokens, 1 generated", 16, completions(7500, 1)),
    "max-outputs": Attack("256 clients, 20 prompt tokens, 8,000 generated at a budget of 256",
                          256, completions(8, 8000, kv=H2O, stream=True)),  # fmt: skip
    "unique-prefixes": Attack("64 clients, 1,000 prompt tokens never seen before, 8 generated", 64, completions(950, 8)),
    "sessions": Attack("1,000 sessions, each turn 30 new tokens, 16 generated", 1000, sessions),
    "connections": Attack("4,000 connections: silent, half a header, a byte every 3 s", 4000, connections),
    "retries": Attack("64 clients where 8 requests may be open; asks again 50 ms after a 429",
                      64, retries, {"concurrency_max": 8}),  # fmt: skip
}


def attack(name, address, key, pipe):
    """The process: attacks at once, counts between two messages from `pipe`, answers the second with what it met."""
    os.nice(NICE)
    asyncio.run(_attack(ATTACKS[name], Attacker(address, key), pipe))


async def _attack(what, attacker, pipe):
    tasks = [asyncio.create_task(what.loop(attacker, number)) for number in range(what.clients)]
    messages = asyncio.Queue()
    asyncio.get_running_loop().add_reader(pipe.fileno(), lambda: messages.put_nowait(pipe.recv()))
    for _ in range(2):
        await messages.get()
        died = [repr(task.exception()) for task in tasks if task.done()]
        pipe.send((dict(attacker.met), time.process_time(), died))
    os._exit(0)  # the connections go with the process; closing thousands one by one would take longer than the run
