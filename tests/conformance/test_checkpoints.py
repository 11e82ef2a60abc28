"""Table E's tokenizers, which no request can reach: the server says what is wrong with them and does not start."""

import json
import pathlib
import re
import shutil
import time

import pytest

from hydrant_server import SLOW
from test_lifetime import run_to_end

CHECKPOINT = pathlib.Path(__file__).resolve().parents[1] / "golden" / "gqa_tied"


def with_text(text):
    return lambda path: path.write_text(text)


def with_field(**fields):
    def spoil(path):
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return spoil


def with_model(**fields):
    def spoil(path):
        tokenizer = json.loads(path.read_text())
        tokenizer["model"] |= fields
        path.write_text(json.dumps(tokenizer))

    return spoil


def with_regex(pattern):
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    steps = [split, {"type": "ByteLevel", "use_regex": False}]
    return with_field(pre_tokenizer={"type": "Sequence", "pretokenizers": steps})


def sparse(path):
    with open(path, "r+b") as file:
        file.truncate(1 << 30)


SPOILED = {
    "e19: a gigabyte": sparse,
    "e19: a million brackets": with_text("[" * 1_000_000),
    "e19: half a million objects": with_text('{"a":' * 500_000),
    "e19: an empty file": with_text(""),
    "e19: a number that is none": with_text('{"version": NaN}'),
    "e19: another version": with_field(version="2.0"),
    "e19: another model": with_model(type="Unigram"),
    "e19: another pre-tokenizer": with_field(pre_tokenizer={"type": "Nonsense"}),
    "e19: another decoder": with_field(decoder={"type": "Nonsense"}),
    "e21: a merge of tokens that are none": with_model(merges=[["zq", "qz"]]),
    "e21: a merge into a token that is none": with_model(merges=[["z", "q"]]),
    "e21: two million merges": with_model(merges=["! !"] * 2_000_000),
    "e21: a pair of one": with_model(merges=[["a"]]),
    "e23: a regex that backtracks": with_regex("(a+)+b"),
    "e23: alternatives that are the same": with_regex("(?:a|a)*b"),
    "e23: a loop of nothing": with_regex("(\\s*)*x"),
    "e23: a lookbehind": with_regex("(?<=a+)b"),
    "e23: a back-reference": with_regex("(a)\\1"),
    "e23: no regex": with_regex("("),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_tokenizer_that_is_none_is_refused_by_name(tmp_path, name):
    shutil.copytree(CHECKPOINT, tmp_path, dirs_exist_ok=True)
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.chmod(0o600)
    SPOILED[name](tokenizer)
    started = time.monotonic()
    code, output = run_to_end("serve", tmp_path, "--port", 0, "--num-gpu-blocks-override", 64)
    assert time.monotonic() - started < 10 * SLOW
    assert code == 78, output
    assert "listening" not in output
    lines = output.strip().splitlines()
    assert len(lines) <= 3 and len(output) < 2000, output
    assert re.search(r"tokenizer\.json: ", lines[-1]), output


def test_the_tokenizer_that_is_spoiled_above_is_one(start_server):
    """Or the refusals would say nothing."""
    server = start_server("--num-gpu-blocks-override", 64, model=CHECKPOINT)
    assert server.complete(prompt="a", max_tokens=1)["usage"]["completion_tokens"] == 1
