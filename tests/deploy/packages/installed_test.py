#!/usr/bin/env python3
"""The wheel and the Debian package, installed by pip and apt in small Debians that have nothing of the build, started by what starts
them there (systemd itself, as the first process of a container), and removed again.

    sudo HYDRANT_ROOTS=/var/tmp/roots tests/deploy/packages/installed_test.py [NAME …]

It makes the Debians in that folder the first time (0.7 GB), and prints what it measured."""

import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time
import unittest

from machine import MODEL, MODELS, Booted, Copy, checked, milliseconds, packages_for, prepared_root, roots

from replicas import ROOT, skip_without, wait_for

sys.path.insert(0, str(ROOT / "deploy" / "wheel"))
import make_wheel  # noqa: E402

BUILD = pathlib.Path(os.environ.get("HYDRANT_BUILD_DIR", ROOT / "build" / "release"))
SERVED = f"{MODELS}/{MODEL.name}"
URL = "http://127.0.0.1:8000"
ASK = f"""curl -sS --fail {URL}/v1/completions -H 'Content-Type: application/json' \\
  -d '{{"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}}'"""
TIMER = 'started=$(date +%s%N); passed() { echo "$1: $(( ($(date +%s%N) - started) / 1000000 )) ms"; }\n'


def text_of(said):
    return json.JSONDecoder().raw_decode(said, said.index('{"id"'))[0]["choices"][0]["text"]


class Wheel(unittest.TestCase):
    def test_pip_installs_it_the_default_model_answers_and_nothing_stays(self):
        copy = Copy(prepared_root(roots(), "python", "python3-minimal", "python3-venv", "curl", "ca-certificates"))
        self.addCleanup(copy.end)
        with tempfile.TemporaryDirectory() as folder:
            wheel = make_wheel.make_wheel(BUILD, pathlib.Path(folder))
            size, inside = wheel.stat().st_size, copy.put(wheel)
        said = copy.sh(f"""{TIMER}
            ! command -v cc gcc c++
            ! ls /usr/lib/x86_64-linux-gnu | grep -E 'absl|spdlog|prometheus|utf8proc'
            python3 -m venv /opt/venv
            find /opt/venv -not -name '*.pyc' -not -name __pycache__ | sort >/before
            started=$(date +%s%N)
            /opt/venv/bin/pip install --quiet --no-index {inside}
            passed install
            echo "installed: $(du -sb /opt/venv/lib/python3*/site-packages/hydrant | cut -f 1) bytes"
            started=$(date +%s%N)
            /opt/venv/bin/hydrant serve {SERVED} & server=$!
            until curl -sf {URL}/ready; do kill -0 $server; sleep 0.01; done
            passed ready
            {ASK}
            kill $server
            wait $server
            /opt/venv/bin/pip uninstall --quiet --yes hydrant
            find /opt/venv -not -name '*.pyc' -not -name __pycache__ | sort | diff /before - && echo 'nothing stayed'
        """)
        self.assertEqual(text_of(said)[:6], " Paris")
        self.assertIn("nothing stayed", said)
        installed = int(re.search(r"installed: (\d+)", said)[1])
        print(f"wheel: {size / 1e6:.1f} MB, installed {installed / 1e6:.0f} MB in {milliseconds(said, 'install')} ms, "
              f"ready {milliseconds(said, 'ready')} ms after `hydrant serve`")  # fmt: skip


def package_made(folder):
    checked("cpack", "-G", "DEB", "-B", folder, cwd=BUILD)
    (package,) = pathlib.Path(folder).glob("*.deb")
    return package


def machine_with_package(test):
    """A booted machine and where the package lies in it. What was there before is in `files` of the copy."""
    root = prepared_root(
        roots(), "systemd", "systemd", "systemd-sysv", "dbus", "curl", "ca-certificates", downloaded=packages_for("run")
    )  # fmt: skip
    copy = Copy(root)
    test.addClassCleanup(copy.end) if isinstance(test, type) else test.addCleanup(copy.end)
    with tempfile.TemporaryDirectory() as folder:
        package = package_made(folder)
        size, inside = package.stat().st_size, copy.put(package)
    machine = Booted(copy)
    test.addClassCleanup(machine.end) if isinstance(test, type) else test.addCleanup(machine.end)
    return copy, machine, inside, size


INSTALL = "apt-get install -y --quiet --no-install-recommends"
PLACE_MODEL = f"install -d -o hydrant -g hydrant -m 0750 /var/lib/hydrant; install -o hydrant -m 0640 {SERVED} /var/lib/hydrant/model.gguf"


class Service(unittest.TestCase):
    """The package under systemd."""

    @classmethod
    def setUpClass(cls):
        cls.copy, cls.machine, package, size = machine_with_package(cls)
        said = cls.machine.sh(f"""{TIMER}
            {INSTALL} {package}
            passed install
            systemd-analyze verify hydrantd.service hydrantd.socket
            {PLACE_MODEL}
            started=$(date +%s%N)
            systemctl enable --now hydrantd
            passed started
            echo "installed: $(dpkg-query -W -f '${{Installed-Size}}' hydrant) kB"
        """)
        installed = int(re.search(r"installed: (\d+)", said)[1])
        print(f"Debian package: {size / 1e6:.1f} MB, installed {installed / 1e3:.0f} MB in {milliseconds(said, 'install')} ms with the "
              f"libraries, started {milliseconds(said, 'started')} ms after `systemctl enable --now`")  # fmt: skip

    def setUp(self):
        self.configure()

    def configure(self, **settings):
        """Starts it with hydrantd.json as it was installed, and `settings` on top."""
        file = self.copy.path / "etc/hydrant/hydrantd.json"
        kept = file.with_name("installed.json")
        if not kept.exists():
            shutil.copy(file, kept)
        file.write_text(json.dumps({**json.loads(kept.read_text()), **settings}))
        self.machine.sh("systemctl stop hydrantd.socket hydrantd; systemctl reset-failed; systemctl start hydrantd")

    def show(self, name):
        return self.machine.show("hydrantd", name)

    def test_the_default_model_answers(self):
        self.assertEqual(text_of(self.machine.sh(ASK))[:6], " Paris")
        said = self.machine.sh("curl -sS --fail --unix-socket /run/hydrant/admin.sock http://localhost/admin/tenants")
        self.assertIn('"default"', said)
        self.assertEqual(self.show("StatusText"), "Serving")

    def test_it_runs_as_its_user_and_may_do_nothing_besides(self):
        process = self.show("MainPID")
        status = self.machine.sh(f"cat /proc/{process}/status; id -u hydrant")
        user = status.splitlines()[-1]
        self.assertEqual(re.search(r"Uid:(.*)", status)[1].split(), [user] * 4)
        for name, value in (("CapEff", "0" * 16), ("CapBnd", "0" * 16), ("NoNewPrivs", "1"), ("Seccomp", "2")):
            self.assertEqual(re.search(rf"{name}:\s*(\S+)", status)[1], value, name)
        mounts = self.machine.sh(f"""
            nsenter --target {process} --mount sh -c 'touch /usr/x || touch /etc/x || echo read-only; touch /var/lib/hydrant/x && echo writable
              ls -A /home /root'""")
        self.assertIn("\nread-only\nwritable\n", mounts)
        self.assertTrue(mounts.endswith("/home:\n\n/root:\n"), mounts)
        self.machine.sh("rm /var/lib/hydrant/x")

    def test_a_reload_takes_up_a_new_key(self):
        key = "install -o root -g hydrant -m 0640 /dev/stdin /etc/hydrant/key"
        self.machine.sh(f"echo the-first-key-of-all | {key}")
        self.configure(api_key_file="/etc/hydrant/key")

        def status(word):
            return self.machine.run(f"curl -s -o /dev/null -w '%{{http_code}}' -H 'Authorization: Bearer {word}' {URL}/v1/models")[1]

        self.assertEqual((status("the-first-key-of-all"), status("the-second-key-of-all")), ("200", "401"))
        self.machine.sh(f"echo the-second-key-of-all | {key}; systemctl reload hydrantd")
        wait_for("the second key to count", lambda: status("the-second-key-of-all") == "200")
        self.assertEqual(status("the-first-key-of-all"), "401")
        self.assertEqual(self.show("NRestarts"), "0")

    def test_one_that_is_killed_is_started_again(self):
        process = int(self.show("MainPID"))
        self.machine.sh(f"test {process} -gt 1; kill -KILL {process}")
        wait_for("another process that serves", lambda: self.show("NRestarts") == "1" and self.machine.run(ASK)[0] == 0)
        self.assertNotEqual(int(self.show("MainPID")), process)

    def test_one_that_hangs_is_ended_by_the_watchdog(self):
        drop_in = "/run/systemd/system/hydrantd.service.d"
        self.machine.sh(f"mkdir -p {drop_in}; printf '[Service]\\nWatchdogSec=1\\n' >{drop_in}/quick.conf; systemctl daemon-reload")
        self.configure()
        time.sleep(3)
        self.assertEqual(self.show("NRestarts"), "0", "it was fed while it served")
        self.machine.sh(f"kill -STOP {self.show('MainPID')}")
        wait_for("the watchdog", lambda: self.show("NRestarts") == "1" and self.machine.run(ASK)[0] == 0)
        self.assertIn("Watchdog timeout", self.machine.sh("journalctl -u hydrantd --no-pager"))
        self.machine.sh(f"rm -r {drop_in}; systemctl daemon-reload")

    def test_a_wrong_model_is_not_tried_again(self):
        self.machine.run("mv /var/lib/hydrant/model.gguf /var/lib/hydrant/away.gguf; systemctl restart hydrantd")
        time.sleep(3)  # RestartSec is 2
        self.assertEqual((self.show("ExecMainStatus"), self.show("NRestarts"), self.show("ActiveState")), ("78", "0", "failed"))
        self.machine.sh("mv /var/lib/hydrant/away.gguf /var/lib/hydrant/model.gguf")

    def test_a_stop_lets_a_stream_end(self):
        said = self.machine.sh(f"""
            curl -sSN {URL}/v1/completions -H 'Content-Type: application/json' >~/stream \\
              -d '{{"prompt": "Once", "max_tokens": 300, "ignore_eos": true, "stream": true}}' & client=$!
            until grep -q data: ~/stream; do sleep 0.02; done
            systemctl stop hydrantd
            wait $client
            tail -n 3 ~/stream; grep -c '"text"' ~/stream""")
        self.assertIn("data: [DONE]", said)
        self.assertEqual((self.show("Result"), self.show("ExecMainStatus")), ("success", "0"))

    def test_with_its_socket_nobody_is_refused_during_a_restart(self):
        said = self.machine.sh(f"""
            systemctl stop hydrantd; systemctl start hydrantd.socket hydrantd
            systemctl restart hydrantd & restart=$!
            for i in $(seq 40); do curl -s -o /dev/null -w '%{{http_code}} %{{exitcode}}\\n' -m 30 {URL}/v1/models; sleep 0.02; done
            wait $restart""")
        self.assertEqual(set(said.split("\n")) - {""}, {"200 0"})


class Removal(unittest.TestCase):
    def test_what_a_purge_leaves_is_the_operators_and_else_nothing(self):
        copy, machine, package, _ = machine_with_package(self)
        passwd = (copy.path / "etc/passwd").read_text()
        libraries = packages_for("run")
        machine.sh(f"{INSTALL} {' '.join(libraries)}")
        before = copy.files()
        machine.sh(f"{INSTALL} {package}; {PLACE_MODEL}; systemctl enable --now hydrantd.socket hydrantd; {ASK}")
        machine.sh("apt-get remove -y --quiet hydrant")
        self.assertEqual(machine.run("systemctl is-active hydrantd hydrantd.socket")[1].split(), ["inactive"] * 2)
        kept = {"var/lib/hydrant", "var/lib/hydrant/model.gguf"}
        self.assertEqual(copy.files() - before, kept | {"etc/hydrant", "etc/hydrant/hydrantd.env", "etc/hydrant/hydrantd.json"})
        machine.sh("apt-get purge -y --quiet hydrant")
        self.assertEqual(copy.files() - before, kept, "models are the operator's")
        self.assertIn("\nhydrant:", (copy.path / "etc/passwd").read_text(), "they are its")

        machine.sh(f"{INSTALL} {package}; rm /var/lib/hydrant/model.gguf; apt-get purge -y --quiet hydrant")
        self.assertEqual(copy.files(), before)
        self.assertEqual((copy.path / "etc/passwd").read_text(), passwd)
        self.assertEqual(machine.run("systemctl list-unit-files --no-legend 'hydrant*'"), (1, ""))


if __name__ == "__main__":
    roots()
    skip_without(("cpack", *make_wheel.TOOLS), make_wheel.PROGRAMS, BUILD)
    unittest.main(verbosity=2)
