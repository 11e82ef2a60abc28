"""Draws docs/pictures/throughput.svg from many_chats.py's figures: tokens per second against the number of chats, a line per policy."""

import chart

WIDTH, HEIGHT = 760, 380
TOP, BOTTOM, LEFT, RIGHT = 44, 84, 60, 20
COLOURS = ["#6e7781", "#1b7c83", "#0969da", "#cf222e"]


def tick_step(most):
    """A round number of which four to eight fit below `most`."""
    step = 1
    while most / step > 8:
        step *= 2 if str(step)[0] in "15" else 2.5
        step = int(step)
    return step


def draw(results):
    """`results` {policy: {chats: (tokens per second, …)}}"""
    counts = sorted({count for rows in results.values() for count in rows})
    step = tick_step(max(row[0] for rows in results.values() for row in rows.values()))
    top = step * (int(max(row[0] for rows in results.values() for row in rows.values()) / step) + 1)

    def x(count):
        return LEFT + (WIDTH - LEFT - RIGHT) * (counts.index(count) + 0.25) / (len(counts) - 0.5)

    def y(value):
        return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)

    parts = [chart.title(LEFT, "Tokens per second, all chats together")]
    for tick in range(0, top + 1, step):
        parts += chart.tick(LEFT, WIDTH - RIGHT, y(tick), tick)
    parts += [chart.text(x(count), HEIGHT - BOTTOM + 20, count, "middle") for count in counts]
    parts.append(chart.text(WIDTH / 2, HEIGHT - BOTTOM + 40, "chats, each with a past of 4,000 tokens", "middle"))
    for number, (policy, rows) in enumerate(results.items()):
        colour = COLOURS[number]
        points = [(x(count), y(row[0])) for count, row in rows.items()]
        parts += [chart.curve(points, colour), *chart.dots(points, colour)]
        parts += chart.key(LEFT + number * 130, HEIGHT - 12, colour, policy)
    return chart.picture(WIDTH, HEIGHT, "Tokens per second against the number of chats, by policy", parts)
