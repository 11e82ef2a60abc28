"""Draws docs/pictures/quality.svg from kv_quality.py's summary: perplexity and recall against budget, a line per policy."""

WIDTH, HEIGHT = 760, 380
TOP, BOTTOM, GAP = 44, 84, 60
LEFT, RIGHT = 52, 16
PANEL = (WIDTH - LEFT - RIGHT - GAP) / 2
# What is worse is off the picture: `window` loses the first tokens, and with them the model's footing.
RATIO_MAX = 1.6
COLOURS = {
    "h2o": "#0969da", "h2o-llama3": "#54aeff", "h2o-decay": "#1b7c83", "h2o-plus": "#cf222e", "snapkv": "#9a6700", "sinks": "#8250df",
    "window": "#6e7781",
}  # fmt: skip
STYLE = """<style>
  text { font: 13px system-ui, sans-serif; fill: #57606a }
  .title { font-weight: 600; fill: #24292f }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .full { stroke: #57606a; stroke-width: 1; stroke-dasharray: 5 4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .title { fill: #f0f6fc } .grid { stroke: #3d444d } .full { stroke: #9198a1 }
  }
</style>"""


class Panel:
    """One diagram: budgets evenly spaced, values from `low` at the bottom to `high` at the top."""

    def __init__(self, left, title, budgets, low, high):
        self.left, self.budgets, self.low, self.high = left, budgets, low, high
        self.parts = [f'<text class="title" x="{left}" y="20">{title}</text>']

    def x(self, budget):
        return self.left + PANEL * (self.budgets.index(budget) + 0.25) / (len(self.budgets) - 0.5)

    def y(self, value):
        return HEIGHT - BOTTOM - (value - self.low) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)

    def axes(self, ticks, digits):
        for tick in ticks:
            y = self.y(tick)
            self.parts.append(f'<line class="grid" x1="{self.left}" y1="{y:.1f}" x2="{self.left + PANEL:.1f}" y2="{y:.1f}"/>')
            self.parts.append(f'<text x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.{digits}f}</text>')
        for budget in self.budgets:
            self.parts.append(f'<text x="{self.x(budget):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{budget}</text>')
        middle = self.left + PANEL / 2
        self.parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 40}" text-anchor="middle">budget, tokens</text>')

    def full(self, value):
        y = self.y(value)
        self.parts.append(f'<line class="full" x1="{self.left}" y1="{y:.1f}" x2="{self.left + PANEL:.1f}" y2="{y:.1f}"/>')
        self.parts.append(f'<text x="{self.left + PANEL:.1f}" y="{y - 5:.1f}" text-anchor="end">full</text>')

    def line(self, policy, values):
        """`values` {budget: value}; those above the panel are left out."""
        points = [(self.x(budget), self.y(value)) for budget, value in values.items() if value <= self.high]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[policy]}" stroke-width="2.5"/>')
        for x, y in points:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOURS[policy]}"/>')


def legend(policies):
    """In one line: a stroke, the name, and the rest of the width shared out between them."""
    letters = 7.4
    gap = (WIDTH - LEFT - RIGHT - sum(28 + letters * len(policy) for policy in policies)) / (len(policies) - 1)
    parts, x = [], LEFT
    for policy in policies:
        parts.append(f'<line x1="{x:.1f}" y1="{HEIGHT - 16}" x2="{x + 22:.1f}" y2="{HEIGHT - 16}" stroke="{COLOURS[policy]}" stroke-width="2.5"/>')
        parts.append(f'<text x="{x + 28:.1f}" y="{HEIGHT - 12}">{policy}</text>')
        x += 28 + letters * len(policy) + gap
    return parts


def draw(summary, budgets):
    loss = Panel(LEFT, "Perplexity relative to full (lower is better)", budgets, 1.0, RATIO_MAX)
    loss.axes([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6], 1)
    share = Panel(LEFT + PANEL + GAP, "Recall of planted codes (higher is better)", budgets, 0.0, 1.0)
    share.axes([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], 1)
    share.full(summary["full_recall"])
    for policy, ratios in summary["perplexity"].items():
        loss.line(policy, {budget: ratio for budget, (ratio, _, _) in ratios.items()})
        share.line(policy, summary["recall"][policy])
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="Perplexity and recall against the KV budget, by policy">'
    )
    return "\n".join([head, STYLE, *loss.parts, *share.parts, *legend(summary["perplexity"])]) + "\n</svg>\n"
