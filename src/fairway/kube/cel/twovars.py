"""Macros of two variables, which the parser lacks, as those of one: `m.all(k, v, p)` asks for `m[k]` itself.

Source: cel-go ext/comprehensions.go (v0.26); Kubernetes' TwoVarComprehensions.
"""

from __future__ import annotations

import re

from fairway.kube.cel.brackets import arguments, closing, receiver_start

_MACRO = re.compile(r"\.(all|exists|existsOne|exists_one|transformList)\(")
_AS_ONE = {"existsOne": "exists_one", "transformList": "map"}
_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*")


def with_one_variable(expression: str, over_lists: bool = False) -> str:
    """The same expression without macros of two variables. `over_lists`: what they run over are lists, by index."""
    found = next((m for m in _MACRO.finditer(expression) if _is_of_two(expression, m)), None)
    if found is None:
        return expression
    opening = found.end() - 1
    end = closing(expression, opening)
    key, value, *rest = arguments(expression[opening + 1 : end])
    start = receiver_start(expression, found.start())
    over = expression[start : found.start()]
    bound = [f"cel.bind({value.strip()}, {over}[{key.strip()}], {part})" for part in rest]
    ranged = f"lists.range(size({over}))" if over_lists or over.startswith("[") else over
    macro = _AS_ONE.get(found[1], found[1])
    made = f"{ranged}.{macro}({key}, {', '.join(bound)})"
    return with_one_variable(f"{expression[:start]}{made}{expression[end + 1 :]}", over_lists)


def _is_of_two(expression: str, match: re.Match[str]) -> bool:
    end = closing(expression, match.end() - 1)
    if end < 0:
        return False
    given = arguments(expression[match.end() : end])
    most = 4 if match[1] == "transformList" else 3
    return 3 <= len(given) <= most and all(_NAME.fullmatch(name) for name in given[:2])
