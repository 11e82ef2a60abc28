"""Anthropic's SDK: messages whole and streamed, tools, counting, a session's turns, and its idea of our errors."""

import json

import anthropic

from client_server import MODEL, check_examples, require, serve

HELLO = [{"role": "user", "content": "Say hello."}]
TOOLS = [{
    "name": "weather", "description": "The weather of a place.",
    "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}]  # fmt: skip
PLACE = {"type": "object", "properties": {"place": {"enum": ["Rome"]}}, "required": ["place"], "additionalProperties": False}
STRICT = [{"name": "weather", "description": "The weather of a place.", "strict": True, "input_schema": PLACE}]
ONE_CALL = {"type": "any", "disable_parallel_tool_use": True}
CALLED = [
    {"role": "user", "content": "How is the weather in Rome?"},
    {"role": "assistant", "content": [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"place": "Rome"}},
    ]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny."}]},
]  # fmt: skip
TURNS = 20
SLACK = 16  # tokens that a turn may compute beside its new ones
EVICTING = {"kv": {"policy": "h2o-plus", "budget": 128}}


def claude_code(client, common, chat, headers, extra, turns=TURNS):
    """A chat in the form in which Claude Code sends it, all of it each time: `chat` names it in `metadata`."""
    history, previous = [], None
    common = common | {"extra_body": common["extra_body"] | extra}
    named = {"user_id": json.dumps({"device_id": "d", "account_uuid": "", "session_id": chat})}
    for turn in range(turns):
        history.append({"role": "user", "content": [
            {"type": "text", "text": f"<system-reminder>Note {turn}.</system-reminder>"},
            {"type": "text", "text": f"Tell me more of number {turn}.", "cache_control": {"type": "ephemeral"}},
        ]})  # fmt: skip
        system = [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1; cch={turn:05x};"},
            {"type": "text", "text": "You help with code.", "cache_control": {"type": "ephemeral"}},
        ]
        answer = client.messages.create(messages=history, system=system, tools=TOOLS, metadata=named, extra_headers=headers, **common)
        history.append({"role": "assistant", "content": [block.to_dict() for block in answer.content]})
        usage = answer.usage
        total = usage.input_tokens + usage.cache_read_input_tokens
        if previous is not None:
            new = total - previous
            require(usage.input_tokens <= new + SLACK, f"{chat}: turn {turn} of Claude Code computes what is new", usage)
        previous = total + usage.output_tokens


def required_call(client, common):
    """A call that has to be, its result, and what is said of it."""
    asked = [{"role": "user", "content": "How is the weather in Rome?"}]
    common = common | {"max_tokens": 64}
    answer = client.messages.create(messages=asked, tools=STRICT, tool_choice=ONE_CALL, **common)
    (call,) = answer.content
    require(answer.stop_reason == "tool_use" and call.name == "weather", "a required call is made", answer)
    require(call.input == {"place": "Rome"}, "with the input of its schema", call)
    with client.messages.stream(messages=asked, tools=STRICT, tool_choice=ONE_CALL, **common) as stream:
        (streamed,) = stream.get_final_message().content
    require((streamed.name, streamed.input) == (call.name, call.input), "a streamed one is the same", streamed)
    asked += [
        {"role": "assistant", "content": [call.to_dict()]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Sunny."}]},
    ]
    said = client.messages.create(messages=asked, tools=STRICT, **common)
    require(said.stop_reason != "tool_use" and said.content[0].text, "its result is answered", said)


def main():
    with serve("--tool-call-parser", "hermes") as server:
        client = anthropic.Anthropic(base_url=server.base, api_key="unused", max_retries=0)
        common = {"model": MODEL, "max_tokens": 8, "extra_body": {"temperature": 0}}

        whole = client.messages.create(messages=HELLO, **common)
        text = whole.content[0].text
        require(whole.role == "assistant" and len(text) > 0, "an answer has text", whole)
        require(whole.stop_reason == "max_tokens" and whole.usage.output_tokens == 8, "it ends with max_tokens", whole)
        require(whole._request_id is not None and whole.id.startswith("msg_"), "it can be named", whole)

        with client.messages.stream(messages=HELLO, **common) as stream:
            streamed = "".join(stream.text_stream)
            message = stream.get_final_message()
        require(streamed == text and message.content[0].text == text, "a stream says the same", (streamed, text))
        require(message.usage.output_tokens == 8 and message.stop_reason == "max_tokens", "with its usage", message)
        total = message.usage.input_tokens + message.usage.cache_read_input_tokens
        counted = client.messages.count_tokens(model=MODEL, messages=HELLO).input_tokens
        require(counted == total == whole.usage.input_tokens + whole.usage.cache_read_input_tokens,
                "tokens are counted as they are used", (counted, total))  # fmt: skip

        answer = client.messages.create(messages=CALLED, tools=TOOLS, system="Be brief.", **common)
        require(len(answer.content) > 0, "calls and results are read", answer)
        with client.messages.stream(messages=CALLED, tools=TOOLS, system="Be brief.", **common) as stream:
            streamed = stream.get_final_message()
        require(streamed.content[0].text == answer.content[0].text, "a stream of that is the same", streamed)
        prefilled = client.messages.create(messages=HELLO + [{"role": "assistant", "content": "Hel"}], **common)
        require(len(prefilled.content) > 0, "an answer is gone on with", prefilled)
        stopped = client.messages.create(messages=HELLO, stop_sequences=[text.strip()[-3:]], **common)
        require(stopped.stop_reason == "stop_sequence", "a stop sequence stops", stopped)

        turns = {"extra_headers": {"X-Session-ID": "chat"}}
        first = client.messages.create(messages=HELLO, **common, **turns)
        more = HELLO + [{"role": "assistant", "content": first.content}, {"role": "user", "content": "And now?"}]
        second = client.messages.create(messages=more, **common, **turns)
        require(second.usage.cache_read_input_tokens >= total, "a turn goes on from its session", second.usage)
        require(second.to_dict()["hydrant"]["turn"] == 2, "and is numbered", second)

        required_call(client, common)
        for policy, extra in (("full", {}), ("evicting", EVICTING)):
            claude_code(client, common, policy, {"X-Claude-Code-Session-Id": policy}, extra)
        claude_code(client, common, "by user_id alone", {}, EVICTING, turns=6)

        for name, kind, fields in (
            ("a bad field", anthropic.BadRequestError, {"extra_body": {"temperature": 3.0}}),
            ("an image", anthropic.BadRequestError, {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}),
            ("too long a prompt", anthropic.BadRequestError, {"messages": [{"role": "user", "content": "a " * 4000}]}),
            ("an unknown model", anthropic.NotFoundError, {"model": "other"}),
        ):
            try:
                client.messages.create(**{"messages": HELLO, **common, **fields})
                require(False, f"{name} is refused")
            except kind as error:
                require(error.body["type"] == "error" and error.request_id, f"{name} is a {kind.__name__}", error.body)
    check_examples("docs/messages.md")


if __name__ == "__main__":
    main()
