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


class Panel(chart.Panel):
    """Budgets evenly spaced, values from `low` to `high`."""

    def __init__(self, left, title, budgets, low, high):
        super().__init__(title, left, PANEL, TOP, HEIGHT - BOTTOM, low, high)
        self.budgets = budgets

    def x(self, budget):
        return self.left + PANEL * (self.budgets.index(budget) + 0.25) / (len(self.budgets) - 0.5)

    def axes(self, ticks):
        self.ticks(ticks, ".1f")
        self.across([(self.x(budget), budget) for budget in self.budgets], "budget, tokens")

    def full(self, value):
        y = self.y(value)
        self.parts.append(f'<line class="full" x1="{self.left}" y1="{y:.1f}" x2="{self.right:.1f}" y2="{y:.1f}"/>')
        self.parts.append(chart.text(self.right, y - 5, "full", "end"))

    def line(self, policy, values):
        """`values` {budget: value}; those above the panel are left out."""
        points = [(self.x(budget), self.y(value)) for budget, value in values.items() if value <= self.high]
        self.curve(points, COLOURS[policy])


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
    loss.axes([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6])
    share = Panel(LEFT + PANEL + GAP, "Recall of planted codes (higher is better)", budgets, 0.0, 1.0)
    share.axes([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    share.full(summary["full_recall"])
    for policy, ratios in summary["perplexity"].items():
        loss.line(policy, {budget: ratio for budget, (ratio, _, _) in ratios.items()})
        share.line(policy, summary["recall"][policy])
    parts = [*loss.parts, *share.parts, *legend(summary["perplexity"])]
    return chart.picture(WIDTH, HEIGHT, "Perplexity and recall against the KV budget, by policy", parts)
