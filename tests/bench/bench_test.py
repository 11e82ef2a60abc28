"""The programs that `./hydrant bench` runs, by its command lines, as small as their flags allow: each starts and comes to its end, and what
it cannot measure it refuses. What HYDRANT_BUILD_DIR does not have is left out. Python's standard library only."""

import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("HYDRANT_BUILD_DIR", HERE.parents[1] / "build" / "release"))
MODEL = HERE.parents[1] / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SKIPPED = 77
SMALL = {
    "adapter": ("--tokens", 16, "--batch", 1, "--threads", 1),
    "attention": ("--benchmark_list_tests",),
    "linear": ("--rows", 1, "--repeats", 1, "--format=Q4_0"),
    "sampling": ("--benchmark_list_tests",),
    "scheduler": ("--benchmark_list_tests",),
    "swap": ("--tokens", 64),
    "tokenizer": ("--repeats", 1),
    "weight_quality": ("--tokens", 64, "--context", 32),
}
BIG = ("loadgen", "model")  # minutes, or seconds of a test of its own
REFUSED = (
    ("linear", "--format", "Q4_O"), ("linear", "--rows", 0), ("linear", "--repeats", 0), ("linear", "--threads", "x"),
    ("linear", "--quantization", "int4"), ("loadgen", "--threads", 1), ("adapter", "--threads", "x"),
)  # fmt: skip


def bench(name, *words):
    command = [sys.executable, "-B", HERE / "bench.py", "--build", BUILD, name, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def is_built(name):
    return (BUILD / "tests" / "bench" / f"{name}_bench").exists()


class CommandLines(unittest.TestCase):
    def test_what_runs_by_itself_comes_to_its_end(self):
        sys.path.insert(0, str(HERE))
        from bench import ONLY_WHEN_NAMED

        programs = {path.stem.removesuffix("_bench") for path in HERE.glob("*_bench.cc")}
        self.assertEqual(programs - set(ONLY_WHEN_NAMED), {*SMALL, *BIG})
        for name in filter(is_built, SMALL):
            with self.subTest(name):
                result = bench(name, *SMALL[name])
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_what_cannot_be_measured_is_refused(self):
        for name, *words in REFUSED:
            if is_built(name):
                with self.subTest(words):
                    result = bench(name, *words)
                    self.assertEqual(result.returncode, 1, result.stdout)
                    self.assertIn(words[0], result.stderr)

    def test_scripts_want_a_round_at_least(self):
        for name, flag in (("sessions", "--rounds"), ("drafts", "--rounds"), ("shapes", "--rounds"), ("operations", "--aborts")):
            result = bench(name, flag, 0)
            self.assertIn(f"argument {flag}: 0 is not a number above 0", result.stderr)

    def test_a_format_is_known_by_its_name(self):
        for words in (("--format", "q4_0"), ("--format=Q4_0",)) if is_built("linear") else ():
            self.assertIn(", Q4_0: read", bench("linear", "--rows", 1, "--repeats", 1, *words).stdout)


if __name__ == "__main__":
    if not MODEL.exists():
        print(f"skipped: there is no model at {MODEL}")
        sys.exit(SKIPPED)
    unittest.main()
