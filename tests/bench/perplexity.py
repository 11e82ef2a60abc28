"""Perplexity under eviction, measured through the real server: the loss on forced tokens after a prompt, relative to the
same document with nothing evicted. Python's standard library only."""

import json
import math
import pathlib
import statistics
import sys
import zlib

from server_process import ROOT

DATA = ROOT.parent / "shared" / "data" / "bench"
PROMPT = 1024
SCORED = 256
CHAT_CHARACTERS_MIN = 2400
# A document that quotes its own beginning asks for what may be gone: that is recall, and one such document of fourteen moves
# the mean by a tenth. Others quote up to 0.18 of themselves, in the words every text repeats.
QUOTED_MAX = 0.25


def encode(server, text):
    return server.post("/tokenize", {"prompt": text})["tokens"]


def complete(server, ids, count, **fields):
    body = {
        "prompt": ids, "max_tokens": count, "temperature": 0, "ignore_eos": True, "logprobs": 5,
        "return_token_ids": True, **fields,
    }  # fmt: skip
    return server.post("/v1/completions", body)["choices"][0]


def conversations():
    """Long chats in the model's own format, one of each tree of answers. What repeats itself is left out: the model knows
    the next token from the copy above, and the loss says only whether the copy was kept."""
    seen = set()
    for conversation in json.loads((DATA / "sharegpt_like.json").read_text()):
        turns = conversation["conversations"]
        text = "".join(
            f"<|im_start|>{'user' if turn['from'] == 'human' else 'assistant'}\n{turn['value']}<|im_end|>\n" for turn in turns
        )
        if turns[0]["value"] in seen or len(text) < CHAT_CHARACTERS_MIN:
            continue
        # Prose of this length packs to about 0.45 of its size.
        if len(zlib.compress(text.encode())) >= 0.38 * len(text):
            seen.add(turns[0]["value"])
            yield text


def pieces(server, texts, length):
    """Lists of `length` token ids, each from the beginning of a text on, over as many texts as it takes."""
    found, piece = [], []
    for text in texts:
        piece = piece + encode(server, text)
        if len(piece) >= length:
            found.append(piece[:length])
            piece = []
    return found


def documents(server, paths, length, count):
    """At most `count` lists of `length` token ids: half running text, half chats, two or so behind each other. From the
    files `paths` alone where there are any, else from ../shared/data/bench."""
    if not paths and not DATA.is_dir():
        sys.exit(f"no texts: {DATA} does not exist; give --text FILE (each at least {length} tokens)")
    ids = [encode(server, pathlib.Path(path).read_text()) for path in paths or [DATA / "sonnet.txt"]]
    running = [text[i : i + length] for text in ids for i in range(0, len(text) - length + 1, length)]
    chats = [] if paths else pieces(server, conversations(), length)
    half = max(count // 2, count - len(chats))
    chosen = running[:half] + chats[: count - min(half, len(running))]
    if len(chosen) < count:
        print(f"only {len(chosen)} documents of {length} tokens", file=sys.stderr)
    return chosen


def quoted_share(ids):
    """How much of what follows the PROMPT is quoted from it, in runs of four tokens or more."""
    run, prompt, tail = 4, ids[:PROMPT], ids[PROMPT:]
    known = {tuple(prompt[i : i + run]) for i in range(len(prompt) - run + 1)}
    quoted = set()
    for i in range(len(tail) - run + 1):
        if tuple(tail[i : i + run]) in known:
            quoted.update(range(i, i + run))
    return len(quoted) / len(tail)


def server_loss(server, ids, kv):
    """Mean negative log-probability of the tokens after the first PROMPT, in nats."""
    choice = complete(server, ids[:PROMPT], len(ids) - PROMPT, kv=kv, forced_token_ids=ids[PROMPT:])
    assert choice["token_ids"] == ids[PROMPT:]
    return -sum(choice["logprobs"]["token_logprobs"]) / (len(ids) - PROMPT)


def relative(losses, full):
    """(mean, half of the 95 % interval) of the log of the perplexity relative to `full`, over the documents."""
    ratios = [loss - dense for loss, dense in zip(losses, full)]
    if len(ratios) < 2:
        return ratios[0], math.inf
    degrees = len(ratios) - 1
    # Student's t at 97.5 %, by the first term of its expansion around the normal quantile: within 1 % from 8 degrees on.
    normal = 1.96
    quantile = normal + (normal**3 + normal) / (4 * degrees)
    return statistics.mean(ratios), quantile * statistics.stdev(ratios) / math.sqrt(len(ratios))


def write_between(begin, end, text):
    """Puts `text` between two marks of docs/quality.md, in place of what stood there."""
    page = ROOT / "docs" / "quality.md"
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")
