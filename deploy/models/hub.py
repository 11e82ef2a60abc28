#!/usr/bin/env python3
"""Brings a model of a Hugging Face hub into the hub's local cache, and prints where it is there.

    hub.py org/name [--server BINARY]             a checkpoint directory; where there is none, the one GGUF file or that of Q4_K_M
    hub.py org/name:Q8_0 [--server BINARY]        the GGUF file of that format

What cannot run is refused before anything large is moved: the list of files and config.json come first, and the server that is to
run the model is asked. The package's variables
hold: HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE. A download that was cut short goes on where it stopped, and
each large file is compared with the checksum that the hub has for it. Runs in the environment that models.py makes.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

import huggingface_hub
from huggingface_hub import constants, errors

from models import Failed, checksum_of, megabytes, room_for, say

DEFAULT_FORMAT = "Q4_K_M"
# What a checkpoint directory is read from. Weights as pickles are not: they are programs.
DIRECTORY = re.compile(
    r"(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|chat_template)\.json"
    r"|chat_template\.jinja|merges\.txt|tokenizer\.model|model(-\d+-of-\d+)?\.safetensors|model\.safetensors\.index\.json"
)
SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")


def is_of_format(file, gguf_format):
    """As FindModel of the server reads a name: the format stands before ".gguf", apart from the name by '-', '.' or '_'."""
    return re.search(rf"(^|[-._]){re.escape(gguf_format)}\.gguf$", file, re.IGNORECASE) is not None


def choose_gguf(files, repository, gguf_format):
    """The file that is meant, or its parts, the first one first."""
    whole = [name for name in files if name.endswith(".gguf") and "/" not in name and "mmproj" not in name]
    meant = [name for name in whole if is_of_format(SPLIT.sub(".gguf", name), gguf_format or DEFAULT_FORMAT)]
    if not gguf_format and not meant:
        meant = whole
    if not meant:
        raise Failed(f"{repository} has no {gguf_format or 'GGUF'} file; it has {', '.join(whole) or 'no GGUF file at all'}.")
    if len({SPLIT.sub("", name) for name in meant}) > 1:
        raise Failed(f"{repository} could mean {', '.join(meant)}; name one, for example {repository}:Q8_0.")
    return sorted(meant)


def choose_directory(files, repository):
    chosen = [name for name in files if DIRECTORY.fullmatch(name)]
    if "config.json" not in chosen:
        raise Failed(f"{repository} has neither a config.json nor a GGUF file.")
    if not any(name.endswith(".safetensors") for name in chosen):
        raise Failed(f"{repository} has no weights as safetensors. Pickled weights are programs and are not loaded.")
    return chosen


def answer_of(server, *arguments):
    """What the server's program says. Refused with its own words where it refuses."""
    try:
        answer = subprocess.run([server, *arguments], capture_output=True, text=True)
    except OSError as error:
        raise Failed(f"{server} cannot be run: {error.strerror}.") from None
    if answer.returncode != 0:
        raise Failed(answer.stderr.strip().removeprefix("hydrantd: "))
    return answer.stdout


def check_config(repository, names, server):
    """Refuses what the server refuses by config.json and generation_config.json."""
    small = [name for name in names if name in ("config.json", "generation_config.json")]
    paths = [pathlib.Path(huggingface_hub.hf_hub_download(repository, name)) for name in small]
    if server:
        answer_of(server, "check", paths[0].parent)


def check_architecture(api, repository, server):
    """Refuses a GGUF file by what the hub says of it, where it says something."""
    try:
        facts = api.model_info(repository, expand=["gguf"]).gguf or {}
    except errors.HfHubHTTPError:
        return
    architecture = facts.get("architecture")
    if not server or not architecture:
        return
    known = json.loads(answer_of(server, "families"))["gguf"]
    if architecture not in known:
        raise Failed(f"GGUF files of {architecture!r} are not supported; these are: {', '.join(known)}.")


def check_room(sizes):
    cache = pathlib.Path(constants.HF_HUB_CACHE)
    cache.mkdir(parents=True, exist_ok=True)
    needed = sum(sizes.values())
    say(f"{megabytes(needed)} in {len(sizes)} files, into {cache}")
    room_for(needed, cache)


def check_sums(snapshot, sums):
    """The hub's package compares sizes; a file with a checksum is compared with that, too."""
    for name, expected in sums.items():
        if checksum_of(snapshot / name) != expected:
            blob = (snapshot / name).resolve()
            (snapshot / name).unlink()
            blob.unlink(missing_ok=True)
            raise Failed(f"{name} has another checksum than the hub says, and was removed. Is the disk full?")


def fetch(name, server):
    repository, _, gguf_format = name.partition(":")
    api = huggingface_hub.HfApi()
    siblings = {file.rfilename: file for file in api.model_info(repository, files_metadata=True).siblings}
    has_gguf = any(file.endswith(".gguf") for file in siblings)
    is_directory = not gguf_format and (any(DIRECTORY.fullmatch(file) and file.endswith(".safetensors") for file in siblings) or not has_gguf)
    if is_directory:
        chosen = choose_directory(siblings, repository)
        check_config(repository, chosen, server)
    else:
        chosen = choose_gguf(siblings, repository, gguf_format)
        check_architecture(api, repository, server)
    missing = [file for file in chosen if not isinstance(huggingface_hub.try_to_load_from_cache(repository, file), str)]
    check_room({file: siblings[file].size or 0 for file in missing})
    snapshot = pathlib.Path(huggingface_hub.snapshot_download(repository, allow_patterns=chosen))
    check_sums(snapshot, {file: siblings[file].lfs.sha256 for file in missing if siblings[file].lfs})
    return snapshot if is_directory else snapshot / chosen[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--server", help="the program that is to run the model: `hydrantd`")
    arguments = parser.parse_args()
    try:
        print(fetch(arguments.name, arguments.server))
    except errors.GatedRepoError:
        reason = "its owner wants to be asked: accept the terms on the model's page, then set HF_TOKEN"
    except errors.RepositoryNotFoundError:
        reason = "the hub has no such model, or shows it only to a token that you did not give (HF_TOKEN)"
    except (errors.HFValidationError, Failed) as refused:
        reason = str(refused)
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, OSError) as error:
        reason = f"{constants.ENDPOINT} could not be asked: {str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}"
    else:
        return
    print(f"hydrant: {arguments.name}: {reason}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\nhydrant: stopped; what was fetched is kept, and the same command goes on from there.", file=sys.stderr)
        raise SystemExit(130) from None
