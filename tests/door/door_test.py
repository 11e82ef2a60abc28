#!/usr/bin/env python3
"""`./hydrant` as a newcomer meets it: help and lists answer at once, from the sources alone, and mistakes are named
before anything is built. Every program that installs, builds or fetches is replaced by one that leaves a trace.
Python's standard library only."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORBIDDEN = ("apt-get", "sudo", "cmake", "ninja", "ctest", "g++", "c++", "clang++-14", "pip", "pip3", "curl", "git")
AT_ONCE_S = 5  # a loaded machine has time for two dozen small programs in it, and for no build
EXIT_USAGE = 64
COMMANDS = ("up", "models", "fetch", "test", "fuzz", "bench", "load", "chat", "batch", "sessions", "wheel", "fmt", "lint")


class Door(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="door-")
        self.addCleanup(self.folder.cleanup)
        folder = pathlib.Path(self.folder.name)
        self.trace, self.build, stubs = folder / "trace", folder / "build", folder / "bin"
        stubs.mkdir()
        for name in FORBIDDEN:
            self.write(stubs / name, f'echo "{name} $*" >>"{self.trace}"\nexit 1\n')
        # Python is allowed, pip is not.
        no_modules = f'[ "$1" = -m ] && {{ echo "python3 $*" >>"{self.trace}"; exit 1; }}'
        self.write(stubs / "python3", f'{no_modules}\nexec "{sys.executable}" "$@"\n')
        self.environment = {**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}", "HYDRANT_BUILD": str(self.build)}

    def write(self, path, body):
        path.write_text(f"#!/bin/sh\n{body}")
        path.chmod(0o755)

    def hydrant(self, *arguments, cwd=None, door=ROOT / "hydrant"):
        started = time.monotonic()
        command = [door, *arguments]
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, cwd=cwd)
        result.seconds = time.monotonic() - started
        return result

    def default_model(self):
        return next(line.split()[2] for line in (ROOT / "deploy/models/smollm2-135m.txt").read_text().splitlines() if "# file:" in line)

    def assert_did_nothing(self, result):
        self.assertFalse(self.trace.exists(), self.trace.exists() and self.trace.read_text())
        self.assertFalse(self.build.exists(), "a build directory was made")
        self.assertLess(result.seconds, AT_ONCE_S)

    def test_help_answers_at_once(self):
        of_commands = [words for command in COMMANDS for words in (["help", command], [command, "--help"])]
        for arguments in ([], ["help"], ["--help"], *of_commands):
            with self.subTest(arguments):
                result = self.hydrant(*arguments)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stderr, "")
                self.assertIn("hydrant", result.stdout)
                self.assert_did_nothing(result)

    def test_help_names_every_command(self):
        overview = self.hydrant("help").stdout
        for command in COMMANDS:
            self.assertIn(f"./hydrant {command}", overview)
            self.assertIn(f"./hydrant {command}", self.hydrant(command, "--help").stdout)

    def test_help_behind_other_arguments_is_help(self):
        result = self.hydrant("up", "no/such/model", "--port", "0", "--help")
        self.assertEqual(result.returncode, 0)
        self.assert_did_nothing(result)

    def test_the_list_of_benches_is_that_of_the_sources(self):
        result = self.hydrant("bench", "--list")
        self.assertEqual(result.returncode, 0, result.stderr)
        names = [row.split()[0] for row in result.stdout.splitlines()]
        for row in result.stdout.splitlines():
            self.assertGreater(len(row.split()), 1, f"{row} does not say what it measures (MEASURES in bench.py)")
        for source in (ROOT / "tests" / "bench").glob("*_bench.cc"):
            self.assertIn(source.stem.removesuffix("_bench"), names)
        self.assertIn("server", names)
        self.assert_did_nothing(result)

    def test_the_list_of_models_is_that_of_the_catalogue(self):
        result = self.hydrant("models")
        self.assertEqual(result.returncode, 0, result.stderr)
        for page in (ROOT / "deploy" / "models").glob("*.txt"):
            self.assertEqual(page.stem in result.stdout, page.stem != "hub_requirements", page)
        self.assert_did_nothing(result)

    def test_a_model_that_is_not_there_is_named_before_anything_is_built(self):
        # The last is a path, too, for its folder exists: nobody asks a hub for it.
        for model in ("no_such_model", "no/such/model", "server/model.gguf"):
            for arguments in ([model], ["--model", model], [f"--model={model}", "--port", "0"]):
                with self.subTest(arguments):
                    result = self.hydrant("up", *arguments)
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertIn(f"there is no model at {model}", result.stderr)
                    self.assert_did_nothing(result)
        result = self.hydrant("fetch", "no_such_model")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("qwen2.5-coder-1.5b", result.stderr)
        self.assert_did_nothing(result)

    def test_a_mistake_is_named_before_anything_is_built(self):
        for arguments, word in (
            (["tset"], "did you mean test?"),
            (["help", "tset"], "did you mean test?"),
            (["bench", "no_such_bench"], "no_such_bench"),
            (["bench", "sesions"], "did you mean sessions?"),
            (["bench", "--no-such-flag"], "--no-such-flag"),
            (["bench", "--threads", "1"], "--threads goes with --peer"),
            (["bench", "--formats", "Q4_0", "model"], "--formats goes with --peer"),
            (["bench", "--peer", "llama.cpp", "model"], "--peer takes no NAME"),
            (["bench", "model", "--peer", "llama.cpp"], "--peer takes no NAME"),
            (["bench", "--peer", "llama.cpp", "--rounds", "0"], "--rounds"),
            (["bench", "--peer", "llama.cpp", "--threads", "-3"], "--threads"),
            (["bench", "model", "linear", "--threads", "1"], "--threads: flags go behind one NAME"),
            (["bench", "server", "--threads", "1"], "server takes no flags"),
            (["fuzz", "no_such_target"], "no_such_target"),
            (["fuzz", "5", "no_such_target"], "no_such_target"),
            (["fuzz", "htp_head"], "did you mean http_head?"),
            (["lint", "no_such_file.cc"], "no_such_file.cc"),
            (["models", "smollm2-135m"], "fetch"),
            (["wheel", "--out", "x"], "wheel takes no arguments"),
            (["up", "--port", "70000"], "70000"),
            (["up", "--port"], "--port takes a number"),
            (["up", "--model"], "--model takes a model"),
            (["up", "--model="], "--model takes a model"),
            (["up", "--model", "--port", "0"], "--model takes a model"),
            (["up", "--prot", "1"], "no flag --prot: did you mean --port?"),
            (["up", "--kv-budgets=4"], "did you mean --kv-budget?"),
            (["up", "--no-port"], "--no-port"),
            (["up", "-p", "1"], "'-p'"),
            (["up", "smollm2-135m", "another"], "'another'"),
            (["up", "--no-ui", "0"], "'0'"),  # a switch has no value
            (["fetch"], "which model"),
            (["fetch", "smollm2-135m", "another"], "which model"),
        ):
            with self.subTest(arguments):
                result = self.hydrant(*arguments)
                self.assertEqual(result.returncode, EXIT_USAGE, result.stderr)
                self.assertIn(word, result.stderr)
                self.assert_did_nothing(result)

    def test_a_flag_that_ctest_lacks_is_named_before_anything_is_built(self):
        self.write(pathlib.Path(self.folder.name) / "bin" / "ctest", "echo '  -R <regex>, --tests-regex <regex> = Run these.'\n")
        for flag, meant in (("--fsat", "--fast"), ("--test-regex=Door", "--tests-regex")):
            result = self.hydrant("test", flag)
            self.assertEqual(result.returncode, EXIT_USAGE, result.stderr)
            self.assertIn(f"{flag.partition('=')[0]}: did you mean {meant}?", result.stderr)
            self.assert_did_nothing(result)

    def test_flags_of_the_server_and_their_values_pass(self):
        self.environment["HYDRANT_SKIP_PACKAGES"] = "1"
        flags = ["--port=0", "--no-ui", "--enable_prefix_caching", "--api-key", "-secret", "--threads", "2"]
        result = self.hydrant("up", "smollm2-135m", *flags)
        self.assertIn("Configuring release failed", result.stderr)  # the build is the next step, and cmake a stand-in

    def test_what_draws_a_picture_of_the_pages_draws_none_for_its_help(self):
        pictures = ROOT / "docs" / "pictures"
        scripts, before = sorted(pictures.glob("*.py")), {path: path.stat().st_mtime_ns for path in pictures.iterdir()}
        self.assertGreater(len(scripts), 1)
        for script in scripts:
            with self.subTest(script.name):
                result = subprocess.run([sys.executable, "-B", script, "--help"], capture_output=True, text=True, timeout=30)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"usage: {script.name}", result.stdout)
        self.assertEqual({path: path.stat().st_mtime_ns for path in pictures.iterdir()}, before)

    def test_paths_are_those_of_the_folder_it_is_called_from(self):
        elsewhere = pathlib.Path(self.folder.name) / "elsewhere"
        elsewhere.mkdir()
        door = elsewhere / "door"
        door.symlink_to(ROOT / "hydrant")
        (elsewhere / "in.jsonl").write_text('{"custom_id": "a", "url": "/v1/completions", "body": {}}\n')
        result = self.hydrant("batch", "in.jsonl", "out.jsonl", "--url", "http://127.0.0.1:9", cwd=elsewhere, door=door)
        self.assertIn("There is no server", result.stderr)  # the file has been read

        # Programs that are built: stand-ins, that say where they are and what they are given.
        self.environment["HYDRANT_SKIP_PACKAGES"] = "1"
        for name in ("cmake", "ninja"):
            self.write(pathlib.Path(self.folder.name) / "bin" / name, "exit 0\n")
        (self.build / "release").mkdir(parents=True)
        for name in ("hydrantd", "hydrant-loadgen"):
            self.write(self.build / "release" / name, 'pwd -P; echo "$*"\n')
        (elsewhere / "model.gguf").touch()
        catalogued = self.default_model()
        for arguments, given in (
            (["up", "model.gguf", "--port", "0"], "serve model.gguf --port 0"),
            (["up", "--port=0"], f"serve {ROOT}/models/{catalogued} --port=0"),
            (["load", "--save", "x"], "--save x"),
            (["sessions", "import", "file"], "sessions import file"),
        ):
            with self.subTest(arguments):
                if catalogued in given and not (ROOT / "models" / catalogued).exists():
                    self.skipTest("the default model is not here")
                result = self.hydrant(*arguments, cwd=elsewhere)
                self.assertEqual(result.stdout.splitlines(), [str(elsewhere.resolve()), given], result.stderr)

    def test_a_bench_builds_its_own_targets(self):
        self.environment["HYDRANT_SKIP_PACKAGES"] = "1"
        for names, targets in (
            (["model", "linear"], "linear_bench model_bench"),
            (["sessions", "server"], "hydrantd"),
            (["stored_weights"], "hydrantd weight_quality_bench"),
        ):
            self.build_with_ninja_only()
            self.hydrant("bench", *names)
            self.assertEqual(self.trace.read_text(), f"ninja -C {self.build}/release {targets}\n")
            self.trace.unlink()

    def test_what_stands_behind_one_bench_is_its_own(self):
        if not (ROOT / "models" / self.default_model()).exists():
            self.skipTest("the default model is not here")
        self.environment["HYDRANT_SKIP_PACKAGES"] = "1"
        self.build_with_ninja_only()
        self.write(pathlib.Path(self.folder.name) / "bin" / "ninja", "exit 0\n")
        programs = self.build / "release" / "tests" / "bench"
        programs.mkdir(parents=True)
        self.write(programs / "linear_bench", 'pwd -P; echo "$*"\n')
        for words, given in ((["--rows", "1,2"], "--rows 1,2"), (["--", "a", "--list"], "a --list"), ([], "")):
            result = self.hydrant("bench", "linear", *words, cwd=self.folder.name)
            self.assertEqual(result.stdout.splitlines()[-2:], [str(pathlib.Path(self.folder.name).resolve()), given], result.stderr)

    def test_the_build_of_another_tree_is_not_taken_over(self):
        self.environment["HYDRANT_SKIP_PACKAGES"] = "1"
        self.build_with_ninja_only()
        cache, other = self.build / "release" / "CMakeCache.txt", self.build / "other"
        other.mkdir()
        for home, arguments in ((other, ["up"]), (self.build / "gone", ["up"]), (other, ["load"]), (other, ["test"])):
            cache.write_text(f"# comment\nCMAKE_HOME_DIRECTORY:INTERNAL={home}\n")
            result = self.hydrant(*arguments)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(f"the build of another tree, {home}.", result.stderr)
            self.assertIn("HYDRANT_BUILD=", result.stderr)
            self.assertNotIn("ninja", self.trace.read_text() if self.trace.exists() else "")
            self.assertFalse((self.build / "logs").exists(), "its logs are not written over")
        # By way of a link it is another tree's, too; and this tree is this one under another name.
        (self.build / "release").rename(self.build / "theirs")
        (self.build / "release").symlink_to(self.build / "theirs")
        self.assertIn(f"rm -r {self.build / 'theirs'}", self.hydrant("load").stderr)
        other.rmdir()
        other.symlink_to(ROOT)
        self.assertNotIn("another tree", self.hydrant("load").stderr)
        self.assertIn("ninja -C", self.trace.read_text())

    def build_with_ninja_only(self):
        """A build directory that was configured a moment ago."""
        (self.build / "release").mkdir(parents=True, exist_ok=True)
        (self.build / "release" / "build.ninja").touch()


if __name__ == "__main__":
    unittest.main()
