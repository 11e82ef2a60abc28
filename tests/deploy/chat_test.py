#!/usr/bin/env python3
"""`./hydrant chat` as a user has it: against the real server, with lines on its standard input."""

import fcntl
import http.server
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time

from serving import BINARY, ROOT, ServerProcess, expect, folder, small_model

CHAT = ROOT / "deploy" / "clients" / "chat.py"
sys.path.insert(0, str(CHAT.parent))

from chat import CONTROLS, HELP


def chat(base, lines, *flags):
    """(exit status, answers, remarks) of a conversation with these lines."""
    run = subprocess.run([sys.executable, "-B", CHAT, "--url", base, "--temperature", "0", "--max-tokens", "6", *flags],
                         input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=120)  # fmt: skip
    return run.returncode, run.stdout, run.stderr


def check_talk(server):
    code, said, _ = chat(server.base, ["Hello.", "And you?"])
    expect(code == 0 and said.count("\n") >= 2, "every line has an answer", (code, said))
    _, again, _ = chat(server.base, ["Hello.", "/again"])
    first = said.splitlines()[0]
    expect(again.splitlines() == [first, first], "/again answers the same message again", again)
    _, joined, _ = chat(server.base, ["Hello.\\", "What?"])
    expect(joined.count("\n") == 1, "a line that ends with a backslash goes on", joined)
    found = server.metric("vllm:prompt_tokens_by_source_total", source="external_kv_transfer")
    expect(found > 0, "the second turn goes on from the first one's cache", found)


def check_commands(server, path):
    saved = path / "saved.json"
    code, _, told = chat(server.base, ["/budget 32", "Hello.", "/show", f"/save {saved}", "/undo", "/new", f"/load {saved}", "/show"])
    expect(code == 0, "commands do what they say", told)
    expect("The cache keeps 32 tokens." in told and "budget: 32" in told and "tokens held" in told, "the budget is shown", told)
    messages = json.loads(saved.read_text())["messages"]
    expect([message["role"] for message in messages] == ["user", "assistant"], "/save writes the conversation", messages)
    expect("2 messages are there again." in told, "/load reads it", told)
    for line, words in (
        ("/nothing", "There is no command /nothing"), ("/budget x", "/budget wants a number"), ("/undo", "nothing to undo"),
        ("/again", "no message to answer"), ("/load /nowhere", "cannot be read"), ("/save", "into which file"),
    ):  # fmt: skip
        code, said, told = chat(server.base, [line])
        expect(code == 1 and words in told and said == "", f"{line} says what is wrong", told)
    code, _, told = chat(server.base, ["/temperature 9", "Hello.", "/temperature 0", "Hello."])
    expect(code == 1 and "'temperature'" in told and told.count("(400)") == 1, "a refusal is told and forgotten", told)


def check_schema(server, path):
    """/schema holds answers to a file's schema until it is taken back."""
    schema, lax = path / "schema.json", path / "lax.json"
    schema.write_text(json.dumps({"enum": ["yes"]}))
    lax.write_text(json.dumps({"type": "array", "uniqueItems": True}))
    code, said, told = chat(server.base, [f"/schema {schema}", "Hello.", "And you?", "/schema off", "Hello."])
    expect(code == 0 and said.splitlines()[:2] == ['"yes"'] * 2, "answers are JSON of /schema's file", (said, told))
    expect(f"as {schema} has it." in told and "Answers are text." in told and '"yes"' not in said.splitlines()[2:], "until it is off", (said, told))
    code, said, told = chat(server.base, [f"/schema {lax}", "Hello.", "/schema", "Hello."])
    expect(code == 1 and "uniqueItems" in told and told.count("(400)") == 1, "a schema that cannot be kept is told", (said, told))
    code, _, told = chat(server.base, ["/schema /nowhere"])
    expect(code == 1 and "cannot be read" in told, "and a file that is not there", told)


def check_policies(server):
    code, said, told = chat(server.base, ["/policy streaming", "/show", "/policy", "/policy h2o-streaming", "/budget 64", "Hello."])
    expect(code == 1 and "There is no policy streaming here; there are full, h2o," in told, "a policy that is not there is told", told)
    expect("policy: streaming" not in told and "Policy: h2o-streaming." in told, "and changes nothing", told)
    expect("as the server has it. There are full, h2o," in told, "/policy alone says which there are", told)
    expect(said.count("\n") >= 1 and "(400)" not in told, "one of those answers", (said, told))
    code, _, told = chat(server.base, ["Hello."], "--policy", "streaming")
    expect(code == 1 and "no policy streaming here" in told, "--policy is looked at before anything is said", told)
    for name in re.findall(r"\b(?:h2o[a-z0-9-]*|auto|full)\b", next(line for line in HELP.splitlines() if line.startswith("/policy"))):
        expect(name in json.loads(server.get("/v1/models"))["data"][0]["kv_policies"], f"/help names {name}, which is there")


def check_errors(server):
    code, _, told = chat("http://127.0.0.1:9", ["Hello."])
    expect(code == 1 and "./hydrant up" in told, "no server: what to do", told)
    code, _, told = chat(server.base, ["Hello."], "--model", "other")
    expect(code == 1 and "not other" in told, "no such model: which there are", told)


def check_addresses():
    for url in ("ftp://x", "http://x:99999", "http://x:0", "http://x:y", "http://[::1"):
        code, _, told = chat(url, [])
        expect(code == 1 and f"{url} is no address of a server" in told and told.count("\n") == 1, f"{url} is no address", told)


def read_until(terminal, words, seconds=60):
    text, end = "", time.monotonic() + seconds
    while words not in text and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 4096).decode(errors="replace")
    return text


def check_interrupt(server):
    """Ctrl-C ends an answer, not the conversation."""
    terminal, side = pty.openpty()
    process = subprocess.Popen([sys.executable, "-B", CHAT, "--url", server.base, "--temperature", "0"], stdin=side,
                               stdout=side, stderr=side, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # fmt: skip
    os.close(side)
    read_until(terminal, "> ")
    os.write(terminal, b"/max 800\n")
    read_until(terminal, "at most")
    os.write(terminal, b"Hello.\n")
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    expect("stopped" in read_until(terminal, "stopped"), "Ctrl-C stops an answer")
    os.write(terminal, b"/max 3\n")
    read_until(terminal, "at most 3")
    os.write(terminal, b"Hello.\n")
    said = read_until(terminal, "to the first token")
    expect("to the first token" in said, "and the conversation goes on")
    # Before it asks for the next line, what ends the input is not kept for it.
    if "> " not in said.partition("to the first token")[2]:
        read_until(terminal, "> ")
    os.write(terminal, b"\x04")
    expect(process.wait(30) == 0, "Ctrl-D ends it")
    os.close(terminal)


def check_scripted(path):
    """What a real server does too rarely, or never where a test looks: beside scripted answers."""
    bodies, finish = [], ["stop"]

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def reply(self, body):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.reply(json.dumps({"data": [{"id": "m", "kv_block_bytes": 1, "kv_policies": ["h2o", "full"]}]}).encode())

        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            choices = {"delta": {"content": "Half of an"}, "finish_reason": None}, {"delta": {}, "finish_reason": finish[0]}
            self.reply("".join(f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices).encode() + b"data: [DONE]\n\n")

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}"

    code, _, told = chat(base, ["Hello.", "/budget 25O", "Again."], "--budget", "256")
    expect(code == 1 and "wants a number" in told, "a budget that is no number is told", told)
    expect([body.get("kv") for body in bodies] == [{"budget": 256}] * 2, "and changes nothing", bodies)
    expect(bodies[0]["session_id"] == bodies[1]["session_id"], "the session goes on")

    saved = path / "kv.json"
    chat(base, ["Hello.", f"/save {saved}"], "--budget", "64", "--policy", "h2o")
    chat(base, [f"/load {saved}", "More."], "--budget", "256")
    expect(bodies[-1].get("kv") == {"budget": 64, "policy": "h2o"}, "/load takes budget and policy along", bodies[-1])
    saved.write_text(json.dumps({"messages": [], "kv": {"budget": "x"}}))
    code, _, told = chat(base, [f"/load {saved}"])
    expect(code == 1 and "no conversation" in told, "where they are some", told)

    for finish[0] in ("abort", "error"):
        bodies.clear()
        code, _, told = chat(base, ["Hello.", "And?"])
        expect(code == 1 and "The server stopped before the answer ended." in told, f"{finish[0]}: half an answer is none", told)
        expect([message["content"] for message in bodies[-1]["messages"]] == ["And?"], "and no part of the conversation", bodies[-1])
    server.shutdown()
    server.server_close()


def check_controls():
    expect("\x1b[2Ja\x07\x9b\n\tb".translate(CONTROLS) == "[2Ja\n\tb", "an answer cannot command the terminal")


def main():
    path = folder("chat")
    check_controls()
    check_addresses()
    check_scripted(path)
    flags = ("--max-model-len", 1024, "--num-gpu-blocks-override", 512)
    with ServerProcess(BINARY, small_model(path), flags) as server:
        check_talk(server)
        check_commands(server, path)
        check_schema(server, path)
        check_policies(server)
        check_errors(server)
        check_interrupt(server)


if __name__ == "__main__":
    main()
