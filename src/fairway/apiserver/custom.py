"""What is wrong with a custom object: its metadata, its schema, its CEL rules.

Source: apiextensions-apiserver pkg/registry/customresource/validator.go, strategy.go (v1.36).
"""

from __future__ import annotations

from fairway.apiserver.resources import Resource
from fairway.kube.objects import Obj
from fairway.kube.problem import Faults, Problem
from fairway.kube.validation.kinds.metadata import common_fields, object_meta, object_meta_update


def custom_problems(resource: Resource, obj: Obj, old: Obj | None) -> list[Problem]:
    """Everything wrong with a custom object, CEL rules last and only where the rest lets them be asked."""
    from fairway.admission.crdrules import judged

    problems = Faults()
    if old is None:
        object_meta(obj, problems, namespaced=resource.kind.namespaced)
    else:
        common_fields(obj, old, problems, namespaced=resource.kind.namespaced)
        object_meta_update(obj, old, problems)
    if resource.crd_version is not None:
        problems += judged(resource.crd_version, obj, old)
    return problems
