#!/usr/bin/env python3
"""Makes a Python wheel of what was built: hydrantd, the load generator, the libraries that not every Linux has, the launcher
`hydrant`, and the Ray Serve application (docs/deployment.md).

    make_wheel.py [--build build/release] [--out build/wheel]      prints the wheel's path

The libraries lie beside the programs, which find them by a path relative to themselves. The tag says the oldest glibc whose symbols
suffice, read from the programs and libraries in it. The same input gives the same bytes. Python's standard library, and readelf,
strip, ldd (binutils, libc-bin), patchelf and dpkg-query."""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("hydrantd", "hydrant-loadgen")
TOOLS = ("readelf", "strip", "ldd", "patchelf", "dpkg-query")

# What every glibc system with Python has; PEP 600 counts on it. libstdc++ stays outside for the reason that its own glibc is newer
# than what the programs need: inside, the wheel would be refused where it runs.
SYSTEM_LIBRARIES = {
    "libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libgcc_s.so.1", "libstdc++.so.6",
    "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
}  # fmt: skip
# A device's libraries are not repaired into a wheel: they are gigabytes, and belong to the driver beside them.
DEVICE_LIBRARIES = re.compile(r"^lib(cuda|cudart|cublas|cublasLt|nvrtc|nccl)\b")
# libstdc++'s symbols, and the glibc of the first distributions that had them (auditwheel's policies say the same).
GLIBC_OF_GLIBCXX = {30: (2, 35), 31: (2, 38), 32: (2, 39), 33: (2, 41)}
GLIBCXX_OF_OLD = 29  # with glibc 2.34 and before
GLIBC_LEAST = (2, 17)

REQUIRES_PYTHON = ">=3.9"
RAY = "ray[serve]==2.60.*"  # the request router's interface is not yet a stable one
SUMMARY = "Serving daemon for language models with bounded KV caches"
DESCRIPTION = """\
# Hydrant

    hydrant serve                    # the default model, 98 MB, fetched once
    hydrant serve MODEL [flags]      # a .gguf file, a checkpoint directory, org/name of a hub
    hydrant help

OpenAI's HTTP API with a fixed budget of cached tokens for every sequence, for processors of x86-64
with AVX2. With the extra `ray` it is an application of Ray Serve as well:

    serve run hydrant_ray.app:build model=MODEL
"""
ENTRY_POINTS = """\
[console_scripts]
hydrant = hydrant.__main__:main
hydrantd = hydrant.__main__:hydrantd
"""
COMPRESSION = 6  # of zip; 9 takes twice as long for 1 %
EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip can say


class Refused(Exception):
    """Why there is no wheel of it."""


def output_of(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
    if done.returncode != 0:
        raise Refused(f"{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def needed_by(elf):
    """The names of the libraries that an ELF file names itself."""
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "--dynamic", "--wide", elf)))


def libraries_of(programs):
    """{name: path} of the libraries that have to be in the wheel. Refused where one belongs to a device, or is missing."""
    found = {}
    for program in programs:
        for name, path in re.findall(r"^\s*(\S+) => (not found|\S+)", output_of("ldd", program), re.MULTILINE):
            if DEVICE_LIBRARIES.match(name):
                raise Refused(f"{program.name} needs {name}: a build for a device goes into an image (deploy/Containerfile), not a wheel")
            if path == "not found":
                raise Refused(f"{program.name} needs {name}, which is not here")
            if name not in SYSTEM_LIBRARIES:
                found[name] = pathlib.Path(path).resolve()
    return found


def symbol_versions(elf):
    """{("GLIBC", (2, 34)), …}: the versions of symbols that an ELF file needs of others."""
    text = output_of("readelf", "--version-info", "--wide", elf)
    needs = text.partition("Version needs section")[2]
    return {
        (family, tuple(map(int, version.split("."))))
        for family, version in re.findall(r"Name: (GLIBC|GLIBCXX)_([0-9.]+)", needs)
    }


def oldest_glibc(versions):
    """The oldest glibc, as (2, minor), on which symbols of these versions are there."""
    glibc = max([GLIBC_LEAST, *(version[:2] for family, version in versions if family == "GLIBC")])
    newest = max([0, *(version[2] for family, version in versions if family == "GLIBCXX" and len(version) > 2)])
    if newest > GLIBCXX_OF_OLD:
        if newest not in GLIBC_OF_GLIBCXX:
            raise Refused(f"GLIBCXX_3.4.{newest} is newer than this script: which glibc came with it?")
        glibc = max(glibc, GLIBC_OF_GLIBCXX[newest])
    return glibc


def machine_of(elf):
    names = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}
    machine = re.search(r"Machine:\s*(.+)", output_of("readelf", "--file-header", elf))[1].strip()
    if machine not in names:
        raise Refused(f"{elf.name} is for {machine}, for which wheels have no name here")
    return names[machine]


def licences_of(libraries):
    """{name: path} of the licences of the Debian packages that the libraries come from, and of the common ones they refer to."""
    # Packages may say /lib where the file system says /usr/lib. One call: each reads the whole of dpkg's lists.
    names = {name: path for path in map(str, libraries) for name in (path, path.removeprefix("/usr"))}
    said = subprocess.run(["dpkg-query", "--search", *names], capture_output=True, text=True).stdout
    owner = {names[name]: package for package, name in re.findall(r"^([^:,\s]+)(?::\S+)?: (.+)$", said, re.MULTILINE) if name in names}
    found = {}
    for path in map(str, libraries):
        if path not in owner:
            raise Refused(f"{path} is of no Debian package: under what licence may it be handed on?")
        found[owner[path]] = pathlib.Path("/usr/share/doc") / owner[path] / "copyright"
    for package, text in found.items():
        if not text.exists():
            raise Refused(f"the licence of {package} is not at {text}")
    common = set(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", "".join(map(pathlib.Path.read_text, found.values()))))
    return found | {name: pathlib.Path("/usr/share/common-licenses") / name for name in common}


def place(source, target, run_path):
    """A copy that looks for its libraries in `run_path`, before LD_LIBRARY_PATH: an environment's own must not slip in."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.name in PROGRAMS:  # Debian's libraries are stripped
        output_of("strip", "-o", target, source)
    else:
        shutil.copyfile(source, target)
    output_of("patchelf", "--force-rpath", "--set-rpath", run_path, target)
    target.chmod(0o755)


def metadata(version):
    return (
        f"Metadata-Version: 2.1\nName: hydrant\nVersion: {version}\nSummary: {SUMMARY}\nRequires-Python: {REQUIRES_PYTHON}\n"
        f'Provides-Extra: ray\nRequires-Dist: {RAY}; extra == "ray"\nDescription-Content-Type: text/markdown\n\n{DESCRIPTION}'
    )


def write_tree(tree, build, version):
    """Lays out in `tree` what is installed into site-packages. Returns the wheel's tag."""
    package, info = tree / "hydrant", tree / f"hydrant-{version}.dist-info"
    libraries = libraries_of([build / name for name in PROGRAMS])
    for name in PROGRAMS:
        place(build / name, package / "bin" / name, "$ORIGIN/../lib")
    for name, path in libraries.items():
        place(path, package / "lib" / name, "$ORIGIN")
    elves = [path for folder in ("bin", "lib") for path in sorted((package / folder).iterdir())]
    glibc = oldest_glibc(set().union(*map(symbol_versions, elves)))
    tag = f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{machine_of(elves[0])}"

    for source, target, names in (
        (ROOT / "deploy/wheel/hydrant", package, ("*.py",)),
        (ROOT / "deploy/clients", package / "clients", ("*.py",)),
        (ROOT / "deploy/models", package / "models", ("*.py", "*.txt")),
        (ROOT / "deploy/ray_serve/hydrant_ray", tree / "hydrant_ray", ("*.py",)),
        (ROOT / "deploy/ray_serve", tree / "hydrant_ray", ("serve.yaml",)),
    ):
        target.mkdir(parents=True, exist_ok=True)
        for path in (path for name in names for path in source.glob(name)):
            shutil.copyfile(path, target / path.name)
    for owner, text in licences_of(libraries.values()).items():
        (info / "licenses").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(text, info / "licenses" / f"{owner}.txt")
    (info / "METADATA").write_text(metadata(version), encoding="utf-8")
    (info / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: hydrant\nRoot-Is-Purelib: false\nTag: {tag}\n", encoding="utf-8")
    return tag


def pack(tree, path):
    """The tree as a wheel, with its RECORD last."""
    files = sorted(file for file in tree.rglob("*") if file.is_file())
    (info,) = tree.glob("*.dist-info")
    record, name = [], f"{info.name}/RECORD"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION) as archive:

        def put(member, data, mode):
            entry = zipfile.ZipInfo(member, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data, compresslevel=COMPRESSION)

        for file in files:
            member, data = file.relative_to(tree).as_posix(), file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{member},sha256={digest},{len(data)}\n")
            put(member, data, 0o755 if file.parent.name in ("bin", "lib") else 0o644)
        put(name, "".join(record) + f"{name},,\n", 0o644)


def make_wheel(build, out):
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        raise Refused(f"{missing[0]} is not installed; ./hydrant wheel installs what is needed")
    for name in PROGRAMS:
        if not (build / name).exists():
            raise Refused(f"there is no {name} in {build}; ./hydrant wheel builds it")
    version = output_of(build / "hydrantd", "--version").split()[1]
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hydrant-wheel-") as folder:
        tag = write_tree(pathlib.Path(folder), build, version)
        path = out / f"hydrant-{version}-{tag}.whl"
        pack(pathlib.Path(folder), path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="folder of the programs")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/wheel", help="folder of the wheel")
    arguments = parser.parse_args()
    try:
        print(make_wheel(arguments.build, arguments.out))
    except Refused as refused:
        print(f"hydrant: {refused}.", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
