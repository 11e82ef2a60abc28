#!/usr/bin/env python3
"""kill -9 under streams: a server with --session-dir is killed at random moments while clients continue their sessions, and started
again. Each client remembers what was acknowledged. What must hold: an acknowledged turn is there; one that was on its way is there
whole or not at all; a turn that is sent again with X-Session-Turn is not appended twice; and what follows is what a server says that
was sent the whole history and has no sessions.

kill_test.py [--kills N] [--clients N]; `./hydrant bench durable` does it a thousand times. Python's standard library only."""

import http.client
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from server_process import ServerProcess, made_up_ids
from shadow import KINDS, TURN, Lost, ask, expected, get, key_flags, parser_of, small_model, tokens_of

SESSIONS_EACH = 3
SESSION_TOKENS_MAX = 600


class Session:
    def __init__(self, name, kv):
        self.name, self.kv = name, kv
        self.turn, self.tokens = 0, []  # acknowledged
        self.sent = None  # what was on its way when the server was killed: (prompt, max_tokens)

    def next_turn(self, random_numbers):
        return made_up_ids(random_numbers.randrange(1 << 20), random_numbers.randrange(1, 12)), random_numbers.randrange(1, 9)


def send_turn(base, session, prompt, max_tokens):
    """Sends a turn; true: it was acknowledged now. False: the server has it already."""
    session.sent = (prompt, max_tokens)
    body = {"prompt": prompt, "max_tokens": max_tokens, "kv": session.kv, "session_id": session.name, "session_append": session.turn > 0, "stream": True, **TURN}
    status, answer = ask(base, body, {"X-Session-Turn": str(session.turn)})
    if status == 409 and answer["error"]["code"] == "turn_conflict":
        return int(re.search(r"is (\d+)\.", answer["error"]["message"])[1])
    if status != 200:
        raise Lost(f"{session.name} after turn {session.turn}: {status} {answer}")
    report = [event["hydrant"] for event in answer if "hydrant" in event]
    if len(report) != 1 or report[0]["durable"] != "tokens":
        raise Lost(f"{session.name}: the end of the turn says {report}")
    said = [token for event in answer for choice in event["choices"] for token in choice["token_ids"] or []]
    session.turn, session.tokens, session.sent = report[0]["turn"], session.tokens + prompt + said, None
    return 0


def check(base, session):
    """After a start: what the server has is what was acknowledged, or with it what was on its way."""
    if session.sent is not None:
        prompt, max_tokens = session.sent
        whole = session.tokens + prompt
        has = send_turn(base, session, prompt, max_tokens)
        said, sure = expected(base, whole, max_tokens, session.kv)
        if has:  # it came through, unheard: of what it says the prompt is known, and the length
            there = tokens_of(base, session.name)
            if there[: len(whole)] != whole or len(there) != len(whole) + max_tokens:
                raise Lost(f"{session.name}: turn {has}, unheard, has left {len(there)} other tokens than were sent")
            session.turn, session.tokens, session.sent = has, there, None
            if sure and there != whole + said:
                raise Lost(f"{session.name}: turn {has}, unheard, says something else")
        elif sure and session.tokens != whole + said:
            raise Lost(f"{session.name}: sent again, turn {session.turn} says something else")
    if session.turn == 0:
        return
    card = get(base, f"/v1/sessions/{session.name}")
    if card.get("tokens") != len(session.tokens):
        raise Lost(f"{session.name} has {card}, not {len(session.tokens)} tokens of turn {session.turn}")
    if tokens_of(base, session.name) != session.tokens:
        raise Lost(f"{session.name}: the tokens are not those of turn {session.turn}")
    prompt = made_up_ids(session.turn, 2)
    whole = session.tokens + prompt
    if send_turn(base, session, prompt, 3):
        raise Lost(f"{session.name}: the last turn is not {session.turn}")
    said, sure = expected(base, whole, 3, session.kv)
    if sure and session.tokens != whole + said:
        raise Lost(f"{session.name}: turn {session.turn} does not go on from what was said")


class Client(threading.Thread):
    """Continues its sessions, after having checked them, until the server goes."""

    def __init__(self, base, sessions, seed, serial):
        super().__init__(daemon=True)
        self.base, self.sessions, self.random, self.serial = base, sessions, random.Random(seed), serial
        self.turns, self.problem = 0, None

    def run(self):
        try:
            for session in self.sessions:
                check(self.base, session)
            while True:
                at = self.random.randrange(len(self.sessions))
                session = self.sessions[at]
                if len(session.tokens) > SESSION_TOKENS_MAX:
                    self.serial[0] += 1
                    session = self.sessions[at] = Session(f"{session.name.split('_')[0]}_{self.serial[0]}", session.kv)
                if send_turn(self.base, session, *session.next_turn(self.random)):
                    raise Lost(f"{session.name}: a turn that nobody sent")
                self.turns += 1
        except (OSError, http.client.HTTPException):
            pass  # killed
        except Exception as error:  # whatever it is, the main thread tells
            self.problem = error


def check_second(binary, model, flags, first):
    """One process at a time has the directory."""
    command = [str(binary), "serve", model, "--port", "0", *map(str, flags)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if second.returncode != 78 or f"is in use by process {first.pid} on host" not in second.stderr:
        raise Lost(f"a second server on the directory: {second.returncode} {second.stderr}")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    numbers = random.Random(arguments.seed)
    with small_model(arguments.model) as (temp, model):
        # A pool that is full, so that budgets that may shrink do.
        flags = ("--session-dir", f"{temp}/sessions", "--session-dir-unsafe", *key_flags(arguments, temp), "--threads", 2, "--no-ui", "--num-gpu-blocks-override", 160, "--max-model-len", 1024)
        each = [[Session(f"c{c}s{s}", KINDS[(c + s) % len(KINDS)]) for s in range(SESSIONS_EACH)] for c in range(arguments.clients)]
        serials = [[0] for _ in each]
        turns = 0
        for kill in range(arguments.kills + 1):
            server = ServerProcess(arguments.binary, model, flags)
            if kill == 0:
                check_second(arguments.binary, model, flags, server)
            clients = [Client(server.base, own, numbers.random(), serial) for own, serial in zip(each, serials)]
            for client in clients:
                client.start()
            # The checks take their time; a kill may come among them, too.
            time.sleep(numbers.uniform(0.05, 1.0) if kill < arguments.kills else 3)
            server.process.kill()
            server.process.wait()
            for client in clients:
                client.join(60)
                turns += client.turns
                if client.problem is not None:
                    kept = tempfile.mkdtemp(prefix="durable_")
                    shutil.copytree(f"{temp}/sessions", f"{kept}/sessions")
                    print(f"kill {kill}: {client.problem!r}; the directory is in {kept}\n" + "".join(server.log[-5:]))
                    return 1
            if kill % 50 == 49:
                print(f"{kill + 1} kills, {turns} turns acknowledged, none lost", flush=True)
        print(f"{arguments.kills} kills, {turns} turns acknowledged, none lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
