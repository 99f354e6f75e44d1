"""What matters of a pod when nodes are looked for, once per shape.

Pods of one template differ in name only: they share one `Shape`, with its requirements, requests and constraints,
and whatever is found out about a shape holds for all its pods. A relaxed pod has a relaxed shape.

Source: pkg/utils/pod/scheduling.go, pkg/scheduling/hostportusage.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from fairway.kube.objects import Obj, meta_of, spec_of, status_of
from fairway.kube.podrequests import pod_requests
from fairway.kube.resources import PODS, Resources
from fairway.kube.taints import Taint, Toleration, is_tolerated, parse_tolerations
from fairway.provisioning.karpenter.labels import HOSTNAME
from fairway.provisioning.karpenter.requirements import Requirements, affinity_requirements

ANY_ADDRESS: Final = ("0.0.0.0", "::", "")
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_COST_SCALE: Final = 2.0**27
_PRIORITY_SCALE: Final = 2.0**25
_MOST_COST: Final = 10.0

# What of a spec decides where a pod may go.
_SHAPING: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "containers",
    "initContainers",
    "overhead",
    "resources",
    "resourceClaims",
)


class HostPort(NamedTuple):
    ip: str
    port: int
    protocol: str

    def conflicts(self, other: HostPort) -> bool:
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.ip == other.ip or self.ip in ANY_ADDRESS or other.ip in ANY_ADDRESS


class Shape:
    """Everything but the name. Compared by identity: `Shapes` makes one per kind of pod."""

    __slots__ = (
        "claims_devices",
        "host",
        "index",
        "labels",
        "namespace",
        "peers",
        "ports",
        "requests",
        "requirements",
        "spec",
        "strict",
        "tolerations",
        "volumes",
    )

    def __init__(
        self,
        index: int,
        namespace: str,
        labels: Mapping[str, str],
        spec: Mapping[str, Any],
        volumes: tuple[Requirements, ...],
        *,
        respects_preferences: bool,
    ) -> None:
        self.index = index
        self.namespace = namespace
        self.labels = labels
        self.spec = spec
        self.volumes = volumes
        # Pods of equal namespace and labels are selected by the same selectors.
        self.peers = (namespace, tuple(sorted(labels.items())))
        self.requests = requests_of(spec)
        wanted = affinity_requirements(spec, with_preferred=respects_preferences)
        # Every claim has a hostname of its own, so what a pod says of hostnames is kept apart.
        self.host = wanted.find(HOSTNAME)
        self.requirements = wanted.without(HOSTNAME)
        self.strict = affinity_requirements(spec, with_preferred=False)
        self.tolerations = parse_tolerations(spec.get("tolerations"))
        self.ports = host_ports(spec)
        self.claims_devices = claims_devices(spec)


class PodFacts(NamedTuple):
    """One pod. `is_pending`: the scheduler found no place for it; else it is being moved."""

    uid: str
    namespace: str
    name: str
    created: str
    shape: Shape
    is_pending: bool = True

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Shapes:
    """One shape per kind of pod."""

    def __init__(self, *, respects_preferences: bool = True) -> None:
        self.respects_preferences = respects_preferences
        self._by_key: dict[tuple[bytes, tuple[Requirements, ...]], Shape] = {}
        self._encode = msgspec.json.Encoder(order="sorted").encode

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, pod: Obj, volumes: tuple[Requirements, ...] = ()) -> Shape:
        meta, spec = meta_of(pod), pod.get("spec") or {}
        shaping = {name: spec[name] for name in _SHAPING if spec.get(name)}
        return self._intern(meta.get("namespace") or "", meta.get("labels") or {}, shaping, volumes)

    def with_spec(self, shape: Shape, spec: Mapping[str, Any]) -> Shape:
        return self._intern(shape.namespace, shape.labels, spec, shape.volumes)

    def _intern(
        self,
        namespace: str,
        labels: Mapping[str, str],
        spec: Mapping[str, Any],
        volumes: tuple[Requirements, ...],
    ) -> Shape:
        key = (self._encode((namespace, labels, spec)), volumes)
        found = self._by_key.get(key)
        if found is None:
            index = len(self._by_key)
            found = Shape(
                index, namespace, labels, spec, volumes, respects_preferences=self.respects_preferences
            )
            self._by_key[key] = found
        return found


def facts_of(pod: Obj, shape: Shape, *, is_pending: bool = True) -> PodFacts:
    meta = meta_of(pod)
    name, namespace = meta.get("name") or "", meta.get("namespace") or ""
    uid = meta.get("uid") or f"{namespace}/{name}"
    return PodFacts(uid, namespace, name, meta.get("creationTimestamp") or "", shape, is_pending)


def requests_of(spec: Mapping[str, Any]) -> Resources:
    """A pod's requests, and the one pod it is."""
    return {**pod_requests(dict(spec)), PODS: 1}


def claims_devices(spec: Mapping[str, Any]) -> bool:
    """Whether a pod needs Dynamic Resource Allocation. Source: HasDRARequirements."""
    return bool(spec.get("resourceClaims")) or any(
        (container.get("resources") or {}).get("claims")
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
    )


def host_ports(spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(p.get("hostIP") or "0.0.0.0", int(p["hostPort"]), p.get("protocol") or "TCP")
        for container in spec.get("containers") or ()
        for p in container.get("ports") or ()
        if p.get("hostPort")
    )


def port_conflict(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    held = list(taken)
    return any(w.conflicts(t) for w in wanted for t in held)


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> str | None:
    """Why the pod may not go where these taints are, every effect counted; None where it may."""
    held = tuple(tolerations)
    found = [
        f"did not tolerate taint (taint={t.key}{'=' + t.value if t.value else ''}:{t.effect})"
        for t in taints
        if not is_tolerated(t, held)
    ]
    return "; ".join(found) or None


def is_provisionable(pod: Obj) -> bool:
    """Whether Karpenter opens nodes for it: found unschedulable, unbound, of no DaemonSet, no mirror of a file.

    Source: IsProvisionable.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    # What most pods fail first.
    return (
        not spec.get("nodeName")
        and not status.get("nominatedNodeName")
        and any(
            c.get("type") == "PodScheduled" and c.get("reason") == "Unschedulable"
            for c in status.get("conditions") or ()
        )
        and not is_owned_by(pod, "DaemonSet")
        and not is_owned_by(pod, "Node")
    )


def is_active(pod: Obj) -> bool:
    phase = status_of(pod).get("phase")
    return phase not in ("Failed", "Succeeded") and not meta_of(pod).get("deletionTimestamp")


def is_owned_by(pod: Obj, kind: str) -> bool:
    for ref in meta_of(pod).get("ownerReferences") or ():  # noqa: SIM110 (asked a dozen times a pod)
        if ref.get("kind") == kind:
            return True
    return False


def is_reschedulable(pod: Obj) -> bool:
    """Whether it would need another node if its own went. Source: IsReschedulable."""
    terminating_stateful = meta_of(pod).get("deletionTimestamp") and is_owned_by(pod, "StatefulSet")
    return (
        (is_active(pod) or bool(terminating_stateful))
        and not is_owned_by(pod, "DaemonSet")
        and not is_owned_by(pod, "Node")
    )


def eviction_cost(pod: Obj) -> float:
    """1, more or less by its deletion cost and its priority, from -10 to 10. Source: disruption.EvictionCost."""
    cost = 1.0
    raw = (meta_of(pod).get("annotations") or {}).get(DELETION_COST)
    if raw is not None:
        with suppress(ValueError):  # upstream logs it and goes on
            cost += float(raw) / _COST_SCALE
    priority = spec_of(pod).get("priority")
    if priority is not None:
        cost += priority / _PRIORITY_SCALE
    return min(max(cost, -_MOST_COST), _MOST_COST)


def anti_affinity_terms(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The terms by which a pod must not be where others are."""
    affinity: Mapping[str, Any] = spec.get("affinity") or {}
    part: Mapping[str, Any] = affinity.get("podAntiAffinity") or {}
    return list(part.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
