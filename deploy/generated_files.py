"""Files that are committed and made by a program beside them."""

import sys


def write(texts):
    """Writes what differs of `texts`, {path: text}, and names it. With --check on the command line nothing is written, and the exit
    code, which is returned, is 1 where something differs."""
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    print(", ".join(path.name for path in stale) or "all up to date")
    if "--check" in sys.argv:
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(texts[path], encoding="utf-8")
    return 0
