#!/usr/bin/env python3
"""What the page asks for: its settings, tools, and the command line that says the same, in a headless Chromium beside scripted
answers. Exit 77: skipped, with the reason on the last line."""

import json
import shlex

import page_case
from page_case import ANSWERS, DONE, ended, piece


class Settings(page_case.ConversationCase):
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

    def test_a_budget_above_the_context_is_not_offered(self):
        self.set("budget", "2048")
        self.server.models = lambda request: (200, {"data": [{"id": "small", "max_model_len": 1024}]})
        self.visit()
        offered = "[...document.getElementById('budget').options].filter(o => !o.disabled && !o.hidden).map(o => o.value)"
        self.assertEqual(self.browser.evaluate(offered), ["32", "64", "128", "256", "512", "1024"])
        self.assertIn("with this budget nothing is dropped", self.browser.evaluate("document.getElementById('hint').textContent"))
        self.chat()
        self.assertEqual(self.bodies[-1]["kv"]["budget"], 1024)

    def test_a_dialog_closes_with_a_click_beside_it_and_no_other(self):
        self.browser.click("#show-settings")
        left, top = self.browser.evaluate("(({ left, top }) => [left, top])(document.getElementById('settings-dialog').getBoundingClientRect())")
        padding, beside, field = (left + 6, top + 60), (left - 20, top + 60), self.browser.center("#system")
        for begin, end, stays in ((padding, padding, True), (field, beside, True), (beside, padding, True), (beside, beside, False)):
            for kind, (x, y) in (("mousePressed", begin), ("mouseMoved", end), ("mouseReleased", end)):
                self.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
            self.assertEqual(self.browser.evaluate("document.getElementById('settings-dialog').open"), stays, (begin, end))

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


if __name__ == "__main__":
    page_case.main()
