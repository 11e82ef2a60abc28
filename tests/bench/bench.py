#!/usr/bin/env python3
"""`./hydrant bench [NAME …]`: runs the benches of this folder and the server as a whole, and says what each measures.
A bench is a program NAME_bench.cc that prints a table and takes the arguments in ARGUMENTS, or a script NAME.py that starts the
server. Python's standard library only."""

import argparse
import difflib
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import peer_llama_cpp
from server_process import DEFAULT_MODEL, ServerProcess, count

# The pages of this repository are texts that are always there.
TEXTS = sorted(map(str, (HERE.parents[1] / "docs").glob("*.md")))
ARGUMENTS = {
    "adapter": ["{model}"], "model": ["{model}"], "swap": ["{model}"], "tokenizer": ["{model}"], "weight_quality": ["{model}", *TEXTS],
}  # fmt: skip
UNLESS_GIVEN_OTHERS = {"weight_quality": ["--tokens", "16384"]}
SCRIPTS = ["start", "prefix_cache", "elastic", "sessions"]
ONLY_WHEN_NAMED = [
    "kv_quality", "kv_recall", "stored_weights", "peer_quality", "long_chat", "isolation", "operations", "durable", "overcommit",
    "drafts", "shapes", "audit", "ruler", "grammar",
]  # fmt: skip
ALSO_RUN = {"stored_weights": ["weight_quality_bench"], "peer_quality": ["weight_quality_bench"]}
MEASURES = {
    "adapter": "steps and prompts with adapters (LoRA), against the same without",
    "attention": "attention and H2O against the machine's bandwidth and peak",
    "grammar": "compiling schemas, and which tokens may come next: grammar -- TOKENIZER SCHEMAS",
    "linear": "products with weights, for each batch size, against the same",
    "loadgen": "events per second that the load generator takes on one core",
    "model": "prompts and decoding without HTTP or scheduler, and what H2O costs",
    "sampling": "choosing one token, by what is asked of it",
    "scheduler": "host time of a step, up to 256 sequences, and with shapes of answers",
    "swap": "a sequence out of the pool and back, against copying its bytes",
    "weight_quality": "weights as they are stored against the same file expanded: two minutes",
    "tokenizer": "encoding and decoding, MB/s on one thread",
    "server": "start, idle use, and what HTTP adds to a stream",
    "start": "time to ready and memory, for every model at hand",
    "prefix_cache": "first tokens of prompts whose beginning was computed before",
    "elastic": "what elastic budgets do for those who wait",
    "sessions": "first tokens of 20 turns, with a session and without",
    "kv_quality": "perplexity and recall for each policy and budget: half an hour",
    "kv_recall": "facts asked for turns later, with recall and without: an hour",
    "stored_weights": "weights as they are stored, on 64 Ki tokens, and what H2O keeps: two hours",
    "peer_quality": "next-token distributions beside llama.cpp's: ten minutes a GB",
    "long_chat": "a chat that outgrows the context: ten minutes",
    "isolation": "what a tenant notices of another's attack: an hour",
    "durable": "what --session-dir costs, and a thousand kill -9: half an hour",
    "overcommit": "chats without max_tokens, with swap space and without: five minutes",
    "drafts": "tokens per second with guesses from the text itself, and without: a minute",
    "shapes": "what streams notice when others answer in a shape: a minute",
    "audit": "what users notice of --kv-audit: twenty minutes",
    "ruler": "RULER's tasks for each policy and budget, with packages of its own: an hour",
    "operations": "scrapes under load, clients that go away: three minutes",
}  # fmt: skip
EXIT_USAGE = 64
PEER_DEFAULTS = {"rounds": 3, "threads": None, "isa": None, "formats": peer_llama_cpp.FORMATS}
STARTS = 5
IDLE_S = 5.0
DECODED = 128


def line(what, value, unit, limit="", verdict=""):
    print(f"{what:<34} {value:>10.3f} {unit:<8} {limit:>10} {verdict:>8}", flush=True)


def bench_server(arguments):
    """Start to ready, idle cost, and what HTTP adds to a single stream, on the real program."""
    binary = arguments.build / "hydrantd"
    arguments.model.read_bytes()  # into the file cache: the goal is stated for a warm file
    ready = []
    for _ in range(STARTS):
        with ServerProcess(binary, arguments.model) as server:
            ready.append(server.ready_s)
    line("start to ready, median of 5", statistics.median(ready), "s", "<= 1", "ok" if statistics.median(ready) <= 1 else "MISSED")
    with ServerProcess(binary, arguments.model) as server:
        before = server.cpu_s()
        time.sleep(IDLE_S)
        idle = (server.cpu_s() - before) / IDLE_S
        line("idle processor use", 100 * idle, "%", "0", "ok" if idle < 0.001 else "MISSED")
        body = {"prompt": "Once upon a time", "temperature": 0, "ignore_eos": True, "stream": True}
        speeds, first = [], []
        for _ in range(4):
            started = time.monotonic()
            with server.open("/v1/completions", {**body, "max_tokens": DECODED}) as response:
                times = [time.monotonic() for event in response if event.startswith(b"data: {")]
            first.append(times[0] - started)
            speeds.append((DECODED - 1) / (times[-1] - times[0]))
        line("single stream over HTTP", statistics.median(speeds[1:]), "tok/s")
        line("time to first token, 4-token prompt", 1e3 * statistics.median(first[1:]), "ms")


def is_program(name):
    return (HERE / f"{name}_bench.cc").exists()


def programs_of(name):
    """The programs that a bench runs, which are also the names of their build targets."""
    return [f"{name}_bench"] if is_program(name) else ["hydrantd", *ALSO_RUN.get(name, [])]


def listing(names):
    return "\n".join(f"  {name:<15}{MEASURES.get(name, '')}".rstrip() for name in names)


def formats_of_peer(text):
    chosen = text.split(",")
    unknown = [kind for kind in chosen if kind not in peer_llama_cpp.FORMATS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is not among {', '.join(peer_llama_cpp.FORMATS)}")
    return chosen


def refuse(why):
    sys.stderr.write(f"hydrant: {why}\n")
    sys.exit(EXIT_USAGE)


def check_names(arguments, names):
    if arguments.peer and arguments.words or "--peer" in {word.partition("=")[0] for word in arguments.words}:
        refuse("--peer takes no NAME: it is a bench of its own.")
    for flag in PEER_DEFAULTS:
        if not arguments.peer and getattr(arguments, flag) is not None:
            refuse(f"--{flag} goes with --peer, or behind the NAME of a bench that has it.")
    unknown = next((name for name in arguments.names if name not in names), None)
    if unknown is not None:
        near = difflib.get_close_matches(unknown, names, 1)
        meant = f": did you mean {near[0]}?" if near else "."
        refuse(f"there is no bench '{unknown}'{meant} These exist: {', '.join(names)}")
    if arguments.passed and len(arguments.names) != 1:
        refuse(f"{arguments.passed[0]}: flags go behind one NAME, whose bench they are for.")
    if arguments.passed and arguments.names == ["server"]:
        refuse("server takes no flags.")


def parse(names):
    parser = argparse.ArgumentParser(
        prog="./hydrant bench",
        usage="./hydrant bench [--list] [NAME …]\n       ./hydrant bench NAME FLAGS-OF-THIS-BENCH\n       ./hydrant bench --peer llama.cpp [--rounds N] [--threads N] [--isa avx2] [--formats F,…]",
        description="Builds what the benches need and prints what was measured beside the limit of the machine. Figures are only\n"
        "as good as the machine is quiet; its load average is printed with them.\n\n"
        f"{listing(names)}\n\nWithout a NAME all of them run but {', '.join(ONLY_WHEN_NAMED)}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="NAME", help="a bench to run; flags behind it, and all behind --, are its own")
    parser.add_argument("--list", action="store_true", help="list the benches, one a line")
    parser.add_argument("--peer", choices=("llama.cpp",), help="compare with it in turn, on the same model; it is fetched and built first")
    parser.add_argument("--rounds", type=count, metavar="N", help="turns of each (default: 3)")
    parser.add_argument("--threads", type=count, metavar="N", help="threads of each (default: all processors)")
    parser.add_argument("--isa", choices=("avx2",), help="both sides with no more than these instructions")
    parser.add_argument("--formats", type=formats_of_peer, metavar="F,…",
                        help=f"of the peer's weights, among {','.join(peer_llama_cpp.FORMATS)} (default: all)")  # fmt: skip
    parser.add_argument("--targets", action="store_true", help=argparse.SUPPRESS)  # for ./hydrant: what to build first
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build" / "release", help=argparse.SUPPRESS)
    parser.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    behind = next((i for i, word in enumerate(arguments.words) if word.startswith("-")), len(arguments.words))
    arguments.names, arguments.passed = arguments.words[:behind], arguments.words[behind:]
    check_names(arguments, names)
    if arguments.passed[:1] == ["--"]:
        del arguments.passed[0]
    for flag, default in PEER_DEFAULTS.items():
        setattr(arguments, flag, getattr(arguments, flag) or default)
    return arguments


def main():
    programs = {path.stem.removesuffix("_bench") for path in HERE.glob("*_bench.cc")} - set(ONLY_WHEN_NAMED)
    names = [*sorted(programs), "server", *SCRIPTS, *ONLY_WHEN_NAMED]
    arguments = parse(names)
    if arguments.list:
        print(listing(names))
        return 0
    chosen = arguments.names or names[: -len(ONLY_WHEN_NAMED)]
    if arguments.targets:
        print("\n".join(["model_bench"] if arguments.peer else sorted({program for name in chosen for program in programs_of(name)})))
        return 0
    if arguments.peer:
        return peer_llama_cpp.compare(arguments)
    failed = 0
    for name in chosen:
        print(f"\n== {name}   (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors)", flush=True)
        if name == "server":
            bench_server(arguments)
        elif is_program(name):
            extra = [argument.format(model=arguments.model) for argument in ARGUMENTS.get(name, [])]
            program = arguments.build / "tests" / "bench" / programs_of(name)[0]
            failed += subprocess.run([program, *extra, *(arguments.passed or UNLESS_GIVEN_OTHERS.get(name, []))]).returncode != 0
        else:
            command = [sys.executable, HERE / f"{name}.py", "--binary", arguments.build / "hydrantd", "--model", arguments.model]
            failed += subprocess.run([*command, *arguments.passed]).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
