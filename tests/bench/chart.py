"""What the line charts of docs/pictures are made of, as SVG. Coordinates in pixels. Python's standard library only."""

STYLE = """<style>
  text { font: 13px system-ui, sans-serif; fill: #57606a }
  .title { font-weight: 600; fill: #24292f }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .full { stroke: #57606a; stroke-width: 1; stroke-dasharray: 5 4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .title { fill: #f0f6fc } .grid { stroke: #3d444d } .full { stroke: #9198a1 }
  }
</style>"""


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def title(x, words):
    return f'<text class="title" x="{x:.1f}" y="20">{words}</text>'


def tick(left, right, y, value):
    """A line across the chart, and beside it what it stands for."""
    return [f'<line class="grid" x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}"/>', text(left - 8, y + 4, value, "end")]


def curve(points, colour):
    """`points`: [(x, y)]"""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'


def dots(points, colour, radius=3.5):
    return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>' for x, y in points]


def key(x, y, colour, name):
    """One line of a chart in its legend: a stroke, and the name behind it on the line of text at y."""
    stroke = f'<line x1="{x:.1f}" y1="{y - 4:.1f}" x2="{x + 22:.1f}" y2="{y - 4:.1f}" stroke="{colour}" stroke-width="2.5"/>'
    return [stroke, text(x + 28, y, name)]


class Panel:
    """One of several diagrams beside each other: from `left` on and `width` wide, values from `low` at `bottom` to `high` at `top`."""

    def __init__(self, heading, left, width, top, bottom, low, high):
        self.left, self.right, self.top, self.bottom, self.low, self.high = left, left + width, top, bottom, low, high
        self.parts = [title(left, heading)]

    def y(self, value):
        return self.bottom - (value - self.low) / (self.high - self.low) * (self.bottom - self.top)

    def ticks(self, values, form):
        for value in values:
            self.parts += tick(self.left, self.right, self.y(value), f"{value:{form}}")

    def across(self, places, name):
        """`places`: [(x, what stands below the diagram there)]; the line below them says what that is."""
        self.parts += [text(x, self.bottom + 20, words, "middle") for x, words in places]
        self.parts.append(text((self.left + self.right) / 2, self.bottom + 40, name, "middle"))

    def curve(self, points, colour):
        """`points`: [(x, y)]"""
        self.parts += [curve(points, colour), *dots(points, colour)]


def picture(width, height, label, parts):
    """`label`: what is seen, for whoever does not see it."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
    return "\n".join([head, STYLE, *parts]) + "\n</svg>\n"
