"""What is asked for a Workload: names and attempts of its ProvisioningRequests, their pod sets and templates.

Source: provisioning/provisioning.go; controller.go mergePodSets, createPodTemplate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from typing import Any

from fairway.cluster.actions import View
from fairway.kube.objects import (
    Obj,
    annotations_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
)
from fairway.queueing.admissionchecks.configs import Config
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.integrations.podsetinfo import assigned_info, into_template

PARAMETER_PREFIX = "provreq.kueue.x-k8s.io/"
IDENTICAL_TEMPLATES = "IdenticalPodTemplates"
IDENTICAL_REQUIREMENTS = "IdenticalWorkloadSchedulingRequirements"

_MANAGED = {"kueue.x-k8s.io/managed": "true"}
_HASH = 5
# The longest name of an object less a dash and the hash.
_PREFIX_MOST = 252 - _HASH
_SIMILAR = ("nodeSelector", "tolerations", "affinity", "resourceClaims", "resources")


class InconsistentPodSets(Exception):
    """What was assigned does not match what was asked: looked at again when either changes."""


# Names


def request_name(workload: str, check: str, attempt: int) -> str:
    return _limited(f"{workload}-{check}-{attempt}")


def template_name(request: str, pod_set: str) -> str:
    return _limited(f"ppt-{request}-{pod_set}")


def attempt_of(request: Obj, workload: str, check: str) -> int | None:
    """Which attempt for this check it is; None where it is for another."""
    prefix = re.escape(_limited(f"{workload}-{check}-"))
    found = re.fullmatch(f"{prefix}([0-9]+)", name_of(request))
    return None if found is None else int(found[1])


def _limited(name: str) -> str:
    if len(name) <= _PREFIX_MOST:
        return name
    return f"{name[:_PREFIX_MOST]}-{sha1(name.encode(), usedforsecurity=False).hexdigest()[:_HASH]}"


# Which pod sets


@dataclass(frozen=True, slots=True)
class AskedPodSet:
    """`pod_set` stands for those that were merged into it; `count` is of all."""

    name: str
    pod_set: Mapping[str, Any]
    assignment: Mapping[str, Any]
    count: int


def is_needed(workload: Obj, config: Config) -> bool:
    """Whether any pod set uses what the autoscaler manages.

    Raises: InconsistentPodSets.
    """
    assigned = _assignments(workload)
    for pod_set in _required(workload, config):
        raw = assigned.get(pod_set.get("name") or "main")
        if raw is None:
            raise InconsistentPodSets
        if _count(pod_set, raw) > 0:
            return True
    return False


def asked_pod_sets(workload: Obj, config: Config) -> list[AskedPodSet]:
    """Those that use something managed, alike ones merged if the config says so.

    Raises: InconsistentPodSets.
    """
    assigned = _assignments(workload)
    out: list[AskedPodSet] = []
    for pod_set in _required(workload, config):
        name = pod_set.get("name") or "main"
        raw = assigned.get(name)
        if raw is None:
            raise InconsistentPodSets
        count = _count(pod_set, raw)
        if count <= 0:
            continue
        at = next((i for i, a in enumerate(out) if _are_alike(a.pod_set, pod_set, config.merge_policy)), None)
        if at is None:
            out.append(AskedPodSet(name, pod_set, raw, count))
        else:
            out[at] = replace(out[at], count=out[at].count + count)
    return out


def _assignments(workload: Obj) -> dict[str, Mapping[str, Any]]:
    admission = status_of(workload).get("admission") or {}
    return {a.get("name") or "main": a for a in admission.get("podSetAssignments") or ()}


def _required(workload: Obj, config: Config) -> list[Mapping[str, Any]]:
    return [
        ps
        for ps in spec_of(workload).get("podSets") or ()
        if ps.get("count") != 0
        and (not config.managed_resources or _uses(_pod_spec(ps), config.managed_resources))
    ]


def _count(pod_set: Mapping[str, Any], assignment: Mapping[str, Any]) -> int:
    count = assignment.get("count")
    return int(pod_set.get("count", 1)) if count is None else int(count)


def _pod_spec(pod_set: Mapping[str, Any]) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = (pod_set.get("template") or {}).get("spec") or {}
    return spec


def _uses(spec: Mapping[str, Any], resources: frozenset[str]) -> bool:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        asked = container.get("resources") or {}
        if not resources.isdisjoint({**(asked.get("requests") or {}), **(asked.get("limits") or {})}):
            return True
    return False


def _are_alike(a: Mapping[str, Any], b: Mapping[str, Any], policy: str) -> bool:
    if policy == IDENTICAL_TEMPLATES:
        return bool(a.get("template") == b.get("template"))
    if policy != IDENTICAL_REQUIREMENTS:
        return False
    x, y = _pod_spec(a), _pod_spec(b)
    return all((x.get(name) or None) == (y.get(name) or None) for name in _SIMILAR) and all(
        _container_requests(x.get(name)) == _container_requests(y.get(name))
        for name in ("containers", "initContainers")
    )


def _container_requests(containers: Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    return [(c.get("resources") or {}).get("requests") or {} for c in containers or ()]


# Objects


def request_object(workload: Obj, config: Config, name: str, asked: Sequence[AskedPodSet]) -> Obj:
    of_workload = {
        key.removeprefix(PARAMETER_PREFIX): value
        for key, value in annotations_of(workload).items()
        if key.startswith(PARAMETER_PREFIX)
    }
    parameters = {**config.parameters, **of_workload}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": name,
            "namespace": namespace_of(workload),
            "labels": dict(_MANAGED),
            "ownerReferences": [owner_reference(workload)],
        },
        "spec": {
            "provisioningClassName": config.class_name,
            **({"parameters": parameters} if parameters else {}),
            "podSets": [
                {"podTemplateRef": {"name": template_name(name, a.name)}, "count": a.count} for a in asked
            ],
        },
    }


def template_object(view: View, workload: Obj, name: str, asked: AskedPodSet, gates: FeatureGates) -> Obj:
    """The pods as they will be where they were assigned to, their limits as requests where those are missing.

    Raises: BadPodSets, FlavorMissing.
    """
    info = assigned_info(view, asked.assignment, asked.pod_set, gates)
    template = into_template(dict(asked.pod_set.get("template") or {}), info)
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {
            "name": name,
            "namespace": namespace_of(workload),
            "labels": dict(_MANAGED),
            "ownerReferences": [owner_reference(workload)],
        },
        "template": {**template, "spec": _with_requests(template.get("spec") or {})},
    }


def _with_requests(spec: Mapping[str, Any]) -> dict[str, Any]:
    changed = dict(spec)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            changed[field] = [_from_limits(c) for c in spec[field]]
    return _from_limits(changed)


def _from_limits(of: Mapping[str, Any]) -> dict[str, Any]:
    resources = of.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**of, "resources": {**resources, "requests": requests}} if requests else dict(of)


def is_of_config(request: Obj, config: Config) -> bool:
    """Whether it was made from the config as it is now."""
    spec = spec_of(request)
    parameters = spec.get("parameters") or {}
    return spec.get("provisioningClassName") == config.class_name and all(
        parameters.get(name) == value for name, value in config.parameters.items()
    )
