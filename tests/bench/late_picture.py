"""Draws docs/pictures/late.svg from kv_recall.py's late questions and speeds: against the sessions that a GiB of the pool holds while
they answer, the share of late questions that they answer, and the tokens a second of a step's worth of them. A line per policy, a
point per budget."""

import math
import statistics

import chart

WIDTH, HEIGHT = 860, 380
TOP, BOTTOM, LEFT, GAP, RIGHT = 44, 96, 44, 60, 24
PANEL = (WIDTH - LEFT - GAP - RIGHT) / 2
FULL = "#57606a"
COLOURS = ["#cf222e", "#0969da", "#1b7c83", "#8250df", "#bf8700", "#6e7781"]
TICKS = [10, 30, 100, 300, 1000]
BLOCK_SLOTS = 16


class Panel(chart.Panel):
    """Sessions per GiB on a scale of powers, values from 0 to `high`."""

    def __init__(self, left, title, high):
        super().__init__(title, left, PANEL, TOP, HEIGHT - BOTTOM, 0, high)
        self.across([(self.x(tick), f"{tick:,}") for tick in TICKS], "sessions per GiB of KV cache")

    def x(self, sessions):
        return self.left + PANEL * math.log(sessions / TICKS[0]) / math.log(TICKS[-1] / TICKS[0])

    def full(self, sessions, value):
        place = (self.x(sessions), self.y(value))
        self.parts += chart.dots([place], FULL, radius=5)
        self.parts.append(chart.text(place[0] + 10, place[1] - 8, "full"))

    def line(self, points, colour):
        """`points`: [(sessions, value)]"""
        self.curve([(self.x(sessions), self.y(value)) for sessions, value in points], colour)

    def name(self, points):
        """`points`: {budget: (sessions, value)}"""
        for budget, (sessions, value) in points.items():
            self.parts.append(chart.text(self.x(sessions), self.y(value) - 10, budget, "middle"))


def sessions_per_gib(tokens, block_bytes):
    return (1 << 30) / (math.ceil(tokens / BLOCK_SLOTS) * block_bytes)


def points(cells, speeds, block_bytes):
    """{policy: {budget: (sessions per GiB, share answered, tokens a second)}}; `full` holds its chats as they are when they ask last."""
    found = {}
    for setting in cells[0]:
        policy, budget = setting.split("/")
        rows = [row for cell in cells for row in cell[setting]]
        asked_last = max(row[0] for row in rows)
        tokens = int(budget) + 1 if policy != "full" else statistics.mean(row[4] for row in rows if row[0] == asked_last)
        of = (sessions_per_gib(tokens, block_bytes), statistics.mean(row[2] for row in rows), speeds[setting])
        found.setdefault(policy, {})[int(budget)] = of
    return found


def draw(cells, speeds, chats, block_bytes):
    """`cells`: [{"policy/budget": [[turn, fact, exact, log p, tokens]]}], a context each. `speeds`: {"policy/budget": tokens a second of
    `chats` chats together}."""
    every = points(cells, speeds, block_bytes)
    full = every.pop("full")[0]
    # With room for what is written above a point.
    tenths = math.ceil(10 * (0.05 + max(of[1] for found in [*every.values(), {0: full}] for of in found.values())))
    hundreds = math.ceil((50 + max(of[2] for found in every.values() for of in found.values())) / 250) * 250
    answered = Panel(LEFT, "Share of late questions answered", tenths / 10)
    answered.ticks([tenth / 10 for tenth in range(tenths + 1)], ".1f")
    speed = Panel(LEFT + PANEL + GAP, f"Tokens a second of {chats} such chats together", hundreds)
    speed.ticks(range(0, hundreds + 1, 250), ",d")
    answered.full(*full[:2])
    speed.full(full[0], full[2])
    keys, left = [], LEFT
    for number, (policy, found) in enumerate(every.items()):
        colour = COLOURS[number % len(COLOURS)]
        rows = sorted(found.values())
        answered.line([row[:2] for row in rows], colour)
        speed.line([(row[0], row[2]) for row in rows], colour)
        if number == 0:
            answered.name({budget: of[:2] for budget, of in found.items()})
        keys += chart.key(left, HEIGHT - 12, colour, policy)
        left += 50 + 8 * len(policy)
    label = "Share of late questions answered, and tokens a second, against sessions per GiB, by policy"
    return chart.picture(WIDTH, HEIGHT, label, [*answered.parts, *speed.parts, *keys])
