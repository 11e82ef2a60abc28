#!/usr/bin/env python3
"""Writes the hash of each package into lists of requirements: the one of the file that pip chooses for Debian 12's Python.

    tests/support/hash_requirements.py FILE …

Run it with Python 3.11 on x86-64 after changing a version. A list pins its packages with all that they need, one a line, and
allows wheels only; where a package is published as source alone, a line `--no-binary NAMES` says so. Nothing is installed, and
where the index serves metadata, no wheel is downloaded either.
"""

import json
import re
import subprocess
import sys
import tempfile


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def hashes_of(path):
    """What pip would install for the list at `path`: normal name -> sha256."""
    with open(path, encoding="utf-8") as file:
        lines = [re.sub(r" --hash=\S+", "", line) for line in file if not line.startswith("--require-hashes")]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as plain:
        plain.writelines(lines)
        plain.flush()
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--dry-run", "--no-deps", "--quiet"]
        report = subprocess.run(
            [*command, "--ignore-installed", "--report", "-", "-r", plain.name], stdout=subprocess.PIPE, check=True
        ).stdout
    return {
        normal(item["metadata"]["name"]): item["download_info"]["archive_info"]["hashes"]["sha256"]
        for item in json.loads(report)["install"]
    }


def with_hashes(text, hashes):
    """The list with a hash behind each requirement."""
    lines = []
    for line in text.split("\n"):
        requirement = re.match(r"([\w.-]+)==\S+", line)
        lines.append(f"{requirement[0]} --hash=sha256:{hashes[normal(requirement[1])]}" if requirement else line)
    return "\n".join(lines)


def main():
    for path in sys.argv[1:]:
        hashes = hashes_of(path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(with_hashes(text, hashes))
        print(f"{path}: {len(hashes)} packages")


if __name__ == "__main__":
    main()
