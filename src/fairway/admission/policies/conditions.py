"""matchConditions: expressions that decide whether a policy or webhook is asked at all.

One that is false excuses the request, even where another one fails.

Source: apiserver pkg/admission/plugin/webhook/matchconditions/matcher.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairway.admission.answers import aggregated
from fairway.admission.cel.compiling import BOOL, Error, Program, Variables, compiled

Programs = tuple[Program | Error, ...]


def compile_conditions(conditions: Iterable[Mapping[str, Any]], names: Variables) -> Programs:
    return tuple(compiled(c.get("expression") or "", names, (BOOL,)) for c in conditions)


def failed(program: Program | Error, value: Any) -> str:
    """Why an expression has no value, as the sentence a verdict carries."""
    if isinstance(program, Error):
        return f"compilation error: {program.text}"
    if value.kind == "budget":
        return str(value.text)
    return f"expression '{program.expression}' resulted in error: {value.text}"


def are_met(programs: Programs, evaluate: Callable[[Program], Any]) -> bool | str:
    """Whether all hold; or what failed, where none is false."""
    errors = []
    for program in programs:
        value = program if isinstance(program, Error) else evaluate(program)
        if isinstance(value, Error):
            errors.append(failed(program, value))
        elif value is False:
            return False
    if not errors:
        return True
    return aggregated(errors)
