#!/usr/bin/env python3
"""Writes regex_goldens.json: patterns, texts, and whether Python's `re` finds the one in the other. The patterns are of the part of
the syntax that Python and ECMA-262 have in common; what they read differently (`.` and line ends, `\\s`) the texts avoid."""

import json
import pathlib
import random
import re

HERE = pathlib.Path(__file__).resolve().parent
ATOMS = ["a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\w", r"\.", "é", "[à-ü]", r"\W", "[a-c-]", r"[\d_]", "ab"]
SUFFIXES = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"]


def pattern(rng, depth):
    parts = []
    for _ in range(rng.randint(1, 3)):
        if depth and rng.random() < 0.4:
            part = rng.choice(["(", "(?:"]) + pattern(rng, depth - 1) + ")" + rng.choice(SUFFIXES)
        else:
            atom = rng.choice(ATOMS)
            part = atom + rng.choice(SUFFIXES)
        parts.append(part)
    text = "".join(parts)
    return text + "|" + pattern(rng, 0) if rng.random() < 0.2 else text


def main():
    rng = random.Random(26)
    table = []
    while len(table) < 250:
        each = rng.choice(["", "^"]) + pattern(rng, 2) + rng.choice(["", "$"])
        compiled = re.compile(each, re.ASCII)
        texts = {"".join(rng.choice(["a", "b", "c", "é", "1", "-", "."]) for _ in range(rng.randint(0, 7))) for _ in range(12)}
        # `$` of Python stands before a last line end, too; there are none here.
        found = {text: bool(compiled.search(text)) for text in sorted(texts)}
        if len(set(found.values())) < 2:
            continue
        table.append([each, [t for t, hit in found.items() if hit], [t for t, hit in found.items() if not hit]])
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in table)
    (HERE / "regex_goldens.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
