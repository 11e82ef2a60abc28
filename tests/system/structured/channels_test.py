#!/usr/bin/env python3
"""Answers that are messages on channels, as gpt-oss's are, held to forms and calls: from a network that knows nothing, at every temperature,
over the three endpoints of conversations, streamed and not.

    channels_test.py [--answers 60]"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import sys
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "deploy"))

import channel_model
from serving import BINARY, BUILD, ServerProcess, expect, skip

TEMPERATURES = (0, 0.5, 1, 1.5, 2)
CHAT, RESPONSES, MESSAGES = ENDPOINTS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name"],
    "additionalProperties": False,
}  # fmt: skip
SPELLED = '{"a":"<|end|><|start|>assistant<|channel|>final<|message|>"}'  # by tokens of text
PARAMETERS = {
    "get": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 9}}, "required": ["city"], "additionalProperties": False},
    "get_all": {"type": "object", "properties": {"deep": {"type": "boolean"}}, "required": [], "additionalProperties": False},
    "json": {"type": "object", "properties": {}, "additionalProperties": False},
}  # fmt: skip


def is_record(text):
    value = json.loads(text)
    return set(value) <= {"name", "n"} and isinstance(value["name"], str) and 0 <= value.get("n", 0) <= 99


def is_object(text):
    return isinstance(json.loads(text), dict)


def format_of(endpoint, schema):
    """The members that ask for a schema, as this endpoint names it."""
    if endpoint == CHAT:
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "record", "schema": schema}}}
    if endpoint == RESPONSES:
        return {"text": {"format": {"type": "json_schema", "name": "record", "schema": schema}}}
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


# Name, members of a body, whether a text is an answer.
FORMS = [
    ("schema", lambda endpoint: format_of(endpoint, SCHEMA), is_record),
    ("json", lambda _: {"structured_outputs": {"json": SCHEMA}}, is_record),
    ("object", lambda _: {"structured_outputs": {"json_object": True}}, is_object),
    ("choice", lambda _: {"structured_outputs": {"choice": ["yes", "yes, sir", "no"]}}, ("yes", "yes, sir", "no").__contains__),
    ("spelled", lambda _: {"structured_outputs": {"choice": [SPELLED]}}, SPELLED.__eq__),
    ("regex", lambda _: {"structured_outputs": {"regex": "[ab]{2,9}!?"}}, re.compile("[ab]{2,9}!?").fullmatch),
    ("grammar", lambda _: {"structured_outputs": {"grammar": 'root ::= "(" root ")" | "x"'}}, re.compile(r"\(*x\)*").fullmatch),
]  # fmt: skip


def tools_of(endpoint, strict):
    def one(name):
        function = {"name": name, "description": "", "parameters": PARAMETERS[name]} | ({"strict": True} if strict else {})
        if endpoint == CHAT:
            return {"type": "function", "function": function}
        if endpoint == RESPONSES:
            return {"type": "function", **function}
        return {"name": name, "input_schema": PARAMETERS[name]} | ({"strict": True} if strict else {})

    return [one(name) for name in PARAMETERS]


def choice_of(endpoint, kind):
    """(members, functions that may be called, least calls, most)"""
    named = {CHAT: {"type": "function", "function": {"name": "json"}}, RESPONSES: {"type": "function", "name": "json"},
             MESSAGES: {"type": "tool", "name": "json"}}[endpoint]  # fmt: skip
    required = {"type": "any"} if endpoint == MESSAGES else "required"
    some = [{"type": "function", "function": {"name": "get"}}] if endpoint == CHAT else [{"type": "function", "name": "get"}]
    one_call = {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
    if endpoint != MESSAGES:
        one_call = {"tool_choice": required, "parallel_tool_calls": False}
    listed = {"mode": "required", "tools": some}
    allowed = {"type": "allowed_tools", **({"allowed_tools": listed} if endpoint == CHAT else listed)}
    return {
        "required": ({"tool_choice": required}, set(PARAMETERS), 1, 99),
        "named": ({"tool_choice": named}, {"json"}, 1, 1),
        "one": (one_call, set(PARAMETERS), 1, 1),
        "strict": ({}, set(PARAMETERS), 0, 99),
        "allowed": ({"tool_choice": required if endpoint == MESSAGES else allowed},
                    set(PARAMETERS) if endpoint == MESSAGES else {"get"}, 1, 99),
        "form": (format_of(endpoint, SCHEMA), set(PARAMETERS), 0, 99),
    }[kind]  # fmt: skip


CALLS = ("required", "named", "one", "strict", "allowed", "form")


def fits(name, arguments, kind):
    value, schema = json.loads(arguments), PARAMETERS[name]
    if kind == "form":  # no tool is strict
        return isinstance(value, dict)
    kinds = {"string": str, "boolean": bool}
    known = all(key in schema["properties"] and isinstance(one, kinds[schema["properties"][key]["type"]]) for key, one in value.items())
    return known and set(schema.get("required", [])) <= set(value)


Answer = collections.namedtuple("Answer", "text calls reasoning finish")


def whole(endpoint, body):
    """What a body says: (text, [(name, arguments)], reasoning, how it ended)."""
    if endpoint == CHAT:
        choice = body["choices"][0]
        message = choice["message"]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
        return Answer(message["content"] or "", calls, message.get("reasoning_content") or "", choice["finish_reason"])
    if endpoint == RESPONSES:
        def texts(kind):
            return "".join(part["text"] for item in body["output"] if item["type"] == kind for part in item["content"])

        calls = [(item["name"], item["arguments"]) for item in body["output"] if item["type"] == "function_call"]
        return Answer(texts("message"), calls, texts("reasoning"), body["status"])
    texts = "".join(block["text"] for block in body["content"] if block["type"] == "text")
    calls = [(block["name"], json.dumps(block["input"])) for block in body["content"] if block["type"] == "tool_use"]
    thoughts = "".join(block["thinking"] for block in body["content"] if block["type"] == "thinking")
    return Answer(texts, calls, thoughts, body["stop_reason"])


def events(response):
    for line in response:
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


def streamed_chat(response):
    text, reasoning, finish, calls = "", "", None, []
    for event in events(response):
        for choice in event.get("choices", []):
            delta = choice["delta"]
            text += delta.get("content") or ""
            reasoning += delta.get("reasoning_content") or ""
            finish = choice["finish_reason"] or finish
            for call in delta.get("tool_calls") or []:
                if call["index"] == len(calls):
                    calls.append((call["function"]["name"], ""))
                name, arguments = calls[call["index"]]
                calls[call["index"]] = (name, arguments + call["function"].get("arguments", ""))
    return Answer(text, calls, reasoning, finish)


def streamed_message(response):
    blocks, finish = [], None
    for event in events(response):
        if event["type"] == "content_block_start":
            blocks.append([event["content_block"], ""])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            blocks[event["index"]][1] += delta.get("text", "") + delta.get("thinking", "") + delta.get("partial_json", "")
        elif event["type"] == "message_delta":
            finish = event["delta"]["stop_reason"] or finish
    said = {kind: "".join(text for block, text in blocks if block["type"] == kind) for kind in ("text", "thinking")}
    calls = [(block["name"], text or "{}") for block, text in blocks if block["type"] == "tool_use"]
    return Answer(said["text"], calls, said["thinking"], finish)


def streamed(endpoint, response):
    if endpoint == CHAT:
        return streamed_chat(response)
    if endpoint == MESSAGES:
        return streamed_message(response)
    last = [event for event in events(response) if event["type"] in ("response.completed", "response.incomplete")]
    return whole(endpoint, last[-1]["response"])


def ask(base, endpoint, more, seed, streams=False):
    """An Answer, or (status, error)."""
    members = {"max_tokens": 300, "temperature": TEMPERATURES[seed % len(TEMPERATURES)], "seed": seed, **more}
    if endpoint == RESPONSES:
        members["max_output_tokens"] = members.pop("max_tokens")
        members["input"] = f"Ask {seed}."
    else:
        members["messages"] = [{"role": "user", "content": f"Ask {seed}."}]
    if endpoint == MESSAGES:
        members |= {"thinking": {"type": "adaptive"}, "temperature": members["temperature"] / 2}
    if streams:
        members["stream"] = True
    request = urllib.request.Request(base + endpoint, json.dumps(members).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as response:
            return streamed(endpoint, response) if streams else whole(endpoint, json.load(response))
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def is_cut(answer):
    return answer.finish in ("length", "incomplete", "max_tokens")


def fault_of_form(answer, is_answer, closes):
    if is_cut(answer) and not closes:
        return ""
    if answer.calls:
        return "calls"
    try:
        return "" if is_answer(answer.text) else "another form"
    except (ValueError, KeyError, TypeError) as error:
        return f"{error}"


def fault_of_calls(answer, kind, names, least, most):
    if is_cut(answer):
        return ""
    if not least <= len(answer.calls) <= most:
        return "another number of calls"
    for name, arguments in answer.calls:
        if name not in names or not fits(name, arguments, kind):
            return f"{name}: {arguments}"
    if kind == "form" and not answer.calls and not is_record(answer.text):
        return "no form"
    return "text beside calls" if answer.text and (least > 0 or kind == "form" and answer.calls) else ""


def end_of_thought(ids):
    """What makes a network that knows nothing come to an end of its messages, but not in JSON, where that is no text."""
    return {"logit_bias": {str(ids["<|end|>"]): 4}}


def check_forms(base, ids, count):
    seen = collections.Counter()

    def one(seed):
        endpoint, (name, members, is_answer) = ENDPOINTS[seed % 3], FORMS[seed // 3 % len(FORMS)]
        closes, streams = seed // 7 % 2 == 0, seed // 5 % 2 == 0
        more = members(endpoint) | end_of_thought(ids)
        if closes:
            more.setdefault("structured_outputs", {})["close_at_max_tokens"] = True
            more["max_tokens"] = 80 + seed % 160
        return endpoint, name, is_answer, closes, seed, streams, ask(base, endpoint, more, seed, streams)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for endpoint, name, is_answer, closes, seed, streams, answer in pool.map(one, range(count)):
            where = (endpoint, name, closes, seed, streams, answer)
            if not isinstance(answer, Answer):
                expect(False, "every form is taken", where)
            fault = fault_of_form(answer, is_answer, closes)
            if fault:
                expect(False, "an answer has its form", (fault, *where))
            seen["cut"] += is_cut(answer) and not closes
            seen["thought"] += answer.reasoning != ""
            seen["answered at once"] += answer.reasoning == ""
    told = ", ".join(f"{many} {what}" for what, many in sorted(seen.items()))
    expect(seen["cut"] < count / 2 and min(seen["thought"], seen["answered at once"]) > 0, f"{count} answers have their forms ({told})", seen)


def check_calls(base, ids, count):
    seen = collections.Counter()

    def one(seed):
        endpoint, kind = ENDPOINTS[seed % 3], CALLS[seed // 3 % len(CALLS)]
        members, names, least, most = choice_of(endpoint, kind)
        more = {"tools": tools_of(endpoint, strict=kind == "strict"), **members, **end_of_thought(ids)}
        streams = seed // 5 % 2 == 0
        return kind, names, least, most, seed, streams, ask(base, endpoint, more, seed, streams)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for kind, names, least, most, seed, streams, answer in pool.map(one, range(count)):
            where = (kind, seed, streams, answer)
            if not isinstance(answer, Answer):
                expect(False, "every choice of calls is taken", where)
            fault = fault_of_calls(answer, kind, names, least, most)
            if fault:
                expect(False, "calls are what was asked for", (fault, *where))
            seen["cut"] += is_cut(answer)
            seen["thought"] += answer.reasoning != ""
            seen["calls"] += len(answer.calls)
            seen["with several calls"] += len(answer.calls) > 1
            seen["with text"] += answer.text != ""
    told = ", ".join(f"{many} {what}" for what, many in sorted(seen.items()))
    expect(seen["cut"] < count * 2 / 3 and seen["calls"] > count / 3 and seen["with several calls"] > 0,
           f"{count} answers have the calls that were asked for ({told})", seen)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=60, help="of forms, and as many of calls")
    arguments = parser.parse_args()
    if not BINARY.exists():
        skip(f"there is no hydrantd at {BINARY}")
    model = BUILD / "tests" / "system" / "channels"
    ids = channel_model.write(model)
    with ServerProcess(BINARY, model, ["--max-model-len", 2048, "--threads", 2, "--kv-cache-memory-bytes", 64 << 20]) as server:
        check_forms(server.base, ids, arguments.answers)
        check_calls(server.base, ids, arguments.answers)


if __name__ == "__main__":
    main()
