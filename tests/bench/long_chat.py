#!/usr/bin/env python3
"""`./hydrant bench long_chat`: what becomes of a chat that outgrows the model's context, through the real server on the
default model. Writes a table into docs/quality.md and the picture docs/pictures/long_chat.svg.

One text of 16,384 tokens, chats behind each other, read as one prompt with `"prefill": "budgeted"`: whatever is above the
budget leaves after every 256 tokens. The perplexity is that of each 1,024 tokens, so a line shows how good an answer at that
place would be. With --decode 1,024 tokens are the prompt and the others are forced one by one, each with its own eviction;
that takes ten minutes on two quiet cores instead of two.

The server refuses absolute positions beyond the context. To see what they would do there, a copy of the model is served whose
file claims a longer context; nothing else in it is changed. Python's standard library only."""

import argparse
import json
import math
import pathlib
import struct
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import chart
import perplexity
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ROOT, ServerProcess

WINDOW = 1024
SETTINGS = {
    "`full`": {"policy": "full"},
    "`h2o`, absolute, 1,024": {"policy": "h2o", "budget": 1024},
    "`h2o`, rolling, 1,024": {"policy": "h2o", "budget": 1024, "position": "rolling"},
    "`h2o`, rolling, 2,048": {"policy": "h2o", "budget": 2048, "position": "rolling"},
    "`h2o-streaming` (2,048)": {"policy": "h2o-streaming"},
    "`sinks`, rolling, 1,024": {"policy": "sinks", "budget": 1024, "position": "rolling"},
}
COLOURS = ["#57606a", "#cf222e", "#0969da", "#1b7c83", "#9a6700", "#8250df"]
BEGIN, END = "<!-- long chat: begin -->", "<!-- long chat: end -->"


def with_context(model, context, directory):
    """A copy of the GGUF file `model` that claims `context` tokens. Returns (path, what the model itself says)."""
    data = bytearray(pathlib.Path(model).read_bytes())
    key = b"llama.context_length"
    # The key, its type (4: a 32-bit number), the number.
    at = data.index(key) + len(key)
    kind, trained = struct.unpack_from("<II", data, at)
    assert kind == 4, "context_length has another type than expected"
    struct.pack_into("<I", data, at + 4, context)
    path = pathlib.Path(directory) / pathlib.Path(model).name
    path.write_bytes(data)
    return path, trained


def forced_logprobs(server, ids, kv):
    """Log-probabilities of ids[WINDOW:], each forced after those before it."""
    body = {
        "prompt": ids[:WINDOW], "max_tokens": len(ids) - WINDOW, "temperature": 0, "ignore_eos": True, "logprobs": 0,
        "forced_token_ids": ids[WINDOW:], "kv": kv, "stream": True,
    }  # fmt: skip
    found = []
    with server.open("/v1/completions", body) as response:
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(event["error"]["message"])
            for choice in event["choices"]:
                found += choice["logprobs"]["token_logprobs"]
    assert len(found) == len(ids) - WINDOW
    return found


def prompt_logprobs(server, ids, kv):
    """Log-probabilities of ids[WINDOW:] as parts of one prompt."""
    if kv["policy"] != "full":
        kv = {**kv, "prefill": "budgeted"}
    body = {"prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 0, "kv": kv}
    return server.post("/v1/completions", body)["choices"][0]["logprobs"]["token_logprobs"][WINDOW : len(ids)]


def windows(logprobs):
    """Perplexity of each WINDOW of tokens."""
    return [
        math.exp(-sum(logprobs[i : i + WINDOW]) / WINDOW) for i in range(0, len(logprobs) - WINDOW + 1, WINDOW)
    ]


def measure(arguments, result):
    """Fills `result`: {"trained": context, "from": first token scored, "lines": {label: [perplexity of each window]}}. What is
    there is not measured again."""
    with tempfile.TemporaryDirectory() as directory:
        model, result["trained"] = with_context(arguments.model, arguments.tokens + WINDOW, directory)
        # Forced tokens are a debugging feature: they come with the dump.
        flags = ["--debug-kv-dump", "/dev/null", "--no-enable-prefix-caching", *arguments.server_flag]
        with ServerProcess(arguments.binary, model, flags) as server:
            texts = [pathlib.Path(path).read_text() for path in arguments.text] or perplexity.conversations()
            pieces = perplexity.pieces(server, texts, arguments.tokens)
            if not pieces:
                sys.exit(f"the text has less than {arguments.tokens} tokens")
            for label, kv in SETTINGS.items():
                if label in result["lines"]:
                    continue
                of = forced_logprobs if arguments.decode and kv["policy"] != "full" else prompt_logprobs
                result["lines"][label] = windows(of(server, pieces[0], kv))
                print(label, [round(value, 2) for value in result["lines"][label]], flush=True)
                if arguments.results:
                    arguments.results.write_text(json.dumps(result))


def table(result):
    count = len(next(iter(result["lines"].values())))
    shown = [i for i in range(count) if (i + 2) % 2 == 0 or i == count - 1]
    ends = [(result["from"] + (i + 1) * WINDOW) // 1024 for i in shown]
    rows = [
        f"Perplexity of the 1,024 tokens up to there; the model was trained for {result['trained']:,} tokens:",
        "", "| |" + "".join(f" {end}k |" for end in ends), "|---|" + "---|" * len(ends),
    ]  # fmt: skip
    for label, values in result["lines"].items():
        rows.append(f"| {label} |" + "".join(f" {values[i]:.1f} |" for i in shown))
    return "\n".join(rows)


def draw(result):
    """A line per setting over the length of the text, perplexity on a logarithmic scale."""
    width, height, left, right, top, bottom = 760, 400, 52, 16, 40, 104
    count = len(next(iter(result["lines"].values())))
    values = [value for line in result["lines"].values() for value in line]
    low, high = min(values) * 0.8, min(max(values) * 1.2, 2e4)
    tokens = result["from"] + count * WINDOW

    def x(position):
        return left + (width - left - right) * (position - result["from"]) / (tokens - result["from"])

    def y(value):
        share = math.log(min(value, high) / low) / math.log(high / low)
        return height - bottom - share * (height - top - bottom)

    parts = [chart.title(left, "Perplexity along a chat (lower is better)")]
    for tick in (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000):
        if low <= tick <= high:
            parts += chart.tick(left, width - right, y(tick), tick)
    for position in range(2048, tokens + 1, 2048):
        parts.append(chart.text(x(position), height - bottom + 20, f"{position // 1024}k", "middle"))
    if result["trained"] < tokens:
        at = x(result["trained"])
        parts.append(f'<line class="full" x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{height - bottom}"/>')
        parts.append(chart.text(at + 6, top + 12, "trained context"))
    for number, (label, line) in enumerate(result["lines"].items()):
        # A window stands at its middle.
        points = [(x(result["from"] + (i + 0.5) * WINDOW), y(value)) for i, value in enumerate(line)]
        parts.append(chart.curve(points, COLOURS[number]))
        column, row = number % 3, number // 3
        at, down = left + column * (width - left) / 3, height - 44 + 22 * row
        parts += chart.key(at, down, COLOURS[number], label.replace("`", ""))
    return chart.picture(width, height, "Perplexity along a chat that outgrows the context of its model", parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=DEFAULT_BINARY)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--text", action="append", default=[], help="a text file instead of ../shared/data/bench")
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--server-flag", action="append", default=[], help="for hydrantd, e.g. --server-flag=--threads=2")
    parser.add_argument("--decode", action="store_true", help="force token after token instead of reading one prompt")
    parser.add_argument("--results", type=pathlib.Path, help="JSON file with what was measured before")
    parser.add_argument("--measure-only", action="store_true", help="leave docs/ alone")
    arguments = parser.parse_args()
    known = arguments.results and arguments.results.exists()
    result = json.loads(arguments.results.read_text()) if known else {"from": WINDOW, "lines": {}}
    measure(arguments, result)
    text = table(result)
    print("\n" + text)
    if arguments.measure_only:
        return
    perplexity.write_between(BEGIN, END, text)
    (ROOT / "docs" / "pictures" / "long_chat.svg").write_text(draw(result))


if __name__ == "__main__":
    main()
