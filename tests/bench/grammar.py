#!/usr/bin/env python3
"""Holds grammars to JSON schemas in the wild and to the required part of JSON-Schema-Test-Suite 2020-12: how many are right on every
instance, refused, too strict, too lax; and whether random answers to them are valid, by the packages jsonschema and jsonschema-rs, which share no
code, where they are installed.

    grammar.py [--build build/release] [--answers 5] [--count 1000] [--suite JSON-Schema-Test-Suite]

The suite is a checkout of json-schema-org/JSON-Schema-Test-Suite. Exits 77 where neither it nor ../shared/data/json_schemas is there, 1
where a bar is missed: of 1,000 schemas in the wild 850 right, of the suite's 386 (142 of the 368 that it had), none too lax, no answer
that is invalid or cannot be ended. Keys that stand in another order than the schema's count as too strict."""

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
RIGHT_MIN, SUITE_RIGHT_MIN = 0.85, 142 / 368


def judge(program, path, right_min):
    lines = subprocess.run([program, "judge", path], check=True, capture_output=True, text=True).stdout.splitlines()
    counts = collections.Counter(line.split()[0] for line in lines)
    print(f"{len(lines)} schemas: " + ", ".join(f"{counts[word]} {word}" for word in ("right", "refused", "strict", "lax", "limit")))
    reasons = collections.Counter(line.split("' ", 1)[1][:70] for line in lines if line.startswith("refused"))
    for reason, count in reasons.most_common(8):
        print(f"  {count:4} {reason}")
    return counts["lax"] == 0 and counts["right"] >= right_min * len(lines)


def is_a_reading(error):
    """Where jsonschema reads the standard otherwise: remainders in binary fractions, and times without what RFC 3339 asks for."""
    if error.context:
        return all(is_a_reading(each) for each in error.context)
    return error.validator == "multipleOf" or (error.validator == "format" and error.validator_value == "time")


def second_validator(schema):
    """Says what is wrong with a value, or None; nothing ever where it is not installed, or does not take the schema."""
    try:
        import jsonschema_rs

        validator = jsonschema_rs.validator_for(schema)
    except (ImportError, ValueError):
        return None
    return lambda value: next((each for each in validator.iter_errors(value) if "multipleOf" not in str(each.schema_path)), None)


def check_answers(program, path, rows, answers):
    try:
        from jsonschema import FormatChecker, validators
    except ImportError:
        print("random answers are not checked: jsonschema is not installed")
        return True
    out = subprocess.run([program, "write", path, str(answers)], check=True, capture_output=True, text=True).stdout
    counts, validator_of, second_of = collections.Counter(), {}, {}
    for line in out.splitlines():
        number, text = line.split(" ", 1)
        if number == "dead":
            counts["dead"] += 1
            print("  cannot be ended:", text[:200])
            continue
        if number not in validator_of:
            schema = rows[int(number)]["schema"]
            validator_of[number] = validators.validator_for(schema)(schema, format_checker=FormatChecker())
            second_of[number] = second_validator(schema)
        try:
            error = next((each for each in validator_of[number].iter_errors(json.loads(text)) if not is_a_reading(each)), None)
        except Exception as why:  # a schema that jsonschema does not take
            counts[type(why).__name__] += 1
            continue
        if error is None and second_of[number] is not None:
            error = second_of[number](json.loads(text))
            counts["looked at twice"] += 1
        counts["valid" if error is None else "invalid"] += 1
        if error is not None:
            print(f"  invalid for {rows[int(number)]['name']}: {error.message[:100]}: {text[:100]}")
    print("random answers: " + ", ".join(f"{count} {word}" for word, count in counts.items()))
    return counts["invalid"] == counts["dead"] == 0


def wild(count):
    with lzma.open(SCHEMAS, "rt") as rows:
        return [line for line, _ in zip(rows, range(count))]


def suite(checkout):
    """The cases of the required part, as rows of schemas with their instances."""
    files = sorted((checkout / "tests" / "draft2020-12").glob("*.json"))
    cases = [(file.stem, case) for file in files for case in json.loads(file.read_text())]
    return [json.dumps({"name": f"{stem}: {case['description']}", "schema": case["schema"], "tests": case["tests"]}) + "\n" for stem, case in cases]


def check(program, name, lines, answers, right_min):
    print(f"{name}:")
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as plain:
        plain.writelines(lines)
        plain.flush()
        met = judge(program, plain.name, right_min)
        return check_answers(program, plain.name, [json.loads(line) for line in lines], answers) and met


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--answers", type=int, default=5)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--suite", type=pathlib.Path)
    arguments = parser.parse_args()
    if not SCHEMAS.exists() and arguments.suite is None:
        print(f"skipped: {SCHEMAS} is not there")
        return 77
    program, met = arguments.build / "tests" / "bench" / "grammar_judge", True
    if SCHEMAS.exists():
        met &= check(program, "schemas in the wild", wild(arguments.count), arguments.answers, RIGHT_MIN)
    if arguments.suite is not None:
        met &= check(program, "JSON-Schema-Test-Suite", suite(arguments.suite), arguments.answers, SUITE_RIGHT_MIN)
    print("met" if met else "MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
