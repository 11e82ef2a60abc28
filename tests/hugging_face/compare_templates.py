"""Compares what Hydrant makes of the published chat templates with what Python's jinja2 does, set up as Hugging Face does for chats:
conversations with tools, calls, their results, documents. What jinja2 refuses must be refused.

compare_templates.py TOOL [--only NAME]
"""

import argparse
import datetime
import json
import os
import pathlib
import sys
import time

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

import tool

TEMPLATES = pathlib.Path(__file__).resolve().parents[3] / "shared/data/chat_templates"
BOS, EOS, NOW = "<|begin|>", "<|end|>", 1721952000

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": 'Says how the "weather" is,\nor will be: <now> & then',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "a <city>", "enum": ["Paris", "Zürich"]},
                    "days": {"type": ["integer", "null"], "default": 3, "minimum": 0.5},
                },
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "clock", "description": "d", "parameters": {"type": "object", "properties": {}}}},
]
DOCUMENTS = [{"title": "First", "text": "one", "doc_id": 1}, {"title": "Second", "text": "two"}]
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "How is the weather in Zürich?"}
ARGUMENTS = {"city": "Zürich", "days": 3, "share": 1.5, "more": [1, {"a": None, "b": True, "c": "</x>"}]}
# Some templates want an id of nine letters and digits.
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
CALLS = {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]}
TWO_CALLS = {"role": "assistant", "content": "", "tool_calls": [CALL, dict(CALL, id="ihgfedcba")]}
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "name": "weather", "content": '{"sky": "clear"}'}
ANSWER = {"role": "assistant", "content": "It is clear."}

# What is rendered: messages, tools, documents, whether the answer is begun.
CONVERSATIONS = {
    "tools": ([USER], TOOLS, None, True),
    "tools and a system message": ([SYSTEM, USER], TOOLS, None, True),
    "a result": ([SYSTEM, USER, CALLS, RESULT], TOOLS, None, True),
    "two results": ([USER, TWO_CALLS, RESULT, dict(RESULT, tool_call_id="ihgfedcba")], TOOLS, None, True),
    "an answer": ([USER, CALLS, RESULT, ANSWER, USER], TOOLS, None, True),
    "a whole conversation": ([SYSTEM, USER, CALLS, RESULT, ANSWER], TOOLS, None, False),
    "calls of tools that are gone": ([USER, CALLS, RESULT], None, None, True),
    "documents": ([USER], None, DOCUMENTS, True),
    "documents and tools": ([SYSTEM, USER], TOOLS, DOCUMENTS, True),
}


class Generation(jinja2.ext.Extension):
    """{% generation %}…{% endgeneration %} marks what a model wrote, for training; it changes no text."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("unchanged"), [], [], body).set_lineno(line)

    def unchanged(self, caller):
        return caller()


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda layout: datetime.datetime.fromtimestamp(NOW).strftime(layout)
    return made


def expected(template, messages, tools, documents, begun):
    """The text, or None where jinja2 refuses."""
    try:
        return template.render(
            messages=messages, tools=tools, documents=documents, add_generation_prompt=begun, bos_token=BOS, eos_token=EOS
        )  # fmt: skip
    except Exception:  # noqa: BLE001: templates fail in as many ways as Python does
        return None


def differences(program, folder, only=None):
    """The number of them, of the templates in `folder`."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    jinja = environment()
    requests, wanted, names = [], [], []
    for path in sorted(folder.rglob("*.jinja")):
        if only not in (None, path.name):
            continue
        source = path.read_text()
        template = jinja.from_string(source)
        for name, (messages, tools, documents, begun) in CONVERSATIONS.items():
            requests.append(
                {
                    "source": source, "bos": BOS, "eos": EOS, "now": NOW, "messages": messages, "tools": tools,
                    "documents": documents, "add_generation_prompt": begun,
                }  # fmt: skip
            )
            wanted.append(expected(template, messages, tools, documents, begun))
            names.append(f"{path.name}, {name}")
    got = tool.answers([program], requests)
    assert len(got) == len(wanted) > 0, f"{len(got)} answers to {len(wanted)} requests"
    wrong = [i for i in range(len(got)) if got[i].get("text") != wanted[i]]
    for i in wrong[:10]:
        print(f"  {names[i]}\n    expected {wanted[i]!r}\n    got      {got[i]!r}")
    refused = sum(text is None for text in wanted)
    assert refused <= len(got) / 2, f"{refused} of {len(got)} conversations refused: the templates are not looked at"
    agreed = "" if wrong else f"{refused} refused by both sides, "
    print(f"{len(got)} conversations, {agreed}{len(wrong)} differences", flush=True)
    return len(wrong)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    sys.exit(1 if differences(arguments.tool, TEMPLATES, arguments.only) else 0)


if __name__ == "__main__":
    main()
