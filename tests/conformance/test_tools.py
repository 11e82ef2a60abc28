"""Tool calls, from the tokens that spell them to what a client gets, and back into the next prompt."""

import json

import openai
import pytest

from hydrant_server import SLOW

PATH = "/v1/chat/completions"
HI = [{"role": "user", "content": "How is the weather in Zürich?"}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}]
ARGUMENTS = {"city": "Zürich", "days": 2}
CALL = json.dumps({"name": "get_weather", "arguments": ARGUMENTS}, ensure_ascii=False)

# For each format: how one call is spelled, and how two are.
SPELLED = {
    "hermes": (f"<tool_call>\n{CALL}\n</tool_call>", f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>"),
    "llama3_json": (CALL.replace("arguments", "parameters"), f"{CALL}; {CALL}"),
    "mistral": (f"[TOOL_CALLS] [{CALL}]", f"[TOOL_CALLS] [{CALL}, {CALL}]"),
}
# What Qwen3's does with a conversation, where a call is concerned: it looks into every answer's text.
TEMPLATE = """{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' and '</think>' in m.content %}thought{% endif %}{{ m.content }}
{%- for call in m.tool_calls or [] %}<tool_call>{{ call.function.name }} {{ call.function.arguments | tojson }}</tool_call>{% endfor %}
{%- endfor %}{% for tool in tools or [] %}(has {{ tool.function.name }}){% endfor %}[assistant]"""
# The model says what it is made to say, which is part of a dump that nobody reads here.
FLAGS = ("--num-gpu-blocks-override", 256, "--max-model-len", 512, "--debug-kv-dump", "/dev/null")


@pytest.fixture(scope="module", params=SPELLED)
def spelled(request, pool):
    """A server that reads calls of one format, and the format."""
    return pool.kept(*FLAGS, "--tool-call-parser", request.param), request.param


def ids_of(server, text):
    """An answer that is this text, and its end."""
    tokens = [server.post("/tokenize", {"prompt": part, "add_special_tokens": False}).json()["tokens"] for part in (text, "<|im_end|>")]
    assert len(tokens[1]) == 1
    return sum(tokens, [])


def said(server, text, stream=False, **fields):
    """The message and the reason of such an answer; a streamed one is put together."""
    ids = ids_of(server, text)
    body = {"messages": HI, "tools": TOOLS, "forced_token_ids": ids, "max_tokens": len(ids), "temperature": 0} | fields
    if not stream:
        response = server.post(PATH, body)
        assert response.status == 200, response.body
        choice = response.json()["choices"][0]
        return choice["message"], choice["finish_reason"]
    message, reason = {"content": None, "tool_calls": []}, None
    for chunk in server.stream(path=PATH, **body):
        choice = chunk["choices"][0]
        assert reason is None, "nothing comes behind the reason"
        reason = choice["finish_reason"]
        if choice["delta"].get("content"):
            message["content"] = (message["content"] or "") + choice["delta"]["content"]
        for piece in choice["delta"].get("tool_calls", []):
            if piece["index"] == len(message["tool_calls"]):
                message["tool_calls"].append({"id": piece["id"], "type": piece["type"], "function": {"name": "", "arguments": ""}})
            whole = message["tool_calls"][piece["index"]]["function"]
            whole["name"] += piece["function"].get("name") or ""
            whole["arguments"] += piece["function"].get("arguments") or ""
    return message, reason


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_comes_back_as_one(spelled, stream):
    server, style = spelled
    for text, count in zip(SPELLED[style], (1, 2), strict=True):
        message, reason = said(server, text, stream)
        assert reason == "tool_calls"
        assert not (message["content"] or "").strip(), message
        assert [call["function"]["name"] for call in message["tool_calls"]] == ["get_weather"] * count
        assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == [ARGUMENTS] * count
        assert {call["type"] for call in message["tool_calls"]} == {"function"}
        assert len({call["id"] for call in message["tool_calls"]}) == count


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_call_stays_text(spelled, stream):
    server, style = spelled
    one, two = SPELLED[style]
    broken = one.replace('"days": 2', '"days": ')
    plain = [(broken, {}), ("It is sunny.", {}), (one, {"tools": None}), (one, {"tool_choice": "none"})]
    for text, fields in plain:
        message, reason = said(server, text, stream, **fields)
        assert message["content"] == text and not message.get("tool_calls"), message
        assert reason == "stop"
    message, reason = said(server, two, stream, parallel_tool_calls=False)
    assert len(message["tool_calls"]) == 1 and reason == "tool_calls"


def test_the_sdk_sends_a_call_back_with_its_result(start_server, tmp_path):
    template = tmp_path / "template.jinja"
    template.write_text(TEMPLATE)
    server = start_server(*FLAGS, "--chat-template", template, "--tool-call-parser", "hermes")
    ids = ids_of(server, SPELLED["hermes"][0])
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0, timeout=60 * SLOW) as client:
        model = client.models.list().data[0].id
        fields = {"model": model, "tools": TOOLS, "temperature": 0}
        first = client.chat.completions.create(
            messages=HI, max_tokens=len(ids), extra_body={"forced_token_ids": ids}, **fields
        )
        message = first.choices[0].message
        assert first.choices[0].finish_reason == "tool_calls" and message.content is None
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
        again = client.chat.completions.create(
            messages=[*HI, message, result], max_tokens=1, extra_body={"return_token_ids": True}, **fields
        )
    prompt = server.post("/detokenize", {"tokens": again.choices[0].prompt_token_ids}).json()["prompt"]
    arguments = json.dumps(ARGUMENTS, ensure_ascii=False)
    assert f"[assistant]<tool_call>get_weather {arguments}</tool_call>[tool]sunny(has get_weather)" in prompt
