"""vLLM's `vllm bench serve`: both backends run against us without a failed request, and its token counts are the server's."""

import json
import pathlib
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


if __name__ == "__main__":
    main()
