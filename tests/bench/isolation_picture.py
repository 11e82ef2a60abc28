"""Draws docs/pictures/isolation.svg from isolation.py's figures: a bar per attacker, a panel for TTFT and one for ITL."""

WIDTH, TOP, ROW, BAR, BOTTOM = 800, 44, 28, 14, 44
LEFT, GAP, RIGHT = 190, 56, 48
PANEL = (WIDTH - LEFT - RIGHT - GAP) / 2
KEPT, MISSED = "#0969da", "#cf222e"
# A starved victim's bar ends here; its number says how far it would go.
RATIO_MAX = 4.0
STYLE = """<style>
  text { font: 13px system-ui, sans-serif; fill: #57606a }
  .title { font-weight: 600; fill: #24292f }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .target { stroke: #57606a; stroke-width: 1; stroke-dasharray: 5 4 }
  .interval { stroke: #24292f; stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .title { fill: #f0f6fc } .grid { stroke: #3d444d } .target { stroke: #9198a1 }
    .interval { stroke: #f0f6fc }
  }
</style>"""


def panel(left, title, figures, target, height):
    high = max(target * 1.5, min(RATIO_MAX, max(interval_high for _, _, interval_high in figures) * 1.1))

    def x(value):
        return left + PANEL * min(value, high) / high

    parts = [f'<text class="title" x="{left:.1f}" y="20">{title}</text>']
    step = 0.5 if high > 1.5 else 0.25
    for tick in [step * i for i in range(int(high / step) + 1)]:
        parts.append(f'<line class="grid" x1="{x(tick):.1f}" y1="{TOP - 8}" x2="{x(tick):.1f}" y2="{height - BOTTOM}"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{tick:g}</text>')
    for row, (value, interval_low, interval_high) in enumerate(figures):
        y = TOP + row * ROW
        colour = KEPT if value <= target else MISSED
        parts.append(f'<rect x="{left:.1f}" y="{y}" width="{x(value) - left:.1f}" height="{BAR}" fill="{colour}"/>')
        middle = y + BAR / 2
        parts.append(f'<line class="interval" x1="{x(interval_low):.1f}" y1="{middle}" x2="{x(interval_high):.1f}" y2="{middle}"/>')
        parts.append(f'<text x="{max(x(value), x(interval_high)) + 5:.1f}" y="{y + BAR - 2}">{value:.2f}</text>'.replace(">inf<", ">∞<"))
    parts.append(f'<line class="target" x1="{x(target):.1f}" y1="{TOP - 12}" x2="{x(target):.1f}" y2="{height - BOTTOM}"/>')
    parts.append(f'<text x="{x(target):.1f}" y="{height - BOTTOM + 36}" text-anchor="middle">target {target:g}</text>')
    return parts


def draw(rows, ttft_target, itl_target):
    """`rows`: (label, I of TTFT, I of ITL), each figure (value, low, high)."""
    height = TOP + len(rows) * ROW + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="The victim\'s p99 beside each attacker, relative to its p99 alone on its share">', STYLE,
    ]  # fmt: skip
    for row, (label, _, _) in enumerate(rows):
        parts.append(f'<text x="{LEFT - 10}" y="{TOP + row * ROW + BAR - 2}" text-anchor="end">{label}</text>')
    parts += panel(LEFT, "p99 TTFT relative to alone on its share", [ttft for _, ttft, _ in rows], ttft_target, height)
    parts += panel(LEFT + PANEL + GAP, "p99 ITL relative to alone on its share", [itl for _, _, itl in rows], itl_target, height)
    return "\n".join(parts) + "\n</svg>\n"
