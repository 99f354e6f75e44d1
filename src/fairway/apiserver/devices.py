"""Devices and claims at the API: rules that need more than the object itself.

Who asks for admin access must do so in a namespace that allows it; a claim's spec never changes; its status is
checked, which that of other kinds is not.

Source: pkg/registry/resource/{resourceclaim,resourceclaimtemplate,resourceslice,deviceclass}/strategy.go (v1.36).
"""

from __future__ import annotations

from typing import Final

from fairway.apiserver.asking import Api, Ask
from fairway.kube.objects import Key, Obj, spec_of
from fairway.kube.validation.problem import Problem

GROUP: Final = "resource.k8s.io"
_CLAIM, _TEMPLATE, _SLICE = (
    f"{k}.{GROUP}" for k in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
)


def new_problems(api: Api, ask: Ask, obj: Obj) -> list[Problem]:
    """What is wrong with a new claim or template besides itself."""
    gk = ask.resource.gk
    if gk not in (_CLAIM, _TEMPLATE):
        return []
    from fairway.kube.validation.devices.requests import admin_problem

    asked = obj if gk == _CLAIM else spec_of(obj)
    return admin_problem(asked, api.store.get(Key("Namespace", "", ask.key.namespace)))


def update_problems(api: Api, ask: Ask, new: Obj, old: Obj) -> list[Problem]:
    """What is wrong with an update of a kind of this group."""
    from fairway.kube.validation.devices.slices import check_slice
    from fairway.kube.validation.devices.statuses import status_problems
    from fairway.kube.validation.devices.updates import spec_problems
    from fairway.kube.validation.metadata import check_metadata
    from fairway.kube.validation.validating import validate

    gk = ask.resource.gk
    if ask.info.subresource == "status":
        namespace = api.store.get(Key("Namespace", "", ask.key.namespace))
        return status_problems(new, old, namespace) if gk == _CLAIM else []
    found: list[Problem] = []
    if gk in (_CLAIM, _TEMPLATE):
        # The spec as it was is not judged again.
        check_metadata(new, found)
        return [*found, *spec_problems(gk, new, old)]
    if gk != _SLICE:
        return validate(new)
    check_metadata(new, found)
    check_slice(new, found, old)
    return found
