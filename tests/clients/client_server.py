"""The server a client is checked against, and the words for what it has to show."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from server_process import ServerProcess  # noqa: E402

MODEL = "smol"


def serve(*flags):
    """A running server; use it in a `with` block."""
    return ServerProcess(
        os.environ["HYDRANTD"], os.environ["HYDRANT_MODEL"],
        ("--served-model-name", MODEL, "--max-model-len", 2048, "--num-gpu-blocks-override", 1024, *flags),
    )  # fmt: skip


def require(holds, fact, found=None):
    """One fact; a client's own assertion would end the run as well."""
    print(("ok    " if holds else "FAIL  ") + fact + ("" if holds or found is None else f": {found!r}"), flush=True)
    if not holds:
        sys.exit(1)
