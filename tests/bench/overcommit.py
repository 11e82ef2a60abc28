#!/usr/bin/env python3
"""What swap space gives chats that say no `max_tokens`, through the real server on a pool of two contexts: people's first questions
of conversations as they are (../shared/data/bench), all at once, each answered as long as the model likes. Without swap space each
chat reserves the rest of its context. Beside them a tenant that keeps to its share asks for one short answer after the other. Says
how many chats ran at once, tokens a second, swaps a request, what the other tenant's tokens waited for, and whether every answer is
the same text in both. Five minutes; alone on the machine, or the times mean little. Standard library only."""

import argparse
import hashlib
import http.client
import json
import pathlib
import random
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import server_process

CONTEXT = 2048
CONTEXTS = 2  # that the pool holds
BLOCKS = CONTEXTS * CONTEXT // 16 + 32  # and the two tenants' floors
WORDS = 300  # of a question, at most
# Longer than this an answer of a small model only repeats itself. It is the client that leaves then: the server is not told.
ANSWER = 700
KEYS = {"chats": "chats-key", "other": "other-key"}
ADMIN_KEY = "admin-key"
DONE = 0.75  # so many of the chats; later there are too few to fill the pool
DATA = server_process.ROOT.parent / "shared" / "data" / "bench" / "sharegpt_like.json"


class Server(server_process.ServerProcess):
    def __init__(self, arguments, flags):
        tenants = [{"name": name, "api_keys_sha256": [hashlib.sha256(key.encode()).hexdigest()]} for name, key in KEYS.items()]
        with tempfile.TemporaryDirectory(prefix="hydrant-overcommit-") as directory:
            path = pathlib.Path(directory) / "tenants.json"
            path.touch(mode=0o600)
            path.write_text(json.dumps({"tenants": tenants}))
            super().__init__(arguments.binary, arguments.model, [*flags, "--tenants", path, "--admin-port", 0, "--admin-api-key", ADMIN_KEY])
        self.admin = next(line.split()[-1] for line in self.log if "admin listener on" in line)

    def metrics_text(self):
        request = urllib.request.Request(self.admin + "/metrics", headers={"Authorization": f"Bearer {ADMIN_KEY}"})
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.read().decode()

    def stream(self, key, path, body):
        """(seconds, text) of each event of a stream, as they come."""
        connection = http.client.HTTPConnection(self.base.removeprefix("http://"), timeout=600)
        try:
            connection.request("POST", path, json.dumps(body | {"stream": True, "temperature": 0}),
                               {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})  # fmt: skip
            response = connection.getresponse()
            if response.status != 200:
                raise RuntimeError(f"{path}: {response.status} {response.read().decode(errors='replace')}")
            for line in response:
                if line.startswith(b"data: {"):
                    choice = json.loads(line[6:])["choices"][0]
                    yield time.monotonic(), choice.get("text") or choice.get("delta", {}).get("content") or ""
        finally:
            connection.close()


class Chat(threading.Thread):
    def __init__(self, server, question):
        super().__init__(daemon=True)
        self.server, self.question = server, question
        self.times, self.text, self.error, self.left = [], "", None, False
        self.start()

    def run(self):
        try:
            body = {"messages": [{"role": "user", "content": self.question}]}
            for at, text in self.server.stream(KEYS["chats"], "/v1/chat/completions", body):
                if text:
                    self.times.append(at)
                    self.text += text
                if len(self.times) == ANSWER:
                    self.left = True
                    break
        except (OSError, RuntimeError, http.client.HTTPException, KeyError, ValueError) as error:
            self.error = error


class Other(threading.Thread):
    """One answer of 48 tokens after the other; gaps between their tokens."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.gaps, self.stopped = server, [], False
        self.start()

    def run(self):
        number = 0
        while not self.stopped:
            number += 1
            last = None
            body = {"prompt": server_process.made_up_ids(number, 64), "max_tokens": 48, "ignore_eos": True}
            for at, _ in self.server.stream(KEYS["other"], "/v1/completions", body):
                if last is not None:
                    self.gaps.append(at - last)
                last = at


def same(one, other):
    """Whether two chats said the same; a client that leaves may have heard a little more or less of it."""
    if one.left or other.left:
        length = min(len(one.text), len(other.text))
        return length > 0 and one.text[:length] == other.text[:length]
    return one.text == other.text


def questions(count):
    asked = [talk["conversations"][0] for talk in json.loads(DATA.read_text()) if talk["conversations"]]
    asked = [turn["value"] for turn in asked if turn["from"] == "human" and len(turn["value"].split()) <= WORDS]
    return random.Random(1).sample(asked, count)


def run(arguments, flags):
    common = ["--max-model-len", CONTEXT, "--num-gpu-blocks-override", BLOCKS, "--no-enable-prefix-caching"]
    with Server(arguments, [*common, *flags]) as server:
        for _ in server.stream(KEYS["other"], "/v1/completions", {"prompt": [100] * 64, "max_tokens": 8}):
            pass
        other = Other(server)
        began = time.monotonic()
        chats = [Chat(server, question) for question in questions(arguments.chats)]
        at_once = []
        while sum(not chat.is_alive() for chat in chats) < DONE * len(chats):
            text = server.metrics_text()  # one scrape: both figures are of the same moment
            figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
            at_once.append(float(figures['hydrant_running{tenant="chats"}']) - float(figures.get("hydrant_swapped", 0)))
            time.sleep(0.25)
        seconds = time.monotonic() - began
        other.stopped = True
        for chat in chats:
            chat.join()
        other.join()
        tokens = sum(at <= began + seconds for chat in chats for at in chat.times)
        swaps = server.metric("vllm:num_preemptions_total")
    gaps = sorted(other.gaps)
    errors = [chat.error for chat in chats if chat.error]
    return {"at_once": statistics.mean(at_once), "speed": tokens / seconds, "swaps": swaps / len(chats),
            "itl_p99": gaps[int(0.99 * (len(gaps) - 1))], "gap": max(gaps), "chats": chats,
            "longest": max(b - a for chat in chats for a, b in zip(chat.times, chat.times[1:])), "errors": errors}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=server_process.DEFAULT_BINARY)
    parser.add_argument("--model", default=server_process.DEFAULT_MODEL)
    parser.add_argument("--chats", type=int, default=48)
    parser.add_argument("--swap-space", type=float, default=2, metavar="GIB")
    arguments = parser.parse_args()
    if not DATA.exists():
        print(f"skipped: {DATA} is not there")
        return 0
    rows = {}
    print(f"{arguments.chats} chats, a pool of {CONTEXTS} contexts of {CONTEXT} tokens")
    print(f"{'':22} {'chats at once':>13} {'tok/s':>7} {'swaps/chat':>10} {'longest pause s':>15} {'other: ITL p99 ms':>17} {'longest':>8}")
    for label, flags in (("reserving", []), (f"--swap-space {arguments.swap_space:g}", ["--swap-space", arguments.swap_space])):
        row = rows[label] = run(arguments, flags)
        for error in row["errors"]:
            print(f"{label}: {error}", file=sys.stderr)
        print(f"{label:22} {row['at_once']:13.1f} {row['speed']:7.0f} {row['swaps']:10.2f} {row['longest']:15.1f} "
              f"{1e3 * row['itl_p99']:17.0f} {1e3 * row['gap']:8.0f}", flush=True)  # fmt: skip
    before, after = rows.values()
    equal = sum(same(*pair) for pair in zip(before["chats"], after["chats"]))
    figures = [
        ("chats at once", after["at_once"] / before["at_once"], ">= 5", lambda x: x >= 5),
        ("tokens a second", after["speed"] / before["speed"], ">= 3", lambda x: x >= 3),
        ("swaps a chat", after["swaps"], "<= 0.15", lambda x: x <= 0.15),
        ("another tenant's ITL p99", after["itl_p99"] / before["itl_p99"], "<= 1.25", lambda x: x <= 1.25),
        ("answers that are the same", equal / arguments.chats, "1", lambda x: x == 1),
    ]  # fmt: skip
    for what, value, goal, holds in figures:
        print(f"{what:<34} {value:>10.3f} {'':<8} {goal:>10} {'ok' if holds(value) else 'MISSED':>8}")
    return 1 if before["errors"] or after["errors"] or equal < arguments.chats else 0


if __name__ == "__main__":
    sys.exit(main())
