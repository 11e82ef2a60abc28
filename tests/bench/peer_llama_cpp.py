"""`./hydrant bench --peer llama.cpp`: prompt processing and decode, ours and llama.cpp's, in turn, in one run, with the same
threads: the default model and, where it has been fetched, Qwen2.5 Coder 1.5B, whose weights fit no cache.

Ours has the weights as `--dtype auto` has them. llama.cpp is measured with the same file and with what its own llama-quantize
makes of it (FORMATS): each figure is compared with the best of these. It is built for this machine, or for `--isa`, into
build/peer (llama_cpp_source.py; ten minutes on two cores, once). Both sides start from an empty context; llama.cpp gets its
better setting of flash attention where there is one; medians over the rounds.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

import llama_cpp_source

PROGRAMS = ("llama-bench", "llama-batched-bench", "llama-quantize")
LARGE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
STORED = "stored"  # the file as it is
FORMATS = (STORED, "Q4_0", "BF16")
BATCHES = (8, 16, 32)
BATCH_STEPS = 64
# The ratio to reach, to the best of llama.cpp's formats: {figure: (default model, the large one)}.
GOALS = {
    "prefill pp512": (1.0, 1.0), "decode batch 1": (1.5, 1.2), "decode batch 8": (2.0, 2.0), "decode batch 16": (2.0, 2.0),
    "decode batch 32": (2.0, 2.0),
}  # fmt: skip
STORED_GOALS = {"prefill pp512": 1.8}  # and to llama.cpp with the same file
# How llama.cpp is told what HYDRANT_CPU_ISA tells us; None: all that this machine has.
ISA_FLAGS = {
    None: ["-DGGML_NATIVE=ON"],
    "avx2": ["-DGGML_NATIVE=OFF", *(f"-DGGML_{name}=ON" for name in ("SSE42", "AVX", "AVX2", "FMA", "F16C", "BMI2"))],
}

NO_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"


def run(command, log=None, **options):
    if log is None:
        return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout
    with open(log, "a") as file:
        if subprocess.run(command, stdout=file, stderr=file, **options).returncode:
            sys.exit(f"{pathlib.Path(command[0]).name} failed; log: {log}")


def built(folder, name, flags, programs=PROGRAMS):
    """The folder of the peer's programs, built with `flags` unless they are there."""
    log, out = folder / "build.log", folder / f"out-{name}"
    if not all((out / "bin" / program).exists() for program in programs):
        try:
            source = llama_cpp_source.fetch(folder, sys.executable)
        except llama_cpp_source.FetchError as error:
            sys.exit(str(error))
        print(f"building llama.cpp ({name}, once) …", flush=True)
        flags = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", *flags]
        off = ("GGML_CCACHE", "LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_SERVER")
        run(["cmake", "-G", "Ninja", "-S", source, "-B", out, *flags, *(f"-D{name}=OFF" for name in off)], log)
        run(["ninja", "-C", out, *programs], log)
    return out / "bin"


def build(arguments):
    """The folder of the peer's programs."""
    folder = arguments.build.parent / "peer"
    folder.mkdir(parents=True, exist_ok=True)
    name, flags = arguments.isa or "native", ISA_FLAGS[arguments.isa]
    programs = built(folder, name, flags)
    test = [programs / "llama-bench", "-m", arguments.model, "-p", "64", "-n", "1", "-r", "1"]
    if subprocess.run(test, capture_output=True).returncode >= 0:
        return programs
    # Some virtual machines list AMX and cannot run it.
    print(f"llama.cpp ({name}) crashes on this machine; without AMX:", flush=True)
    return built(folder, f"{name}-no-amx", [*flags, *(f"-DCMAKE_{language}_FLAGS={NO_AMX}" for language in ("C", "CXX"))])


def converted(programs, model, kind):
    """The path of `model` in llama.cpp's format `kind`, made once."""
    if kind == STORED:
        return model
    folder = programs.parents[1]
    path = folder / f"{model.stem}.{kind}.gguf"
    if not path.exists():
        partial = path.with_suffix(".partial")
        run([programs / "llama-quantize", "--allow-requantize", model, partial, kind], folder / "build.log")
        partial.rename(path)
    return path


def measure_peer(programs, model, threads):
    """{figure: tokens per second}."""
    figures = {}
    for flash in ("0", "1"):
        common = ["-m", model, "-t", str(threads), "-fa", flash]
        for test in json.loads(run([programs / "llama-bench", *common, "-p", "512", "-n", "64", "-r", "3", "-o", "json"])):
            name = f"prefill pp{test['n_prompt']}" if test["n_prompt"] else "decode batch 1"
            figures[name] = max(figures.get(name, 0), statistics.median(test["samples_ts"]))
        batches = ",".join(map(str, BATCHES))
        shape = ["-c", str(max(BATCHES) * (BATCH_STEPS + 32)), "-npp", "1", "-ntg", str(BATCH_STEPS), "-npl", batches]
        output = run([programs / "llama-batched-bench", *common, *shape, "--output-format", "jsonl"])
        for test in (json.loads(line) for line in output.splitlines() if line.startswith("{")):
            name = f"decode batch {test['pl']}"
            figures[name] = max(figures.get(name, 0), test["speed_tg"])
    return figures


def measure_ours(arguments, model, threads, report):
    """{figure: (tokens per second, fraction of the machine's limit)}, and the line that names weights and limits."""
    program = arguments.build / "tests" / "bench" / "model_bench"
    environment = os.environ | ({"HYDRANT_CPU_ISA": arguments.isa} if arguments.isa else {})
    output = run([program, model, "--threads", str(threads), "--only", "pp,tg", "--json", report], env=environment)
    entries = json.loads(report.read_text()).items()
    return {name: (entry["value"], entry["value"] / entry["limit"]) for name, entry in entries if entry["limit"]}, output.splitlines()[0]


def compare_model(arguments, programs, model, goal_index):
    """Prints the table of one model; whether every goal is reached."""
    threads = arguments.threads or len(os.sched_getaffinity(0))
    files = {kind: converted(programs, model, kind) for kind in arguments.formats}
    ours, theirs = {}, {kind: {} for kind in files}
    for round_index in range(arguments.rounds):
        print(f"{model.stem}: round {round_index + 1} of {arguments.rounds} (load {os.getloadavg()[0]:.1f}) …", flush=True)
        measured, machine = measure_ours(arguments, model, threads, programs.parents[1] / "ours.json")
        for name, value in measured.items():
            ours.setdefault(name, []).append(value)
        for kind, file in files.items():
            for name, value in measure_peer(programs, file, threads).items():
                theirs[kind].setdefault(name, []).append(value)
    print(f"\n{model.stem}, {threads} threads, medians of {arguments.rounds} rounds, tokens per second\n{machine}")
    print(f"{'':<16}{'hydrant':>9}{'of limit':>9}" + "".join(f"{'llama.cpp ' + kind:>18}" for kind in files) + f"{'to the best':>13}  goal")
    reached = True
    for name in (name for name in ours if all(name in of_kind for of_kind in theirs.values())):
        value, fraction = (statistics.median(column) for column in zip(*ours[name]))
        peers = [statistics.median(of_kind[name]) for of_kind in theirs.values()]
        ratio, goal = value / max(peers), GOALS[name][goal_index]
        verdict = f">= {goal:g}  {'ok' if ratio >= goal else 'MISSED'}"
        print(f"{name:<16}{value:>9.1f}{100 * fraction:>7.0f} %" + "".join(f"{peer:>18.1f}" for peer in peers) + f"{ratio:>13.2f}  {verdict}")
        reached &= ratio >= goal
        if name in STORED_GOALS and STORED in theirs:
            ratio, goal = value / statistics.median(theirs[STORED][name]), STORED_GOALS[name]
            print(f"{'':<16}{'to the same file':>{18 + 18 * len(peers)}}{ratio:>13.2f}  >= {goal:g}  {'ok' if ratio >= goal else 'MISSED'}")
            reached &= ratio >= goal
    return reached


def compare(arguments):
    programs = build(arguments)
    large = arguments.model.parent / LARGE
    reached = compare_model(arguments, programs, arguments.model, 0)
    if large.exists():
        print()
        reached &= compare_model(arguments, programs, large, 1)
    else:
        print(f"\nNot compared: {large.name}, which is not there. `./hydrant fetch qwen2.5-coder-1.5b` brings it.")
    return 0 if reached else 1
