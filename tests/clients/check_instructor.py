"""instructor: answers of a class by a schema and by tools, loose and strict; a retry with what was wrong; streams of parts."""

from typing import Literal

import instructor
import openai
from pydantic import BaseModel, ConfigDict, field_validator

from client_server import MODEL, require, serve

MESSAGES = [{"role": "user", "content": "Tell me of Paris."}]
MODES = (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT)


# Only words of a list: the default model ends no string by itself.
class City(BaseModel):
    """A city and what it is like."""

    model_config = ConfigDict(extra="forbid")
    name: Literal["Paris", "Rome", "Berlin"]
    size: Literal["small", "large"]
    capital: bool


class Stubborn(BaseModel):
    """A size, of which the first is never taken."""

    model_config = ConfigDict(extra="forbid")
    size: Literal["small", "large"]

    @field_validator("size")
    @classmethod
    def refuse_once(cls, size):
        seen.append(size)
        if len(seen) == 1:
            raise ValueError("ask again")
        return size


seen = []


def main():
    with serve("--tool-call-parser", "hermes") as server:
        openai_client = openai.OpenAI(base_url=server.base + "/v1", api_key="unused", max_retries=0)
        common = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": 120}
        for mode in MODES:
            create = instructor.from_openai(openai_client, mode=mode).chat.completions
            city = create.create(response_model=City, max_retries=0, **common)
            require(isinstance(city, City), f"{mode.name}: an answer is of its class", city)
            parts = list(create.create_partial(response_model=City, max_retries=0, **common))
            require(None not in parts[-1].model_dump().values(), f"{mode.name}: a stream ends with a whole one", parts[-1:])
            if mode == instructor.Mode.JSON_SCHEMA:
                require(len(parts) > 2, "and comes in parts", parts)
            seen.clear()
            answer = create.create(response_model=Stubborn, max_retries=1, **common)
            require(len(seen) == 2 and answer.size == seen[1], f"{mode.name}: what was wrong is sent, and answered anew", seen)


if __name__ == "__main__":
    main()
