"""What of devices and claims may not change."""

from __future__ import annotations

from fairway.kube.objects import Obj, gk_of, spec_of
from fairway.kube.problem import Faults, Problem, invalid
from fairway.kube.validation.devices.gostructs import go_text
from fairway.kube.validation.devices.requests import device_class
from fairway.kube.validation.devices.slices import check_slice
from fairway.kube.validation.kinds.metadata import object_meta_update

_IMMUTABLE = "field is immutable"
# Kinds whose spec stays as it was made → its Go type.
_FIXED = {
    "ResourceClaim.resource.k8s.io": "ResourceClaimSpec",
    "ResourceClaimTemplate.resource.k8s.io": "ResourceClaimTemplateSpec",
}


def fixed_update(new: Obj, old: Obj, out: Faults) -> None:
    """A claim or a template: the spec as it was is not judged again."""
    object_meta_update(new, old, out)
    out += spec_problems(gk_of(new), new, old)


def slice_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out)
    check_slice(new, out, old)


def device_class_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out)
    device_class(new, out)


def spec_problems(gk: str, new: Obj, old: Obj) -> list[Problem]:
    type_name = _FIXED.get(gk)
    if type_name is None or spec_of(new) == spec_of(old):
        return []
    return [invalid(("spec",), go_text(type_name, spec_of(new)), _IMMUTABLE)]
