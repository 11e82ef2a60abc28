#!/usr/bin/env python3
"""run.sh with stand-ins for the GPU's tools and for the programs: what it runs, when it stops, and what it says."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

NVIDIA_SMI = """case "$*" in
*name,driver_version*) echo "Stand-in 9000, 1.2.3" ;;
*=driver_version*) echo 1.2.3 ;;
*compute_cap*) echo "9.0, 81000" ;;
*query*) echo "Stand-in 9000, 1 MiB" ;;
*) echo "| NVIDIA-SMI 1.2.3  Driver Version: 1.2.3  CUDA Version: 13.1 |" ;;
esac"""
SANITIZER = 'while case "$1" in --*) true ;; *) false ;; esac; do shift 2; done; exec "$@"'
KERNEL_BENCH = """echo "the table of kernels"
[ "$1" = --small ] || echo '{"copy_gb_s": 4321.0, "kernels": []}' >"$1"
"""
ENGINE_BENCH = 'for last; do :; done; echo "the table of $4"; echo "{\\"bandwidth\\": $6}" >"$last"'
PROGRAMS = {
    "cuda_device_gpu_test": 'echo "sources in $HYDRANT_SOURCES"',
    "cuda_kv_gpu_test": "true",
    "cuda_engine_gpu_test": "true",
    "kernel_bench": KERNEL_BENCH,
    "engine_bench": ENGINE_BENCH,
}
STAGES = ["preflight", "memcheck_kernels", "racecheck_kernels", "synccheck_kernels", "ops", "attention_h2o_sampling", "engine", "serve", "features", "kernels", "engine_1b", "engine_8b", "memcheck",
          "memcheck_attention", "memcheck_engine", "racecheck", "racecheck_products", "synccheck_products"]  # fmt: skip


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"
        self.bin = self.folder / "bin"
        for name, script in PROGRAMS.items():
            self.write(self.bin / name, script)
        self.tools = self.folder / "tools"
        self.write(self.tools / "nvidia-smi", NVIDIA_SMI)
        self.write(self.tools / "compute-sanitizer", SANITIZER)
        self.write(self.tools / "vllm", "echo not here; exit 77")
        self.write(self.tools / "nvcc", "echo release 13.0, V13.0.1")

    def write(self, path, script):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_all(self, **environment):
        """The exit status; table.txt and gpu.json are read."""
        path = f"{self.tools}:{os.environ['PATH']}"
        begin = time.monotonic()
        done = subprocess.run(
            [HERE / "run.sh", self.out], env={**os.environ, "PATH": path, "BIN": str(self.bin), **environment},
            stdout=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
        self.seconds = time.monotonic() - begin
        self.table = (self.out / "table.txt").read_text()
        self.json = json.loads((self.out / "gpu.json").read_text())
        # vLLM's are not ours.
        self.results = {stage["name"]: stage["result"] for stage in self.json["stages"] if not stage["name"].startswith("vllm")}
        return done.returncode

    def test_runs_all_and_says_of_what(self):
        self.assertEqual(self.run_all(), 0, self.table)
        self.assertEqual(self.results, {name: "skipped" if name in ("serve", "features") else "passed" for name in STAGES})
        self.assertEqual(list(self.results), STAGES)  # in the order of their weight
        self.assertIn("there is no", self.table)
        self.assertRegex(self.json["date"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        if git.returncode == 0:
            self.assertEqual(self.json["commit"].removesuffix("-dirty"), git.stdout.strip())
        else:
            self.assertIsNone(self.json["commit"])
        self.assertEqual(
            [self.json[name] for name in ("gpu", "driver", "driver_cuda", "toolkit_cuda", "failed")],
            ["Stand-in 9000", "1.2.3", "13.1", "13.0", 0],
        )
        self.assertEqual(self.json["kernels"]["copy_gb_s"], 4321)
        self.assertEqual(self.json["engine_8b"], {"bandwidth": 4321})
        self.assertIn("the table of kernels", self.table)
        self.assertIn(f"sources in {ROOT}\n", (self.out / "ops.log").read_text())

    def test_what_the_deadline_leaves_no_time_for_fails_by_name(self):
        self.write(self.bin / "cuda_kv_gpu_test", "sleep 110")
        # What comes before it takes a second, and many where the machine has other things to do.
        self.assertEqual(self.run_all(DEADLINE="20"), 1)
        expected = {name: "out of time" for name in STAGES} | {name: "passed" for name in STAGES[:5]}
        expected |= {"serve": "skipped", "features": "skipped"}
        self.assertEqual(self.results, expected)
        self.assertRegex(self.table, r"FAILED  attention_h2o_sampling: out of time after \d+ s of at most \d+")
        self.assertIn("FAILED  engine_8b: out of time: 20 s were over before it", self.table)
        self.assertEqual(self.json["kernels"], None)
        self.assertLess(self.seconds, 100)

    def test_a_failure_does_not_keep_the_rest_from_running(self):
        self.write(self.bin / "cuda_device_gpu_test", "echo it is wrong; exit 3")
        self.write(self.bin / "cuda_engine_gpu_test", "echo it cannot; exit 77")
        self.assertEqual(self.run_all(), 1)
        failed = {name for name, result in self.results.items() if result == "failed"}
        self.assertEqual(failed, {"ops", "memcheck", "racecheck_products", "synccheck_products"})
        self.assertIn("FAILED  ops: exit 3", self.table)
        self.assertIn("        it is wrong", self.table)
        self.assertIn("skipped engine: it cannot", self.table)
        self.assertEqual(self.results["engine_8b"], "passed")

    def test_says_what_the_machine_lacks(self):
        self.write(self.tools / "nvidia-smi", NVIDIA_SMI.replace("9.0, 81000", "7.5, 8000").replace("CUDA Version: 13.1", "CUDA Version: 12.4"))
        self.write(self.tools / "ldd", 'echo "libcublas.so.13 => not found"; echo "libm.so.6 => /lib/libm.so.6 (0x0)"')
        self.assertEqual(self.run_all(), 1)
        self.assertEqual(self.results["preflight"], "failed")
        self.assertEqual(self.results["ops"], "passed")
        for line in (
            "FAILED  kernel_bench: the loader does not find libcublas.so.13; set LIB to their folder",
            "FAILED  driver 1.2.3 is for CUDA 12, the programs are of toolkit 13: it needs driver 580 or newer,",
            "FAILED  compute capability 7.5: the kernels need 8.0",
            "8000 MiB free: 8b needs 20480",
        ):
            self.assertIn(line, self.table)

    def test_without_packages_the_toolkit_makes_the_table_of_kernels_outside_of_the_deadline(self):
        self.write(self.tools / "cmake", 'echo "CMake Error at Find.cmake:1:"; echo "  Could NOT find Boost (missing: headers)"; exit 1')
        script = KERNEL_BENCH.replace("'", "'\\''")
        compile_it = f"while [ $1 != -o ]; do shift; done; printf '#!/bin/sh\\n%s\\n' '{script}' >$2; chmod +x $2"
        self.write(self.tools / "nvcc", f'[ "$1" = --version ] && exit; sleep 16; {compile_it}')
        self.assertEqual(self.run_all(BIN="", DEADLINE="15"), 0, self.table)
        self.assertIn("skipped build: Could NOT find Boost (missing: headers)", self.table)
        self.assertEqual({name for name, result in self.results.items() if result == "passed"}, {"build_kernels", "kernels", *STAGES[:4]})
        self.assertEqual(self.json["kernels"]["copy_gb_s"], 4321)


if __name__ == "__main__":
    unittest.main()
