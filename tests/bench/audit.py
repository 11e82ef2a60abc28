#!/usr/bin/env python3
"""`./hydrant bench audit`: what users notice of `--kv-audit 1`, which looks at every answer, through the real server. Chats under eviction: a
turn, a pause in which an audit begins and is cut short by the next turn, and so on. Servers with and without it take turns, one
at a time, because one that is left alone would audit beside the other. Four parts:

alone   one chat
two     two chats, whose turns and pauses overlap
behind  short requests that come while a long chat is audited: their first token may wait for a layer of its step
drawn   one chat without pauses, on one server at 0.5: the turns that were drawn and the others. Servers started one after
        the other differ by some per cent; these do not.

Printed are, of each round, milliseconds between tokens and to the first one, how they relate, and what the audits did. It
fails where nothing was audited, or none was cut short. Python's standard library only."""

import argparse
import collections
import json
import pathlib
import random
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import spin
from many_chats import percentile
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ServerProcess, made_up_ids, wait_for

KV = {"policy": "h2o", "budget": 128}
# A chat: its first message, what is said and answered in a turn, and turns until it begins anew. An audit takes longer than a pause.
FIRST, SAID, ANSWER, TURNS = 1000, 32, 128, 6
# drawn: turns after which there has to be one that was drawn and one that was not.
TURNS_MAX = 100
TURNS_OF_CHAT = 40
# Audits begin when nobody has asked for anything for 0.25 s.
PAUSE_S = (0.35, 1.0)
# behind: tokens of the long chat and of a request, and how many of these are sent behind it.
LONG, SHORT, REQUESTS = 7000, 8, 20
# An audit has a sixteenth of it, which is room for the long chat.
MEMORY = ["--kv-cache-memory-bytes", 3 << 30]
KINDS = {"off": [], "on": ["--kv-audit", 1]}
# Tokens of an audit's step (IdleReplay).
STEP = 16
# A round in which others had more than so many processors is tried again, so often.
OTHERS_MAX, TRIES = 0.05, 4


def stream(server, **body):
    """(milliseconds to the first token, those between the others)"""
    body |= {"temperature": 0, "ignore_eos": True, "stream": True}
    began, moments = time.monotonic(), []
    with server.open("/v1/completions", body) as response:
        for line in response:
            if line.startswith(b"data: {"):
                moments.append(time.monotonic())
                if b'"error"' in line:
                    raise RuntimeError(line.decode())
    return 1e3 * (moments[0] - began), [1e3 * (b - a) for a, b in zip(moments, moments[1:])]


def audits_so_far(server):
    """{result: turns}, with those that wait; those of 0 turns are left out."""
    found = collections.Counter()
    for line in server.metrics_text().splitlines():
        if line.startswith("hydrant_kv_audits_total{"):
            found[line.split('"')[1]] += int(float(line.rsplit(" ", 1)[1]))
        elif line.startswith("hydrant_kv_audits_waiting "):
            found["waiting"] += int(float(line.rsplit(" ", 1)[1]))
    return +found


class User(threading.Thread):
    """One turn after another until `end`, the same ones whatever the server; of the first turn of a chat nothing is noted."""

    def __init__(self, server, number, round_, end):
        super().__init__(daemon=True)
        self.server, self.name, self.end = server, f"{round_}-{number}", end
        self.noise = random.Random(self.name)
        self.first, self.gaps, self.error = [], [], None

    def run(self):
        try:
            turn = 0
            while time.monotonic() < self.end or not self.gaps:
                self.turn(*divmod(turn, TURNS))
                turn += 1
        except Exception as error:
            self.error = error

    def turn(self, chat, turn):
        session = {"session_id": f"{self.name}-{chat}", "session_append": turn > 0}
        said = made_up_ids(self.noise.randrange(1 << 20), SAID if turn else FIRST)
        first, gaps = stream(self.server, **session, prompt=said, max_tokens=ANSWER, kv=KV)
        if turn:
            self.first.append(first)
            self.gaps += gaps
        time.sleep(self.noise.uniform(*PAUSE_S))


def chats(users):
    def part(server, round_, seconds):
        end = time.monotonic() + seconds
        threads = [User(server, number, round_, end) for number in range(users)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
            if thread.error is not None:
                raise thread.error
        first = [value for thread in threads for value in thread.first]
        return of_tokens([value for thread in threads for value in thread.gaps]) | of_first(first)

    return part


def of_tokens(gaps):
    return {"token": statistics.median(gaps), "token p99": percentile(gaps, 0.99)}


def of_first(first):
    return {"first": statistics.median(first), "first p90": percentile(first, 0.9), "first most": max(first)}


def behind(server, round_, _):
    """One request after the other until the audit of the long chat is over, nearly."""
    noise, first = random.Random(round_), []
    stream(server, prompt=made_up_ids(noise.randrange(1 << 20), LONG), max_tokens=ANSWER, kv=KV)
    for _ in range(REQUESTS):
        time.sleep(noise.uniform(*PAUSE_S))
        prompt = made_up_ids(noise.randrange(1 << 20), SHORT)
        first.append(stream(server, prompt=prompt, max_tokens=1, kv={"policy": "full"})[0])
    return of_first(first)


def drawn(server, round_, seconds):
    gaps, end = {"off": [], "on": []}, time.monotonic() + seconds
    turns = 0
    while time.monotonic() < end or (not all(gaps.values()) and turns < TURNS_MAX):
        if turns % TURNS_OF_CHAT == 0:  # a longer one outgrows the context
            chat = {"session_id": f"{round_}-{turns}", "kv": KV}
            stream(server, **chat, prompt=made_up_ids(round_, FIRST), max_tokens=1)
        before, turns = audits_so_far(server), turns + 1
        found = stream(server, **chat, session_append=True, prompt=made_up_ids(turns, SAID), max_tokens=ANSWER)[1]
        gaps["off" if audits_so_far(server) == before else "on"] += found
    if not all(gaps.values()):
        sys.exit("drawn: every turn was drawn, or none")
    return {kind: of_tokens(found) for kind, found in gaps.items()}


PARTS = {"alone": chats(1), "two": chats(2), "behind": behind, "drawn": drawn}


class Audits:
    """What the audits did in all rounds of a part."""

    def __init__(self):
        self.results, self.cut_short, self.step_ms = collections.Counter(), 0, []

    def look(self, server):
        """When the users have just gone: what they left is what there was no time for."""
        found = audits_so_far(server)
        self.results += found
        self.cut_short += found["waiting"] > 0
        if found["waiting"] >= 2:
            # From the end of one to the end of the next.
            (tokens, began), (more, ended) = computed_next(server), computed_next(server)
            self.step_ms.append(1e3 * (ended - began) / ((more - tokens) / STEP))

    def say(self, part):
        """Whether there were any, and whether users came meanwhile."""
        found = ", ".join(f"{count} {result}" for result, count in sorted(self.results.items())) or "none"
        print(f"{part}: audits: {found}; rounds that ended in the midst of one: {self.cut_short}", flush=True)
        if self.step_ms:
            print(f"{part}: a step of {STEP} tokens took {statistics.median(self.step_ms):.1f} ms", flush=True)
        # Without pauses there is none.
        return part == "drawn" or (self.results["done"] > 0 and self.cut_short > 0)


def computed_next(server):
    """(tokens of audits, now) when the next one is over; it is asked for seldom, for whoever asks takes a processor"""
    name = "hydrant_kv_audit_computed_tokens_total"
    before = server.metric(name)
    wait_for("an audit is over", lambda: server.metric(name) > before, timeout=120, pause=0.1)
    return server.metric(name), time.monotonic()


def quietly(arguments, part, round_, flags, look):
    """What PARTS gives, of a try in which others left the machine alone, or of the last one."""
    for left in reversed(range(TRIES)):
        spin.wait_for_quiet(arguments.patience)
        with ServerProcess(arguments.binary, arguments.model, [*MEMORY, *flags, *arguments.flags.split()]) as server:
            stream(server, prompt=made_up_ids(0, FIRST), max_tokens=ANSWER, kv={"policy": "full"})
            before = clocks(server)
            found = PARTS[part](server, round_, arguments.seconds)
            wall, busy, *ours = (b - a for a, b in zip(before, clocks(server)))
            others = (busy - sum(ours)) / wall
            if others <= OTHERS_MAX or left == 0:
                look(server)
                return found, others


def clocks(server):
    """Now, and the processor time of everybody, the server and this script, in seconds."""
    return time.monotonic(), spin.busy_s(), server.cpu_s(), time.process_time()


def measure(arguments, part, round_, audits):
    """({"off": …, "on": …}, processors that others had)"""
    if part == "drawn":
        return quietly(arguments, part, round_, ["--kv-audit", 0.5], audits.look)
    found, most = {}, 0.0
    for kind in list(KINDS) if round_ % 2 == 0 else list(KINDS)[::-1]:
        found[kind], others = quietly(arguments, part, round_, KINDS[kind], audits.look if kind == "on" else lambda _: None)
        most = max(most, others)
    return found, most


def summarize(part, rounds):
    for name in rounds[0]["off"]:
        pairs = [(each["off"][name], each["on"][name]) for each in rounds]
        ratios = [on / off for off, on in pairs]
        more, before = statistics.median(on - off for off, on in pairs), statistics.median(off for off, _ in pairs)
        print(f"{part} {name}: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}), {more:+.2f} ms to {before:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=DEFAULT_BINARY)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a round, but for behind (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for a quiet machine (default: %(default)s)")
    parser.add_argument("--flags", default="", help="more flags of all servers")
    parser.add_argument("--results", type=pathlib.Path, help="a file for what was measured")
    arguments = parser.parse_args()
    print(f"two spinning processes: {spin.gain():.2f} of one (a quiet machine: {spin.QUIET} or more)", flush=True)
    audits, measured = {part: Audits() for part in arguments.parts}, {part: [] for part in arguments.parts}
    for round_ in range(arguments.rounds):
        for part, rounds in measured.items():
            found, others = measure(arguments, part, round_, audits[part])
            rounds.append(found)
            values = "; ".join(f"{name} {value:.2f} and {found['on'][name]:.2f} ms" for name, value in found["off"].items())
            print(f"{part} {round_ + 1}: {values}; others had {others:.2f} processors", flush=True)
        if arguments.results:
            arguments.results.write_text(json.dumps(measured))
    for part, rounds in measured.items():
        summarize(part, rounds)
    missed = [part for part in audits if not audits[part].say(part)]
    if missed:
        sys.exit(f"{', '.join(missed)}: nothing was audited, or no audit was cut short")


if __name__ == "__main__":
    main()
