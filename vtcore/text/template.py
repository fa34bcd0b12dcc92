"""Chat templates: a conversation as the text that a model was trained to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from typing import Any, NamedTuple

import jinja2
from jinja2 import nodes

from vtcore.errors import TemplateError
from vtcore.text.budget import CURRENT, Budget, Limits, measure
from vtcore.text.functions import CLOCK, LONGEST_MESSAGE
from vtcore.text.parts import looks_into_content, prepared
from vtcore.text.sandbox import Sandbox
from vtcore.text.surrogates import joined

LONGEST_SOURCE, MOST_NODES = 1 << 17, 1 << 14  # characters, nodes of the syntax tree; real ones have up to about 50 and 5 thousand


class Compiled(NamedTuple):
    """A template ready to run, and whether it knows content in parts."""

    template: jinja2.Template
    parts: bool


@cache
def _sandbox() -> Sandbox:
    return Sandbox()


class ChatTemplate:
    """A Jinja template with the special tokens that it may name, as `bos_token`.

    It is compiled when it is first used: one that doesn't parse keeps no model from loading, and raises TemplateError then."""

    def __init__(self, source: str, tokens: Mapping[str, str] | None = None, *, limits: Limits | None = None) -> None:
        self.source, self.tokens, self.limits = source, dict(tokens or {}), limits or Limits()

    @cached_property
    def _compiled(self) -> Compiled:
        if len(self.source) > LONGEST_SOURCE:
            raise TemplateError(f"the chat template has {len(self.source)} characters; at most {LONGEST_SOURCE} are allowed")
        try:
            tree = _sandbox().parse(self.source)
            if (count := sum(1 for _ in tree.find_all(nodes.Node))) > MOST_NODES:
                raise TemplateError(f"the chat template has {count} parts; at most {MOST_NODES} are allowed")
            parts = looks_into_content(tree)  # before the tree gets its meters
            return Compiled(_sandbox().metered(tree), parts)
        except TemplateError:
            raise
        except jinja2.TemplateSyntaxError as e:
            raise TemplateError(f"the chat template doesn't parse: {e.message} (line {e.lineno})") from e
        except Exception as e:  # from Python's compiler, for what is nested too deep
            raise TemplateError(f"the chat template can't be compiled: {type(e).__name__}: {e}") from e

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        clock: Callable[[], datetime] = datetime.now,
        **extra: Any,
    ) -> str:
        """The text of a conversation.

        messages: dictionaries with a role and a content, a string or a list of parts; keys without a value are left out. tools: JSON
        schemas. add_generation_prompt: end where the answer begins. clock: what `strftime_now` asks. extra: more variables, as
        enable_thinking; what isn't given is undefined, and false. Raises TemplateError with the template's own message where it refuses
        the conversation, where it is wrong, and where it goes over its budget; ArgumentError for what isn't plain data."""
        compiled = self._compiled
        given = {"messages": messages, "tools": tools, "documents": documents, **extra}
        limits = self.limits.grown(*map(sum, zip(*(measure(value, name) for name, value in given.items()), strict=True)))
        given["messages"] = prepared(messages, compiled.parts)
        variables = {**self.tokens, **given, "add_generation_prompt": add_generation_prompt}
        budget, now = CURRENT.set(Budget(limits)), CLOCK.set(clock)
        try:
            return joined(_run(compiled.template, variables, limits.longest))
        finally:
            CURRENT.reset(budget)
            CLOCK.reset(now)


def _run(template: jinja2.Template, variables: Mapping[str, Any], longest: int) -> str:
    pieces, total = [], 0
    try:
        for piece in template.generate(variables):
            total += len(piece)
            if total > longest:
                raise TemplateError(f"the chat template writes more than {longest} characters")
            pieces.append(piece)
    except TemplateError:
        raise
    except RecursionError as e:
        raise TemplateError("the chat template calls itself too deep") from e
    except Exception as e:
        raise TemplateError(f"the chat template failed: {type(e).__name__}: {str(e)[:LONGEST_MESSAGE]}") from e
    return "".join(pieces)
