"""The examples in the fenced blocks of README.md and docs/*.md, for tests that run them as a reader would. Python's standard
library only."""

import dataclasses
import pathlib
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SERVER = ("http://127.0.0.1:8000", "http://localhost:8000", "localhost:8000")  # what pages call the server of `./hydrant up`


@dataclasses.dataclass(frozen=True)
class Example:
    where: str  # page:line
    text: str
    language: str = ""  # of its block

    def at(self, addresses):
        """Its text for a server somewhere else: `addresses` has what to write for what is written there."""
        text = self.text
        for written, address in addresses.items():
            text = text.replace(written, address)
        return text


def blocks(page):
    """Each fenced block of a page."""
    found, opened = [], None
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        if not line.startswith("```"):
            if opened:
                opened[2].append(line)
        elif opened is None:
            opened = (number + 1, line[3:], [])
        else:
            first, language, lines = opened
            found.append(Example(f"{page.relative_to(ROOT)}:{first}", "\n".join(lines), language))
            opened = None
    return found


def commands(page, begins):
    """The shell commands of a page's blocks whose first line `begins` says yes to, with all of their lines."""
    found = []
    for block in blocks(page):
        path, first = block.where.split(":")
        lines = block.text.split("\n")
        while lines:
            command, number = lines.pop(0), len(block.text.split("\n")) - len(lines) - 1
            if not begins(command):
                continue
            while lines and not is_whole(command):
                command += "\n" + lines.pop(0)
            found.append(Example(f"{path}:{int(first) + number}", command))
    return found


def is_whole(command):
    """Whether no quotation is open, and no line goes on in the next one."""
    try:
        shlex.split(command)
    except ValueError:
        return False
    return not command.endswith("\\")


def run(text, folder, path=""):
    """Runs a shell's text in `folder`, with the programs of the folder `path` first; a curl that is refused fails."""
    prelude = 'curl() { command curl -sS --max-time 60 --fail-with-body "$@"; }\n' + (f'PATH={shlex.quote(str(path))}:"$PATH"\n' if path else "")
    return subprocess.run(["bash", "-c", prelude + text], cwd=folder, capture_output=True, text=True, timeout=120)
