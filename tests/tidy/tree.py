"""The repository as the tidy rules see it: paths and texts, C++ split into code, comments and strings."""

import functools
import pathlib
import re
import subprocess

CPP = (".h", ".cc", ".cu", ".cuh")
TEXT = CPP + (".py", ".txt", ".md", ".json", ".sh", ".cmake", ".yml", ".yaml", ".svg", ".html", ".css", ".js")
LIBRARIES = ("api", "block_manager", "scheduler", "kernels", "model", "server", "loadgen")


class Tree:
    def __init__(self, files):
        """`files`: path relative to the root -> text."""
        self.files = files

    @staticmethod
    def load(root):
        """Every file git knows or would add; without git, every file outside folders that are never committed."""
        root = pathlib.Path(root)
        listing = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=root, capture_output=True
        )
        if listing.returncode == 0:
            names = listing.stdout.decode().split("\0")
        else:
            skipped = {".git", "build", "models", ".venv", "__pycache__"}
            names = [
                str(path.relative_to(root))
                for path in root.rglob("*")
                if not skipped & set(path.relative_to(root).parts)
            ]
        files = {}
        for name in sorted(filter(None, names)):
            path = root / name
            if path.is_file() and not path.is_symlink() and (path.suffix in TEXT or is_script(path)):
                files[name] = path.read_text(errors="surrogateescape")
        return Tree(files)

    def cpp(self, *folders):
        """(path, text) of the C++ files below `folders`, or of all."""
        for path, text in self.files.items():
            if path.endswith(CPP) and (not folders or path.startswith(tuple(folder + "/" for folder in folders))):
                yield path, text


def is_script(path):
    with open(path, "rb") as file:
        return file.read(2) == b"#!" or path.name in ("Containerfile", ".clang-format", ".clang-tidy")


TOKEN = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
      | (?P<string>R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')""",
    re.DOTALL | re.VERBOSE,
)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


@functools.lru_cache(maxsize=None)
def split_cpp(text):
    """(code, comments): each as long as `text`, what belongs to neither replaced by spaces."""
    code, comments, begin = [], [], 0
    for match in TOKEN.finditer(text):
        between = text[begin : match.start()]
        code.append(between)
        comments.append(blank(between))
        token = match.group()
        if match["comment"]:
            code.append(blank(token))
            comments.append(token)
        else:
            # Quotes stay, so that an #include line stays one.
            code.append(token[0] + blank(token[1:-1]) + token[-1])
            comments.append(blank(token))
        begin = match.end()
    code.append(text[begin:])
    comments.append(blank(text[begin:]))
    return "".join(code), "".join(comments)
