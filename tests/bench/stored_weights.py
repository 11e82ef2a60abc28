#!/usr/bin/env python3
"""`./hydrant bench stored_weights`: what it costs to multiply weights as they are stored: next-token distributions, and the
tokens that H2O keeps, against the same file expanded to fp32. Writes a table of docs/quality.md.

Distributions: weight_quality_bench over 65,919 positions of sonnets, chats and the pages of this repository, in contexts of
512. Kept tokens: documents of 1,024 prompt tokens and 256 forced ones under `h2o`, an fp32 cache in both, so that nothing but
the weights differs. For the models at hand, one after the other; the largest takes an hour on two cores, and memory for four
bytes a parameter. With --results FILE what was measured is kept there and not measured again. Python's standard library
only."""

import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import kept_sets
import perplexity
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ROOT, ServerProcess

BUDGETS = [128, 256]
CONTEXT = 512
# Without the first token of each context 64 Ki are left.
TOKENS = 129 * CONTEXT
IN_FLIGHT = 8
BEGIN, END = "<!-- stored weights: begin -->", "<!-- stored weights: end -->"
# One line of what weight_quality_bench prints.
DISTRIBUTIONS = re.compile(
    r"(?P<positions>\d+) positions in contexts of \d+: mean KL (?P<kl>\S+), .*99\.9 % (?P<tail>\S+), max .*"
    r"same top token (?P<same>\S+) %\nperplexity \S+ expanded, \S+ in the other form: (?P<perplexity>\S+) %"
)


def distributions(arguments, model):
    """{"positions", "kl", "tail", "same", "perplexity"} as weight_quality_bench prints them."""
    with tempfile.TemporaryDirectory() as folder:
        texts = arguments.text
        if not texts:
            chats = pathlib.Path(folder) / "chats.txt"
            chats.write_text("".join(perplexity.conversations()))
            texts = [perplexity.DATA / "sonnet.txt", chats, *sorted((ROOT / "docs").glob("*.md"))]
        command = [arguments.bench, model, *texts, "--context", CONTEXT, "--tokens", arguments.tokens, "--threads", arguments.threads]
        said = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True).stdout
    return DISTRIBUTIONS.search(said).groupdict()


def kept(arguments, model):
    """{"documents": how many, budget: (share of kept tokens that are the same, of those older than the recent ones)}."""
    sets = {}
    for dtype in ("auto", "float32"):
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(IN_FLIGHT) as pool:
            dump = pathlib.Path(folder) / "dump.jsonl"
            flags = ["--dtype", dtype, "--kv-cache-dtype", "float32", "--debug-kv-dump", dump, "--threads", arguments.threads]
            with ServerProcess(arguments.binary, model, flags) as server:
                texts = perplexity.documents(server, arguments.text, perplexity.PROMPT + perplexity.SCORED, arguments.documents)
                prompts = {tuple(ids[: perplexity.PROMPT]) for ids in texts}
                for budget in BUDGETS:
                    dump.write_text("")  # the server appends
                    kv = {"policy": "h2o", "budget": budget}
                    list(pool.map(lambda ids: perplexity.server_loss(server, ids, kv), texts))
                    sets[dtype, budget] = kept_sets.records(dump, prompts)
    shares = {str(budget): kept_sets.overlaps(sets["float32", budget], sets["auto", budget]) for budget in BUDGETS}
    return {"documents": len(texts), **shares}


def measure(arguments):
    """{name of the model: {"distributions", "kept"}}; what the results file has is not measured again."""
    path = arguments.results
    results = json.loads(path.read_text()) if path and path.exists() else {}
    for model in arguments.models:
        result = results.setdefault(model.stem, {})
        for name, of in (("kept", kept), ("distributions", distributions)):
            if name not in result:
                result[name] = of(arguments, model)
                print(model.stem, name, result[name], flush=True)
                if path:
                    path.write_text(json.dumps(results))
    return results


def table(results):
    heads = "".join(f" kept at {budget}: all, older |" for budget in BUDGETS)
    lines = [
        f"| model | positions | mean KL | 99.9 % | same top token | perplexity | documents |{heads}",
        "|---|---|---|---|---|---|---|" + "---|" * len(BUDGETS),
    ]
    for model, result in results.items():
        said = result["distributions"]
        shares = "".join(" {:.2f}, {:.2f} % |".format(*(100 * share for share in result["kept"][str(budget)])) for budget in BUDGETS)
        lines.append(
            f"| {model} | {int(said['positions']):,} | {said['kl']} | {said['tail']} | {said['same']} % | {said['perplexity']} % |"
            f" {result['kept']['documents']} |{shares}"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=DEFAULT_BINARY)
    parser.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL, help="and what lies beside it")
    parser.add_argument("--models", type=pathlib.Path, nargs="+", help="these alone")
    parser.add_argument("--text", action="append", default=[], help="a text file instead of ../shared/data/bench")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of the distributions")
    parser.add_argument("--documents", type=int, default=8, help="for what is kept")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=pathlib.Path, help="JSON file with what was measured before")
    parser.add_argument("--measure-only", action="store_true", help="leave docs/ alone")
    arguments = parser.parse_args()
    beside = {arguments.model, *arguments.model.parent.glob("*.gguf")}
    arguments.models = arguments.models or sorted(beside, key=lambda path: path.stat().st_size)
    arguments.bench = arguments.binary.parent / "tests" / "bench" / "weight_quality_bench"
    text = table(measure(arguments))
    print("\n" + text)
    if not arguments.measure_only:
        perplexity.write_between(BEGIN, END, text)


if __name__ == "__main__":
    main()
