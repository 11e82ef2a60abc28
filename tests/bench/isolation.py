#!/usr/bin/env python3
"""`./hydrant bench isolation`: what a tenant feels of another one that attacks, through the real server on the default model.
Writes the table of docs/isolation.md and the picture docs/pictures/isolation.svg.

I = p99(victim beside an attacker) / p99(victim alone on its weighted share), for the time to the first token (TTFT) and the
time between two tokens (ITL). Two tenants of weight 1; "its share" is a server with half of everything: threads, blocks,
sequences, and nobody else there.

The victim is a small chat service: people who ask independently of each other (Poisson, two requests a second), a system
prompt they share, 100 to 300 prompt tokens, 40 to 60 streamed ones, h2o with a budget of 256, a connection per request. An
open loop: what is asked and when is the same list in every run, drawn from a fixed seed, and TTFT counts from the moment a
request was due. With a closed loop a slow server would be asked less, and its worst moments would hardly be measured.

The attackers are in isolation_attackers.py. Each is measured twice: as a tenant of a server as it is by default, where a sixteenth of
the pool is kept for each of two tenants, and where each tenant's floor is half of the pool, its share: with the whole pool given to
floors memory is split as the weights split the work, and a floor of blocks also keeps its part of the sequences in progress
(scheduler/fairness/tenant.h). Runs take turns,
round by round, so that a slow spell of the machine meets all of them; the figures are of all rounds together, with a 90 % interval
from resampling the requests. Before each run two processes spin: where they do not get 1.8 times what one gets the machine has other
work, the figures mean little, and the docs are left alone. An hour. Python's standard library only."""

import argparse
import asyncio
import contextlib
import datetime
import hashlib
import json
import math
import multiprocessing
import os
import pathlib
import random
import sys
import tempfile
import textwrap
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import isolation_attackers
import isolation_picture
import spin
from isolation_attack import H2O, text
from isolation_http import Connection, post
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ROOT, ServerProcess, processor_name

TTFT_TARGET, ITL_TARGET = 2.0, 1.25
# 1.7 GB of bf16: each half holds four prompts of a full context, which is little enough to be fought over.
BLOCKS = 4096
SEQUENCES = 256
# Requests a second: three streams at a time or so, and two fifths of what half of two slow processors can compute. With fewer,
# prompts would hold up streams of the victim's own so rarely that the p99 of ITL, alone, is now one of these waits, now none.
RATE = 2.0
WARM_UP_S = 6  # the attacker's head start: until its queue is full and the pacer has seen its steps
DRAIN_S = 60
ALONE, NOBODY = "alone", "nobody"
KEYS = {"victim": "victim-key", "attacker": "attacker-key"}
ADMIN_KEY = "admin-key"
RESAMPLES = 500
FLOORS = ", floors"  # ends the names of arms whose tenants have floors
PAGE = ROOT / "docs" / "isolation.md"


class Server(ServerProcess):
    """The real server with a tenants file, and the operator's view of it."""

    def __init__(self, arguments, tenants, threads, blocks, sequences):
        with tempfile.TemporaryDirectory(prefix="hydrant-isolation-") as directory:
            path = pathlib.Path(directory) / "tenants.json"
            path.touch(mode=0o600)
            path.write_text(json.dumps({"tenants": tenants}))
            flags = ["--threads", threads, "--num-gpu-blocks-override", blocks, "--max-num-seqs", sequences]
            flags += ["--tenants", path, "--admin-port", 0, "--admin-api-key", ADMIN_KEY, *arguments.server_flag]
            super().__init__(arguments.binary, arguments.model, flags)
        self.admin = next(line.split()[-1] for line in self.log if "admin listener on" in line)
        host, port = self.base.removeprefix("http://").split(":")
        self.address = (host, int(port))

    def tenants(self):
        request = urllib.request.Request(self.admin + "/admin/tenants", headers={"Authorization": f"Bearer {ADMIN_KEY}"})
        with urllib.request.urlopen(request, timeout=60) as response:
            return {tenant["name"]: tenant for tenant in json.load(response)["tenants"]}


def tenant(name, floor_blocks=None, limits=None):
    digest = hashlib.sha256(KEYS[name].encode()).hexdigest()
    floor = {} if floor_blocks is None else {"kv": {"floor_blocks": floor_blocks}}
    return {"name": name, "api_keys_sha256": [digest], "weight": 1} | floor | (limits or {})


def attack_of(arm):
    return isolation_attackers.ATTACKS.get(arm.removesuffix(FLOORS))


def start_server(arguments, arm):
    share = 2
    if arm == ALONE:
        return Server(arguments, [tenant("victim")], arguments.threads // share, BLOCKS // share, SEQUENCES // share)
    attack, floor = attack_of(arm), BLOCKS // share if arm.endswith(FLOORS) else None
    both = [tenant("victim", floor), tenant("attacker", floor, attack and attack.tenant)]
    return Server(arguments, both, arguments.threads, BLOCKS, SEQUENCES)


# ---- the victim ----


def schedule(round_, seconds, rate):
    """[(seconds from the begin, request)], the same for every run of a round."""
    generator = random.Random(f"victim {round_}")
    system = "You answer briefly, in the words of the people who ask. " + text("system", 70)
    due, requests = 0.0, []
    while True:
        due += generator.expovariate(rate)
        if due >= seconds:
            return requests
        question = text(generator.random(), generator.randint(16, 216))
        body = {
            "prompt": f"{system}\n{question}", "max_tokens": generator.randint(40, 60), "stream": True, "ignore_eos": True,
            "temperature": 0.8, "kv": H2O,
        }  # fmt: skip
        requests.append((due, post(body, KEYS["victim"], keep_alive=False)))


class Stream:
    """When the tokens of one answer came. An event is a token; it is split over two reads at most now and then."""

    def __init__(self):
        self.times, self.rest = [], b""

    def on_body(self, data):
        now = time.perf_counter()
        data = self.rest + data
        self.times += [now] * data.count(b'"choices":[{"index"')
        self.rest = data[-18:]  # shorter by one than what is counted


async def ask(address, due, request):
    """{"ttft": …, "gaps": […]} in seconds; {} when there was no whole answer."""
    await asyncio.sleep(max(0, due - time.perf_counter()))
    stream, connection = Stream(), None
    try:
        connection = await Connection.open(address)
        connection.on_body = stream.on_body
        status = await asyncio.wait_for(connection.ask(request), DRAIN_S)
    except (OSError, asyncio.TimeoutError):
        status = None
    finally:
        if connection:
            connection.close()
    if status != 200 or not stream.times:
        return {}
    gaps = [after - before for before, after in zip(stream.times, stream.times[1:])]
    return {"ttft": stream.times[0] - due, "gaps": gaps}


async def victim(address, requests):
    begin = time.perf_counter()
    return await asyncio.gather(*(ask(address, begin + due, request) for due, request in requests))


# ---- a run ----


@contextlib.contextmanager
def attacker(server, arm):
    """Yields a function that says what the attacker met so far: (counts, processor seconds, clients that died)."""
    if arm in (ALONE, NOBODY):
        yield lambda: ({}, 0.0, [])
        return
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    arguments = (arm.removesuffix(FLOORS), server.address, KEYS["attacker"], theirs)
    process = context.Process(target=isolation_attackers.attack, args=arguments, daemon=True)
    process.start()

    def met():
        ours.send("how far?")
        if not ours.poll(DRAIN_S):
            raise RuntimeError(f"the attacker {arm} does not answer")
        return ours.recv()

    try:
        yield met
    finally:
        process.terminate()
        process.join()


def reading(server, met):
    counts, attacker_cpu_s, died = met()
    if died:
        raise RuntimeError(f"{len(died)} of the attacker's clients ended: {died[0]}")
    return {
        "at": time.perf_counter(), "met": counts, "attacker_cpu_s": attacker_cpu_s, "victim_cpu_s": time.process_time(),
        "server_cpu_s": server.cpu_s(), "tenants": server.tenants(),
    }  # fmt: skip


def run(arguments, round_, arm):
    """One arm of one round: {"requests": [...], and what it took per second}."""
    requests, spun = schedule(round_, arguments.seconds, arguments.rate), spin.wait_for_quiet(arguments.patience)
    with start_server(arguments, arm) as server:
        # The first steps of a server are nobody's measure, and the system prompt is known to it for long.
        asyncio.run(victim(server.address, [(0, request) for _, request in schedule("warm-up", 10, RATE)[:4]]))
        with attacker(server, arm) as met:
            time.sleep(WARM_UP_S if attack_of(arm) else 0)
            before = reading(server, met)
            answers = asyncio.run(victim(server.address, requests))
            after = reading(server, met)
    seconds, spun = after["at"] - before["at"], min(spun, spin.gain())

    def rate(key):
        return (after[key] - before[key]) / seconds

    def tokens(name, key):
        return (after["tenants"][name][key] - before["tenants"][name][key]) / seconds if name in after["tenants"] else 0

    return {
        "requests": answers, "load": os.getloadavg()[0], "spun": spun,
        "met": {str(key): count - before["met"].get(key, 0) for key, count in after["met"].items()},
        "seconds": seconds, "server_cpu": rate("server_cpu_s"),
        "client_cpu": rate("attacker_cpu_s") + rate("victim_cpu_s"),
        "tokens": {name: [tokens(name, "prompt_tokens"), tokens(name, "generated_tokens")] for name in KEYS},
    }  # fmt: skip


# ---- the figures ----


def quantile(values, share):
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ttfts(requests):
    """One that was not answered waited for ever."""
    return [request.get("ttft", math.inf) for request in requests]


def gaps(requests):
    return [gap for request in requests for gap in request.get("gaps", [math.inf])]


def ratio(values_of, requests, alone):
    """(I, low, high): the ratio of the p99s, and what it is in the middle 90 % of resamplings of both."""
    generator = random.Random(0)

    def of(these, those):
        return quantile(values_of(these), 0.99) / quantile(values_of(those), 0.99)

    again = []
    for _ in range(RESAMPLES):
        again.append(of(generator.choices(requests, k=len(requests)), generator.choices(alone, k=len(alone))))
    return of(requests, alone), quantile(again, 0.05), quantile(again, 0.95)


def summarise(runs, arm):
    """All rounds of an arm together."""
    mine = [run for name, run in runs if name == arm]
    requests = [request for run in mine for request in run["requests"]]
    alone = [request for name, run in runs if name == ALONE for request in run["requests"]]

    def mean(values):
        return sum(values) / len(mine)

    met = {}
    for one in mine:
        for key, count in one["met"].items():
            met[key] = met.get(key, 0) + count
    return {
        "arm": arm, "requests": len(requests), "failed": sum(not request for request in requests),
        "ttft": [quantile(ttfts(requests), share) for share in (0.5, 0.99)],
        "itl": [quantile(gaps(requests), share) for share in (0.5, 0.99)],
        "ttft_ratio": ratio(ttfts, requests, alone), "itl_ratio": ratio(gaps, requests, alone), "met": met,
        "seconds": sum(one["seconds"] for one in mine),
        "server_cpu": mean(one["server_cpu"] for one in mine), "client_cpu": mean(one["client_cpu"] for one in mine),
        "tokens": {name: [mean(one["tokens"][name][i] for one in mine) for i in (0, 1)] for name in KEYS},
    }  # fmt: skip


def met_text(summary):
    """What the attacker's clients met, per second."""
    names = {"200": "served", "429": "refused"} | {key: f"told {key}" for key in summary["met"] if key.isdigit() and key not in ("200", "429")}
    parts = [f"{count / summary['seconds']:.1f} {names.get(key, key)}" for key, count in sorted(summary["met"].items()) if count]
    return ", ".join(parts) or "–"


def ratio_text(figure, target):
    value, low, high = figure
    mark = "**" if value > target else ""
    return f"{mark}{value:.2f}{mark} ({low:.2f}–{high:.2f})".replace("inf", "∞")


def misses(row):
    return row["ttft_ratio"][0] > TTFT_TARGET or row["itl_ratio"][0] > ITL_TARGET or row["failed"] > 0


def reasons(summaries):
    """What bounds the victim's wait in the rows that miss a target. Several may share a reason."""
    rows = {}
    for row in summaries:
        attack = attack_of(row["arm"])
        if attack and misses(row):
            rows.setdefault(attack.bound or "not known: a defect, or chance", []).append(label(row["arm"]))
    lines = ["", "Why a row misses:", ""]
    for bound, names in rows.items():
        lines += textwrap.wrap(f"- *{'*, *'.join(names)}*: {bound}.", 116, subsequent_indent="  ")
    return lines if rows else []


def table(summaries, arguments, runs):
    first = summaries[0]
    loads, spun = [one["load"] for one in runs], min(one["spun"] for one in runs)
    lines = [
        *textwrap.wrap(
            f"{datetime.date.today():%d %B %Y}, {machine()}; {arguments.rounds} round{'s' * (arguments.rounds > 1)} of "
            f"{arguments.seconds:.0f} s, {first['requests']} requests of the victim per row; load average at most {max(loads):.1f}, two spinning processes got at least {spun:.2f} times "
            f"what one gets. Targets: TTFT {TTFT_TARGET}, ITL {ITL_TARGET}; "
            "what is above is bold. Milliseconds; in parentheses the 90 % interval.", 116),
        "",
        "| beside | TTFT p50 | p99 | I | ITL p50 | p99 | I | not answered |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in summaries:
        ttft, itl = ([f"{1e3 * value:.0f}".replace("inf", "∞") for value in row[key]] for key in ("ttft", "itl"))
        figures = ["1", "1"] if row["arm"] == ALONE else [
            ratio_text(row["ttft_ratio"], TTFT_TARGET), ratio_text(row["itl_ratio"], ITL_TARGET)
        ]  # fmt: skip
        lines.append(f"| {label(row['arm'])} | {ttft[0]} | {ttft[1]} | {figures[0]} | {itl[0]} | {itl[1]} | {figures[1]} | {row['failed']} |")
    lines += [
        "", "What the attacker got, per second, and what everything took, in processors:", "",
        "| attacker | answers | its tokens, prompt + generated | the victim's | server | both clients |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in summaries:
        tokens = ["{:.0f} + {:.0f}".format(*row["tokens"][name]) for name in ("attacker", "victim")]
        lines.append(
            f"| {label(row['arm'])} | {met_text(row)} | {tokens[0]} | {tokens[1]} | {row['server_cpu']:.2f} | {row['client_cpu']:.2f} |"
        )
    return "\n".join(lines + reasons(summaries))


def label(arm):
    names = {ALONE: "nobody, on half of the machine", NOBODY: "nobody, on all of it"}
    return names.get(arm, arm.removesuffix(FLOORS).replace("-", " "))


def machine():
    name = processor_name()
    return f"{os.cpu_count()} processors" + (f" ({name})" if name else "")


def replace(page, part, text):
    """What stands between the comments that name the part."""
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


def publish(summaries, text, end):
    if end == FLOORS:
        PAGE.write_text(replace(PAGE.read_text(), "floors", text))
        return
    picture = "![The victim's p99 beside each attacker, relative to its p99 alone on its share](pictures/isolation.svg)"
    PAGE.write_text(replace(PAGE.read_text(), "measured", f"{picture}\n\n{text}"))
    (ROOT / "docs" / "pictures" / "isolation.svg").write_text(isolation_picture.draw(
        [(label(row["arm"]), row["ttft_ratio"], row["itl_ratio"]) for row in summaries if row["arm"] != ALONE],
        TTFT_TARGET, ITL_TARGET,
    ))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=DEFAULT_BINARY)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--attackers", nargs="*", choices=[*isolation_attackers.ATTACKS], default=[*isolation_attackers.ATTACKS])
    parser.add_argument("--seconds", type=float, default=60, help="of a run")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--floors", choices=["off", "on", "both"], default="both", help="half of the pool each, or the server's default")
    parser.add_argument("--patience", type=float, default=0, help="seconds to wait for a quiet moment before each run")
    parser.add_argument("--describe", action="store_true", help="write the table of attackers into docs/isolation.md, and no more")
    parser.add_argument("--rate", type=float, default=RATE, help="of the victim, requests per second; well below its share")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the whole machine")
    parser.add_argument("--results", type=pathlib.Path, help="JSON file with runs made before; only the missing ones are made")
    parser.add_argument("--server-flag", action="append", default=[], help="for hydrantd, e.g. --server-flag=--max-prefill-tokens=128")
    parser.add_argument("--measure-only", action="store_true", help="leave docs/ alone")
    arguments = parser.parse_args()
    if arguments.describe:
        PAGE.write_text(replace(PAGE.read_text(), "attackers", isolation_attackers.describe()))
        return 0
    if arguments.threads < 2:
        parser.error("half of one thread is none: two processors are needed")

    def name(arm, round_):
        return f"{arm}, round {round_}, {arguments.seconds:g} s, rate {arguments.rate:g}"

    ends = {"off": [""], "on": [FLOORS], "both": ["", FLOORS]}[arguments.floors]
    arms = [ALONE, NOBODY, *(name + end for name in arguments.attackers for end in ends)]
    kept = json.loads(arguments.results.read_text()) if arguments.results and arguments.results.exists() else {}
    for round_ in range(arguments.rounds):
        for arm in arms:
            key = name(arm, round_)
            if key not in kept:
                kept[key] = run(arguments, round_, arm)
                if arguments.results:
                    arguments.results.write_text(json.dumps(kept))
            one = kept[key]
            answered = [request for request in one["requests"] if request]
            print(f"{round_} {arm:26} {len(answered)} of {len(one['requests'])} answered, load {one['load']:.1f}, spun {one['spun']:.2f}", flush=True)
    runs = [(arm, kept[name(arm, round_)]) for round_ in range(arguments.rounds) for arm in arms]
    if any(not request for arm, one in runs if arm == ALONE for request in one["requests"]):
        raise RuntimeError("the victim was not answered even alone: there is nothing to compare with")
    is_quiet = min(one["spun"] for _, one in runs) >= spin.QUIET
    missed = False
    for end in ends:
        summaries = [summarise(runs, arm) for arm in (ALONE, NOBODY, *(name + end for name in arguments.attackers))]
        text = table(summaries, arguments, [one for _, one in runs])
        print(f"\n{'floors of half of the pool' if end == FLOORS else 'by default'}\n\n{text}")
        if is_quiet and not arguments.measure_only:
            publish(summaries, text, end)
        missed |= any(misses(row) for row in summaries)
    if not is_quiet:
        print(f"\nThe machine was no place to time: two spinning processes got less than {spin.QUIET} times what one gets.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
