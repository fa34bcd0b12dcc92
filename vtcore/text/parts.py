"""Message content as a list of parts, for templates that know parts and for those that only know text.

A template that nowhere looks into the content gets its text. In one that does so for some roles, a list still reads as its text wherever it
is used as a string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import nodes

from vtcore.errors import ArgumentError, TemplateError

TEXT_TYPES = (None, "text", "input_text", "output_text")
LOOKING = {"map", "select", "selectattr", "reject", "rejectattr", "list", "first", "last", "join"}


class Parts(list[Any]):
    """The parts of one message's content. As a string they are their text, one part a line."""

    def __str__(self) -> str:
        return "\n".join(map(_text, self))

    def __contains__(self, item: object) -> bool:
        return super().__contains__(item) or (isinstance(item, str) and item in str(self))


def _text(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    if kind not in TEXT_TYPES or not isinstance(part.get("text"), str):
        raise TemplateError(f"the chat template takes text here, and the content has a part of type {kind!r} without text")
    return str(part["text"])


def prepared(messages: Sequence[Mapping[str, Any]], parts: bool) -> list[dict[str, Any]]:
    """Messages as templates expect them: no keys without a value, and content either as Parts or, where those aren't known, as text."""
    if isinstance(messages, (str, Mapping)) or not all(isinstance(m, Mapping) for m in messages):
        raise ArgumentError("messages are a list of dictionaries, each with a 'role' and mostly a 'content'")
    return [{k: _content(k, v, parts) for k, v in message.items() if v is not None} for message in messages]


def _content(key: str, value: Any, parts: bool) -> Any:
    if key != "content" or not isinstance(value, (list, tuple)):
        return value
    return Parts(value) if parts else str(Parts(value))


def looks_into_content(template: nodes.Template) -> bool:
    """Whether a template iterates over, filters or indexes the content of messages, or a name that may hold it.

    What a method makes of it, as `content.split("x")[0]`, is text."""
    known = Known(template)
    loops = [loop.iter for loop in template.find_all(nodes.For)]
    filtered = [f.node for f in template.find_all(nodes.Filter) if f.name in LOOKING and f.node is not None]
    indexed = [g.node for g in template.find_all(nodes.Getitem) if isinstance(g.arg, nodes.Const) and isinstance(g.arg.value, int)]
    return any(map(known.is_content, (*loops, *filtered, *indexed)))


class Known:
    """The names and attributes of a template that may hold content: those assigned from it, and parameters of macros that get it."""

    def __init__(self, template: nodes.Template) -> None:
        self.names, self.attributes = {"content"}, {"content"}
        for _ in range(3):  # through so many assignments
            for assign in template.find_all(nodes.Assign):
                if self.is_content(assign.node):
                    self._assigned(assign.target)
            if any(map(self.is_content, (arg for call in template.find_all(nodes.Call) for arg in call.args))):
                self.names |= {arg.name for macro in template.find_all(nodes.Macro) for arg in macro.args}

    def _assigned(self, target: nodes.Node) -> None:
        if isinstance(target, nodes.NSRef):
            self.attributes.add(target.attr)
        elif isinstance(target, nodes.Name):
            self.names.add(target.name)

    def is_content(self, node: nodes.Node) -> bool:
        """Whether an expression is content as it came: not what a call made of it."""
        if isinstance(node, nodes.Filter):
            return node.node is not None and self.is_content(node.node)
        if isinstance(node, (nodes.CondExpr, nodes.BinExpr)):
            return any(map(self.is_content, node.iter_child_nodes()))
        if isinstance(node, nodes.Getattr):
            return node.attr in self.attributes
        if isinstance(node, nodes.Getitem):
            return isinstance(node.arg, nodes.Const) and node.arg.value in self.attributes
        return isinstance(node, nodes.Name) and node.name in self.names
