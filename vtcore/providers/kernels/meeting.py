"""Where work items of a group wait for each other: all of them must get there."""

from __future__ import annotations

from collections import defaultdict

from vtcore.providers.kernels.grammar import Node
from vtcore.providers.kernels.named import GROUPED, Named
from vtcore.providers.kernels.reading import Reading
from vtcore.providers.kernels.words import BrokenRuleError

LOOPS = ("for", "while", "do")
EVERYBODY = ""  # comes: there is no condition that only some fulfil


class Meetings:
    """Follows what differs among the work items of a group through a body, until nothing new is found; then looks at its barriers.

    A value differs that is made of one that does, or under a condition that does; so does who is still in a loop that some leave early.
    A variable differs no more once all have set it to one value, outside of loops, and nothing behind that makes it differ again."""

    def __init__(self, body: Node, reading: Reading) -> None:
        self.body, self._reading = body, reading
        self._ragged: dict[int, str] = {}  # loops that some leave early, and under which condition
        self._parted = defaultdict[Named, set[int]](set)  # where in the text what makes each variable differ stands
        self._loops: list[tuple[Node, str]] = []
        self._found, self._looks = True, False
        self._return: Node | None = None

    def check(self) -> None:
        """Raises BrokenRuleError for the first barrier that only some may reach."""
        while self._found:
            self._found, self._return = False, None
            self._walk(self.body, EVERYBODY)
        self._looks, self._return = True, None
        self._walk(self.body, EVERYBODY)

    def _walk(self, node: Node, under: str) -> None:
        if node.kind == "if":
            _, condition, rest = node.governed()
            self._meets(condition, under)
            for part in rest:
                self._walk(part, under or self._own(condition))
        elif node.kind in LOOPS:
            self._loop(node, under)
        elif node.kind == "block":
            for part in node.parts:
                self._walk(part, under)
        else:
            self._plain(node, under)

    def _plain(self, node: Node, under: str) -> None:
        if node.kind in ("break", "continue", "return"):
            self._leave(node, under)
        elif node.kind == "declare":
            for name in node.parts:
                self._given(name, name, [value for more in name.parts for value in more.parts], under)
        elif node.kind in ("set", "step"):
            target = node.parts[0]
            self._given(node, target if target.kind == "name" else target.parts[0], [*node.parts[1:], *target.parts[1:]], under)
            self._meets(target, under)
        elif node.kind == "value":
            self._meets(node.parts[0], under)

    def _loop(self, node: Node, under: str) -> None:
        first, condition, rest = node.governed()
        for part in first:
            self._walk(part, under)
        inside = under or self._ragged.get(id(node)) or self._own(condition)
        self._loops.append((node, inside))
        for part in rest:
            self._walk(part, inside)
        self._loops.pop()
        self._meets(condition, inside)

    def _leave(self, node: Node, under: str) -> None:
        """A loop, or with `return` all of them."""
        if node.kind == "return":
            self._return = self._return or node
        elif not self._loops:
            raise BrokenRuleError(node.word.line, f"{node.kind} stands in no loop")
        for loop, inside in self._loops if node.kind == "return" else self._loops[-1:]:
            if under != inside and id(loop) not in self._ragged:
                self._ragged[id(loop)], self._found = under, True

    def _given(self, node: Node, name: Node, values: list[Node], under: str) -> None:
        """A variable, or an element, gets a value by a statement."""
        for value in values:
            self._meets(value, under)
        named, at = self._reading.meant[id(name)], node.word.at
        parted = self._parted[named]
        if named.own and (under or any(map(self._differs, values))):
            self._found |= at not in parted
            parted.add(at)
            named.varies = True
        elif node.word.text == "=" and not (self._loops or named.array) and max(parted, default=at) < at:
            named.varies = False

    def _own(self, condition: Node) -> str:
        """The condition's text, where it differs among the work items."""
        return condition.text if self._differs(condition) else EVERYBODY

    def _differs(self, node: Node) -> bool:
        if node.kind == "call" and node.word.text in GROUPED:
            return False
        named = self._reading.meant.get(id(node))
        return (named is not None and named.varies) or any(map(self._differs, node.parts))

    def _meets(self, node: Node, under: str) -> None:
        """Every barrier in an expression."""
        if node.kind == "call" and node.word.text in GROUPED and self._looks:
            self._come(node, under)
        parts = list(node.parts)
        if parts and (node.kind == "choice" or node.word.text in ("&&", "||")):
            self._meets(parts[0], under)
            under = under or self._own(parts.pop(0))
        for part in parts:
            self._meets(part, under)

    def _come(self, node: Node, under: str) -> None:
        if self._return is not None:
            raise BrokenRuleError(self._return.word.line, "it returns before a barrier, at which the others would wait")
        if under:
            raise BrokenRuleError(
                node.word.line, f"a barrier, GROUP_SUM or GROUP_MAX stands where only some work items come: under ({under[:60]})"
            )
