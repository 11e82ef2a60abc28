"""The server a client is checked against, and the words for what it has to show."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from server_process import ROOT, ServerProcess  # noqa: E402

MODEL = "smol"


# Answers the questions of other people's tests as they expect; the default model is too small for that.
ABLE_MODEL = ROOT / "models" / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"


def serve(*flags, model=None):
    """A running server; use it in a `with` block."""
    return ServerProcess(
        os.environ["HYDRANTD"], model or os.environ["HYDRANT_MODEL"],
        ("--served-model-name", MODEL, "--max-model-len", 2048, "--num-gpu-blocks-override", 1024, *flags),
    )  # fmt: skip


def require(holds, fact, found=None):
    """One fact; a client's own assertion would end the run as well."""
    print(("ok    " if holds else "FAIL  ") + fact + ("" if holds or found is None else f": {found!r}"), flush=True)
    if not holds:
        sys.exit(1)
