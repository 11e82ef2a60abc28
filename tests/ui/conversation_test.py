#!/usr/bin/env python3
"""The chat of the page: waiting and coming back, a reload, settings, the command line, and text that is not to be trusted, in a
headless Chromium beside scripted answers. Exit 77: skipped, with the reason on the last line."""

import json
import shlex
import threading

import page_case
from scripted_server import kv_answer

BUSY = {"error": {"message": "The queue is full.", "code": "queue_full"}}
PROGRESS = "document.querySelector('.message:last-child .progress:not([hidden])')"
ANSWERS = "[...document.querySelectorAll('.message.assistant .said')].map(e => e.textContent)"
FIELD = "document.getElementById('say').value"
DONE = "document.getElementById('stop').hidden"

# What a model might write to be taken for markup, each line a try of its own.
HOSTILE = """<img src=x onerror="window.harmed = 1">
<script>window.harmed = 1</script>
<a href="javascript:window.harmed = 1">here</a> <svg/onload=window.harmed=1>

[click](javascript:window.harmed=1) ![picture](/ui/icon.svg) <javascript:window.harmed=1>
&lt;img src=x onerror=window.harmed=1&gt;

# <b onclick=window.harmed=1>heading</b>

- <iframe srcdoc="<script>parent.harmed=1</script>"></iframe>
1. <style>body{display:none}</style>

> <form action="javascript:window.harmed=1"><button>x</button></form>

| <img src=x onerror=window.harmed=1> | b |
|---|---|
| **<img src=x onerror=window.harmed=1>** | `<img src=x>` |

```"><img/src=x/onerror=window.harmed=1>
</code></pre><script>window.harmed = 1</script>
```
"""
BUILT = {
    "P", "H4", "UL", "OL", "LI", "CODE", "PRE", "STRONG", "EM", "HR", "BLOCKQUOTE", "FIGURE", "FIGCAPTION", "SPAN", "BUTTON",
    "DIV", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD",
}  # fmt: skip
MARKDOWN = """Three *small* steps, **bold `code`** and 2 * 3 * 4:

1. The first
   goes on.
2. The second:
   - inside,
   - and again.

3. The third.

```python
def f(x):

    return "*not soft*"
```

> Quoted.

| a | b |
|---|---|
| 1 | 2 |

---
## The end
"""


def piece(text):
    return {"choices": [{"delta": {"content": text}, "finish_reason": None}], "usage": None}


def ended(reason):
    return {"choices": [{"delta": {}, "finish_reason": reason}], "usage": None}


class Conversation(page_case.PageCase):
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
        self.refuse = [(503, BUSY, {"Retry-After": "1"}), (429, BUSY, {"Retry-After": "1"})]
        self.say("Hello.")
        self.wait(f"{PROGRESS}?.textContent.startsWith('The queue is full. Asking again in')")
        self.wait(f"{ANSWERS}[0] === 'An answer.'")
        self.assertEqual(len(self.bodies), 3)
        self.assertEqual(self.bodies[0], self.bodies[2], "the same is asked")
        self.assertTrue(self.hidden("chat-error"))

    def test_who_does_not_want_to_wait_asks_now_or_stops(self):
        self.refuse = [(503, BUSY, {"Retry-After": "50"})] * 2
        self.say("Hello.")
        self.wait(f"{PROGRESS} !== null")
        self.click("Ask now")
        self.wait(f"{PROGRESS} !== null")
        self.assertEqual(len(self.bodies), 2)
        self.browser.press("Escape")
        self.wait(f"{DONE} && {FIELD} === 'Hello.'", 5)

    def test_who_is_told_to_come_back_much_later_is_told(self):
        self.refuse = [(429, BUSY, {"Retry-After": "3600"})]
        self.say("Hello.")
        self.wait("document.getElementById('chat-error').textContent === 'The queue is full.'", 5)

    def test_a_server_that_is_loading_is_waited_for(self):
        loading = [(503, {"error": {"message": "The model is loading.", "code": "loading"}}, {"Retry-After": "1"})]
        self.server.models = lambda request: loading.pop() if loading else (200, {"data": [{"id": "late"}]})
        self.browser.go(self.server.base + "/ui")
        self.wait("document.getElementById('chat-error').textContent.startsWith('The model is loading. Asking again in')")
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

    def test_nothing_is_left_in_the_browser_but_what_this_tab_needs(self):
        self.browser.evaluate("sessionStorage.setItem('hydrant.key', 'zqx-secret')")
        self.chat()
        self.assertEqual(self.posts()[0].headers["Authorization"], "Bearer zqx-secret")
        self.browser.evaluate("dispatchEvent(new Event('pagehide'))")
        self.assertEqual(self.browser.evaluate("localStorage.length"), 0)
        self.assertEqual(self.browser.evaluate("document.cookie"), "")
        kept = self.browser.evaluate("Object.entries({...sessionStorage}).filter(([name, text]) => text.includes('zqx-secret')).map(e => e[0])")
        self.assertEqual(kept, ["hydrant.key"])

    # --- settings and actions -------------------------------------------------------------------------------------------

    def test_settings_are_what_is_asked_for(self):
        self.chat()
        self.assertEqual(self.bodies[0]["kv"], {"policy": "auto", "budget": 128, "recall": "off"})
        self.assertEqual(self.bodies[0]["temperature"], 0.7)
        self.assertFalse({"top_p", "seed"} & self.bodies[0].keys(), "the server's own")
        self.browser.click("#show-settings")
        for name, value in {"system": "Rhyme.", "temperature": "1.2", "top-p": "0.9", "seed": "42", "length": "60"}.items():
            self.set(name, value)
        self.browser.press("Escape")
        self.wait("!document.getElementById('settings-dialog').open")
        self.chat("Again.")
        body = self.bodies[1]
        self.assertEqual(body["messages"][0], {"role": "system", "content": "Rhyme."})
        self.assertEqual([body[name] for name in ("temperature", "top_p", "seed", "max_tokens")], [1.2, 0.9, 42, 60])
        self.set("seed", "4x")
        self.assertEqual(self.browser.evaluate("document.getElementById('seed-text').textContent"), "A whole number, please.")
        self.browser.evaluate("document.getElementById('defaults').click()")
        self.chat("Once more.")
        self.assertEqual({**self.bodies[2], "messages": None}, {**self.bodies[0], "messages": None})

    def test_a_chat_recalls_if_it_is_told_to(self):
        self.set("policy", "h2o-plus")
        self.set("recall", "turn")
        hint = "document.getElementById('hint').textContent"
        self.assertIn("sees the whole chat before that is chosen, and the chat is read anew for it.", self.browser.evaluate(hint))
        self.set("policy", "auto")
        self.assertIn("sees the whole chat before that is chosen.", self.browser.evaluate(hint))
        self.chat()
        self.assertEqual(self.bodies[-1]["kv"], {"policy": "auto", "budget": 128, "recall": "turn"})
        self.set("policy", "full")
        self.assertTrue(self.browser.evaluate("document.getElementById('recall').disabled"))
        self.chat("What forgets nothing has nothing to recall.")
        self.assertEqual(self.bodies[-1]["kv"], {"policy": "full"})

    def test_a_server_that_recalls_is_taken_at_its_word(self):
        self.server.models = lambda request: (200, {"data": [{"id": "recalling", "kv_recall": "turn"}]})
        self.visit()
        self.chat()
        self.assertEqual(self.bodies[-1]["kv"]["recall"], "turn")
        self.set("recall", "off")
        self.visit()
        self.chat("What was chosen stays.")
        self.assertEqual(self.bodies[-1]["kv"]["recall"], "off")

    def test_what_the_server_cannot_keep_is_not_offered(self):
        offered = "[...document.getElementById('policy').options].filter(o => !o.disabled && !o.hidden).map(o => o.value)"
        self.assertIn("auto", self.browser.evaluate(offered), "a server that lists none may have all")
        self.set("policy", "auto")
        self.server.models = lambda request: (200, {"data": [{"id": "few", "kv_policies": ["full", "h2o", "h2o-plus"]}]})
        self.visit()
        self.wait(f"{offered}.length === 3")
        self.assertEqual(self.browser.evaluate(offered), ["h2o-plus", "h2o", "full"])
        self.chat()
        self.assertEqual(self.bodies[-1]["kv"], {"policy": "h2o-plus", "budget": 128, "recall": "off"})

    def test_an_answer_has_the_form_that_is_asked_for(self):
        schema = {"enum": ["yes", "no"]}
        self.set("schema", json.dumps(schema)[:-1])
        words = "document.getElementById('schema-text').textContent"
        self.assertIn("no JSON yet", self.browser.evaluate(words))
        self.chat()
        self.assertNotIn("response_format", self.bodies[0])
        self.set("schema", json.dumps(schema))
        self.assertNotIn("no JSON yet", self.browser.evaluate(words))
        self.chat("Again.")
        self.assertEqual(self.bodies[1]["response_format"], {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}})
        for name in ("schema", "tools"):
            self.browser.evaluate(f"document.getElementById('{name}-example').click()")
        self.chat("Once more.")
        self.assertEqual(self.bodies[2]["response_format"]["json_schema"]["schema"]["required"], ["mood", "stars"])
        self.assertEqual([tool["function"]["name"] for tool in self.bodies[2]["tools"]], ["weather"])

    def test_a_call_stands_in_the_chat_and_the_next_message_is_its_result(self):
        self.set("tools", json.dumps([{"name": "weather", "parameters": {"type": "object"}}]))

        def part(index, given, **begins):
            return {"index": index, "type": "function", "function": {"arguments": given, **begins}}

        calls = [{"tool_calls": [part(0, '{"place": ', name="weather") | {"id": "call_a"}]}, {"tool_calls": [part(0, '"Rome"}')]},
                 {"tool_calls": [part(1, "{}", name="weather") | {"id": "call_b"}]}]  # fmt: skip
        events = [{"choices": [{"delta": delta, "finish_reason": None}], "usage": None} for delta in calls]

        def chat(request):
            self.bodies.append(request.body)
            return 200, [piece("Let me see.")] + events + [ended("tool_calls")] if len(self.bodies) == 1 else [piece("Sunny."), ended("stop")]

        self.server.chat = chat
        self.chat("How is the weather in Rome?")
        self.assertEqual(self.bodies[0]["tools"], [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}])
        shown = "[...document.querySelectorAll('.message.assistant pre')].map(e => e.textContent.trim())"
        self.wait(f"{shown}.length === 2")
        self.assertEqual(self.browser.evaluate(shown), ['weather {"place": "Rome"}', "weather {}"])
        self.visit()  # a reload keeps them
        self.assertEqual(self.browser.evaluate(shown), ['weather {"place": "Rome"}', "weather {}"])
        self.assertIn("tool", self.browser.evaluate("document.getElementById('say').placeholder"))
        self.chat("21 degrees")
        asked, *results = self.bodies[1]["messages"][1:]
        self.assertEqual(asked["content"], "Let me see.")
        self.assertEqual([(call["id"], call["function"]["arguments"]) for call in asked["tool_calls"]],
                         [("call_a", '{"place": "Rome"}'), ("call_b", "{}")])  # fmt: skip
        self.assertEqual(results, [{"role": "tool", "tool_call_id": name, "content": "21 degrees"} for name in ("call_a", "call_b")])
        self.wait(f"{ANSWERS}[1] === 'Sunny.'")

    def test_a_call_that_was_cut_is_not_sent_back(self):
        self.set("tools", json.dumps([{"name": "weather", "parameters": {"type": "object"}}]))
        calls = [{"index": i, "id": f"call_{i}", "type": "function", "function": {"name": "weather", "arguments": given}}
                 for i, given in enumerate(("{}", '{"place": "Ro'))]  # fmt: skip
        event = {"choices": [{"delta": {"tool_calls": calls}, "finish_reason": None}], "usage": None}
        self.server.chat = lambda request: (200, [event, ended("length")])
        self.chat("How is the weather?")
        shown = "[...document.querySelectorAll('.message.assistant pre')].map(e => e.textContent.trim())"
        self.wait(f"{shown}.join() === 'weather {{}}'")
        self.assertNotIn("Go on", self.browser.evaluate("document.getElementById('log').textContent"))
        self.server.chat = lambda request: (200, [piece("Sunny."), ended("stop")])
        self.chat("21 degrees")
        asked, *results = self.posts()[-1].body["messages"][1:]
        self.assertEqual([call["id"] for call in asked["tool_calls"]], ["call_0"])
        self.assertEqual([result["tool_call_id"] for result in results], ["call_0"])
        self.server.chat = lambda request: (200, [event, ended("length")])
        self.chat("And in Rome?")
        self.browser.evaluate("document.getElementById('renew').click()")
        self.wait("document.getElementById('say').placeholder === 'Say something …'")

    def test_budgets_have_a_size_and_a_change_says_what_it_costs(self):
        hint = "document.getElementById('hint').textContent"
        self.assertEqual(
            self.browser.evaluate("[...document.getElementById('budget').options].find(o => o.value === '128').textContent"),
            "128 tokens · 3.6 MB",  # 129 slots are 9 blocks of 0.4 MB
        )
        self.assertIn("Every head keeps 128 tokens, 3.6 MB in all", self.browser.evaluate(hint))
        self.chat()
        self.assertNotIn("anew", self.browser.evaluate(hint))
        self.set("budget", "64")
        self.assertIn("your next message the whole chat is read anew", self.browser.evaluate(hint))
        self.set("budget", "128")
        self.assertNotIn("anew", self.browser.evaluate(hint))
        self.server.models = lambda request: (200, {"data": [{"id": "small", "max_model_len": 1024}]})
        self.visit()
        self.set("budget", "2048")
        self.assertIn("with this budget nothing is dropped", self.browser.evaluate(hint))

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

    # --- the command line -----------------------------------------------------------------------------------------------

    def curl(self):
        return self.browser.evaluate("document.getElementById('curl-text').textContent")

    def test_the_command_says_what_the_page_would_send(self):
        text = "It's \"quoted\" $HOME `date` \\ \u009b31m \u202e ü"
        self.set("say", text)
        self.browser.click("#show-curl")
        self.assertNotIn("\u009b", self.curl(), "nothing in it moves a terminal's cursor")
        self.assertNotIn("\u202e", self.curl(), "nor turns its letters round")
        command = shlex.split(self.curl().replace("\\\n", " "))
        self.assertEqual(command[:3], ["curl", "-N", self.server.base + "/v1/chat/completions"])
        body = json.loads(command[command.index("-d") + 1])
        self.browser.press("Escape")
        self.wait("!document.getElementById('curl-dialog').open")
        self.browser.click("#send")
        self.wait(f"{ANSWERS}.length === 1 && {DONE}")
        sent = self.bodies[0]
        sent.pop("stream_options")
        self.assertEqual(body, sent)
        self.assertNotIn(self.posts()[0].headers["X-Session-ID"], command, "this chat is left alone")

    def test_a_key_is_shown_only_to_who_asks_for_it_each_time(self):
        self.browser.click("#show-curl")
        self.assertNotIn("Authorization", self.curl())
        self.assertTrue(self.hidden("curl-key-row"))
        self.browser.evaluate("document.getElementById('curl-dialog').close(); sessionStorage.setItem('hydrant.key', \"zqx'secret\")")
        for _ in range(2):
            self.browser.click("#show-curl")
            self.assertIn('-H "Authorization: Bearer $HYDRANT_API_KEY"', self.curl())
            self.assertNotIn("zqx", self.browser.evaluate("document.documentElement.outerHTML"))
            self.browser.click("#curl-key")
            self.assertIn("Authorization: Bearer zqx'secret", shlex.split(self.curl().replace("\\\n", " ")))
            self.browser.evaluate("document.getElementById('curl-dialog').close()")
            self.wait("!document.documentElement.outerHTML.includes('zqx')")  # it goes with the dialog

    # --- text -----------------------------------------------------------------------------------------------------------

    def test_no_text_of_a_model_becomes_markup(self):
        self.answer = [HOSTILE[i : i + 5] for i in range(0, len(HOSTILE), 5)]
        self.chat(HOSTILE.split("\n")[0])
        built = self.browser.evaluate(
            "[...document.querySelectorAll('.said *')].map(e => [e.tagName, ...[...e.attributes].map(a => a.name)])"
        )
        self.assertLessEqual({name for name, *_ in built}, BUILT)
        self.assertLessEqual({attribute for _, *those in built for attribute in those}, {"class", "type", "tabindex", "start"})
        said = self.browser.evaluate(ANSWERS)[0]
        for line in ('<img src=x onerror="window.harmed = 1">', "[click](javascript:window.harmed=1)", "&lt;img", "</code></pre><script>"):
            self.assertIn(line, said, "it is shown as it was written")
        self.assertIsNone(self.browser.evaluate("window.harmed"))
        self.visit()  # and as it was kept
        self.assertIsNone(self.browser.evaluate("window.harmed"))
        self.assertEqual(self.browser.problems, [], "nothing that the policy had to stop")

    def test_text_that_grows_looks_like_text_that_was_there(self):
        different = self.browser.evaluate(f"""import('/ui/format.js').then(({{ Formatted }}) => {{
          const show = (texts) => {{
            const host = document.createElement('div');
            const formatted = new Formatted(host);
            for (const text of texts) formatted.update(text);
            return host.outerHTML;
          }};
          return {json.dumps([MARKDOWN, HOSTILE])}.filter((text) => {{
            const grown = show(Array.from(text, (_, i) => text.slice(0, i + 1)));
            return grown !== show([text]);
          }});
        }})""")
        self.assertEqual(different, [])

    def test_lists_code_and_tables_are_formatted(self):
        self.answer = [MARKDOWN]
        self.chat()
        count = "(selector) => document.querySelectorAll('.said ' + selector).length"
        expected = {
            "ol": 2, "ol > li": 3, "ul > li": 2, "pre > code": 1, "strong > code": 1, "em": 1, "blockquote": 1, "td": 2, "hr": 1, "h4": 1,
        }  # fmt: skip
        self.assertEqual({selector: self.browser.evaluate(f"({count})('{selector}')") for selector in expected}, expected)
        self.assertEqual(self.browser.evaluate("document.querySelector('.said pre').textContent"), 'def f(x):\n\n    return "*not soft*"')
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.said ol')[1].start"), 3)
        self.assertIn("2 * 3 * 4", self.browser.evaluate(ANSWERS)[0])

    def test_no_text_makes_the_page_slow(self):
        """Each of these has 60,000 characters; what is worse than linear in them takes minutes."""
        texts = ["*a" * 30_000, "`" * 60_000, "> " * 30_000, "- " * 30_000, "  " * 30_000 + "|", "**`" * 20_000, "|-" * 30_000, "#" * 60_000,
                 "\n".join(" " * (i % 40) + "- x" for i in range(2_500)), "```\n" * 15_000]  # fmt: skip
        slowest = self.browser.evaluate(f"""import('/ui/format.js').then(({{ Formatted }}) => Math.max(...{json.dumps(texts)}.map((text) => {{
          const begin = performance.now();
          new Formatted(document.createElement('div')).update(text);
          return performance.now() - begin;
        }})))""")
        self.assertLess(slowest, 3000)

    def test_a_narrow_screen_is_not_scrolled_sideways(self):
        self.addCleanup(self.browser.size, 1280, 800)
        self.answer = [f"```\n{'x' * 400}\n```\n\n| {' | '.join('wide' * 5 for _ in range(8))} |\n|{'-|' * 8}\n\n{'y' * 300}"]
        self.chat()
        for width in (400, 320):
            self.browser.size(width, 700, "dark")
            for dialog in (None, "show-settings", "show-curl"):
                if dialog:
                    self.browser.click(f"#{dialog}")
                wide, seen = self.browser.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
                self.assertLessEqual(wide, seen, (width, dialog))
                self.browser.evaluate("document.querySelector('dialog[open]')?.close()")


if __name__ == "__main__":
    page_case.main()
