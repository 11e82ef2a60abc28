#!/usr/bin/env python3
"""`--weights-memory` (docs/streaming-weights.md) with the real binary: answers are those of weights in memory, an image that is damaged is an
error until it is mended, and sessions go on after a restart. Python's standard library only."""

import concurrent.futures
import json
import pathlib
import sys
import tempfile
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "deploy"))

from serving import BINARY, ServerProcess, expect, folder, small_model
from server_process import made_up_ids

PAGE = 16384  # has a checksum of its own
SERVER = ("--threads", 1, "--max-model-len", 512, "--num-gpu-blocks-override", 256, "--no-ui")
SAID = {"temperature": 0, "ignore_eos": True, "return_token_ids": True, "logprobs": 3}


def ask(server, **body):
    """(status, answer) of a completion."""
    request = urllib.request.Request(server.base + "/v1/completions", json.dumps(SAID | body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def what_it_said(answer):
    choice = answer[1]["choices"][0]
    return choice["token_ids"], choice["logprobs"]


def ask_six(server):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = pool.map(lambda i: ask(server, prompt=made_up_ids(i, 20 + 9 * i), max_tokens=12), range(6))
    return [what_it_said(answer) for answer in answers]


def take_turns(server, first, **more):
    """Two turns of a session: [(what it said, tokens that were not computed, its turn)]."""
    answers = [
        ask(server, prompt=made_up_ids(50 + turn, 60), max_tokens=8, session_id="chat", session_append=turn > 1, **more)
        for turn in (first, first + 1)
    ]
    return [(what_it_said(one), one[1]["usage"]["prompt_tokens_details"]["cached_tokens"], one[1]["hydrant"]["turn"]) for one in answers]


def check_damage(server, image):
    whole = image.read_bytes()
    with open(image, "r+b") as file:
        for at in range(PAGE, len(whole), PAGE):  # behind its head
            file.seek(at)
            file.write(bytes([whole[at] ^ 1]))
    status, answer = ask(server, prompt=made_up_ids(1, 8), max_tokens=4)
    expect((status, answer.get("error", {}).get("code")) == (503, "weights_unreadable"), "a damaged image is an error", (status, answer))
    with open(image, "r+b") as file:
        file.write(whole)
    status, answer = ask(server, prompt=made_up_ids(1, 8), max_tokens=4)
    expect(status == 200, "and none once it is mended", (status, answer))


def main():
    model = small_model(folder("streaming"))
    with tempfile.TemporaryDirectory(prefix="hydrant-streaming-") as name:
        place = pathlib.Path(name)
        streamed = (*SERVER, "--weights-memory", 1_000_000, "--weights-image-dir", place)
        h2o = {"kv": {"policy": "h2o", "budget": 48}}
        with ServerProcess(BINARY, model, SERVER) as server:
            answers, turns = ask_six(server), take_turns(server, 1, **h2o) + take_turns(server, 3)
        expect(len({str(answer) for answer in answers}) == 6, "six prompts have six answers")
        with ServerProcess(BINARY, model, streamed) as server:
            expect(ask_six(server) == answers, "tokens and log-probabilities are those of weights in memory")
            expect(server.metric("hydrant_weights_read_bytes_total") > 0, "and the weights were read")
            (image,) = place.glob("*.hydrant-image")
            check_damage(server, image)
            expect(ask_six(server) == answers, "and what is said then is what was said before")
        kept = (*streamed, "--session-dir", place / "sessions")
        with ServerProcess(BINARY, model, kept) as server:
            found = take_turns(server, 1, **h2o)
        with ServerProcess(BINARY, model, kept) as server:
            found += take_turns(server, 3)
        expect(found == turns, "a session goes on after a restart, with its KV", [(cached, turn) for _, cached, turn in found])


if __name__ == "__main__":
    main()
