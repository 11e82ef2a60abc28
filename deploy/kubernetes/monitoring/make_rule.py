#!/usr/bin/env python3
"""Writes prometheus-rule.yaml, which is committed: the rules of deploy/prometheus as the Prometheus operator takes them. With
--check nothing is written; exit code 1 says that the file is not what this program makes."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

import generated_files

SOURCES = [HERE.parents[1] / "prometheus" / f"hydrant_{name}.yml" for name in ("recording", "alerts")]
TARGET = HERE / "prometheus-rule.yaml"
HEAD = """\
# The rules of deploy/prometheus, made by make_rule.py: change them there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: hydrant
spec:
  groups:
"""


def groups(text):
    """The lines of a rule file's groups, two columns further in."""
    _, lines = text.split("\ngroups:\n")
    return "".join(f"  {line}" if line.strip() else line for line in lines.splitlines(keepends=True))


def main():
    return generated_files.write({TARGET: HEAD + "".join(groups(path.read_text(encoding="utf-8")) for path in SOURCES)})


if __name__ == "__main__":
    sys.exit(main())
