#!/usr/bin/env python3
"""`./hydrant bench peer_quality`: next-token distributions beside llama.cpp's, on the same file and text, for every model at
hand. Two questions: whether both compute the same model (each with the file expanded to fp32), and whose way of computing the
weights as they are stored is closer to that.

llama-perplexity writes its distributions (peer_logits.h), weight_quality_bench computes ours of the same tokens and compares.
Contexts of 512, the second half of each; the text are the pages of this repository. The expanded file is made once beside
llama.cpp's programs, four bytes a parameter, and removed."""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import peer_llama_cpp
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ROOT

PROGRAMS = ("llama-quantize", "llama-perplexity")
# What weight_quality_bench prints of one comparison.
RESULT = re.compile(r"mean KL (\S+), .*; same top token (\S+) %\nperplexity \S+ expanded, \S+ (.*): (\S+) %")


def compared(arguments, model, logits):
    """{"in the other form" | "by llama.cpp": (mean KL, same top token in %, perplexity in %)} against ours, expanded."""
    command = [arguments.bench, model, "--peer-logits", logits, "--threads", arguments.threads]
    said = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True).stdout
    return {what: (kl, same, perplexity) for kl, same, what, perplexity in RESULT.findall(said)}


def measure(arguments, programs, model, text, folder):
    """The rows of one model: (whose, in which form, mean KL, same top token, perplexity)."""

    def logits_of(file):
        out = folder / "logits"
        command = [programs / "llama-perplexity", "-m", file, "-f", text, "-c", 512, "-b", 512, "-t", arguments.threads]
        command += ["--chunks", arguments.chunks, "--save-all-logits", out]
        peer_llama_cpp.run(list(map(str, command)), folder / "perplexity.log")
        return out

    stored = compared(arguments, model, logits_of(model))
    expanded = folder / "expanded.gguf"
    command = [programs / "llama-quantize", "--allow-requantize", model, expanded, "F32"]
    peer_llama_cpp.run(command, folder / "quantize.log")
    same_model = compared(arguments, model, logits_of(expanded))
    expanded.unlink()
    return [
        ("llama.cpp", "expanded", *same_model["by llama.cpp"]),
        ("llama.cpp", "as stored", *stored["by llama.cpp"]),
        ("hydrant", "as stored", *stored["in the other form"]),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=DEFAULT_BINARY)
    parser.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL, help="measured with all that lie beside it")
    parser.add_argument("--models", type=pathlib.Path, nargs="+", help="these instead")
    parser.add_argument("--chunks", type=int, default=16, help="contexts of 512 tokens (default: 16)")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    build = arguments.binary.resolve().parent
    arguments.bench = build / "tests" / "bench" / "weight_quality_bench"
    peer = ROOT / "build" / "peer"
    peer.mkdir(parents=True, exist_ok=True)
    programs = peer_llama_cpp.built(peer, "avx2", peer_llama_cpp.ISA_FLAGS["avx2"], PROGRAMS)
    models = arguments.models or sorted(arguments.model.parent.glob("*.gguf"))
    print(f"against hydrant with the file expanded to fp32, {256 * arguments.chunks - arguments.chunks} positions")
    print(f"{'':<42}{'mean KL':>10}{'same top':>10}{'perplexity':>12}")
    for model in models:
        with tempfile.TemporaryDirectory(dir=peer) as folder:
            text = pathlib.Path(folder) / "text.txt"
            text.write_text("".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))))
            print(model.stem)
            for whose, form, kl, same, perplexity in measure(arguments, programs, model, text, pathlib.Path(folder)):
                print(f"  {whose + ', ' + form:<40}{kl:>10}{same:>8} %{perplexity:>10} %", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
