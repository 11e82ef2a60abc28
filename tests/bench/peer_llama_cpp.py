"""`./hydrant bench --peer llama.cpp`: prompt processing and decode of the default model, ours and llama.cpp's, in turn, in
one run, with bf16 weights and the same threads.

llama.cpp (llama_cpp_source.py) is built for this machine into build/peer (ten minutes on two cores, once). Its bf16 file
is made from the default model by its own llama-quantize. Both sides start from an empty context; both get their better
setting of flash attention where there is one; medians over the rounds.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

import llama_cpp_source

PROGRAMS = ("llama-bench", "llama-batched-bench", "llama-quantize")
BATCHES = (8, 16, 32)
BATCH_STEPS = 64
# Figures that a decision hangs on: name and the ratio to reach.
GOALS = {"prefill pp512": 1.0, "decode batch 1": 1.0, "decode batch 16": 2.0}


def run(command, log=None, **options):
    if log is None:
        return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout
    with open(log, "a") as file:
        if subprocess.run(command, stdout=file, stderr=file, **options).returncode:
            sys.exit(f"{pathlib.Path(command[0]).name} failed; log: {log}")


def build(arguments):
    """(folder of the programs, bf16 model)."""
    folder = arguments.build.parent / "peer"
    folder.mkdir(parents=True, exist_ok=True)
    log, out = folder / "build.log", folder / "out"
    if not all((out / "bin" / program).exists() for program in PROGRAMS):
        try:
            source = llama_cpp_source.fetch(folder, sys.executable)
        except llama_cpp_source.FetchError as error:
            sys.exit(str(error))
        print("building llama.cpp for this machine (once) …", flush=True)
        flags = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF"]
        off = ("GGML_CCACHE", "LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_SERVER")
        run(["cmake", "-G", "Ninja", "-S", source, "-B", out, *flags, *(f"-D{name}=OFF" for name in off)], log)
        run(["ninja", "-C", out, *PROGRAMS], log)
    model = folder / (arguments.model.stem + ".BF16.gguf")
    if not model.exists():
        partial = model.with_suffix(".partial")
        run([out / "bin" / "llama-quantize", "--allow-requantize", arguments.model, partial, "BF16"], log)
        partial.rename(model)
    return out / "bin", model


def measure_peer(programs, model, threads):
    """{figure: tokens per second}."""
    figures = {}
    for flash in ("0", "1"):
        common = ["-m", model, "-t", str(threads), "-fa", flash]
        for test in json.loads(run([programs / "llama-bench", *common, "-p", "512", "-n", "128", "-r", "3", "-o", "json"])):
            name = f"prefill pp{test['n_prompt']}" if test["n_prompt"] else "decode batch 1"
            figures[name] = max(figures.get(name, 0), statistics.median(test["samples_ts"]))
        batches = ",".join(map(str, BATCHES))
        shape = ["-c", str(max(BATCHES) * (BATCH_STEPS + 32)), "-npp", "1", "-ntg", str(BATCH_STEPS), "-npl", batches]
        output = run([programs / "llama-batched-bench", *common, *shape, "--output-format", "jsonl"])
        for test in (json.loads(line) for line in output.splitlines() if line.startswith("{")):
            name = f"decode batch {test['pl']}"
            figures[name] = max(figures.get(name, 0), test["speed_tg"])
    return figures


def measure_ours(arguments, threads, report):
    program = arguments.build / "tests" / "bench" / "model_bench"
    run([program, arguments.model, "--threads", str(threads), "--dtype", "bfloat16", "--only", "pp,tg", "--json", report])
    return {name: entry["value"] for name, entry in json.loads(report.read_text()).items()}


def compare(arguments):
    programs, model = build(arguments)
    threads = arguments.threads or len(os.sched_getaffinity(0))
    ours, theirs = {}, {}
    for round_index in range(arguments.rounds):
        print(f"round {round_index + 1} of {arguments.rounds} (load {os.getloadavg()[0]:.1f}) …", flush=True)
        for name, value in measure_ours(arguments, threads, model.with_suffix(".ours.json")).items():
            ours.setdefault(name, []).append(value)
        for name, value in measure_peer(programs, model, threads).items():
            theirs.setdefault(name, []).append(value)
    print(f"\n{arguments.model.stem}, weights bf16 on both sides, {threads} threads, medians of {arguments.rounds} rounds, tok/s")
    print(f"{'':<18} {'hydrant':>10} {'llama.cpp':>10} {'ratio':>7} {'goal':>6}")
    reached = True
    for name in [name for name in ours if name in theirs]:
        pairs = [mine / other for mine, other in zip(ours[name], theirs[name])]
        ratio, goal = statistics.median(pairs), GOALS.get(name)
        verdict = "" if goal is None else f"{'>' if goal == 1 else '>='} {goal:g}  {'ok' if ratio >= goal else 'MISSED'}"
        reached &= goal is None or ratio >= goal
        print(f"{name:<18} {statistics.median(ours[name]):>10.1f} {statistics.median(theirs[name]):>10.1f} {ratio:>7.2f} {verdict:>6}")
    return 0 if reached else 1
