#!/usr/bin/env python3
"""The chat of the page: waiting and coming back, a reload, answers that end in every way, in a headless Chromium beside scripted
answers. Exit 77: skipped, with the reason on the last line."""

import json
import threading

import page_case
from page_case import ANSWERS, BUSY, DONE, FIELD, PROGRESS, ended, piece
from scripted_server import kv_answer

FOCUSED = "document.activeElement.id"


class Refusals:
    """What requests are refused with until the page was seen to wait: with each of `statuses` once, and then with the last. It is asked
    again in a second, and later in a while, for it asks eight times."""

    def __init__(self, answer, statuses=(503, 429)):
        self._answer, self._statuses = answer, list(statuses)
        self._seen = threading.Event()
        self._left = len(statuses)

    def seen(self):
        self._seen.set()

    def __bool__(self):
        return self._left > 0 or not self._seen.is_set()

    def pop(self, _):
        self._left -= 1
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        return status, self._answer, {"Retry-After": "1" if self._left >= -1 else "10"}


class Conversation(page_case.ConversationCase):
    # --- waiting --------------------------------------------------------------------------------------------------------

    def test_a_turn_says_what_it_waits_for(self):
        go, said = threading.Event(), {"ahead": 3}
        self.addCleanup(go.set)
        self.server.kv = lambda request: (200, kv_answer(request.session, 5200, request.query) | {"state": "busy"} | said)
        self.server.chat = lambda request: (200, go.wait() and [piece("Now.")])
        self.say("Hello.")
        self.wait(f"{PROGRESS}?.textContent === 'Waiting: 3 requests before yours.'")
        said["ahead"] = 0
        self.wait(f"{PROGRESS}?.textContent === 'Waiting: yours is next.'")
        said.update(ahead=None, logical=1300)
        self.wait(f"{PROGRESS}?.textContent === 'Reading 5,200 tokens' && {PROGRESS}.querySelector('progress').value === 0.25")
        go.set()
        self.wait(f"{ANSWERS}[0] === 'Now.'")
        self.assertIsNone(self.browser.evaluate(PROGRESS), "there is something to read instead")

    def test_what_a_model_thinks_is_waited_for_in_peace(self):
        """A line that goes and comes is read out each time."""
        go = threading.Event()
        self.addCleanup(go.set)

        def events():
            yield {"choices": [{"delta": {"reasoning_content": "Hm."}, "finish_reason": None}], "usage": None}
            go.wait()
            yield piece("Now.")

        self.server.chat = lambda request: (200, events())
        self.say("Hello.")
        self.wait(f"{PROGRESS}?.textContent === 'Thinking.'")
        # One that is asked for after the next has been taken in.
        looked = len(self.server.asked())
        page_case.wait_for("the page looks", lambda: len(self.server.asked()) >= looked + 3)
        self.assertEqual(self.browser.evaluate(f"{PROGRESS}?.textContent"), "Thinking.")
        go.set()
        self.wait(f"{ANSWERS}[0] === 'Now.'")

    def test_an_answer_that_is_set_aside_says_so_and_goes_on(self):
        go, said = threading.Event(), {"aside": False}
        self.addCleanup(go.set)

        def events():
            yield piece("Once ")
            yield ": still here\n\n"
            go.wait()
            yield piece("more.")

        self.server.chat = lambda request: (200, events())
        self.server.kv = lambda request: (200, kv_answer(request.session, 40, request.query) | {"state": "busy"} | said)
        self.say("Hello.")
        self.wait(f"{ANSWERS}[0]?.trim() === 'Once'")
        said["aside"] = True
        self.wait(f"{PROGRESS}?.textContent === 'Set aside for others, back in a moment.'")
        self.wait("document.getElementById('state').textContent === 'set aside for others, back in a moment'")
        said["aside"] = False
        self.wait(f"{PROGRESS} === null")
        go.set()
        self.wait(f"{ANSWERS}[0] === 'Once more.'")
        self.assertTrue(self.hidden("chat-error"))

    def test_a_turn_that_waits_behind_what_the_session_had_is_not_said_to_be_read(self):
        self.chat()
        self.wait("document.querySelectorAll('.token[data-position]').length === 40")
        self.held()
        self.server.kv = lambda request: (200, kv_answer(request.session, 40, request.query) | {"state": "busy"})
        self.say("And then?")
        self.wait(f"{PROGRESS}?.textContent === 'Waiting for its first step.'")

    def test_a_full_server_is_asked_again_when_it_says(self):
        self.refuse = Refusals(BUSY)
        self.say("Hello.")
        self.wait(f"{PROGRESS}?.textContent.startsWith('The queue is full. Asking again in')")
        self.refuse.seen()
        self.wait(f"{ANSWERS}[0] === 'An answer.'")
        self.assertGreaterEqual(len(self.bodies), 3)
        self.assertEqual(self.bodies[0], self.bodies[-1], "the same is asked")
        self.assertTrue(self.hidden("chat-error"))

    def test_who_does_not_want_to_wait_asks_now_or_stops(self):
        self.refuse = [(503, BUSY, {"Retry-After": "50"})] * 2
        self.say("Hello.")
        self.wait(f"{PROGRESS} !== null")
        self.click("Ask now")
        page_case.wait_for("it is asked again", lambda: len(self.bodies) == 2)
        self.wait(f"{PROGRESS} !== null")
        self.assertEqual(self.browser.evaluate(FOCUSED), "stop", "its button is gone")
        self.browser.press("Escape")
        self.wait(f"{DONE} && {FIELD} === 'Hello.'")

    def test_who_is_told_to_come_back_much_later_is_told(self):
        self.refuse = [(429, BUSY, {"Retry-After": "3600"})]
        self.say("Hello.")
        self.wait("document.getElementById('chat-error').textContent === 'The queue is full.'")

    def test_a_server_that_is_loading_is_waited_for(self):
        loading = Refusals({"error": {"message": "The model is loading.", "code": "loading"}}, statuses=(503,))
        self.server.models = lambda request: loading.pop(0) if loading else (200, {"data": [{"id": "late"}]})
        self.browser.go(self.server.base + "/ui")
        self.wait("document.getElementById('chat-error').textContent.startsWith('The model is loading. Asking again in')")
        loading.seen()
        self.wait("document.getElementById('model').textContent === 'late'")
        self.assertTrue(self.hidden("chat-error"))

    # --- a reload -------------------------------------------------------------------------------------------------------

    def test_a_reload_keeps_the_chat_and_the_settings(self):
        self.set("system", "Be brief.")
        self.set("budget", "512")
        self.answer = ["**Yes", "**."]
        self.chat("First?")
        self.set("say", "half a thought")
        self.visit()
        self.assertEqual(self.browser.evaluate(ANSWERS), ["Yes."])
        self.assertEqual(self.browser.evaluate(FIELD), "half a thought")
        self.wait("document.querySelectorAll('.token[data-position]').length > 0")  # what the server still has of it
        self.set("say", "")
        self.chat("Second?")
        self.assertEqual([message["content"] for message in self.bodies[-1]["messages"]], ["Be brief.", "First?", "**Yes**.", "Second?"])
        self.assertEqual(self.bodies[-1]["kv"]["budget"], 512)
        first, second = [request.headers["X-Session-ID"] for request in self.posts()]
        self.assertEqual(first, second, "the session goes on")
        self.browser.click("#renew")
        self.visit()
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.message').length"), 0, "a new chat is one after a reload, too")

    def test_a_reload_keeps_what_there_is_of_an_answer(self):
        self.held(["So ", "far."])
        self.say("Go.")
        self.wait(f"{ANSWERS}[0] === 'So far.'")
        self.visit()
        self.assertEqual(self.browser.evaluate(ANSWERS), ["So far."])
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.stopped').length"), 1)

    def test_a_reload_gives_a_question_without_an_answer_back(self):
        self.held()
        self.say("Go.")
        self.wait(f"!{DONE}")
        self.visit()
        self.assertEqual(self.browser.evaluate(FIELD), "Go.")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.message').length"), 0)

    def test_what_is_kept_and_is_no_chat_is_not_restored(self):
        for kept in ("{", "null", "[]", '{"session": "../x", "messages": []}', '{"session": "s", "messages": [{"role": "user"}]}',
                     '{"session": "s", "messages": [null]}'):  # fmt: skip
            self.browser.evaluate(f"addEventListener('pagehide', () => sessionStorage.setItem('hydrant.chat', {json.dumps(kept)}))")
            self.visit()
            self.assertEqual(self.browser.evaluate("document.querySelectorAll('.message').length"), 0, kept)

    def test_a_session_that_another_tab_holds_is_left_to_it(self):
        self.chat()
        refused = {"error": {"message": "A turn is in progress.", "code": "session_busy"}}
        self.refuse = [(409, refused)] * 5
        self.chat("And then?")
        self.assertEqual(self.browser.evaluate(ANSWERS), ["An answer.", "An answer."])
        sessions = [request.headers["X-Session-ID"] for request in self.posts()]
        self.assertEqual(len(set(sessions[:-1])), 1)
        self.assertNotEqual(sessions[-1], sessions[0])

    def test_a_duplicated_tab_goes_on_in_a_session_of_its_own(self):
        self.chat("One.")
        # A window that a page opens begins with a copy of what the page keeps, as a duplicated tab does.
        self.browser.evaluate("(window.twin = window.open('/ui')) && 0")
        self.wait("twin.document.documentElement?.dataset.ready === 'yes'")
        said = "[...twin.document.querySelectorAll('.message.assistant .said')].map(e => e.textContent)"
        self.assertEqual(self.browser.evaluate(said), ["An answer."])
        self.browser.evaluate("twin.document.getElementById('say').value = 'Two.', twin.document.getElementById('composer').requestSubmit()")
        self.wait(f"{said}.length === 2 && twin.document.getElementById('stop').hidden")
        self.assertEqual([message["content"] for message in self.bodies[1]["messages"]], ["One.", "An answer.", "Two."])
        self.chat("Three.")
        self.browser.evaluate("twin.close()")
        self.visit()
        self.chat("Four.")
        one, two, three, four = [request.headers["X-Session-ID"] for request in self.posts()]
        self.assertEqual([one, one], [three, four])
        self.assertNotEqual(one, two)

    def test_nothing_is_left_in_the_browser_but_what_this_tab_needs(self):
        self.browser.evaluate("sessionStorage.setItem('hydrant.key', 'zqx-secret')")
        self.chat()
        self.assertEqual(self.posts()[0].headers["Authorization"], "Bearer zqx-secret")
        self.browser.evaluate("dispatchEvent(new Event('pagehide'))")
        self.assertEqual(self.browser.evaluate("localStorage.length"), 0)
        self.assertEqual(self.browser.evaluate("document.cookie"), "")
        kept = self.browser.evaluate("Object.entries({...sessionStorage}).filter(([name, text]) => text.includes('zqx-secret')).map(e => e[0])")
        self.assertEqual(kept, ["hydrant.key"])

    # --- questions that come back ---------------------------------------------------------------------------------------

    def test_a_question_goes_back_into_the_field_before_what_was_typed_there(self):
        self.chat("One?")
        self.set("say", "half a thought")
        self.click("Edit the question")
        self.assertEqual(self.browser.evaluate(FIELD), "One?\n\nhalf a thought")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.message').length"), 0)

    def test_a_question_that_is_refused_while_the_next_is_typed_is_not_lost(self):
        go = threading.Event()
        self.addCleanup(go.set)
        self.server.chat = lambda request: go.wait() and (400, BUSY)
        self.say("Precious?")
        self.wait(f"!{DONE}")
        self.set("say", "the next one")
        go.set()
        self.wait(DONE)
        self.assertEqual(self.browser.evaluate(FIELD), "Precious?\n\nthe next one")

    def test_a_suggestion_leaves_what_is_in_the_field(self):
        self.set("say", "a long draft")
        self.browser.click(".suggestion")
        self.wait(f"{ANSWERS}[0] === 'An answer.' && {DONE}")
        self.assertEqual(self.browser.evaluate(FIELD), "a long draft")
        self.assertIn("lighthouse", self.bodies[0]["messages"][0]["content"])

    def test_a_reload_loses_neither_a_question_nor_what_is_typed_behind_it(self):
        self.held()
        self.say("Go.")
        self.wait(f"!{DONE}")
        self.set("say", "and then")
        self.visit()
        self.assertEqual(self.browser.evaluate(FIELD), "Go.\n\nand then")

    def test_a_reload_before_another_answer_keeps_the_one_there_was(self):
        self.chat("One?")
        self.held()
        self.click("Try again")
        self.wait(f"!{DONE}")
        self.set("say", "a draft")
        self.visit()
        self.assertEqual(self.browser.evaluate(ANSWERS), ["An answer."])
        self.assertEqual(self.browser.evaluate(FIELD), "a draft")

    # --- answers --------------------------------------------------------------------------------------------------------

    NOTHING = "document.querySelector('.message.assistant:last-child .progress:not([hidden])')?.textContent"
    BUTTONS = "[...document.querySelectorAll('.message.assistant:last-child .foot button')].map(e => e.textContent)"
    THOUGHT = {"choices": [{"delta": {"reasoning_content": "Hm. "}, "finish_reason": None}], "usage": None}

    def test_an_answer_that_was_all_thought_says_so(self):
        usage = {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 240}}
        self.server.chat = lambda request: (200, [self.THOUGHT] * 3 + [ended("length"), usage])
        self.chat("What is 2 + 2?")
        words = "All of its 240 tokens went into thinking: allow a longer answer."
        self.assertEqual(self.browser.evaluate(self.NOTHING), words)
        self.assertEqual(self.browser.evaluate(self.BUTTONS), ["Try again", "Edit the question"])
        self.assertEqual(self.browser.evaluate("document.querySelector('.message.user .said').textContent"), "What is 2 + 2?")
        self.visit()  # a reload keeps it
        self.assertEqual(self.browser.evaluate(self.NOTHING), words)
        self.server.chat = lambda request: (200, [self.THOUGHT, piece("4"), ended("stop")])
        self.click("Try again")
        self.wait(f"{ANSWERS}.join() === '4' && {DONE}")
        self.assertIsNone(self.browser.evaluate(self.NOTHING))

    def test_a_model_that_says_nothing_is_said_to(self):
        call = {"index": 0, "id": "call_0", "type": "function", "function": {"name": "weather", "arguments": '{"pla'}}
        for events, words in (
            ([ended("stop")], "The model said nothing."),
            ([self.THOUGHT, ended("stop")], "The model thought, and said nothing."),
            ([{"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": None}], "usage": None}, ended("length")],
             "Its call was cut: allow a longer answer."),
        ):  # fmt: skip
            self.server.chat = lambda request, events=events: (200, events)
            self.chat("One?")
            self.assertEqual(self.browser.evaluate(self.NOTHING), words)
        self.server.chat = lambda request: (200, [piece("Two."), ended("stop")])
        self.chat("Two?")
        said = [message["content"] for message in self.posts()[-1].body["messages"]]
        self.assertEqual(said, ["One?", "", "One?", "", "One?", "", "Two?"])
        self.server.chat = lambda request: (200, [ended("stop")])
        self.click("Try again")
        self.wait("document.getElementById('chat-error').textContent === 'The model said nothing.'")
        self.wait(DONE)
        self.assertEqual(self.browser.evaluate(ANSWERS)[-1], "Two.", "what there was is not lost")

    def test_what_was_cut_still_goes_on_after_a_reload(self):
        self.server.chat = lambda request: (200, [piece("One, two,"), ended("length"), {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 9}}])
        self.chat("Count.")
        foot = "document.querySelector('.message.assistant .foot').textContent"
        before = self.browser.evaluate(foot)
        self.assertRegex(before, "Go on.*As long as an answer may be. 30 tokens read; 9 written in ")
        self.visit()
        self.assertEqual(self.browser.evaluate(foot), before)
        self.server.chat = lambda request: (200, [piece(" three."), ended("stop")])
        self.click("Go on")
        self.wait(f"{ANSWERS}.join() === 'One, two, three.' && {DONE}")
        self.assertTrue(self.posts()[-1].body["continue_final_message"])

    def test_a_reload_while_an_answer_goes_on_keeps_what_came(self):
        self.server.chat = lambda request: (200, [piece("One, two,"), ended("length")])
        self.chat("Count.")
        self.held([" three,"])
        self.click("Go on")
        self.wait(f"{ANSWERS}.join() === 'One, two, three,'")
        self.visit()
        self.assertEqual(self.browser.evaluate(ANSWERS), ["One, two, three,"])
        self.assertEqual(self.browser.evaluate("document.querySelector('.message.assistant .note').textContent"), "Stopped")

    def test_an_answer_can_be_had_again_and_its_question_changed(self):
        self.chat("One?")
        self.answer = ["Another one."]
        self.click("Try again")
        self.wait(f"{ANSWERS}.join() === 'Another one.'")
        self.assertEqual(self.bodies[0]["messages"], self.bodies[1]["messages"])
        self.refuse = [(500, BUSY)]
        self.click("Try again")
        self.wait("!document.getElementById('chat-error').hidden")
        self.assertEqual(self.browser.evaluate(ANSWERS), ["Another one."], "what there was is not lost")
        self.click("Edit the question")
        self.assertEqual(self.browser.evaluate(FIELD), "One?")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.message').length"), 0)

    def test_an_answer_that_was_cut_goes_on(self):
        self.server.chat = lambda request: (200, [piece("One, two,"), ended("length")])
        self.chat("Count.")
        self.server.chat = lambda request: (200, [piece(" three."), ended("stop")])
        self.click("Go on")
        self.wait(f"{ANSWERS}.join() === 'One, two, three.'")
        body = self.posts()[-1].body
        self.assertEqual(body["messages"][-1], {"role": "assistant", "content": "One, two,"})
        self.assertEqual((body["continue_final_message"], body["add_generation_prompt"]), (True, False))

    def test_what_was_cut_still_goes_on_after_a_refusal(self):
        self.server.chat = lambda request: (200, [piece("One, two,"), ended("length")])
        self.chat("Count.")
        foot = "document.querySelector('.message.assistant .foot').textContent"
        before = self.browser.evaluate(foot)
        self.assertIn("Go on", before)
        self.server.chat = lambda request: (500, BUSY)
        self.click("Go on")
        self.wait("!document.getElementById('chat-error').hidden")
        self.wait(DONE)
        self.assertEqual(self.browser.evaluate(foot), before)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.stopped').length"), 0)

    def test_an_answer_that_the_server_stopped_is_no_whole_one(self):
        for reason in ("abort", "error"):
            self.server.chat = lambda request, reason=reason: (200, [piece("The answer is"), ended(reason)])
            self.chat()
            self.wait("document.getElementById('chat-error').textContent === 'The server stopped before the answer ended.'")
            self.assertIn("Stopped", self.browser.evaluate("document.querySelector('.message:last-child .note').textContent"))
            self.browser.click("#renew")

    def test_an_answer_whose_server_is_gone_says_so(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def events():
            yield piece("So far.")
            go.wait()
            raise ConnectionError

        self.server.chat = lambda request: (200, events(), {"Content-Length": "100000"})  # of which the rest does not come
        self.say("Go.")
        self.wait(f"{ANSWERS}[0] === 'So far.'")
        go.set()
        self.wait("document.getElementById('chat-error').textContent !== ''")
        self.assertEqual(self.browser.evaluate("document.getElementById('chat-error').textContent"), "The connection ended before the answer did.")
        self.wait(DONE)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.stopped').length"), 1)

    # --- the keyboard ---------------------------------------------------------------------------------------------------

    def test_a_key_that_ends_a_composition_does_not_stop_the_answer(self):
        go = self.held(["So far. "])
        self.say("Go.")
        self.wait(f"{ANSWERS}[0]?.trim() === 'So far.'")
        self.browser.evaluate("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', isComposing: true, bubbles: true})) && 0")
        go.set()
        self.wait(DONE)
        self.assertEqual(self.browser.evaluate(ANSWERS), ["So far. The end."])

    def test_the_focus_goes_from_a_button_that_goes_to_the_one_that_comes(self):
        for button in ("document.getElementById('send')", "[...document.querySelectorAll('.foot button')].find(b => b.textContent === 'Try again')"):
            go = self.held()
            self.set("say", "Go.")
            self.browser.evaluate(f"{button}.focus()")
            self.browser.press("Enter")
            self.wait(f"!{DONE}")
            self.assertEqual(self.browser.evaluate(FOCUSED), "stop", button)
            go.set()
            self.wait(DONE)
            self.assertEqual(self.browser.evaluate(FOCUSED), "say", button)
        self.held()
        self.browser.press("Enter")
        self.wait(f"!{DONE}")
        self.assertEqual(self.browser.evaluate(FOCUSED), "say", "who writes goes on writing")


if __name__ == "__main__":
    page_case.main()
