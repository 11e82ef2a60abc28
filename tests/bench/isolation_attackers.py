"""Who attacks in isolation.py. They run in a process of their own, so that what they cost their own event loop is not counted as
latency of the victim. Python's standard library only."""

import asyncio
import os
import time

import isolation_engine_attacks
import isolation_server_attacks
from isolation_attack import Attacker

ATTACKS = isolation_engine_attacks.ATTACKS | isolation_server_attacks.ATTACKS
# On a machine of its own the attacker would take nothing from the server. Not less than this: it has to keep the server busy.
NICE = 5


def describe():
    """The table of docs/isolation.md."""
    rows = [f"| {name.replace('-', ' ')} | {attack.what} |" for name, attack in ATTACKS.items()]
    return "\n".join(["| attacker | what it does |", "|---|---|", *rows])


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
