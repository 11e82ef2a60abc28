#!/usr/bin/env python3
"""`./hydrant bench kv_quality`: what eviction costs, policy by policy and budget by budget, through the real server on the
default model. Writes the table of docs/quality.md and the picture docs/pictures/quality.svg.

Perplexity: documents of 1,024 prompt tokens and 256 forced ones, relative to `full`. Recall: four planted codes in 1,024
tokens, the question in the prompt. Half an hour on two cores; with --results FILE what was measured is kept there and not
measured again. --types measures int8 keys and values beside bf16 ones instead (type_quality.py) and writes another table of the
same page. Python's standard library only."""

import argparse
import concurrent.futures
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import perplexity
import quality_picture
import recall
import type_quality
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ROOT, ServerProcess

POLICIES = ["h2o-plus", "h2o", "h2o-llama3", "h2o-decay", "snapkv", "sinks", "window"]
BUDGETS = [64, 128, 256, 512]
# The server batches what is in flight: enough streams that decode steps are wide, few enough for their pool.
IN_FLIGHT = 16
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


class Cells:
    """Results per document or question, by (measure, policy, budget), kept in a file."""

    def __init__(self, path):
        self.path = path
        self.values = json.loads(path.read_text()) if path and path.exists() else {}

    def get(self, *key):
        return self.values.get("/".join(map(str, key)))

    def put(self, values, *key):
        self.values["/".join(map(str, key))] = values
        if self.path:
            self.path.write_text(json.dumps(self.values))


def settings(policies, budgets):
    yield "full", None, {"policy": "full"}
    for policy in policies:
        for budget in budgets:
            yield policy, budget, {"policy": policy, "budget": budget}


def measure(server, cells, arguments):
    texts, asked = recall.texts_and_questions(server, arguments.text, arguments.documents, arguments.questions)
    with concurrent.futures.ThreadPoolExecutor(IN_FLIGHT) as pool:
        for measure_name, items, of in (("recall", asked, recall.recalled), ("perplexity", texts, perplexity.server_loss)):
            for policy, budget, kv in settings(arguments.policies, arguments.budgets):
                values = cells.get(measure_name, policy, budget)
                if values is None or len(values) != len(items):
                    values = list(pool.map(lambda item: of(server, item, kv), items))
                    cells.put(values, measure_name, policy, budget)
                print(measure_name, policy, budget or "", f"{sum(values) / len(values):.4f}", flush=True)


def summarise(cells, policies, budgets):
    """{"perplexity": {policy: {budget: (ratio, low, high)}}, "recall": {policy: {budget: share}}, …}."""
    full = cells.get("perplexity", "full", None)
    answers = cells.get("recall", "full", None)
    summary = {
        "documents": len(full), "questions": len(answers), "full_perplexity": math.exp(sum(full) / len(full)),
        "full_recall": sum(answers) / len(answers), "perplexity": {}, "recall": {},
    }  # fmt: skip
    for policy in policies:
        ratios, shares = {}, {}
        for budget in budgets:
            mean, half = perplexity.relative(cells.get("perplexity", policy, budget), full)
            ratios[budget] = tuple(math.exp(x) for x in (mean, mean - half, mean + half))
            values = cells.get("recall", policy, budget)
            shares[budget] = sum(values) / len(values)
        summary["perplexity"][policy], summary["recall"][policy] = ratios, shares
    return summary


def table(summary, budgets):
    heads = "".join(f" {budget} |" for budget in budgets)
    lines = [
        f"Perplexity relative to `full` ({summary['full_perplexity']:.2f}), geometric mean of {summary['documents']} documents, "
        "95 % interval:",
        "", f"| policy |{heads}", "|---|" + "---|" * len(budgets),
    ]  # fmt: skip
    for policy, ratios in summary["perplexity"].items():
        cells = "".join(f" {ratio:.2f} ({low:.2f}–{high:.2f}) |" for ratio, low, high in ratios.values())
        lines.append(f"| `{policy}` |{cells}")
    lines += [
        "", f"Recall: share of {summary['questions']} questions answered with the planted code; `full`: "
        f"{summary['full_recall']:.2f}.",
        "", f"| policy |{heads}", "|---|" + "---|" * len(budgets),
    ]  # fmt: skip
    for policy, shares in summary["recall"].items():
        lines.append(f"| `{policy}` |" + "".join(f" {share:.2f} |" for share in shares.values()))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=DEFAULT_BINARY)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--text", action="append", default=[], help="a text file instead of ../shared/data/bench")
    parser.add_argument("--documents", type=int, default=14)
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--types", action="store_true", help="types of keys and values instead of policies")
    parser.add_argument("--policies", nargs="+", help=f"default: {' '.join(POLICIES)}; with --types {' '.join(type_quality.POLICIES)}")
    parser.add_argument("--budgets", type=int, nargs="+", help=f"default: {BUDGETS}; with --types {type_quality.BUDGETS}, in bf16")
    parser.add_argument("--results", type=pathlib.Path, help="JSON file with what was measured before")
    parser.add_argument("--server-flag", action="append", default=[], help="for hydrantd, e.g. --server-flag=--threads=2")
    parser.add_argument("--measure-only", action="store_true", help="leave docs/ alone")
    arguments = parser.parse_args()
    cells = Cells(arguments.results)
    if arguments.types:
        text = type_quality.run(arguments, cells)
        print("\n" + text)
        if not arguments.measure_only:
            perplexity.write_between(type_quality.BEGIN, type_quality.END, text)
        return
    arguments.policies, arguments.budgets = arguments.policies or POLICIES, arguments.budgets or BUDGETS
    # Forced tokens are a debugging feature: they come with the dump.
    flags = ["--debug-kv-dump", "/dev/null", *arguments.server_flag]
    with ServerProcess(arguments.binary, arguments.model, flags) as server:
        measure(server, cells, arguments)
    summary = summarise(cells, arguments.policies, arguments.budgets)
    text = table(summary, arguments.budgets)
    print("\n" + text)
    if arguments.measure_only:
        return
    perplexity.write_between(BEGIN, END, text)
    (ROOT / "docs" / "pictures" / "quality.svg").write_text(quality_picture.draw(summary, arguments.budgets))


if __name__ == "__main__":
    main()
