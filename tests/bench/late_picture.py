"""Draws docs/pictures/late.svg from kv_recall.py's late questions: sessions that a GiB of the pool holds while they answer against
the share of late questions that they answer, a line per policy, a point per budget."""

import math
import statistics

import chart

WIDTH, HEIGHT = 760, 400
TOP, BOTTOM, LEFT, RIGHT = 44, 96, 60, 24
FULL = "#57606a"
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
    parts = [chart.title(LEFT, "Share of late questions answered")]
    for tenth in range(0, round(10 * top) + 1):
        parts += chart.tick(LEFT, WIDTH - RIGHT, y(tenth / 10, top), tenth / 10)
    parts += [chart.text(x(tick), HEIGHT - BOTTOM + 20, f"{tick:,}", "middle") for tick in TICKS]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(chart.text(middle, HEIGHT - BOTTOM + 40, "sessions per GiB of KV cache while they answer", "middle"))
    return parts


def draw(cells, block_bytes):
    """`cells`: [{"policy/budget": [[turn, fact, exact, log p, tokens]]}], a context each."""
    every = points(cells, block_bytes)
    place, share, _ = every.pop("full")[0]
    # With room for what is written above a point.
    top = math.ceil(10 * (0.05 + max(of[1] for rows in [*every.values(), [(place, share)]] for of in rows))) / 10
    parts = axes(top)
    parts += chart.dots([(x(place), y(share, top))], FULL, radius=5)
    parts.append(chart.text(x(place) + 10, y(share, top) - 8, "full: nothing is evicted"))
    labelled, left = set(), LEFT
    for number, (policy, rows) in enumerate(every.items()):
        colour = COLOURS[number % len(COLOURS)]
        at = [(x(sessions), y(answered, top)) for sessions, answered, _ in rows]
        parts += [chart.curve(at, colour), *chart.dots(at, colour)]
        for (across, down), (_, _, budget) in zip(at, rows):
            if budget not in labelled:
                labelled.add(budget)
                parts.append(chart.text(across, down - 10, budget, "middle"))
        parts += chart.key(left, HEIGHT - 12, colour, policy)
        left += 50 + 8 * len(policy)
    return chart.picture(WIDTH, HEIGHT, "Share of late questions answered against sessions per GiB, by policy", parts)
