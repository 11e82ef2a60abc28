"""What the tests of the page beside a scripted server share: one browser per class, a server and a fresh page per test. Exit 77:
skipped, with the reason on the last line."""

import json
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from browser import Browser, find_chromium
from scripted_server import ScriptedServer
from server_process import wait_for  # noqa: F401: for its tests

SKIPPED = 77
BUSY = {"error": {"message": "The queue is full.", "code": "queue_full"}}
PROGRESS = "document.querySelector('.message:last-child .progress:not([hidden])')"
ANSWERS = "[...document.querySelectorAll('.message.assistant .said')].map(e => e.textContent)"
FIELD = "document.getElementById('say').value"
DONE = "document.getElementById('stop').hidden"


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


def piece(text):
    return {"choices": [{"delta": {"content": text}, "finish_reason": None}], "usage": None}


def ended(reason):
    return {"choices": [{"delta": {}, "finish_reason": reason}], "usage": None}


class ConversationCase(PageCase):
    """With turns that are answered with `answer`, or refused."""

    def setUp(self):
        super().setUp()
        self.bodies = []  # of the turns that came
        self.answer = ["An answer."]
        self.refuse = []  # what the next turns are refused with

        def chat(request):
            self.bodies.append(request.body)
            return self.refuse.pop(0) if self.refuse else (200, [piece(text) for text in self.answer] + [ended("stop")])

        self.server.chat = chat

    def posts(self):
        return [request for request in self.server.requests if request.method == "POST"]

    def wait(self, expression, timeout=30):
        self.browser.wait(expression, timeout)

    def chat(self, text="Hello."):
        self.say(text)
        self.wait(f"{DONE} && document.getElementById('say').value === ''")

    def click(self, text):
        """The last button of this name in the log."""
        self.browser.evaluate(f"[...document.querySelectorAll('.log button')].filter(b => b.textContent === {json.dumps(text)}).at(-1).click()")

    def held(self, text=()):
        """Answers that write `text` and then wait for the event that is returned."""
        go = threading.Event()
        self.addCleanup(go.set)

        def events():
            yield from map(piece, text)
            go.wait()
            yield piece("The end.")

        self.server.chat = lambda request: (200, events())
        return go


def main():
    if not find_chromium():
        print("page: skipped: there is no chromium (Debian package chromium)")
        sys.exit(SKIPPED)
    unittest.main(module="__main__", verbosity=2)
