"""Small Debians to install packages in: made by debootstrap, kept in $HYDRANT_ROOTS, copied for each use. In one of them a command runs
in a container without a network (systemd-nspawn), or systemd itself is booted. Root only; Python's standard library."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from replicas import MODEL, ROOT, skip, wait_for  # noqa: E402

RELEASE = "bookworm"
FILES = "/srv"  # inside, of ours
MODELS = f"{FILES}/models"  # the repository's models/
BOOT_TIMEOUT_S = 60
# Without the locale and the variables of whoever runs this.
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": os.path.expanduser("~root"), "DEBIAN_FRONTEND": "noninteractive"}
CONTAINER = ["--quiet", "--register=no", "--keep-unit", "--private-network", f"--bind-ro={MODEL.resolve().parent}:{MODELS}"]


def roots():
    """The folder of the roots. Ends the script where this cannot be run."""
    folder = os.environ.get("HYDRANT_ROOTS")
    if not folder:
        skip("HYDRANT_ROOTS names no folder in which to keep small Debians (docs/deployment.md)")
    if os.geteuid() != 0:
        skip("only root can install packages")
    for program in ("debootstrap", "systemd-nspawn", "nsenter"):
        if not shutil.which(program):
            skip(f"{program} is not installed (packages debootstrap, systemd-container)")
    if not MODEL.exists():
        skip(f"there is no model at {MODEL} (./hydrant up fetches it)")
    return pathlib.Path(folder).absolute()


def packages_for(use):
    lines = (ROOT / "deploy" / "debian-packages.txt").read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith(use + " ")]


def checked(*command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-3000:]}"
    return done.stdout


def prepared_root(folder, name, *packages, downloaded=()):
    """A small Debian with `packages`; those of `downloaded` lie in apt's cache, so that apt installs them without a network."""
    root = folder / name
    if root.exists():
        return root
    print(f"making {root} …", flush=True)
    part = folder / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    checked("debootstrap", "--variant=minbase", f"--include={','.join(packages)}", RELEASE, part)
    if downloaded:
        checked("chroot", part, "apt-get", "update")
        checked("chroot", part, "apt-get", "install", "-y", "--no-install-recommends", "--download-only", *downloaded)
    part.rename(root)
    return root


class Copy:
    """A root that may be spoilt."""

    def __init__(self, root):
        self._folder = tempfile.TemporaryDirectory(prefix="hydrant-root-", dir=root.parent)
        self.path = pathlib.Path(self._folder.name) / "root"
        checked("cp", "-a", "--reflink=auto", root, self.path)

    def end(self):
        self._folder.cleanup()

    def put(self, file):
        """A file of ours. Its path inside."""
        shutil.copy(file, f"{self.path}{FILES}")
        return f"{FILES}/{pathlib.Path(file).name}"

    def sh(self, script):
        """What a script says that runs in a container of its own; AssertionError where it fails."""
        return checked("systemd-nspawn", *CONTAINER, "-D", self.path, "--pipe", "bash", "-euc", script, stdin=subprocess.DEVNULL)

    def files(self, *without):
        """The paths of what is there, but for logs, caches, dpkg's own lists, and `without`."""
        apart = {"proc", "sys", "dev", "run", "tmp", "root", "srv", "var/log", "var/cache", "var/lib/apt", "var/lib/dpkg", "var/tmp",
                 "var/lib/systemd", *without}  # fmt: skip
        found = set()
        for folder, folders, files in os.walk(self.path):
            here = os.path.relpath(folder, self.path)
            folders[:] = [name for name in folders if os.path.normpath(os.path.join(here, name)) not in apart]
            found.update(os.path.normpath(os.path.join(here, name)) for name in folders + files)
        return found


class Booted:
    """A root in which systemd runs as the first process."""

    def __init__(self, copy):
        self._log = tempfile.TemporaryFile(mode="w+", errors="replace")
        command = ["systemd-nspawn", *CONTAINER, "-D", copy.path, f"--machine=hydrant-{os.getpid()}", "--boot"]
        self._nspawn = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT, env=ENVIRONMENT
        )
        self._first = wait_for("the container's first process", self._find_first, BOOT_TIMEOUT_S)
        wait_for("systemd to be up", lambda: self.run("systemctl is-system-running")[1].strip() in ("running", "degraded"), BOOT_TIMEOUT_S)

    def _find_first(self):
        assert self._nspawn.poll() is None, self._said()
        for child in pathlib.Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split():
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return child
        return None

    def _said(self):
        self._log.seek(0)
        return self._log.read()[-3000:]

    def run(self, script):
        """(exit status, output) of a script."""
        # A session of its own: a signal to process 0 must not reach us.
        command = ["nsenter", "--target", self._first, "--all", "bash", "-uc", script]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT,
            start_new_session=True,
        )  # fmt: skip
        return done.returncode, done.stdout

    def sh(self, script):
        """What it says; AssertionError where it fails."""
        status, said = self.run("set -e\n" + script)
        assert status == 0, f"{script}: {status}\n{said[-3000:]}"
        return said

    def show(self, unit, name):
        return self.sh(f"systemctl show {unit} -p {name} --value").strip()

    def end(self):
        if self._nspawn.poll() is None:
            self.run("systemctl poweroff")
            try:
                self._nspawn.wait(30)
            except subprocess.TimeoutExpired:
                self._nspawn.kill()
                self._nspawn.wait()
        self._log.close()


def milliseconds(said, name):
    """The number behind `name: ` in what a script said."""
    return int(re.search(rf"^{name}: (\d+) ms$", said, re.MULTILINE)[1])
