#!/usr/bin/env python3
"""`./hydrant bench [NAME …]`: every bench of this folder against the machine's limits, then the server as a whole.
Only when named run `kv_quality`, half an hour: what eviction costs in quality, `long_chat`, ten minutes: what becomes of a chat
that outgrows the context, `isolation`, an hour: what a tenant feels of another's attack, and `operations`, three minutes: scrapes
under load and clients that go away. `--peer llama.cpp` instead measures this program and a peer built here side by side (peer_llama_cpp.py).

A bench is a program NAME_bench.cc of this folder that prints a table and takes the arguments in ARGUMENTS, or a script NAME.py that
starts the server. Figures are only as good as the machine is quiet; the load average is printed with them. Python's standard
library only."""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from server_process import DEFAULT_MODEL, ServerProcess

ARGUMENTS = {"model": ["{model}"]}
SCRIPTS = ["prefix_cache", "elastic", "sessions"]
ONLY_WHEN_NAMED = ["kv_quality", "long_chat", "isolation", "operations"]
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


def program_of(name):
    """The program that a bench runs, which is also the name of its build target."""
    is_script = name == "server" or name in SCRIPTS + ONLY_WHEN_NAMED
    return "hydrantd" if is_script else f"{name}_bench"


def parse(names):
    parser = argparse.ArgumentParser(
        prog="./hydrant bench",
        description=f"{__doc__}\n\nThe benches are {', '.join(names)}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="name the benches")
    parser.add_argument("--peer", choices=("llama.cpp",), help="compare with a peer, which is fetched and built first")
    parser.add_argument("--rounds", type=int, default=3, help="alternations with the peer")
    parser.add_argument("--threads", type=int, default=0, help="for --peer; default: the processors this process may use")
    parser.add_argument("--targets", action="store_true", help=argparse.SUPPRESS)  # for ./hydrant: what to build first
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build" / "release", help=argparse.SUPPRESS)
    parser.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in names]
    if unknown:
        parser.error(f"there is no bench {unknown[0]}; these exist: {', '.join(names)}")
    return arguments


def main():
    programs = sorted(path.stem.removesuffix("_bench") for path in HERE.glob("*_bench.cc"))
    names = [*programs, "server", *SCRIPTS, *ONLY_WHEN_NAMED]
    arguments = parse(names)
    if arguments.list:
        print("\n".join(names))
        return 0
    chosen = arguments.names or names[: -len(ONLY_WHEN_NAMED)]
    if arguments.targets:
        print("\n".join(["model_bench"] if arguments.peer else sorted({program_of(name) for name in chosen})))
        return 0
    if arguments.peer:
        import peer_llama_cpp

        return peer_llama_cpp.compare(arguments)
    failed = 0
    for name in chosen:
        print(f"\n== {name}   (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors)", flush=True)
        if name == "server":
            bench_server(arguments)
        elif name in SCRIPTS + ONLY_WHEN_NAMED:
            command = [sys.executable, HERE / f"{name}.py", "--binary", arguments.build / "hydrantd", "--model", arguments.model]
            failed += subprocess.run(command).returncode != 0
        else:
            extra = [argument.format(model=arguments.model) for argument in ARGUMENTS.get(name, [])]
            program = arguments.build / "tests" / "bench" / program_of(name)
            failed += subprocess.run([program, *extra]).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
