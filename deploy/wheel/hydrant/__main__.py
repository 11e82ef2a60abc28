"""`hydrant`, as the wheel installs it. It fetches a model that is given by name, and then hydrantd takes its place: flags, signals
and exit codes are hydrantd's own. Python's standard library only."""

import os
import pathlib
import re
import subprocess
import sys

from hydrant import PROGRAMS

HERE = pathlib.Path(__file__).resolve().parent
DEFAULT_MODEL = "smollm2-135m"
EXIT_USAGE = 64
HUB_NAME = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+(:[A-Za-z0-9._-]+)?")
HELP = """\
hydrant serve [MODEL] [flags]  serve a model: a .gguf file, a checkpoint directory, org/name of the Hugging Face
                               hub, or a name that `hydrant models` lists (default: {default}, 98 MB, fetched once)
hydrant serve --help           the flags of the server
hydrant models                 list the models that are known by a name
hydrant fetch NAME             fetch one of them, or org/name, and print its path
hydrant sessions WORD [flags]  list, verify, export, import, hand over or forget sessions
hydrant load [flags]           put a load on a server and report what became of it
hydrant chat [flags]           talk with a model that is served, in the terminal
hydrant batch IN OUT [flags]   send a file of requests, and write a file of answers
hydrant --version

Models that are fetched go to $HYDRANT_MODELS, by default {models}."""


def fail(text, status=1):
    print(f"hydrant: {text}", file=sys.stderr)
    raise SystemExit(status)


def become(program, *arguments):
    """Ends this program and starts another in its place."""
    try:
        os.execv(program, [str(program), *map(str, arguments)])
    except OSError as error:
        fail(f"{program} cannot be started: {error.strerror}. The wheel is for Linux with glibc and another processor?")


def become_script(path, *arguments):
    become(sys.executable, "-B", path, *arguments)


def models_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("HYDRANT_MODELS") or pathlib.Path(cache) / "hydrant")


def models_command(*arguments):
    folder = models_folder()
    where = ["--models", folder, "--environment", folder / "hub", "--server", PROGRAMS / "hydrantd"]
    return [HERE / "models" / "models.py", *arguments, *where]


def run_models(*arguments, **options):
    return subprocess.run([sys.executable, "-B", *map(str, models_command(*arguments))], **options)


def catalogue():
    return {path.stem for path in (HERE / "models").glob("*.txt")} - {"hub_requirements"}


def model_path(model):
    """What hydrantd is given for MODEL. A name of the catalogue is fetched where it is not here; so is one of the hub."""
    if pathlib.Path(model).exists():
        return model
    if model in catalogue():
        fetched = run_models("fetch", model, stdout=subprocess.PIPE, text=True)
        if fetched.returncode != 0:
            raise SystemExit(fetched.returncode)
        return fetched.stdout.strip()
    if not HUB_NAME.fullmatch(model) or pathlib.Path(model.partition("/")[0]).is_dir():
        fail(
            f"there is no model at {model}. Give a checkpoint directory or a .gguf file, org/name of the Hugging Face hub, or one\n"
            f"  of: {', '.join(sorted(catalogue()))}."
        )
    if run_models("cached", model).returncode != 0:
        fetched = run_models("fetch", model, stdout=subprocess.DEVNULL)
        if fetched.returncode != 0:
            raise SystemExit(fetched.returncode)
    return model


def serve(arguments):
    if any(word in ("--help", "-h", "--help-all") for word in arguments):
        become(PROGRAMS / "hydrantd", "serve", *arguments)
    if arguments and not arguments[0].startswith("-"):
        arguments = [model_path(arguments[0]), *arguments[1:]]
    elif not any(word.split("=")[0] in ("--model", "--config") for word in arguments):  # which say the model themselves
        arguments = [model_path(DEFAULT_MODEL), *arguments]
    become(PROGRAMS / "hydrantd", "serve", *arguments)


def models(arguments):
    if arguments:
        fail("models takes no arguments; `hydrant fetch NAME` fetches one.", EXIT_USAGE)
    become_script(*models_command("list"))


def fetch(arguments):
    if len(arguments) != 1 or arguments[0].startswith("-"):
        fail(f"which model? hydrant fetch NAME, one of: {', '.join(sorted(catalogue()))}; or org/name.", EXIT_USAGE)
    become_script(*models_command("fetch", arguments[0]))


COMMANDS = {
    "serve": serve,
    "up": serve,  # the repository's name for it, which the pages use
    "models": models,
    "fetch": fetch,
    "sessions": lambda arguments: become(PROGRAMS / "hydrantd", "sessions", *arguments),
    "load": lambda arguments: become(PROGRAMS / "hydrant-loadgen", *arguments),
    "chat": lambda arguments: become_script(HERE / "clients" / "chat.py", *arguments),
    "batch": lambda arguments: become_script(HERE / "clients" / "batch.py", *arguments),
}


def main():
    os.environ["HYDRANT_DOOR"] = "hydrant"  # as the scripts that come along call it
    command, arguments = (sys.argv[1:2] or ["help"])[0], sys.argv[2:]
    if command in ("--version", "version"):
        become(PROGRAMS / "hydrantd", "--version")
    elif command in ("help", "--help", "-h"):
        print(HELP.format(default=DEFAULT_MODEL, models=models_folder()))
    elif command in COMMANDS:
        COMMANDS[command](arguments)
    else:
        fail(f"there is no command '{command}'. These exist: {', '.join(COMMANDS)}, help.", EXIT_USAGE)


def hydrantd():
    become(PROGRAMS / "hydrantd", *sys.argv[1:])


if __name__ == "__main__":
    main()
