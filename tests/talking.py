"""An LLM that says what it is told to, with a chat template."""

from __future__ import annotations

from tests.tiny import EOS, Bytes
from vtcore.errors import (
    TemplateError,
)
from vtcore.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=20)
SAYS = [32, *b"hello", EOS]  # after a prompt of two tokens: hello


class Template:
    """Renders the last message, for as long as there is one from somebody."""

    def render(self, messages, tools=None, **options):
        if messages[-1]["role"] == "nobody":
            raise TemplateError("nobody may not speak")
        return options.get("prefix", "") + messages[-1]["content"]


class Chatty(Bytes):
    def template(self, chat_template=None, tools=None):
        return Template()
