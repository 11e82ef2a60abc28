#!/usr/bin/env python3
"""hydrantd as a service: what it tells systemd, the watchdog, the socket it is handed, and the unit files. systemd itself
does not run here; service_manager.py speaks its side of the protocols."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import unittest

from replicas import BINARY, ROOT, Client, ask, small_model, wait_for
from service_manager import Service, StoppedThread, systemd_analyze, thread_named, unit_for_here

UNITS = ROOT / "deploy" / "systemd"
FLAGS = ("--num-gpu-blocks-override", 512, "--max-model-len", 8192)
WATCHDOG_S = 0.4
# Seen with `systemd-analyze security --offline=true`: 1.2. It counts what the unit leaves open, from 0 to 10.
EXPOSURE_MAX = 1.5


def setUpModule():
    global MODEL
    MODEL = small_model()


def tearDownModule():
    shutil.rmtree(MODEL.parent)


def listening(host="127.0.0.1"):
    one = socket.socket()
    one.bind((host, 0))
    one.listen(16)
    return one


class Notification(unittest.TestCase):
    def start(self, *flags, **options):
        service = Service(MODEL, *FLAGS, *flags, **options)
        self.addCleanup(service.end)
        return service

    def test_ready_is_said_when_the_port_answers_and_stopping_when_it_drains(self):
        service = self.start("--port", 0)
        service.wait_until_said("READY=1")
        self.assertEqual(ask(service.port(), "GET", "/ready")[0], 200)
        self.assertIn("STATUS=Loading the model", service.told()[0][1])
        self.assertFalse(service.has_said("WATCHDOG=1"), "nobody watches")
        service.signal()
        self.assertEqual(service.wait(), 0)
        self.assertTrue(service.has_said("STOPPING=1"))

    def test_a_model_that_is_none_is_never_ready(self):
        service = Service(MODEL.with_name("nothing.gguf"))
        self.assertEqual(service.wait(), 78)
        self.assertFalse(service.has_said("READY=1"))

    def test_a_reload_is_announced_and_ended(self):
        tenants = MODEL.with_name("tenants.json")
        tenants.write_text(json.dumps({"tenants": [{"name": "one", "api_keys_sha256": ["0" * 63 + "1"]}]}))
        tenants.chmod(0o600)
        service = self.start("--port", 0, "--tenants", tenants)
        service.wait_until_said("READY=1")
        service.signal(signal.SIGHUP)
        wait_for("the end of the reload", lambda: len(service.times_of("READY=1")) == 2)
        lines = [lines for _, lines in service.told() if "RELOADING=1" in lines]
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0][1], r"MONOTONIC_USEC=\d+", "which systemd 253 asks for")

    def test_keys_rotate_by_a_signal(self):
        folder = MODEL.with_name("keys")  # as a Secret is mounted: the file is a link, and ..data is swapped
        for version, keys in (("1", "old"), ("2", "old\nnew\n"), ("3", "new\n"), ("4", "")):
            (folder / version).mkdir(parents=True)
            (folder / version / "api-key").write_text(keys)
            (folder / version / "api-key").chmod(0o400)
        (folder / "..data").symlink_to("1")
        (folder / "api-key").symlink_to("..data/api-key")
        service = self.start("--port", 0, "--api-key-file", folder / "api-key")
        service.wait_until_said("READY=1")

        def statuses():
            return [ask(service.port(), "GET", "/v1/models", Authorization=f"Bearer {key}")[0] for key in ("old", "new")]

        self.assertEqual(statuses(), [200, 401])
        # A file without a key is refused, and what was in force stays so.
        for count, (version, expected) in enumerate((("2", [200, 200]), ("3", [401, 200]), ("4", [401, 200])), 2):
            (folder / "..data_tmp").symlink_to(version)
            (folder / "..data_tmp").rename(folder / "..data")
            service.signal(signal.SIGHUP)
            wait_for("the end of the reload", lambda n=count: len(service.times_of("READY=1")) == n)
            self.assertEqual(statuses(), expected, version)

    def test_the_watchdog_is_fed_while_the_engine_moves_and_only_then(self):
        service = self.start("--port", 0, "--engine-stall-s", 0.2, watchdog_s=WATCHDOG_S)
        service.wait_until_said("READY=1")
        wait_for("pings when idle", lambda: len(service.times_of("WATCHDOG=1")) >= 8)
        times = service.times_of("WATCHDOG=1")
        # The middle one: a machine with other work may be late to look at them.
        self.assertLess(statistics.median(b - a for a, b in zip(times, times[1:])), WATCHDOG_S)

        port, started = service.port(), threading.Event()
        long = threading.Thread(target=lambda: Client(port).stream(started, prompt=[7] * 8, max_tokens=8000))
        long.start()
        self.assertTrue(started.wait(30))
        try:
            with StoppedThread(thread_named(service.process.pid, "engine")):
                wait_for("/health notices", lambda: ask(port, "GET", "/health")[0] == 503)
                told = len(service.times_of("WATCHDOG=1"))
                self.assertEqual(ask(port, "GET", "/ready")[0], 503)
                wait_for("silence", lambda: time.monotonic() - service.times_of("WATCHDOG=1")[-1] > 2 * WATCHDOG_S)
                self.assertLessEqual(len(service.times_of("WATCHDOG=1")), told + 1)
        except PermissionError as error:
            long.join()
            self.skipTest(str(error))
        wait_for("pings again", lambda: len(service.times_of("WATCHDOG=1")) >= told + 3)
        long.join()
        service.signal()
        self.assertEqual(service.wait(), 0)


def listeners(pid):
    """How many listening TCP sockets a process has open."""
    listening = {line.split()[9] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
                 if line.split()[3] == "0A"}  # fmt: skip
    links = [os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
    return sum(link[len("socket:[") : -1] in listening for link in links if link.startswith("socket:["))


class SocketActivation(unittest.TestCase):
    def test_the_socket_handed_over_serves_who_waited_for_it(self):
        with listening() as socket_of_the_manager:
            port = socket_of_the_manager.getsockname()[1]
            early = []
            thread = threading.Thread(target=lambda: early.append(ask(port, "GET", "/ready")))
            thread.start()  # in the backlog before there is a hydrantd
            service = Service(MODEL, *FLAGS, "--port", 1, sockets=[socket_of_the_manager])
            self.addCleanup(service.end)
            service.wait_until_said("READY=1")
            thread.join()
            self.assertEqual(early[0][0], 200)
            self.assertEqual(service.port(), port, "and not that of the flags")

    def test_who_comes_during_a_restart_waits_for_the_next_process(self):
        with listening() as socket_of_the_manager:
            port = socket_of_the_manager.getsockname()[1]
            first = Service(MODEL, *FLAGS, sockets=[socket_of_the_manager])
            self.addCleanup(first.end)
            first.wait_until_said("READY=1")
            started, answers, long = threading.Event(), [], []
            stream = {"prompt": [7] * 8, "max_tokens": 8000, "stream_interval": 100}
            running = threading.Thread(target=lambda: long.append(Client(port).stream(started, **stream)))
            running.start()
            self.assertTrue(started.wait(30))
            first.signal()
            first.wait_until_said("STOPPING=1")
            # It has closed its copy of the socket once only the stream's connection is left of its sockets on the port.
            wait_for("no more accepting", lambda: listeners(first.process.pid) == 0)
            body = {"prompt": "a", "max_tokens": 1}
            late = threading.Thread(target=lambda: answers.append(ask(port, "POST", "/v1/completions", body)))
            late.start()
            running.join()
            self.assertEqual(len(long[0].tokens), 8000, "what ran is finished")
            self.assertEqual(first.wait(), 0)
            self.assertEqual(answers, [], "nobody has refused it")
            second = Service(MODEL, *FLAGS, sockets=[socket_of_the_manager])
            self.addCleanup(second.end)
            late.join()
            self.assertEqual(answers[0][0], 200)

    def test_sockets_we_cannot_take_are_refused_before_the_model_is_loaded(self):
        with listening() as one, listening() as two, listening("0.0.0.0") as open_to_all:
            for sockets, words in (([one, two], "2 sockets"), ([open_to_all], "beyond loopback")):
                service = Service(MODEL, *FLAGS, sockets=sockets)
                self.addCleanup(service.end)
                self.assertEqual(service.wait(), 64)
                self.assertIn(words, service.log())


class UnitFiles(unittest.TestCase):
    def setUp(self):
        self.unit = (UNITS / "hydrantd.service").read_text()

    def test_systemd_understands_them(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed (package systemd)")
        with tempfile.TemporaryDirectory() as folder:
            here = [unit_for_here(UNITS / name, pathlib.Path(folder)) for name in ("hydrantd.service", "hydrantd.socket")]
            verified = systemd_analyze("verify", "--man=no", *here)
            self.assertEqual((verified.returncode, verified.stderr), (0, ""))
            with_gpu = pathlib.Path(folder) / "gpu" / "hydrantd.service"
            with_gpu.parent.mkdir()
            with_gpu.write_text(here[0].read_text() + (UNITS / "hydrantd-cuda.conf").read_text())
            self.assertEqual(systemd_analyze("verify", "--man=no", with_gpu).stderr, "")
            security = systemd_analyze("security", "--offline=true", here[0])
            exposure = float(re.search(r"exposure level for \S+: ([0-9.]+)", security.stdout)[1])
            print("exposure", exposure)
            self.assertLessEqual(exposure, EXPOSURE_MAX, security.stdout)

    def test_the_time_to_stop_covers_the_drain(self):
        config = json.loads((UNITS / "hydrantd.json").read_text())
        stop = int(re.search(r"^TimeoutStopSec=(\d+)$", self.unit, re.MULTILINE)[1])
        self.assertGreaterEqual(stop, config["shutdown_delay_s"] + config["shutdown_timeout_s"] + 15 + 20)

    def test_the_configuration_is_one_hydrantd_takes(self):
        # It is read before the model, which is not there.
        command = re.search(r"^ExecStart=(.*)$", self.unit, re.MULTILINE)[1]
        command = command.replace("/usr/bin/hydrantd", str(BINARY)).replace("/etc/hydrant", str(UNITS))
        command = command.replace("${HYDRANT_MODEL}", "/nothing.gguf").split()
        ended = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 78)
        self.assertIn("/nothing.gguf", ended.stderr)

    def test_the_socket_is_where_the_configuration_listens(self):
        config = json.loads((UNITS / "hydrantd.json").read_text())
        self.assertIn(f"ListenStream={config['host']}:{config['port']}\n", (UNITS / "hydrantd.socket").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
