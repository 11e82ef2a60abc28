"""pydantic-ai: agents over chat completions, Responses and Anthropic's messages: tools, typed output, streams."""

import asyncio

from anthropic import AsyncAnthropic
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from client_server import ABLE_MODEL, MODEL, require, serve


class Reading(BaseModel):
    """What a thermometer says."""

    city: str
    degrees: int


class City(BaseModel):
    name: str
    country: str
    inhabitants: int


def models(base):
    openai = OpenAIProvider(base_url=base + "/v1", api_key="unused")
    return {
        "chat": OpenAIChatModel(MODEL, provider=openai),
        "responses": OpenAIResponsesModel(MODEL, provider=openai),
        "messages": AnthropicModel(
            MODEL, provider=AnthropicProvider(anthropic_client=AsyncAnthropic(base_url=base, api_key="unused"))
        ),
    }


async def check_text(kind, model, settings):
    agent = Agent(model, model_settings=settings, instructions="Be brief.")
    first = await agent.run("Name a river in France.")
    require(len(first.output) > 0 and first.usage.output_tokens > 0, f"{kind}: an agent answers", first)
    second = await agent.run("And one in Italy?", message_history=first.all_messages())
    require(len(second.output) > 0, f"{kind}: it goes on from its history", second)
    async with agent.run_stream("Name a river in France.") as stream:
        text = await stream.get_output()
    require(text == first.output, f"{kind}: a stream says the same", (text, first.output))


async def check_tool(kind, model, settings):
    # Typed output by a tool: every answer has to be a call, so that no small model only talks of one.
    agent = Agent(model, output_type=Reading, model_settings=settings, instructions="Call temperature first, then final_result.")
    asked = []

    @agent.tool_plain
    def temperature(city: str) -> int:
        """The temperature of a city now, in degrees Celsius."""
        asked.append(city)
        return 21

    answer = await agent.run("How many degrees does Rome have now?")
    require(len(asked) > 0, f"{kind}: a tool is called", answer.all_messages())
    require(answer.output == Reading(city="Rome", degrees=21), f"{kind}: and what it said is in the answer", answer.output)


# Asked by the prompt alone, the third mode there is, a model of this size answers with the schema.
async def check_output(kind, model, settings, mode, output):
    agent = Agent(model, output_type=output, model_settings=settings)
    city = (await agent.run("Tell me of Paris.")).output
    require(isinstance(city, City), f"{kind}: a type holds by {mode}", city)
    async with agent.run_stream("Tell me of Paris.") as stream:
        parts = [part async for part in stream.stream_output(debounce_by=None)]
    require(isinstance(parts[-1], City), f"{kind}: and in a stream", parts[-1:])
    require(mode != "the format" or len(parts) > 1, f"{kind}: which shows parts of it", parts)


async def main():
    settings = {"temperature": 0, "max_tokens": 200}
    with serve(model=ABLE_MODEL) as server:
        for kind, model in models(server.base).items():
            await check_text(kind, model, settings)
            await check_tool(kind, model, settings)
            await check_output(kind, model, settings, "a tool", ToolOutput(City))
            if kind != "messages":  # pydantic-ai sends a schema there to models that it knows by name
                await check_output(kind, model, settings, "the format", NativeOutput(City))


if __name__ == "__main__":
    asyncio.run(main())
