"""Devices and claims at the API: rules that need more than the object itself.

Who asks for admin access must do so in a namespace that allows it; a claim's spec never changes; its status is
checked, which that of other kinds is not.

Source: pkg/registry/resource/{resourceclaim,resourceclaimtemplate,resourceslice,deviceclass}/strategy.go (v1.36).
"""

from __future__ import annotations

from typing import Final

from fairway.apiserver.asking import Api, Ask
from fairway.kube.objects import Key, Obj, spec_of
from fairway.kube.problem import Problem

CLAIM: Final = "ResourceClaim.resource.k8s.io"
_TEMPLATE: Final = "ResourceClaimTemplate.resource.k8s.io"


def new_problems(api: Api, ask: Ask, obj: Obj) -> list[Problem]:
    """What is wrong with a new claim or template besides itself."""
    gk = ask.resource.gk
    if gk not in (CLAIM, _TEMPLATE):
        return []
    from fairway.kube.validation.devices.requests import admin_problem

    asked = obj if gk == CLAIM else spec_of(obj)
    return admin_problem(asked, api.store.get(Key("Namespace", "", ask.key.namespace)))


def status_problems(api: Api, ask: Ask, new: Obj, old: Obj) -> list[Problem]:
    """What is wrong with a status a claim is to have."""
    from fairway.kube.validation.devices import statuses

    return statuses.status_problems(new, old, api.store.get(Key("Namespace", "", ask.key.namespace)))
