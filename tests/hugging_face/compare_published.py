"""Compares Hydrant with Hugging Face's code on what llama.cpp's source archive has of published models: the ids and texts of
GGUF vocabularies (llama.cpp records what Hugging Face's tokenizers make of some texts), and chat templates.

compare_published.py TOKENIZER_TOOL TEMPLATE_TOOL FOLDER; FOLDER keeps the archive. Exit 77: skipped, it could not be fetched.
"""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import compare_templates
import llama_cpp_source
import tool

SEPARATOR = "\n__ggml_vocab_test__\n"
SERVED = ["deepseek-coder", "gpt-2", "llama-bpe", "llama-spm", "mpt", "phi-3", "qwen2", "refact", "starcoder"]
# Of architectures that are not served, and the key that says so.
REFUSED = {
    "bert-bge": "model", "gemma-4": "model", "nomic-bert-moe": "model", "command-r": "pre", "deepseek-llm": "pre", "falcon": "pre",
    "qwen35": "pre",
}  # fmt: skip


def vocabulary_differences(program, path):
    """Of one file's ids and of their texts."""
    texts = pathlib.Path(f"{path}.inp").read_bytes().decode().removesuffix(SEPARATOR).split(SEPARATOR)
    ids = [[int(number) for number in line.split()] for line in pathlib.Path(f"{path}.out").read_text().splitlines()]
    assert len(ids) == len(texts) > 40, f"{path.name}: {len(texts)} texts, ids of {len(ids)}"
    got = tool.answers([program, path], [{"text": text, "add": False, "parse": False} for text in texts])
    back = tool.answers([program, path], [{"ids": one, "skip": False} for one in ids])
    wrong = 0
    for text, wanted, encoded, decoded in zip(texts, ids, got, back, strict=True):
        if encoded["ids"] == wanted and decoded == {"text": text, "streamed": text}:
            continue
        wrong += 1
        print(f"  {path.name}: {text!r}\n    expected {wanted}\n    got      {encoded['ids']}, {decoded}")
    print(f"{path.name}: {len(texts)} texts, {wrong} differences", flush=True)
    return wrong


def main():
    tokenizer_tool, template_tool, folder = sys.argv[1:]
    try:
        models = llama_cpp_source.fetch(pathlib.Path(folder)) / "models"
    except llama_cpp_source.FetchError as error:
        print(f"published: skipped: {error}")
        sys.exit(77)
    wrong = sum(vocabulary_differences(tokenizer_tool, models / f"ggml-vocab-{name}.gguf") for name in SERVED)
    for name, key in REFUSED.items():
        run = subprocess.run([tokenizer_tool, models / f"ggml-vocab-{name}.gguf"], input="", capture_output=True, text=True, check=False)
        if run.returncode != 78 or f"tokenizer.ggml.{key}" not in run.stderr:
            wrong += 1
            print(f"  {name} should be refused for its {key}: {json.dumps(run.stderr)}")
    wrong += compare_templates.differences(template_tool, models / "templates")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
