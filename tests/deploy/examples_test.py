#!/usr/bin/env python3
"""What README.md and docs/*.md tell to type is answered: every curl in their fenced blocks runs against the real server with the
default model, and every model that they name is served. Those in Python run where their packages are (tests/clients)."""

import json
import re
import shutil
import struct
import tempfile

from serving import BINARY, DEFAULT_MODEL, ServerProcess, expect, folder, skip, small_model

from doc_examples import PAGES, SERVER, blocks, commands, run

MODEL = re.compile(r"""\bmodel"?\s*[=:]\s*"([^"]+)\"""")  # in Python, and in JSON
HIDDEN = 576  # of the default model


def adapter(path):
    """The adapter of docs/adapters.md: of rank 1, on the first layer's queries, that changes nothing."""
    path.mkdir(exist_ok=True)
    (path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]}))
    head, data = {}, b""
    for name, shape in (("A", [1, HIDDEN]), ("B", [HIDDEN, 1])):
        tensor = f"base_model.model.model.layers.0.self_attn.q_proj.lora_{name}.weight"
        head[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * HIDDEN]}
        data += bytes(4 * HIDDEN)
    text = json.dumps(head).encode()
    (path / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def check_curls(addresses, path):
    # What a socket answers is told on a page whose setup no server here has.
    curls = [example for page in PAGES for example in commands(page, lambda line: line.startswith("curl ") and "--unix-socket" not in line)]
    expect(len(curls) >= 8, "there are examples to run", [example.where for example in curls])
    for example in curls:
        expect(any(written in example.text for written in addresses), f"{example.where} asks a server of this test", example.text)
        done = run(example.at(addresses), path)
        answered = done.returncode == 0 and '"error":{' not in done.stdout
        expect(answered, f"{example.where} is answered", done.stdout + done.stderr)
        if example.where.startswith("docs/chats.md"):
            choice = json.loads(done.stdout)["choices"][0]
            (call,) = choice["message"]["tool_calls"]
            whole = choice["finish_reason"] != "tool_calls" or list(json.loads(call["function"]["arguments"])) == ["place"]
            expect(call["function"]["name"] == "weather" and whole, "with the call that it asks for", choice)
        if example.where.startswith("docs/structured.md"):
            choice = json.loads(done.stdout)["choices"][0]
            text = choice["message"]["content"]
            if choice["finish_reason"] == "stop":  # one that `max_tokens` cuts is no whole JSON
                expect(list(json.loads(text)) == ["name", "people"], "in the form that it asks for", text)


def check_models(served):
    for page in PAGES:
        for block in blocks(page):
            if any(written in block.text for written in SERVER):
                for name in MODEL.findall(block.text):
                    expect(name in served, f"{block.where} names a model that is served, {name}", served)


def main():
    if not shutil.which("curl"):
        skip("there is no curl")
    path = folder("examples")
    small, pool = small_model(path), ("--num-gpu-blocks-override", 512)
    # docs/sessions.md moves a session from one server to another, by an operator whose keys these are.
    keys = ("--api-key", "KEY", "--admin-api-key", "ADMIN-KEY")
    short = ("--override-generation-config", '{"max_new_tokens": 64}')  # of chats that do not say how long they are to be
    calls = ("--tool-call-parser", "hermes")  # as docs/chats.md says
    flags = ("--enable-lora", "--lora-modules", f"poet={adapter(path / 'poet')}", "--max-model-len", 2048, *short, *calls, *pool)
    with (
        tempfile.TemporaryDirectory(dir=path) as work,
        ServerProcess(BINARY, DEFAULT_MODEL, flags) as server,
        ServerProcess(BINARY, small, ("--admin-port", 0, *keys, *pool)) as a,
        ServerProcess(BINARY, small, (*pool, "--api-key", "KEY")) as b,
    ):
        admin = next(match[1] for line in a.log if (match := re.search(r"admin listener on (http://\S+)", line)))
        for number in range(7):  # the page's session has had as many turns
            turn = json.dumps({"session_id": "chat-1", "session_append": number > 0, "prompt": "a", "max_tokens": 1})
            done = run(f"curl {a.base}/v1/completions -H 'Authorization: Bearer KEY' -H 'Content-Type: application/json' -d '{turn}'", work)
            expect(done.returncode == 0, "a turn of the session that is moved", done.stdout)
        addresses = {written: server.base for written in SERVER}
        addresses |= {"http://a:8000": a.base, "http://b:8000": b.base, "http://a:9000": admin}
        check_curls(addresses, work)
        check_models([model["id"] for model in json.loads(server.get("/v1/models"))["data"]])


if __name__ == "__main__":
    main()
