"""LiteLLM: completions and chat, whole and streamed, and its idea of our errors."""

import litellm

from client_server import MODEL, require, serve

PROMPT = "The capital of France is"
MESSAGES = [{"role": "user", "content": "Say hello."}]


def main():
    with serve() as server:
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
