"""GuideLLM: its benchmark runs through both endpoints without an error, and counts what the server counts."""

import json
import pathlib
import subprocess
import sys
import tempfile

import local_tokenizer
from client_server import MODEL, require, serve

REQUESTS = 6


def run(server, folder, request_format):
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    subprocess.run(
        [pathlib.Path(sys.executable).parent / "guidellm", "run",
         "--backend", f"kind=openai_http,target={server.base},model={MODEL},request_format={request_format}",
         "--profile", "kind=concurrent,streams=2", "--constraint", f"kind=max_requests,count={REQUESTS}",
         "--tokenizer", f"kind=huggingface_auto,model={folder}",
         "--data", "kind=synthetic_text,prompt_tokens=64,output_tokens=8",
         "--output", f"kind=json,path={report}", "--disable-console-interactive"],
        check=True, timeout=300,
    )  # fmt: skip
    return json.loads(report.read_text())["benchmarks"][0]["metrics"]["request_totals"]


def main():
    with tempfile.TemporaryDirectory() as name, serve() as server:
        folder = local_tokenizer.write(name)
        for path in ("/v1/completions", "/v1/chat/completions"):
            before = server.metric("vllm:request_success_total")
            totals = run(server, folder, path)
            require(totals["successful"] == REQUESTS and totals["errored"] == 0, f"{path}: every request succeeds", totals)
            served = server.metric("vllm:request_success_total") - before
            require(served >= REQUESTS, f"{path}: the server counted them", served)


if __name__ == "__main__":
    main()
