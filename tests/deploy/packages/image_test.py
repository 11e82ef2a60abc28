#!/usr/bin/env python3
"""An image that was built of deploy/Containerfile, run by podman without a daemon: user, read-only root, health check, drain.

    HYDRANT_IMAGE=hydrant HYDRANT_PODMAN='podman --runtime runc' tests/deploy/packages/image_test.py

docs/deployment.md says how to build one where no registry can be reached. Root only: it looks into the container's network."""

import json
import os
import shlex
import shutil
import subprocess
import time
import unittest

from machine import MODEL

from replicas import skip, wait_for

PODMAN = shlex.split(os.environ.get("HYDRANT_PODMAN", "podman"))
IMAGE = os.environ.get("HYDRANT_IMAGE")
NAME = f"hydrant-image-test-{os.getpid()}"
# Below what any machine allows: podman's own defaults ask for more than root may have who is in a container himself.
LIMITS = ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"]
STOP_S = 80  # as deployment.md says


def podman(*arguments, check=True):
    done = subprocess.run([*PODMAN, *map(str, arguments)], capture_output=True, text=True, timeout=STOP_S + 40)
    assert not check or done.returncode == 0, f"podman {arguments}: {done.returncode}\n{done.stderr}"
    return done.stdout.strip() if check else (done.returncode, done.stdout + done.stderr)


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        flags = ["--detach", "--name", NAME, "--network", "none", "--read-only", "--cap-drop", "ALL", "--read-only-tmpfs=false", *LIMITS]
        started = time.monotonic()
        podman("run", *flags, "-v", f"{MODEL.resolve().parent}:/models:ro", IMAGE, f"/models/{MODEL.name}")
        cls.addClassCleanup(podman, "rm", "--force", NAME, check=False)
        cls.process = podman("inspect", "--format", "{{.State.Pid}}", NAME)
        wait_for("the server to be ready", lambda: cls.curl("/ready")[0] == 0)
        size = int(podman("image", "inspect", "--format", "{{.Size}}", IMAGE))
        print(f"image: {size / 1e6:.0f} MB, ready {time.monotonic() - started:.1f} s after `podman run`")

    @classmethod
    def curl(cls, path, *flags):
        """(exit status, body); by this machine's curl, for the image has none."""
        assert int(cls.process) > 1, "the container is not running"
        command = ["nsenter", "--target", cls.process, "--net", "curl", "-sS", "--fail", f"http://127.0.0.1:8000{path}", *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout

    def status(self, name):
        with open(f"/proc/{self.process}/status") as file:
            return next(line.split()[1:] for line in file if line.startswith(name + ":"))

    def test_1_the_default_model_answers(self):
        body = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
        status, answer = self.curl("/v1/completions", "-H", "Content-Type: application/json", "-d", json.dumps(body))
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(answer)["choices"][0]["text"][:6], " Paris")

    def test_2_it_is_nobody_and_can_write_nowhere(self):
        self.assertEqual(self.status("Uid"), ["10001"] * 4)
        self.assertEqual(self.status("CapEff"), ["0" * 16])
        for path in ("/x", "/var/tmp/x", "/usr/local/bin/x", "/models/x"):
            status, said = podman("exec", NAME, "bash", "-c", f"echo >{path}", check=False)
            self.assertEqual((status, "Read-only file system" in said or "Permission denied" in said), (1, True), f"{path}: {said}")

    def test_3_the_toolchain_and_the_sources_are_not_in_it(self):
        status, said = podman("exec", NAME, "bash", "-c", "command -v c++ cmake curl; ls /src", check=False)
        self.assertIn("cannot access '/src'", said)
        self.assertNotIn("bin/", said)

    def test_4_its_health_check_is_in_it_and_passes(self):
        # An image of OCI's format has none: podman build --format docker.
        self.assertIn("hydrant-healthcheck", podman("image", "inspect", "--format", "{{json .HealthCheck}}", IMAGE))
        podman("healthcheck", "run", NAME)

    def test_5_a_stop_drains_and_ends_well(self):
        podman("stop", "--time", STOP_S, NAME)
        self.assertEqual(podman("inspect", "--format", "{{.State.ExitCode}}", NAME), "0")
        self.assertIn("draining", podman("logs", NAME, check=False)[1])


if __name__ == "__main__":
    if not IMAGE:
        skip("HYDRANT_IMAGE names no image (docs/deployment.md says how to build one)")
    if os.geteuid() != 0:
        skip("only root can look into a container's network")
    for program in (PODMAN[0], "nsenter", "curl"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
    if not MODEL.exists():
        skip(f"there is no model at {MODEL} (./hydrant up fetches it)")
    unittest.main(verbosity=2)
