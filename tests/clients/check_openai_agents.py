"""OpenAI's Agents SDK: loops of ten calls of a tool over both of its models, on plain history, chains and conversations."""

import asyncio
import typing

import openai
import pydantic
from agents import (
    Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, ToolsToFinalOutputResult, function_tool,
    set_tracing_disabled,
)  # fmt: skip

from client_server import MODEL, require, serve

CALLS = 10
PLACES = ("Rome", "Oslo", "Lima")
SLACK = 32  # tokens that a turn may compute beside its new ones
QUESTION = "How is the weather in Rome, Oslo and Lima?"


class Verdict(pydantic.BaseModel):
    place: typing.Literal[PLACES]
    sunny: bool


class Loop:
    """An agent that has to call its tool, and is done after so many calls."""

    def __init__(self, model, **settings):
        self.asked = []

        @function_tool
        def weather(place: typing.Literal[PLACES]) -> str:
            """The weather of a place."""
            self.asked.append(place)
            return f"In {place} it is sunny."

        def is_done(_context, _results):
            return ToolsToFinalOutputResult(len(self.asked) >= CALLS, f"{len(self.asked)} calls")

        self.agent = Agent(
            "weather", instructions="Be brief.", model=model, tools=[weather], tool_use_behavior=is_done, reset_tool_choice=False,
            model_settings=ModelSettings(temperature=0, max_tokens=64, tool_choice="required", parallel_tool_calls=False, **settings),
        )  # fmt: skip

    async def run(self, streamed=False, **where):
        options = {"input": QUESTION, "max_turns": CALLS + 2, **where}
        if not streamed:
            return await Runner.run(self.agent, **options)
        result = Runner.run_streamed(self.agent, **options)
        async for _event in result.stream_events():
            pass
        return result

    def check(self, result, what):
        require(result.final_output == f"{CALLS} calls", f"{what}: {CALLS} calls are made, one a turn", result.final_output)
        require(len(result.raw_responses) == CALLS, f"{what}: in {CALLS} turns", len(result.raw_responses))
        require(set(self.asked) <= set(PLACES), f"{what}: arguments keep to their schema", self.asked)


def check_cost(result, what):
    """Each turn of a chain computes what is new: the call before, and what came of it."""
    before = None
    for turn, answer in enumerate(result.raw_responses):
        usage = answer.usage
        if before is not None:
            new = usage.input_tokens - before.input_tokens - before.output_tokens
            computed = usage.input_tokens - usage.input_tokens_details.cached_tokens
            require(computed <= new + SLACK, f"{what}: turn {turn} computes what is new", (computed, new))
        before = usage


async def loops(client):
    responses, chat = OpenAIResponsesModel(MODEL, client), OpenAIChatCompletionsModel(MODEL, client)
    said = {}
    for streamed in (False, True):
        how = " streamed" if streamed else ""
        for name, model in (("chat", chat), ("responses", responses)):
            loop = Loop(model, **({"store": False} if model is responses else {}))
            loop.check(await loop.run(streamed), name + how)
            said[name + how] = loop.asked
        loop = Loop(responses)
        result = await loop.run(streamed, auto_previous_response_id=True)
        loop.check(result, "a chain" + how)
        check_cost(result, "a chain" + how)
        said["a chain" + how] = loop.asked
        conversation = await client.conversations.create()
        loop = Loop(responses)
        result = await loop.run(streamed, conversation_id=conversation.id)
        loop.check(result, "a conversation" + how)
        check_cost(result, "a conversation" + how)
        items = [item async for item in client.conversations.items.list(conversation.id, limit=100)]
        require(len(items) == 2 * CALLS, "a conversation has its question, calls, and what came of them but of the last", len(items))
    for name in ("chat", "responses", "a chain"):
        require(said[name] == said[name + " streamed"], f"{name}: a stream asks the same", said)


async def goes_on(client):
    model = OpenAIResponsesModel(MODEL, client)
    settings = ModelSettings(temperature=0, max_tokens=200)
    agent = Agent("ann", model=model, model_settings=settings)
    first = await Runner.run(agent, "I am Ann.")
    second = await Runner.run(agent, "Who am I?", previous_response_id=first.last_response_id)
    usage = second.raw_responses[0].usage
    require(usage.input_tokens > first.raw_responses[0].usage.total_tokens, "a run goes on from the one before", usage)
    verdict = Agent("verdict", model=model, model_settings=settings, output_type=Verdict)
    answer = await Runner.run(verdict, "Is it sunny in Oslo?")
    require(isinstance(answer.final_output, Verdict), "an answer is of the type that was asked for", answer.final_output)
    in_chat = await Runner.run(
        Agent("verdict", model=OpenAIChatCompletionsModel(MODEL, client), model_settings=settings, output_type=Verdict), "Is it sunny in Oslo?"
    )
    require(in_chat.final_output == answer.final_output, "and the same in a chat", in_chat.final_output)


async def main():
    set_tracing_disabled(True)
    with serve("--tool-call-parser", "hermes") as server:
        async with openai.AsyncOpenAI(base_url=server.base + "/v1", api_key="unused", max_retries=0) as client:
            await loops(client)
            await goes_on(client)


if __name__ == "__main__":
    asyncio.run(main())
