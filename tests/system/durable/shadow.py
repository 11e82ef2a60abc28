"""What the clients of the durability tests share: requests, and what a session has to be. Standard library only."""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.parse

from server_process import DEFAULT_MODEL

TIE = 0.01  # of log-probabilities; what was seen to differ was below 0.001
TURN = {"temperature": 0, "ignore_eos": True, "return_token_ids": True}
KINDS = (
    {"policy": "full"},
    {"policy": "h2o", "budget": 48},
    {"policy": "h2o", "budget": 48, "floor": 16},
    {"policy": "h2o", "budget": 48, "position": "rolling", "prefill": "budgeted"},
)


SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def parser_of(description):
    """An argparse parser with --binary, --model and --sealed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--binary", default=os.environ.get("HYDRANTD", "build/release/hydrantd"))
    parser.add_argument("--model", default=str(DEFAULT_MODEL))
    parser.add_argument("--sealed", action="store_true", help="with --session-key-file")
    return parser


def key_file(folder, *keys):
    """The path of a key file in `folder` with these keys, each the digit that it repeats."""
    path = pathlib.Path(folder, f"keys-{'-'.join(keys)}")
    path.write_text("".join(f"{key * 64}\n" for key in keys))
    path.chmod(0o600)
    return str(path)


def key_flags(arguments, folder):
    """Flags of a server whose directory is encrypted, where that was asked for."""
    return ("--session-key-file", key_file(folder, "a")) if arguments.sealed else ()


@contextlib.contextmanager
def small_model(model):
    """(a folder that goes at the end, the path in it of a tiny network with the tokenizer of `model`); ends the script where there is no such model."""
    if not pathlib.Path(model).exists():
        print("no model to take a tokenizer from")
        sys.exit(SKIPPED)
    maker = pathlib.Path(__file__).resolve().parents[2] / "conformance" / "small_model.py"
    with tempfile.TemporaryDirectory() as temp:
        small = f"{temp}/small.gguf"
        subprocess.run([sys.executable, "-B", maker, model, small], check=True)
        yield temp, small


class Lost(Exception):
    """A promise that was not kept."""


def ask(base, body, headers=None):
    """(status, events or body) of a completion. Raises OSError or http.client.HTTPException when the server goes."""
    url = urllib.parse.urlsplit(base)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        if response.status != 200 or not body.get("stream"):
            return response.status, json.loads(response.read())
        events = []
        for line in response:
            if line.startswith(b"data: {"):
                events.append(json.loads(line[6:]))
            elif line.startswith(b"data: [DONE]"):
                return 200, events
        raise http.client.HTTPException("the stream was cut")
    finally:
        connection.close()


def bare(base, method, path):
    """(status, text) of a request without a body."""
    url = urllib.parse.urlsplit(base)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def get(base, path):
    return json.loads(bare(base, "GET", path)[1])


def delete(base, name):
    status, text = bare(base, "DELETE", f"/v1/sessions/{name}")
    return status, json.loads(text)


def expected(base, tokens, max_tokens, kv):
    """(What is said without sessions, whether it is sure.) A history that was pruned while it grew is another one than the same pruned at
    once: only while nothing is evicted is it sure. A token that was generated and one of a prompt are computed by different
    kernels, whose last bits differ; so where two tokens are about as likely, and with random weights they often are, a session whose
    KV is there may say the other one."""
    status, answer = ask(base, {"prompt": tokens, "max_tokens": max_tokens, "kv": kv, "logprobs": 2, **TURN})
    if status != 200:
        raise RuntimeError(answer)
    choice = answer["choices"][0]
    likeliest = [sorted(top.values())[-2:] for top in choice["logprobs"]["top_logprobs"]]
    evicts = "budget" in kv and len(tokens) + max_tokens > kv.get("floor", kv["budget"])
    return choice["token_ids"], not evicts and all(second < first - TIE for second, first in likeliest)


def tokens_of(base, name):
    """All that the session has said, as the server has it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = get(base, f"/v1/sessions/{name}/kv?after=0")
        if answer.get("error", {}).get("code") != "too_many_kv_requests":
            return answer.get("tokens", [])
        time.sleep(0.1)
    raise Lost(f"{name}: cannot be looked at")
