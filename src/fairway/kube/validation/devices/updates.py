"""What of devices and claims may not change."""

from __future__ import annotations

from fairway.kube.objects import Obj, spec_of
from fairway.kube.validation.devices.gostructs import go_text
from fairway.kube.validation.problem import Problem, invalid

_IMMUTABLE = "field is immutable"
# Kinds whose spec stays as it was made → its Go type.
_FIXED = {
    "ResourceClaim.resource.k8s.io": "ResourceClaimSpec",
    "ResourceClaimTemplate.resource.k8s.io": "ResourceClaimTemplateSpec",
}


def spec_problems(gk: str, new: Obj, old: Obj) -> list[Problem]:
    type_name = _FIXED.get(gk)
    if type_name is None or spec_of(new) == spec_of(old):
        return []
    return [invalid(("spec",), go_text(type_name, spec_of(new)), _IMMUTABLE)]
