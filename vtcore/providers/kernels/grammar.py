"""What a body is made of: statements and expressions of C, as far as all targets read them alike, as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from vtcore.providers.kernels.words import BrokenRuleError, Word, words

TYPES = ("float", "int", "uint", "bool")
BEFORE = ("PRECISE", "const")  # may stand before the type of a declaration
STRENGTH = {
    sign: i
    for i, signs in enumerate(("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), 1)
    for sign in signs.split()
}
ASSIGNS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
STEPS = ("++", "--")
DEEPEST = 100  # brackets and statements within each other


@dataclass(eq=False)
class Node:
    """A statement or an expression. `kind` says which: number, name, call, index, unary, binary, choice; set, step, value, declare, block,
    if, for, while, do, return, break, continue, empty, function. `word` is the one that stands for it, `text` all of an expression."""

    kind: str
    word: Word
    parts: list[Node] = field(default_factory=list)
    text: str = ""

    def governed(self) -> tuple[list[Node], Node, list[Node]]:
        """Of if, for, while and do: what comes first, the condition, and what it governs."""
        first = 1 if self.kind == "for" else 0
        return self.parts[:first], self.parts[first], self.parts[first + 1 :]


class Grammar:
    """Reads one text. BrokenRuleError where it is none of the dialect."""

    def __init__(self, text: str) -> None:
        self.text, self._words, self._next, self._depth = text, words(text), 0, 0

    def body(self) -> Node:
        """A kernel's: statements."""
        first = self._now
        return Node("block", first, list(self._until("end")))

    def functions(self) -> list[Node]:
        """Helpers: `parts` are the parameters, each a declaration, and at last the block. The word is the name; `text` the type."""
        found = []
        while self._now.kind != "end":
            found.append(self._function())
        return found

    @property
    def _now(self) -> Word:
        return self._words[self._next]

    def _is(self, *texts: str) -> bool:
        return self._now.text in texts and self._now.kind != "end"

    def _take(self, text: str = "") -> Word:
        word = self._now
        if (text and not self._is(text)) or word.kind == "end":
            raise BrokenRuleError(word.line, f"{text or 'something'} is missing before {word.text}")
        self._next += 1
        return word

    def _name(self) -> Word:
        if self._now.kind != "name":
            raise BrokenRuleError(self._now.line, f"a name is missing before {self._now.text}")
        return self._take()

    def _type(self) -> Word:
        if not self._is(*TYPES):
            raise BrokenRuleError(self._now.line, f"{self._now.text} is no type of the dialect: it has {', '.join(TYPES)}")
        return self._take()

    def _function(self) -> Node:
        self._take("FN")
        type_, name, parts = self._type(), self._name(), list[Node]()
        self._take("(")
        while not self._is(")"):
            parts.append(Node("declare", self._type(), [Node("name", self._name())]))
            if not self._is(")"):
                self._take(",")
        self._take(")")
        return Node("function", name, [*parts, self._block()], type_.text)

    def _block(self) -> Node:
        first = self._take("{")
        block = Node("block", first, list(self._until("}")))
        self._take("}")
        return block

    def _until(self, end: str) -> Iterator[Node]:
        while self._now.text != end if end != "end" else self._now.kind != "end":
            yield self._statement()

    def _statement(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BrokenRuleError(self._now.line, f"more than {DEEPEST} statements or brackets stand in each other")
        made = self._compound() if self._is("{", "if", "for", "while", "do") else self._plain()
        self._depth -= 1
        return made

    def _compound(self) -> Node:
        if self._is("{"):
            return self._block()
        word = self._take()
        return {"if": self._if, "for": self._for, "while": self._while, "do": self._do}[word.text](word)

    def _if(self, word: Word) -> Node:
        parts = [self._condition(), self._statement()]
        if self._is("else"):
            self._take()
            parts.append(self._statement())
        return Node("if", word, parts)

    def _for(self, word: Word) -> Node:
        """Its parts: what comes first, the condition (a value, or empty), the body, and what is done after each turn."""
        self._take("(")
        first = self._declaration() if self._is(*TYPES, *BEFORE) else self._changes(";")
        self._take(";")
        condition = Node("empty", self._now) if self._is(";") else self._expression()
        self._take(";")
        after = self._changes(")")
        self._take(")")
        return Node("for", word, [first, condition, self._statement(), after])

    def _while(self, word: Word) -> Node:
        return Node("while", word, [self._condition(), self._statement()])

    def _do(self, word: Word) -> Node:
        body = self._statement()
        self._take("while")
        made = Node("do", word, [self._condition(), body])
        self._take(";")
        return made

    def _condition(self) -> Node:
        self._take("(")
        condition = self._expression()
        self._take(")")
        return condition

    def _plain(self) -> Node:
        if self._is("break", "continue"):
            made = Node(self._now.text, self._take())
        elif self._is("return"):
            made = Node("return", self._take(), [] if self._is(";") else [self._expression()])
        else:
            made = self._declaration() if self._is(*TYPES, *BEFORE) else self._changes(";")
        self._take(";")
        return made

    def _declaration(self) -> Node:
        """Its parts: for each name that, with its length where it is an array, or with its first value."""
        while self._is(*BEFORE):
            self._take()
        made = Node("declare", self._type())
        while True:
            name = Node("name", self._name())
            if self._is("["):
                name.parts.append(Node("index", self._take(), [self._expression()]))
                self._take("]")
            elif self._is("="):
                name.parts.append(Node("set", self._take(), [self._expression()]))
            made.parts.append(name)
            if not self._is(","):
                return made
            self._take()

    def _changes(self, end: str) -> Node:
        """Assignments, steps and calls between commas; empty before `end`."""
        made = Node("block", self._now)
        while not self._is(end):
            made.parts.append(self._change())
            if not self._is(","):
                break
            self._take()
        return made

    def _change(self) -> Node:
        if self._is(*STEPS):
            return Node("step", self._take(), [self._unary()])
        if self._now.kind == "name" and self._words[self._next + 1].kind == "name":
            raise BrokenRuleError(self._now.line, f"{self._now.text} is no type of the dialect: it has {', '.join(TYPES)}")
        target = self._expression()
        if self._is(*ASSIGNS):
            return Node("set", self._take(), [target, self._expression()])
        return Node("step", self._take(), [target]) if self._is(*STEPS) else Node("value", target.word, [target])

    def _expression(self) -> Node:
        begin = self._now.at
        made = self._binary(1)
        if self._is("?"):
            word = self._take()
            yes = self._expression()
            self._take(":")
            made = Node("choice", word, [made, yes, self._expression()])
        return self._said(made, begin)

    def _binary(self, least: int) -> Node:
        begin = self._now.at
        left = self._unary()
        while self._now.kind == "sign" and STRENGTH.get(self._now.text, 0) >= least:
            sign = self._take()
            left = self._said(Node("binary", sign, [left, self._binary(STRENGTH[sign.text] + 1)]), begin)
        return left

    def _unary(self) -> Node:
        begin = self._now.at
        if self._is("-", "+", "!", "~"):
            return self._said(Node("unary", self._take(), [self._unary()]), begin)
        return self._said(self._primary(), begin)

    def _primary(self) -> Node:
        if self._is("("):
            self._depth += 1
            if self._depth > DEEPEST:
                raise BrokenRuleError(self._now.line, f"more than {DEEPEST} statements or brackets stand in each other")
            made = self._condition()
            self._depth -= 1
            return made
        word = self._now
        if word.kind not in ("number", "name"):
            raise BrokenRuleError(word.line, f"a value is missing before {word.text}")
        made = Node(word.kind, self._take())
        if word.kind == "name" and self._is("("):
            made = Node("call", word, self._arguments())
        elif word.kind == "name" and self._is("["):
            made = Node("index", self._take(), [made, self._expression()])
            self._take("]")
        return made

    def _arguments(self) -> list[Node]:
        self._take("(")
        found = list[Node]()
        while not self._is(")"):
            found.append(self._expression())
            if not self._is(")"):
                self._take(",")
        self._take(")")
        return found

    def _said(self, node: Node, begin: int) -> Node:
        node.text = node.text or " ".join(self.text[begin : self._words[self._next - 1].at + len(self._words[self._next - 1].text)].split())
        return node
