"""Names of resources, quantities, and how requests and limits go together.

Source: pkg/apis/core/validation/validation.go validateResourceRequirements, validatePodResources;
pkg/apis/core/helper (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.podrequests import pod_limits, pod_requests
from fairway.kube.problem import Faults
from fairway.kube.resources import CPU, MEMORY, amount, format_amount, is_extended, is_hugepages, is_native
from fairway.kube.validation.kinds import texts

Amounts = Mapping[str, Any]
_NEGATIVE = "must be greater than or equal to 0"
_POSITIVE = "must be greater than zero"
_OF_CONTAINERS = frozenset({CPU, MEMORY, "ephemeral-storage"})
_COUNTS = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_STANDARD = (
    _COUNTS
    | _OF_CONTAINERS
    | {"storage", "requests.storage"}
    | {f"{side}.{name}" for side in ("requests", "limits") for name in _OF_CONTAINERS}
)
_OF_PODS = (CPU, MEMORY)
# Longer lists of names are judged each time: what is remembered stays small.
_REMEMBERED_CHARS = 512


@names.remembered(4096)
def name_complaints(name: str) -> tuple[str, ...]:
    """Any resource: a qualified name, and a standard one where it has no domain."""
    complaints = names.label_key(name)
    if not complaints and "/" not in name and name not in _STANDARD and not is_quota_hugepages(name):
        return ("must be a standard resource type or fully qualified",)
    return complaints


@names.remembered(4096)
def container_complaints(name: str) -> tuple[str, ...]:
    complaints = name_complaints(name)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not is_hugepages(name):
            return (*complaints, "must be a standard resource for containers")
    elif not is_native(name) and not is_well_formed_extended(name):
        return (*complaints, "doesn't follow extended resource name standard")
    return complaints


def is_quota_name(name: str) -> bool:
    return (name in _STANDARD and name != "storage") or is_quota_hugepages(name)


def is_quota_hugepages(name: str) -> bool:
    return is_hugepages(name) or name.startswith("requests.hugepages-")


def is_well_formed_extended(name: str) -> bool:
    return is_extended(name) and not names.label_key(f"requests.{name}")


def is_whole(name: str) -> bool:
    """Whether amounts of it must be integers."""
    return name in _COUNTS or is_well_formed_extended(name)


def is_overcommittable(name: str) -> bool:
    return is_native(name) and not is_hugepages(name)


def not_negative(value: Any, at: Path, out: Faults) -> None:
    if quantity.of(value) < 0:
        out.invalid(at, quantity.canonical(value), _NEGATIVE)


def positive(value: Any, at: Path, out: Faults) -> None:
    if quantity.of(value) <= 0:
        out.invalid(at, quantity.canonical(value), _POSITIVE)


def quantity_of(name: str, value: Any, at: Path, out: Faults) -> None:
    """Never negative, and whole where it counts devices or objects."""
    not_negative(value, at, out)
    if is_whole(name) and quantity.of(value).denominator != 1:
        out.invalid(at, quantity.canonical(value), "must be an integer")


def basic(value: Any, at: Path, out: Faults) -> None:
    whole = quantity.whole_ceil(value)
    if whole < 0:
        out.invalid(at, whole, "must be a valid resource quantity")


def of_container(requirements: Mapping[str, Any], claims: Iterable[str], at: Path, out: Faults) -> None:
    limits, requests = requirements.get("limits") or {}, requirements.get("requests") or {}
    is_ordinary = sum(map(len, limits)) + sum(map(len, requests)) <= _REMEMBERED_CHARS
    judge = _is_in_order if is_ordinary else _is_in_order.__wrapped__
    if not judge(tuple(limits.items()), tuple(requests.items())):
        _requirements(limits, requests, _container_name, at, out)
    _claims(requirements.get("claims") or (), claims, (*at, "claims"), out)


def overhead(amounts: Amounts | None, at: Path, out: Faults) -> None:
    """Overhead keeps the rules of limits."""
    _requirements(amounts or {}, {}, _container_name, at, out)


@lru_cache(maxsize=16384)
def _is_in_order(limits: tuple[tuple[str, Any], ...], requests: tuple[tuple[str, Any], ...]) -> bool:
    """Few containers differ in what they ask for: each combination is judged once."""
    out = Faults()
    _requirements(dict(limits), dict(requests), _container_name, (), out)
    return not out


def container_name(name: str, at: Path, out: Faults) -> None:
    out.invalids(at, name, container_complaints(name))


_container_name = container_name


def _pod_name(name: str, at: Path, out: Faults) -> None:
    complaints = name_complaints(name)
    out.invalids(at, name, complaints)
    if not complaints and name not in _OF_PODS and not is_hugepages(name):
        out.unsupported(at, name, ("cpu", "hugepages-", "memory"))


def _requirements(
    limits: Amounts, requests: Amounts, named: Callable[[str, Path, Faults], None], at: Path, out: Faults
) -> None:
    for name, value in limits.items():
        _requirement(name, value, named, (*at, "limits", MapKey(name)), out)
        _whole_pages(name, value, (*at, "limits", MapKey(name)), out)
    for name, value in requests.items():
        _requirement(name, value, named, (*at, "requests", MapKey(name)), out)
        _within_limit(name, value, limits, at, out)
        _whole_pages(name, value, (*at, "requests", MapKey(name)), out)
    used = {**limits, **requests}
    if any(is_hugepages(name) for name in used) and CPU not in used and MEMORY not in used:
        out.forbidden(at, "HugePages require cpu or memory")


def _requirement(
    name: str, value: Any, named: Callable[[str, Path, Faults], None], at: Path, out: Faults
) -> None:
    named(name, at, out)
    quantity_of(name, value, at, out)


def _whole_pages(name: str, value: Any, at: Path, out: Faults) -> None:
    if not is_hugepages(name):
        return
    try:
        size = quantity.parse(name.removeprefix("hugepages-"))
    except quantity.QuantityError:
        size = Fraction(0)
    if size <= 0 or size.denominator != 1 or quantity.whole_ceil(value) % size:
        text = quantity.canonical(value)
        out.invalid(at, text, f"{text} is not positive integer multiple of {name}")


def _within_limit(name: str, value: Any, limits: Amounts, at: Path, out: Faults) -> None:
    if name not in limits:
        if not is_overcommittable(name):
            out.required((*at, "limits"), "Limit must be set for non overcommitable resources")
        return
    asked, limit = quantity.of(value), quantity.of(limits[name])
    text = quantity.canonical(limits[name])
    if asked != limit and not is_overcommittable(name):
        said = f"must be equal to {name} limit of {text}"
        out.invalid((*at, "requests"), quantity.canonical(value), said)
    elif asked > limit:
        said = f"must be less than or equal to {name} limit of {text}"
        out.invalid((*at, "requests"), quantity.canonical(value), said)


def _claims(claims: Sequence[Mapping[str, Any]], of_pod: Iterable[str], at: Path, out: Faults) -> None:
    seen: set[str] = set()
    known = frozenset(of_pod)
    for index, claim in enumerate(claims):
        name, request, where = claim.get("name") or "", claim.get("request") or "", (*at, index)
        if not name:
            out.required(where)
            continue
        if name in seen:
            out.duplicate(where, name)
        else:
            _claim_request(name, request, seen, where, out)
        if name not in known:
            said = "must be one of the names in pod.spec.resourceClaims"
            out.not_found(
                where, name, f"{said}: {', '.join(sorted(known))}" if known else f"{said} which is empty"
            )


def _claim_request(name: str, request: str, seen: set[str], at: Path, out: Faults) -> None:
    key = f"{name}/{request}" if request else name
    if request:
        texts.dns_label(request, (*at, "request"), out)
    if key in seen:
        out.duplicate(at, key)
    elif not request and any(other.partition("/")[0] == name for other in seen):
        out.duplicate(at, name)
    seen.add(key)


def of_pod(spec: Mapping[str, Any], at: Path, out: Faults) -> None:
    """`spec.resources`: what the pod as a whole asks for, against what its containers do."""
    resources, where = spec.get("resources"), (*at, "resources")
    if resources is None:
        return
    if (spec.get("os") or {}).get("name") == "windows":
        out.forbidden(where, "may not be set for a windows pod")
        return
    if resources.get("claims") is not None:
        out.forbidden((*where, "claims"), "claims may not be set for Resources at pod-level")
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    _requirements(limits, requests, _pod_name, where, out)
    claimed = [claim.get("name") for claim in spec.get("resourceClaims") or ()]
    _claims(resources.get("claims") or (), [name for name in claimed if name], (*where, "claims"), out)
    _consistency(spec, limits, requests, where, out)


def _consistency(spec: Mapping[str, Any], limits: Amounts, requests: Amounts, at: Path, out: Faults) -> None:
    alone = {**spec, "resources": None, "overhead": None}
    for name, total in pod_requests(alone).items():
        if name in requests and total > amount(name, requests[name]):
            said = f"must be greater than or equal to aggregate container requests of {format_amount(name, total)}"
            out.invalid((*at, "requests", MapKey(name)), quantity.canonical(requests[name]), said)
    for name, total in pod_limits(alone).items():
        if name in limits and is_hugepages(name) and total > amount(name, limits[name]):
            said = (
                f"must be greater than or equal to aggregate container limits of {format_amount(name, total)}"
            )
            out.invalid((*at, "limits", MapKey(name)), quantity.canonical(limits[name]), said)
    for index, container in enumerate(spec.get("containers") or ()):
        for name, value in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and quantity.of(value) > quantity.of(limits[name]):
                said = f"must be less than or equal to pod limits of {quantity.canonical(limits[name])}"
                where = (*at, "containers", index, MapKey(name), "limits")
                out.invalid(where, quantity.canonical(value), said)
