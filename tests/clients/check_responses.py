"""OpenAI's SDK on /v1/responses: whole and streamed, tools, chains, conversations; and chats whose clients keep the history."""

import hashlib
import json
import pathlib
import tempfile

import openai

from client_server import MODEL, check_examples, require, serve

TOOLS = [{
    "type": "function", "name": "weather", "description": "The weather of a place.", "strict": False,
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}]  # fmt: skip
CALLED = [
    {"role": "user", "content": "How is the weather in Rome?"},
    {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"place": "Rome"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "Sunny."},
]  # fmt: skip
# What the Open Responses schema requires.
MEMBERS = """id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools
tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature reasoning user usage
max_output_tokens max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key conversation""".split()
TURNS = 20
SLACK = 16  # tokens that a turn may compute beside its new ones
EVICTING = {"kv": {"policy": "h2o-plus", "budget": 128}}


def computed(usage):
    return usage.input_tokens - usage.input_tokens_details.cached_tokens


def stateless(client, common):
    hello = client.responses.create(input="Say hello.", store=False, **common)
    raw = hello.to_dict()
    require(hello.output_text and hello.status == "incomplete", "an answer has text, and says that it was cut off", raw)
    require([m for m in MEMBERS if m not in raw] == [], "every member is there", raw)
    require(hello.usage.output_tokens == 8 and hello.store is False, "with its usage", raw)

    events = []
    with client.responses.stream(input="Say hello.", store=False, **common) as stream:
        events = list(stream)
        final = stream.get_final_response() if events[-1].type == "response.completed" else events[-1].response
    require([e.sequence_number for e in events] == list(range(len(events))), "events are numbered")
    require([m for m in MEMBERS if m not in events[0].response.to_dict()] == [], "and the first has the whole object")
    require(final.output_text == hello.output_text, "a stream says the same", (final.output_text, hello.output_text))
    counted = client.responses.input_tokens.count(model=MODEL, input="Say hello.")
    require(counted.input_tokens == hello.usage.input_tokens, "tokens are counted as they are used", counted)

    answer = client.responses.create(input=CALLED, tools=TOOLS, instructions="Be brief.", store=False, **common)
    require(answer.output_text and answer.tools[0].name == "weather", "calls and results are read", answer)
    listed = client.responses.with_raw_response.create(
        input="Hi.", tools=TOOLS + [{"type": "web_search"}], store=False, **common
    )
    require(listed.headers["x-hydrant-tools-not-offered"] == "web_search", "what is not offered is named")
    scored = client.responses.create(input="Hi.", include=["message.output_text.logprobs"], top_logprobs=2, store=False, **common)
    require(len(scored.output[0].content[0].logprobs[0].top_logprobs) == 2, "log-probabilities come where asked for")


def stored(client, other, common):
    first = client.responses.create(input="I am Ann.", metadata={"a": "b"}, **common)
    require(first.store and client.responses.retrieve(first.id).output == first.output, "a response is found again")
    items = client.responses.input_items.list(first.id).data
    require(len(items) == 1 and items[0].content[0].text == "I am Ann.", "and what it was asked", items)
    second = client.responses.create(input="And you?", previous_response_id=first.id, **common)
    require(second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens, "a chain has its past")
    branch = client.responses.create(input="And you?", previous_response_id=first.id, **common)
    require(branch.output_text == second.output_text, "a chain branches", (branch.output_text, second.output_text))
    with_store_off = client.responses.create(input="And you?", previous_response_id=first.id, store=False, **common)
    require(with_store_off.output_text == second.output_text, "also without keeping it")
    third = client.responses.create(input=[{"type": "item_reference", "id": items[0].id}], store=False, **common)
    require(third.usage.input_tokens == first.usage.input_tokens, "an item is referred to", third.usage)
    new_head = client.responses.create(input="And you?", previous_response_id=second.id, instructions="Sing.", **common)
    require(new_head.instructions == "Sing." and new_head.usage.input_tokens > second.usage.input_tokens, "with other instructions, too")
    refused = (
        (openai.NotFoundError, "previous_response_not_found", {"previous_response_id": first.id[:-1] + "x"}),
        (openai.NotFoundError, "previous_response_not_found", {"previous_response_id": "resp_1"}),
        (openai.NotFoundError, "conversation_not_found", {"conversation": "conv_1"}),
        (openai.BadRequestError, "unsupported_item", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}),
        (openai.BadRequestError, "context_length_exceeded", {"input": "a " * 4000}),
    )  # fmt: skip
    for kind, code, fields in refused:
        try:
            client.responses.create(**{"input": "Hi.", **common, **fields})
            require(False, f"{code} is told")
        except kind as error:
            require(error.code == code, f"{code} is told", error.body)
    for use in (other.responses.retrieve, other.responses.delete):
        try:
            use(first.id)
            require(False, "no other tenant finds it")
        except openai.NotFoundError as error:
            require(error.code == "response_not_found", "no other tenant finds it", error.body)
    client.responses.delete(second.id)
    try:
        client.responses.retrieve(second.id)
        require(False, "a response that was deleted is gone")
    except openai.NotFoundError:
        require(client.responses.retrieve(first.id).id == first.id, "a response that was deleted is gone, and it alone")


def chain(client, common, policy, extra):
    previous = None
    for turn in range(TURNS):
        answer = client.responses.create(
            input=f"Tell me more of number {turn}.", previous_response_id=previous and previous.id, **{**common, "extra_body": {**common["extra_body"], **extra}}
        )  # fmt: skip
        if previous is not None:
            new = answer.usage.input_tokens - previous.usage.input_tokens - previous.usage.output_tokens
            require(computed(answer.usage) <= new + SLACK, f"{policy}: turn {turn} of a chain computes what is new", answer.usage)
        previous = answer


def agents(client, common, policy, extra, headers, fields):
    """The whole history each time, as Codex (a header and a key) and Claude Code (a header) send it."""
    history, previous = [], None
    for turn in range(TURNS):
        history.append({"role": "user", "content": f"Tell me more of number {turn}."})
        answer = client.responses.create(
            input=history, store=False, extra_headers=headers, **fields, **{**common, "extra_body": {**common["extra_body"], **extra}}
        )  # fmt: skip
        history += [item.to_dict() for item in answer.output]
        if previous is not None:
            new = answer.usage.input_tokens - previous.usage.input_tokens - previous.usage.output_tokens
            require(computed(answer.usage) <= new + SLACK, f"{policy}: turn {turn} of an agent computes what is new", answer.usage)
        previous = answer


def conversations(client, common):
    made = client.conversations.create(metadata={"a": "b"}, items=[{"type": "message", "role": "user", "content": "I am Ann."}])
    require(client.conversations.retrieve(made.id).metadata == {"a": "b"}, "a conversation is found again")
    first = client.responses.create(input="Who am I?", conversation=made.id, **common)
    require(first.conversation.id == made.id, "a response is in a conversation", first)
    second = client.responses.create(input="And you?", conversation=made.id, **common)
    require(computed(second.usage) < first.usage.input_tokens + SLACK, "which goes on", second.usage)
    items = client.conversations.items.list(made.id, order="asc").data
    require([item.type for item in items] == ["message"] * 5, "and has all items", items)
    added = client.conversations.items.create(made.id, items=[{"type": "message", "role": "user", "content": "Well?"}])
    require(client.conversations.items.retrieve(added.data[0].id, conversation_id=made.id).id == added.data[0].id, "items are added")
    client.conversations.items.delete(added.data[0].id, conversation_id=made.id)
    require(len(client.conversations.items.list(made.id).data) == 5, "and removed")
    require(client.conversations.update(made.id, metadata={"c": "d"}).metadata == {"c": "d"}, "its metadata change")
    third = client.responses.create(input="And now?", conversation=made.id, **common)
    require(third.usage.input_tokens > second.usage.input_tokens, "it goes on after that")
    client.conversations.delete(made.id)
    try:
        client.conversations.retrieve(made.id)
        require(False, "it is deleted")
    except openai.NotFoundError as error:
        require(error.code == "conversation_not_found", "it is deleted", error.body)


def main():
    keys = ("ann", "bob")
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "tenants.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps({
            "tenants": [{"name": key, "api_keys_sha256": [hashlib.sha256(key.encode()).hexdigest()]} for key in keys]
        }))  # fmt: skip
        with serve("--tenants", path) as server:
            client, other = (openai.OpenAI(base_url=server.base + "/v1", api_key=key, max_retries=0) for key in keys)
            common = {"model": MODEL, "max_output_tokens": 8, "temperature": 0, "extra_body": {}}
            stateless(client, common)
            stored(client, other, common)
            for policy, extra in (("full", {}), ("evicting", EVICTING)):
                chain(client, common, policy, extra)
                agents(client, common, policy, extra, {"session-id": policy}, {"prompt_cache_key": policy})
                agents(client, common, policy, extra, {"X-Claude-Code-Session-Id": "c" + policy}, {})
            conversations(client, common)
    check_examples("README.md", "docs/responses.md")


if __name__ == "__main__":
    main()
