#!/usr/bin/env python3
"""A chain by `previous_response_id` over restarts: a server with --session-dir is stopped or killed between responses, and the next one
goes on from the id that the client has: the answers are those of a server that was never stopped, and each turn computes what is new.

chain_test.py [--model FILE]; Python's standard library only."""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from server_process import ServerProcess
from shadow import key_flags, parser_of, small_model

TURNS = 6
RESTARTS = (2, 3, 5)  # before these turns
SLACK = 16  # tokens that a turn may compute beside its new ones
POLICIES = {"full": {"policy": "full"}, "evicting": {"policy": "h2o", "budget": 48}}
# How the server ends, its flags, the policies whose KV is there afterwards, those whose answers go on.
WAYS = {
    "stopped": (False, (), POLICIES, POLICIES),
    "killed": (True, ("--session-durability", "kv"), POLICIES, POLICIES),
    "killed without KV": (True, (), (), ("full",)),  # what evicted is computed anew, and may keep other tokens
}


def respond(server, policy, turn, previous):
    body = {"input": f"Tell me more of number {turn}, and of what came before it.", "max_output_tokens": 8, "temperature": 0,
            "kv": POLICIES[policy]}  # fmt: skip
    return server.post("/v1/responses", body | ({"previous_response_id": previous["id"]} if previous else {}))


def text_of(answer):
    return [part["text"] for item in answer["output"] for part in item["content"]]


class Test:
    def __init__(self, binary, model, temp, keys):
        self.binary, self.model, self.temp, self.keys = binary, model, temp, keys

    def server(self, *flags):
        return ServerProcess(self.binary, self.model, ("--threads", 2, "--no-ui", "--max-model-len", 512, *flags))

    def never_stopped(self):
        """The chain's answers, by policy."""
        answers = {policy: [] for policy in POLICIES}
        with self.server() as server:
            for policy, said in answers.items():
                for turn in range(TURNS):
                    said.append(respond(server, policy, turn, said[-1] if said else None))
        return answers

    def restarted(self, way, expected):
        kills, flags, warm, equal = WAYS[way]
        flags = ("--session-dir", f"{self.temp}/{way}", *self.keys, *flags)
        server, last = self.server(*flags), dict.fromkeys(POLICIES)
        try:
            for turn in range(TURNS):
                if turn in RESTARTS:
                    if kills:
                        server.process.kill()
                    server.stop()
                    server = self.server(*flags)
                for policy in POLICIES:
                    before, fact = last[policy], f"{way}, {policy}, turn {turn}"
                    if before:
                        kept = json.loads(server.get(f"/v1/responses/{before['id']}"))
                        assert kept["output"] == before["output"], (fact, before, kept)
                    answer = last[policy] = respond(server, policy, turn, before)
                    usage, never = answer["usage"], expected[policy][turn]
                    assert usage["input_tokens"] == never["usage"]["input_tokens"] or policy not in equal, (fact, usage, never["usage"])
                    assert text_of(answer) == text_of(never) or policy not in equal, (fact, text_of(answer), text_of(never))
                    if before and policy in warm:
                        new = usage["input_tokens"] - before["usage"]["input_tokens"] - before["usage"]["output_tokens"]
                        computed = usage["input_tokens"] - usage["input_tokens_details"]["cached_tokens"]
                        assert computed <= new + SLACK, f"{fact}: {computed} computed of {new} new ones"
        finally:
            server.stop()
        print(f"ok    {way}: chains of {TURNS} go on over {len(RESTARTS)} restarts", flush=True)


def main():
    arguments = parser_of(__doc__).parse_args()
    with small_model(arguments.model) as (temp, model):
        test = Test(arguments.binary, model, temp, key_flags(arguments, temp))
        expected = test.never_stopped()
        for way in WAYS:
            test.restarted(way, expected)


if __name__ == "__main__":
    main()
