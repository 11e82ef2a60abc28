#!/usr/bin/env python3
"""docs/flags.md has every flag of hydrantd as `hydrantd --help-all` prints it: group, value, text, default.

    HYDRANTD=build/release/hydrantd tests/deploy/flags_test.py [--write]

`--write` writes the page anew. Python's standard library only."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "flags.md"
HEAD = """# Flags of `hydrantd serve`

`hydrantd serve MODEL [flags]`: MODEL is a checkpoint directory, a `.gguf` file or a name ([models.md](models.md)).
`hydrantd --help` prints the flags that most operators need, `hydrantd --help-all` all of them, which is what this page
has (made by `tests/deploy/flags_test.py --write`). Other commands than `serve` are in
[operations.md](operations.md#starting-and-stopping).

A flag may be written with `_` for `-`, and its value after `=`. A flag in brackets, `--[no-]ui`, is a switch with an
opposite. `--config FILE` reads the same names, with underscores, from a JSON object; a flag on the command line wins.
Two keys may come from the environment instead: `HYDRANT_API_KEY` and `HYDRANT_ADMIN_KEY`, or from files that can be
rotated ([tenants.md](tenants.md#rotating-keys)).
"""
FLAG = re.compile(r"  (--\S+)(?: (\S+))? {2,}(.*?)(?: \(default: (.*)\))?")


def help_all():
    binary = os.environ.get("HYDRANTD", ROOT / "build" / "release" / "hydrantd")
    return subprocess.run([binary, "--help-all"], capture_output=True, text=True, check=True, timeout=60).stdout


def cell(text):
    return (text or "").replace("|", "\\|").replace("*", "\\*")


def page(text):
    """Groups are lines without indentation, each followed by its flags; what has none is about other things."""
    lines = [HEAD.rstrip("\n")]
    for block in text.strip("\n").split("\n\n"):
        group, *flags = block.split("\n")
        if not any(line.startswith("  --") for line in flags):
            continue
        lines += ["", f"## {group}", "", "| flag | value | what it says | default |", "|---|---|---|---|"]
        for line in flags:
            flag = FLAG.fullmatch(line)
            if flag is None:
                raise ValueError(f"no flag: {line!r}")
            value = f"`{cell(flag[2])}`" if flag[2] else ""
            lines.append(f"| `{flag[1]}` | {value} | {cell(flag[3])} | {cell(flag[4])} |")
    return "\n".join(lines) + "\n"


class Flags(unittest.TestCase):
    maxDiff = None

    def test_the_page_has_every_flag(self):
        self.assertEqual(PAGE.read_text(encoding="utf-8"), page(help_all()), "run tests/deploy/flags_test.py --write")

    def test_values_defaults_and_bars_are_kept_apart(self):
        text = "h\n\nd\n\nHTTP\n  --a fair|fcfs   who (first) goes (default: fair)\n  --[no-]b        serve: * all\n"
        self.assertIn("| `--a` | `fair\\|fcfs` | who (first) goes | fair |\n| `--[no-]b` |  | serve: \\* all |  |\n", page(text))


    def test_what_has_no_flags_is_no_group(self):
        text = "h\n\nd\n\nOther commands: check --help.\n\nHTTP\n  --a   first\n"
        self.assertEqual(re.findall("## .*", page(text)), ["## HTTP"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(help_all()), encoding="utf-8")
    else:
        unittest.main()
