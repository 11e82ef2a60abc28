#!/usr/bin/env python3
"""The Python wheel, made of the programs of this build: what its parts say of each other, that the programs run with the libraries
that came along, and what the launcher does. tests/deploy/installed installs it where nothing else of the build is."""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from replicas import BINARY, ROOT, Process, ask, skip_without, small_model

sys.path.insert(0, str(ROOT / "deploy" / "wheel"))
import make_wheel  # noqa: E402

BUILD = pathlib.Path(os.environ.get("HYDRANT_BUILD_DIR", ROOT / "build" / "release"))
SIZE_MAX = 12_000_000  # it has 8 MB; a program that was not stripped has 55


def setUpModule():
    global FOLDER, WHEEL, SITE, MODEL
    FOLDER = tempfile.TemporaryDirectory(prefix="hydrant-wheel-test-")
    make_wheel.COMPRESSION = 1  # a second less
    WHEEL = make_wheel.make_wheel(BUILD, pathlib.Path(FOLDER.name) / "made")
    SITE = pathlib.Path(FOLDER.name) / "site"
    with zipfile.ZipFile(WHEEL) as archive:
        for entry in archive.infolist():  # as pip does: zipfile itself forgets modes
            os.chmod(archive.extract(entry, SITE), entry.external_attr >> 16)
    MODEL = small_model()
    print(f"{WHEEL.name}: {WHEEL.stat().st_size} bytes")


def tearDownModule():
    shutil.rmtree(MODEL.parent)
    FOLDER.cleanup()


def launcher(*arguments, **fields):
    """The command line of `hydrant`, and its environment: the wheel's files and a poisoned path of libraries."""
    environment = dict(os.environ, PYTHONPATH=str(SITE), LD_LIBRARY_PATH=f"{FOLDER.name}/poison", **fields)
    return [sys.executable, "-B", "-m", "hydrant", *map(str, arguments)], environment


def hydrant(*arguments, **fields):
    command, environment = launcher(*arguments, **fields)
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=FOLDER.name)


def elves():
    return [path for folder in ("bin", "lib") for path in sorted((SITE / "hydrant" / folder).iterdir())]


class Contents(unittest.TestCase):
    def test_the_record_has_every_file_with_its_checksum(self):
        (record,) = SITE.glob("*.dist-info/RECORD")
        rows = {name: (digest, size) for name, digest, size in (line.split(",") for line in record.read_text().splitlines())}
        self.assertEqual(set(rows), {path.relative_to(SITE).as_posix() for path in SITE.rglob("*") if path.is_file()})
        self.assertEqual(rows.pop(record.relative_to(SITE).as_posix()), ("", ""))
        for name, (digest, size) in rows.items():
            data = (SITE / name).read_bytes()
            right = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            self.assertEqual((digest, int(size)), (f"sha256={right}", len(data)), name)

    def test_name_tag_and_metadata_agree(self):
        version = re.search(r"project\(hydrant VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        name, named_version, tag = WHEEL.stem.split("-", 2)
        self.assertEqual((name, named_version), ("hydrant", version))
        self.assertRegex(tag, r"^py3-none-manylinux_2_\d+_(x86_64|aarch64)$")
        info = SITE / f"hydrant-{version}.dist-info"
        self.assertIn(f"\nTag: {tag}\n", (info / "WHEEL").read_text())
        self.assertIn(f"\nVersion: {version}\n", (info / "METADATA").read_text())
        self.assertLess(WHEEL.stat().st_size, SIZE_MAX)

    def test_no_symbol_is_newer_than_the_tag_says(self):
        glibc = int(re.search(r"manylinux_2_(\d+)", WHEEL.name)[1])
        for elf in elves():
            minors = [version[1] for family, version in make_wheel.symbol_versions(elf) if family == "GLIBC"]
            self.assertLessEqual(max(minors, default=0), glibc, elf.name)

    def test_every_library_is_inside_or_on_every_system(self):
        inside = {path.name for path in (SITE / "hydrant/lib").iterdir()}
        self.assertIn("libcrypto.so.3", inside)
        for elf in elves():
            self.assertLessEqual(make_wheel.needed_by(elf), inside | make_wheel.SYSTEM_LIBRARIES, elf.name)
            self.assertTrue(os.access(elf, os.X_OK), elf.name)
        self.assertFalse(inside & make_wheel.SYSTEM_LIBRARIES)

    def test_the_licences_of_what_is_handed_on_are_in_it(self):
        texts = {path.stem for path in SITE.glob("*.dist-info/licenses/*.txt")}
        self.assertLessEqual({"libssl3", "libabsl20220623", "libpcre2-8-0", "Apache-2.0"}, texts)

    def test_every_part_is_where_its_entry_point_or_page_says(self):
        for name in ("hydrant/__main__.py", "hydrant/clients/chat.py", "hydrant/models/smollm2-135m.txt", "hydrant_ray/app.py",
                     "hydrant_ray/serve.yaml"):  # fmt: skip
            self.assertTrue((SITE / name).is_file(), name)


class Programs(unittest.TestCase):
    def test_libraries_come_from_the_wheel_whatever_the_environment_says(self):
        poison = pathlib.Path(FOLDER.name) / "poison"
        poison.mkdir(exist_ok=True)
        (poison / "libspdlog.so.1.10").write_text("not a library")
        for name in make_wheel.PROGRAMS:
            command, environment = ["ldd", SITE / "hydrant/bin" / name], dict(os.environ, LD_LIBRARY_PATH=str(poison))
            found = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
            for library, path in re.findall(r"^\s*(\S+) => (not found|\S+)", found, re.MULTILINE):
                if library not in make_wheel.SYSTEM_LIBRARIES:
                    self.assertTrue(os.path.realpath(path).startswith(os.path.realpath(SITE)), f"{name}: {library} => {path}")

    def test_the_launcher_becomes_the_server(self):
        command, environment = launcher("serve", MODEL, "--threads", 1, "--num-gpu-blocks-override", 256, "--port", 0)
        server = Process(command, env=environment, cwd=FOLDER.name)
        self.addCleanup(server.end)
        port = int(server.find(r"\blistening on http://\S+:(\d+)")[1])
        self.assertEqual(os.readlink(f"/proc/{server.process.pid}/exe"), os.path.realpath(SITE / "hydrant/bin/hydrantd"))
        status, body = ask(port, "POST", "/v1/completions", {"prompt": "Once", "max_tokens": 2})
        self.assertEqual(status, 200, body)
        server.signal()
        self.assertEqual(server.wait(), 0)

    def test_what_the_launcher_says(self):
        for arguments, status, words in (
            (["--version"], 0, r"hydrantd \d"),
            (["help"], 0, r"hydrant serve \[MODEL\]"),
            (["serve", "--help"], 0, r"--kv-budget"),
            (["models"], 0, r"\nhydrant up NAME fetches"),
            (["chat", "--help"], 0, r"usage: hydrant chat"),
            (["sevre"], 64, r"no command 'sevre'"),
            (["fetch"], 64, r"which model"),
            (["serve", "no_such_model"], 1, r"there is no model at no_such_model\. .*\n.*smollm2-135m"),
            (["serve", "hydrant/no/such"], 1, r"there is no model at"),
            (["serve", MODEL, "--no-such-flag"], 64, r"no-such-flag"),  # hydrantd's own answer
        ):
            with self.subTest(arguments):
                done = hydrant(*arguments)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertRegex(done.stdout + done.stderr, words)


class Refusals(unittest.TestCase):
    def test_the_tag_follows_the_newest_symbol(self):
        for versions, oldest in (
            (set(), (2, 17)),
            ({("GLIBC", (2, 2, 5)), ("GLIBC", (2, 34))}, (2, 34)),
            ({("GLIBC", (2, 34)), ("GLIBCXX", (3, 4, 29))}, (2, 34)),
            ({("GLIBC", (2, 34)), ("GLIBCXX", (3, 4, 30)), ("GLIBCXX", (3, 4))}, (2, 35)),
            ({("GLIBC", (2, 38)), ("GLIBCXX", (3, 4, 30))}, (2, 38)),
        ):
            self.assertEqual(make_wheel.oldest_glibc(versions), oldest, versions)
        with self.assertRaisesRegex(make_wheel.Refused, r"GLIBCXX_3\.4\.99"):
            make_wheel.oldest_glibc({("GLIBCXX", (3, 4, 99))})

    def test_a_build_for_a_device_is_refused_by_name(self):
        said = "\tlibcublas.so.12 => /usr/local/cuda/lib64/libcublas.so.12 (0x1)\n"
        ldd, make_wheel.output_of = make_wheel.output_of, lambda *_: said
        try:
            with self.assertRaisesRegex(make_wheel.Refused, "hydrantd needs libcublas.so.12"):
                make_wheel.libraries_of([pathlib.Path("hydrantd")])
        finally:
            make_wheel.output_of = ldd

    def test_nothing_is_packed_of_nothing(self):
        with self.assertRaisesRegex(make_wheel.Refused, "there is no hydrantd in"):
            make_wheel.make_wheel(pathlib.Path(FOLDER.name), pathlib.Path(FOLDER.name))


if __name__ == "__main__":
    skip_without(make_wheel.TOOLS, make_wheel.PROGRAMS, BUILD)
    unittest.main(verbosity=2)
