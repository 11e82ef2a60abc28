"""llama.cpp's source, from the archive of the Python package llama-cpp-python: the peer of the benches, and what it has of
published models (vocabularies with Hugging Face's ids, chat templates) for the tests."""

import shutil
import subprocess

PACKAGE = "llama-cpp-python==0.3.36"
ARCHIVE_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"


class FetchError(Exception):
    """Its text says what failed."""


def fetch(folder, python="python3"):
    """The source folder, unpacked into `folder` once. `python`: one with pip."""
    source = folder / "source"
    if source.is_dir():
        return source
    print(f"fetching {PACKAGE} (77 MB, once) …", flush=True)
    downloads = folder / "download"
    shutil.rmtree(downloads, ignore_errors=True)
    downloads.mkdir(parents=True)
    # The wheel of the package has no source. pip looks at the metadata of a source archive with the package's own build tools,
    # for a minute, and checks the hash before that.
    requirements = downloads / "requirements.txt"
    requirements.write_text(f"{PACKAGE} --hash=sha256:{ARCHIVE_SHA256}\n")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "download", "--no-binary", ":all:", "--no-deps", "--require-hashes"]
    with open(folder / "fetch.log", "w") as log:
        if subprocess.run([*pip, "-d", downloads, "-r", requirements], stdout=log, stderr=log, check=False).returncode:
            raise FetchError(f"{PACKAGE} could not be fetched (no package index?); log: {log.name}")
    (archive,) = downloads.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", archive, "-C", downloads, "--wildcards", "*/vendor/llama.cpp/*"], check=True)
    (llama,) = downloads.glob("*/vendor/llama.cpp")
    llama.rename(source)
    shutil.rmtree(downloads)
    return source
