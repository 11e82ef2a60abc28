#!/usr/bin/env python3
"""Holds grammars to JSON schemas in the wild: how many are right on every instance, refused, too strict, too lax; and whether random
answers to them are valid, by the package jsonschema where it is installed.

    grammar.py [--build build/release] [--answers 5] [--count 1000]

Exits 77 where the schemas (../shared/data/json_schemas) are not there, 1 where a bar is missed: per 1,000 schemas 850 right, none
too lax, no answer that is invalid or cannot be ended. Keys that stand in another order than the schema's count as too strict."""

import argparse
import collections
import json
import lzma
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = ROOT.parent / "shared" / "data" / "json_schemas" / "schemas.jsonl.xz"
RIGHT_MIN = 0.85


def judge(program, path):
    lines = subprocess.run([program, "judge", path], check=True, capture_output=True, text=True).stdout.splitlines()
    counts = collections.Counter(line.split()[0] for line in lines)
    print(f"{len(lines)} schemas: " + ", ".join(f"{counts[word]} {word}" for word in ("right", "refused", "strict", "lax", "limit")))
    reasons = collections.Counter(line.split("' ", 1)[1][:70] for line in lines if line.startswith("refused"))
    for reason, count in reasons.most_common(8):
        print(f"  {count:4} {reason}")
    return counts["lax"] == 0 and counts["right"] >= RIGHT_MIN * len(lines)


def is_a_reading(error):
    """Where jsonschema reads the standard otherwise: remainders in binary fractions, and times without what RFC 3339 asks for."""
    if error.context:
        return all(is_a_reading(each) for each in error.context)
    return error.validator == "multipleOf" or (error.validator == "format" and error.validator_value == "time")


def check_answers(program, path, rows, answers):
    try:
        from jsonschema import FormatChecker, validators
    except ImportError:
        print("random answers are not checked: jsonschema is not installed")
        return True
    out = subprocess.run([program, "write", path, str(answers)], check=True, capture_output=True, text=True).stdout
    counts, validator_of = collections.Counter(), {}
    for line in out.splitlines():
        number, text = line.split(" ", 1)
        if number == "dead":
            counts["dead"] += 1
            print("  cannot be ended:", text[:200])
            continue
        if number not in validator_of:
            schema = rows[int(number)]["schema"]
            validator_of[number] = validators.validator_for(schema)(schema, format_checker=FormatChecker())
        try:
            error = next((each for each in validator_of[number].iter_errors(json.loads(text)) if not is_a_reading(each)), None)
        except Exception as why:  # a schema that jsonschema does not take
            counts[type(why).__name__] += 1
            continue
        counts["valid" if error is None else "invalid"] += 1
        if error is not None:
            print(f"  invalid for {rows[int(number)]['name']}: {error.message[:100]}: {text[:100]}")
    print("random answers: " + ", ".join(f"{count} {word}" for word, count in counts.items()))
    return counts["invalid"] == counts["dead"] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--answers", type=int, default=5)
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_args()
    if not SCHEMAS.exists():
        print(f"skipped: {SCHEMAS} is not there")
        return 77
    program = arguments.build / "tests" / "bench" / "grammar_judge"
    with lzma.open(SCHEMAS, "rt") as file:
        lines = [line for line, _ in zip(file, range(arguments.count))]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as plain:
        plain.writelines(lines)
        plain.flush()
        met = judge(program, plain.name)
        met &= check_answers(program, plain.name, [json.loads(line) for line in lines], arguments.answers)
    print("met" if met else "MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
