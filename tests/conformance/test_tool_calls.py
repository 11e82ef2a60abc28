"""Calls of tools that a model writes, in formats that the server knows: whole and streamed.

No small model calls a tool when asked to, so the tokens of each answer are forced: what is tested is what becomes of them.
Calls that are required come from the model itself, which can write nothing else."""

import json

import pytest

from hydrant_server import PROMPT_MARK

PATH = "/v1/chat/completions"
HI = [{"role": "user", "content": f"{PROMPT_MARK} Is it cold in Oslo?"}]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("weather", "clock")]

# Every kind of value; the text of one looks like the end of a call in each of the formats.
ARGUMENTS = {"city": 'Oslo "é" } ] </tool_call>', "days": 3, "near": [0.5, -1, None, True, {"x": {}}], "unit": ""}
CALLS = [("weather", ARGUMENTS), ("clock", {}), ("weather", {"city": "Rome"})]


def hermes(calls):
    written = (json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls)
    return "\n".join(f"<tool_call>\n{one}\n</tool_call>" for one in written)


def llama(calls):
    return "; ".join(json.dumps({"name": name, "parameters": arguments}) for name, arguments in calls)


def mistral(calls):
    return "[TOOL_CALLS]" + json.dumps([{"name": name, "arguments": arguments} for name, arguments in calls])


def mistral_named(calls):
    return "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments)}" for name, arguments in calls)


def deepseek(calls):
    one = "<｜tool▁call▁begin｜>{}<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
    written = "".join(one.format(name, json.dumps(arguments)) for name, arguments in calls)
    return f"<｜tool▁calls▁begin｜>{written}<｜tool▁calls▁end｜>"


def functionary(calls):
    return "".join(f"<function={name}>{json.dumps(arguments)}</function>" for name, arguments in calls)


def hunyuan(calls):
    return "<tool_calls>" + json.dumps([{"name": name, "arguments": arguments} for name, arguments in calls]) + "</tool_calls>"


# The parser of each, and how it writes calls.
FORMATS = {
    "hermes": ("hermes", hermes),
    "llama": ("llama3_json", llama),
    "llama with its tag": ("llama3_json", lambda calls: "<|python_tag|>" + llama(calls)),
    "mistral": ("mistral", mistral),
    "mistral by name": ("mistral_args", mistral_named),
    "deepseek": ("deepseek_v31", deepseek),
    "functionary": ("functionary_v31", functionary),
    "hunyuan": ("hunyuan_a13b", hunyuan),
}


class Model:
    """A server whose answers are ours: chat() has the model write `text`."""

    def __init__(self, server, parser, write):
        self.server, self.parser, self.write = server, parser, write
        self._end = self._tokens("<|im_end|>")

    def _tokens(self, text):
        return self.server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json()["tokens"]

    def _body(self, text, fields):
        ids = self._tokens(text) + self._end
        return {"messages": HI, "tools": TOOLS, "max_tokens": len(ids), "forced_token_ids": ids} | fields

    def whole(self, text, **fields):
        """The choices of a whole answer."""
        response = self.server.post(PATH, self._body(text, fields))
        assert response.status == 200, response.body
        return response.json()["choices"]

    def streamed(self, text, **fields):
        """The one choice of a stream, put together as a client does, its order checked on the way."""
        message = {"role": "assistant", "content": None, "refusal": None}
        calls, finish_reason = [], None
        for chunk in self.server.stream(path=PATH, **self._body(text, fields)):
            (choice,) = chunk["choices"]
            assert finish_reason is None, "a chunk after the last"
            finish_reason = choice["finish_reason"]
            if choice["delta"].get("content"):
                message["content"] = (message["content"] or "") + choice["delta"]["content"]
            for piece in choice["delta"].get("tool_calls", []):
                if piece["index"] == len(calls):  # what begins a call says whose it is
                    calls.append({"id": piece["id"], "type": piece["type"], "function": {"name": "", "arguments": ""}})
                assert piece["index"] == len(calls) - 1, "calls come one after the other"
                for key, value in piece["function"].items():
                    calls[-1]["function"][key] += value
        return {"message": message | ({"tool_calls": calls} if calls else {}), "finish_reason": finish_reason}

    def answers(self, text, **fields):
        """The choice of a whole answer and that of a stream; ids aside they are the same."""
        (whole,) = self.whole(text, **fields)
        streamed = self.streamed(text, **fields)
        assert without_ids(streamed["message"]) == without_ids(whole["message"])
        assert streamed["finish_reason"] == whole["finish_reason"]
        return whole, streamed


def without_ids(message):
    calls = message.get("tool_calls", [])
    return message | {"tool_calls": [{key: call[key] for key in call if key != "id"} for call in calls]}


def said(choice):
    """The calls of a choice, as (name, arguments); each is what the API calls one."""
    for call in choice["message"]["tool_calls"]:
        assert call.keys() == {"id", "type", "function"} and call["type"] == "function"
    functions = [call["function"] for call in choice["message"]["tool_calls"]]
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


def check_text(choice, text):
    """All of `text` is text, and nothing was called."""
    assert choice["message"]["content"] == text
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "stop"


@pytest.fixture(scope="module", params=FORMATS)
def model(request, pool):
    parser, write = FORMATS[request.param]
    # Where there is a dump, of no interest here, tokens may be forced.
    flags = ("--debug-kv-dump", "/dev/null", "--tool-call-parser", parser)
    return Model(pool.kept("--num-gpu-blocks-override", 512, "--max-model-len", 2048, *flags), parser, write)


@pytest.mark.parametrize("count", [1, 3])
def test_calls_are_taken_out_of_the_answer(model, count):
    for choice in model.answers(model.write(CALLS[:count])):
        assert choice["message"]["content"] is None
        assert said(choice) == CALLS[:count]
        assert choice["finish_reason"] == "tool_calls"


def test_no_two_calls_have_the_same_id(model):
    choices = model.whole(model.write(CALLS), n=2) + model.whole(model.write(CALLS)) + [model.streamed(model.write(CALLS))]
    ids = [call["id"] for choice in choices for call in choice["message"]["tool_calls"]]
    assert len(ids) == len(set(ids)) == 12
    if model.parser.startswith("mistral"):
        assert all(len(one) == 9 and one.isalnum() for one in ids), "its templates take no others"


def test_only_the_first_call_where_one_was_asked_for(model):
    for choice in model.answers(model.write(CALLS), parallel_tool_calls=False):
        assert said(choice) == CALLS[:1]
        assert choice["message"]["content"] is None
        assert choice["finish_reason"] == "tool_calls"


def test_text_before_a_call(model):
    text = "Let me look. " + model.write(CALLS[:1])
    for choice in model.answers(text):
        if model.parser == "llama3_json":  # a call is the first thing it says, or none
            check_text(choice, text)
            continue
        assert choice["message"]["content"] == "Let me look. "
        assert said(choice) == CALLS[:1]
        assert choice["finish_reason"] == "tool_calls"


def test_what_does_not_begin_as_a_call_stays_text(model):
    one = model.write([("weather", {"city": "Oslo"})])
    for broken in (one.replace("weather", "bad weather"), one.replace("weather", ""), one.replace('{"city": "Oslo"}', "[1]")):
        for choice in model.answers(broken):
            check_text(choice, broken)


def test_a_call_that_breaks_off_is_there_as_far_as_it_came(model):
    one = model.write([("weather", {"city": "Oslo"})])
    for broken in (one.replace('"Oslo"', ""), one.replace('"Oslo"', '"Oslo'), one[: one.index("Oslo")]):
        for choice in model.answers(broken):
            (call,) = choice["message"]["tool_calls"]
            given, left = call["function"]["arguments"], broken[broken.index('{"city"') :]
            assert call["function"]["name"] == "weather" and given.startswith('{"city": ')
            assert given + (choice["message"]["content"] or "") == left, "what came behind it is text"
            assert choice["finish_reason"] == "stop"


def test_nothing_is_a_call_where_no_tool_was_offered(model):
    text = model.write(CALLS[:1])
    for fields in ({"tools": []}, {"tool_choice": "none"}):
        for choice in model.answers(text, **fields):
            check_text(choice, text)


PLACE = {"enum": ["Oslo", "Rome"]}
STRICT = {
    "name": "weather",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": PLACE, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}
ASKED = [{"type": "function", "function": STRICT}, {"type": "function", "function": {"name": "clock", "parameters": {"enum": [{}]}}}]


def check_call(choice, names):
    ((name, arguments),) = said(choice)
    assert not (choice["message"]["content"] or "").strip()
    assert name in names
    if name == "clock":
        assert arguments == {}
    else:
        assert arguments.keys() == {"city", "days"} and arguments["city"] in PLACE["enum"] and 1 <= arguments["days"] <= 9


def test_a_required_call_is_made(model):
    body = {"messages": HI, "tools": ASKED, "max_tokens": 400, "parallel_tool_calls": False, "n": 3, "seed": 1, "temperature": 1.5}
    for choice in model.server.post(PATH, body | {"tool_choice": "required"}).json()["choices"]:
        check_call(choice, {"weather", "clock"})
        assert choice["finish_reason"] == "tool_calls"
    for name in ("weather", "clock"):
        named = {"type": "function", "function": {"name": name}}
        for choice in model.server.post(PATH, body | {"tool_choice": named, "n": 1}).json()["choices"]:
            check_call(choice, {name})
            assert choice["finish_reason"] == "stop"
