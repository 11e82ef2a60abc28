#!/usr/bin/env python3
"""The live view as a visitor meets it: a headless Chromium on the page of a real server. `check_ui.py [--pictures DIR]` keeps
the screenshots. Exit 77: skipped, with the reason on the last line."""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from browser import Browser, find_chromium
from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ROOT, ServerProcess

SKIPPED = 77
KEY = "zqx-secret-key"
# Few tokens, so that some are dropped soon; `auto` wants 48.
POLICY, BUDGET = "h2o-plus", 32
FLAGS = ("--num-gpu-blocks-override", 512, "--max-model-len", 4096)
BINARY = pathlib.Path(os.environ.get("HYDRANTD", DEFAULT_BINARY))
DROPPED = "document.querySelectorAll('.map .token[data-level=\"0\"]').length"
MESSAGE = "Tell me a story about a lighthouse keeper who counts the waves."


def require(condition, what, details=""):
    assert condition, f"{what}: {details}"


def text(browser, selector):
    return browser.evaluate(f"document.querySelector({json.dumps(selector)})?.textContent")


def count(browser, selector):
    return browser.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")


def choose(browser, identity, value):
    browser.evaluate(
        f"(() => {{ const s = document.getElementById('{identity}'); s.value = '{value}';"
        " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


def session_of(browser):
    """The id of the chat's session, as the page's own requests name it."""
    return [url for url in browser.requests if "/v1/sessions/" in url][-1].split("/v1/sessions/")[1].split("/")[0]


def came_early(problem):
    """The map is asked for while a chat's first turn is on its way: there may be no session yet."""
    return "status of 404" in problem and problem.endswith("/kv?")


def settled(browser, server):
    """Waits until the turn is over and the page shows what the server says; returns that. What the page says of the state may be of the
    time before the turn, where that is just over."""
    parked = "document.getElementById('state').textContent.startsWith('parked')"
    browser.wait(f"document.getElementById('stop').hidden && {parked}", 120)
    deadline = time.monotonic() + 30
    while (shown := server.json(f"/v1/sessions/{session_of(browser)}/kv"))["state"] != "parked":
        require(time.monotonic() < deadline, "the session is parked", shown["state"])
        time.sleep(0.02)
    browser.wait(parked)
    return shown


class KeyedServer(ServerProcess):
    def json(self, path):
        import urllib.request

        request = urllib.request.Request(self.base + path, headers={"Authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)


# --- the checks, in the order of a visit --------------------------------------------------------------------------------


def enter(browser, server):
    browser.go(server.base + "/ui")
    browser.wait("!document.getElementById('key-form').hidden")
    browser.type(KEY)
    browser.press("Enter")
    browser.wait("document.documentElement.dataset.ready === 'yes'")
    browser.problems.clear()  # the refusals that the browser noted


def check_the_key_is_asked_for(browser, server):
    browser.go(server.base + "/ui")
    browser.wait("!document.getElementById('key-form').hidden")
    require(browser.evaluate("document.activeElement.id") == "key", "the field for the key has the focus")
    # The browser notes the 401s itself; nothing else may be wrong.
    browser.type("wrong")
    browser.press("Enter")
    browser.wait("document.getElementById('key-error').textContent !== ''")
    browser.type(KEY)
    browser.press("Enter")
    browser.wait("document.documentElement.dataset.ready === 'yes'")
    others = [problem for problem in browser.problems if "401" not in problem]
    require(not others, "nothing on the console but the refused keys", others)
    browser.problems.clear()
    require("SmolLM2" in text(browser, "#model"), "the model is named")


def check_an_empty_grid_has_nothing_to_say(browser):
    browser.evaluate("document.getElementById('grid').scrollIntoView({block: 'nearest'})")
    browser.point_at("#grid")
    browser.point_at("#grid-title")
    require(text(browser, "#grid-note") == "" and not browser.problems, "pointing at no heads is no error", browser.problems)


def check_a_chat_streams_and_the_map_follows(browser, server):
    choose(browser, "policy", POLICY)
    choose(browser, "budget", BUDGET)
    choose(browser, "length", 60)
    require(f"keeps {BUDGET} tokens" in text(browser, "#hint"), "the settings are put in words", text(browser, "#hint"))
    browser.evaluate("document.getElementById('say').focus()")
    browser.type(MESSAGE)
    browser.press("Enter")
    browser.wait("document.querySelectorAll('.token').length > 0")
    require(text(browser, ".message.user .said") == MESSAGE, "what was said stands in the log")
    browser.wait("document.querySelector('.message.assistant .said').textContent.length > 10")
    browser.wait(f"{DROPPED} > 0")
    shown = settled(browser, server)
    require(shown["live"] == BUDGET, "the session holds its budget", shown["live"])
    browser.problems[:] = [problem for problem in browser.problems if not came_early(problem)]
    require(text(browser, "#kept") == str(BUDGET) and text(browser, "#seen") == str(shown["known"]), "so say the figures")
    require("parked" in text(browser, "#blocks-unit") and "B parked" in text(browser, "#blocks-unit"), "in bytes", text(browser, "#blocks-unit"))
    # An answer that is sampled may end before its length.
    note = text(browser, ".message:last-child .note")
    took = re.search(r"(\d+) tokens read; (\d+) written in ", note)
    require(took is not None and 0 < int(took[2]) <= 60, "what it took", note)


def check_every_token_is_coloured_by_what_the_server_says(browser, server):
    shown = settled(browser, server)
    pairs = shown["layers"] * shown["kv_heads"]
    browser.wait(f"document.querySelectorAll('.map .token').length === {shown['known']}")
    tokens = browser.evaluate("[...document.querySelectorAll('.map .token')].map(t => ({...t.dataset}))")
    for position, token in enumerate(tokens[: shown["logical"]]):
        held = shown["held"][position]
        level = 0 if held == 0 else max(1, -(-held * 10 // pairs))
        require(token["level"] == str(level), f"level of token {position}, held by {held}", token)
        recent = position >= shown["logical"] - shown["recent"]
        require((token.get("kind") == "recent") == recent, f"token {position} is marked as recent or not", token)
    require(sum(token["level"] == "0" for token in tokens) == shown["held"][: shown["logical"]].count(0), "dropped tokens")
    # Colours that can be told apart, and text that can be read: 4.5 to 1, measured on what is painted.
    for ramp in ("held", "score"):
        browser.evaluate(f"document.querySelector('input[value={ramp}]').click()")
        for scheme in ("light", "dark"):
            browser.size(1280, 800, scheme, reduced_motion=True)
            contrasts = browser.evaluate(CONTRASTS)
            require(min(contrasts) >= 4.4, f"text on the {ramp} ramp, {scheme}", contrasts)
    browser.size(1280, 800)
    browser.evaluate("document.querySelector('input[value=held]').click()")


# The contrast of text and ground on every step of the legend's ramp, and of a dropped token, by WCAG 2.
CONTRASTS = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const light = (colour, under) => {
    canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = getComputedStyle(document.querySelector('.memory')).backgroundColor;
  return [...document.querySelectorAll('#legend [data-level]')].map(e => {
    const style = getComputedStyle(e);
    const [a, b] = [light(style.color, paper), light(style.backgroundColor, paper)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
})()"""


def check_pointing_and_stepping_through_tokens(browser, server):
    shown = settled(browser, server)
    pairs = shown["layers"] * shown["kv_heads"]
    middle = next(i for i, held in enumerate(shown["held"]) if 0 < held < pairs)
    browser.evaluate(f"document.querySelector('.map [data-position=\"{middle}\"]').scrollIntoView({{block: 'center'}})")
    browser.point_at(f'.map [data-position="{middle}"]')
    browser.wait(f"document.getElementById('card').textContent.includes('token {middle} of')")
    require(f"Held by {shown['held'][middle]} of {pairs} heads" in text(browser, "#card"), "the card", text(browser, "#card"))
    browser.wait(f"document.getElementById('grid-title').textContent === 'Who still holds token {middle}'")
    token = server.json(f"/v1/sessions/{session_of(browser)}/kv?token={middle}&limit=1")["token"]
    cells = browser.evaluate("[...document.querySelectorAll('.cell')].map(c => [c.dataset.layer, c.dataset.head, c.dataset.level])")
    for layer, head, level in cells:
        held = token["scores"][int(layer)][int(head)] is not None
        require((level != "0") == held, f"layer {layer}, head {head}", (level, held))
    # With the keyboard: one stop for the whole map, arrows inside it.
    require(count(browser, '.map .token[tabindex="0"]') == 1, "one token can be reached with the Tab key")
    browser.evaluate("document.querySelector('.map .token[tabindex=\"0\"]').focus()")
    browser.press("Home")
    require(browser.evaluate("document.activeElement.dataset.position") == "0", "Home goes to the first token")
    browser.press("ArrowRight")
    require(browser.evaluate("document.activeElement.dataset.position") == "1", "the arrow to the next")
    require("Token 1 of" in text(browser, "#spoken"), "it is said", text(browser, "#spoken"))
    require(browser.evaluate("getComputedStyle(document.activeElement).boxShadow") != "none", "the focus is seen")
    browser.press("ArrowDown")
    below = browser.evaluate("document.activeElement.getBoundingClientRect().top")
    browser.press("ArrowUp")
    require(browser.evaluate("document.activeElement.getBoundingClientRect().top") < below, "up and down go by lines")
    browser.press("End")
    require(browser.evaluate("document.activeElement.dataset.position") == str(shown["known"] - 1), "End to the last one")
    browser.evaluate("document.querySelector('input[name=\"mode\"]:checked').dispatchEvent(new Event('change'))")
    require(browser.evaluate("document.activeElement.dataset.position") == str(shown["known"] - 1), "drawn again, it keeps the focus")
    browser.evaluate("document.activeElement.blur()")


def check_a_layer_and_head_alone(browser, server):
    shown = settled(browser, server)
    layer, head = shown["layers"] // 2, shown["kv_heads"] - 1
    browser.evaluate("document.querySelector('.cell[tabindex=\"0\"]').focus()")
    for _ in range(layer):
        browser.press("ArrowRight")
    for _ in range(head):
        browser.press("ArrowDown")
    browser.press("Enter")
    browser.wait(f"document.querySelector('[data-layer=\"{layer}\"][data-head=\"{head}\"]').ariaSelected === 'true'")
    pair = server.json(f"/v1/sessions/{session_of(browser)}/kv?layer={layer}&head={head}")["pair"]
    held = "[...document.querySelectorAll('.map .token')].filter(t => t.dataset.level > 0).map(t => Number(t.dataset.position))"
    browser.wait(f"JSON.stringify({held}) === '{json.dumps(pair['positions'], separators=(',', ':'))}'")
    browser.click("#all-heads")
    browser.wait(f"({held}).length > {len(pair['positions'])}")


def stopped_while_tokens_are_dropped(browser, server):
    """Says something, and stops the answer once tokens are dropped while it streams: what the session knew before. None where the
    answer, which is sampled, was over first. That the button can be met with the mouse is held by page_test.py."""
    before = settled(browser, server)["known"]
    browser.wait(f"document.querySelectorAll('.map .token').length === {before}")
    dropped, answers = browser.evaluate(DROPPED), count(browser, ".message.assistant")
    browser.evaluate("document.getElementById('say').focus()")
    browser.type("And then?")
    browser.press("Enter")
    browser.wait(f"document.querySelectorAll('.message.assistant').length === {answers + 1}")
    streams = f"document.querySelector('.message:last-child .said').textContent.length > 5 && {DROPPED} > {dropped}"
    browser.wait(f"document.getElementById('stop').hidden || {streams}")
    browser.evaluate("document.getElementById('stop').click()")
    browser.wait("document.getElementById('stop').hidden")
    return before if count(browser, ".stopped") else None


def check_a_turn_can_be_stopped_and_the_next_one_goes_on(browser, server):
    choose(browser, "length", 960)
    before = next(filter(None, (stopped_while_tokens_are_dropped(browser, server) for _ in range(3))), None)
    require(before is not None, "an answer goes on until tokens are dropped, and is marked as stopped")
    require(count(browser, ".stopped") == 1, "no other one is")
    browser.wait("document.getElementById('state').textContent.startsWith('parked')")
    require(settled(browser, server)["known"] == before, "the session is as it was")
    answers = count(browser, ".message.assistant")
    choose(browser, "length", 60)
    choose(browser, "policy", "full")
    require(browser.evaluate("document.getElementById('budget').disabled"), "keeping everything needs no budget")
    browser.evaluate("document.getElementById('say').focus()")
    browser.type("Thank you.")
    browser.press("Enter")
    browser.wait(f"document.querySelectorAll('.message.assistant').length === {answers + 1}")
    shown = settled(browser, server)
    require(shown["policy"] == "full" and shown["live"] == shown["logical"], "another policy is in force", shown["policy"])


def check_errors_are_shown_as_the_server_words_them(browser, server):
    browser.evaluate("document.getElementById('length').append(new Option('too much', '900000'))")
    choose(browser, "length", 900000)
    browser.evaluate("document.getElementById('say').focus()")
    browser.type("Hello?")
    browser.press("Enter")
    browser.wait("!document.getElementById('chat-error').hidden")
    require("maximum context length" in text(browser, "#chat-error"), "the error", text(browser, "#chat-error"))
    others = [problem for problem in browser.problems if "status of 400" not in problem]
    require(not others, "nothing on the console but the refused request", others)
    browser.problems.clear()


def check_a_new_chat_begins_empty(browser, server):
    old = session_of(browser)
    browser.click("#renew")
    browser.wait("document.querySelectorAll('.token[data-position]').length === 0")
    require(text(browser, "#seen") == "0" and count(browser, ".message") == 0, "nothing of the old one is left")
    browser.wait(f"fetch('/v1/sessions/{old}', {{headers: {{Authorization: 'Bearer {KEY}'}}}}).then(r => r.status === 404)")
    browser.problems.clear()  # of this very question


def check_a_reload_keeps_the_chat(browser, server):
    """Of the session the server knows more than the page: what each head holds comes back as it was."""
    before = settled(browser, server)
    said = browser.evaluate("[...document.querySelectorAll('.said')].map(e => e.textContent)")
    browser.go(server.base + "/ui")
    browser.wait("document.documentElement.dataset.ready === 'yes'")
    require(browser.evaluate("[...document.querySelectorAll('.said')].map(e => e.textContent)") == said, "the chat is there")
    require(browser.evaluate("document.getElementById('budget').value") == str(BUDGET), "and its settings")
    browser.wait(f"document.querySelectorAll('.map .token').length === {before['known']}")
    require(settled(browser, server) == before, "the session is the same")


def check_the_command_line_is_answered(browser):
    browser.evaluate("document.getElementById('say').focus()")
    browser.type("It's 5 o'clock: \"why\"?")
    browser.click("#show-curl")
    command = text(browser, "#curl-text")
    require(KEY not in command, "the key is not in it", command)
    browser.evaluate("document.getElementById('curl-dialog').close(); document.getElementById('say').value = ''")
    environment = os.environ | {"HYDRANT_API_KEY": KEY}
    ran = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60)
    require(ran.returncode == 0 and ran.stdout.rstrip().endswith("data: [DONE]"), "what is copied works", ran.stdout[-300:] + ran.stderr)


def check_looks(browser, pictures):
    """Nothing sticks out at any width; pictures for whoever wants to see."""
    for width, height in ((1280, 800), (960, 700), (400, 860), (320, 640)):
        for scheme in ("light", "dark"):
            browser.size(width, height, scheme, reduced_motion=True)
            wide = browser.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            require(wide[0] <= wide[1], f"no sideways scrolling at {width}", wide)
            browser.screenshot(pictures / f"{width}-{scheme}.png", whole_page=True)
            require((pictures / f"{width}-{scheme}.png").stat().st_size > 10_000, "there is something to see")
    browser.size(1280, 800)


def check_it_asks_nobody_else(browser, server):
    elsewhere = [url for url in browser.requests if not url.startswith((server.base + "/", "about:", "data:"))]
    require(not elsewhere, "every request goes to the server itself", elsewhere)
    require(not browser.problems, "no error on the console", browser.problems)


def check_a_model_without_a_chat_template_is_given_the_text(browser, server):
    """The page writes the roles down itself, and goes on in the same session."""
    enter(browser, server)
    choose(browser, "length", 60)
    choose(browser, "policy", "full")
    for turn, message in enumerate(("Hello.", "And then?"), start=1):
        browser.evaluate("document.getElementById('say').focus()")
        browser.type(message)
        browser.press("Enter")
        browser.wait(f"document.querySelectorAll('.message.assistant').length === {turn}")
        shown = settled(browser, server)
        require(text(browser, ".message:last-child .said"), "an answer is shown", text(browser, "#chat-error"))
    tried = [url.split("/v1/")[1] for url in browser.requests if url.startswith(server.base) and "completions" in url]
    require(tried == ["chat/completions", "completions", "completions"], "asked for a chat once", tried)
    said = "".join(piece for piece in shown["pieces"] if isinstance(piece, str))
    require(said.startswith("User: Hello.\nAssistant:") and "\nUser: And then?\nAssistant:" in said, "what the model is given", said)
    others = [problem for problem in browser.problems if "status of 400" not in problem and not came_early(problem)]
    require(not others, "nothing on the console but the refused chat", others)


def visit_without_a_template(scratch):
    model = scratch / "untemplated.gguf"
    maker = ROOT / "tests" / "conformance" / "small_model.py"
    subprocess.run([sys.executable, "-B", maker, DEFAULT_MODEL, model, "tokenizer.chat_template"], check=True)
    with KeyedServer(BINARY, model, ("--api-key", KEY, *FLAGS)) as server, Browser(find_chromium()) as browser:
        browser.size(1280, 800)
        check_a_model_without_a_chat_template_is_given_the_text(browser, server)


def check_a_restart_is_survived(scratch):
    """The page finds the server again, and the session with its text."""
    model = scratch / "small.gguf"
    maker = ROOT / "tests" / "conformance" / "small_model.py"
    subprocess.run([sys.executable, "-B", maker, DEFAULT_MODEL, model], check=True)
    flags = ("--api-key", KEY, *FLAGS, "--session-dir", scratch / "sessions")
    first = KeyedServer(BINARY, model, flags)
    try:
        with Browser(find_chromium()) as browser:
            browser.size(1280, 800)
            enter(browser, first)
            choose(browser, "length", 60)
            browser.evaluate("document.getElementById('say').focus()")
            browser.type("Hello.")
            browser.press("Enter")
            browser.wait("document.querySelectorAll('.token').length > 0")
            before = settled(browser, first)
            first.stop()
            browser.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # as if somebody looked at the page again
            browser.wait("document.getElementById('state').textContent.startsWith('The server does not answer')", 60)
            port = first.base.rsplit(":", 1)[1]
            with KeyedServer(BINARY, model, flags, port=port):
                browser.wait("document.getElementById('state').textContent.startsWith('on disk')", 60)
                require(text(browser, "#seen") == str(before["known"]), "the tokens that were said", text(browser, "#seen"))
                require(count(browser, ".map .token") == before["known"], "their text", count(browser, ".map .token"))
                browser.evaluate("document.getElementById('say').focus()")
                browser.type("And then?")
                browser.press("Enter")
                browser.wait("document.getElementById('state').textContent.startsWith('parked')", 120)
                require(text(browser, "#chat-error") == "", "the chat goes on", text(browser, "#chat-error"))
    finally:
        first.stop()


def check_an_answer_has_the_form_that_is_asked_for(browser, server):
    schema = json.dumps({"enum": ["seven bees", "no bees"]})
    choose(browser, "length", 60)
    browser.evaluate(
        f"(() => {{ const e = document.getElementById('schema'); e.value = {json.dumps(schema)};"
        " e.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    browser.evaluate("document.getElementById('say').focus()")
    browser.type("How many bees are there?")
    browser.press("Enter")
    settled(browser, server)
    answer = browser.evaluate("[...document.querySelectorAll('.message.assistant .said')].at(-1).textContent")
    require(answer.strip() in ('"seven bees"', '"no bees"'), "the answer is one of the schema's", answer)
    browser.evaluate("document.getElementById('defaults').click()")


def visit(pictures):
    server = KeyedServer(BINARY, DEFAULT_MODEL, ("--api-key", KEY, *FLAGS))
    try:
        with Browser(find_chromium()) as browser:
            browser.size(1280, 800)
            check_the_key_is_asked_for(browser, server)
            check_an_empty_grid_has_nothing_to_say(browser)
            check_a_chat_streams_and_the_map_follows(browser, server)
            check_every_token_is_coloured_by_what_the_server_says(browser, server)
            check_pointing_and_stepping_through_tokens(browser, server)
            check_a_reload_keeps_the_chat(browser, server)
            if shutil.which("curl"):
                check_the_command_line_is_answered(browser)
            check_looks(browser, pictures)
            check_a_layer_and_head_alone(browser, server)
            check_a_turn_can_be_stopped_and_the_next_one_goes_on(browser, server)
            check_errors_are_shown_as_the_server_words_them(browser, server)
            check_a_new_chat_begins_empty(browser, server)
            check_an_empty_grid_has_nothing_to_say(browser)
            check_an_answer_has_the_form_that_is_asked_for(browser, server)
            check_it_asks_nobody_else(browser, server)
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=pathlib.Path)
    arguments = parser.parse_args()
    for there, reason in (
        (find_chromium(), "there is no chromium (Debian package chromium)"),
        (BINARY.exists(), f"there is no hydrantd at {BINARY}"),
        (DEFAULT_MODEL.exists(), f"there is no model at {DEFAULT_MODEL} (./hydrant up fetches it)"),
    ):
        if not there:
            print(f"ui: skipped: {reason}")
            return SKIPPED
    with tempfile.TemporaryDirectory() as scratch:
        pictures = arguments.pictures or pathlib.Path(scratch)
        pictures.mkdir(parents=True, exist_ok=True)
        visit(pictures)
        visit_without_a_template(pathlib.Path(scratch))
        check_a_restart_is_survived(pathlib.Path(scratch))
    print("ui: everything holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
