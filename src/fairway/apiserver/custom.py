"""What is wrong with a custom object: its metadata, its schema, its CEL rules.

Source: apiextensions-apiserver pkg/registry/customresource/validator.go, strategy.go (v1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.apiserver.definitions import custom_schema_of
from fairway.apiserver.resources import Resource
from fairway.kube.objects import Obj
from fairway.kube.validation.metadata import check_metadata
from fairway.kube.validation.problem import Problem

if TYPE_CHECKING:
    from fairway.admission.crdrules import RuleProblem


def custom_problems(resource: Resource, obj: Obj, old: Obj | None) -> list[Problem]:
    """Everything wrong with a custom object, CEL rules last and only where the rest is right."""
    problems: list[Problem] = []
    check_metadata(obj, problems)
    schema = custom_schema_of(resource)
    if schema is None:
        return problems
    from fairway.kube.schema import validate_custom

    problems.extend(validate_custom(obj, schema, old))
    return problems


def rule_problems(resource: Resource, obj: Obj, old: Obj | None) -> list[RuleProblem]:
    """The `x-kubernetes-validations` of its schema that the object breaks."""
    text = ((resource.crd_version or {}).get("schema") or {}).get("openAPIV3Schema")
    if not text:
        return []
    from fairway.admission.crdrules import problems

    return problems(text, obj, old)
