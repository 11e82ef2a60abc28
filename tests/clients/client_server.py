"""The server a client is checked against, and the words for what it has to show."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from doc_examples import SERVER, Example, blocks, commands, run  # noqa: E402
from server_process import DEFAULT_MODEL, ROOT, ServerProcess  # noqa: E402

MODEL = "smol"


# Answers the questions of other people's tests as they expect; the default model is too small for that.
ABLE_MODEL = ROOT / "models" / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"


def serve(*flags, model=None, name=MODEL):
    """A running server; use it in a `with` block."""
    return ServerProcess(
        os.environ["HYDRANTD"], model or os.environ["HYDRANT_MODEL"],
        ("--served-model-name", name, "--max-model-len", 2048, "--num-gpu-blocks-override", 1024, *flags),
    )  # fmt: skip


def check_examples(*pages):
    """What the pages have in Python runs as it is typed, against a server whose model has the default's name."""
    with serve(name=DEFAULT_MODEL.stem) as server:
        for page in (ROOT / name for name in pages):
            typed = commands(page, lambda line: "python3 -c '" in line)
            typed += [Example(b.where, f"python3 - <<'END'\n{b.text}\nEND") for b in blocks(page) if b.language == "python"]
            require(len(typed) > 0, f"{page.name} has an example")
            for example in typed:
                done = run(example.at(dict.fromkeys(SERVER, server.base)), ROOT, pathlib.Path(sys.executable).parent)
                require(done.returncode == 0 and done.stdout.strip() != "", f"{example.where} says something", done)


def require(holds, fact, found=None):
    """One fact; a client's own assertion would end the run as well."""
    print(("ok    " if holds else "FAIL  ") + fact + ("" if holds or found is None else f": {found!r}"), flush=True)
    if not holds:
        sys.exit(1)
