"""Programs to values: one set of names bound once, many expressions evaluated on it, within a budget.

Source: apiserver pkg/admission/plugin/cel/activation.go, condition.go, pkg/apis/cel/config.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fairway.admission.cel.compiling import Error, Program
from fairway.kube.memos import memo

OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"

_TOO_MUCH = "operation cancelled: actual cost limit exceeded"

PER_CALL_LIMIT = 1_000_000
"""Cost units one expression may use. Source: pkg/apis/cel/config.go PerCallLimit."""

BUDGET = 10_000_000
"""Cost units all expressions of one policy and binding may use together. Source: RuntimeCELCostBudget."""

# The interpreter counts no cost, so work is bounded before it starts: iterations of the deepest nest of
# comprehensions over the largest list or map there is. One iteration is worth what Kubernetes charges for a
# short body.
# Unlike kube: an estimate from above instead of the cost that was spent; small objects never notice.
COST_PER_ITERATION = 5


class Evaluation:
    """Names bound to values. `bind` adds one for later expressions (`variables.x`). `left`: of the budget."""

    def __init__(self, names: Mapping[str, Any], budget: int = BUDGET) -> None:
        self._names = dict(names)
        self._largest = -1
        self.left = budget

    def bind(self, name: str, value: Any) -> None:
        self._names[name] = value
        if self._largest >= 0:
            self._largest = max(self._largest, largest(value))

    def evaluate(self, program: Program) -> Any:
        """The value, as plain Python data; or an `Error`."""
        cost = COST_PER_ITERATION * self._most_members() ** program.loops if program.loops else 1
        if cost > PER_CALL_LIMIT:
            return Error(_TOO_MUCH, "budget")
        if cost > self.left:
            return Error(OUT_OF_BUDGET, "budget")
        self.left -= cost
        # Handing a value over costs more than most expressions do: only what is named is handed over.
        used = {name: self._names[name] for name in program.uses if name in self._names}
        return _value_of(program, used)

    def _most_members(self) -> int:
        if self._largest < 0:
            sized = (v for name, v in self._names.items() if name not in _NEVER_LARGE)
            self._largest = max((_largest_known(v) for v in sized), default=0)
        return self._largest


def _value_of(program: Program, names: dict[str, Any]) -> Any:
    try:
        value = program.compiled.eval(data=names)
        if value.type().name() == "ERROR":
            return Error(runtime_words(str(value.value())), "runtime")
        return value.plain_value()
    except (RuntimeError, TypeError, ValueError) as refused:
        return Error(runtime_words(str(refused)), "runtime")


# What the server itself puts together.
_NEVER_LARGE = frozenset(("request", "namespaceObject", "authorizer", "authorizer.requestResource"))

# Sizes of objects by identity, the object kept alive beside: every policy looks at the same one.
_SIZES: dict[int, tuple[Any, int]] = memo()
_MAX_SIZES = 256


def _largest_known(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    known = _SIZES.get(id(value))
    if known is None:
        if len(_SIZES) >= _MAX_SIZES:
            _SIZES.clear()
        known = _SIZES[id(value)] = (value, largest(value))
    return known[1]


_KINDS = re.compile(r"^(?:[A-Z_]+): ")
_WORDS = (
    (re.compile(r'^Key not found in map : "?(.*?)"?$'), r"no such key: \1"),
    (re.compile(r"^No matching overloads found.*$"), "no such overload"),
    (re.compile(r"^Applying SELECT to non-message type$"), "no such overload"),
    (re.compile(r"^divide by zero$"), "division by zero"),
    # The interpreter's own bound is ten thousand iterations.
    (re.compile(r"^Iteration budget exceeded.*$"), _TOO_MUCH),
    (re.compile(r"^modulus by zero$"), "modulus by zero"),
    (re.compile(r"^Index error: index=(-?\d+) size=\d+$"), r"index out of bounds: \1"),
    (re.compile(r'^No value with name "(.*?)" found in Activation$'), r"no such attribute(s): \1"),
)


def runtime_words(text: str) -> str:
    """The interpreter's complaint, as cel-go words it."""
    text = _KINDS.sub("", text)
    for pattern, words in _WORDS:
        if pattern.match(text):
            return pattern.sub(words, text)
    return text


def largest(value: Any) -> int:
    """Members of the largest list or map inside a value."""
    if isinstance(value, dict):
        return max([len(value), *(largest(v) for v in value.values() if isinstance(v, dict | list))])
    if isinstance(value, list):
        return max([len(value), *(largest(v) for v in value if isinstance(v, dict | list))])
    return 0
