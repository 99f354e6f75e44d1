"""Which small changes could be made to a module, each of them wrong?

A change replaces one expression or statement: a comparison at its boundary or turned round, `and` for `or`, a condition
negated, a number off by one, plus for minus, `min` for `max`, an assignment or a call left out, a part of a merged
mapping left out, `break` for `continue`, a value that is not returned. Messages, types and assertions are left alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Change:
    """`before` becomes `after` between two places of a file (bytes). `line`, `last`: of the statement around it."""

    path: str
    line: int
    last: int
    start: int
    end: int
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}: {_short(self.before)} -> {_short(self.after)}"


def _short(text: str) -> str:
    return " ".join(text.split())


def changes_of(path: str, text: str) -> list[Change]:
    """Every change of a module, in the order of the text."""
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = []
    for statement, node, after in _places(ast.parse(text).body):
        start, end = (
            lines[node.lineno - 1] + node.col_offset,
            lines[_end(node) - 1] + (node.end_col_offset or 0),
        )
        before = text.encode()[start:end].decode()
        last = node.lineno if statement is node else _end(statement)
        found.append(Change(path, statement.lineno, last, start, end, before, after))
    return sorted(set(found), key=lambda change: (change.start, change.end, change.after))


def changed(text: str, change: Change) -> str:
    """The module with the change made."""
    data = text.encode()
    return (data[: change.start] + change.after.encode() + data[change.end :]).decode()


def _end(node: ast.expr | ast.stmt) -> int:
    return node.end_lineno or node.lineno


Place = tuple[ast.stmt, ast.expr | ast.stmt, str]


def _places(body: list[ast.stmt]) -> Iterator[Place]:
    for statement in body:
        if _is_left_alone(statement):
            continue
        yield from _of_statement(statement)
        for expression in _expressions(statement):
            for node, after in _of_expression(expression):
                yield statement, node, f"({after})"
        for inner in _bodies(statement):
            yield from _places(inner)


def _is_left_alone(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.Assert, ast.Raise, ast.Global, ast.Nonlocal)):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return True
    return isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(statement, name, None)
        if inner:
            yield inner
    for handler in getattr(statement, "handlers", ()):
        yield handler.body
    for case in getattr(statement, "cases", ()):
        yield case.body


def _of_statement(statement: ast.stmt) -> Iterator[Place]:
    if isinstance(statement, (ast.Expr, ast.AugAssign)) and not _is_awaited(statement):
        yield statement, statement, "pass"
    elif isinstance(statement, ast.Assign):
        if all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in statement.targets):
            yield statement, statement, "pass"
    elif isinstance(statement, ast.Break):
        yield statement, statement, "continue"
    elif isinstance(statement, ast.Continue):
        yield statement, statement, "break"
    elif isinstance(statement, ast.Return) and statement.value is not None:
        if not isinstance(statement.value, ast.Constant):
            yield statement, statement, "return None"
    elif isinstance(statement, (ast.If, ast.While)):
        yield statement, statement.test, f"(not ({ast.unparse(statement.test)}))"


def _is_awaited(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    return isinstance(value, (ast.Yield, ast.YieldFrom, ast.Await))


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself: not of those in it, nor types, decorators, bases."""
    if isinstance(statement, ast.ClassDef):
        return
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield from statement.args.defaults
        yield from (default for default in statement.args.kw_defaults if default is not None)
        return
    for name, value in ast.iter_fields(statement):
        if name in ("annotation", "body", "orelse", "finalbody", "handlers", "cases", "target", "targets"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.expr):
                yield node
            elif isinstance(node, ast.withitem):
                yield node.context_expr


def _of_expression(node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(node, (ast.JoinedStr, ast.FormattedValue)):
        return
    yield from ((node, after) for after in _afters(node))
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.comprehension):
            yield from _of_expression(child.iter)
            for condition in child.ifs:
                yield condition, f"not ({ast.unparse(condition)})"
                yield from _of_expression(condition)
        elif isinstance(child, ast.keyword):
            # `strict=True` of a zip asserts that both are as long; assertions are left alone.
            if child.arg != "strict":
                yield from _of_expression(child.value)
        elif isinstance(child, ast.expr):
            yield from _of_expression(child)


def _afters(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in _COMPARISONS.get(type(node.ops[0]), ()):
            yield _with(node, "ops", [other()])
    elif isinstance(node, ast.BoolOp):
        yield _with(node, "op", ast.And() if isinstance(node.op, ast.Or) else ast.Or())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield ast.unparse(node.operand)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS and not _is_text(node):
        yield _with(node, "op", _OPERATORS[type(node.op)]())
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield repr(not node.value)
        elif isinstance(node.value, int):
            yield repr(node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield ast.unparse(node.body)
        yield ast.unparse(node.orelse)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Dict):
        for index, key in enumerate(node.keys):
            if key is None and len(node.keys) > 1:
                yield _without(node, index)


def _of_call(node: ast.Call) -> Iterator[str]:
    if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield _with(node, "func", ast.Name(_CALLS[node.func.id]))
    elif isinstance(node.func, ast.Name) and node.func.id == "sorted":
        yield f"list({ast.unparse(node.args[0])})"


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(
        isinstance(side, (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict))
        or (isinstance(side, ast.Constant) and isinstance(side.value, (str, bytes)))
        for side in sides
    )


def _with(node: ast.expr, name: str, value: object) -> str:
    other = copy.copy(node)
    setattr(other, name, value)
    return ast.unparse(other)


def _without(node: ast.Dict, index: int) -> str:
    keys, values = list(node.keys), list(node.values)
    del keys[index], values[index]
    return ast.unparse(ast.Dict(keys, values))
