"""What the attackers of isolation.py share: what an attack is, its words, and a client that asks again and again. Python's standard
library only."""

import asyncio
import collections
import dataclasses
import itertools
import random

from isolation_http import Connection

# Common words, nearly all of them one token: the length of a text in words is about its length in tokens.
WORDS = (
    "the of and to in is was for on that with as be at by this had not are but from have they which one you were all her she "
    "there would their we him been has when who will no more if out so said what up its about into than them can only other "
    "time new some could these two may first then do any like my now over such our man me even most made after also did many"
).split()  # fmt: skip
CONTEXT = 8192
H2O = {"policy": "h2o", "budget": 256}
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
    bound: str = ""  # what bounds the victim's wait, for a row that misses its target


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
