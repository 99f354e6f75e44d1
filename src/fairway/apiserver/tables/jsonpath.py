"""The part of JSONPath that printer columns use: fields, indexes, `[*]`, and filters by one field.

Source: client-go util/jsonpath; apiextensions printer columns (v1.36).
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

_STEP = re.compile(
    r"\.\.|\.?\['(?P<quoted>(?:[^'\\]|\\.)*)'\]|\[\?\(@(?P<left>[\w.\\/-]*)\s*(?P<op>==|!=)\s*(?P<right>[^)]*)\)\]"
    r"|\[(?P<index>-?\d+|\*)\]|\.(?P<name>\*|(?:[^.\[\]\\]|\\.)+)"
)


class Step(NamedTuple):
    """`kind`: field, index, all or filter."""

    kind: str
    name: str = ""
    at: int = 0
    wanted: Any = None
    is_equal: bool = True


class JsonPathError(ValueError):
    """Not a path of this subset."""


@lru_cache(maxsize=1024)
def parse(path: str) -> tuple[Step, ...]:
    """Raises: JsonPathError."""
    steps = []
    at = 0
    text = path if path.startswith((".", "[")) else "." + path
    if text == ".":
        return ()
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or match.group(0) == "..":
            raise JsonPathError(f'unrecognized column definition "{path}"')
        steps.append(_step(match))
        at = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["op"]:
        return Step(
            "filter", match["left"].lstrip("."), wanted=_literal(match["right"]), is_equal=match["op"] == "=="
        )
    if match["index"] is not None:
        return Step("all") if match["index"] == "*" else Step("index", at=int(match["index"]))
    name = match["quoted"] if match["quoted"] is not None else match["name"]
    if name == "*":
        return Step("all")
    return Step("field", re.sub(r"\\(.)", r"\1", name))


def _literal(text: str) -> Any:
    text = text.strip()
    if text[:1] in ("'", '"'):
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


def find(obj: Any, path: str) -> list[Any]:
    """The values at a path; none where a step is missing.

    Raises: JsonPathError.
    """
    values = [obj]
    for step in parse(path):
        values = [found for value in values for found in _follow(value, step)]
    return values


def _follow(value: Any, step: Step) -> list[Any]:
    if step.kind == "field":
        return [value[step.name]] if isinstance(value, dict) and step.name in value else []
    if step.kind == "index":
        fits = isinstance(value, list) and -len(value) <= step.at < len(value)
        return [value[step.at]] if fits else []
    if not isinstance(value, (list, dict)):
        return []
    items = list(value.values()) if isinstance(value, dict) else value
    if step.kind == "all":
        return items
    return [item for item in items if (_field(item, step.name) == step.wanted) is step.is_equal]


def _field(item: Any, name: str) -> Any:
    for part in name.split(".") if name else ():
        item = item.get(part) if isinstance(item, dict) else None
    return item
