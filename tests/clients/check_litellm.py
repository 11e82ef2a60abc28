"""LiteLLM: completions and chat, whole and streamed, and its idea of our errors; OpenAI's SDK, which it brings: answers of a class."""

import litellm
import openai
import pydantic

from client_server import MODEL, require, serve

PROMPT = "The capital of France is"
MESSAGES = [{"role": "user", "content": "Say hello."}]


class City(pydantic.BaseModel):
    name: str
    people: int
    tags: list[str] = []


def check_parse(base):
    """`parse` sends the class as a schema with `strict`, and reads the answer into one of it."""
    client = openai.OpenAI(base_url=base + "/v1", api_key="unused", max_retries=0)
    asked = {"model": MODEL, "messages": [{"role": "user", "content": "Name a city."}], "temperature": 0,
             "response_format": City, "max_tokens": 60}  # fmt: skip
    closing = {"structured_outputs": {"close_at_max_tokens": True}}
    city = client.chat.completions.parse(**asked, extra_body=closing).choices[0].message.parsed
    require(isinstance(city, City), "an answer is of its class", city)
    with client.chat.completions.stream(**asked, extra_body=closing) as stream:
        streamed = stream.get_final_completion().choices[0].message.parsed
    require(streamed == city, "a streamed one is the same", (streamed, city))


def main():
    with serve() as server:
        check_parse(server.base)
        common = {"api_base": server.base + "/v1", "api_key": "unused", "max_tokens": 8, "temperature": 0}

        whole = litellm.text_completion(model=f"text-completion-openai/{MODEL}", prompt=PROMPT, **common)
        text = whole.choices[0].text
        require(len(text) > 0 and whole.usage.completion_tokens == 8, "a completion has text and usage", whole)
        chunks = litellm.text_completion(
            model=f"text-completion-openai/{MODEL}", prompt=PROMPT, stream=True, **common
        )
        streamed = "".join(chunk.choices[0].text or "" for chunk in chunks)
        require(streamed == text, "a streamed completion is the same", (streamed, text))

        chat = litellm.completion(model=f"openai/{MODEL}", messages=MESSAGES, **common)
        content = chat.choices[0].message.content
        require(chat.choices[0].message.role == "assistant" and len(content) > 0, "a chat answer has content", chat)
        chunks = list(litellm.completion(
            model=f"openai/{MODEL}", messages=MESSAGES, stream=True, stream_options={"include_usage": True}, **common
        ))  # fmt: skip
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        require(streamed == content, "a streamed chat answer is the same", (streamed, content))
        usage = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)]
        require(usage[-1].completion_tokens == chat.usage.completion_tokens, "its usage arrives", usage)

        for name, kind, fields in (
            ("a bad field", litellm.BadRequestError, {"temperature": 3.0}),
            ("too long a prompt", litellm.ContextWindowExceededError, {"messages": [{"role": "user", "content": "a " * 4000}]}),
            ("an unknown model", litellm.NotFoundError, {"model": "openai/other"}),
        ):
            try:
                litellm.completion(**{"model": f"openai/{MODEL}", "messages": MESSAGES, **common, **fields})
                require(False, f"{name} is refused")
            except kind:
                require(True, f"{name} is a {kind.__name__}")


if __name__ == "__main__":
    main()
