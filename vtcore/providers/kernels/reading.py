"""A body read with what it names: the type of every expression, and which declaration every name means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from vtcore.providers.kernels.grammar import TYPES, Node
from vtcore.providers.kernels.named import FIXED, Function, Named, number
from vtcore.providers.kernels.words import BrokenRuleError

WIDER = {("int", "uint"), ("int", "float"), ("uint", "float")}  # what every target converts by itself
ORDER = ("int", "uint", "float")
WHOLE = ("int", "uint")
ZERO = {"int": "0", "uint": "0u", "float": "0.0f"}
LOGIC, COMPARE, BITS = ("&&", "||"), ("<", ">", "<=", ">=", "==", "!="), ("%", "&", "|", "^", "<<", ">>")


class Reading:
    """Of one body or helper. `meant`: by the id of a node, what its name stands for. BrokenRuleError where a target would refuse it."""

    def __init__(self, known: Mapping[str, Named], functions: Mapping[str, Function], gives: str = "nothing") -> None:
        self.functions, self.gives, self.meant = functions, gives, dict[int, Named]()
        self._scopes: list[dict[str, Named]] = [dict(known)]

    def read(self, node: Node) -> None:
        """A statement, or all of them; a block's names end with it."""
        if node.kind in ("if", "for", "while", "do"):
            with self._scope():
                self._branch(node)
        elif node.kind == "block":
            with self._scope():
                self.inside(node)
        elif node.kind == "declare":
            self._declare(node)
        elif node.kind == "return":
            self._return(node)
        elif node.kind in ("set", "step"):
            self._change(node)
        elif node.kind == "value":
            self._called(node)

    def inside(self, block: Node) -> None:
        """The statements of a block, in the scope that is open."""
        for part in block.parts:
            self.read(part)

    def declare(self, name: Node, type_: str, *, array: bool = False) -> None:
        """A variable of the innermost scope."""
        text, line = name.word.text, name.word.line
        if text in self._scopes[-1] or text in self.functions or text in TYPES:
            raise BrokenRuleError(line, f"{text} is declared already, or means something")
        self._scopes[-1][text] = self.meant[id(name)] = Named(type_, array, own=True)

    @contextmanager
    def _scope(self) -> Iterator[None]:
        self._scopes.append({})
        yield
        self._scopes.pop()

    def _branch(self, node: Node) -> None:
        """Its condition is a bool; a statement that it governs has a scope of its own."""
        first, condition, rest = node.governed()
        for part in first:  # in the scope of the loop, also where several names stand between commas
            self.inside(part if part.kind == "block" else Node("block", node.word, [part]))
        if condition.kind != "empty":
            self._bool(condition)
        for part in rest:
            with self._scope():
                self.inside(part if part.kind == "block" else Node("block", node.word, [part]))

    def _declare(self, node: Node) -> None:
        type_ = node.word.text
        for name in node.parts:
            more = name.parts[0] if name.parts else None
            if more is not None and more.kind == "set":
                self._fits(more.parts[0], type_, f"{name.word.text} is {_an(type_)}")
            elif more is not None and self.type(more.parts[0]) not in WHOLE:
                raise BrokenRuleError(name.word.line, f"the length of {name.word.text} is no whole number")
            self.declare(name, type_, array=more is not None and more.kind == "index")

    def _return(self, node: Node) -> None:
        if (self.gives == "nothing") != (not node.parts):
            raise BrokenRuleError(node.word.line, f"it returns {node.parts[0].text if node.parts else 'nothing'}, and gives {self.gives}")
        for value in node.parts:
            self._fits(value, self.gives, f"it gives {_an(self.gives)}")

    def _change(self, node: Node) -> None:
        target = node.parts[0]
        if target.kind not in ("name", "index"):
            raise BrokenRuleError(node.word.line, f"{target.text} is no variable")
        type_ = self.type(target)
        if self.root(target).fixed:
            raise BrokenRuleError(node.word.line, f"{target.text} is the same for all: {FIXED}")
        sign = node.word.text[:-1] if node.kind == "set" else node.word.text[0]
        if node.kind == "step" or sign:
            given = type_ if node.kind == "step" else self._met(sign, node, type_, self.type(node.parts[1]))
            self._same(node, given, type_, f"{target.text} is {_an(type_)}")
        else:
            self._fits(node.parts[1], type_, f"{target.text} is {_an(type_)}")

    def _called(self, node: Node) -> None:
        [call] = node.parts
        if call.kind != "call":
            raise BrokenRuleError(node.word.line, f"{call.text} does nothing")
        self._arguments(call)

    def root(self, target: Node) -> Named:
        """What a name, or an element's, stands for."""
        return self.meant[id(target if target.kind == "name" else target.parts[0])]

    def type(self, node: Node) -> str:
        """Of an expression."""
        if node.kind == "number":
            return number(node.word)
        if node.kind == "name":
            return self._name(node, array=False)
        if node.kind == "index":
            return self._element(node)
        if node.kind == "call":
            return self._value(node)
        return self._operation(node)

    def _operation(self, node: Node) -> str:
        if node.kind == "choice":
            self._bool(node.parts[0])
            left, right = map(self.type, node.parts[1:])
            return left if left == right else self._met("?", node, left, right)
        if node.kind == "unary":
            return self._unary(node)
        if node.word.text in LOGIC:
            for side in node.parts:
                self._bool(side, f" beside {node.word.text}")
            return "bool"
        return self._met(node.word.text, node, *map(self.type, node.parts))

    def _unary(self, node: Node) -> str:
        [of], sign = node.parts, node.word.text
        if sign == "!":
            self._bool(of)
            return "bool"
        type_ = self.type(of)
        if type_ not in (WHOLE if sign == "~" else ORDER):
            raise BrokenRuleError(node.word.line, f"{sign} of {of.text}, which is {_an(type_)}")
        return type_

    def _met(self, sign: str, node: Node, left: str, right: str) -> str:
        """The type that two have together under a sign."""
        if sign in ("==", "!=") and left == right == "bool":
            return "bool"
        allowed = WHOLE if sign in BITS else ORDER
        for type_ in (left, right):
            if type_ not in allowed:
                raise BrokenRuleError(node.word.line, f"{node.text or node.parts[0].text}: {sign} is of numbers, and this is {_an(type_)}")
        if sign in COMPARE:
            return "bool"
        return left if sign in ("<<", ">>") else max(left, right, key=ORDER.index)

    def _name(self, node: Node, *, array: bool) -> str:
        text, line = node.word.text, node.word.line
        if text in ("true", "false"):
            return "bool"
        found = next((scope[text] for scope in reversed(self._scopes) if text in scope), None)
        if found is None:
            raise BrokenRuleError(line, f"nothing is called {text}")
        if found.array != array:
            raise BrokenRuleError(line, f"{text} is {'an array: name an element' if found.array else 'no array'}")
        self.meant[id(node)] = found
        return found.type

    def _element(self, node: Node) -> str:
        array, index = node.parts
        type_ = self._name(array, array=True)
        if self.type(index) not in WHOLE:
            raise BrokenRuleError(node.word.line, f"[{index.text}]: a place is a whole number")
        return type_

    def _value(self, node: Node) -> str:
        gives = self._arguments(node)
        if gives == "nothing":
            raise BrokenRuleError(node.word.line, f"{node.word.text} gives no value")
        return gives

    def _arguments(self, node: Node) -> str:
        name, line = node.word.text, node.word.line
        if name in ("min", "max"):
            return self._least(node)
        if name not in self.functions:
            raise BrokenRuleError(line, f"there is no function {name}")
        takes, gives = self.functions[name]
        if len(node.parts) != len(takes):
            raise BrokenRuleError(line, f"{name} takes {len(takes)} values, and is given {len(node.parts)}")
        for value, type_ in zip(node.parts, takes, strict=True):
            if type_ == "any":
                self.type(value)
            else:
                self._fits(value, type_, f"{name} takes {_an(type_)}", exactly=name.islower() and not name.startswith(("vt_", "fn_")))
        return gives

    def _least(self, node: Node) -> str:
        types = {self.type(value) for value in node.parts}
        if len(node.parts) != 2 or len(types) != 1 or not types < set(ORDER):
            raise BrokenRuleError(
                node.word.line, f"{node.word.text} takes two numbers of one type, and is given {', '.join(sorted(types))}"
            )
        return types.pop()

    def _bool(self, node: Node, where: str = " where a bool belongs") -> None:
        type_ = self.type(node)
        if type_ != "bool":
            said = f"({node.text})" if " " in node.text else node.text
            raise BrokenRuleError(node.word.line, f"{node.text} is a number{where}; compare it, such as {said} > {ZERO[type_]}")

    def _fits(self, node: Node, type_: str, what: str, *, exactly: bool = False) -> None:
        given = self.type(node)
        if exactly and given != type_:
            raise BrokenRuleError(node.word.line, f"{what}, and {node.text} is {_an(given)}: write F32({node.text})")
        self._same(node, given, type_, what)

    def _same(self, node: Node, given: str, type_: str, what: str) -> None:
        if given != type_ and (given, type_) not in WIDER:
            cast = {"float": "F32", "int": "I32", "uint": "U32"}.get(type_)
            way = f": write {cast}({node.text})" if cast and given != "bool" and node.text else ""
            raise BrokenRuleError(node.word.line, f"{what}, and {node.text or 'the result'} is {_an(given)}{way}")


def _an(type_: str) -> str:
    return f"an {type_}" if type_ == "int" else f"a {type_}"
