"""Do the requests of a pod respect its own limits, and the LimitRanges of its namespace?

Source: pkg/workload/resources.go ValidateResources; pkg/util/limitrange.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.kube.objects import Obj, spec_of
from fairway.kube.podrequests import pod_requests
from fairway.kube.resources import Resources, parse_resources

_EXCEEDS_LIMITS: Final = "requests must not exceed its limits"
_ABOVE_MAX: Final = "requests must not be above the limitRange max"
_BELOW_MIN: Final = "requests must not be below the limitRange min"


def aggregate(problems: Sequence[str]) -> str:
    """As apimachinery's Aggregate prints it: repeated messages once."""
    unique = list(dict.fromkeys(problems))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def _problem(path: str, names: Iterable[str], message: str) -> str:
    listed = ",".join(f'"{name}"' for name in names)
    return f"{path}: Invalid value: [{listed}]: {message}"


def _greater(a: Resources, b: Resources) -> list[str]:
    """Names in both whose amount in `a` is larger."""
    return sorted(name for name, value in a.items() if name in b and value > b[name])


def over_limits(path: str, spec: Mapping[str, Any]) -> list[str]:
    problems = []
    parts = [
        (f"{path}.{kind}[{i}]", container.get("resources"))
        for kind in ("initContainers", "containers")
        for i, container in enumerate(spec.get(kind) or ())
    ]
    if spec.get("resources"):
        parts.append((f"{path}.resources", spec["resources"]))
    for at, resources in parts:
        resources = resources or {}
        if not resources.get("limits"):
            continue
        names = _greater(parse_resources(resources.get("requests")), parse_resources(resources["limits"]))
        if names:
            problems.append(_problem(at, names, _EXCEEDS_LIMITS))
    return problems


@dataclass(slots=True)
class Bounds:
    max: Resources = field(default_factory=dict)
    min: Resources = field(default_factory=dict)


def summarize(ranges: Sequence[Obj]) -> dict[str, Bounds]:
    """Per type the narrowest bounds of all ranges."""
    summary: dict[str, Bounds] = {}
    for limit_range in ranges:
        for item in spec_of(limit_range).get("limits") or ():
            bounds = summary.setdefault(item.get("type") or "", Bounds())
            for name, value in parse_resources(item.get("max")).items():
                bounds.max[name] = min(bounds.max.get(name, value), value)
            for name, value in parse_resources(item.get("min")).items():
                bounds.min[name] = max(bounds.min.get(name, value), value)
    return summary


def out_of_range(path: str, spec: Mapping[str, Any], summary: Mapping[str, Bounds]) -> list[str]:
    problems: list[str] = []
    of_container = summary.get("Container")
    if of_container is not None:
        for kind in ("initContainers", "containers"):
            for index, container in enumerate(spec.get(kind) or ()):
                resources = container.get("resources") or {}
                requests = parse_resources(resources.get("requests"))
                limits = parse_resources(resources.get("limits"))
                both = {n: (v, limits[n]) for n, v in requests.items() if n in limits}
                low = requests | limits | {n: min(two) for n, two in both.items()}
                high = requests | limits | {n: max(two) for n, two in both.items()}
                problems.extend(_against(f"{path}.{kind}[{index}]", low, high, of_container))
    of_pod = summary.get("Pod")
    if of_pod is not None:
        total = pod_requests(dict(spec))
        problems.extend(_against(path, total, total, of_pod))
    return problems


def _against(path: str, low: Resources, high: Resources, bounds: Bounds) -> list[str]:
    problems = []
    above = _greater(high, bounds.max)
    if above:
        problems.append(_problem(path, above, _ABOVE_MAX))
    below = _greater(bounds.min, low)
    if below:
        problems.append(_problem(path, below, _BELOW_MIN))
    return problems
