"""Draws docs/pictures/late.svg from kv_recall.py's late questions: sessions that a GiB of the pool holds while they answer against
the share of late questions that they answer, a line per policy, a point per budget."""

import math
import statistics

from quality_picture import STYLE

WIDTH, HEIGHT = 760, 400
TOP, BOTTOM, LEFT, RIGHT = 44, 96, 60, 24
COLOURS = ["#cf222e", "#0969da", "#1b7c83", "#8250df", "#bf8700", "#6e7781"]
TICKS = [10, 20, 50, 100, 200, 500, 1000]
BLOCK_SLOTS = 16


def sessions_per_gib(tokens, block_bytes):
    return (1 << 30) / (math.ceil(tokens / BLOCK_SLOTS) * block_bytes)


def points(cells, block_bytes):
    """{policy: [(sessions per GiB, share answered, budget)]}, ascending; `full` holds its chats as they are when they ask last."""
    found = {}
    for setting in cells[0]:
        policy, budget = setting.split("/")
        rows = [row for cell in cells for row in cell[setting]]
        asked_last = max(row[0] for row in rows)
        tokens = int(budget) + 1 if policy != "full" else statistics.mean(row[4] for row in rows if row[0] == asked_last)
        place = sessions_per_gib(tokens, block_bytes)
        found.setdefault(policy, []).append((place, statistics.mean(row[2] for row in rows), int(budget)))
    return {policy: sorted(of_policy) for policy, of_policy in found.items()}


def x(sessions):
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log(sessions / TICKS[0]) / math.log(TICKS[-1] / TICKS[0])


def y(share, top):
    return HEIGHT - BOTTOM - share / top * (HEIGHT - TOP - BOTTOM)


def axes(top):
    parts = [f'<text class="title" x="{LEFT}" y="20">Share of late questions answered</text>']
    for tenth in range(0, round(10 * top) + 1):
        at = y(tenth / 10, top)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>')
    for tick in TICKS:
        parts.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{tick:,}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - BOTTOM + 40}" text-anchor="middle">sessions per GiB of KV cache while they answer</text>')
    return parts


def draw(cells, block_bytes):
    """`cells`: [{"policy/budget": [[turn, fact, exact, log p, tokens]]}], a context each."""
    every = points(cells, block_bytes)
    place, share, _ = every.pop("full")[0]
    # With room for what is written above a point.
    top = math.ceil(10 * (0.05 + max(of[1] for rows in [*every.values(), [(place, share)]] for of in rows))) / 10
    parts = axes(top)
    parts.append(f'<circle class="mark" cx="{x(place):.1f}" cy="{y(share, top):.1f}" r="5"/>')
    parts.append(f'<text x="{x(place) + 10:.1f}" y="{y(share, top) - 8:.1f}">full: nothing is evicted</text>')
    labelled, left = set(), LEFT
    for number, (policy, rows) in enumerate(every.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x(sessions):.1f},{y(answered, top):.1f}" for sessions, answered, _ in rows)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        for sessions, answered, budget in rows:
            at = x(sessions), y(answered, top)
            parts.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3.5" fill="{colour}"/>')
            if budget not in labelled:
                labelled.add(budget)
                parts.append(f'<text x="{at[0]:.1f}" y="{at[1] - 10:.1f}" text-anchor="middle">{budget}</text>')
        parts.append(f'<line x1="{left}" y1="{HEIGHT - 16}" x2="{left + 22}" y2="{HEIGHT - 16}" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{left + 28}" y="{HEIGHT - 12}">{policy}</text>')
        left += 50 + 8 * len(policy)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="Share of late questions answered against sessions per GiB, by policy">'
    )
    return "\n".join([head, STYLE.replace(".grid", ".mark { fill: #57606a } .grid", 1), *parts]) + "\n</svg>\n"
