"""Draws docs/pictures/throughput.svg from many_chats.py's figures: tokens per second against the number of chats, a line per policy."""

from quality_picture import STYLE

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

    parts = [f'<text class="title" x="{LEFT}" y="20">Tokens per second, all chats together</text>']
    for tick in range(0, top + 1, step):
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y(tick):.1f}" x2="{WIDTH - RIGHT}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    for count in counts:
        parts.append(f'<text x="{x(count):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{count}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - BOTTOM + 40}" text-anchor="middle">chats, each with a past of 4,000 tokens</text>')
    for number, (policy, rows) in enumerate(results.items()):
        colour = COLOURS[number]
        points = [(x(count), y(row[0])) for count, row in rows.items()]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in points]
        left = LEFT + number * 130
        parts.append(f'<line x1="{left}" y1="{HEIGHT - 16}" x2="{left + 22}" y2="{HEIGHT - 16}" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{left + 28}" y="{HEIGHT - 12}">{policy}</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="Tokens per second against the number of chats, by policy">'
    )
    return "\n".join([head, STYLE, *parts]) + "\n</svg>\n"
