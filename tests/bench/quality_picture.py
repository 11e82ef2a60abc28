"""Draws docs/pictures/quality.svg from kv_quality.py's summary: perplexity and recall against budget, a line per policy."""

import chart

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


class Panel:
    """One diagram: budgets evenly spaced, values from `low` at the bottom to `high` at the top."""

    def __init__(self, left, title, budgets, low, high):
        self.left, self.budgets, self.low, self.high = left, budgets, low, high
        self.parts = [chart.title(left, title)]

    def x(self, budget):
        return self.left + PANEL * (self.budgets.index(budget) + 0.25) / (len(self.budgets) - 0.5)

    def y(self, value):
        return HEIGHT - BOTTOM - (value - self.low) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)

    def axes(self, ticks, digits):
        for tick in ticks:
            self.parts += chart.tick(self.left, self.left + PANEL, self.y(tick), f"{tick:.{digits}f}")
        self.parts += [chart.text(self.x(budget), HEIGHT - BOTTOM + 20, budget, "middle") for budget in self.budgets]
        self.parts.append(chart.text(self.left + PANEL / 2, HEIGHT - BOTTOM + 40, "budget, tokens", "middle"))

    def full(self, value):
        y = self.y(value)
        self.parts.append(f'<line class="full" x1="{self.left}" y1="{y:.1f}" x2="{self.left + PANEL:.1f}" y2="{y:.1f}"/>')
        self.parts.append(chart.text(self.left + PANEL, y - 5, "full", "end"))

    def line(self, policy, values):
        """`values` {budget: value}; those above the panel are left out."""
        points = [(self.x(budget), self.y(value)) for budget, value in values.items() if value <= self.high]
        self.parts += [chart.curve(points, COLOURS[policy]), *chart.dots(points, COLOURS[policy])]


def legend(policies):
    """In one line: a stroke, the name, and the rest of the width shared out between them."""
    letters = 7.4
    gap = (WIDTH - LEFT - RIGHT - sum(28 + letters * len(policy) for policy in policies)) / (len(policies) - 1)
    parts, x = [], LEFT
    for policy in policies:
        parts += chart.key(x, HEIGHT - 12, COLOURS[policy], policy)
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
    parts = [*loss.parts, *share.parts, *legend(summary["perplexity"])]
    return chart.picture(WIDTH, HEIGHT, "Perplexity and recall against the KV budget, by policy", parts)
