"""Table E: a tokenizer.json that is not what it should be. The server does not start, and one line says which file and where.

A small checkpoint is spoiled in one place each time. As it is, it is served: what is refused is the spoiled place."""

import json
import shutil

import pytest

import hydrant_server

CHECKPOINT = hydrant_server.REPOSITORY / "tests" / "golden" / "gqa_tied"
LIMIT_S = 10.0  # the worst of these takes one
FLAGS = ("--port", "0", "--threads", "1", "--num-gpu-blocks-override", "64")


@pytest.fixture
def checkpoint(tmp_path):
    for name in ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(CHECKPOINT / name, tmp_path / name)
    return tmp_path


def check_refused(checkpoint, words):
    ended = hydrant_server.run_to_end("serve", checkpoint, *FLAGS, timeout=LIMIT_S)
    assert ended.returncode == 78, ended.stderr
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert len(lines) == 1 and len(lines[0]) < 300, ended.stderr[:2000]
    assert lines[0].startswith("hydrantd: tokenizer.json: "), lines[0]
    assert words in lines[0], lines[0]


def change(checkpoint, spoil):
    """`spoil` gets the tokenizer as Python has it, and changes it."""
    path = checkpoint / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    spoil(tokenizer)
    path.write_text(json.dumps(tokenizer))


def split_at(pattern):
    def spoil(tokenizer):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        stages = [split, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]
        tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": stages}

    return spoil


def merges(*pairs):
    return lambda tokenizer: tokenizer["model"].update(merges=pairs)


@pytest.mark.parametrize("spoil", [merges(["t", "h"]), split_at(r"\s+")], ids=["merges", "split"])
def test_the_checkpoint_is_served_where_nothing_is_spoiled(start_server, checkpoint, spoil):
    change(checkpoint, spoil)
    server = start_server("--num-gpu-blocks-override", 64, model=checkpoint)
    assert server.complete(prompt="the", max_tokens=2, ignore_eos=True)["usage"]["completion_tokens"] == 2


# What the file holds -> what the line says.
NO_JSON = {
    "empty": ("", "is not valid JSON"),
    "cut off": ('{"version":', "is not valid JSON"),
    "NaN": ('{"version": NaN}', "is not valid JSON"),
    "arrays, 100,000 deep": ("[" * 100_000 + "]" * 100_000, "is nested deeper than"),
    "objects, 100,000 deep": ('{"a":' * 100_000 + "1" + "}" * 100_000, "is nested deeper than"),
}


@pytest.mark.parametrize("name", NO_JSON)
def test_e19_a_file_that_is_no_tokenizer(checkpoint, name):
    text, words = NO_JSON[name]
    (checkpoint / "tokenizer.json").write_text(text)
    check_refused(checkpoint, words)


def test_e19_a_gigabyte_is_not_read(checkpoint):
    # A hole behind a sound file: whoever read it would need the memory, not the disk.
    with open(checkpoint / "tokenizer.json", "r+b") as file:
        file.truncate(1 << 30)
    check_refused(checkpoint, f"has {1 << 30} bytes")


UNKNOWN = {
    "version": (lambda tokenizer: tokenizer.update(version="2.0"), "'version': '2.0' is not supported"),
    "model": (lambda tokenizer: tokenizer["model"].update(type="Unigram"), "'model': type 'Unigram' is not supported"),
    "dropout": (lambda tokenizer: tokenizer["model"].update(dropout=0.1), "'model': dropout 0.1 is not supported"),
} | {
    part: (lambda tokenizer, part=part: tokenizer.update({part: {"type": "Nope"}}), f"'{part}': type 'Nope' is not supported")
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
}  # fmt: skip


@pytest.mark.parametrize("part", UNKNOWN)
def test_e19_a_part_of_a_type_that_is_unknown(checkpoint, part):
    spoil, words = UNKNOWN[part]
    change(checkpoint, spoil)
    check_refused(checkpoint, words)


# A merge's token is longer than its parts: of merges in a circle one must make a token that is none.
MERGES = {
    "of an unknown token": (merges(["t", "h"], ["th", "zz"]), "merge 1: 'zz' is not in the vocabulary"),
    "into an unknown token": (merges(["t", "h"], ["q", "q"]), "merge 1: 'qq' is not in the vocabulary"),
    "in a circle": (merges(["t", "h"], ["th", "t"], ["tht", "h"]), "merge 1: 'tht' is not in the vocabulary"),
    "no pair": (merges(["t", "h"], "th"), "'model.merges[1]': 'th' is not a pair"),
    "three words": (merges(["t", "h"], "t h e"), "'model.merges[1]': 't h e' is not a pair"),
    "half a pair": (merges(["t", "h"], ["t", ""]), "'model.merges[1]': is not a pair"),
    "numbers": (merges(["t", "h"], [1, 2]), "'model.merges[1][0]': is not a string"),
    "no list": (lambda tokenizer: tokenizer["model"].update(merges={}), "'model.merges': is not an array"),
}


@pytest.mark.parametrize("name", MERGES)
def test_e21_merges(checkpoint, name):
    spoil, words = MERGES[name]
    change(checkpoint, spoil)
    check_refused(checkpoint, words)


def test_e21_ten_million_merges(checkpoint):
    path = checkpoint / "tokenizer.json"
    change(checkpoint, merges("here"))
    # Python would take longer to make the list than the server to refuse it.
    path.write_text(path.read_text().replace('"here"', ",".join(['"t h"'] * 10_000_000)))
    check_refused(checkpoint, "has more than 4000000 values")


# Each with what the line says of it. The first three are tried on runs of one character, with a limit.
PATTERNS = {
    "(a+)+b": "needs too many steps on a run of 'a'",
    "(?:a|a)*b": "needs too many steps on a run of 'a'",
    r"(\s*)*x": "needs too many steps on a run of",
    "(": "missing closing parenthesis",
    "(?<=a+)b": "lookbehind assertion is not fixed length",
    r"(a)\1": "the construct",
    "(?R)": "the construct '(?R)' is not supported",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_e23_a_split_pattern(checkpoint, pattern):
    change(checkpoint, split_at(pattern))
    check_refused(checkpoint, f"split pattern: {PATTERNS[pattern]}")
