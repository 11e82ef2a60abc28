#!/usr/bin/env python3
"""Holds the mechanical rules of the repository: `tidy.py [--root DIR] [RULE …]` prints `path:line: rule: message` per
violation and exits 1 if there are any. `tidy.py --format` checks the sources against .clang-format (exit 77, ctest's
"skipped", where clang-format-14 is not installed)."""

import argparse
import pathlib
import shutil
import subprocess
import sys

import rules
from tree import Tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def check_format(root):
    if not shutil.which("clang-format-14"):
        print("clang-format-14 is not installed (./hydrant fmt installs it)")
        return SKIPPED
    files = [path for path, _ in Tree.load(root).cpp()]
    return subprocess.run(["clang-format-14", "--dry-run", "--Werror", *files], cwd=root).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=ROOT)
    parser.add_argument("--format", action="store_true")
    parser.add_argument("rules", nargs="*", choices=[[], *(rule.__name__ for rule in rules.RULES)])
    arguments = parser.parse_args()
    if arguments.format:
        return check_format(arguments.root)
    tree, count = Tree.load(arguments.root), 0
    for rule in rules.RULES:
        if arguments.rules and rule.__name__ not in arguments.rules:
            continue
        for path, line, message in rule(tree):
            print(f"{path}:{line}: {rule.__name__}: {message}")
            count += 1
    print(f"{len(tree.files)} files, {count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
