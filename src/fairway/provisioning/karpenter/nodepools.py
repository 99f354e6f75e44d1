"""What does a NodePool allow? Its fields, typed; v1beta1 read as v1.

Source: pkg/apis/v1/nodepool.go and the CRD's defaults; the v1beta1 conversion of v1.0 (disruption.expireAfter and
the kubelet moved, consolidationPolicy WhenUnderutilized renamed).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from fairway.kube.objects import Obj, meta_of, spec_of, status_of
from fairway.kube.resources import Resources, parse_resources
from fairway.kube.taints import PREFER_NO_SCHEDULE, Taint, parse_taints
from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.karpenter.labels import GROUP, NODEPOOL
from fairway.provisioning.karpenter.requirements import (
    Requirements,
    label_requirements,
    selector_requirements,
)

API_VERSION: Final = f"{GROUP}/v1"
API_BETA: Final = f"{GROUP}/v1beta1"
NEVER: Final = "Never"
WHEN_EMPTY: Final = "WhenEmpty"
WHEN_UNDERUTILIZED: Final = "WhenEmptyOrUnderutilized"
BALANCED: Final = "Balanced"
HASH_VERSION: Final = "v3"
DEFAULT_EXPIRE_AFTER: Final = "720h"
DEFAULT_BUDGETS: Final = ({"nodes": "10%"},)
_DURATION: Final = re.compile(r"([0-9]+)(s|m|h)")
# Fields of a template's spec that hold one.
_DURATIONS: Final = ("expireAfter", "terminationGracePeriod")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Budget:
    """`nodes`: a number or a percentage. With a schedule (cron, UTC) it holds for `duration_us` after each start."""

    nodes: str
    reasons: tuple[str, ...] | None = None
    schedule: str | None = None
    duration_us: int = 0


@dataclass(frozen=True, slots=True)
class NodePool:
    """A NodePool. Durations None: Never."""

    name: str
    requirements: Requirements
    label_requirements: Requirements
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    limits: Resources | None
    weight: int
    consolidate_after_us: int | None
    consolidation_policy: str
    budgets: tuple[Budget, ...]
    template: Mapping[str, Any] = field(repr=False)
    asked: Requirements
    """What its template asks of nodes, its labels aside."""
    hash: str
    """Changes when a claim of the old template would have drifted; requirements are judged on their own."""
    uid: str = ""
    is_static: bool = False
    is_ready: bool = True

    @property
    def has_preferred_taint(self) -> bool:
        return any(t.effect == PREFER_NO_SCHEDULE for t in self.taints)


def _hash_of(template: Mapping[str, Any]) -> str:
    """Unlike kube: another hash function, so the number differs from Karpenter's; equality does not."""
    spec = {k: v for k, v in (template.get("spec") or {}).items() if k != "requirements"}
    lasts = {name: duration_us(spec.pop(name)) for name in _DURATIONS if spec.get(name) is not None}
    spec |= {name: str(us) for name, us in lasts.items() if us is not None}
    labels = dict(template.get("metadata") or {})
    text = msgspec.json.encode(_as_sets({"metadata": labels, "spec": spec}), order="sorted")
    return str(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big"))


def _as_sets(value: Any) -> Any:
    """Lists without their order, zero values left out; an empty list or map that is written down is none of these.

    Of equal items in a list two cancel out. Source: hashstructure's SlicesAsSets (an exclusive or), IgnoreZeroValue.
    """
    if isinstance(value, Mapping):
        return {k: _as_sets(v) for k, v in value.items() if v not in (None, "", 0, False)}
    if isinstance(value, list):
        odd: dict[bytes, Any] = {}
        for item in map(_as_sets, value):
            key = msgspec.json.encode(item, order="sorted")
            if odd.pop(key, None) is None:
                odd[key] = item
        return [odd[key] for key in sorted(odd)]
    return value


def node_pool(obj: Obj) -> NodePool:
    """From an object that has been checked; v1beta1 is converted, what is absent defaulted."""
    current = to_v1(obj)
    meta, spec = meta_of(current), current.get("spec") or {}
    template = spec.get("template") or {}
    of_node, labels = template.get("spec") or {}, meta_of(template).get("labels") or {}
    reference = of_node.get("nodeClassRef") or {}
    name = meta.get("name") or ""
    own = {NODEPOOL: name, **_class_label(reference)}
    disruption = spec.get("disruption") or {}
    asked = selector_requirements(of_node.get("requirements"))
    conditions = status_of(current).get("conditions") or ()
    return NodePool(
        name=name,
        uid=meta.get("uid") or "",
        requirements=asked.plus(label_requirements({**labels, **own})),
        label_requirements=asked.plus(label_requirements(labels)),
        labels={**labels, **own},
        annotations=meta_of(template).get("annotations") or {},
        taints=parse_taints(of_node.get("taints")),
        limits=parse_resources(spec["limits"]) if spec.get("limits") else None,
        weight=int(spec.get("weight") or 0),
        consolidate_after_us=duration_us(disruption.get("consolidateAfter", "0s")),
        consolidation_policy=disruption.get("consolidationPolicy") or WHEN_UNDERUTILIZED,
        budgets=tuple(_budget(b) for b in disruption.get("budgets") or DEFAULT_BUDGETS),
        template=template,
        asked=asked,
        hash=_hash_of(template),
        is_static=spec.get("replicas") is not None,
        is_ready=all(c.get("status") != "False" for c in conditions if c.get("type") == "Ready"),
    )


def _class_label(reference: Mapping[str, Any]) -> dict[str, str]:
    group, kind, name = (reference.get(k) or "" for k in ("group", "kind", "name"))
    return {f"{group}/{kind.lower()}": name} if group and kind and name else {}


def _budget(raw: Mapping[str, Any]) -> Budget:
    reasons = raw.get("reasons")
    return Budget(
        nodes=str(raw.get("nodes", "10%")),
        reasons=tuple(reasons) if reasons is not None else None,
        schedule=raw.get("schedule"),
        duration_us=duration_us(raw.get("duration") or "0s") or 0,
    )


def duration_us(text: str) -> int | None:
    """`1h30m`, `0s` or `Never` (None)."""
    if text == NEVER:
        return None
    return sum(int(n) * _UNIT_S[unit] for n, unit in _DURATION.findall(str(text))) * SECOND_US


def by_weight(pools: list[NodePool]) -> list[NodePool]:
    """The heaviest first; of equal weight, the name later in the alphabet. Source: OrderByWeight."""
    return sorted(sorted(pools, key=lambda p: p.name, reverse=True), key=lambda p: -p.weight)


def to_v1(obj: Obj) -> Obj:
    """A v1beta1 NodePool as v1; others as they are."""
    if obj.get("apiVersion") != API_BETA or obj.get("kind") != "NodePool":
        return obj
    spec = spec_of(obj)
    template, disruption = spec.get("template") or {}, dict(spec.get("disruption") or {})
    of_node = dict(template.get("spec") or {})
    of_node.pop("kubelet", None)
    of_node["expireAfter"] = disruption.pop("expireAfter", DEFAULT_EXPIRE_AFTER)
    of_node["nodeClassRef"] = _class_reference(of_node.get("nodeClassRef") or {})
    policy = disruption.get("consolidationPolicy") or "WhenUnderutilized"
    disruption["consolidationPolicy"] = WHEN_UNDERUTILIZED if policy == "WhenUnderutilized" else policy
    disruption.setdefault("consolidateAfter", "0s")
    new = {**spec, "template": {**template, "spec": of_node}, "disruption": disruption}
    return {**obj, "apiVersion": API_VERSION, "spec": new}


def _class_reference(reference: Mapping[str, Any]) -> dict[str, Any]:
    """v1beta1 gave the class's apiVersion, v1 its group."""
    group = reference.get("group") or str(reference.get("apiVersion") or "").partition("/")[0]
    return {"group": group, "kind": reference.get("kind") or "", "name": reference.get("name") or ""}
