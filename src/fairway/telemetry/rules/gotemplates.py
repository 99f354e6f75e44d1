"""Texts with Go's template language, as annotations of alerts and messages of Alertmanager have it.

Actions, pipelines, variables, `if`, `with`, `range`, `define`, `template`, comparisons, `printf`, trimming. Functions
are given by whoever uses it. A missing key is empty. What Go would refuse is refused in its words; running time is
bounded.

Source: go text/template (1.24).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from fairway.errors import UserError

Functions = Mapping[str, Callable[..., Any]]
MAX_BYTES: Final = 1 << 20
MAX_STEPS: Final = 100_000
_DEPTH: Final = 50
_ACTION: Final = re.compile(r"\{\{(- )?")
_CLOSE: Final = re.compile(r"(\s+-)?\s*\}\}")
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)|(?P<number>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+))"""
    r"""|(?P<variable>\$\w*)|(?P<field>\.\w+)|(?P<dot>\.(?!\w))|(?P<word>\w+)|(?P<sign>:=|=|\||\(|\)|,))"""
)
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([0-7]{3})|(.))")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_VERB: Final = re.compile(r"%([-+# 0]*)(\d*)(?:\.(\d*))?([a-zA-Z%])")


class TemplateError(UserError):
    """What is wrong with a text, as Go says it."""


class _Token(NamedTuple):
    """`is_glued`: nothing stands between it and the one before."""

    kind: str
    text: str
    is_glued: bool


class _Node(NamedTuple):
    """`kind`: text, action, or the word an action begins with. `pipe`: its tokens; `body`, `other`: nodes inside."""

    kind: str
    text: str = ""
    pipe: tuple[_Token, ...] = ()
    body: tuple[_Node, ...] = ()
    other: tuple[_Node, ...] = ()


class _Loop(Exception):
    """`break` (True) or `continue`."""


def render(text: str, data: Any, functions: Functions, name: str = "text", library: str = "") -> str:
    """`library`: a text whose `define`s are known. Raises: TemplateError."""
    run = _Run({**_BUILTINS, **functions}, name)
    try:
        for source in filter(None, (library, text)):
            nodes = _parsed(source, name)
            run.collect(nodes)
        run.check(nodes)
        out: list[str] = []
        run.nodes(nodes, data, {"$": data}, out)
        return "".join(out)
    except RecursionError:
        raise TemplateError(f"template: {name}: exceeded maximum template depth") from None


def check(text: str, functions: Functions, name: str, variables: Sequence[str] = ()) -> None:
    """Whether it can be read. Raises: TemplateError."""
    run = _Run({**_BUILTINS, **functions}, name)
    nodes = _parsed(text, name)
    run.collect(nodes)
    run.check(nodes, {"$", *variables})


@lru_cache(maxsize=512)
def _parsed(text: str, name: str) -> tuple[_Node, ...]:
    return _Parser(text, name).whole()


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self.text, self.name, self.at = text, name, 0
        self.trims = False

    def fail(self, what: str) -> TemplateError:
        line = self.text.count("\n", 0, min(self.at, len(self.text))) + 1
        return TemplateError(f"template: {self.name}:{line}: {what}")

    def whole(self) -> tuple[_Node, ...]:
        nodes, ended = self.block(0)
        if ended:
            raise self.fail(f"unexpected {{{{{ended}}}}}")
        return nodes

    def block(self, depth: int) -> tuple[tuple[_Node, ...], str]:
        """Nodes up to `end` or `else`, and which it was; empty at the text's end."""
        if depth > _DEPTH:
            raise self.fail("too deep")
        nodes: list[_Node] = []
        while (found := _ACTION.search(self.text, self.at)) is not None:
            self.literal(nodes, self.text[self.at : found.start()], bool(found.group(1)))
            self.at = found.end()
            tokens = self.action()
            if tokens is None:
                continue
            word = tokens[0].text if tokens and tokens[0].kind == "word" else ""
            if word in ("end", "else"):
                self.pending = tokens
                return tuple(nodes), word
            nodes.append(self.node(word, tokens, depth))
        self.literal(nodes, self.text[self.at :], False)
        self.at = len(self.text)
        return tuple(nodes), ""

    def literal(self, nodes: list[_Node], text: str, trims_end: bool) -> None:
        if self.trims:
            text = text.lstrip(" \t\r\n")
        if trims_end:
            text = text.rstrip(" \t\r\n")
        self.trims = False
        if text:
            nodes.append(_Node("text", text))

    def action(self) -> list[_Token] | None:
        """Its tokens; None of a comment."""
        if self.text.startswith("/*", self.at):
            end = self.text.find("*/", self.at)
            close = re.compile(r"\s*(-)?\}\}").match(self.text, end + 2) if end >= 0 else None
            if close is None:
                raise self.fail("unclosed comment")
            self.trims, self.at = bool(close.group(1)), close.end()
            return None
        tokens: list[_Token] = []
        while (ended := _CLOSE.match(self.text, self.at)) is None:
            found = _TOKEN.match(self.text, self.at)
            if found is None or self.text[self.at :].lstrip(" \t\r\n")[:1] == "":
                rest = self.text[self.at :].lstrip()
                raise self.fail(f"unexpected {rest[:1]!r} in command" if rest else "unclosed action")
            assert found.lastgroup is not None
            kind, at = found.lastgroup, self.at
            tokens.append(_Token(kind, found.group(kind), found.start(kind) == at))
            self.at = found.end()
        self.trims, self.at = bool(ended.group(1)), ended.end()
        if not tokens:
            raise self.fail("missing value for command")
        return tokens

    def node(self, word: str, tokens: list[_Token], depth: int) -> _Node:
        if word in ("break", "continue"):
            return _Node(word)
        if word in ("if", "with", "range", "define", "block"):
            if len(tokens) < 2:
                raise self.fail(f"missing value for {word}")
            body, ended = self.block(depth + 1)
            other: tuple[_Node, ...] = ()
            if ended == "else":
                rest = self.pending[1:]
                if rest and rest[0].text in ("if", "with"):
                    other = (self.node(rest[0].text, rest, depth + 1),)
                    return _Node(word, "", tuple(tokens[1:]), body, other)
                other, ended = self.block(depth + 1)
            if ended != "end":
                raise self.fail("unexpected EOF")
            return _Node(word, "", tuple(tokens[1:]), body, other)
        return _Node("template" if word == "template" else "action", "", tuple(tokens[word == "template" :]))


class _Run:
    """One rendering: what is defined, and how many steps are left."""

    def __init__(self, functions: Functions, name: str) -> None:
        self.functions, self.name = functions, name
        self.defined: dict[str, tuple[_Node, ...]] = {}
        self.left, self.bytes = MAX_STEPS, 0

    def fail(self, what: str) -> TemplateError:
        return TemplateError(f"template: {self.name}: {what}")

    def collect(self, nodes: Sequence[_Node]) -> None:
        for node in nodes:
            if node.kind in ("define", "block"):
                self.defined[_unquoted(node.pipe[0].text)] = node.body
                self.collect(node.body)

    def check(self, nodes: Sequence[_Node], known: set[str] | None = None) -> None:
        """Functions and variables that are not there are refused before anything is written, as Go does."""
        known = {"$"} if known is None else known
        for node in nodes:
            inside = set(known) if node.kind not in ("action",) else known
            for place, token in enumerate(node.pipe if node.kind != "define" else ()):
                following = [t.text for t in node.pipe[place + 1 : place + 4]]
                if token.kind == "word" and token.text not in (
                    *self.functions,
                    "true",
                    "false",
                    "nil",
                    "and",
                    "or",
                ):
                    raise TemplateError(f'template: {self.name}:1: function "{token.text}" not defined')
                if token.kind == "variable":
                    if (
                        ":=" in following[:1]
                        or following[:1] == [","]
                        or (place and node.pipe[place - 1].text == ",")
                    ):
                        inside.add(token.text)
                    elif token.text not in inside:
                        raise TemplateError(f'template: {self.name}:1: undefined variable "{token.text}"')
            self.check(node.body, {"$"} if node.kind == "define" else inside)
            self.check(node.other, set(known))

    def nodes(self, nodes: Sequence[_Node], dot: Any, variables: dict[str, Any], out: list[str]) -> None:
        for node in nodes:
            self.left -= 1
            if self.left < 0 or self.bytes > MAX_BYTES:
                raise self.fail("the text grows without an end")
            match node.kind:
                case "text":
                    self.write(out, node.text)
                case "action":
                    value, declares = self.pipeline(node.pipe, dot, variables)
                    if not declares:
                        self.write(out, shown(value))
                case "if":
                    inner = dict(variables)
                    value, _ = self.pipeline(node.pipe, dot, inner)
                    self.nodes(node.body if is_true(value) else node.other, dot, inner, out)
                    _keep(variables, inner)
                case "with":
                    inner = dict(variables)
                    value, _ = self.pipeline(node.pipe, dot, inner)
                    found = is_true(value)
                    self.nodes(node.body if found else node.other, value if found else dot, inner, out)
                    _keep(variables, inner)
                case "range":
                    self.loop(node, dot, variables, out)
                case "template" | "block":
                    name = _unquoted(node.pipe[0].text)
                    if name not in self.defined:
                        raise self.fail(f'template "{name}" not defined')
                    rest = node.pipe[1:]
                    value = self.pipeline(rest, dot, variables)[0] if rest else None
                    self.nodes(self.defined[name], value, {"$": value}, out)
                case "break" | "continue":
                    raise _Loop(node.kind == "break")

    def write(self, out: list[str], text: str) -> None:
        self.bytes += len(text)
        out.append(text)

    def loop(self, node: _Node, dot: Any, variables: dict[str, Any], out: list[str]) -> None:
        pipe = node.pipe
        cut = next((i for i, t in enumerate(pipe) if t.text == ":="), -1)
        names = [t.text for t in pipe[:cut] if t.kind == "variable"] if cut > 0 else []
        value, _ = self.pipeline(pipe[cut + 1 :], dot, variables)
        if isinstance(value, Mapping):
            pairs = [(key, value[key]) for key in sorted(value)]
        elif isinstance(value, int) and not isinstance(value, bool):
            pairs = [(i, i) for i in range(min(value, MAX_STEPS))]
        elif isinstance(value, list | tuple):
            pairs = list(enumerate(value))
        elif value is None:
            pairs = []
        else:
            raise self.fail(f"range can't iterate over {shown(value)}")
        if not pairs:
            self.nodes(node.other, dot, dict(variables), out)
        for key, item in pairs:
            inner = dict(variables)
            if len(names) == 2:
                inner[names[0]], inner[names[1]] = key, item
            elif names:
                inner[names[0]] = item
            try:
                self.nodes(node.body, item, inner, out)
            except _Loop as ended:
                if ended.args[0]:
                    break
            finally:
                _keep(variables, inner, names)

    def pipeline(self, pipe: Sequence[_Token], dot: Any, variables: dict[str, Any]) -> tuple[Any, bool]:
        """Its value, and whether it only sets a variable."""
        target = ""
        if len(pipe) > 1 and pipe[0].kind == "variable" and pipe[1].text in (":=", "="):
            target, pipe = pipe[0].text, pipe[2:]
        value: Any = None
        for place, command in enumerate(_split(pipe, self)):
            value = self.command(command, dot, variables, [value] if place else [])
        if target:
            variables[target] = value
        return value, bool(target)

    def command(self, tokens: Sequence[_Token], dot: Any, variables: dict[str, Any], piped: list[Any]) -> Any:
        if not tokens:
            raise self.fail("missing value for command")
        first = tokens[0]
        if first.kind == "word" and first.text not in ("true", "false", "nil"):
            return self.call(first.text, tokens[1:], dot, variables, piped)
        values = self.operands(tokens, dot, variables)
        if len(values) > 1 or piped:
            raise self.fail(f"can't give argument to non-function {first.text}")
        return values[0]

    def call(
        self, name: str, tokens: Sequence[_Token], dot: Any, variables: dict[str, Any], piped: list[Any]
    ) -> Any:
        self.left -= 1
        if self.left < 0:
            raise self.fail("the text grows without an end")
        values = self.operands(tokens, dot, variables) + piped
        if name in ("and", "or"):
            for value in values:
                if is_true(value) is (name == "or"):
                    return value
            return values[-1] if values else None
        if name not in self.functions:
            raise TemplateError(f'template: {self.name}:1: function "{name}" not defined')
        try:
            return self.functions[name](*values)
        except TemplateError:
            raise
        except TypeError:
            raise self.fail(f"wrong number or type of args for {name}: {len(values)}") from None
        except (ValueError, ArithmeticError, LookupError, AttributeError) as wrong:
            raise self.fail(f"error calling {name}: {wrong}") from None

    def operands(self, tokens: Sequence[_Token], dot: Any, variables: dict[str, Any]) -> list[Any]:
        values: list[Any] = []
        at = 0
        while at < len(tokens):
            kind, text, _ = tokens[at]
            at += 1
            if kind == "string":
                value: Any = _unquoted(text)
            elif kind == "number":
                value = int(text) if text.lstrip("+-").isdecimal() else float(text)
            elif kind == "variable":
                if text not in variables:
                    raise TemplateError(f'template: {self.name}:1: undefined variable "{text}"')
                value = variables[text]
            elif kind == "dot":
                value = dot
            elif kind == "field":
                value = self.field(dot, text[1:])
            elif text == "(":
                end = _closing(tokens, at, self)
                value, _ = self.pipeline(tokens[at:end], dot, variables)
                at = end + 1
            elif kind == "word":
                value = (
                    {"true": True, "false": False, "nil": None}[text]
                    if text in ("true", "false", "nil")
                    else self.call(text, (), dot, variables, [])
                )
            else:
                raise self.fail(f"unexpected <{text}> in operand")
            while at < len(tokens) and tokens[at].kind == "field" and tokens[at].is_glued:
                value = self.field(value, tokens[at].text[1:])
                at += 1
            values.append(value)
        return values

    def field(self, value: Any, name: str) -> Any:
        if isinstance(value, Mapping):
            return value.get(name, "")
        if value is None:
            raise self.fail(f"nil data; no entry for key {name!r}")
        if not name.startswith("_") and name[:1].isupper() and hasattr(value, name):
            found = getattr(value, name)
            return found() if callable(found) else found
        raise self.fail(f"can't evaluate field {name} in type {type_name(value)}")


def _keep(outer: dict[str, Any], inner: dict[str, Any], hidden: Sequence[str] = ()) -> None:
    """Variables of an outer block that an inner one has set."""
    for name in outer:
        if name not in hidden:
            outer[name] = inner[name]


def _split(pipe: Sequence[_Token], run: _Run) -> list[list[_Token]]:
    commands: list[list[_Token]] = [[]]
    depth = 0
    for token in pipe:
        if token.text in ("(", ")") and token.kind == "sign":
            depth += 1 if token.text == "(" else -1
            if depth < 0:
                raise run.fail("unexpected right paren")
        if token.kind == "sign" and token.text == "|" and not depth:
            commands.append([])
        else:
            commands[-1].append(token)
    return commands


def _closing(tokens: Sequence[_Token], at: int, run: _Run) -> int:
    depth = 1
    for place in range(at, len(tokens)):
        if tokens[place].kind == "sign" and tokens[place].text in ("(", ")"):
            depth += 1 if tokens[place].text == "(" else -1
            if not depth:
                return place
    raise run.fail("unclosed left paren")


def _unquoted(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]

    def of(found: re.Match[str]) -> str:
        code = found.group(1) or found.group(2)
        if code:
            return chr(int(code, 16))
        if found.group(3):
            return chr(int(found.group(3), 8))
        return _ESCAPES.get(found.group(4), found.group(4))

    return _ESCAPE.sub(of, text[1:-1])


def is_true(value: Any) -> bool:
    """Neither false, 0, empty nor nothing."""
    return bool(value)


def type_name(value: Any) -> str:
    return {bool: "bool", int: "int", float: "float64", str: "string"}.get(type(value), type(value).__name__)


def shown(value: Any) -> str:
    """As Go's fmt.Print writes it."""
    match value:
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case float():
            return float_text(value)
        case datetime():
            fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
            return f"{value:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"
        case Mapping():
            return "map[" + " ".join(f"{shown(k)}:{shown(value[k])}" for k in sorted(value)) + "]"
        case list() | tuple():
            return "[" + " ".join(map(shown, value)) + "]"
        case _:
            return str(value)


def float_text(value: float, form: str = "") -> str:
    """`%v` of Go, or a verb with its precision (`.4g`)."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    if form:
        return format(value, form)
    mantissa, _, exponent = f"{value:.17e}".partition("e")
    digits, _, power = repr(float(value)).partition("e")
    at = int(exponent) if value else 0
    if -4 <= at < 21:
        # Go's shortest digits, and an exponent from a million on.
        if at >= 6 and len(digits.replace(".", "").strip("-").rstrip("0")) <= 21:
            significant = digits.replace(".", "").lstrip("-0").rstrip("0") or "0"
            sign = "-" if value < 0 else ""
            tail = f".{significant[1:]}" if len(significant) > 1 else ""
            return f"{sign}{significant[0]}{tail}e+{at:02d}"
        text = format(value, ".20f") if power else digits
        return digits.removesuffix(".0") if not power else text.rstrip("0").rstrip(".")
    base = digits.removesuffix(".0")
    return f"{base}e{int(power):+03d}" if power else f"{mantissa}e{at:+03d}"


def sprintf(form: str, *values: Any) -> str:
    """Go's Sprintf, for the verbs that texts use."""
    given = list(values)

    def of(found: re.Match[str]) -> str:
        flags, width, precision, verb = found.groups()
        if verb == "%":
            return "%"
        if not given:
            return f"%!{verb}(MISSING)"
        value = given.pop(0)
        text = _verb(verb, value, precision, flags)
        space = min(int(width or 0), 1000)
        if "-" in flags:
            return text.ljust(space)
        return text.zfill(space) if "0" in flags else text.rjust(space)

    out = _VERB.sub(of, form)
    if given:
        extra = ", ".join(f"{type_name(v)}={shown(v)}" for v in given)
        out += f"%!(EXTRA {extra})"
    return out


def _verb(verb: str, value: Any, precision: str | None, flags: str) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    digits = min(int(precision), 100) if precision else (0 if precision == "" else None)
    plus = "+" if "+" in flags and is_number and value >= 0 else ""
    if verb == "v":
        return plus + shown(value)
    if verb == "s" and isinstance(value, str):
        return value if digits is None else value[:digits]
    if verb == "q" and isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if verb == "t" and isinstance(value, bool):
        return shown(value)
    if verb in "dxob" and isinstance(value, int) and not isinstance(value, bool):
        return plus + format(value, verb)
    if verb in "eEfFgG" and isinstance(value, float):
        if verb == "g" and digits is None:
            return plus + float_text(value)
        return plus + float_text(value, f".{6 if digits is None else digits}{verb}")
    return f"%!{verb}({type_name(value)}={shown(value)})"


def _compared(name: str, test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(a: Any, b: Any) -> bool:
        kinds = [
            ("number" if isinstance(v, int | float) and not isinstance(v, bool) else type(v).__name__)
            for v in (a, b)
        ]
        if kinds[0] != kinds[1] or (kinds[0] == "number" and isinstance(a, int) != isinstance(b, int)):
            raise ValueError("incompatible types for comparison")
        return test(a, b)

    return compare


def _equal(a: Any, *others: Any) -> bool:
    return any(_compared("eq", lambda x, y: bool(x == y))(a, b) for b in others)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(key, "")
        else:
            value = value[key]
    return value


_BUILTINS: Final[Functions] = {
    "eq": _equal,
    "ne": _compared("ne", lambda a, b: bool(a != b)),
    "lt": _compared("lt", lambda a, b: bool(a < b)),
    "le": _compared("le", lambda a, b: bool(a <= b)),
    "gt": _compared("gt", lambda a, b: bool(a > b)),
    "ge": _compared("ge", lambda a, b: bool(a >= b)),
    "not": lambda v: not is_true(v),
    "len": len,
    "index": _index,
    "print": lambda *v: "".join(map(shown, v)),
    "println": lambda *v: " ".join(map(shown, v)) + "\n",
    "printf": sprintf,
    "html": lambda *v: "".join(map(shown, v)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
}
