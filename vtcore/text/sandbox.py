"""jinja2's immutable sandbox with a budget: every loop, call, filter, test and operator of a template is counted and bounded.

What chat templates use is there as in transformers: loop controls, `generation` blocks, `tojson` without HTML or ASCII escapes,
`raise_exception`, `strftime_now`, namespaces. Filters that make HTML, wrap lines, or are random are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jinja2
from jinja2 import nodes, pass_context
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro, markup_join
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace
from jinja2.visitor import NodeTransformer

from vtcore.text.amplifiers import BoundedFormatter, before_filter, before_method, before_operator, bounded_format
from vtcore.text.budget import current
from vtcore.text.functions import FUNCTIONS, tojson
from vtcore.text.parts import Parts

REFUSED_FILTERS = ("pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr")
STRING_METHODS = {
    "capitalize", "casefold", "center", "count", "endswith", "expandtabs", "find", "format", "format_map", "index", "isalnum", "isalpha",
    "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "join",
    "ljust", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit",
    "rstrip", "split", "splitlines", "startswith", "strip", "swapcase", "title", "upper", "zfill",
}  # fmt: skip
METHODS: tuple[tuple[type, set[str]], ...] = (
    (str, STRING_METHODS),
    (list, {"copy", "count", "index"}),
    (tuple, {"count", "index"}),
    (dict, {"copy", "get", "items", "keys", "values"}),
    (float, {"is_integer"}),
)
JINJA_OBJECTS = (LoopContext, Macro, Cycler, Joiner, Namespace, jinja2.Undefined)


class GenerationBlocks(Extension):
    """`{% generation %}` marks what the model wrote, for training; for rendering it is its body."""

    tags = {"generation"}  # noqa: RUF012 - declared as jinja2 does

    def parse(self, parser: Parser) -> nodes.Node:
        lineno = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=lineno)


class Metering(NodeTransformer):
    """Puts a counting filter around what jinja2 compiles to plain Python: iteration, literals, slices, comparisons, concatenation."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = self._counted(node.iter, "_each")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._counted(nodes.List(node.nodes, lineno=node.lineno), "_concatenated")

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = self._counted(node.expr, "_compared")
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return self._counted(node, "_made") if isinstance(node.arg, nodes.Slice) else node

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return self._counted(node, "_made") if node.ctx == "load" else node

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return self._counted(node, "_made")

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return self._counted(node, "_made")

    def _counted(self, node: Any, name: str) -> nodes.Filter:
        return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


@pass_context
def _each(context: Context, value: Any) -> Iterable[Any]:
    return current().each(value)


@pass_context
def _made(context: Context, value: Any) -> Any:
    return current().made(value)


@pass_context
def _compared(context: Context, value: Any) -> Any:
    current().step()
    return value


@pass_context
def _concatenated(context: Context, pieces: list[Any]) -> str:
    budget = current()
    budget.fits(sum(budget.weigh(piece) for piece in pieces))
    return str(budget.made(markup_join(pieces) if context.eval_ctx.autoescape else "".join(map(str, pieces))))


@pass_context
def _printed(context: Context, value: Any) -> str:
    current().step()
    current().weigh(value)
    return str(current().made(str(value)))


def _counted_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that counts itself, what it goes through and what it makes."""

    @pass_context
    def run(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        budget = current()
        budget.step(1 + (len(value) >> 2 if isinstance(value, (list, tuple, dict, range)) else 0))
        value = before_filter(name, value, list(args), kwargs)
        return budget.made(function(*_passed(function, context), value, *args, **kwargs))

    return run


def _counted_test(function: Any) -> Callable[..., Any]:
    @pass_context
    def run(context: Context, value: Any, *args: Any) -> Any:
        current().step()
        return function(*_passed(function, context), value, *args)

    return run


def _passed(function: Callable[..., Any], context: Context) -> tuple[Any, ...]:
    """What jinja2 gives a filter or test in front of its arguments, by the mark that its decorators leave."""
    wanted = getattr(getattr(function, "jinja_pass_arg", None), "name", None)
    return {"context": (context,), "eval_context": (context.eval_ctx,), "environment": (context.environment,)}.get(str(wanted), ())


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of all chat templates."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[GenerationBlocks, LoopControlExtension],
            optimized=False,  # nothing runs while a template is compiled, outside of any budget
            finalize=_printed,
        )
        kept = {name: function for name, function in self.filters.items() if name not in REFUSED_FILTERS}
        self.filters = {name: _counted_filter(name, function) for name, function in {**kept, "tojson": tojson}.items()}
        self.filters |= {"_each": _each, "_made": _made, "_compared": _compared, "_concatenated": _concatenated}
        self.tests = {name: _counted_test(function) for name, function in self.tests.items()}
        self.globals = {name: self.globals[name] for name in ("range", "cycler", "joiner")} | FUNCTIONS

    def metered(self, tree: nodes.Template) -> jinja2.Template:
        """The template of a syntax tree, which gets its meters."""
        return jinja2.Template.from_code(self, self.compile(Metering().visit(tree)), self.make_globals(None))

    def concat(self, pieces: Iterable[str]) -> str:
        """Join what a macro, a block or a `set` block printed."""
        budget, out = current(), list(pieces)
        budget.fits(sum(map(len, out)))
        return str(budget.made("".join(out)))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Only what is listed for plain data, and what jinja2's own objects show."""
        for kind, allowed in METHODS:
            if isinstance(obj, kind):
                return attr in allowed
        return isinstance(obj, JINJA_OBJECTS) and super().is_safe_attribute(obj, attr, value)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """An attribute; of content in parts also a string's methods."""
        if isinstance(obj, Parts) and attribute in STRING_METHODS - METHODS[1][1]:
            obj = str(obj)
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`str.format` with bounds."""
        if super().wrap_str_format(value) is None:
            return None
        return bounded_format(lambda: BoundedFormatter(self), value.__self__, value.__name__ == "format_map")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An operator; content in parts reads as its text beside a string."""
        current().step()
        if isinstance(left, Parts) and isinstance(right, str):
            left = str(left)
        if isinstance(right, Parts) and isinstance(left, str):
            right = str(right)
        before_operator(operator, left, right)
        return current().made(super().call_binop(context, operator, left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """A call of a function, a method or a macro."""
        budget = current()
        budget.step()
        given = list(args)
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            given = before_method(owner, __obj.__name__, given, kwargs)
        elif isinstance(__obj, LoopContext) and given:
            given[0] = budget.each(given[0])
        return budget.made(super().call(__context, __obj, *given, **kwargs))
