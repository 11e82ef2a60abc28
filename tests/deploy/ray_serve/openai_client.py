#!/usr/bin/env python3
"""The `openai` package against a server: `openai_client.py URL`. Exit code 0: it is served as by OpenAI."""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
model = client.models.list().data[0].id
asked = [{"role": "user", "content": "Say something."}]

whole = client.chat.completions.create(model=model, messages=asked, max_tokens=12, temperature=0)
assert whole.usage.completion_tokens > 0 and whole.choices[0].finish_reason in ("length", "stop"), whole

events = list(client.chat.completions.create(model=model, messages=asked, max_tokens=12, temperature=0, stream=True))
said = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
assert said == whole.choices[0].message.content, (said, whole)

first = client.responses.create(model=model, input="Say something.", max_output_tokens=16, temperature=0)
second = client.responses.create(model=model, input="Go on.", previous_response_id=first.id, max_output_tokens=16, temperature=0)
assert second.previous_response_id == first.id and second.usage.input_tokens > first.usage.total_tokens, (first, second)
# A chain is a session: what was said before is not computed again.
assert second.usage.input_tokens_details.cached_tokens > 0, second.usage

with client.responses.stream(model=model, input="And more.", previous_response_id=second.id, max_output_tokens=16) as stream:
    types = [event.type for event in stream]
assert types[0] == "response.created" and types[-1] in ("response.completed", "response.incomplete"), types

talk = client.conversations.create(items=[{"type": "message", "role": "user", "content": "My name is Ada."}])
for text in ("Who am I?", "And who are you?"):
    answer = client.responses.create(model=model, input=text, conversation=talk.id, max_output_tokens=16)
    assert answer.conversation.id == talk.id, answer
assert len(client.conversations.items.list(talk.id).data) == 5
client.conversations.delete(talk.id)

try:
    client.chat.completions.create(model=model, messages=[], max_tokens=1)
except openai.BadRequestError as error:
    assert error.param == "messages", error
else:
    raise AssertionError("no messages are an error")

print(f"openai {openai.__version__}: chats, streams, responses, conversations and errors")
