"""`variables.x`: named expressions that later ones may use, evaluated when first needed.

A variable that fails only hurts expressions that use it.

Source: apiserver pkg/admission/plugin/cel/composition.go (v1.36).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fairway.admission.cel.compiling import ANY, Error, Program, Variables, compiled
from fairway.admission.cel.evaluating import Evaluation

# What a variable may be declared as; everything else is dynamic.
_DECLARABLE = ("bool", "int", "double", "string", "google.protobuf.Timestamp", "google.protobuf.Duration")


class Variable(NamedTuple):
    """`program` is an `Error` where it does not compile. `key` is what its value depends on, but for the request."""

    name: str
    program: Program | Error
    key: tuple[Any, ...]


class Composition(NamedTuple):
    """The variables of a policy, in order, and the names expressions after them may use."""

    variables: tuple[Variable, ...]
    names: Variables


def composed(declared: list[dict[str, Any]], names: Variables) -> Composition:
    """Compile `spec.variables`, each one seeing those before it."""
    variables: list[Variable] = []
    for raw in declared:
        expression = raw.get("expression") or ""
        program = compiled(expression, names, (ANY,))
        name = raw.get("name") or ""
        uses = program.uses if isinstance(program, Program) else ()
        needed = tuple(v.key for v in variables if f"variables.{v.name}" in uses)
        variables.append(Variable(name, program, (expression, names, needed)))
        result = program.result if isinstance(program, Program) else "dyn"
        names = (*names, (f"variables.{name}", result if result in _DECLARABLE else "dyn"))
    return Composition(tuple(variables), names)


class Composed:
    """An evaluation whose expressions may use a composition's variables.

    `shared` carries values over to other policies that define the same variable, for the same request.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        composition: Composition,
        shared: dict[tuple[Any, ...], Any] | None = None,
    ) -> None:
        self._evaluation = evaluation
        self._shared = {} if shared is None else shared
        self._by_name = {v.name: v for v in composition.variables}
        self._failed: dict[str, Error] = {}
        self._bound: dict[str, bool] = {}

    def evaluate(self, program: Program) -> Any:
        """The value, or an `Error`; a variable that fails says so where it is needed."""
        for name in program.uses:
            if name.startswith("variables."):
                self._need(name.removeprefix("variables."))
        value = self._evaluation.evaluate(program)
        if isinstance(value, Error):
            for name, failed in self._failed.items():
                if value.text == f"no such attribute(s): variables.{name}":
                    return Error(
                        f'composited variable "{name}" fails to evaluate: {failed.text}', failed.kind
                    )
        return value

    def _need(self, name: str) -> None:
        variable = self._by_name.get(name)
        if variable is None or self._bound.get(name):
            return
        self._bound[name] = True
        value: Any = variable.program
        if variable.key in self._shared:
            value = self._shared[variable.key]
        elif isinstance(variable.program, Program):
            value = self._shared[variable.key] = self.evaluate(variable.program)
        if isinstance(value, Error):
            self._failed[name] = value
        else:
            self._evaluation.bind(f"variables.{name}", value)
