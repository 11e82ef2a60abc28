"""The OpenAI SDK, unmodified: synchronous, asynchronous, streaming, and its idea of errors."""

import asyncio
import struct

import openai
import pydantic
import pytest

from hydrant_server import API_KEY, ENDLESS, SLOW

BODY = {"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0, timeout=60 * SLOW) as client:
        yield client


@pytest.fixture
def model(client):
    return client.models.list().data[0].id


def test_models(client, model):
    assert client.models.retrieve(model).id == model
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4")


def test_a_completion(client, model):
    answer = client.completions.create(model=model, **BODY)
    assert answer.object == "text_completion"
    assert answer.choices[0].text
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens == 0
    assert answer.system_fingerprint


class Reading(pydantic.BaseModel):
    sensor: str
    value: int


def test_parse_gives_an_object_of_its_class(client, model):
    answer = client.chat.completions.parse(
        model=model, messages=[{"role": "user", "content": "Read it."}], response_format=Reading, max_tokens=60,
        temperature=2, seed=5, extra_body={"structured_outputs": {"close_at_max_tokens": True}},
    )  # fmt: skip
    assert answer.choices[0].finish_reason == "stop"
    assert isinstance(answer.choices[0].message.parsed, Reading)


def test_logprobs_arrive_typed(client, model):
    logprobs = client.completions.create(model=model, logprobs=3, echo=True, **BODY).choices[0].logprobs
    assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == len(logprobs.top_logprobs)
    assert all(len(top) >= 3 for top in logprobs.top_logprobs[1:])


def test_a_stream(client, model):
    whole = client.completions.create(model=model, **BODY)
    stream = client.completions.create(model=model, stream=True, stream_options={"include_usage": True}, **BODY)
    chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == whole.choices[0].text
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == whole.choices[0].finish_reason


def test_extra_body_reaches_the_kv_field(client, model):
    answer = client.completions.create(
        model=model, extra_body={"kv": {"policy": "h2o", "budget": 32}, "kv_report": True}, **BODY
    )
    assert answer.kv["budget"] == 32


def test_many_at_once_asynchronously(server, model):
    async def run():
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x", timeout=120 * SLOW) as client:

            async def one(i):
                stream = await client.completions.create(
                    model=model, prompt=f"Number {i} is", max_tokens=10, temperature=0, stream=True
                )
                return "".join([chunk.choices[0].text async for chunk in stream])

            together = await asyncio.gather(*(one(i) for i in range(8)))
            alone = [await one(i) for i in range(8)]
            return together, alone

    together, alone = asyncio.run(run())
    assert together == alone


def test_errors_become_the_sdks_exceptions(client, keyed_server, model):
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model=model, **BODY | {"max_tokens": -1})
    assert error.value.param == "max_tokens"
    assert error.value.type == "invalid_request_error"
    assert error.value.request_id
    with pytest.raises(openai.NotFoundError) as error:
        client.completions.create(model="gpt-4", **BODY)
    assert error.value.code == "model_not_found"
    with openai.OpenAI(base_url=f"{keyed_server.url}/v1", api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError):
            stranger.models.list()
    with openai.OpenAI(base_url=f"{keyed_server.url}/v1", api_key=API_KEY, max_retries=0) as friend:
        assert friend.models.list().data[0].id == model


def test_leaving_a_stream_early_frees_it(server, client, model):
    stream = client.completions.create(model=model, prompt="Tell me everything.", stream=True, extra_body=ENDLESS)
    for _ in zip(range(3), stream):
        pass
    stream.close()
    client.close()
    server.wait_idle()


def test_embeddings(client, model):
    texts = ["The capital of France is Paris.", "Rain.", "The capital of France is Paris."]
    answer = client.embeddings.create(model=model, input=texts)  # the SDK asks for base64
    vectors = [one.embedding for one in answer.data]
    assert [one.index for one in answer.data] == [0, 1, 2]
    assert answer.usage.total_tokens == answer.usage.prompt_tokens > len(texts)
    assert all(abs(sum(x * x for x in vector) - 1) < 1e-5 for vector in vectors)
    assert vectors[0] == vectors[2] != vectors[1]
    alone = client.embeddings.create(model=model, input=texts[1], encoding_format="float").data[0].embedding
    assert [struct.pack("f", x) for x in alone] == [struct.pack("f", x) for x in vectors[1]], "by itself, and as numbers"
    mean = client.embeddings.create(model=model, input=texts, extra_body={"pooling": "mean"})
    assert mean.data[0].embedding == mean.data[2].embedding != vectors[0]
    for field, value in {"dimensions": 7, "input": ["a", ""]}.items():
        with pytest.raises(openai.BadRequestError) as refused:
            client.embeddings.create(**{"model": model, "input": "a", field: value})
        assert refused.value.param == field
