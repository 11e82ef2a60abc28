"""A headless Chromium driven over a pipe by the DevTools protocol: Python's standard library only."""

import base64
import collections
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

START_TIMEOUT_S = 60
CALL_TIMEOUT_S = 60
KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, "Tab": 9, "Enter": 13, "Escape": 27}


def find_chromium():
    """The browser's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One browser with one page. What the page does is recorded: `requests` (URLs) and `problems` (errors on its console,
    exceptions, what the security policy blocked)."""

    def __init__(self, executable):
        self._profile = tempfile.TemporaryDirectory(prefix="hydrant-ui-", ignore_cleanup_errors=True)
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()
        flags = [
            "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
            "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--lang=en-US",
            f"--user-data-dir={self._profile.name}",
        ]  # fmt: skip
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # it has none for root

        def take_pipes():
            # The protocol is spoken on descriptors 3 and 4.
            command, answer = os.dup(to_child), os.dup(from_child)
            os.dup2(command, 3)
            os.dup2(answer, 4)

        self._process = subprocess.Popen(
            [executable, *flags, "about:blank"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=take_pipes,
        )  # fmt: skip
        os.close(to_child)
        os.close(from_child)
        self._pending = b""
        self._number = 0
        self._answers = {}
        self._session = None
        self._open = 0
        self.requests = []
        self.problems = []
        self._events = collections.deque()
        target = self.call("Target.createTarget", url="about:blank", timeout=START_TIMEOUT_S)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        with contextlib.suppress(OSError, AssertionError):
            self._session = None
            self.call("Browser.close", timeout=10)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._profile.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- the protocol ---------------------------------------------------------------------------------------------------

    def call(self, method, timeout=CALL_TIMEOUT_S, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        number, deadline = self._number, time.monotonic() + timeout
        while number not in self._answers:
            assert self._receive(deadline - time.monotonic()), f"{method}: no answer from the browser"
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _receive(self, timeout):
        """Takes in what the browser says within `timeout`; False when that is nothing."""
        if not select.select([self._read], [], [], max(0, timeout))[0]:
            return False
        data = os.read(self._read, 1 << 20)
        assert data, "the browser is gone"
        *messages, self._pending = (self._pending + data).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self._record(message["method"], message["params"])
        return True

    def _record(self, method, params):
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(argument.get("value")) for argument in params["args"]))

    # --- the page -------------------------------------------------------------------------------------------------------

    def go(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def evaluate(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, expression, timeout=30.0):
        """Until the expression is true."""
        deadline = time.monotonic() + timeout
        while not self.evaluate(expression):
            assert time.monotonic() < deadline, f"not within {timeout} s: {expression}; {self.problems}"
            self._receive(0.05)

    def size(self, width, height, scheme="light", scale=1, reduced_motion=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)
        features = [{"name": "prefers-color-scheme", "value": scheme},
                    {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}]  # fmt: skip
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path, whole_page=False, **how):
        how = {"format": "png"} | how
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole_page, **how)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def press(self, key, text=""):
        code = KEYS.get(key, 0)
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        if text or key == "Enter":
            common["text"] = text or "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", **common)
        common.pop("text", None)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def center(self, selector):
        return self.evaluate(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getClientRects()[0];"
            " return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        )

    def point_at(self, selector):
        x, y = self.center(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector):
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'nearest'}})")
        x, y = self.center(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
