"""Which ProvisioningRequestConfig does an AdmissionCheck mean, and is the check active?

Source: pkg/util/admissioncheck/admissioncheck_helpers.go; provisioning/admissioncheck_reconciler.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairway.cluster.actions import Action, SetStatus, View
from fairway.kube.objects import Key, Obj, key_of, meta_of, name_of, spec_of, status_of
from fairway.queueing.facts.conditions import FALSE, TRUE, find, with_condition
from fairway.queueing.facts.objects import PROVISIONING_CONTROLLER

ADMISSION_CHECK = "AdmissionCheck.kueue.x-k8s.io"
CONFIG = "ProvisioningRequestConfig.kueue.x-k8s.io"

_GROUP, _KIND = "kueue.x-k8s.io", "ProvisioningRequestConfig"
_ACTIVE = "Active"


@dataclass(frozen=True, slots=True)
class Config:
    """A ProvisioningRequestConfig with its defaults. Backoff n waits base × 2^(n-1) seconds, at most `most_s`."""

    name: str
    class_name: str
    parameters: Mapping[str, str]
    managed_resources: frozenset[str]
    merge_policy: str
    node_selector: tuple[tuple[str, str], ...]
    """What is taken from the class's details: label, name of the detail."""
    updates_pod_sets: bool
    limit: int = 3
    base_s: int = 60
    most_s: int = 1800

    def backoff_s(self, attempt: int) -> int:
        """Unlike kube: without the jitter of a ten-thousandth."""
        return min(self.base_s << min(max(attempt - 1, 0), 40), self.most_s)


def config(obj: Obj) -> Config:
    spec = spec_of(obj)
    retry = spec.get("retryStrategy") or {}
    updates = spec.get("podSetUpdates")
    return Config(
        name=name_of(obj),
        class_name=spec.get("provisioningClassName") or "",
        parameters=spec.get("parameters") or {},
        managed_resources=frozenset(spec.get("managedResources") or ()),
        merge_policy=spec.get("podSetMergePolicy") or "",
        node_selector=tuple(
            (u["key"], u["valueFromProvisioningClassDetail"])
            for u in (updates or {}).get("nodeSelector") or ()
        ),
        updates_pod_sets=updates is not None,
        limit=_number(retry, "backoffLimitCount", 3),
        base_s=_number(retry, "backoffBaseSeconds", 60),
        most_s=_number(retry, "backoffMaxSeconds", 1800),
    )


def _number(of: Mapping[str, Any], name: str, default: int) -> int:
    found = of.get(name)
    return default if found is None else int(found)


def is_ours(check: Obj | None) -> bool:
    """Whether the check is answered by ProvisioningRequests."""
    return check is not None and spec_of(check).get("controllerName") == PROVISIONING_CONTROLLER


def config_of(view: View, check: str) -> Config | None:
    """The config of a check; None where it refers to none that is there."""
    obj = view.get(Key(ADMISSION_CHECK, "", check))
    if obj is None or _bad_reference(obj):
        return None
    found = view.get(Key(CONFIG, "", spec_of(obj)["parameters"]["name"]))
    return None if found is None else config(found)


def _bad_reference(check: Obj) -> str:
    """What is wrong with the reference itself; empty: nothing."""
    ref = spec_of(check).get("parameters")
    if ref is None:
        return "missing parameters reference"
    if not ref.get("name"):
        return "empty name: bad parameters reference"
    if ref.get("apiGroup") != _GROUP:
        return f'wrong group "{ref.get("apiGroup") or ""}", expecting "{_GROUP}": bad parameters reference'
    if ref.get("kind") != _KIND:
        return f'wrong kind "{ref.get("kind") or ""}", expecting "{_KIND}": bad parameters reference'
    return ""


def reconcile_check(view: View, check: Obj, now_us: int) -> tuple[Action, ...]:
    """Say whether an AdmissionCheck of ours is active."""
    if not is_ours(check):
        return ()
    problem = _bad_reference(check)
    if not problem and view.get(Key(CONFIG, "", spec_of(check)["parameters"]["name"])) is None:
        name = spec_of(check)["parameters"]["name"]
        problem = f'provisioningrequestconfigs.kueue.x-k8s.io "{name}" not found'
    wanted = FALSE if problem else TRUE
    status = status_of(check)
    now = find(status, _ACTIVE)
    if now is not None and now.get("status") == wanted:
        return ()
    conditions = with_condition(
        status.get("conditions") or [],
        _ACTIVE,
        wanted,
        reason="BadParametersRef" if problem else "Active",
        message=problem or "The admission check is active",
        now_us=now_us,
        generation=int(meta_of(check).get("generation") or 0),
    )
    return (SetStatus(key_of(check), {**status, "conditions": conditions}),)
