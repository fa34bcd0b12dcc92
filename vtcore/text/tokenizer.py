"""The tokenizer of a model: text to ids and back, its special tokens and chat template, one class for every kind of file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vtcore.errors import ArgumentError, TemplateError
from vtcore.text.detokenizer import Detokenizer, checked_id
from vtcore.text.encoder import Encoder
from vtcore.text.pieces import Pieces
from vtcore.text.surrogates import joined
from vtcore.text.template import ChatTemplate


@dataclass(frozen=True)
class Special:
    """What a vocabulary says about its special tokens.

    names: the strings that chat templates know as bos_token, eos_token, ...; ids: those that decoding leaves out; eos: those that end an
    answer."""

    names: Mapping[str, str] = field(default_factory=dict)
    ids: frozenset[int] = frozenset()
    bos: int | None = None
    eos: frozenset[int] = frozenset()


class Tokenizer:
    """Encodes and decodes for one model; `load_tokenizer` makes it.

    bos_id: the token that begins a text, or None. eos_ids: every token that ends an answer, as the tokenizer, generation_config.json and
    the GGUF metadata name them. chat_templates: sources by name; most models have one, "default"."""

    def __init__(self, encoder: Encoder, pieces: Pieces, special: Special, chat_templates: Mapping[str, str] | None = None) -> None:
        self._encoder, self._pieces, self.special = encoder, pieces, special
        self.chat_templates = dict(chat_templates or {})
        self._templates: dict[str, ChatTemplate] = {}

    @property
    def vocab_size(self) -> int:
        """All ids are below it."""
        return self._encoder.size

    @property
    def bos_id(self) -> int | None:
        return self.special.bos

    @property
    def eos_ids(self) -> frozenset[int]:
        return self.special.eos

    @property
    def chat_template(self) -> str | None:
        """The source of the chat template, or None."""
        return self.chat_templates.get("default")

    @cached_property
    def adds_bos(self) -> bool:
        """Whether a prompt gets a BOS in front."""
        return self.bos_id is not None and self._encoder.encode("", add_special_tokens=True)[:1] == [self.bos_id]

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text. Special tokens that are written in it are recognised.

        With `add_special_tokens` the model's own are put around it; a text that begins with BOS already gets no second one. Halves of a
        UTF-16 surrogate pair are joined, a lone half becomes U+FFFD."""
        if not isinstance(text, str):
            raise ArgumentError(f"the text to encode is a {type(text).__name__}; it must be a str")
        ids = self._encoder.encode(joined(text), add_special_tokens)
        doubled = add_special_tokens and ids[:2] == [self.bos_id, self.bos_id] and self.adds_bos
        return ids[1:] if doubled else ids

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of ids. Bytes that are no UTF-8 become U+FFFD; an id that no token has says nothing. Raises ArgumentError for what is no
        list of integers from 0 on."""
        if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
            raise ArgumentError(f"the ids to decode are a {type(ids).__name__}; they must be a list of integers")
        stream = self.stream(skip_special_tokens)
        return "".join([*map(stream.push, ids), stream.finish()])

    def stream(self, skip_special_tokens: bool = True) -> Detokenizer:
        """A decoder for ids that come one by one."""
        return Detokenizer(self._pieces, self.special.ids if skip_special_tokens else frozenset())

    def token_bytes(self, token_id: int) -> bytes:
        """The exact bytes that a token adds inside a text; of a special token those of its name; none for an id that no token has."""
        return self._pieces.of(checked_id(token_id))

    def template(self, chat_template: str | None = None, tools: Sequence[Any] | None = None) -> ChatTemplate:
        """The chat template to use: one by name or source, else the model's own, of several the one for tools if there are any.

        Raises TemplateError where the model has none, ArgumentError for one that is no text."""
        if chat_template is not None and not isinstance(chat_template, str):
            raise ArgumentError(f"chat_template is a {type(chat_template).__name__}; it must be a template's name or source")
        if chat_template is None:
            named = "tool_use" if tools and "tool_use" in self.chat_templates else "default"
            chat_template = self.chat_templates.get(named)
        if chat_template is None:
            names = f"only templates named {', '.join(sorted(self.chat_templates))}" if self.chat_templates else "no chat template"
            raise TemplateError(f"the model has {names}: give one as chat_template, or a prompt as text")
        own = set(self.chat_templates.values())
        source = self.chat_templates.get(chat_template, chat_template)
        template = self._templates.get(source) or ChatTemplate(source, self.special.names)
        return self._templates.setdefault(source, template) if source in own else template

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        **extra: Any,
    ) -> list[int]:
        """The ids of a conversation: the rendered template, with no special tokens but those it writes. `extra` goes to the template."""
        text = self.template(chat_template, tools).render(messages, tools=tools, **extra)
        return self.encode(text, add_special_tokens=False)
