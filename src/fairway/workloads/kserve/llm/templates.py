"""Go's text templates, as far as configs of language models use them: fields, if/else, and, or, not, eq, functions.

A member that is not given is nothing, which is false; a member of nothing is an error, as Go's nil pointer is.

Source: Go's text/template; kserve v0.20 config_merge.go (ReplaceVariables).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_ACTION: Final = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.S)
_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|\(|\)|[^\s()]+')
_SPECIAL: Final = {
    "ObjectMeta": "metadata",
    "KVCacheOffloading": "kvCacheOffloading",
    "LoRA": "lora",
    "URI": "uri",
}
_OF_META: Final = ("Name", "Namespace", "Labels", "Annotations")
_DEPTH_MOST: Final = 32
_NAME_MOST: Final = 63
_MD5: Final = 32
Node = tuple[str, Any, Any, Any]


class TemplateError(ValueError):
    """In the words of Go's template engine, as far as they are ours to say."""


def filled(value: Any, data: Mapping[str, Any]) -> Any:
    """Every text in a tree with its templates carried out. Raises: TemplateError."""
    if isinstance(value, dict):
        return {k: filled(v, data) for k, v in value.items()}
    if isinstance(value, list):
        return [filled(v, data) for v in value]
    return rendered(value, data) if isinstance(value, str) and "{{" in value else value


def rendered(text: str, data: Mapping[str, Any]) -> str:
    """Raises: TemplateError."""
    nodes, rest, end = _parsed(_tokens(text), 0, 0)
    if end or rest:
        raise TemplateError(f"template: config: unexpected {{{{{end}}}}}")
    return _text(nodes, data)


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
    for match in _ACTION.finditer(text):
        before = text[at : match.start()]
        before = before.lstrip() if trims else before
        found += [("text", before.rstrip() if match[1] else before), ("do", match[2])]
        at, trims = match.end(), bool(match[3])
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


def _text(nodes: list[Node], data: Mapping[str, Any]) -> str:
    said = []
    for kind, what, then, otherwise in nodes:
        if kind == "text":
            said.append(what)
        elif kind == "if":
            said.append(_text(then if _value(what, data) else otherwise, data))
        else:
            found = _value(what, data)
            said.append(
                "<no value>"
                if found is None
                else str(found).lower()
                if found in (True, False)
                else str(found)
            )
    return "".join(said)


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
    grace = 60 if grace is None else int(grace)
    return max(grace - int(pre_stop or 0) - min(5, grace), 0)


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
