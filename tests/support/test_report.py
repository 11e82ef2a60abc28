#!/usr/bin/env python3
"""Sums up what a run of `./hydrant test` left behind: test_report.py LOGS BUILD. The first line is `passed failed skipped`,
the others are the slowest tests as `seconds preset name`.

LOGS/ctest-PRESET*.xml are ctest's JUnit files. Where a ctest is a GoogleTest program as a whole, or a shard of it, the
program's own report lies in BUILD/PRESET and its TESTs are counted instead. Python's standard library only."""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter

SHOWN = 15


def tests_of_program(path):
    """(seconds, name, outcome) of every TEST in a GoogleTest report."""
    for case in ElementTree.parse(path).iter("testcase"):
        outcome = "passed"
        if case.get("status") != "run" or case.get("result") == "skipped":
            outcome = "skipped"
        elif case.find("failure") is not None:
            outcome = "failed"
        yield float(case.get("time")), f"{case.get('classname')}.{case.get('name')}", outcome


def tests_of_run(path, programs):
    """The same of every ctest; programs: their reports by the ctest's name."""
    for case in ElementTree.parse(path).iter("testcase"):
        outcome = {"run": "passed", "fail": "failed"}.get(case.get("status"), "skipped")
        inner = list(tests_of_program(programs[case.get("name")])) if case.get("name") in programs else []
        yield from inner
        # A program may end badly between its TESTs, or without a report.
        if not inner or (outcome == "failed" and all(how != "failed" for _, _, how in inner)):
            yield float(case.get("time")), case.get("name"), outcome


def main():
    logs, build = map(pathlib.Path, sys.argv[1:])
    counts, slowest = Counter(), []
    for report in sorted(logs.glob("ctest-*.xml")):
        preset = report.stem.split("-")[1]
        programs = {path.stem: path for path in (build / preset / "tests").glob("**/*_test.*.xml")}
        for seconds, name, outcome in tests_of_run(report, programs):
            counts[outcome] += 1
            slowest.append((seconds, preset, name))
    print(counts["passed"], counts["failed"], counts["skipped"])
    for seconds, preset, name in sorted(slowest, reverse=True)[:SHOWN]:
        print(f"{seconds:.1f} {preset} {name}")


if __name__ == "__main__":
    main()
