#!/usr/bin/env python3
"""What a policy keeps of sentences, through the real server: four planted facts of one kind in a context of 1,024 tokens, a
question about each with the facts in view, and the perplexity of the text behind a prompt beside it. The kinds differ in how far
a value stands from the name that the question asks for. Prints tables with 95 % intervals; --results FILE keeps what was
measured, and a second run goes on from there. Python's standard library only.

    tests/bench/kv_sentences.py --contexts 25:85 --texts docs --documents 57"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import perplexity
from perplexity import PROMPT, SCORED, complete, encode
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ROOT, ServerProcess

IN_FLIGHT = 16
FACTS = 4
RESAMPLES = 2000
# Left for the question and the beginning of its answer.
QUESTION_TOKENS = 48

PEOPLE = ["Alice", "Robert", "Martin", "Julia", "Peter", "Sarah", "Thomas", "Emma", "Oliver", "Laura"]
COLOURS = ["red", "blue", "green", "yellow", "white", "black", "brown", "grey", "purple", "orange"]
CITIES = ["Paris", "Boston", "Cairo", "Madrid", "Tokyo", "Vienna", "Lima", "Oslo", "Prague", "Dublin"]
JOURNEY = "came back from the long journey across the sea with two brothers and a small brown dog"
OF_TICKET = "When {k} came back from the journey, what was the number of the ticket?"
TICKET = "When {k} came back, the ticket was number"

# name: (keys, fact, question, beginning of the answer)
FORMS = {
    "door": (COLOURS, "\nThe secret code for the {k} door is {v}.\n",
             "What is the secret code for the {k} door?", "The secret code for the {k} door is"),
    "locker": (PEOPLE, "\nRemember: {k}'s locker is number {v} on the second floor.\n",
               "What is the number of {k}'s locker?", "{k}'s locker is number"),
    "far": (PEOPLE, "\nWhen {k} " + JOURNEY + ", the ticket in the pocket was number {v}.\n", OF_TICKET, TICKET),
    "far2": (PEOPLE, "\n{k} " + JOURNEY + ". The ticket was number {v}.\n", OF_TICKET, TICKET),
    "platform": (CITIES, "\nNote that the train to {k} now leaves from platform {v}, because of works on the line.\n",
                 "From which platform does the train to {k} leave?", "The train to {k} leaves from platform"),
}  # fmt: skip


def texts(server, kind):
    """Documents of PROMPT + SCORED tokens: "bench" of ../shared/data/bench, "docs" of these pages, "code" of these sources."""
    length = PROMPT + SCORED
    if kind == "bench":
        found = perplexity.documents(server, [], length, 200)
    else:
        names = ROOT.glob("docs/**/*.md") if kind == "docs" else (f for f in ROOT.glob("*/**/*.cc") if f.stat().st_size > 4000)
        found = perplexity.pieces(server, [path.read_text() for path in sorted(names)], length)
    return [ids for ids in found if perplexity.quoted_share(ids) <= perplexity.QUOTED_MAX]


def questions(server, form, number, filler):
    """(prompt ids, ids of the value) for each of a context's facts. Their prompts are the same but for the question."""
    keys, fact, question, answer = FORMS[form]
    generator = random.Random(f"{form}{number}")
    names = generator.sample(keys, FACTS)
    values = [str(generator.randrange(1000, 10000)) for _ in names]
    places = [(quarter + generator.random()) / FACTS for quarter in range(FACTS)]
    planted = [encode(server, fact.format(k=k, v=v)) for k, v in zip(names, values)]
    chat = number % 2 == 1
    ids = encode(server, "<|im_start|>user\nRemember the facts in this text.\n\n") if chat else []
    room, begin = PROMPT - len(ids) - QUESTION_TOKENS - sum(map(len, planted)), 0
    for place, sentence in zip(places, planted):
        ids, begin = ids + filler[begin : int(place * room)] + sentence, int(place * room)
    ids = ids + filler[begin:room]
    for name, value in zip(names, values):
        asked, said = question.format(k=name), answer.format(k=name)
        tail = f"\n\n{asked}<|im_end|>\n<|im_start|>assistant\n{said}" if chat else f"\n\nQuestion: {asked}\nAnswer: {said}"
        yield ids + encode(server, tail), encode(server, f" {value}.")[:-1]


def ask(server, item, kv):
    ids, value = item
    return judged(complete(server, ids, len(value), kv=kv, forced_token_ids=value)["logprobs"])


def judged(found):
    """[1 if greedy decoding says the value, its log-probability], from those of its forced tokens."""
    pairs = list(zip(found["token_logprobs"], found["top_logprobs"]))
    return [int(all(own >= max(top.values()) for own, top in pairs)), sum(own for own, _ in pairs)]


def measure(server, arguments, cells, save):
    settings = [("full", 0, {"policy": "full"})]
    settings += [(p, b, {"policy": p, "budget": b}) for p in arguments.policies for b in arguments.budgets]
    found = texts(server, arguments.texts)
    begin, end = map(int, arguments.contexts.split(":"))
    with concurrent.futures.ThreadPoolExecutor(IN_FLIGHT) as pool:
        for number in range(begin, end):
            for form in arguments.forms:
                asked = list(questions(server, form, number, found[(number * 7 + len(form)) % len(found)]))
                for policy, budget, kv in settings:
                    key = f"recall/{arguments.texts}/{form}/{policy}/{budget}/{number}"
                    if key not in cells:
                        cells[key] = list(pool.map(lambda item: ask(server, item, kv), asked))
            save()
        for policy, budget, kv in settings if arguments.documents else []:
            cell = cells.setdefault(f"perplexity/{arguments.texts}/{policy}/{budget}", [])
            left = found[len(cell) : arguments.documents]
            cell += pool.map(lambda ids: perplexity.server_loss(server, ids, kv), left)
            save()


def interval(contexts, statistic):
    """The middle 95 % of `statistic` over contexts drawn again with replacement: a context's questions share its text."""
    generator = random.Random(1)
    drawn = sorted(statistic(generator.choices(contexts, k=len(contexts))) for _ in range(RESAMPLES))
    return drawn[RESAMPLES // 40], drawn[-1 - RESAMPLES // 40]


def share(contexts):
    """Of (answered, answered by the other) of each context: the first number's share of the second."""
    own, other = (sum(column) for column in zip(*contexts))
    return own / other if other else math.inf


def of_full(values, full):
    """How many times as often as `full` a setting answers, with its interval. Both: {context: [[answered, log p], ...]}."""
    contexts = [tuple(sum(answered for answered, _ in cell[number]) for cell in (values, full)) for number in values if number in full]
    low, high = interval(contexts, share)
    return f"{share(contexts):.2f} of full ({low:.2f}-{high:.2f})"


def show_recall(cells):
    table = {}
    for key, values in cells.items():
        if key.startswith("recall/"):
            *row, number = key.split("/")[1:]
            table.setdefault(tuple(row), {})[number] = values
    for (texts, form, policy, budget), contexts in sorted(table.items(), key=lambda row: (*row[0][:2], int(row[0][3]), row[0][2])):
        values = [value for cell in contexts.values() for value in cell]
        exact, log_p = (sum(column) / len(values) for column in zip(*values))
        full = table.get((texts, form, "full", "0"), {})
        compared = of_full(contexts, full) if policy != "full" and full else ""
        print(f"{texts} {form:9} {policy:9} {budget:>4} {len(values):4} questions  {exact:.3f}  log p {log_p:6.2f}  {compared}")


def show_perplexity(cells):
    """Each cell beside those of the same documents; the last line of a setting is over all texts."""
    table = {}
    for key, values in cells.items():
        if key.startswith("perplexity/"):
            texts, policy, budget = key.split("/")[1:]
            table.setdefault((policy, budget), {})[texts] = values
    for (policy, budget), own in sorted(table.items(), key=lambda row: (int(row[0][1]), row[0][0])):
        for chosen in [[texts] for texts in own] + ([list(own)] if len(own) > 1 else []):
            values = [value for texts in chosen for value in own[texts]]
            parts = []
            for name, size in (("full", "0"), ("h2o", budget), ("h2o-plus", budget)):
                other = [value for texts in chosen for value in table.get((name, size), {}).get(texts, [])]
                if (name, size) != (policy, budget) and len(other) == len(values) > 0:
                    mean, half = perplexity.relative(values, other)
                    parts.append(f"{name} {math.exp(mean):.4f} ({math.exp(mean - half):.4f}-{math.exp(mean + half):.4f})")
            if parts:
                print(f"{'+'.join(chosen):15} {policy:9} {budget:>4} {len(values):3} documents, perplexity relative to {', '.join(parts)}")


def save(path, cells):
    if path:
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(cells))
        beside.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=DEFAULT_BINARY)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--contexts", default="0:6", help="numbers of the contexts, each with four questions of each form")
    parser.add_argument("--forms", nargs="*", default=list(FORMS))
    parser.add_argument("--texts", choices=["bench", "docs", "code"], default="bench")
    parser.add_argument("--documents", type=int, default=0, help="of which perplexity is measured")
    parser.add_argument("--policies", nargs="+", default=["h2o", "h2o-plus", "auto"])
    parser.add_argument("--budgets", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--results", type=pathlib.Path, help="JSON file with what was measured before")
    parser.add_argument("--server-flag", action="append", default=[], help="for hydrantd, e.g. --server-flag=--threads=2")
    arguments = parser.parse_args()
    path = arguments.results
    cells = json.loads(path.read_text()) if path and path.exists() else {}
    flags = ["--debug-kv-dump", "/dev/null", *arguments.server_flag]
    with ServerProcess(arguments.binary, arguments.model, flags) as server:
        measure(server, arguments, cells, lambda: save(path, cells))
    show_recall(cells)
    show_perplexity(cells)


if __name__ == "__main__":
    main()
