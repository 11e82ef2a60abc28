#!/usr/bin/env python3
"""Text of a model in the page: formatted, and never trusted, in a headless Chromium beside scripted answers. Exit 77: skipped, with the
reason on the last line."""

import json

import page_case
from page_case import ANSWERS

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


class Text(page_case.ConversationCase):
    def test_no_text_of_a_model_becomes_markup(self):
        self.answer = [HOSTILE[i : i + 5] for i in range(0, len(HOSTILE), 5)]
        self.chat(HOSTILE.split("\n")[0])
        built = self.browser.evaluate(
            "[...document.querySelectorAll('.said *')].map(e => [e.tagName, ...[...e.attributes].map(a => a.name)])"
        )
        self.assertLessEqual({name for name, *_ in built}, BUILT)
        self.assertLessEqual({attribute for _, *those in built for attribute in those}, {"class", "type", "tabindex", "start", "dir"})
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

    def test_text_begins_at_the_side_that_its_letters_ask_for(self):
        self.answer = ["مرحبا! Hydrant هو خادم.\n\n- واحد\n- اثنان\n\n> اقتباس\n\n```\ncode\n```\n\n| ا | ب |\n|---|---|\n| 1 | 2 |\n\n## End"]
        self.chat("שלום, מה שלומך?")
        self.set("say", "שלום")
        expected = {"#say": "rtl", ".user .said": "rtl", ".assistant p": "rtl", ".assistant ul": "rtl", ".assistant li": "rtl",
                    ".assistant blockquote": "rtl", ".assistant table": "rtl", ".assistant .code": "ltr", ".assistant h4": "ltr"}  # fmt: skip
        direction = "(selector) => getComputedStyle(document.querySelector(selector)).direction"
        self.assertEqual({selector: self.browser.evaluate(f"({direction})('{selector}')") for selector in expected}, expected)
        self.set("say", "Hello")
        self.assertEqual(self.browser.evaluate(f"({direction})('#say')"), "ltr")

    def test_no_text_makes_the_page_slow(self):
        """Each of these has 60,000 characters; what is worse than linear in them takes minutes, of the page's own processor time."""
        texts = ["*a" * 30_000, "`" * 60_000, "> " * 30_000, "- " * 30_000, "  " * 30_000 + "|", "**`" * 20_000, "|-" * 30_000, "#" * 60_000,
                 "\n".join(" " * (i % 40) + "- x" for i in range(2_500)), "```\n" * 15_000]  # fmt: skip
        self.browser.call("Performance.enable", timeDomain="threadTicks")
        seconds = lambda: {one["name"]: one["value"] for one in self.browser.call("Performance.getMetrics")["metrics"]}["TaskDuration"]
        for text in texts:
            before = seconds()
            self.browser.evaluate(f"""import('/ui/format.js').then(({{ Formatted }}) => {{
              new Formatted(document.createElement('div')).update({json.dumps(text)});
            }})""")
            self.assertLess(seconds() - before, 3, text[:6])

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
