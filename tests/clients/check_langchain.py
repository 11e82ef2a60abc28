"""LangChain's own integration tests for chat models (langchain-tests), with ChatOpenAI as the model: nothing here asserts."""

import sys

import pytest
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

from client_server import ABLE_MODEL, MODEL, serve


class TestHydrant(ChatModelIntegrationTests):
    """What a model of text can be asked: no pictures, sounds or files."""

    base = None

    @property
    def chat_model_class(self):
        return ChatOpenAI

    @property
    def chat_model_params(self):
        return {
            "model": MODEL, "base_url": self.base, "api_key": "unused", "temperature": 0, "max_tokens": 400,
            "frequency_penalty": 0.5,  # or a small model repeats itself inside of a string
            "max_retries": 0, "stream_usage": True,
        }  # fmt: skip

    @property
    def model_override_value(self):
        return MODEL

    @pytest.mark.xfail(reason="nothing asks for a call here, and a model of this size talks of one instead")
    def test_agent_loop(self, model):
        super().test_agent_loop(model)


def main():
    with serve(model=ABLE_MODEL) as server:
        TestHydrant.base = server.base + "/v1"
        # pytest imports this file again, under a name of its own, unless it is handed the module.
        sys.modules["check_langchain"] = sys.modules["__main__"]
        options = ["-q", "-p", "no:cacheprovider", "-rs", "--asyncio-mode=auto"]
        for scope in ("test", "fixture"):
            options += ["-o", f"asyncio_default_{scope}_loop_scope=module"]
        sys.exit(pytest.main([*options, *sys.argv[1:], __file__]))


if __name__ == "__main__":
    main()
