#!/usr/bin/env python3
"""The live view beside a server that is slow, forgets, or holds more than one answer shows: a headless Chromium on the page's files and
scripted answers. What a real server shows is in check_ui.py. Exit 77: skipped, with the reason on the last line."""

import threading

import page_case
from scripted_server import kv_answer

REFUSED = 401, {"error": {"message": "No valid key.", "code": "invalid_api_key"}}
GONE = 404, {"error": {"message": "No such session.", "code": "session_not_found"}}
BUSY = 429, {"error": {"message": "Too many.", "code": "rate_limit_exceeded"}}
MARKED = "[...document.querySelectorAll('.map .token')].filter(t => t.dataset.level > 0).length"
FIRST = "document.querySelector('.map .token[data-position]')?.dataset.position"
LAST = "[...document.querySelectorAll('.map .token[data-position]')].at(-1)?.dataset.position"


class Page(page_case.PageCase):
    def chat(self):
        """A turn, up to its map."""
        self.say("Hello.")
        self.browser.wait("document.getElementById('stop').hidden")
        self.browser.wait("document.querySelectorAll('.token[data-position]').length > 0")

    def test_every_request_of_a_chat_names_its_session_in_the_header(self):
        """A balancer reads headers and paths, not bodies (docs/scale-out.md)."""
        self.chat()
        self.browser.click("#renew")
        self.browser.wait("document.querySelectorAll('.token[data-position]').length === 0")
        self.server.wait_for("DELETE")  # the page shows the new chat before it has forgotten the old one
        of_chat = [request for request in self.server.requests if request.path != "/v1/models"]
        self.assertEqual({request.method for request in of_chat}, {"POST", "GET", "DELETE"})
        (session,) = {request.session for request in of_chat if request.session}
        for request in of_chat:
            self.assertEqual(request.headers.get("X-Session-ID"), session, f"{request.method} {request.path}")
        (turn,) = [request.body for request in of_chat if request.method == "POST"]
        self.assertNotIn("session_id", turn, "said once")

    def test_the_text_can_be_gone_back_to_its_beginning(self):
        self.server.known = 10_000
        self.chat()
        places = []
        while not self.hidden("earlier"):
            before = self.browser.evaluate(FIRST)
            self.browser.click("#earlier")
            self.browser.wait(f"{FIRST} !== '{before}'")
            places.append((int(self.browser.evaluate(FIRST)), int(self.browser.evaluate(LAST))))
            self.assertLess(len(places), 4, places)
        self.assertEqual(places, [(1808, 5903), (0, 4095)])
        self.browser.click("#newest")
        self.browser.wait(f"{LAST} === '9999'")
        self.assertTrue(self.hidden("newest"))
        self.assertFalse(self.hidden("earlier"))

    def test_what_a_message_brings_back_is_marked(self):
        held, said = [6] * 40, {"state": "busy", "policy": "auto", "budget": 30, "live": 31}
        held[5] = held[6] = held[7] = 0
        self.server.kv = lambda request: (200, kv_answer(request.session, 40, request.query) | said | {"held": held})
        back = "[...document.querySelectorAll('.map .token[data-kind=back]')].map(t => t.dataset.position).join()"
        dropped = "document.querySelectorAll('.map .token[data-level=\"0\"]').length"
        self.set("recall", "turn")
        self.chat()
        self.browser.wait(f"{dropped} === 3")
        answered = self.server.chat

        def read(request):
            held[5], held[6], said["logical"] = 6, 6, 20  # all of what is read is held
            return answered(request)

        self.server.chat = read  # not before the turn has begun: the page asks between turns, too
        self.say("What was it?")
        self.browser.wait(f"{dropped} === 1")
        self.assertEqual(self.browser.evaluate(back), "")
        held[5], held[6] = 2, 0
        del said["logical"]
        self.browser.wait(f"{back} === '5'")
        self.assertIn("brought back", self.browser.evaluate("document.getElementById('legend').textContent"))
        # Between turns all of it is parked, and of what was written since the last look nobody knows.
        self.server.kv = lambda request: (200, kv_answer(request.session, 50, request.query) | {"policy": "auto", "budget": 30, "logical": 32})
        self.browser.wait("document.getElementById('state').textContent.includes('recall')")
        self.assertEqual(self.browser.evaluate(back), "5", "what the answer kept is shown, not what is parked")
        self.assertEqual(self.browser.evaluate(dropped), 2)
        self.assertEqual(self.browser.evaluate("document.getElementById('kept').textContent"), "31")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.map .token[data-level=\"\"]').length"), 10)
        # Where a chat does not recall, what is held again was computed again.
        self.set("recall", "off")
        self.server.kv = lambda request: (200, kv_answer(request.session, 50, request.query) | {"policy": "auto", "budget": 60})
        self.say("And now?")
        self.browser.wait(f"{dropped} === 0")
        self.assertEqual(self.browser.evaluate(back), "")

    def test_an_answer_that_does_not_end_leaves_the_map_as_it_was(self):
        held, said = [6] * 40, {"state": "busy", "policy": "auto", "budget": 30, "live": 31}
        held[5] = 0
        self.server.kv = lambda request: (200, kv_answer(request.session, 40, request.query) | said | {"held": list(held)})
        dropped = "[...document.querySelectorAll('.map .token[data-level=\"0\"]')].map(t => t.dataset.position).join()"
        self.set("recall", "turn")
        self.chat()
        self.browser.wait(f"{dropped} === '5'")
        go = threading.Event()
        self.addCleanup(go.set)

        def keep_another(request):
            held[5], held[9] = 6, 0
            go.wait()
            return 200, []

        self.server.chat = keep_another
        self.say("Stop here.")
        self.browser.wait(f"{dropped} === '9'")
        said["state"] = "parked"
        self.browser.press("Escape")
        self.browser.wait(f"{dropped} === '5'")

    def test_an_answer_that_was_overtaken_is_dropped(self):
        held_back, go = threading.Event(), threading.Event()
        self.addCleanup(go.set)
        self.chat()

        def kv(request):
            if "layer" not in request.query and "token" not in request.query:
                held_back.set()
                go.wait()
            return 200, kv_answer(request.session, self.server.known, request.query)

        self.server.kv = kv
        self.assertTrue(held_back.wait(30), "the page asks again while a turn is young")
        self.browser.evaluate("document.querySelector('.cell').click()")
        self.browser.wait(f"{MARKED} === 1")
        answers = "performance.getEntriesByType('resource').filter(e => e.name.includes('/kv')).length"
        before = self.browser.evaluate(answers)
        go.set()
        self.browser.wait(f"{answers} > {before}")
        self.assertEqual(self.browser.evaluate(f"new Promise(done => setTimeout(() => done({MARKED}), 50))"), 1, "the pair's map stays")

    def test_a_server_that_comes_back_is_found(self):
        self.chat()
        state = "document.getElementById('state').textContent"
        self.browser.wait(f"{state}.startsWith('parked')")
        self.server.away = True
        self.browser.wait(f"{state}.startsWith('The server does not answer')", 30)
        # It knows of the session what its disk has.
        cold = {"state": "cold", "logical": 0, "live": 0, "blocks": 0, "held": None, "scores": None, "reach": None, "unknown": "cold"}
        self.server.kv = lambda request: (200, kv_answer(request.session, 40, request.query) | cold)
        self.server.away = False
        self.browser.wait(f"{state}.startsWith('cold')", 30)
        self.assertEqual(self.browser.evaluate("document.getElementById('seen').textContent"), "40")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.token[data-position]').length"), 40)
        self.browser.problems.clear()  # the refused connections, which the browser notes

    def test_why_a_session_is_gone_is_said_as_it_is(self):
        state = "document.getElementById('state').textContent"
        stopped, expired = "gone: a first turn that is stopped leaves no session", "gone: your next message has the chat read anew"
        answered, known, go = self.server.chat, self.server.kv, threading.Event()
        self.addCleanup(go.set)

        def stop():
            self.server.chat = lambda request: go.wait() and (200, [])
            self.say("Stop here.")
            self.browser.wait("!document.getElementById('stop').hidden")
            self.browser.wait("document.querySelectorAll('.token[data-position]').length > 0")
            self.server.kv = lambda request: GONE
            self.browser.press("Escape")
            self.browser.wait(f"{state} === '{stopped}'")
            self.server.chat = answered
            self.set("say", "")

        stop()
        self.server.kv = known
        self.chat()
        self.browser.wait(f"{state}.startsWith('parked')")
        self.server.kv = lambda request: GONE
        self.browser.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # as if somebody looked at the page again
        self.browser.wait(f"{state} === '{expired}'")
        stop()
        # What never was is not gone.
        self.browser.click("#renew")
        self.server.chat = lambda request: BUSY
        self.say("First.")
        self.browser.wait("document.getElementById('chat-error').textContent === 'Too many.'")
        session = [request for request in self.server.requests if request.method == "POST"][-1].headers["X-Session-ID"]
        looks = lambda: sum(request.session == session for request in list(self.server.requests))  # noqa: E731
        before = looks()
        page_case.wait_for("the page looks", lambda: looks() >= before + 3)
        self.assertEqual(self.browser.evaluate(state), "")

    def test_a_new_chat_offers_no_pair_of_the_old_one(self):
        self.chat()
        self.browser.evaluate("document.querySelector('.cell').click()")
        self.browser.wait("!document.getElementById('all-heads').hidden")
        self.browser.click("#renew")
        self.browser.wait("document.querySelectorAll('.cell').length === 0")
        self.assertTrue(self.hidden("all-heads"))

    def test_a_turn_that_waits_for_a_key_can_be_stopped(self):
        answered = self.server.chat
        self.server.chat = lambda request: answered(request) if request.headers.get("Authorization") == "Bearer k" else REFUSED
        self.say("Hello.")
        self.browser.wait("!document.getElementById('key-form').hidden")
        self.browser.click("#stop")
        self.browser.wait("document.getElementById('stop').hidden")
        self.browser.wait("document.querySelectorAll('.message').length === 0")  # it is taken back
        self.assertEqual(self.browser.evaluate("document.getElementById('say').value"), "Hello.", "what was said can be sent again")

    def test_a_turn_that_is_refused_is_no_part_of_the_chat(self):
        answered, bodies = self.server.chat, []
        self.server.chat = lambda request: BUSY
        self.say("First.")
        self.browser.wait("document.getElementById('chat-error').textContent === 'Too many.'")
        self.browser.wait("document.getElementById('welcome') !== null")
        self.assertEqual(self.browser.evaluate("document.getElementById('say').value"), "First.")

        def chat(request):
            bodies.append(request.body)
            return answered(request)

        self.server.chat = chat
        self.browser.click("#send")
        self.browser.wait("document.querySelector('.message.assistant .said')?.textContent === 'An answer.'")
        self.assertEqual([message["content"] for message in bodies[0]["messages"]], ["First."])

    def test_a_request_that_was_on_its_way_when_the_key_was_given_takes_it(self):
        answered, given = self.server.chat, threading.Event()
        self.addCleanup(given.set)

        def chat(request):
            if request.headers.get("Authorization") == "Bearer k":
                return answered(request)
            given.wait()
            return REFUSED

        self.server.chat = chat
        self.server.kv = lambda request: REFUSED if "Authorization" not in request.headers else (200, kv_answer(request.session, 40, {}))
        self.say("Hello.")
        self.browser.wait("!document.getElementById('key-form').hidden")  # the map is refused first
        self.browser.evaluate("document.getElementById('key').focus()")
        self.browser.type("k")
        self.browser.press("Enter")
        self.browser.wait("document.getElementById('key-form').hidden")
        given.set()
        self.browser.wait("document.querySelector('.message.assistant .said')?.textContent === 'An answer.'")

    def test_a_key_that_no_header_can_have_is_not_taken(self):
        answered = self.server.models
        self.server.models = lambda request: answered(request) if request.headers.get("Authorization") == "Bearer right" else REFUSED
        form = "document.getElementById('key-form').hidden"
        # Pasted with an invisible character; and as a page may still have it.
        for at_first in ("sessionStorage.clear()", "sessionStorage.setItem('hydrant.key', 'right\\u200b')"):
            self.browser.evaluate(at_first)
            self.browser.go(self.server.base + "/ui")
            self.browser.wait(f"!{form}")
            self.browser.evaluate("document.getElementById('key').focus()")
            self.browser.type("right\u200b")
            self.browser.press("Enter")
            self.browser.wait("document.getElementById('key-error').textContent === 'A key has only plain characters.'")
            self.assertFalse(self.hidden("key-form"))
            self.set("key", "right")
            self.browser.press("Enter")
            self.browser.wait(form)
            self.browser.wait("document.getElementById('model').textContent === 'a-model'")

    def test_looking_back_a_little_is_not_undone(self):
        self.server.known = 600
        self.chat()
        host = "document.getElementById('map')"
        self.browser.evaluate(f"Object.assign({host}.style, {{flex: 'none', blockSize: {host}.scrollHeight - 40 + 'px'}})")
        self.browser.evaluate(f"{host}.scrollTop = 0")
        asked = len(self.server.asked())
        self.browser.wait("performance.getEntriesByType('resource').filter(e => e.name.includes('/kv')).length > " + str(asked))
        self.assertEqual(self.browser.evaluate(f"new Promise(done => setTimeout(() => done({host}.scrollTop), 50))"), 0)
        self.assertGreater(self.browser.evaluate(f"{host}.scrollHeight - {host}.clientHeight"), 0)


if __name__ == "__main__":
    page_case.main()
