#!/usr/bin/env python3
"""Answers that have to fit a schema fit it, at every temperature, from a network that knows nothing; and hostile schemas are taken or
refused for little while others are served.

    structured_test.py [--answers 160] [--all]

--all: schemas in the wild, too (../shared/data/json_schemas), and 20,000 answers that are finished, in ten minutes. Two validators look at each answer where they are
installed, jsonschema and jsonschema-rs, which share no code."""

import argparse
import collections
import concurrent.futures
import functools
import json
import lzma
import pathlib
import re
import sys
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parents[1] / "deploy"))

from serving import BINARY, ServerProcess, expect, folder, small_model

WILD = ROOT.parent / "shared" / "data" / "json_schemas" / "schemas.jsonl.xz"
SEEN = collections.Counter()
TEMPERATURES = (0, 0.5, 1, 1.5, 2)
SCHEMAS = [
    {},
    {"type": "object"},
    {"type": "integer", "minimum": -20, "maximum": 300},
    {"type": "number", "multipleOf": 0.25, "minimum": 0, "exclusiveMaximum": 9},
    {"type": "string", "minLength": 2, "maxLength": 12},
    {"type": "string", "pattern": "^[A-Z][a-z]{2,8}( [A-Z][a-z]+)?$"},
    {"type": "string", "format": "date-time"},
    {"enum": ["a", "ab", "abc", 1, 12, None, {"k": [1, 2]}]},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 6},
    {"type": "array", "prefixItems": [{"const": "x"}, {"type": "null"}], "items": {"type": "integer"}},
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
        "required": ["name", "age"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"id": {"type": "string", "format": "uuid"}, "tags": {"type": "array", "items": {"enum": ["red", "green"]}}},
        "required": ["id"],
    },
    {"type": "object", "patternProperties": {"^k[0-9]+$": {"type": "integer"}}, "additionalProperties": False, "maxProperties": 4},
    {"anyOf": [{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}, {"type": "string", "maxLength": 5}]},
    {
        "$defs": {"tree": {"type": "object", "properties": {"l": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}, "required": ["l"], "additionalProperties": False}},
        "$ref": "#/$defs/tree",
    },
    {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"required": ["a"], "maxProperties": 2}]},
]  # fmt: skip


# Stands for arrays within arrays, more than a JSON of Python's writes.
NESTED_ARRAYS = "arrays in arrays"
ARRAYS = 100_000


def hostile():
    nested = {"type": "null"}
    for _ in range(12):
        nested = {"oneOf": [nested, {"type": "array", "items": nested}]} if len(json.dumps(nested)) < 60_000 else nested
    doubled = {"d0": {"type": "null"}} | {
        f"d{i}": {"prefixItems": [{"$ref": f"#/$defs/d{i - 1}"}] * 2} for i in range(1, 21)
    }  # fmt: skip
    squared = {"d0": {"type": "object"}} | {
        f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i - 1}"}, {"anyOf": [{"$ref": f"#/$defs/d{i - 1}"}, {"required": [f"p{i}"]}]}]} for i in range(1, 21)
    }  # fmt: skip
    return [
        {"type": "string", "maxLength": 1_000_000},
        {"type": "string", "minLength": 1_000_000},
        {"type": "string", "pattern": r"^([a-zA-Z0-9_-]{1,1000}\.){1,200}$"},
        {"type": "string", "pattern": "(a|b)*a(a|b){24}$"},
        {"type": "string", "pattern": "(a|b)*a(a|b){24}$", "maxLength": 100_000},
        {"type": "string", "pattern": "^(((a*)*)*)*$"},
        {"type": "integer", "multipleOf": 99_991, "minimum": 0, "maximum": 10**15},
        {"type": "object", "properties": {f"property{i}": {"type": "integer"} for i in range(2000)}},
        {"enum": [f"name {i * 7919}" for i in range(8000)]},
        {"type": "object", "minProperties": 150, "properties": {f"k{i}": True for i in range(300)}},
        nested,
        {"$defs": doubled, "$ref": "#/$defs/d20"},
        {"allOf": [{"anyOf": [{"minimum": i}, {"maximum": -i}]} for i in range(24)]},
        {"$ref": "#"},
        {"type": "array", "minItems": 1_000_000, "items": {"type": "array", "minItems": 1_000_000}},
        {"not": {"type": "object", "required": [f"p{i}" for i in range(200)]}},
        {"type": "string", "minLength": 10, "maxLength": 20, "allOf": [
            {"anyOf": [{"pattern": f"^{letter}"} for letter in "abcde"]},
            {"anyOf": [{"not": {"pattern": "^[a-e]"}}, *({"pattern": f"{letter}$"} for letter in "xyz")]},
            {"anyOf": [{"not": {"pattern": "[xyz]$"}}, *({"pattern": digit * 18} for digit in "123")]}]},
        {"enum": [f"name {i}" for i in range(100_000)]},
        NESTED_ARRAYS,
        {"$defs": squared, "$ref": "#/$defs/d20"},
        {"type": "string", "pattern": "^((((a{1,90}){1,90}){1,90}){1,90})$"},
        {"type": "object", "patternProperties": {f"^[a-z]*{letter}": {"maxLength": i} for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}},
        {"type": "string", "allOf": [{"pattern": f"{letter}.{{{i}}}{letter}"} for i, letter in enumerate("abcdefghijkl", 9)]},
    ]  # fmt: skip


def kib_of(server, name):
    """A figure of the server's memory, as the kernel has it."""
    status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
    return int(re.search(rf"^{name}:\s+(\d+) kB", status, re.M)[1])


def begin_peak(server):
    """VmHWM counts from now on; false where the kernel does not let us."""
    try:
        pathlib.Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def post(base, body, timeout=120):
    """(status, JSON)"""
    text = body if isinstance(body, str) else json.dumps(body)
    request = urllib.request.Request(base + "/v1/completions", text.encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def fault_in_python(schema, value):
    try:
        from jsonschema import validators
    except ImportError:
        return ""
    # Remainders of binary fractions are jsonschema's own (9.12 is no multiple of 0.01 there).
    errors = [error for error in validators.validator_for(schema)(schema).iter_errors(value) if error.validator != "multipleOf"]
    return "; ".join(error.message for error in errors)[:300]


@functools.lru_cache(maxsize=2000)
def validator_in_rust(schema):
    """None where it is not installed, or does not take the schema."""
    try:
        import jsonschema_rs

        return jsonschema_rs.validator_for(schema)
    except (ImportError, ValueError):
        return None


def fault_in_rust(schema, text):
    validator = validator_in_rust(json.dumps(schema))
    if validator is None:
        return ""
    SEEN["by the second validator"] += 1
    errors = [error for error in validator.iter_errors(json.loads(text)) if "multipleOf" not in str(error.schema_path)]
    return "; ".join(str(error.message) for error in errors)[:300]


def faults_of(schema, text):
    """Why a text is no value of the schema; empty: it is one."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"no JSON: {error}"
    return fault_in_python(schema, value) or fault_in_rust(schema, text)


def check_answers(base, schemas, count):
    def ask(i):
        schema = schemas[i % len(schemas)]
        closes = i // len(schemas) % 2 == 0
        body = {
            "prompt": f"{i}:", "max_tokens": 40 + i % 90, "temperature": TEMPERATURES[i % len(TEMPERATURES)], "seed": i, "n": 2,
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
            "structured_outputs": {"close_at_max_tokens": closes},
        }  # fmt: skip
        return i, schema, closes, *post(base, body, timeout=600)

    whole = closed = cut = refused = given_up = 0
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for i, schema, closes, status, answer in pool.map(ask, range(count)):
            if status == 400 and (closes or schema not in SCHEMAS):
                refused += 1  # too few tokens for the shortest answer, or what is not enforced
                continue
            if status == 500 and schema not in SCHEMAS and answer["error"]["code"] == "structured_output_limit":
                given_up += 1  # a work of masks that nobody could foresee
                continue
            if status != 200:
                expect(False, "every schema is served", (i, schema, status, answer))
            for choice in answer["choices"]:
                if choice["finish_reason"] == "length" and not closes:
                    cut += 1
                    continue
                fault = faults_of(schema, choice["text"])
                if choice["finish_reason"] != "stop" or fault:
                    expect(False, "an answer fits its schema", (i, schema, closes, choice, fault))
                whole += 1
                closed += choice["stop_reason"] == "closed_at_limit"
            if i % 1000 == 999:
                print(f"      {i + 1} requests: {whole} answers fit, {SEEN['by the second validator']} looked at twice", flush=True)
    expect(whole > count / 2 and closed > 0, f"{whole} answers fit, {closed} of them closed at their limit ({cut} cut, {refused} refused)",
           (whole, closed, cut, refused))  # fmt: skip
    expect(given_up <= count / 1000, f"the work of {given_up} requests of {count} had no end", given_up)


def gaps_of(base, stop):
    """Seconds between the tokens of streams, one after the other, until `stop` is set."""
    gaps = []
    while not stop.is_set():
        body = {"prompt": "once", "max_tokens": 200, "ignore_eos": True, "temperature": 1, "stream": True}
        request = urllib.request.Request(base + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as response:
            before = None
            for line in response:
                if not line.startswith(b"data: {"):
                    continue
                now = time.monotonic()
                if before is not None:
                    gaps.append(now - before)
                before = now
    return sorted(gaps)


def post_hostile(base, schema, salt):
    """What was compiled for another salt is compiled again."""
    text = json.dumps(schema)
    if schema == NESTED_ARRAYS:
        text = '{"items":' * ARRAYS + "{}" + "}" * ARRAYS
    return post(base, f'{{"prompt": "x", "max_tokens": 4, "temperature": 2, "cache_salt": "{salt}", "guided_json": {text}}}')


def check_hostile(server):
    base = server.base

    def served(work):
        stop, gaps = threading.Event(), []
        victim = threading.Thread(target=lambda: gaps.extend(gaps_of(base, stop)))
        victim.start()
        work()
        stop.set()
        victim.join()
        return gaps

    alone = served(lambda: time.sleep(2))
    worst, grown, held_up = [], [], []

    def attack():
        for schema in hostile():
            began, resident, peaks = time.monotonic(), kib_of(server, "VmRSS"), begin_peak(server)
            status, answer = post_hostile(base, schema, "beside")
            worst.append((time.monotonic() - began, json.dumps(schema)[:80]))
            grown.append((kib_of(server, "VmHWM" if peaks else "VmRSS") - resident, json.dumps(schema)[:80]))
            if status == 400 and answer["error"]["code"].startswith(("structured_output_too", "unprovable", "unsat", "invalid", "unsupp", "json_too_deep")):
                continue
            if status != 200:
                expect(False, "a hostile schema is taken or refused", (json.dumps(schema)[:200], status, answer))

    beside = served(attack)
    for schema in hostile():  # while nobody else is served, whose tokens would count, too
        spent = server.cpu_s("engine", "masks")  # what all tokens wait for
        post_hostile(base, schema, "quiet")
        held_up.append((server.cpu_s("engine", "masks") - spent, json.dumps(schema)[:80]))
    middle = [f"{1e3 * gaps[len(gaps) // 2]:.1f}" for gaps in (alone, beside)]
    last = [f"{1e3 * gaps[len(gaps) * 99 // 100]:.1f}" for gaps in (alone, beside)]
    # Fuel bounds their work (grammar_test.cc); the clock only tells whether one has no bound, on however busy a machine.
    expect(max(worst)[0] < 60, f"each hostile schema is answered, the slowest in {max(worst)[0]:.2f} s: {max(worst)[1]}", worst)
    expect(len(grown) == 23 and max(grown)[0] <= 64 << 10, f"{len(grown)} schemas take {max(grown)[0] >> 10} MiB at most: {max(grown)[1]}", sorted(grown)[-3:])
    # A mask may cost 40 ms on a quiet machine; one that nothing bounds costs seconds, which all tokens wait for. On a busy machine
    # they come late in any case, but an engine that waits for something spends no processor time.
    expect(max(held_up)[0] < 1.5, f"the engine has {1e3 * max(held_up)[0]:.1f} ms to do at most while a schema is answered: {max(held_up)[1]}", held_up)
    expect(beside[-1] < 20, f"others' tokens come every {middle[1]} ms ({middle[0]} alone), p99 {last[1]} ({last[0]}), "
           f"the longest gap {1e3 * beside[-1]:.0f} ({1e3 * alone[-1]:.0f})", beside[-10:])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, help="requests; each has two answers, of which some are cut or not begun")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    schemas, count = list(SCHEMAS), arguments.answers or (20_000 if arguments.all else 160)
    if arguments.all and WILD.exists():
        with lzma.open(WILD, "rt") as lines:
            schemas += [json.loads(line)["schema"] for line in lines][:1000]
    model = small_model(folder("structured"))
    with ServerProcess(BINARY, model, ["--max-model-len", 512, "--threads", 2]) as server:
        began = time.monotonic()
        check_answers(server.base, schemas, count)
        print(f"{time.monotonic() - began:.1f} s", flush=True)
        check_hostile(server)
        status, _ = post(server.base, {"prompt": "x", "max_tokens": 2})
        expect(status == 200, "the server is well")


if __name__ == "__main__":
    main()
