"""The tidy rules. A rule takes a Tree and yields (path, line, message). Its docstring says what it holds and why.

Exceptions are listed beside the rule, each with its reason; a list only ever gets shorter.
"""

import pathlib
import posixpath
import re

from tree import LIBRARIES, TEXT, split_cpp

RULES = []


def rule(function):
    RULES.append(function)
    return function


def matches(pattern, text):
    """(line, match) of every match."""
    for match in re.finditer(pattern, text, re.MULTILINE):
        yield text.count("\n", 0, match.start()) + 1, match


# --- the dependency graph --------------------------------------------------------------------------------------------

LAYERS_FILE = "tests/tidy/layers.txt"


def parse_layers(text):
    """layers.txt: folder -> the folders it may include. Lines that begin with a blank continue the one above."""
    joined = re.sub(r"\n +", " ", "\n".join(line for line in text.split("\n") if not line.startswith("#")))
    return {name: set(allowed.split()) for name, allowed in re.findall(r"^([\w/]+):(.*)$", joined, re.MULTILINE)}


LAYERS = parse_layers((pathlib.Path(__file__).parent / "layers.txt").read_text())
# Targets that are not named after their folder.
TARGET_FOLDERS = {"hydrant_" + folder.replace("/", "_"): folder for folder in LAYERS}
TARGET_FOLDERS |= {"hydrant_engine_core": "server/engine"}


def folder_of(path):
    return path.rpartition("/")[0]

# First path components of packages' headers, by folder or else by top folder. Standard headers have no slash and no .h.
PACKAGES = {
    "api": {"nlohmann", "absl"},
    "api/flags": {"CLI", "absl"},
    "block_manager": {"absl"},
    "scheduler": {"absl"},
    "kernels": {"absl", "cublas_v2.h", "cuda_bf16.h", "cuda_fp16.h", "cuda_runtime.h", "cpuid.h", "immintrin.h", "emmintrin.h", "pthread.h", "sched.h", "sys", "unistd.h"},
    "model": {"absl", "nlohmann", "pcre2.h", "utf8proc.h", "fcntl.h", "signal.h", "sys", "unistd.h"},
}
# What would make the deterministic simulator lie.
IMPURE = {"chrono", "thread", "mutex", "shared_mutex", "atomic", "condition_variable", "future", "fstream", "iostream",
          "filesystem", "random", "cstdio", "ctime"}  # fmt: skip
PURE_FOLDERS = ("block_manager", "scheduler")
# The folders of the server that may wait: all others compile without Boost.
WITH_ASIO = {"server/http", "server/live_view", "server/frontend", "server/sessions/tools", "server"}


@rule
def layers_are_a_dag(tree):
    """layers.txt has no cycle, lists no folder twice, and every arrow in it is one that some include needs."""
    if LAYERS_FILE not in tree.files:
        return
    text = tree.files[LAYERS_FILE]
    layers, above = parse_layers(text), set()
    for line, match in matches(r"^([\w/]+):", text):
        if match[1] in above:
            yield LAYERS_FILE, line, f"{match[1]} is listed twice"
        above.add(match[1])
        for other in sorted(layers[match[1]] - above):
            yield LAYERS_FILE, line, f"{match[1]} may include {other}, which must be listed above it"
    used = {folder: set() for folder in layers}
    for path, content in tree.cpp(*LIBRARIES):
        used.setdefault(folder_of(path), set()).update(folder_of(match[1]) for _, match in matches(INCLUDE_OURS, content))
    for path, content in tree.files.items():  # a folder without sources of its own sums up those that it links
        if path.endswith("CMakeLists.txt") and folder_of(path) in used:
            used[folder_of(path)].update(TARGET_FOLDERS[t] for t in re.findall(r"\bhydrant_\w+", content) if t in TARGET_FOLDERS)
    for line, match in matches(r"^([\w/]+):", text):
        for other in sorted(layers[match[1]] - used[match[1]]):
            yield LAYERS_FILE, line, f"nothing in {match[1]} includes {other}"


INCLUDE_OURS = r'^\s*#\s*include\s*"((?:' + "|".join(LIBRARIES) + r')/[^"]+)"'
FREE_FUNCTION = r"^(?!return |using |#)(?:[\w:<>,*&]+ )+[*&]?([A-Z]\w*[a-z]\w*[A-Z]\w*)\("


@rule
def include_dag(tree):
    """Folders include each other only along the arrows of layers.txt, and third parties only where PACKAGES allows."""
    for path, text in tree.cpp(*LIBRARIES):
        folder, top = folder_of(path), path.split("/")[0]
        if folder not in LAYERS:
            yield path, 1, f"{folder} is not in {LAYERS_FILE}"
            continue
        packages = PACKAGES.get(folder) or PACKAGES.get(top)
        # Comments blanked, strings kept: the include's path is one.
        for line, match in matches(r'^\s*#\s*include\s*(["<])([^">]+)[">]', text):
            target, first = match[2], match[2].split("/")[0]
            if match[1] == '"':
                if first in LIBRARIES and folder_of(target) not in LAYERS[folder] | {folder}:
                    yield path, line, f"{folder} may not include {folder_of(target)}"
                elif first not in LIBRARIES and "/" in target and packages and first not in packages:
                    yield path, line, f"{folder} may not use {first}"
                elif "/" not in target:
                    yield path, line, "includes are written from the root of the repository"
            elif ("/" in target or target.endswith(".h")) and packages and first not in packages:
                yield path, line, f"{folder} may not use {target}"
            elif first == "boost" and top == "server" and folder not in WITH_ASIO:
                yield path, line, f"{folder} knows nothing of Asio"
            elif target in IMPURE and folder in PURE_FOLDERS:
                yield path, line, f"{folder} is pure: no <{target}>"


@rule
def includes_reach(tree):
    """A function of ours that a file calls is declared by what it includes. A merged build does not notice."""
    files = dict(tree.cpp(*LIBRARIES))
    code = {path: split_cpp(text)[0] for path, text in files.items()}
    includes = {path: {match[1] for _, match in matches(INCLUDE_OURS, text)} & files.keys() for path, text in files.items()}
    headers = {}
    for path in files:
        for _, match in matches(FREE_FUNCTION, code[path] if path.endswith((".h", ".cuh")) else ""):
            headers.setdefault(match[1], set()).add(path)
    for path in files:
        reached, beyond = set(), {path}
        while beyond:
            reached |= beyond
            beyond = set().union(*(includes[one] for one in beyond)) - reached
        may = LAYERS.get(folder_of(path), set()) | {folder_of(path)}
        # A name behind a type is declared here: another function of the same name.
        values = r"\b(co_await|co_return|co_yield|return|throw|else|case|new)\b| (?:&&|[&*<>]) "
        own = set(re.findall(r"[\w>&*] [*&]?(?:\w+::)?(\w+)\(", re.sub(values, "", code[path])))
        for line, match in matches(r"(?<![\w.>:])(\w+)\(", code[path]):
            where = headers.get(match[1], set())
            if where and not where & reached and match[1] not in own and any(folder_of(one) in may for one in where):
                yield path, line, f"calls {match[1]} and does not include {min(where)}"


@rule
def link_dag(tree):
    """The CMake link lines draw the same arrows."""
    for path, text in tree.files.items():
        folder = folder_of(path)
        if folder not in LAYERS or not path.endswith("CMakeLists.txt"):
            continue
        # Subfolders without a CMakeLists.txt are part of the same library.
        built = [sub for sub in LAYERS if (sub + "/").startswith(folder + "/") and sub + "/CMakeLists.txt" not in tree.files]
        allowed = {folder}.union(LAYERS[folder], *(LAYERS[sub] for sub in built))
        for line, match in matches(r"hydrant_(?:cuda_)?library\([^)]*DEPS([^)]*)\)|target_link_libraries\(([^)]*)\)", text):
            linked = {TARGET_FOLDERS[name] for name in re.findall(r"\bhydrant_\w+", match[1] or match[2]) if name in TARGET_FOLDERS}
            for other in sorted(linked - allowed):
                yield path, line, f"{folder} may not link {other}"


UNITS_MAX = 20
FULL_FOLDERS = {}  # folder: reason


@rule
def folder_size(tree):
    """A folder of more than 20 units (a header and its source are one) has rooms that have no names yet."""
    units = {}
    for path, _ in tree.cpp(*LIBRARIES):
        units.setdefault(folder_of(path), set()).add(path.rpartition(".")[0])
    for folder, names in units.items():
        if len(names) > UNITS_MAX and folder not in FULL_FOLDERS:
            yield folder, 1, f"{len(names)} units; at most {UNITS_MAX}"


@rule
def sources_are_built(tree):
    """A source file that no CMakeLists.txt above it names is dead; one of tests/ may be named by any of tests/."""
    for path, _ in tree.cpp():
        if path.endswith((".h", ".cuh")):
            continue
        parts = path.split("/")
        lists = ["/".join(parts[:depth] + ["CMakeLists.txt"]) for depth in range(len(parts))]
        if parts[0] == "tests":
            lists = [name for name in tree.files if name.startswith("tests/") and name.endswith("CMakeLists.txt")]
        named = rf"\b{re.escape(parts[-1])}|\b{re.escape(parts[-1].rsplit('.', 1)[0])}\b"
        if not any(re.search(named, tree.files.get(name, "")) for name in lists):
            yield path, 1, "no CMakeLists.txt names this file"


# --- banned --------------------------------------------------------------------------------------------------------

# Pattern over code, folders it applies to (None: everywhere), paths where it is allowed, and why it is banned.
BANNED = [
    (r"(\.|->)(template )?(get|get_to|get_ptr|get_ref|value)<", LIBRARIES,
     ("api/wire/json_body.h", "api/wire/json_body.cc", "model/files/json_document.h",
      "model/files/json_document.cc", "model/jinja/library/from_json.cc"),  # by the type that the value has
     "JSON is read through the checked reader: get<int>() turns -1, 1e30 and true into numbers"),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\b|(?<![\w.>])sleep\s*\(", ("tests",),
     ("tests/kernels/cpu/runtime/thread_pool_test.cc",  # sleeping and waking up is what it tests
      "tests/system/durable/fault_shim.cc"),  # no test: a call of it takes its time, as a slow disk's does
     "a test waits for an event, never for a time"),
    (r"\bstd::rand\b|(?<![\w:.>])s?rand\s*\(|\brandom_shuffle\b", None, (), "std::rand is neither seeded nor portable"),
    (r"\bNDEBUG\b", None, (), "assertions are part of the program"),
    (r"\b(std::)?(printf|fprintf|puts|fputs|putchar)\s*\(|\bstd::(cout|cerr|clog)\b",
     LIBRARIES, ("server/main.cc", "loadgen/main.cc"), "libraries log through the server, or not at all"),
    (r"\b(async_)?connect\s*\(|\bresolver\b|\bgetaddrinfo\b|\bgethostbyname\b|\bsystem\s*\(|\bpopen\s*\(|\bexec[vl]\w*\s*\(",
     tuple(folder for folder in LIBRARIES if folder != "loadgen"),
     ("server/http/http_listener.cc",  # the address to listen at, and whether somebody does already
      # `hydrantd sessions` goes where its operator says; the layers keep what serves from including it.
      "server/sessions/tools/http_client.cc"),
     "a server goes nowhere, whatever a request or a model names"),
    (r"\busing\s+namespace\b", None, (), "names are spelled out"),
    (r"\bstd::regex\b", None, (), "std::regex recurses over its input"),
    (r"\b(gets|strcpy|strcat|sprintf|alloca|atoi|atol|atof)\s*\(", LIBRARIES, (), "there is a checked way"),
]  # fmt: skip


@rule
def banned_calls(tree):
    """Calls that have a better way here; each entry says which."""
    for path, text in tree.cpp():
        code = split_cpp(text)[0]
        for pattern, folders, allowed, reason in BANNED:
            if path in allowed or (folders and path.split("/")[0] not in folders):
                continue
            for line, match in matches(pattern, code):
                yield path, line, f"`{match[0].strip()}` is banned: {reason}"


@rule
def assertions_stay_on(tree):
    """No build file defines NDEBUG, or asks for CMake's flags that do."""
    for path, text in tree.files.items():
        if path.endswith(("CMakeLists.txt", ".cmake", "CMakePresets.json")):
            for line, match in matches(r"^[^#\n]*(-D\s*NDEBUG|\bNDEBUG\b|RelWithDebInfo|MinSizeRel)", text):
                yield path, line, f"{match[1]} switches assertions off"


# --- the shape of the repository --------------------------------------------------------------------------------------

# Sources without a test file of their own, and where they are tested instead.
UNTESTED = {
    "kernels/cpu/attention/attention.cc": "tests/kernels/attention_test.cc, on every device",
    "kernels/cpu/attention/attention_kernels.cc": "instantiates what tests/kernels/attention_test.cc tests, per instruction set",
    "kernels/cpu/attention/attention_scratch.cc": "holds the memory of what tests/kernels/attention_test.cc tests",
    "kernels/cpu/attention/rope_table.cc": "tests/kernels/cpu/attention/attention_parts_test.cc",
    "kernels/cpu/cpu_device_adapters.cc": "tests/kernels/adapter_weight_test.cc calls it through the device",
    "kernels/cpu/linear/adapter_kernels.cc": "tests/kernels/adapter_weight_test.cc calls it through the device",
    "kernels/cpu/linear/cpu_adapter_weight.cc": "tests/kernels/adapter_weight_test.cc makes it by the device",
    "kernels/cuda/linear/cuda_adapter_weight.cc": "tests/kernels/adapter_weight_test.cc makes it by the device",
    "model/checkpoint/adapter_targets.cc": "tests/model/checkpoint/adapter_test.cc takes them from a checkpoint",
    "kernels/cpu/cpu_device_attention.cc": "tests/kernels/attention_test.cc and shrink_test.cc call it through the device",
    "kernels/cpu/kernel_table.cc": "tests/kernels/cpu/runtime/cpu_features_test.cc asks for every instruction set",
    "kernels/cpu/eviction/shrink.cc": "tests/kernels/shrink_test.cc, on every device",
    "kernels/cpu/eviction/shrink_loss.cc": "tests/kernels/shrink_loss_test.cc, on every device",
    "kernels/cpu/eviction/shrink_scratch.cc": "holds the memory of what tests/kernels/shrink_test.cc tests",
    "kernels/cpu/linear/expert_scratch.cc": "holds the memory of what tests/kernels/cpu/cpu_device_experts_test.cc tests",
    "kernels/cpu/linear/linear_kernels.cc": "instantiates what tests/kernels/cpu/linear/cpu_linear_test.cc tests, per instruction set",
    "kernels/cpu/runtime/cpu_buffer.cc": "tests/kernels/cpu/cpu_device_test.cc allocates through the device",
    "kernels/cpu/sampling/sampling.cc": "tests/kernels/sampling_test.cc, on every device",
    "kernels/cpu/sampling/sampling_kernels.cc": "instantiates what tests/kernels/sampling_test.cc tests, per instruction set",
    "kernels/cpu/sampling/sampling_scratch.cc": "holds the memory of what tests/kernels/sampling_test.cc tests",
    "kernels/cuda/attention/cuda_rope_table.cc": "tests/kernels/rope_and_write_kv_test.cc compares rotated keys with the oracle",
    "kernels/cuda/cuda_device_cache.cc": "tests/kernels/attention_test.cc and the others of every device call it",
    "kernels/cuda/linear/cuda_experts.cc": "tests/kernels/cuda/cuda_device_test.cc adds up experts through it",
    "kernels/cuda/linear/cuda_linear.cc": "tests/kernels/cuda/cuda_device_test.cc multiplies with it",
    "kernels/cuda/runtime/cuda_error.cc": "tests/kernels/cuda/cuda_device_test.cc makes calls fail",
    "kernels/cuda/runtime/memory.cc": "tests/kernels/cuda/step_table_test.cc sends through it",
    "loadgen/main.cc": "tests/loadgen/check_server.py starts the program",
    "model/tokenizer/pcre2_code.cc": "tests/model/tokenizer/split_regex_test.cc and split_effort_test.cc compile through it",
    "server/http/asio.cc": "nothing of ours: it compiles a library's sources once",
    "server/live_view/ui_assets.cc": "tests/server/live_view/ui_routes_test.cc asks for every one of them",
    "server/metrics/sampled_series.cc": "tests/server/metrics/metrics_test.cc scrapes every row",
    "server/main.cc": "tests/conformance starts the program",
}
# What tests/model/jinja/golden_test.cc compares with Python's jinja2 as a whole.
TESTED_AS_A_WHOLE = ("model/jinja/",)
# Tests of more than one source file, and what they hold together.
WIDER_TESTS = {
    "tests/api/request_mutation_test.cc": "every reader of a request, on damaged and hostile bodies",
    "tests/block_manager/sharing_test.cc": "pool, index and score pool behind one manager",
    "tests/server/engine/engine_replay_test.cc": "texts that the engine computes once more, and when",
    "tests/kernels/attention_test.cc": "attention of every device",
    "tests/kernels/rope_and_write_kv_test.cc": "rotation and writes of every device",
    "tests/kernels/cpu/attention/attention_parts_test.cc": "what the CPU's attention is made of",
    "tests/kernels/h2o_test.cc": "attention, scores, victims and cuts over whole generations",
    "tests/kernels/shrink_loss_test.cc": "what cuts would cost, on every device",
    "tests/kernels/shrink_test.cc": "cuts and victims of every device",
    "tests/scheduler/parking_history_test.cc": "what a turn leaves while it goes on: planned, held, copied and restored",
    "tests/server/sessions/journal/session_log_damage_test.cc": "segments, checkpoints and chains, damaged",
    "tests/model/jinja/golden_test.cc": "all that templates can say, against Python's jinja2",
}


@rule
def tests_mirror_the_tree(tree):
    """The test of a/b.cc is tests/a/b_test.cc, and nothing else lies in tests/a."""
    for path, _ in tree.cpp(*LIBRARIES):
        stem, _, extension = path.rpartition(".")
        tested = f"tests/{stem}_test.cc" in tree.files or path in UNTESTED or path.startswith(TESTED_AS_A_WHOLE)
        if extension == "cc" and not tested:
            yield path, 1, f"has no tests/{stem}_test.cc"
    for path, _ in tree.cpp(*("tests/" + folder for folder in LIBRARIES)):
        tested = path[len("tests/") :].rpartition("_test.")[0]
        if tested and path not in WIDER_TESTS and not any(f"{tested}.{extension}" in tree.files for extension in ("h", "cc", "cu")):
            yield path, 1, f"tests {tested}, which does not exist"
    for path in UNTESTED:
        if path in tree.files and f"tests/{path.rpartition('.')[0]}_test.cc" in tree.files:
            yield path, 1, "has a test now: take it off the list of those that have none"


FILE_LINES_MAX = 600
LONG_FILES = {}  # path: reason


@rule
def file_length(tree):
    """A file over 600 lines has more than one idea in it."""
    for path, text in tree.files.items():
        lines = text.count("\n")
        if lines > FILE_LINES_MAX and path not in LONG_FILES and not path.endswith((".json", ".svg")):
            yield path, lines, f"{lines} lines; at most {FILE_LINES_MAX}"


FUNCTION_LINES_MAX = {"kernels": 120, "tests": 120}
FUNCTION_LINES_MAX_ELSEWHERE = 70
LONG_FUNCTIONS = {}  # "path: first line": reason


@rule
def function_length(tree):
    """A function over 70 lines (kernels and tests: 120) does more than one thing."""
    for path, text in tree.cpp():
        limit = FUNCTION_LINES_MAX.get(path.split("/")[0], FUNCTION_LINES_MAX_ELSEWHERE)
        lines = text.split("\n")
        head = begin = None  # where a definition at column 0 starts, and where its body does
        for line, content in enumerate(split_cpp(text)[0].split("\n"), 1):
            if content.startswith("}"):
                if begin and line - begin - 1 > limit and f"{path}: {lines[head - 1].strip()}" not in LONG_FUNCTIONS:
                    yield path, head, f"a function of {line - begin - 1} lines; at most {limit}"
                head = begin = None
                continue
            if begin:
                continue
            if re.match(r"[^\s#]", content):
                scope = re.match(r"(inline )?(namespace|class|struct|enum|union|extern)\b|.*=\s*\{\s*$", content)
                head = None if scope or content.startswith("template") else line
            if head and content.rstrip().endswith("{") and "(" in "".join(lines[head - 1 : line]):
                begin = line
            elif content.rstrip().endswith(";"):
                head = None


@rule
def header_guards(tree):
    """Guards are named by path."""
    for path, text in tree.cpp():
        if path.endswith((".h", ".cuh")):
            guard = "HYDRANT_" + re.sub(r"[/.]", "_", path).upper() + "_"
            if f"#ifndef {guard}\n#define {guard}\n" not in text:
                yield path, 1, f"the guard is not {guard}"


# --- text ------------------------------------------------------------------------------------------------------------


@rule
def whitespace(tree):
    """No tabs, no trailing blanks, one newline at the end."""
    for path, text in tree.files.items():
        if path.endswith((".json", ".svg")):
            continue
        for line, match in matches(r"[ \t\r]+$|\t", text):
            yield path, line, "tab" if "\t" in match[0] else "trailing blank"
        if text and not text.endswith("\n"):
            yield path, text.count("\n") + 1, "no newline at the end"
        elif text.endswith("\n\n"):
            yield path, text.count("\n"), "blank line at the end"


NAMED_HOSTS = (
    r"pypi\.org|pythonhosted\.org|huggingface\.co\b|docker\.io|quay\.io|ghcr\.io|deb\.debian\.org|crates\.io|npmjs|"
    r"proxy\.golang\.org|registry-1\b"
)


@rule
def no_private_places(tree):
    """No path of one machine, no registry's host name: where things come from is the machine's own configuration."""
    for path, text in tree.files.items():
        if path.startswith("tests/tidy/"):
            continue
        for line, match in matches(r"(?<![\w.}])/(home|root|work|tmp|Users|mnt)/[\w.]+|" + NAMED_HOSTS, text):
            yield path, line, f"names {match[0]}"


@rule
def documents_exist(tree):
    """A document that a file refers to is in the repository."""
    here = {path.rsplit("/", 1)[-1] for path in tree.files if path.endswith(".md")}
    for path, text in tree.files.items():
        if path.startswith("tests/tidy/"):
            continue
        for line, match in matches(r"\b[\w-]+\.md\b", text):
            if match[0] not in here:
                yield path, line, f"refers to {match[0]}, which does not exist here"


# --- documents -------------------------------------------------------------------------------------------------------


def prose(text):
    """(line, content) of a Markdown text outside code blocks and tables."""
    code = False
    for line, content in enumerate(text.split("\n"), 1):
        if content.lstrip().startswith("```"):
            code = not code
        elif not code and not content.startswith("|"):
            yield line, content


DESIGN_LINES_MAX, DESIGN_COLUMNS_MAX = 120, 100


@rule
def design_is_a_page(tree):
    """DESIGN.md is what a newcomer holds in the head: 120 lines of 100 columns. The rest has pages in docs/design."""
    lines = tree.files.get("DESIGN.md", "").split("\n")
    if len(lines) - 1 > DESIGN_LINES_MAX:
        yield "DESIGN.md", len(lines) - 1, f"{len(lines) - 1} lines; at most {DESIGN_LINES_MAX}"
    for line, content in enumerate(lines, 1):
        if len(content) > DESIGN_COLUMNS_MAX:
            yield "DESIGN.md", line, f"{len(content)} columns; at most {DESIGN_COLUMNS_MAX}"
    picture = re.search(r"^## Folders.*?^## ", "\n".join(lines), re.MULTILINE | re.DOTALL)
    for folder in LAYERS if picture else ():
        if not re.search(rf"\b{folder.rpartition('/')[2]}\b", picture[0]):
            yield "DESIGN.md", 1, f"the picture of the folders lacks {folder}"


PROSE_COLUMNS_MAX = 120


@rule
def prose_width(tree):
    """Prose in Markdown has at most 120 columns, outside tables and code; a picture is a line of its own."""
    for path, text in tree.files.items():
        if path.endswith(".md"):
            for line, content in prose(text):
                if len(content) > PROSE_COLUMNS_MAX and not content.startswith("!["):
                    yield path, line, f"{len(content)} columns; at most {PROSE_COLUMNS_MAX}"


@rule
def documented_paths_exist(tree):
    """A path that a document names is in the repository: a file, or a folder of files."""
    folders = {path[: match.start()] for path in tree.files for match in re.finditer("/", path)}
    tops = "|".join(sorted({re.escape(folder) for folder in folders if "/" not in folder}))
    for path, text in tree.files.items():
        if not path.endswith(".md"):
            continue
        for line, match in matches(rf"`((?:{tops})/[\w./{{}},-]+)", text):
            name = match[1].rstrip("/.,")
            choice = re.search(r"\{([^}]*)\}", name)
            for one in choice[1].split(",") if choice else [""]:
                full = name[: choice.start()] + one + name[choice.end() :] if choice else name
                # Of files that are no text (pictures, programs) the tree knows nothing.
                known = full in tree.files or full in folders or "." in full and not full.endswith(TEXT)
                program = f"{full}.cc" in tree.files  # a program is called by the name of its source
                if not known and not program:
                    yield path, line, f"names {full}, which does not exist"


def anchors(text):
    return {re.sub(r"[^\w\s-]", "", match[1].strip().lower()).replace(" ", "-") for _, match in matches(r"^#+ (.*)$", text)}


@rule
def links_lead_somewhere(tree):
    """A link from one document to another, or to a place in it, arrives."""
    for path, text in tree.files.items():
        if not path.endswith(".md"):
            continue
        for line, match in matches(r"\]\(([^)\s:]+)\)", text):
            target, _, place = match[1].partition("#")
            full = posixpath.normpath(posixpath.join(folder_of(path), target)) if target else path
            if full.endswith((".svg", ".webp")):
                continue  # the tree has text alone
            if full not in tree.files:  # nor a folder: what is installed is looked at with a browser
                yield path, line, f"links to {full}, which does not exist"
            elif place and place not in anchors(tree.files.get(full, "")):
                yield path, line, f"links to {full}#{place}, and there is no such heading"


API_PAGES = ("docs/api.md", "docs/compatibility.md", "docs/kv.md", "docs/live_view.md", "docs/messages.md",
             "docs/responses.md")
READ_FIELD = r'(?:\.|->)(?:Bool|Integer|OptionalInteger|Number|String|Strings|TokenIds|Object)\(\s*"(\w+)"'
ROUTE = r'(?:Simple|Route|RouteOfOne)\("(GET|POST|DELETE)",\s*"(/[^"]+)"|\{"(GET|POST|DELETE)",\s*"(/[^"]+)"|(OnBody)\("(/[^"]+)"'


@rule
def api_is_documented(tree):
    """Every field that api/ reads and every endpoint that the server has is on a page for clients."""
    pages = "\n".join(tree.files.get(page, "") for page in API_PAGES)
    for path, text in tree.cpp("api"):
        for line, match in matches(READ_FIELD, text):
            if not re.search(rf"\b{match[1]}\b", pages):
                yield path, line, f"`{match[1]}` is in none of {', '.join(API_PAGES)}"
    for path, text in tree.cpp("server"):
        for line, match in matches(ROUTE, text):
            method = match[1] or match[3] or "POST"
            endpoint = (match[2] or match[4] or match[6]).partition("{")[0].rstrip("/")
            if f"`{method} {endpoint}" not in tree.files.get("docs/api.md", ""):
                yield path, line, f"docs/api.md has no `{method} {endpoint}`"


@rule
def threads_are_documented(tree):
    """The name of every thread, as `top -H` shows it, is on the page about debugging."""
    page = " ".join(tree.files.get("docs/debugging.md", "").split())
    for path, text in tree.cpp(*LIBRARIES):
        for line, match in matches(r'pthread_setname_np\(pthread_self\(\), "([^"]+)"\)', text):
            if f"`{match[1]}`" not in page:
                yield path, line, f"docs/debugging.md does not say what the thread `{match[1]}` does"


# --- words ---------------------------------------------------------------------------------------------------------

# One word per thing (the glossary of DESIGN.md). Words of the operating system keep their meaning.
GLOSSARY = [
    # A web page is a page: the server and the API may speak of those.
    (("block_manager", "scheduler", "kernels", "model"),
     r"(?i)\bpages?\b|\bpage_\w+|\w+_pages?\b|\b[a-z]*Pages?(?=[A-Z]|\b)",
     r"(?i)huge[- _]?pages?|page[- _]?(size|cache|fault|aligned)|HUGEPAGE|memory pages?|(?-i:Page(Size|Fault))", "block"),
    (LIBRARIES, r"(?i)side[- _]?blocks?", r"(?!)", "score block"),
    (LIBRARIES, r"(?i)\b\w*iterations?\w*\b", r"(?i)iteration_tokens|unordered iteration|iterates", "step"),
]  # fmt: skip


@rule
def glossary(tree):
    """One word per thing: a block is never a page, a step never an iteration."""
    for folders, pattern, allowed, word in GLOSSARY:
        for path, text in tree.cpp(*folders):
            lines = text.split("\n")
            for view in split_cpp(text):
                for line, match in matches(pattern, view):
                    if not re.search(allowed, lines[line - 1]):
                        yield path, line, f"`{match[0]}`: the word here is {word}"


@rule
def comments_have_a_subject(tree):
    """A comment that begins with "Of" is half a sentence: it makes the reader look for the noun it speaks of."""
    for path, text in tree.cpp():
        above = -1  # the column in which the comment of the line above begins
        for line, content in enumerate(split_cpp(text)[1].split("\n"), 1):
            begins = content.find("//")
            if begins not in (-1, above) and re.match(r"//+ Of\b", content[begins:]):
                yield path, line, 'begins with "Of": say what it is'
            above = begins


REQUIREMENTS = r"^tests/(.*/)?requirements(/\w+)?\.txt$|^deploy/models/[^/]+\.txt$"
HASHED = r"[\w.-]+==\S+( --hash=sha256:[0-9a-f]{64})+"


@rule
def requirements_have_hashes(tree):
    """pip installs what a list of packages was tested with, and nothing that runs before its hash was compared."""
    for path, text in tree.files.items():
        if not re.match(REQUIREMENTS, path):
            continue
        lines = text.split("\n")
        for option in ("--require-hashes", "--only-binary :all:"):
            if option not in lines:
                yield path, 1, f"lacks the line {option}"
        for line, content in enumerate(lines, 1):
            if content and not content.startswith(("#", "--")) and not re.fullmatch(HASHED, content):
                yield path, line, "no package with its version and hash (tests/support/hash_requirements.py)"
    for path, text in tree.files.items():
        if path.endswith((".py", ".sh", "hydrant")) and not path.startswith("tests/tidy/"):
            for line, match in matches(r"""-m(", ")? ?pip\b[^\n]*(\n[^\n]*){2}""", text):
                if re.search(r"\b(install|download)\b", match[0]) and not re.search(r"--require-hashes|--dry-run|-r \"\$req", match[0]):
                    yield path, line, "pip is given no hashes"


@rule
def ascii_code(tree):
    """Outside comments and strings, code is ASCII."""
    for path, text in tree.cpp():
        for line, match in matches(r"[^\x00-\x7f]", split_cpp(text)[0]):
            yield path, line, f"{ascii(match[0])} outside comments and strings"


@rule
def todo_has_a_condition(tree):
    """A TODO says what it waits for; other such marks do not exist."""
    for path, text in tree.cpp():
        for line, match in matches(r"\b(FIXME|XXX|HACK)\b|\bTODO\b(?!.*\b(when|once|until|if|after)\b)", split_cpp(text)[1]):
            yield path, line, f"{match[0]} without a condition"
