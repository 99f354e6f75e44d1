"""What placement sees of a pod: typed facts, worked out once per distinct spec.

Pods of one Job differ in name, index and hostname but ask for the same; they share one `PodShape`. A shape is
found by the bytes of the fields that matter, so equal specs from anywhere meet in one object, and whatever is
computed per shape (scores, masks) is computed once.

Source: framework.PodInfo and GetAffinityTerms (kube-scheduler v1.36); matchLabelKeys as the API server merges
them (pkg/registry/core/pod/strategy.go applyMatchLabelKeysAndMismatchLabelKeys).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from fairway.kube.labels import EVERYTHING, IN, NOT_IN, NOTHING, Requirement, Selector, label_selector
from fairway.kube.nodeselection import NodeSelection, node_selection
from fairway.kube.objects import Obj, meta_of, spec_of
from fairway.kube.podrequests import pod_requests, pod_requests_non_zero, pod_requests_scored
from fairway.kube.resources import CPU, GPU_MILLI, MEMORY, NVIDIA_GPU
from fairway.kube.taints import Toleration, parse_tolerations
from fairway.kube.volumes import claim_names

DEFAULT_SCHEDULER: Final = "default-scheduler"

# Bytes of specs that shapes are found by, and what one costs besides. Past the limit all are let go: what is in use
# stays with its pods, and an equal spec that comes later gets a shape of its own.
MOST_KEY_BYTES: Final = 64 * 2**20
_AROUND: Final = 1024

# The fields of a spec that decide where a pod may go; the rest (env, command, hostname, …) does not.
_RELEVANT: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "overhead",
    "resources",
    "priority",
    "preemptionPolicy",
    "schedulerName",
    "hostNetwork",
)


class PodTerm(NamedTuple):
    """A pod (anti-)affinity term. Namespaces named, or selected by their labels; empty selector: all."""

    namespaces: tuple[str, ...]
    namespace_selector: Selector
    selector: Selector
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class WeightedTerm(NamedTuple):
    weight: int
    term: PodTerm


class SpreadConstraint(NamedTuple):
    """A topology spread constraint with its defaults filled in."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool
    is_hard: bool


class HostPort(NamedTuple):
    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True, eq=False)
class PodShape:
    """Everything about a pod that decides where it may go. Equality is identity: shapes are interned, mostly once.

    `requests` is what a node must have free; `scored` is what NodeResourcesFit scores the pod with before it is
    placed, `non_zero_…` what it counts for in the scores of others afterwards (see `kube.podrequests`).
    """

    id: int
    requests: dict[str, int]
    non_zero_cpu: int
    non_zero_memory: int
    scored: dict[str, int]
    selection: NodeSelection
    tolerations: tuple[Toleration, ...]
    host_ports: tuple[HostPort, ...]
    priority: int
    never_preempts: bool
    scheduler_name: str
    required_affinity: tuple[PodTerm, ...]
    required_anti_affinity: tuple[PodTerm, ...]
    preferred_affinity: tuple[WeightedTerm, ...]
    preferred_anti_affinity: tuple[WeightedTerm, ...]
    spread: tuple[SpreadConstraint, ...]
    images: tuple[str, ...]
    container_count: int
    gpu_count: int
    gpu_each: int
    claims: tuple[tuple[str, bool], ...]
    """Claims it uses, and whether that is the name of an ephemeral volume: its claim is named after the pod, too."""
    has_devices: bool
    """Whether it names resource claims. Which ones is the pod's own matter."""

    @property
    def has_pod_terms(self) -> bool:
        """Whether it says anything about other pods, so that they must remember it."""
        return bool(
            self.required_affinity
            or self.required_anti_affinity
            or self.preferred_affinity
            or self.preferred_anti_affinity
        )


class Shapes:
    """The interned shapes of a cluster."""

    def __init__(self) -> None:
        self._by_bytes: dict[bytes, PodShape] = {}
        self._made = 0
        self.key_bytes = 0
        self.most_key_bytes = MOST_KEY_BYTES
        # Pods stamped from one template share their spec object: skip even the encoding for those. The spec
        # is kept alive so that its id cannot be reused.
        self._by_identity: dict[tuple[int, str], tuple[Any, PodShape]] = {}

    def of(self, pod: Obj) -> PodShape:
        """O(1) for a spec object or an equal spec seen before."""
        spec = spec_of(pod)
        meta = meta_of(pod)
        namespace = meta.get("namespace") or ""
        at = (id(spec), namespace)
        known = self._by_identity.get(at)
        if known is not None and known[0] is spec:
            return known[1]
        labels = meta.get("labels") or {}
        by_labels = _depends_on_labels(spec)
        key = _relevant_bytes(spec, namespace, labels if by_labels else None)
        shape = self._by_bytes.get(key)
        if shape is None:
            shape = _derive(self._made, spec, namespace, labels)
            self._made += 1
            self._remember(key, shape)
        if not by_labels:
            if len(self._by_identity) > 4096:
                self._by_identity.clear()
            self._by_identity[at] = (spec, shape)
        return shape

    def _remember(self, key: bytes, shape: PodShape) -> None:
        size = len(key) + _AROUND
        if self.key_bytes + size > self.most_key_bytes:
            self._by_bytes.clear()
            self._by_identity.clear()
            self.key_bytes = 0
        self._by_bytes[key] = shape
        self.key_bytes += size

    def forget(self) -> None:
        """Let go of the specs seen; the shapes stay."""
        self._by_identity.clear()


def _depends_on_labels(spec: Mapping[str, Any]) -> bool:
    for constraint in spec.get("topologySpreadConstraints") or ():
        if constraint.get("matchLabelKeys"):
            return True
    affinity = spec.get("affinity")
    return bool(affinity) and b"abelKeys" in msgspec.json.encode(affinity)


def _relevant_bytes(spec: Mapping[str, Any], namespace: str, labels: Mapping[str, str] | None) -> bytes:
    parts: list[Any] = [namespace, labels]
    parts.extend(spec.get(field) for field in _RELEVANT)
    parts.extend((c.get("resources"), c.get("ports"), c.get("image")) for c in spec.get("containers") or ())
    parts.append(None)
    parts.extend(
        (c.get("resources"), c.get("ports"), c.get("image"), c.get("restartPolicy"))
        for c in spec.get("initContainers") or ()
    )
    volumes = spec.get("volumes") or ()
    parts.append([v["image"] for v in volumes if v.get("image")])
    parts.append(claim_names(spec))
    parts.append(bool(spec.get("resourceClaims")))
    return msgspec.json.encode(parts)


def _derive(shape_id: int, spec: dict[str, Any], namespace: str, labels: Mapping[str, str]) -> PodShape:
    non_zero = pod_requests_non_zero(spec)
    requests = pod_requests(spec)
    gpu_count, gpu_each = gpus_asked(requests)
    affinity = spec.get("affinity") or {}
    near, apart = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    return PodShape(
        id=shape_id,
        requests=requests,
        non_zero_cpu=non_zero.get(CPU, 0),
        non_zero_memory=non_zero.get(MEMORY, 0),
        scored=pod_requests_scored(spec),
        selection=node_selection(spec),
        tolerations=parse_tolerations(spec.get("tolerations")),
        host_ports=_host_ports(spec),
        priority=int(spec.get("priority") or 0),
        never_preempts=spec.get("preemptionPolicy") == "Never",
        scheduler_name=spec.get("schedulerName") or DEFAULT_SCHEDULER,
        required_affinity=tuple(_term(t, namespace, labels) for t in near.get(required) or ()),
        required_anti_affinity=tuple(_term(t, namespace, labels) for t in apart.get(required) or ()),
        preferred_affinity=_weighted(near.get(preferred), namespace, labels),
        preferred_anti_affinity=_weighted(apart.get(preferred), namespace, labels),
        spread=tuple(spread_constraint(c, labels) for c in spec.get("topologySpreadConstraints") or ()),
        images=_images(spec),
        container_count=len(spec.get("containers") or ()) + len(spec.get("initContainers") or ()),
        gpu_count=gpu_count,
        gpu_each=gpu_each,
        claims=claim_names(spec),
        has_devices=bool(spec.get("resourceClaims")),
    )


def gpus_asked(requests: Mapping[str, int]) -> tuple[int, int]:
    """How many devices, and how many milli of each: whole GPUs, or a share of one.

    `fairway.dev/gpu-milli` above 1000 asks for whole devices, as many as it takes.
    """
    whole = requests.get(NVIDIA_GPU, 0)
    if whole:
        return whole, 1000
    milli = requests.get(GPU_MILLI, 0)
    if not milli:
        return 0, 0
    return (1, milli) if milli <= 1000 else (-(-milli // 1000), 1000)


def _weighted(raw: Any, namespace: str, labels: Mapping[str, str]) -> tuple[WeightedTerm, ...]:
    return tuple(
        WeightedTerm(int(w.get("weight") or 0), _term(w.get("podAffinityTerm") or {}, namespace, labels))
        for w in raw or ()
    )


def _term(raw: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> PodTerm:
    selector = label_selector(raw.get("labelSelector"))
    extra = [Requirement(k, IN, (labels[k],)) for k in raw.get("matchLabelKeys") or () if k in labels]
    extra += [Requirement(k, NOT_IN, (labels[k],)) for k in raw.get("mismatchLabelKeys") or () if k in labels]
    named = tuple(sorted(raw.get("namespaces") or ()))
    by_labels = raw.get("namespaceSelector")
    if not named and by_labels is None:
        named = (namespace,)
    return PodTerm(
        named,
        NOTHING if by_labels is None else label_selector(by_labels),
        _with(selector, extra),
        raw.get("topologyKey") or "",
    )


def _with(selector: Selector, extra: list[Requirement]) -> Selector:
    if not extra or selector.nothing:
        return selector
    return Selector(tuple(sorted((*selector.requirements, *extra))))


def spread_constraint(raw: Mapping[str, Any], labels: Mapping[str, str]) -> SpreadConstraint:
    """One `topologySpreadConstraints` entry; `labels` are the pod's, for matchLabelKeys."""
    selector = label_selector(raw.get("labelSelector"))
    extra = [Requirement(k, IN, (labels[k],)) for k in raw.get("matchLabelKeys") or () if k in labels]
    return SpreadConstraint(
        max_skew=int(raw.get("maxSkew") or 1),
        topology_key=raw.get("topologyKey") or "",
        selector=_with(selector, extra),
        min_domains=int(raw.get("minDomains") or 1),
        honors_affinity=(raw.get("nodeAffinityPolicy") or "Honor") == "Honor",
        honors_taints=raw.get("nodeTaintsPolicy") == "Honor",
        is_hard=(raw.get("whenUnsatisfiable") or "DoNotSchedule") == "DoNotSchedule",
    )


def is_empty(selector: Selector) -> bool:
    """`labels.Selector.Empty()`: restricts nothing (`EVERYTHING`); a null selector is not empty."""
    return selector == EVERYTHING


def _host_ports(spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    ports = []
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for container in [*(spec.get("containers") or ()), *sidecars]:
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else 0)
            if number:
                ports.append(
                    HostPort(port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", int(number))
                )
    return tuple(ports)


def _images(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Names to look for among a node's images: of all containers and of image volumes."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    volumes = [v["image"].get("reference") or "" for v in spec.get("volumes") or () if v.get("image")]
    return tuple(normalized_image(name) for name in [*(c.get("image") or "" for c in containers), *volumes])


def normalized_image(name: str) -> str:
    """`nginx` → `nginx:latest`: how a pod's image is looked up. Source: imagelocality.normalizedImageName."""
    return name if name.rfind(":") > name.rfind("/") else name + ":latest"
