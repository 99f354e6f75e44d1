"""What is wrong with a custom object: its metadata, its schema, its CEL rules.

Source: apiextensions-apiserver pkg/registry/customresource/validator.go, strategy.go (v1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway.apiserver.definitions import custom_schema_of
from fairway.apiserver.resources import Resource
from fairway.kube.objects import Obj
from fairway.kube.validation.metadata import check_metadata
from fairway.kube.validation.problem import (
    INVALID,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    UNSUPPORTED,
    Problem,
)

if TYPE_CHECKING:
    from fairway.admission.crdrules import RuleProblem

# Faults after which rules would stumble. Source: customresource/strategy.go hasBlockingErr.
_BLOCKING = frozenset((UNSUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID))
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def custom_problems(resource: Resource, obj: Obj, old: Obj | None) -> list[Problem]:
    """Everything wrong with a custom object, CEL rules last and only where the rest is right."""
    problems: list[Problem] = []
    check_metadata(obj, problems)
    schema = custom_schema_of(resource)
    if schema is None:
        return problems
    from fairway.kube.schema import validate_custom

    problems.extend(validate_custom(obj, schema, old))
    if any(p.reason in _BLOCKING for p in problems) and _has_rules(resource):
        problems.append(Problem(("<nil>",), None, INVALID, _NOT_CHECKED))
    return problems


def _has_rules(resource: Resource) -> bool:
    from fairway.admission.crdrules import has_rules

    return has_rules(_text(resource))


def _text(resource: Resource) -> dict[str, Any] | None:
    """The schema as the definition has it."""
    return ((resource.crd_version or {}).get("schema") or {}).get("openAPIV3Schema")


def rule_problems(resource: Resource, obj: Obj, old: Obj | None) -> list[RuleProblem]:
    """The `x-kubernetes-validations` of its schema that the object breaks."""
    text = _text(resource)
    if not text:
        return []
    from fairway.admission.crdrules import problems

    return problems(text, obj, old)
