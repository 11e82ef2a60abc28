#!/usr/bin/env python3
"""Compares masks with those of llguidance and xgrammar, where these packages are installed, along instances of schemas in the wild and
random walks: which tokens one allows and the other forbids, and which of the two is right.

    grammar_oracle.py [--build build/release] [--count 200] [--first 0] [--steps 60] [--oracle llguidance]

A token that is allowed here alone is right if an answer that goes on with it is valid for jsonschema or jsonschema-rs. One that is
forbidden here alone is told by a reason that is meant (another order of keys, another spelling of the same value) or shown. All without
white space.

Exits 77 where a package or the schemas are not there, 1 where an answer that is allowed here alone is invalid."""

import argparse
import collections
import json
import lzma
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = ROOT.parent / "shared" / "data" / "json_schemas" / "schemas.jsonl.xz"
PIECES = ['{"', '":', '":"', '","', '"}', '"]', "},{", "[]", "{}", '{}', "true", "false", "null", '":[', '":{"', "0,", "1]", ".5", "e1",
          "12", "2024", "-0", "http://", "://", ".com", "@", "the", "name", "id", "type", "value", "ing", " a", " the", "\\n", "\\u00",
          "é", "中", "🙂", "key", "Exa", "mple", "es", "or", "https", "1.0", "ABC", "abc", '"a', '"b":', '1"', 'x"}', "\\\"", "--", "__"]


def vocabulary():
    """All bytes, and pieces that begin, end and cross what JSON is made of; the last one ends an answer."""
    return [bytes([byte]) for byte in range(256)] + sorted({piece.encode() for piece in PIECES}) + [b""]


class Here:
    def __init__(self, program, tokens):
        file = tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False)
        file.write("".join(token.hex() + "\n" for token in tokens[:-1]))
        file.close()
        self.tokens = tokens
        self.process = subprocess.Popen([program, "serve", file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode(errors="replace").rstrip("\n")

    def compile(self, schema):
        return self.ask("compile " + json.dumps(schema)) == "ok"

    def begin(self):
        self.ask("begin")

    def mask(self):
        """The tokens that may come, and whether the answer may end; None where that is too much work."""
        answer = self.ask("mask")
        if answer == "limit":
            return None
        words, ends = answer.split(" ", 1)
        bits = sum(int(words[i : i + 8], 16) << (4 * i) for i in range(0, len(words), 8))
        return {token for token in range(len(self.tokens) - 1) if bits >> token & 1}, ends == "ends"

    def push(self, token):
        return self.ask(f"push {token}") == "ok"

    def end(self, token):
        return self.ask(f"end {token}")


class Guidance:
    def __init__(self, tokens):
        import llguidance

        class Bytes:
            eos_token_id, bos_token_id, special_token_ids = len(tokens) - 1, None, [len(tokens) - 1]

            def __call__(self, text):
                return list(text if isinstance(text, bytes) else text.encode())

        Bytes.tokens = tokens[:-1] + [b"<end>"]
        self.module, self.count = llguidance, len(tokens) - 1
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))

    def compile(self, schema):
        options = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
        text = self.module.LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=options)
        if self.module.LLMatcher.validate_grammar(text, self.tokenizer):
            return False
        self.grammar = text
        return True

    def begin(self):
        self.matcher = self.module.LLMatcher(self.tokenizer, self.grammar)

    def mask(self):
        if self.matcher.is_error():
            return None
        bits = self.matcher.compute_bitmask()
        return {token for token in range(self.count) if bits[token // 8] >> (token % 8) & 1}, self.matcher.is_accepting()

    def push(self, token):
        return self.matcher.consume_token(token)

    def copy(self):
        return self.matcher.deep_copy()

    def back(self, matcher):
        self.matcher = matcher


class Xgrammar:
    def __init__(self, tokens):
        import xgrammar

        info = xgrammar.TokenizerInfo(tokens[:-1] + [b"<end>"], stop_token_ids=[len(tokens) - 1])
        self.module, self.count = xgrammar, len(tokens) - 1
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self.bits = xgrammar.allocate_token_bitmask(1, len(tokens))

    def compile(self, schema):
        try:
            self.grammar = self.compiler.compile_json_schema(json.dumps(schema), any_whitespace=False, separators=(",", ":"), strict_mode=False)
        except Exception:
            return False
        return True

    def begin(self):
        self.matcher = self.module.GrammarMatcher(self.grammar)

    def mask(self):
        self.matcher.fill_next_token_bitmask(self.bits)
        words = [int(word) & 0xFFFFFFFF for word in self.bits[0]]
        allowed = {token for token in range(self.count + 1) if words[token // 32] >> (token % 32) & 1}
        return allowed - {self.count}, self.count in allowed

    def push(self, token):
        return self.matcher.accept_token(token)

    def copy(self):
        return self.matcher.fork()

    def back(self, matcher):
        self.matcher = matcher


class Judge:
    """jsonschema's word on a text, unless jsonschema-rs, where it is installed, takes it; None where it has none. For the one `\\w` has all
    letters, as in Python; for the other those of ASCII, as the standard has it."""

    def __init__(self, schema):
        from jsonschema import FormatChecker, validators

        self.validator = validators.validator_for(schema)(schema, format_checker=FormatChecker())
        try:
            import jsonschema_rs

            self.other = jsonschema_rs.validator_for(schema, validate_formats=True)
        except (ImportError, ValueError):
            self.other = None

    def valid(self, text):
        try:
            value = json.loads(text)
            if next(self.validator.iter_errors(value), None) is None:
                return True
            return self.other is not None and self.other.is_valid(value)
        except json.JSONDecodeError:
            return False
        except Exception:
            return None


def longest(tokens, text):
    """The token with the most bytes that `text` begins with."""
    return max((token for token in range(len(tokens) - 1) if text.startswith(tokens[token])), key=lambda token: len(tokens[token]))


def whole_of(there, tokens, prefix, token, rng):
    """A whole answer of the oracle that goes on with `token`, by a random search; None where none was found."""
    kept = there.copy()
    text = prefix + tokens[token]
    try:
        if not there.push(token):
            return None
        for step in range(300):
            state = there.mask()
            if state is None:
                return None
            allowed, ends = state
            if ends:
                return text.decode(errors="replace")
            if not allowed:
                return None
            likely = [each for each in allowed if tokens[each][:1] in (b'"', b"}", b"]", b"0", b"1")] or sorted(allowed)
            one = rng.choice(sorted(likely))
            if not there.push(one):
                return None
            text += tokens[one]
        return None
    finally:
        there.back(kept)


def spelled(text):
    """What another spelling of the same value differs in: strings' escapes and numbers; or the order of keys."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return None
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Comparison:
    def __init__(self, here, there, tokens, rng):
        self.here, self.there, self.tokens, self.rng = here, there, tokens, rng
        self.counts, self.shown = collections.Counter(), []

    def show(self, kind, row, text):
        self.counts[kind] += 1
        if sum(each[0] == kind for each in self.shown) < 8:
            self.shown.append((kind, row["name"], text[-200:]))

    def only_here(self, row, judge, prefix, token):
        text = self.here.end(token)
        verdict = judge.valid(text) if text != "-" else None
        kind = {True: "allowed here alone, rightly", False: "ALLOWED HERE ALONE, WRONGLY", None: "allowed here alone, not known"}[verdict]
        if verdict is True:
            self.counts[kind] += 1
        else:
            self.show(kind, row, text if text != "-" else (prefix + self.tokens[token]).decode(errors="replace"))

    def only_there(self, row, judge, prefix, token):
        text = whole_of(self.there, self.tokens, prefix, token, self.rng)
        verdict = judge.valid(text) if text is not None else None
        if verdict is None:
            self.counts["forbidden here alone, not known"] += 1
        elif not verdict:
            self.counts["forbidden here alone, rightly"] += 1
        elif spelled(text) != text:
            self.counts["forbidden here alone, another spelling"] += 1
        else:
            self.show("forbidden here alone, a valid answer", row, text)

    def compare(self, row, judge, prefix):
        """False where the walk cannot go on."""
        here, there = self.here.mask(), self.there.mask()
        if here is None or there is None:
            self.counts["limits"] += 1
            return None
        self.counts["masks"] += 1
        if here == there:
            self.counts["equal masks"] += 1
        for tokens, tell in ((here[0] - there[0], self.only_here), (there[0] - here[0], self.only_there)):
            for token in self.rng.sample(sorted(tokens), min(2, len(tokens))):
                tell(row, judge, prefix, token)
        if here[1] != there[1]:
            text = prefix.decode(errors="replace")
            (self.show if judge.valid(text) != here[1] else lambda kind, *_: self.counts.update([kind]))("ends differ", row, text)
        return sorted(here[0] & there[0])

    def walk(self, row, judge, text, steps):
        """Along `text` as far as both take it, then at random."""
        self.here.begin()
        self.there.begin()
        prefix = b""
        for _ in range(steps):
            both = self.compare(row, judge, prefix)
            if not both:
                return
            token = longest(self.tokens, text) if text else self.rng.choice(both)
            if token not in both:
                text, token = b"", self.rng.choice(both)
            text = text[len(self.tokens[token]) :]
            if not (self.here.push(token) and self.there.push(token)):
                return
            prefix += self.tokens[token]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--oracle", choices=("llguidance", "xgrammar"), default="llguidance")
    arguments = parser.parse_args()
    tokens = vocabulary()
    try:
        import jsonschema  # noqa: F401

        there = {"llguidance": Guidance, "xgrammar": Xgrammar}[arguments.oracle](tokens)
    except ImportError as missing:
        print(f"skipped: {missing.name} is not installed")
        return 77
    if not SCHEMAS.exists():
        print(f"skipped: {SCHEMAS} is not there")
        return 77
    here = Here(arguments.build / "tests" / "bench" / "grammar_judge", tokens)
    comparison = Comparison(here, there, tokens, random.Random(1))
    with lzma.open(SCHEMAS, "rt") as file:
        rows = [json.loads(line) for line, _ in zip(file, range(arguments.first + arguments.count))][arguments.first :]
    for row in rows:
        taken = here.compile(row["schema"]), there.compile(row["schema"])
        if not all(taken):
            comparison.counts["refused " + ("by both" if not any(taken) else "here" if not taken[0] else "there")] += 1
            continue
        comparison.counts["schemas"] += 1
        judge = Judge(row["schema"])
        texts = [json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False).encode() for test in row["tests"] if test["valid"]]
        for text in texts[:2] + [b""]:
            comparison.walk(row, judge, text, arguments.steps)
    for kind, name, text in comparison.shown:
        print(f"{kind}: {name}: {text}")
    print(f"{arguments.oracle}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(comparison.counts.items())))
    return 1 if comparison.counts["ALLOWED HERE ALONE, WRONGLY"] else 0


if __name__ == "__main__":
    sys.exit(main())
