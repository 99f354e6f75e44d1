"""Go's text templates, as far as configs of language models use them: fields, if/else, and, or, not, eq, functions.

A member that is not given is nothing, which is false; a member of nothing is an error, as Go's nil pointer is.

Source: Go's text/template; kserve v0.20 config_merge.go (ReplaceVariables).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|\(|\)|[^\s()]+')
_SPECIAL: Final = {
    "ObjectMeta": "metadata",
    "KVCacheOffloading": "kvCacheOffloading",
    "LoRA": "lora",
    "URI": "uri",
}
_OF_META: Final = ("Name", "Namespace", "Labels", "Annotations")
_DEPTH_MOST: Final = 32
_ACTION_MOST: Final = 4096
# Characters of all texts of one tree: an object of the API server is no larger.
_TEXT_MOST: Final = 1_500_000
_NAME_MOST: Final = 63
_MD5: Final = 32
Node = tuple[str, Any, Any, Any]


class TemplateError(ValueError):
    """In the words of Go's template engine, as far as they are ours to say."""


def filled(value: Any, data: Mapping[str, Any]) -> Any:
    """Every text in a tree with its templates carried out. Raises: TemplateError."""
    return _filled(value, data, [_TEXT_MOST])


def _filled(value: Any, data: Mapping[str, Any], left: list[int]) -> Any:
    if isinstance(value, dict):
        return {k: _filled(v, data, left) for k, v in value.items()}
    if isinstance(value, list):
        return [_filled(v, data, left) for v in value]
    return rendered(value, data, left) if isinstance(value, str) and "{{" in value else value


def rendered(text: str, data: Mapping[str, Any], left: list[int] | None = None) -> str:
    """`left`: how many characters may still be said. Raises: TemplateError."""
    nodes, _, end = _parsed(_tokens(text), 0, 0)
    if end:
        raise TemplateError(f"template: config: unexpected {{{{{end}}}}}")
    return _text(nodes, data, [_TEXT_MOST] if left is None else left)


def child_name(parent: str, suffix: str) -> str:
    """Source: knative.dev/pkg/kmeta/names.go (ChildName)."""
    if len(parent) > _NAME_MOST - len(suffix):
        head = _NAME_MOST - _MD5
        if len(suffix) > head:
            digest = hashlib.md5((parent + suffix).encode(), usedforsecurity=False).hexdigest()
            return parent[:head] + digest
        parent = (
            parent[: head - len(suffix)] + hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
        )
    return parent + suffix


def _tokens(text: str) -> list[tuple[str, str]]:
    """("text", …) and ("do", …), spaces trimmed where a dash says so."""
    found: list[tuple[str, str]] = []
    at, trims = 0, False
    while (start := text.find("{{", at)) >= 0:
        end = text.find("}}", start + 2)
        if end == -1 or end - start > _ACTION_MOST:
            raise TemplateError(
                f"template: config: unclosed action, or one of more than {_ACTION_MOST} characters"
            )
        before, action = text[at:start], text[start + 2 : end]
        before = before.lstrip() if trims else before
        found.append(("text", before.rstrip() if action.startswith("-") else before))
        trims = action.endswith("-")
        found.append(("do", action.removeprefix("-").removesuffix("-").strip()))
        at = end + 2
    rest = text[at:]
    return [*found, ("text", rest.lstrip() if trims else rest)]


def _parsed(tokens: list[tuple[str, str]], at: int, depth: int) -> tuple[list[Node], int, str]:
    """Nodes up to an `else` or `end`; where to go on (0: the text is over), and that word."""
    if depth > _DEPTH_MOST:
        raise TemplateError(f"template: config: more than {_DEPTH_MOST} nested actions")
    nodes: list[Node] = []
    while at < len(tokens):
        kind, text = tokens[at]
        at += 1
        if kind == "text":
            nodes.append(("text", text, None, None))
        elif text in ("else", "end"):
            return nodes, at, text
        elif text.startswith("if "):
            then, at, end = _parsed(tokens, at, depth + 1)
            otherwise: list[Node] = []
            if end == "else":
                otherwise, at, end = _parsed(tokens, at, depth + 1)
            if end != "end":
                raise TemplateError("template: config: unexpected EOF")
            nodes.append(("if", text[3:], then, otherwise))
        elif not text.startswith("/*"):
            nodes.append(("do", text, None, None))
    return nodes, 0, ""


def _text(nodes: list[Node], data: Mapping[str, Any], left: list[int]) -> str:
    said = []
    for kind, what, then, otherwise in nodes:
        if kind == "if":
            said.append(_text(then if _value(what, data) else otherwise, data, left))
            continue
        said.append(what if kind == "text" else _said(_value(what, data)))
        left[0] -= len(said[-1])
        if left[0] < 0:
            raise TemplateError(f"template: config: more than {_TEXT_MOST} characters")
    return "".join(said)


def _said(value: Any) -> str:
    if value is None:
        return "<no value>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(expression: str, data: Mapping[str, Any]) -> Any:
    words = _WORD.findall(expression)
    found, rest = _call(words, data, 0)
    if rest:
        raise TemplateError(f'template: config: unexpected "{rest[0]}" in {{{{ {expression} }}}}')
    return found


def _call(words: list[str], data: Mapping[str, Any], depth: int) -> tuple[Any, list[str]]:
    """A function and what stands behind it, or one operand."""
    if depth > _DEPTH_MOST:
        raise TemplateError(f"template: config: more than {_DEPTH_MOST} nested calls")
    if not words:
        raise TemplateError("template: config: missing value for command")
    name, rest = words[0], words[1:]
    if name not in _FUNCTIONS:
        return _operand(words, data, depth)
    given: list[Any] = []
    while rest and rest[0] != ")":
        if (name == "and" and given and not given[-1]) or (name == "or" and given and given[-1]):
            break  # the others are not looked at
        value, rest = _operand(rest, data, depth)
        given.append(value)
    while rest and rest[0] != ")":
        rest = _skipped(rest)
    return _FUNCTIONS[name](given), rest


def _skipped(words: list[str]) -> list[str]:
    open_ = 0
    for i, word in enumerate(words):
        open_ += (word == "(") - (word == ")")
        if open_ == 0:
            return words[i + 1 :]
    return []


def _operand(words: list[str], data: Mapping[str, Any], depth: int) -> tuple[Any, list[str]]:
    word, rest = words[0], words[1:]
    if word == "(":
        found, rest = _call(rest, data, depth + 1)
        if not rest:
            raise TemplateError("template: config: unclosed left paren")
        return found, rest[1:]
    if word[0] in '"`':
        return word[1:-1], rest
    if word in ("nil", "true", "false"):
        return {"nil": None, "true": True, "false": False}[word], rest
    if word.startswith("."):
        return _field(word, data), rest
    if re.fullmatch(r"-?\d{1,18}", word):
        return int(word), rest
    raise TemplateError(f'template: config: function "{word}" not defined')


def _field(path: str, data: Mapping[str, Any]) -> Any:
    found: Any = data
    names = [name for name in path.split(".") if name]
    if names and names[0] in _OF_META:
        names.insert(0, "ObjectMeta")
    for i, name in enumerate(names):
        if not isinstance(found, Mapping):
            raise TemplateError(
                f'template: config: executing "config" at <{path}>: nil pointer evaluating {".".join(names[:i])}.{name}'
            )
        found = found.get(_SPECIAL.get(name, name[:1].lower() + name[1:]), found.get(name))
    return found


def _first(given: list[Any], *, wanted: bool) -> Any:
    return next((value for value in given if bool(value) == wanted), given[-1] if given else None)


def _shutdown(given: list[Any]) -> int:
    """Seconds that vLLM may take, of a pod's grace period less its preStop."""
    pod, pre_stop = (*given, None, 0)[:2]
    grace = (pod or {}).get("terminationGracePeriodSeconds") if isinstance(pod, Mapping) else None
    try:
        grace, stop = 60 if grace is None else int(grace), int(pre_stop or 0)
    except (TypeError, ValueError) as wrong:
        raise TemplateError("template: config: error calling shutdownTimeout: expected integer") from wrong
    return max(grace - stop - min(5, grace), 0)


_FUNCTIONS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "and": lambda given: _first(given, wanted=False),
    "or": lambda given: _first(given, wanted=True),
    "not": lambda given: not (given and given[0]),
    "eq": lambda given: bool(given) and any(given[0] == other for other in given[1:]),
    "ChildName": lambda given: child_name(*(str(one) for one in (*given, "", "")[:2])),
    "shutdownTimeout": _shutdown,
    # Unlike kube: offloading the cache is left out.
    "kvTransferConfig": lambda given: "",
}
