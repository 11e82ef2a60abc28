#!/usr/bin/env python3
"""`./hydrant bench kv_recall`: what `"recall": "turn"` gives and costs, through the real server. Prints five tables:

late   four facts in a first message of 1,024 to 7,000 tokens, asked for in turns 2, 5 and 10 of a chat: exact answers and
       the log-probability of the true one, without eviction, with recall and without. Intervals (95 %) by resampling contexts.
flow   perplexity of answers to turns that ask nothing, with recall relative to without.
first  time to the first token of a turn of 32 new tokens, with recall, without, and from nothing; bytes parked a session.
second the second turns of MT-Bench, forced to say what is said with nothing evicted: how often each token is the likeliest, and
       its log-probability. Of ../shared/data/bench.
speed  tokens a second of 16 chats together, each of which answers behind a message of 2,048 tokens.

A context takes minutes, so say for how long: no measurement begins after --minutes. --results FILE keeps what was measured,
and a second run goes on from there. Python's standard library only.

    tests/bench/kv_recall.py --contexts 0:3 --lengths 1024 2048 --results FILE --server-flag=--threads=1"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import random
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import late_chats
import late_picture
import perplexity
import type_quality
from kv_sentences import FORMS
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ROOT, ServerProcess, made_up_ids, wait_for

PARTS = ["late", "flow", "first", "second", "speed"]
RECALL = ", recall"
POLICIES = ["auto" + RECALL, "auto", "h2o-plus"]
LENGTHS = [1024, 2048, 4096, 7000]
IN_FLIGHT = 16
RESAMPLES = 2000
# flow: turns after the first message, tokens said in each, and tokens of its answer.
FLOW_FIRST, FLOW_TURNS, FLOW_SAID, FLOW_ANSWER = 1024, 2, 32, 64
# first: new tokens of a turn, and turns measured each way; from nothing every COLD-th of them.
NEW, TURNS, COLD = 32, 9, 8
# second: tokens of the answers at most.
ANSWERS = (320, 128)
# speed: chats, tokens said to each and answered by it, and for how many seconds tokens are counted.
CHATS, SAID, ANSWERED, COUNTED_S = 16, 2048, 768, 4.0
# A session of 8,192 tokens has 184 MB of this model, and 16 of them are in flight.
MEMORY = ["--kv-cache-memory-bytes", 3 << 30, "--session-memory-bytes", 3 << 30]


def settings(policies, budgets):
    """{(name, budget): kv}. Of a name with RECALL at its end sessions recall."""
    found = {("full", 0): {"policy": "full"}}
    for budget in budgets:
        for name in policies:
            recall = {"recall": "turn"} if name.endswith(RECALL) else {}
            found[name, budget] = {"policy": name.removesuffix(RECALL), "budget": budget, **recall}
    return found


class Run:
    """One model's measurements: where they are kept, and until when a new one begins."""

    def __init__(self, cells, save, model, until):
        self.cells, self.save, self.model, self.until = cells, save, model, until

    def measure(self, key, of):
        """Keeps what `of()` says under this key, unless it is known. False: it is late."""
        key = f"{self.model}/{key}"
        if key in self.cells:
            return True
        if time.monotonic() > self.until:
            return False
        began = time.monotonic()
        self.cells[key] = of()
        self.save()
        print(f"{time.strftime('%H:%M:%S')} {key} {time.monotonic() - began:.0f} s", flush=True)
        return True


def late(server, run, pool, arguments):
    shape = late_chats.template(server)
    begin, end = map(int, arguments.contexts.split(":"))
    names = list(FORMS)
    fillers = {length: late_chats.fillers(server, length, end * len(names)) for length in arguments.lengths}
    for number in range(begin, end):
        for length in arguments.lengths:
            for form in arguments.forms:
                filler = fillers[length][number * len(names) + names.index(form)]
                found = lambda: late_context(server, pool, arguments, shape, (form, length, number), filler)
                if not run.measure(f"late/{length}/{form}/{number}", found):
                    return


def late_context(server, pool, arguments, shape, context, filler):
    """{"policy/budget": [what late_chats.play says]}"""
    chats = late_chats.chats(server, shape, *context, filler, arguments.chats)
    first, every = chats[0][0], settings(arguments.policies, arguments.budgets)
    # What computes it with scores publishes the first message for all the others.
    perplexity.complete(server, first.said, 1, kv={"policy": "auto", "budget": arguments.budgets[0]})
    jobs = {}
    for setting, ((policy, budget), kv) in enumerate(every.items()):
        for which, turns in enumerate(chats):
            jobs[policy, budget, which] = pool.submit(late_chats.play, server, turns, kv, f"late-{setting}-{which}")
    found = {}
    for (policy, budget, _), job in jobs.items():
        found.setdefault(f"{policy}/{budget}", []).extend(job.result())
    return found


def flow(server, run, pool, arguments):
    length = FLOW_FIRST + FLOW_TURNS * (FLOW_SAID + FLOW_ANSWER)
    texts = perplexity.documents(server, [], length, arguments.documents // 2)
    texts += late_chats.fillers(server, length, 2 * (arguments.documents - len(texts)))[::2]
    for begin in range(0, len(texts), 4):
        some = texts[begin : begin + 4]
        if not run.measure(f"flow/{begin}", lambda: flow_texts(server, pool, arguments, some, begin)):
            return


def flow_texts(server, pool, arguments, texts, begin):
    """{"policy/budget": [loss in nats, a document]}"""
    found = {}
    for setting, ((policy, budget), kv) in enumerate(settings(["auto" + RECALL, "auto"], arguments.budgets).items()):
        names = [f"flow-{begin + i}-{setting}" for i in range(len(texts))]
        found[f"{policy}/{budget}"] = list(pool.map(lambda ids, name: flow_loss(server, ids, kv, name), texts, names))
    return found


def flow_loss(server, ids, kv, name):
    """Mean loss of what is answered, every answer forced, in turns that go on with the text."""
    # The first turn's answer is the last token of its message.
    cuts, losses = [0, FLOW_FIRST - 1, FLOW_FIRST], []
    for _ in range(FLOW_TURNS):
        cuts += [cuts[-1] + FLOW_SAID, cuts[-1] + FLOW_SAID + FLOW_ANSWER]
    for begin, middle, end in zip(cuts[0::2], cuts[1::2], cuts[2::2]):
        append = {"session_append": True} if begin > 0 else {}
        choice = perplexity.complete(server, ids[begin:middle], end - middle, kv=kv, session_id=name,
                                     forced_token_ids=ids[middle:end], **append)  # fmt: skip
        losses += choice["logprobs"]["token_logprobs"] if begin > 0 else []
    late_chats.delete_session(server, name)
    return -statistics.mean(losses)


def first_token(server, **body):
    """([seconds to the first token, seconds of all processors until then], ids of the answer, which is no longer)"""
    body |= {"temperature": 0, "ignore_eos": True, "return_token_ids": True, "max_tokens": 1}
    began, used = time.monotonic(), server.cpu_s()
    answer = server.post("/v1/completions", body)["choices"][0]["token_ids"]
    return [time.monotonic() - began, server.cpu_s() - used], answer


def first(server, run, _, arguments):
    for length in arguments.lengths:
        if not run.measure(f"first/{length}", lambda: first_tokens(server, length, arguments.budgets[-1])):
            return


def first_tokens(server, length, budget):
    """{"recall", "without", "nothing": [what first_token says], "parked": {way: bytes}}: two chats take turns."""
    ways = {"recall": {"policy": "auto", "budget": budget, "recall": "turn"}, "without": {"policy": "auto", "budget": budget}}
    found = {"recall": [], "without": [], "nothing": [], "parked": {}}
    histories = {}
    for way, kv in ways.items():
        said = made_up_ids(length, length)
        histories[way] = said + first_token(server, prompt=said, kv=kv, session_id=way, cache_salt=f"{way}{length}")[1]
        # What the next turn goes on from: of these tokens the session has KV.
        live = json.loads(server.get(f"/v1/sessions/{way}"))["live"]
        found["parked"][way] = -(-live // type_quality.BLOCK_SLOTS) * type_quality.block_bytes_of(server)
    for turn in range(TURNS):
        said = made_up_ids(length + turn + 1, NEW)
        for way, kv in ways.items():
            seconds, answer = first_token(server, prompt=said, kv=kv, session_id=way, cache_salt=f"{way}{length}", session_append=True)
            histories[way] += said + answer
            found[way].append(seconds)
        if turn % COLD == 0:
            seconds, _ = first_token(server, prompt=histories["recall"][:-1], kv=ways["recall"], cache_salt=f"{turn} {length}")
            found["nothing"].append(seconds)
    for way in ways:
        late_chats.delete_session(server, way)
    return found


def second(server, run, pool, arguments):
    shape = late_chats.template(server)
    for line in (perplexity.DATA / "mt_bench_question.jsonl").read_text().splitlines()[: arguments.questions]:
        asked = json.loads(line)
        number, turns = asked["question_id"], [late_chats.plain(turn) for turn in asked["turns"]]
        if not run.measure(f"second/{number}", lambda: second_turns(server, pool, arguments, shape, turns, number)):
            return


def second_turns(server, pool, arguments, shape, turns, number):
    """{"policy/budget": [share of the tokens that are the likeliest, mean log-probability, tokens before them]}"""
    said = [before + turn + shape.before_answer for before, turn in zip((shape.head, shape.after_answer), turns)]
    said = [perplexity.encode(server, text) for text in said]
    end = perplexity.encode(server, shape.after_answer)[0]
    prompt, answers = [], []
    for ids, most in zip(said, ANSWERS):
        prompt = prompt + ids
        answer = perplexity.complete(server, prompt, most, kv={"policy": "full"}, ignore_eos=False)["token_ids"]
        answers.append(answer[:-1] if answer[-1] == end else answer)
        prompt = prompt + answers[-1]

    def forced(setting, kv):
        session = {"session_id": f"second-{number}-{setting}", "kv": kv}
        perplexity.complete(server, said[0], len(answers[0]), forced_token_ids=answers[0], **session)
        choice = perplexity.complete(server, said[1], len(answers[1]), forced_token_ids=answers[1], session_append=True, **session)
        late_chats.delete_session(server, session["session_id"])
        of, tops = choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]
        likeliest = [own >= max(top.values()) for own, top in zip(of, tops)]
        return [statistics.mean(likeliest), statistics.mean(of), len(prompt) - len(answers[1])]

    every = settings(arguments.policies, arguments.budgets).items()
    jobs = {f"{policy}/{budget}": pool.submit(forced, setting, kv) for setting, ((policy, budget), kv) in enumerate(every)}
    return {setting: job.result() for setting, job in jobs.items()}


def speed(server, run, pool, arguments):
    for (policy, budget), kv in settings(arguments.policies, arguments.budgets).items():
        if not run.measure(f"speed/{policy}/{budget}", lambda: tokens_per_second(server, pool, kv)):
            return


def tokens_per_second(server, pool, kv):
    """Of all chats, counted when each has its first token and none has its last."""
    body = {"kv": kv, "temperature": 0, "ignore_eos": True, "max_tokens": ANSWERED}
    begun = lambda: server.metric("vllm:time_to_first_token_seconds_count")
    made = lambda: server.metric("vllm:generation_tokens_total")
    before, names = begun(), [f"speed-{chat}" for chat in range(CHATS)]
    # A salt of its own, since what another setting left of the prompts must not be found.
    asks = [body | {"prompt": made_up_ids(chat, SAID), "session_id": name, "cache_salt": json.dumps(kv)} for chat, name in enumerate(names)]
    answers = [pool.submit(server.post, "/v1/completions", ask) for ask in asks]
    wait_for("every chat's first token", lambda: begun() == before + CHATS, timeout=600)
    began, tokens = time.monotonic(), made()
    time.sleep(COUNTED_S)
    seconds, tokens = time.monotonic() - began, made() - tokens
    if any(answer.done() for answer in answers):
        sys.exit("a chat ended while tokens were counted: let them answer more")
    for answer, name in zip(answers, names):
        answer.result()
        late_chats.delete_session(server, name)
    return tokens / seconds


def interval(clusters, statistic):
    """The statistic of a list of clusters, and its 95 % interval by resampling them."""
    generator, found = random.Random(0), []
    for _ in range(RESAMPLES if len(clusters) > 1 else 0):
        value = statistic(generator.choices(clusters, k=len(clusters)))
        if value is not None:
            found.append(value)
    found.sort()
    low, high = (found[int(share * (len(found) - 1))] for share in (0.025, 0.975)) if found else (math.nan, math.nan)
    return statistic(clusters), low, high


def share(rows, turn=None):
    exact = [row[2] for row in rows if turn in (None, row[0])]
    return sum(exact) / len(exact)


def of_full(setting):
    def ratio(clusters):
        full = sum(share(cluster["full/0"]) for cluster in clusters)
        return sum(share(cluster[setting]) for cluster in clusters) / full if full else None

    return ratio


def lost(setting):
    """Points of exact answers between the first turn that asks and the last."""

    def points(clusters):
        first, last = late_chats.ASKED[0], late_chats.ASKED[-1]
        return 100 * statistics.mean(share(cluster[setting], first) - share(cluster[setting], last) for cluster in clusters)

    return points


def span(found, form):
    value, low, high = found
    return "–" if value is None else f"{value:{form}} ({low:{form}} to {high:{form}})"


def show_late(title, clusters):
    every = list(clusters[0])
    questions = sum(len(cluster["full/0"]) for cluster in clusters)
    print(f"\n{title}: {len(clusters)} contexts, {questions} questions")
    turns = " | ".join(f"turn {turn}" for turn in late_chats.ASKED)
    print(f"| policy | {turns} | of `full` | points lost, turn {late_chats.ASKED[0]} to {late_chats.ASKED[-1]} | log p |")
    print("|---|" + "---|" * (len(late_chats.ASKED) + 3))
    for setting in every:
        rows = [row for cluster in clusters for row in cluster[setting]]
        parts = [f"{share(rows, turn):.2f}" for turn in late_chats.ASKED]
        parts += [span(interval(clusters, of_full(setting)), ".2f"), span(interval(clusters, lost(setting)), ".1f")]
        parts.append(f"{statistics.mean(row[3] for row in rows):.2f}")
        print(f"| `{setting.replace('/0', '')}` | " + " | ".join(parts) + " |")


def show_flow(cells):
    losses = {}
    for cell in cells:
        for setting, values in cell.items():
            losses.setdefault(setting, []).extend(values)
    documents = len(losses["full/0"])
    full = math.exp(statistics.mean(losses["full/0"]))
    print(f"\nflow: {documents} documents, perplexity of {FLOW_TURNS} answers of {FLOW_ANSWER} tokens; full {full:.2f}")
    for setting, values in losses.items():
        parts = []
        for other in ("full/0", f"auto/{setting.split('/')[1]}"):
            if other in losses and other != setting:
                mean, half = perplexity.relative(values, losses[other])
                value, low, high = (100 * math.expm1(of) for of in (mean, mean - half, mean + half))
                parts.append(f"{value:+.1f} % ({low:+.1f} to {high:+.1f}) of {other}")
        print(f"  {setting:17} " + ", ".join(parts))


def show_first(cells):
    print(f"\nfirst: milliseconds to the first token of a turn of {NEW} tokens, medians: by the clock / of processors")
    print("| history | with recall | without | from nothing | 2 x without + 100 | MB parked: with, without |")
    print("|---|---|---|---|---|---|")
    for length, cell in sorted(cells.items(), key=lambda item: int(item[0])):
        parts = [[1e3 * statistics.median(column) for column in zip(*cell[way])] for way in ("recall", "without", "nothing")]
        parts.append([2 * value + 100 for value in parts[1]])
        parked = ", ".join(f"{cell['parked'][way] / 1e6:.1f}" for way in ("recall", "without"))
        print(f"| {length} | " + " | ".join(f"{clock:.0f} / {used:.0f}" for clock, used in parts) + f" | {parked} |")


def show_second(cells):
    before = statistics.mean(cell["full/0"][2] for cell in cells)
    print(f"\nsecond: {len(cells)} questions, {before:.0f} tokens before the second answer")
    print("| policy | the same token is the likeliest | log p less than `full`'s |")
    print("|---|---|---|")
    for setting in cells[0]:
        same = interval(cells, lambda of: statistics.mean(cell[setting][0] for cell in of))
        less = interval(cells, lambda of: statistics.mean(cell["full/0"][1] - cell[setting][1] for cell in of))
        print(f"| `{setting.replace('/0', '')}` | {span(same, '.3f')} | {span(less, '.3f')} |")


def show_speed(cells):
    print(f"\nspeed: tokens a second of {CHATS} chats together behind {SAID:,} tokens each")
    for (policy, budget), tokens in cells.items():
        print(f"  {policy + '/' + budget:17} {tokens:,.0f}")


def show(cells):
    found = {}
    for key, cell in cells.items():
        model, part, *rest = key.split("/")
        found.setdefault((model, part), {})[tuple(rest)] = cell
    for (model, part), measured in found.items():
        print(f"\n== {model}, {part}")
        if part == "flow":
            show_flow(measured.values())
        elif part == "first":
            show_first({rest[0]: cell for rest, cell in measured.items()})
        elif part == "second":
            show_second(list(measured.values()))
        elif part == "speed":
            show_speed(measured)
        else:
            # A chat is one context: its questions stand or fall together.
            for at, name in ((0, "history of {} tokens"), (1, "form {}")):
                for value in dict.fromkeys(rest[at] for rest in measured):
                    show_late(name.format(value), [cell for rest, cell in measured.items() if rest[at] == value])
            show_late("all", list(measured.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=DEFAULT_BINARY)
    parser.add_argument("--models", "--model", nargs="+", type=pathlib.Path, default=[DEFAULT_MODEL])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--contexts", default="0:2", help="numbers of the contexts of each form and length")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens of the first message")
    parser.add_argument("--forms", nargs="+", choices=list(FORMS), default=["door", "locker", "far", "far2"])
    parser.add_argument("--chats", type=int, default=2, help="of a context, each of which asks for three of its four facts")
    parser.add_argument("--policies", nargs="+", default=POLICIES, help="which late questions are asked of, e.g. 'h2o, recall'")
    parser.add_argument("--budgets", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--documents", type=int, default=16, help="of which perplexity is measured")
    parser.add_argument("--questions", type=int, default=80, help="of MT-Bench's 80")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--picture", action="store_true", help="redraw docs/pictures/late.svg from late and speed")
    parser.add_argument("--results", type=pathlib.Path, help="JSON file with what was measured before")
    parser.add_argument("--server-flag", action="append", default=[], help="for hydrantd, e.g. --server-flag=--threads=2")
    arguments = parser.parse_args()
    if arguments.picture and (len(arguments.models) > 1 or not {"late", "speed"} <= set(arguments.parts)):
        parser.error("--picture: is of one model, and of the parts late and speed")
    path, until = arguments.results, time.monotonic() + 60 * arguments.minutes
    cells = json.loads(path.read_text()) if path and path.exists() else {}
    flags = ["--log-level", "debug", "--debug-kv-dump", "/dev/null", *MEMORY, *arguments.server_flag]
    for model in arguments.models:
        run = Run(cells, lambda: path and path.write_text(json.dumps(cells)), model.stem, until)
        with ServerProcess(arguments.binary, model, flags) as server, concurrent.futures.ThreadPoolExecutor(IN_FLIGHT) as pool:
            for part in arguments.parts:
                {"late": late, "flow": flow, "first": first, "second": second, "speed": speed}[part](server, run, pool, arguments)
            block_bytes = type_quality.block_bytes_of(server)
    show(cells)
    if arguments.picture:
        of = lambda part: {key.split("/", 2)[2]: cell for key, cell in cells.items() if key.startswith(f"{arguments.models[0].stem}/{part}/")}
        picture = late_picture.draw(list(of("late").values()), of("speed"), CHATS, block_bytes)
        (ROOT / "docs" / "pictures" / "late.svg").write_text(picture)


if __name__ == "__main__":
    main()
