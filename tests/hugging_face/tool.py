"""Hydrant's side of a comparison."""

import json
import subprocess


def answers(command, requests):
    """What one process says to all requests, which are written in one go: that fits any pipe's reader."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    run = subprocess.run(command, input=lines, capture_output=True, text=True, encoding="utf-8", check=False)
    if run.returncode != 0:
        raise SystemExit(f"{command} failed with {run.returncode}: {run.stderr}")
    return [json.loads(line) for line in run.stdout.split("\n") if line]
