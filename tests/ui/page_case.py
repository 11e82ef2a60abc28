"""What the tests of the page beside a scripted server share: one browser per class, a server and a fresh page per test. Exit 77:
skipped, with the reason on the last line."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from browser import Browser, find_chromium
from scripted_server import ScriptedServer
from server_process import wait_for  # noqa: F401: for its tests

SKIPPED = 77


class PageCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(find_chromium())
        cls.addClassCleanup(cls.browser.close)
        cls.browser.size(1280, 800)

    def setUp(self):
        self.server = ScriptedServer()
        self.addCleanup(self.server.stop)
        self.browser.problems.clear()
        self.visit()

    def visit(self):
        self.browser.go(self.server.base + "/ui")
        self.browser.wait("document.documentElement.dataset.ready === 'yes'")

    def say(self, text):
        self.browser.evaluate("document.getElementById('say').focus()")
        self.browser.type(text)
        self.browser.press("Enter")

    def set(self, identity, value):
        self.browser.evaluate(
            f"(() => {{ const e = document.getElementById('{identity}'); e.value = {json.dumps(value)};"
            " e.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )

    def hidden(self, identity):
        return self.browser.evaluate(f"document.getElementById('{identity}').hidden")


def main():
    if not find_chromium():
        print("page: skipped: there is no chromium (Debian package chromium)")
        sys.exit(SKIPPED)
    unittest.main(module="__main__", verbosity=2)
