#!/usr/bin/env python3
"""kill -9 under streams whose KV is durable, over a pool that is too small for them, so that sequences step aside: what a turn says
after a restart is bit for bit what it would have said. A server with --session-durability kv and --swap-space is killed at random
moments while clients continue their sessions, and started again. Then each session is said once more, turn by turn, to a server that
has memory for all of them and is never killed: tokens and log-probabilities have to be the same.

    kill_kv_test.py [--kills N] [--clients N] [--seed N] [--sealed]

Python's standard library only."""

import http.client
import random
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from server_process import ServerProcess, made_up_ids
from shadow import KINDS, TURN, Lost, ask, key_flags, parser_of, small_model

SESSIONS_EACH = 3
SESSION_TOKENS_MAX = 300
BLOCKS = 40  # of 16 tokens; a session has up to 31
LIFE_SECONDS_MAX = 30
# An elastic budget shrinks where the pool is full; what it keeps then is no function of the turns alone.
EXACT_KINDS = [kind for kind in KINDS if "floor" not in kind]
FLAGS = ("--threads", 1, "--no-ui", "--max-model-len", 512, "--no-enable-prefix-caching")


class Turn(NamedTuple):
    prompt: list
    max_tokens: int
    said: tuple  # (tokens, their log-probabilities)
    durable: str
    resumed: bool


class Session:
    def __init__(self, name, kv):
        self.name, self.kv = name, kv
        self.turns = []  # acknowledged
        self.number = 0  # of the last of them; one that ended with an error has a number, too
        self.sent = None  # what was on its way when the server was killed: (prompt, max_tokens)

    def tokens(self):
        return sum(len(turn.prompt) + turn.max_tokens for turn in self.turns)


def said_in(events):
    tokens, likely = [], []
    for event in events:
        for choice in event["choices"]:
            tokens += choice.get("token_ids") or []
            likely += (choice.get("logprobs") or {}).get("token_logprobs", [])
    return tokens, likely


def body_of(name, kv, prompt, max_tokens, goes_on):
    return {"prompt": prompt, "max_tokens": max_tokens, "kv": kv, "session_id": name, "session_append": goes_on, "stream": True, "logprobs": 2, **TURN}


def send_turn(base, session, prompt, max_tokens):
    """Sends a turn and remembers what was said. 200; 409: the server has it already, so what it said is not known; 503: no room for
    its KV now, which is in its file."""
    session.sent = (prompt, max_tokens)
    status, answer = ask(base, body_of(session.name, session.kv, prompt, max_tokens, session.number > 0), {"X-Session-Turn": str(session.number)})
    code = answer["error"]["code"] if status != 200 else ""
    if code in ("turn_conflict", "session_kv_busy"):
        return status
    if status != 200:
        raise Lost(f"{session.name} after turn {session.number}: {status} {answer}")
    report = [event["hydrant"] for event in answer if "hydrant" in event]
    if len(report) != 1 or report[0]["turn"] <= session.number or report[0]["durable"] not in ("kv", "tokens"):
        raise Lost(f"{session.name} after turn {session.number}: its end says {report}")
    resumed = bool(report[0]["resumed"])
    if session.turns and session.turns[-1].durable == "kv" and not resumed:
        raise Lost(f"{session.name}: the KV of turn {session.number} was promised, and the next is computed from the history")
    session.turns.append(Turn(prompt, max_tokens, said_in(answer), report[0]["durable"], resumed))
    session.number, session.sent = report[0]["turn"], None
    return 200


class Client(threading.Thread):
    """Continues its sessions until the server goes."""

    def __init__(self, base, sessions, ended, seed):
        super().__init__(daemon=True)
        self.base, self.sessions, self.ended, self.random = base, sessions, ended, random.Random(seed)
        self.turns, self.problem = 0, None

    def begin_another(self, at):
        old = self.sessions[at]
        self.ended.append(old)
        self.sessions[at] = Session(f"{old.name.split('_')[0]}_{self.random.randrange(1 << 30)}", old.kv)
        return self.sessions[at]

    def run(self):
        try:
            for at, session in enumerate(self.sessions):
                if session.sent and send_turn(self.base, session, *session.sent) == 409:
                    self.begin_another(at)
            while True:
                at = self.random.randrange(len(self.sessions))
                session = self.sessions[at]
                if session.tokens() > SESSION_TOKENS_MAX:
                    session = self.begin_another(at)
                turn = session.sent or (made_up_ids(self.random.randrange(1 << 20), self.random.randrange(1, 40)), self.random.randrange(8, 150))
                if send_turn(self.base, session, *turn) == 409:
                    raise Lost(f"{session.name}: a turn that nobody sent")
                self.turns += 1
        except (OSError, http.client.HTTPException):
            pass  # killed
        except Exception as error:  # whatever it is, the main thread tells
            self.problem = error


def live(arguments, model, flags, numbers, kill, each, ended):
    """One life of a server; how many sequences stepped aside in it."""
    server = ServerProcess(arguments.binary, model, flags)
    clients = [Client(server.base, own, ended, numbers.random()) for own in each]
    for client in clients:
        client.start()
    # By turns, so that a slow machine kills among as many; and one in three lives ends before any is at its end.
    enough, end = numbers.choice((0, 20, 60)), time.monotonic() + LIFE_SECONDS_MAX
    while sum(client.turns for client in clients) < enough and all(client.is_alive() for client in clients) and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(numbers.uniform(0, 0.5))
    try:
        swaps = server.metric("hydrant_swaps_total", direction="out")
    finally:
        server.process.kill()
        server.process.wait()
    for client in clients:
        client.join(60)
        if client.problem is not None:
            raise Lost(f"kill {kill}: {client.problem!r}\n" + "".join(server.log[-5:]))
    return swaps


def replay(base, session):
    """How many turns were said again, bit for bit. It ends at a turn whose KV was not promised and not there: that history was computed
    in other steps."""
    for number, turn in enumerate(session.turns):
        if number and not turn.resumed:
            return number
        status, answer = ask(base, body_of(f"again-{session.name}", session.kv, turn.prompt, turn.max_tokens, number > 0))
        if status != 200:
            raise RuntimeError(answer)
        said = said_in(answer)
        if said != turn.said:
            raise Lost(f"{session.name} ({session.kv}), turn {number + 1} of {len(session.turns)}: {turn.said} was said, and now {said}")
    return len(session.turns)


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    numbers = random.Random(arguments.seed)
    with small_model(arguments.model) as (temp, model):
        flags = ("--session-dir", f"{temp}/sessions", "--session-dir-unsafe", *key_flags(arguments, temp), "--session-durability", "kv", "--swap-space", 1, "--num-gpu-blocks-override", BLOCKS, *FLAGS)
        each = [[Session(f"c{c}s{s}", EXACT_KINDS[(c + s) % len(EXACT_KINDS)]) for s in range(SESSIONS_EACH)] for c in range(arguments.clients)]
        ended, swaps = [], 0
        for kill in range(arguments.kills):
            swaps += live(arguments, model, flags, numbers, kill, each, ended)
        sessions = [session for session in ended + sum(each, []) if session.turns]
        turns = sum(len(session.turns) for session in sessions)
        with ServerProcess(arguments.binary, model, FLAGS) as server:
            same = sum(replay(server.base, session) for session in sessions)
        print(f"{arguments.kills} kills, {swaps:.0f} times a sequence stepped aside, {turns} turns acknowledged, {same} of them said again bit for bit")
        if swaps == 0 or same < turns / 2:
            print("too few for a test")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
