"""hydrant-loadgen against the real server: its means are those of the server's own histograms within 5 %, its counts are the
server's exactly, and its exit codes are what loadgen/options.h says. Exit 77: skipped, with the reason on the last line."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "clients"))

from client_server import require  # noqa: E402
from server_process import ServerProcess  # noqa: E402

LOADGEN = os.environ.get("LOADGEN", str(ROOT / "build" / "release" / "hydrant-loadgen"))
HYDRANTD = os.environ.get("HYDRANTD", str(ROOT / "build" / "release" / "hydrantd"))
MODEL = pathlib.Path(os.environ.get("HYDRANT_MODEL", ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))
SKIPPED = 77
TOLERANCE = 0.05
# Where both wait for a processor the way there and back is longer, now and then; what is measured wrongly is wrong each time.
TRIES = 5
REQUESTS, INPUT, OUTPUT = 10, 200, 24
HISTOGRAMS = ("time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds")


def loadgen(*flags, **more):
    return subprocess.run([LOADGEN, *map(str, flags)], capture_output=True, text=True, timeout=300, **more)


def histograms(server):
    """name -> (sum in seconds, samples) of what the server measured itself."""
    return {
        name: (server.metric(f"vllm:{name}_sum"), server.metric(f"vllm:{name}_count")) for name in HISTOGRAMS
    } | {"prompt": server.metric("vllm:prompt_tokens_total"), "output": server.metric("vllm:generation_tokens_total")}


def agree(what, client, server):
    """Whether these are the same; says so."""
    same = abs(client / server - 1) <= TOLERANCE
    print(f"{'ok   ' if same else 'apart'} {what}: {client:.3f} here, {server:.3f} there, {client / server:.4f}", flush=True)
    return same


def check_figures(server, folder, backend, flags):
    agreed = any(compare_figures(server, folder, backend, flags) for _ in range(TRIES))
    require(agreed, f"{backend}: the means of one of {TRIES} runs agree")


def compare_figures(server, folder, backend, flags):
    """Whether the means agree; counts must."""
    before = histograms(server)
    path = folder / f"{backend}.json"
    done = loadgen(
        "--base-url", server.base, "--backend", backend, "--num-prompts", REQUESTS, "--input-len", INPUT,
        "--output-len", OUTPUT, "--ignore-eos", "--temperature", 0, "--no-progress", "--lag-limit-ms", 1000,
        "--save-detailed", "--result-filename", path, "--html", folder / f"{backend}.html", *flags,
    )  # fmt: skip
    require(done.returncode == 0, f"{backend} {' '.join(map(str, flags))}: exit 0", done.stderr[-2000:] + done.stdout[-2000:])
    report = json.loads(path.read_text())
    after = histograms(server)
    require(report["completed"] == REQUESTS, "every request succeeds", report["refusals"])
    require(report["total_output_tokens"] == REQUESTS * OUTPUT, "every token is counted", report["total_output_tokens"])
    require(report["total_output_tokens"] == after["output"] - before["output"], "as many as the server generated")
    require(report["total_input_tokens"] == after["prompt"] - before["prompt"], "as many as the server read",
            (report["total_input_tokens"], after["prompt"] - before["prompt"]))  # fmt: skip
    sums = {name: (after[name][0] - before[name][0], after[name][1] - before[name][1]) for name in HISTOGRAMS}
    ttft, itl, e2e = (sums[name] for name in HISTOGRAMS)
    require(ttft[1] == REQUESTS and e2e[1] == REQUESTS, "the server measured them all", sums)
    # A server sends no event for half a character: the gaps add up to the same, divided by tokens on both sides.
    gaps = sum(map(sum, report["itls"]))
    means = [
        ("mean TTFT, ms", report["mean_ttft_ms"], 1e3 * ttft[0] / ttft[1]),
        ("mean ITL, ms", 1e3 * gaps / (REQUESTS * (OUTPUT - 1)), 1e3 * itl[0] / itl[1]),
        ("mean E2E, ms", report["mean_e2el_ms"], 1e3 * e2e[0] / e2e[1]),
    ]
    return all([agree(*mean) for mean in means])


def check_exit_codes(server, folder):
    require(loadgen("--no-such-flag").returncode == 64, "an unknown flag is exit 64")
    refused = loadgen("--base-url", server.base, "--model", "no-such-model", "--num-prompts", 3)
    require(refused.returncode == 1, "nothing succeeded: exit 1", refused.returncode)
    require("3 x http_other" in refused.stdout and "HTTP 404" in refused.stdout, "and why is shown once", refused.stdout)


def check_interrupt(server, folder):
    path = folder / "interrupted.json"
    process = subprocess.Popen(
        [LOADGEN, "--base-url", server.base, "--max-concurrency", "2", "--duration", "60", "--input-len", "8",
         "--output-len", "2", "--ignore-eos", "--result-filename", str(path)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in process.stderr:
        if " s: " in line and "sent" in line:
            break
    process.send_signal(signal.SIGINT)
    process.stderr.read()
    require(process.wait(60) == 0, "Ctrl-C ends the run, which still reports", process.returncode)
    report = json.loads(path.read_text())
    require(report["interrupted"] and report["completed"] > 0, "the report says so", report["completed"])


def main():
    if not MODEL.exists():
        print(f"skipped: there is no model at {MODEL} (./hydrant up fetches it)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name, ServerProcess(HYDRANTD, MODEL, ("--no-enable-prefix-caching",)) as server:
        folder = pathlib.Path(name)
        loadgen("--base-url", server.base, "--num-prompts", 1, "--input-len", 64, "--output-len", 4)  # warms it up
        check_figures(server, folder, "openai", ["--max-concurrency", 2])
        check_figures(server, folder, "openai-chat", ["--request-rate", 4])
        check_exit_codes(server, folder)
        check_interrupt(server, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
