#!/usr/bin/env python3
"""Draws docs/pictures/memory.svg: KV blocks in use over one generation, with and without H2O, as `/metrics` of the real server tells it.

    docs/pictures/memory_picture.py [--binary build/release/hydrantd] [--model FILE] [--out docs/pictures/memory.svg]

One request at a time: 2,000 prompt tokens, 500 generated. Python's standard library only; a minute."""

import argparse
import json
import pathlib
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ServerProcess

PROMPT_TOKENS, GENERATED, BUDGET = 2000, 500, 256
RUNS = [("full", {"policy": "full"}), ("h2o, budget 256", {"policy": "h2o", "budget": BUDGET})]

TEXT = (
    "The lighthouse keeper wrote down every ship that passed, its flag, its heading and the hour, and when the fog came he "
    "wrote that too. In spring the swallows returned to the eaves, and the notebook filled with weather. "
)


class Recorder:
    """Blocks in use against tokens generated, sampled whenever an event of the stream has arrived and in between."""

    def __init__(self, server):
        self.server, self.tokens, self.running = server, None, True
        self.samples = []  # (tokens generated or None before the first, blocks)
        self.thread = threading.Thread(target=self.sample)

    def sample(self):
        while self.running:
            before = self.tokens
            blocks = int(self.server.metric("hydrant_kv_blocks", state="used"))
            self.samples.append((before, blocks))
            time.sleep(0.005)

    def run(self, ids, kv):
        body = {
            "prompt": ids, "max_tokens": GENERATED, "temperature": 0, "ignore_eos": True, "stream": True,
            "return_token_ids": True, "kv": kv,
        }  # fmt: skip
        self.thread.start()
        with self.server.open("/v1/completions", body) as response:
            for event in response:
                if event.startswith(b"data: {"):
                    choices = json.loads(event[6:])["choices"]
                    self.tokens = (self.tokens or 0) + sum(len(choice.get("token_ids") or []) for choice in choices)
        self.running = False
        self.thread.join()
        return self.curve()

    def curve(self):
        """[(tokens generated, blocks)]: the prompt's peak at 0, then one point per token count that was seen."""
        prompt = [blocks for tokens, blocks in self.samples if tokens is None]
        points = {0: max(prompt, default=0)}
        for tokens, blocks in self.samples:
            if tokens is not None and tokens < GENERATED:
                points[tokens] = max(blocks, points.get(tokens, 0)) if blocks else points.get(tokens, 0)
        return sorted((tokens, blocks) for tokens, blocks in points.items() if blocks)


# --- the picture: 720 x 360, two lines and their names beside them -----------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 56, 130, 30, 46
COLOURS = ["#9a6700", "#0969da"]
STYLE = """<style>
  text { font: 13px system-ui, sans-serif; fill: #57606a }
  .title { font-weight: 600; fill: #24292f }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .title { fill: #f0f6fc } .grid { stroke: #3d444d }
  }
</style>"""


def picture(curves):
    top = max(blocks for _, curve in curves for _, blocks in curve)
    top = -(-top // 20) * 20

    def x(tokens):
        return LEFT + tokens / GENERATED * (WIDTH - LEFT - RIGHT)

    def y(blocks):
        return HEIGHT - BOTTOM - blocks / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="KV blocks in use over a generation">',
        STYLE,
        f'<text class="title" x="{LEFT}" y="18">KV blocks in use: {PROMPT_TOKENS:,} prompt tokens, then {GENERATED} generated</text>',
    ]
    for blocks in range(0, top + 1, 20):
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y(blocks):.1f}" x2="{WIDTH - RIGHT}" y2="{y(blocks):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(blocks) + 4:.1f}" text-anchor="end">{blocks}</text>')
    for tokens in range(0, GENERATED + 1, 100):
        parts.append(f'<text x="{x(tokens):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{tokens}</text>')
    parts.append(f'<text x="{x(GENERATED / 2):.1f}" y="{HEIGHT - 8}" text-anchor="middle">tokens generated</text>')
    for (name, curve), colour in zip(curves, COLOURS):
        points = [f"{x(curve[0][0]):.1f},{y(curve[0][1]):.1f}"]
        for (_, before), (tokens, blocks) in zip(curve, curve[1:]):
            if blocks != before:  # blocks change in steps, not in slopes
                points.append(f"{x(tokens):.1f},{y(before):.1f}")
                points.append(f"{x(tokens):.1f},{y(blocks):.1f}")
        last = curve[-1][1]
        points.append(f"{x(GENERATED):.1f},{y(last):.1f}")
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{x(GENERATED) + 8:.1f}" y="{y(last) + 1:.1f}" style="fill:{colour};font-weight:600">{name}</text>')
        parts.append(f'<text x="{x(GENERATED) + 8:.1f}" y="{y(last) + 17:.1f}">{last} blocks</text>')
    return "\n".join(parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=DEFAULT_BINARY)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "pictures" / "memory.svg")
    arguments = parser.parse_args()
    curves = []
    with ServerProcess(arguments.binary, arguments.model) as server:
        ids = server.post("/tokenize", {"prompt": TEXT * 60})["tokens"][:PROMPT_TOKENS]
        assert len(ids) == PROMPT_TOKENS
        for name, kv in RUNS:
            curves.append((name, Recorder(server).run(ids, kv)))
            print(f"{name}: {curves[-1][1][0][1]} blocks seen during the prompt, {curves[-1][1][-1][1]} at the end")
    arguments.out.write_text(picture(curves))
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
