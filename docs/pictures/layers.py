#!/usr/bin/env python3
"""Draws tests/tidy/layers.txt, the table of which folder may include which, as docs/pictures/layers.svg.

    layers.py            writes the picture
    layers.py --check    exits 1 if the picture is not that of the table

A folder stands above all that it includes. An arrow that follows from others (a -> c where a -> b -> c) is left out, so that a
person can follow the rest.
"""

import argparse
import html
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "tidy"))

from rules import LAYERS  # noqa: E402  the table itself

PICTURE = HERE / "layers.svg"

COLOURS = {  # top folder: fill, line
    "server": ("#dbeafe", "#1d4ed8"),
    "api": ("#fef3c7", "#b45309"),
    "scheduler": ("#dcfce7", "#15803d"),
    "block_manager": ("#dcfce7", "#15803d"),
    "model": ("#f3e8ff", "#7e22ce"),
    "kernels": ("#ffe4e6", "#be123c"),
    "loadgen": ("#e5e7eb", "#374151"),
}
BOX_HEIGHT, ROW_HEIGHT, GAP, MARGIN, LETTER = 26, 84, 16, 20, 7.2


def below(table, folder):
    """All that `folder` reaches."""
    seen, todo = set(), [folder]
    while todo:
        for other in table[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def needed_arrows(table):
    reach = {folder: below(table, folder) for folder in table}
    for folder, targets in table.items():
        for target in sorted(targets):
            if not any(target in reach[other] for other in targets - {target}):
                yield folder, target


def rows_of(table, arrows):
    """Folders by height above the ground, each row in an order that keeps arrows short."""
    height = {}
    for folder in table:  # a folder is listed after those that it includes
        height[folder] = 1 + max((height[other] for other in table[folder]), default=-1)
    tops = list(COLOURS)
    rows = [[] for _ in range(1 + max(height.values()))]
    for folder in sorted(table, key=lambda name: (tops.index(name.split("/")[0]), name)):
        rows[height[folder]].append(folder)
    neighbours = {folder: [] for folder in table}
    for a, b in arrows:
        neighbours[a].append(b)
        neighbours[b].append(a)
    for _ in range(20):
        place = {f: (i + 0.5) / len(row) for row in rows for i, f in enumerate(row)}
        for row in rows:
            means = {f: sum(place[n] for n in neighbours[f]) / len(neighbours[f]) if neighbours[f] else place[f] for f in row}
            row.sort(key=lambda f: (round(means[f], 6), f))
            place.update({f: (i + 0.5) / len(row) for i, f in enumerate(row)})
    return rows


def draw(table):
    arrows = list(needed_arrows(table))
    rows = rows_of(table, arrows)
    width_of = lambda folder: LETTER * len(folder) + 18
    widths = [sum(width_of(f) + GAP for f in row) - GAP for row in rows]
    width, height = max(widths) + 2 * MARGIN, len(rows) * ROW_HEIGHT + 2 * MARGIN - ROW_HEIGHT + BOX_HEIGHT
    place, out = {}, []
    for level, row in enumerate(rows):
        spare = (width - 2 * MARGIN - widths[level]) / (len(row) + 1)
        x, y = MARGIN + spare, MARGIN + (len(rows) - 1 - level) * ROW_HEIGHT
        for folder in row:
            place[folder] = (x, y, width_of(folder))
            x += width_of(folder) + GAP + spare
    out.append(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" font-family="monospace" font-size="12">')
    out.append(f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>')
    for folder, target in arrows:
        (x, y, w), (tx, ty, tw) = place[folder], place[target]
        x0, y0, x1, y1 = x + w / 2, y + BOX_HEIGHT, tx + tw / 2, ty - 5
        bend = max(24, (y1 - y0) / 2)
        line = COLOURS[folder.split("/")[0]][1]
        out.append(f'<path d="M{x0:.1f} {y0:.1f} C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}" '
                   f'fill="none" stroke="{line}" stroke-opacity="0.55"/>')
        out.append(f'<path d="M{x1 - 3:.1f} {y1:.1f} h6 l-3 5 z" fill="{line}" fill-opacity="0.7"/>')
    for folder, (x, y, w) in place.items():
        fill, line = COLOURS[folder.split("/")[0]]
        out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{BOX_HEIGHT}" rx="4" fill="{fill}" stroke="{line}"/>')
        out.append(f'<text x="{x + w / 2:.1f}" y="{y + 17:.1f}" text-anchor="middle" fill="#111827">{html.escape(folder)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="writes nothing; exits 1 if the picture is another")
    check = parser.parse_args().check
    picture = draw(LAYERS)
    if check:
        if not PICTURE.exists() or PICTURE.read_text() != picture:
            print(f"{PICTURE.name} is not the picture of tests/tidy/layers.txt: run docs/pictures/layers.py")
            return 1
        return 0
    PICTURE.write_text(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
