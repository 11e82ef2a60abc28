#!/usr/bin/env python3
"""The Debian package, made of the binary of this build: what is in it, what it depends on, and that it runs from where it
is unpacked. It is not installed: that needs a Debian of its own."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from replicas import BINARY, ROOT, skip

BUILD = pathlib.Path(os.environ.get("HYDRANT_BUILD_DIR", ROOT / "build" / "release"))
# What `lintian` may call an error: the package is not one of Debian's, and the repository has no license file.
TOLERATED = {"no-changelog", "no-copyright-file", "bogus-mail-host"}


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def packages_for(use):
    lines = (ROOT / "deploy" / "debian-packages.txt").read_text().splitlines()
    return {line.split()[1] for line in lines if line.startswith(use + " ")}


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="hydrant-package-")
        where = pathlib.Path(cls.folder.name)
        run("cpack", "-G", "DEB", "-B", where / "made", cwd=BUILD)
        (cls.package,) = (where / "made").glob("*.deb")
        cls.root = where / "root"
        run("dpkg-deb", "-x", cls.package, cls.root)
        run("dpkg-deb", "-e", cls.package, where / "control")
        cls.control = where / "control"
        print(f"{cls.package.name}: {cls.package.stat().st_size} bytes")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_programs_run_from_there(self):
        version = re.search(r"project\(hydrant VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        for program in ("hydrantd", "hydrant-loadgen"):
            self.assertEqual(run(self.root / "usr/bin" / program, "--version").strip(), f"{program} {version}")
        self.assertIn(f"hydrant_{version}_", self.package.name)

    def test_everything_the_documents_name_is_in_it(self):
        for name in ("usr/lib/systemd/system/hydrantd.service", "usr/lib/systemd/system/hydrantd.socket",
                     "usr/lib/sysusers.d/hydrant.conf", "etc/hydrant/hydrantd.env", "etc/hydrant/hydrantd.json",
                     "usr/share/doc/hydrant/docs/deployment.md", "usr/share/doc/hydrant/examples/tenants.example.json",
                     "usr/share/doc/hydrant/examples/haproxy.cfg"):  # fmt: skip
            self.assertTrue((self.root / name).is_file(), name)
        self.assertEqual((self.root / "etc/hydrant/hydrantd.env").stat().st_mode & 0o777, 0o640, "it may hold keys")
        configuration = {"/" + str(path.relative_to(self.root)) for path in (self.root / "etc").rglob("*") if path.is_file()}
        self.assertEqual(set((self.control / "conffiles").read_text().split()), configuration)

    def test_what_its_pages_link_to_and_show_is_in_it(self):
        folder = self.root / "usr/share/doc/hydrant"
        pages = [path for path in folder.rglob("*.md")]
        self.assertGreater(len(pages), 10)
        for page in pages:
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
                self.assertTrue((page.parent / target).is_file(), f"{page.name}: {target}")
        unit = (self.root / "usr/lib/systemd/system/hydrantd.service").read_text()
        self.assertTrue((self.root / re.search(r"Documentation=file:///(.+)", unit)[1]).is_file())

    def test_nothing_lies_outside_of_usr_and_etc(self):
        self.assertEqual({path.name for path in self.root.iterdir()}, {"usr", "etc"})
        self.assertFalse((self.root / "usr/local").exists())

    def test_it_depends_on_what_the_container_installs(self):
        depends = run("dpkg-deb", "-f", self.package, "Depends")
        libraries = set(re.findall(r"\b(lib[a-z0-9.+-]+)", depends)) - {"libc6", "libgcc-s1", "libstdc++6"}
        # A library may be depended on by the name that says what it was built with.
        libraries = {re.sub(r"-fmt\d+$", "", name) for name in libraries}
        self.assertEqual(libraries, packages_for("run"))

    def test_its_scripts_are_shell(self):
        for name in ("postinst", "prerm", "postrm"):
            run("sh", "-n", self.control / name)
            self.assertTrue(os.access(self.control / name, os.X_OK), name)

    def purge(self, account, *left, fails=False, link=False):
        """Runs postrm as a purge with its paths in a folder. Returns what `userdel` was called with."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for path in ("bin", "etc/hydrant", "var/lib"):
                (folder / path).mkdir(parents=True)
            (folder / "var/lib/hydrant").symlink_to("elsewhere") if link else (folder / "var/lib/hydrant").mkdir()
            (folder / "etc/passwd").write_text(f"root:x:0:0::/root:/bin/sh\n{account}")
            (folder / "bin/userdel").write_text(f'#!/bin/sh\necho "$@" > {folder}/called\nexit {int(fails)}\n')
            (folder / "bin/userdel").chmod(0o755)
            for path in left:
                (folder / path).touch()
            script = re.sub(r"(?<![\w.])/(var/lib|etc|run)/", rf"{folder}/\1/", (self.control / "postrm").read_text())
            # The home in the account is text, not a path here.
            script = script.replace(f'= {folder}/var/lib/hydrant ]', "= /var/lib/hydrant ]")
            run("sh", "-c", script, "postrm", "purge", env=dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}"))
            called = folder / "called"
            return called.read_text().strip() if called.exists() else ""

    def test_a_purge_removes_its_own_user_where_nothing_is_left_of_it(self):
        ours = "hydrant:x:998:998:Hydrant:/var/lib/hydrant:/usr/sbin/nologin\n"
        self.assertEqual(self.purge(ours), "hydrant")
        self.assertEqual(self.purge(ours, fails=True), "hydrant", "and does not fail for that")
        self.assertEqual(self.purge(ours, "etc/hydrant/tenants.json"), "", "another one would get its number, and read it")
        self.assertEqual(self.purge(ours, "var/lib/hydrant/model.gguf"), "")
        self.assertEqual(self.purge(ours, link=True), "", "the operator's")
        self.assertEqual(self.purge(""), "", "one of LDAP is not in the file")
        self.assertEqual(self.purge(ours.replace("998", "1000")), "", "a person's")
        self.assertEqual(self.purge(ours.replace("/var/lib/hydrant", "/srv/hydrant")), "")

    def test_systemd_makes_its_user(self):
        if not shutil.which("systemd-sysusers"):
            self.skipTest("systemd-sysusers is not installed (package systemd)")
        command = ["systemd-sysusers", f"--root={self.root}", "--dry-run", "hydrant.conf"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("user hydrant", (done.stdout + done.stderr).lower().replace("'", ""))

    def test_lintian_has_nothing_to_say_that_is_not_known(self):
        if not shutil.which("lintian"):
            self.skipTest("lintian is not installed")
        text = run("lintian", "--fail-on", "none", "--allow-root", self.package)
        said = [line for line in text.splitlines() if line.startswith("E:") and line.split()[2] not in TOLERATED]
        self.assertEqual(said, [])


class Install(unittest.TestCase):
    def test_whoever_builds_it_is_told_to_build_every_program(self):
        programs = set(re.findall(r"install\(TARGETS (\S+)", (ROOT / "deploy" / "CMakeLists.txt").read_text()))
        self.assertIn("hydrantd", programs)
        for name in ("deploy/CMakeLists.txt", "deploy/Containerfile", "docs/deployment.md"):
            for named in re.findall(r"--target((?: hydrant\S*)+)", (ROOT / name).read_text()):
                self.assertEqual({program.strip("`") for program in named.split()}, programs, name)

    def test_another_prefix_is_in_the_unit(self):
        with tempfile.TemporaryDirectory() as folder:
            run("cmake", "--install", BUILD, "--prefix", "/opt/hydrant", env=dict(os.environ, DESTDIR=folder))
            root = pathlib.Path(folder)
            self.assertTrue((root / "opt/hydrant/bin/hydrantd").is_file())
            unit = (root / "opt/hydrant/lib/systemd/system/hydrantd.service").read_text()
            self.assertIn("ExecStart=/opt/hydrant/bin/hydrantd serve", unit)


if __name__ == "__main__":
    for program in ("cpack", "dpkg-deb", "dpkg-shlibdeps"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
    if not BINARY.exists():
        skip(f"there is no hydrantd at {BINARY}")
    unittest.main(verbosity=2)
