"""What pods ask for, and what nodes have: component-helpers/resource/helpers.go, framework/types.go."""

from __future__ import annotations

import math
import re
from collections import Counter
from fractions import Fraction
from typing import Any

from oracle.world import NodeInfo, Obj

_SUFFIX = {
    "": Fraction(1), "m": Fraction(1, 1000), "k": Fraction(1000), "M": Fraction(10**6), "G": Fraction(10**9),
    "T": Fraction(10**12), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
}  # fmt: skip


def quantity(value: Any) -> Fraction:
    number, suffix = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(value)).groups()  # type: ignore[union-attr]
    return Fraction(number) * _SUFFIX[suffix]


def as_int(name: str, value: Fraction) -> int:
    return math.ceil(value * 1000) if name == "cpu" else math.ceil(value)


def requests_of(container: Obj) -> dict[str, Fraction]:
    """With the API server's default: a limit is a request where there is none."""
    resources = container.get("resources") or {}
    found = {k: quantity(v) for k, v in (resources.get("limits") or {}).items()}
    found.update({k: quantity(v) for k, v in (resources.get("requests") or {}).items()})
    return found


def aggregate(spec: Obj, missing: dict[str, Fraction]) -> dict[str, Fraction]:
    """AggregateContainerRequests."""
    total: Counter[str] = Counter()
    for c in spec["containers"]:
        for k, v in {**missing, **requests_of(c)}.items():
            total[k] += v
    sidecars: Counter[str] = Counter()
    peak: dict[str, Fraction] = {}
    for c in spec.get("initContainers") or []:
        asked = {**missing, **requests_of(c)}
        if c.get("restartPolicy") == "Always":
            for k, v in asked.items():
                total[k] += v
                sidecars[k] += v
            now = dict(sidecars)
        else:
            now = {k: asked.get(k, Fraction(0)) + sidecars.get(k, 0) for k in {**asked, **sidecars}}
        for k, v in now.items():
            peak[k] = max(peak.get(k, Fraction(0)), Fraction(v))
    return {k: max(Fraction(total.get(k, 0)), peak.get(k, Fraction(0))) for k in {**total, **peak}}


def pod_level(spec: Obj) -> dict[str, Fraction]:
    """spec.resources.requests after defaulting."""
    resources = spec.get("resources") or {}
    asked = {k: quantity(v) for k, v in (resources.get("requests") or {}).items()}
    if resources.get("limits"):
        for k, v in aggregate(spec, {}).items():
            if k in ("cpu", "memory"):
                asked.setdefault(k, v)
        for k, v in resources["limits"].items():
            asked.setdefault(k, quantity(v))
    return {k: v for k, v in asked.items() if k in ("cpu", "memory") or k.startswith("hugepages-")}


def pod_requests(
    pod: Obj, missing: dict[str, Fraction], *, skip_pod_level: bool = False
) -> dict[str, Fraction]:
    spec = pod["spec"]
    found = aggregate(spec, missing)
    if not skip_pod_level:
        found.update(pod_level(spec))
    for k, v in (spec.get("overhead") or {}).items():
        found[k] = found.get(k, Fraction(0)) + quantity(v)
    return found


NON_ZERO = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}


def counted_requests(pod: Obj) -> tuple[dict[str, int], int, int]:
    """CalculateResource: what a pod on a node takes, and its non-zero cpu and memory."""
    plain = pod_requests(pod, {})
    missing = (
        NON_ZERO if not pod_level(pod["spec"]) else {k: v for k, v in NON_ZERO.items() if k not in plain}
    )
    non_zero = pod_requests(pod, missing)
    return (
        {k: as_int(k, v) for k, v in plain.items()},
        as_int("cpu", non_zero.get("cpu", Fraction(0))),
        as_int("memory", non_zero.get("memory", Fraction(0))),
    )


def allocatable(info: NodeInfo) -> dict[str, int]:
    status = info.node.get("status") or {}
    return {
        k: as_int(k, quantity(v))
        for k, v in (status.get("allocatable") or status.get("capacity") or {}).items()
    }


def requested(info: NodeInfo) -> tuple[Counter[str], int, int]:
    total: Counter[str] = Counter()
    cpu = memory = 0
    for pod in info.pods:
        plain, non_zero_cpu, non_zero_memory = counted_requests(pod)
        total.update(plain)
        cpu += non_zero_cpu
        memory += non_zero_memory
    return total, cpu, memory
