"""Does an object of the right shape keep the rules of its kind?

A type's table is compiled once into a plan: the fields with constraints, those with something to check below
them, and the rules written in Python for what one field alone cannot tell. Branches without either are never
entered. `status` is skipped except for nodes: the API server ignores it on creation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.names import Complaints
from fairway.kube.validation.context import Context
from fairway.kube.validation.formats import FORMATS
from fairway.kube.validation.problem import Problem, invalid, invalids, required, unsupported
from fairway.kube.validation.rules import ENTER_RULES, RULES, Rule
from fairway.kube.validation.schema import LIST, MAP, STRUCT, Constraint, StructType, struct_type

# A type inside a type this deep means the table is circular.
_MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class _Step:
    """What to check of one field. `container`: empty, `list` or `map`."""

    name: str
    constraint: Constraint | None
    complain: Callable[[Any], Complaints] | None
    plan: Plan | None
    container: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class Plan:
    enter: Rule | None
    steps: tuple[_Step, ...]
    rules: tuple[Rule, ...]


def judge(struct: StructType, obj: dict[str, Any], context: Context) -> None:
    """Adds every broken rule to the context."""
    plan = plan_of(struct.name)
    if plan is not None:
        _follow(plan, obj, (), context)


@cache
def plan_of(type_name: str, depth: int = 0) -> Plan | None:
    """The plan of a type, or None where nothing in it or below it is ever wrong."""
    assert depth < _MAX_DEPTH, type_name
    steps = []
    for name, declared in struct_type(type_name).fields.items():
        if name == "status" and type_name != "Node":
            continue
        of = declared.of if declared.kind in (LIST, MAP) else declared
        assert of is not None
        plan = plan_of(of.struct.name, depth + 1) if of.kind == STRUCT and of.struct is not None else None
        constraint = declared.constraint
        if plan is None and constraint is None:
            continue
        complain = FORMATS[constraint.format] if constraint is not None and constraint.format else None
        container = declared.kind if declared.kind in (LIST, MAP) else ""
        is_required = constraint is not None and constraint.required
        steps.append(_Step(name, constraint, complain, plan, container, is_required))
    enter = ENTER_RULES.get(type_name)
    rules = tuple(RULES.get(type_name, ()))
    return Plan(enter, tuple(steps), rules) if steps or rules or enter else None


def _follow(plan: Plan, value: dict[str, Any], path: Path, context: Context) -> None:
    if plan.enter is not None:
        plan.enter(value, path, context)
    for step in plan.steps:
        if step.name not in value and not step.is_required:
            continue  # most fields of most objects
        member = value.get(step.name)
        if step.constraint is not None:
            _check_constraint(step, member, path, context.out)
        if step.plan is None or member is None:
            continue
        at = (*path, step.name)
        if step.container == LIST:
            for index, item in enumerate(member):
                _follow(step.plan, item, (*at, index), context)
        elif step.container == MAP:
            for key, item in member.items():
                _follow(step.plan, item or {}, (*at, MapKey(key)), context)
        else:
            _follow(step.plan, member, at, context)
    for rule in plan.rules:
        rule(value, path, context)


def _check_constraint(step: _Step, value: Any, path: Path, out: list[Problem]) -> None:
    constraint = step.constraint
    assert constraint is not None
    if value is None or value == "" or value == [] or value == {}:
        if constraint.required:
            out.append(required((*path, step.name)))
        return
    if value == 0 and constraint.required and value is not False:
        out.append(required((*path, step.name)))
        return
    if constraint.minimum is not None and value < constraint.minimum:
        bound = "greater than zero" if constraint.minimum == 1 else "greater than or equal to 0"
        out.append(invalid((*path, step.name), value, f"must be {bound}"))
    if constraint.choices and value not in constraint.choices:
        out.append(unsupported((*path, step.name), value, constraint.choices))
    if step.complain is not None:
        out.extend(invalids((*path, step.name), value, step.complain(value)))
