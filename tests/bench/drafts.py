#!/usr/bin/env python3
"""`./hydrant bench drafts`: what drafts bring, through the real server, one request at a time: tokens a second with --speculative-config and without,
of tasks whose answers quote their prompts and of open chats. Every request goes to both servers, one after the other, in turns
of who is first; the answers have to be the same, and the best rounds are compared: others on the machine only make them
slower. Standard library only."""

import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import server_process

ANSWER = 160
TEXT = """The harbour master keeps a list of every boat that leaves before sunrise, with the name of its owner and the
colour of its sail. On Tuesday the red sail of Anna Berg was the first to pass the lighthouse, and the old trawler of
the brothers Lund followed an hour later with its nets still wet. Nobody saw the grey cutter come back, though its
bell was heard in the fog at noon, and the baker says that he sold two loaves to a sailor whom he did not know."""
CODE = """def total_price(items, discount):
    total = 0
    for item in items:
        price = item["price"] * item["count"]
        if item["category"] == "book":
            price = price * 0.9
        total = total + price
    if discount > 0:
        total = total - total * discount
    return round(total, 2)
"""
QUOTES = {
    "repeat": f"Repeat the following text word for word.\n\n{TEXT}",
    "copy": f"Copy this text exactly as it is, and write nothing else:\n\n{TEXT}",
    "code": f"Rewrite this function with the name final_price, and change nothing else:\n\n{CODE}",
    "correct": f"Write this text again and replace 'Tuesday' by 'Friday':\n\n{TEXT}",
}
CHATS = {
    "story": "Tell me a short story about a lighthouse keeper.",
    "advice": "How can I sleep better at night?",
    "explain": "Explain in a few paragraphs how a steam engine works.",
    "opinion": "What makes a good teacher?",
    "plan": "Plan a weekend in Lisbon for two people who love food.",
    "letter": "Write a letter to a landlord about a broken heater.",
}


def ask(server, question, temperature, kv):
    """(tokens a second behind the first, the answer's ids)"""
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": ANSWER, "temperature": temperature, "kv": kv}
    body |= {"stream": True, "return_token_ids": True, "seed": 7}
    first, tokens = None, []
    with server.open("/v1/chat/completions", body) as response:
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                tokens += choice.get("token_ids") or []
            if tokens and first is None:
                first, before = time.monotonic(), len(tokens)
    return (len(tokens) - before) / (time.monotonic() - first), tokens


def compare(drafts, plain, arguments, kv):
    for kind, tasks in (("quotes", QUOTES), ("chats", CHATS)):
        ratios = []
        for name, question in tasks.items():
            best = {drafts: 0.0, plain: 0.0}
            for round_ in range(arguments.rounds):
                order = (drafts, plain) if round_ % 2 == 0 else (plain, drafts)
                results = {server: ask(server, question, arguments.temperature, kv) for server in order}
                if results[drafts][1] != results[plain][1]:
                    sys.exit(f"{name}: another answer with drafts")
                best = {server: max(best[server], results[server][0]) for server in best}
            ratios.append(best[drafts] / best[plain])
            print(f"{kind} {name}: {best[drafts]:.0f} and {best[plain]:.0f} tokens/s, {ratios[-1]:.2f}", flush=True)
        print(f"{kind}: median {statistics.median(ratios):.2f}, least {min(ratios):.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=server_process.DEFAULT_BINARY)
    parser.add_argument("--model", default=server_process.DEFAULT_MODEL)
    config = {"method": "ngram", "num_speculative_tokens": 8, "prompt_lookup_max": 5, "prompt_lookup_min": 2}
    parser.add_argument("--config", default=json.dumps(config))
    parser.add_argument("--kv", nargs="+", default=["full", "h2o:128"], help="POLICY or POLICY:BUDGET")
    parser.add_argument("--rounds", type=server_process.count, default=5)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--flags", default="", help="more flags of both servers")
    arguments = parser.parse_args()
    flags = arguments.flags.split()
    drafting = [*flags, "--speculative-config", arguments.config]
    with (
        server_process.ServerProcess(arguments.binary, arguments.model, drafting) as drafts,
        server_process.ServerProcess(arguments.binary, arguments.model, flags) as plain,
    ):
        for setting in arguments.kv:
            policy, _, budget = setting.partition(":")
            print(f"under {policy}" + (f" at {budget} tokens" if budget else ""))
            compare(drafts, plain, arguments, {"policy": policy} | ({"budget": int(budget)} if budget else {}))
        for what in ("drafts", "draft_tokens", "accepted_tokens"):
            print(f"{what}: {drafts.metric(f'vllm:spec_decode_num_{what}_total'):.0f}")


if __name__ == "__main__":
    main()
