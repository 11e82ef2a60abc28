#!/usr/bin/env python3
"""Draws the two pictures of docs/scaling.md: the steps from one box to a cluster, and what a session loses with its replica.

    scaling.py            writes scaling_steps.svg and scaling_loss.svg
    scaling.py --check    exits 1 if they are not what this draws

The figures are those of docs/throughput.md, docs/ray-serve.md, docs/performance.md and docs/gateways.md. Python's standard library only."""

import argparse
import html
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
BLUE, AMBER = "#0969da", "#9a6700"
STYLE = """<style>
  text { font: 13px system-ui, sans-serif; fill: #57606a }
  .title { font-weight: 600; fill: #24292f }
  .box { fill: none; stroke: #57606a; stroke-width: 1.2 }
  .maybe { fill: none; stroke: #57606a; stroke-width: 1.2; stroke-dasharray: 5 4 }
  .line { stroke: #57606a; stroke-width: 1.2; fill: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .title { fill: #f0f6fc }
    .box, .maybe, .line { stroke: #9198a1 }
  }
</style>"""

# A step: its name, when to take it, what was measured, and how its picture looks: chats per server, servers, is there a gateway,
# does the number of servers change.
STEPS = (
    ("one server", "it fits", "4 long chats: 50 tok/s", (4,), False, False),
    ("budgets", "the pool is full", "the same 4: 305 tok/s", (16,), False, False),
    ("replicas, a gateway", "the device is busy", "one hop more", (16, 16, 16), True, False),
    ("Ray Serve", "the load comes and goes", "+4.6 ms to the first event", (16, 16, 16), True, True),
)
PANEL, HEIGHT = 200, 268


def svg(width, height, label, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(label)}">'
    return "\n".join([head, STYLE, *parts, "</svg>"]) + "\n"


def text(x, y, words, anchor="middle", kind=""):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{kind}>{html.escape(words)}</text>'


def server(x, y, chats, kind):
    """A box with a square for each chat whose KV it holds; large ones where each keeps all of its past."""
    out = [f'<rect x="{x - 24}" y="{y}" width="48" height="48" rx="5" class="{kind}"/>']
    across = 2 if chats <= 4 else 4
    side = 40 // across
    for i in range(chats):
        left, top = x - 20 + side * (i % across), y + 4 + side * (i // across)
        out.append(f'<rect x="{left + 1}" y="{top + 1}" width="{side - 2}" height="{side - 2}" fill="{AMBER if across == 2 else BLUE}"/>')
    return out


def steps():
    out = []
    for i, (name, when, measured, servers, gateway, changing) in enumerate(STEPS):
        middle = PANEL * i + PANEL // 2
        out += [text(middle, 28, name, kind="title"), text(middle, 48, when)]
        places = [middle + 58 * (n - (len(servers) - 1) / 2) for n in range(len(servers))]
        if gateway:
            out.append(f'<rect x="{middle - 44}" y="72" width="88" height="26" rx="5" class="box"/>')
            out.append(text(middle, 90, "gateway" if not changing else "Serve"))
            out += [f'<path d="M{middle} 98 L{place:g} 148" class="line"/>' for place in places]
        for n, (place, chats) in enumerate(zip(places, servers)):
            out += server(int(place), 150, chats, "maybe" if changing and n else "box")
        out.append(text(middle, 232, measured))
        if i:
            out.append(f'<path d="M{PANEL * i - 12} 174 h20 m-6 -5 l6 5 l-6 5" class="line"/>')
    return svg(PANEL * len(STEPS), HEIGHT, "One server, budgets, replicas behind a gateway, Ray Serve", out)


def bar(y, name, parts):
    """`parts`: (width, colour, words in it)."""
    out, x = [text(178, y + 17, name, "end")], 190
    for width, colour, words in parts:
        out.append(f'<rect x="{x}" y="{y}" width="{width:g}" height="24" fill="{colour}"/>')
        left, style = (x + 8, ' style="fill:#fff"') if width > 100 else (x + width + 8, "")
        out.append(f'<text x="{left:g}" y="{y + 17}"{style}>{html.escape(words)}</text>')
        x += width
    return out


def loss():
    scale = 560 / 90
    out = [text(190, 24, "90 sessions on three replicas of Ray Serve", "start", "title")]
    out += bar(36, "all three", [(90 * scale, BLUE, "90 have their KV")])
    out += bar(68, "one has left", [(60 * scale, BLUE, "60 stayed, with their KV"), (30 * scale, AMBER, "30 moved, without it")])
    out += bar(100, "it is back", [(90 * scale, BLUE, "all 90 are where they were")])
    out.append(text(190, 160, "seconds to the first token of a turn with 1,960 tokens of past", "start", "title"))
    scale = 560 / 2.59
    out += bar(172, "its KV is there", [(0.17 * scale, BLUE, "0.17")])
    out += bar(204, "computed anew", [(2.59 * scale, AMBER, "2.59")])
    return svg(800, 250, "What a session loses when its replica goes", out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="writes nothing; exits 1 if the pictures are others")
    check = parser.parse_args().check
    wrong = []
    for name, picture in (("scaling_steps.svg", steps()), ("scaling_loss.svg", loss())):
        path = HERE / name
        if not check:
            path.write_text(picture)
        elif not path.exists() or path.read_text() != picture:
            wrong.append(name)
    for name in wrong:
        print(f"{name} is not what docs/pictures/scaling.py draws: run it")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
