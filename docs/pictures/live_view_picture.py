#!/usr/bin/env python3
"""Makes docs/pictures/live_view.webp and docs/pictures/live_view_dark.webp: a chat at a budget of 64 while it is being answered. Needs the default
model, a Release build and Chromium; the answer is a sampled one, so every run tells another story."""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "ui")]

from browser import Browser, find_chromium
from server_process import ServerProcess

BUDGET = 64
TOKENS = 235  # of the session, when the picture is taken
WORD = "lighthouse"  # of the question: what is pointed at
POINTED = f"[...document.querySelectorAll('.map .token')].find(t => t.textContent.trim() === '{WORD}')"


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    with ServerProcess(flags=("--num-gpu-blocks-override", 512)) as server, Browser(find_chromium()) as browser:
        browser.size(1280, 900)
        browser.go(server.base + "/ui")
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        browser.evaluate(
            f"(() => {{ const s = document.getElementById('budget'); s.value = {BUDGET};"
            " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        browser.click(".suggestion")
        browser.wait(f"document.querySelectorAll('.map .token').length >= {TOKENS}", 120)
        browser.evaluate("document.getElementById('map').scrollTop = 0")
        browser.evaluate(f"{POINTED}.setAttribute('id', 'pointed')")
        browser.point_at("#pointed")
        browser.wait("document.getElementById('grid-title').textContent.startsWith('Who still holds')")
        browser.screenshot(HERE / "live_view.webp", format="webp", quality=88)
        browser.wait("document.getElementById('stop').hidden", 120)
        browser.evaluate("document.querySelector('input[value=score]').click()")
        browser.size(400, 860, "dark", scale=1.5, reduced_motion=True)
        browser.evaluate("document.getElementById('map').scrollTop = 0")
        browser.evaluate("document.querySelector('.map-head').scrollIntoView()")
        browser.evaluate("document.getElementById('pointed').focus({preventScroll: true})")
        browser.wait("document.getElementById('grid-title').textContent.startsWith('Who still holds')")
        browser.screenshot(HERE / "live_view_dark.webp", format="webp", quality=85)


if __name__ == "__main__":
    main()
