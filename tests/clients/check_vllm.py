"""vLLM's `vllm bench serve`: both backends run against us without a failed request, its token counts are the server's, and
on the same prompts hydrant-loadgen measures what it measures, within 10 %."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import local_tokenizer
from client_server import MODEL, require, serve

REQUESTS = 8
OUTPUT_TOKENS = 16


def run(server, folder, backend, path):
    subprocess.run(
        [pathlib.Path(sys.executable).parent / "vllm", "bench", "serve", "--base-url", server.base, "--model", MODEL,
         "--backend", backend, "--endpoint", path, "--tokenizer", str(folder), "--dataset-name", "random",
         "--random-input-len", "64", "--random-output-len", str(OUTPUT_TOKENS), "--num-prompts", str(REQUESTS),
         "--request-rate", "inf", "--ignore-eos", "--save-result", "--result-dir", str(folder), "--result-filename", "r.json"],
        check=True, timeout=600,
    )  # fmt: skip
    return json.loads((folder / "r.json").read_text())


ROUNDS = 2
TOLERANCE = 0.10
# What both clients call it, and the server's histogram of the same.
COMPARED = {
    "mean_ttft_ms": "time_to_first_token_seconds",
    "mean_tpot_ms": "inter_token_latency_seconds",
    "mean_e2el_ms": "e2e_request_latency_seconds",
}


def same_load(server, folder):
    """The flags both programs take; the prompts are a file's, so that they are the same."""
    prompts = folder / "prompts.json"
    words = "time people water year house world school point home hand number light story young city".split()
    chats = [
        {"conversations": [{"from": "human", "value": " ".join(words[(i + j * j) % len(words)] for j in range(120))},
                           {"from": "gpt", "value": "an answer long enough"}]}
        for i in range(12)
    ]  # fmt: skip
    prompts.write_text(json.dumps(chats))
    return [
        "--base-url", server.base, "--model", MODEL, "--backend", "openai", "--dataset-name", "sharegpt", "--dataset-path",
        str(prompts), "--sharegpt-output-len", "24", "--num-prompts", str(len(chats)), "--max-concurrency", "2",
        "--ignore-eos", "--temperature", "0", "--save-result", "--result-dir", str(folder),
    ]  # fmt: skip


def measured_by_server(server):
    return [(server.metric(f"vllm:{name}_sum"), server.metric(f"vllm:{name}_count")) for name in COMPARED.values()]


def compare_with_loadgen(folder):
    """In turn, each figure in terms of what the server measured of the same run: a machine that others use is never the same
    twice, but a client that is right is right about either run."""
    vllm = pathlib.Path(sys.executable).parent / "vllm"
    loadgen = os.environ.get("LOADGEN", pathlib.Path(os.environ["HYDRANTD"]).parent / "hydrant-loadgen")
    commands = {
        "vllm": [vllm, "bench", "serve", "--endpoint", "/v1/completions", "--tokenizer", str(folder),
                 "--percentile-metrics", "ttft,tpot,itl,e2el"],
        "loadgen": [loadgen],
    }  # fmt: skip
    ratios = {name: {figure: [] for figure in COMPARED} for name in commands}
    tokens = {}
    with serve("--no-enable-prefix-caching") as server:
        flags = same_load(server, folder)
        subprocess.run([loadgen, *flags, "--result-filename", "r.json"], check=True, timeout=600)  # warms the server up
        for _ in range(ROUNDS):
            for name, command in commands.items():
                before = measured_by_server(server)
                subprocess.run([*command, *flags, "--result-filename", "r.json"], check=True, timeout=600)
                result = json.loads((folder / "r.json").read_text())
                tokens[name] = result["total_input_tokens"], result["total_output_tokens"]
                for figure, was, now in zip(COMPARED, before, measured_by_server(server)):
                    ratios[name][figure].append(result[figure] / 1e3 / ((now[0] - was[0]) / (now[1] - was[1])))
    require(tokens["vllm"] == tokens["loadgen"], "both count the same tokens", tokens)
    for figure in COMPARED:
        theirs, ours = (statistics.mean(ratios[name][figure]) for name in ("vllm", "loadgen"))
        fact = f"{figure}, of the server's: vLLM {theirs:.3f}, loadgen {ours:.3f}, {ours / theirs:.3f}"
        require(abs(ours / theirs - 1) <= TOLERANCE, fact)


def main():
    with tempfile.TemporaryDirectory() as name, serve() as server:
        folder = local_tokenizer.write(name)
        for backend, path in (("openai", "/v1/completions"), ("openai-chat", "/v1/chat/completions")):
            before = server.metric("vllm:generation_tokens_total")
            result = run(server, folder, backend, path)
            require(result["completed"] == REQUESTS, f"{backend}: every request succeeds", result.get("errors"))
            require(
                result["total_output_tokens"] == REQUESTS * OUTPUT_TOKENS, f"{backend}: every token arrives",
                result["total_output_tokens"],
            )  # fmt: skip
            served = server.metric("vllm:generation_tokens_total") - before
            require(served >= REQUESTS * OUTPUT_TOKENS, f"{backend}: the server counted them", served)
            require(0 < result["median_ttft_ms"] < 60_000, f"{backend}: it saw first tokens", result["median_ttft_ms"])
    with tempfile.TemporaryDirectory() as name:
        compare_with_loadgen(local_tokenizer.write(name))


if __name__ == "__main__":
    main()
