"""Reads tables of test cases out of Go sources: composite literals, and what they name.

Only what tables are made of is understood: literals, names, calls of a few constructors that the caller gives, and
package-level or function-level declarations `name := expression`. Whatever else a function does is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|//[^\n]*|/\*.*?\*/)|(?P<line>\n)|(?P<raw>`[^`]*`)"""
    r"""|(?P<text>"(?:\\.|[^"\\])*")|(?P<rune>'(?:\\.|[^'\\])+')"""
    r"""|(?P<number>\d[\w.]*)|(?P<name>[A-Za-z_]\w*)|(?P<op>:=|\.\.\.|&\^|<<|>>|&&|\|\|"""
    r"""|[-+*/%&|^<>=!]=|\+\+|--|<-|[-+*/%&|^<>=!()\[\]{},;.:?~])""",
    re.DOTALL,
)
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
}
_POWER = {"+": 1, "-": 1, "*": 2, "/": 2}


class Unknown(Exception):
    """A name or form that is not understood."""


@dataclass
class Token:
    kind: str
    text: str


def tokens_of(source: str) -> list[Token]:
    found: list[Token] = []
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or ""
        if kind != "skip" and not (kind == "line" and found and found[-1].kind == "line"):
            found.append(Token(kind, match.group()))
    return found


@dataclass
class Sources:
    """Declarations of a package's files. `calls`: constructors; `maps`: named types that are maps or slices."""

    calls: Mapping[str, Callable[..., Any]]
    maps: Mapping[str, str]
    names: dict[str, list[Token]] = field(default_factory=dict)
    functions: dict[str, list[Token]] = field(default_factory=dict)
    fields: dict[str, list[str]] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    """Values of names that no declaration tells."""
    _values: dict[str, Any] = field(default_factory=dict)

    def read(self, source: str) -> None:
        tokens = tokens_of(source)
        at = 0
        while at < len(tokens):
            word = tokens[at].text
            if word == "func":
                at = self._function(tokens, at)
            elif word in ("var", "const") and tokens[at + 1].text == "(":
                end = _closing(tokens, at + 1)
                self.names |= declared(tokens[at + 2 : end], "=")
                at = end
            elif word == "type" and tokens[at + 2].text == "struct":
                end = _closing(tokens, at + 3)
                self.fields[tokens[at + 1].text] = _struct_fields(tokens[at + 4 : end])
                at = end
            at += 1

    def _function(self, tokens: list[Token], at: int) -> int:
        name = at + 1
        if tokens[name].text == "(":
            receiver = [t.text for t in tokens[name + 1 : _closing(tokens, name)] if t.kind == "name"]
            name = _closing(tokens, name) + 1
            prefix = f"{receiver[-1]}." if receiver else ""
        else:
            prefix = ""
        begin = _closing(tokens, name + 1) if tokens[name + 1].text == "(" else name
        while tokens[begin].text != "{" or tokens[begin - 1].text in ("interface", "struct"):
            begin = _closing(tokens, begin) if tokens[begin].text == "{" else begin
            begin += 1
        end = _closing(tokens, begin)
        self.functions[prefix + tokens[name].text] = tokens[begin + 1 : end]
        return end

    def table(self, function: str, name: str = "", **given: Any) -> Any:
        """The value of a name of a function, or of what it returns."""
        body = self.functions[function]
        local = Scope(self, declared(body, ":="), dict(given))
        if name:
            found = local.lookup(name)
            for tokens in _appended(body, name):
                found = [*found, *local.evaluate(tokens)]
            return found
        at = max(i for i, t in enumerate(body) if t.text == "return")
        return local.evaluate(body[at + 1 :])


def _appended(body: list[Token], name: str) -> list[list[Token]]:
    """What `name = append(name, …...)` adds."""
    found = []
    for i, token in enumerate(body):
        words = [t.text for t in body[i : i + 6]]
        if words == [name, "=", "append", "(", name, ","] and token.kind == "name":
            end = _closing(body, i + 3)
            found.append([t for t in body[i + 6 : end] if t.text != "..."])
    return found


def declared(tokens: list[Token], sign: str) -> dict[str, list[Token]]:
    """`name := expression` at the top of a block, or `name = expression` of a var block."""
    found: dict[str, list[Token]] = {}
    depth, begins = 0, True
    for i, token in enumerate(tokens):
        if token.text in "([{" and token.kind == "op":
            depth += 1
        elif token.text in ")]}" and token.kind == "op":
            depth -= 1
        elif depth == 0 and begins and token.kind == "name":
            names, at = [token.text], i + 1
            while tokens[at : at + 1] and tokens[at].text == "," and tokens[at + 1].kind == "name":
                names.append(tokens[at + 1].text)
                at += 2
            if tokens[at : at + 1] and tokens[at].text == sign:
                found.setdefault(names[0], tokens[at + 1 :])
        begins = token.kind == "line" and depth == 0
    return found


def _closing(tokens: list[Token], at: int) -> int:
    depth = 0
    for i in range(at, len(tokens)):
        if tokens[i].kind == "op" and tokens[i].text in "([{":
            depth += 1
        elif tokens[i].kind == "op" and tokens[i].text in ")]}":
            depth -= 1
            if depth == 0:
                return i
    raise Unknown("a bracket that is not closed")


def _struct_fields(tokens: list[Token]) -> list[str]:
    found: list[str] = []
    depth, begins, pending = 0, True, list[str]()
    for i, token in enumerate(tokens):
        if token.kind == "op" and token.text in "([{":
            depth += 1
        elif token.kind == "op" and token.text in ")]}":
            depth -= 1
        if depth == 0 and begins and token.kind == "name":
            pending.append(token.text)
            if tokens[i + 1].text == ",":
                continue
            found += pending
            pending = []
            begins = False
        if token.kind == "line" and depth == 0:
            begins = True
    return found


@dataclass
class Scope:
    """Names within one function."""

    sources: Sources
    local: dict[str, list[Token]]
    values: dict[str, Any]

    def evaluate(self, tokens: list[Token]) -> Any:
        return _Reader(self, tokens).expression()

    def lookup(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name in self.sources.given:
            return self.sources.given[name]
        if name in self.local:
            value = self.evaluate(self.local[name])
            self.values[name] = value
            return value
        if name in self.sources.names:
            known = self.sources._values
            if name not in known:
                known[name] = Scope(self.sources, {}, {}).evaluate(self.sources.names[name])
            return known[name]
        raise Unknown(name)


class _Reader:
    def __init__(self, scope: Scope, tokens: list[Token]) -> None:
        self.scope, self.tokens, self.at = scope, tokens, 0

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def next(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def skip_lines(self) -> None:
        while self.at < len(self.tokens) and self.tokens[self.at].kind == "line":
            self.at += 1

    def expression(self, power: int = 0) -> Any:
        left = self.unary()
        while self.peek() in _POWER and _POWER[self.peek()] > power:
            sign = self.next().text
            self.skip_lines()
            left = _OPERATORS[sign](left, self.expression(_POWER[sign]))
        return left

    def unary(self) -> Any:
        self.skip_lines()
        sign = self.peek()
        if sign in ("&", "*"):
            self.next()
            return self.unary()
        if sign == "-":
            self.next()
            return -self.unary()
        return self.primary()

    def primary(self) -> Any:
        token = self.tokens[self.at]
        if token.kind == "text":
            self.next()
            return self.rest(_unquoted(token.text))
        if token.kind == "raw":
            self.next()
            return token.text[1:-1]
        if token.kind == "number":
            self.next()
            return float(token.text) if "." in token.text else int(token.text, 0)
        if token.text == "(":
            self.next()
            value = self.expression()
            self.next()
            return self.rest(value)
        if token.text in ("[", "map", "struct"):
            kind = self.type()
            return self.rest(self.composite(kind) if self.peek() == "{" else self.converted())
        if token.text == "func":
            self.next()
            self.at = _closing(self.tokens, self.at) + 1
            while self.peek() != "{":
                self.at += 1
            begin = self.at
            self.at = _closing(self.tokens, self.at) + 1
            return self.function(self.tokens[begin + 1 : self.at - 1])
        name = self.next().text
        while self.peek() == "." and self.tokens[self.at + 1].kind == "name":
            self.next()
            name += f".{self.next().text}"
        return self.named(name)

    def function(self, body: list[Token]) -> Any:
        """What it returns where it is called on the spot; its words otherwise."""
        if self.peek() != "(":
            return {"function": [t.text for t in body if t.kind != "line"]}
        self.arguments()
        scope = Scope(
            self.scope.sources, {**self.scope.local, **declared(body, ":=")}, dict(self.scope.values)
        )
        for at, token in enumerate(body):
            if token.text == "for" and body[at + 2].text == ":=":
                self._loop(scope, body, at)
        at = max(i for i, t in enumerate(body) if t.text == "return")
        return scope.evaluate(body[at + 1 :])

    def _loop(self, scope: Scope, body: list[Token], at: int) -> None:
        """`for i := a; i < b; i++ { name = append(name, …) }`."""
        name, first, last = body[at + 1].text, int(body[at + 3].text), int(body[at + 7].text)
        begin = next(i for i in range(at, len(body)) if body[i].text == "{")
        inside = body[begin + 1 : _closing(body, begin)]
        for number in range(first, last):
            within = Scope(scope.sources, {**scope.local, **declared(inside, ":=")}, {name: number})
            for i, token in enumerate(inside):
                if token.text == "append" and inside[i - 1].text == "=":
                    grown = inside[i - 2].text
                    added = [v for t in _appended(inside, grown) for v in [within.evaluate(t)]]
                    scope.values[grown] = [*scope.lookup(grown), *added]

    def named(self, name: str) -> Any:
        if name in ("nil", "true", "false"):
            return {"nil": None, "true": True, "false": False}[name]
        if self.peek() == "{":
            return self.rest(self.composite(name))
        if self.peek() == "[" and name in self.scope.sources.calls:
            self.at = _closing(self.tokens, self.at) + 1
        if self.peek() == "(":
            return self.rest(self.call(name))
        return self.rest(self.value(name))

    def value(self, name: str) -> Any:
        calls = self.scope.sources.calls
        if name in calls:
            return calls[name]
        first, *others = name.split(".")
        value = self.scope.lookup(first)
        for other in others:
            value = self.member(value, other)
        return value

    def member(self, value: Any, name: str) -> Any:
        if isinstance(value, dict):
            for known in (name, name[:1].lower() + name[1:]):
                if known in value:
                    return value[known]
            if name in ("UID", "Name") and "metadata" in value:
                return value["metadata"].get(name.lower())
        method = self.scope.sources.calls.get(f".{name}")
        if method is None:
            raise Unknown(name)
        return lambda *given: method(value, *given)

    def call(self, name: str) -> Any:
        given = self.arguments()
        if name in ("v1.ResourceName", "string", "types.UID", "int64", "int", "uint64"):
            return given[0]
        return self.value(name)(*given)

    def converted(self) -> Any:
        return self.arguments()[0]

    def rest(self, value: Any) -> Any:
        while True:
            if self.peek() == "." and self.tokens[self.at + 1].kind == "name":
                self.next()
                value = self.member(value, self.next().text)
            elif self.peek() == "(" and callable(value):
                value = value(*self.arguments())
            elif self.peek() == "[":
                self.next()
                at = self.expression()
                self.next()
                value = value[at]
            else:
                return value

    def arguments(self) -> list[Any]:
        self.next()
        found = []
        self.skip_lines()
        while self.peek() != ")":
            value = self.expression()
            if self.peek() == "...":
                self.next()
                found += value
            else:
                found.append(value)
            self.skip_lines()
            if self.peek() == ",":
                self.next()
            self.skip_lines()
        self.next()
        return found

    def type(self) -> str:
        """The words of a type, up to where its literal begins."""
        if self.peek() == "struct":
            self.next()
            end = _closing(self.tokens, self.at)
            fields = _struct_fields(self.tokens[self.at + 1 : end])
            self.at = end + 1
            name = f"struct {' '.join(fields)}"
            self.scope.sources.fields[name] = fields
            return name
        if self.peek() == "*":
            self.next()
            return "*" + self.type()
        if self.peek() == "[":
            end = _closing(self.tokens, self.at)
            self.at = end + 1
            return "[]" + self.type()
        if self.peek() == "map":
            self.next()
            self.next()
            key = self.type()
            self.next()
            return f"map[{key}]{self.type()}"
        name = self.next().text
        while self.peek() == ".":
            self.next()
            name += f".{self.next().text}"
        if self.peek() == "[":
            self.at = _closing(self.tokens, self.at) + 1
        return name

    def composite(self, kind: str) -> Any:
        kind = kind.removeprefix("*")
        shape = self.scope.sources.maps.get(kind, kind)
        self.next()
        pairs: list[tuple[Any, Any]] = []
        values: list[Any] = []
        is_map = shape.startswith("map[")
        inside = shape[2:] if shape.startswith("[]") else _value_type(shape) if is_map else ""
        self.skip_lines()
        while self.peek() != "}":
            if self._is_field(is_map):
                name = self.next().text
                self.next()
                pairs.append((name, self.element("")))
            else:
                value = self.element(inside if not is_map else "")
                if self.peek() == ":":
                    self.next()
                    self.skip_lines()
                    pairs.append((value, self.element(inside)))
                else:
                    values.append(value)
            self.skip_lines()
            if self.peek() == ",":
                self.next()
            self.skip_lines()
        self.next()
        return self.made(kind, shape, pairs, values)

    def _is_field(self, is_map: bool) -> bool:
        here = self.tokens[self.at]
        return not is_map and here.kind == "name" and self.tokens[self.at + 1].text == ":"

    def element(self, kind: str) -> Any:
        self.skip_lines()
        if self.peek() == "{":
            return self.composite(kind)
        return self.expression()

    def made(self, kind: str, shape: str, pairs: list[tuple[Any, Any]], values: list[Any]) -> Any:
        if shape.startswith("[]"):
            return values
        if shape.startswith("map["):
            return dict(pairs)
        fields = self.scope.sources.fields.get(kind) or self.scope.sources.fields.get(kind.rpartition(".")[2])
        found = dict(zip(fields or (), values, strict=False)) if values else dict(pairs)
        made = self.scope.sources.calls.get(f"{kind.rpartition('.')[2]}{{}}")
        return found if made is None else made(*values, **({} if values else found))


def _value_type(shape: str) -> str:
    depth = 0
    for i, letter in enumerate(shape):
        depth += (letter == "[") - (letter == "]")
        if letter == "]" and depth == 0:
            return shape[i + 1 :]
    return ""


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[1:-1])
