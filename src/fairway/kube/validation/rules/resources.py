"""Requests and limits: names, quantities and how they go together.

Source: pkg/apis/core/validation/validation.go validateResourceRequirements, validatePodResources;
pkg/apis/core/helper (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.podrequests import pod_limits, pod_requests
from fairway.kube.resources import CPU, MEMORY, amount, format_amount, is_extended, is_hugepages, is_native
from fairway.kube.validation.problem import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_found,
    required,
    unsupported,
)

_NEGATIVE = "must be greater than or equal to 0"
_NOT_INTEGER = "must be an integer"
_OF_CONTAINERS = frozenset({CPU, MEMORY, "ephemeral-storage"})
_COUNTS = frozenset(
    [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
_STANDARD = (
    _COUNTS
    | _OF_CONTAINERS
    | {"storage", "requests.storage"}
    | {f"{side}.{name}" for side in ("requests", "limits") for name in _OF_CONTAINERS}
)
# Longer lists of names are judged each time: what is remembered stays small.
_REMEMBERED_CHARS = 512
QUOTA_NAMES = _STANDARD - {"storage"}


@names.remembered(4096)
def resource_name_complaints(name: str) -> tuple[str, ...]:
    """Any resource: a qualified name, and a standard one where it has no domain."""
    complaints = names.label_key(name)
    if not complaints and "/" not in name and name not in _STANDARD and not _is_quota_hugepages(name):
        return ("must be a standard resource type or fully qualified",)
    return complaints


@names.remembered(4096)
def container_resource_complaints(name: str) -> tuple[str, ...]:
    complaints = resource_name_complaints(name)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not is_hugepages(name):
            return (*complaints, "must be a standard resource for containers")
    elif not is_native(name) and not is_well_formed_extended(name):
        return (*complaints, "doesn't follow extended resource name standard")
    return complaints


def _is_quota_hugepages(name: str) -> bool:
    return is_hugepages(name) or name.startswith("requests.hugepages-")


def is_well_formed_extended(name: str) -> bool:
    return is_extended(name) and not names.label_key(f"requests.{name}")


def is_whole(name: str) -> bool:
    """Whether amounts of it must be integers."""
    return name in _COUNTS or is_well_formed_extended(name)


def is_overcommittable(name: str) -> bool:
    return is_native(name) and not is_hugepages(name)


def check_amount(name: str, value: Any, path: Path, out: list[Problem]) -> None:
    """Never negative, and whole where it counts devices or objects."""
    exact = quantity.of(value)
    if exact < 0:
        out.append(invalid(path, quantity.canonical(value), _NEGATIVE))
    if exact.denominator != 1 and is_whole(name):
        out.append(invalid(path, quantity.canonical(value), _NOT_INTEGER))


def check_amounts(amounts: Mapping[str, Any] | None, path: Path, out: list[Problem]) -> None:
    for name, value in (amounts or {}).items():
        check_amount(name, value, (*path, MapKey(name)), out)


def check_container_resources(
    resources: Mapping[str, Any], claim_names: frozenset[str], path: Path, out: list[Problem]
) -> None:
    _check_requirements(resources, container_resource_complaints, path, out)
    _check_claims(resources.get("claims") or (), claim_names, (*path, "claims"), out)


def check_overhead(overhead: Mapping[str, Any], path: Path, out: list[Problem]) -> None:
    """Overhead keeps the rules of limits."""
    found: list[Problem] = []
    _check_requirements({"limits": overhead}, container_resource_complaints, path, found)
    out.extend(p._replace(path=(*path, *p.path[len(path) + 1 :])) for p in found)


def _check_requirements(
    resources: Mapping[str, Any], complaints: Callable[[str], tuple[str, ...]], path: Path, out: list[Problem]
) -> None:
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    is_ordinary = sum(map(len, limits)) + sum(map(len, requests)) <= _REMEMBERED_CHARS
    judge = _are_in_order if is_ordinary else _are_in_order.__wrapped__
    if not judge(tuple(limits.items()), tuple(requests.items()), complaints):
        _list_disorder(limits, requests, complaints, path, out)


@lru_cache(maxsize=16384)
def _are_in_order(
    limits: tuple[tuple[str, Any], ...],
    requests: tuple[tuple[str, Any], ...],
    complaints: Callable[[str], tuple[str, ...]],
) -> bool:
    """Few containers differ in what they ask for: each combination is judged once."""
    out: list[Problem] = []
    _list_disorder(dict(limits), dict(requests), complaints, (), out)
    return not out


def _list_disorder(
    limits: Mapping[str, Any],
    requests: Mapping[str, Any],
    complaints: Callable[[str], tuple[str, ...]],
    path: Path,
    out: list[Problem],
) -> None:
    for name, value in limits.items():
        _check_entry(name, value, complaints, (*path, "limits", MapKey(name)), out)
    for name, value in requests.items():
        _check_entry(name, value, complaints, (*path, "requests", MapKey(name)), out)
        _check_against_limit(name, value, limits, path, out)
    has_pages = any(is_hugepages(n) for n in (*limits, *requests))
    if has_pages and not any(n in (CPU, MEMORY) for n in (*limits, *requests)):
        out.append(forbidden(path, "HugePages require cpu or memory"))


def _check_entry(
    name: str, value: Any, complaints: Callable[[str], tuple[str, ...]], path: Path, out: list[Problem]
) -> None:
    out.extend(invalids(path, name, complaints(name)))
    check_amount(name, value, path, out)
    if is_hugepages(name) and not _is_multiple_of_page(name, quantity.of(value)):
        text = quantity.canonical(value)
        out.append(invalid(path, text, f"{text} is not positive integer multiple of {name}"))


def _is_multiple_of_page(name: str, value: Fraction) -> bool:
    try:
        page = quantity.parse(name.removeprefix("hugepages-"))
    except quantity.QuantityError:
        return False
    return page > 0 and page.denominator == 1 and (value / page).denominator == 1


def _check_against_limit(
    name: str, request: Any, limits: Mapping[str, Any], path: Path, out: list[Problem]
) -> None:
    limit = limits.get(name)
    if limit is None:
        if not is_overcommittable(name):
            detail = "Limit must be set for non overcommitable resources"
            out.append(required((*path, "limits"), detail))
        return
    wanted, bound = quantity.of(request), quantity.of(limit)
    if wanted == bound:
        return
    at, text = (*path, "requests"), quantity.canonical(request)
    if not is_overcommittable(name):
        detail = f"must be equal to {name} limit of {quantity.canonical(limit)}"
        out.append(invalid(at, text, detail))
    elif wanted > bound:
        detail = f"must be less than or equal to {name} limit of {quantity.canonical(limit)}"
        out.append(invalid(at, text, detail))


def _check_claims(claims: Any, known: frozenset[str], path: Path, out: list[Problem]) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name = claim.get("name") or ""
        at = (*path, index)
        if not name:
            out.append(required(at))
            continue
        if name in seen:
            # The claim as a whole was named already.
            out.append(duplicate(at, name))
        else:
            seen.add(_check_claim_request(claim, name, seen, at, out))
        if name not in known:
            listed = ": " + ", ".join(sorted(known)) if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            out.append(not_found(at, name)._replace(detail=detail))


def _check_claim_request(
    claim: dict[str, Any], name: str, seen: set[str], at: Path, out: list[Problem]
) -> str:
    """What the entry names: the claim, or one request of it. It may not be named twice."""
    request = claim.get("request") or ""
    key = f"{name}/{request}" if request else name
    if request:
        out.extend(invalids((*at, "request"), request, names.dns_label(request)))
    if key in seen:
        out.append(duplicate(at, key))
    elif not request:
        out.extend(duplicate(at, name) for other in seen if other.startswith(f"{name}/"))
    return key


def check_pod_resources(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    """Pod-level resources: names, and at least what the containers ask together (KEP-2837)."""
    resources = spec["resources"]
    at = (*path, "resources")
    if (spec.get("os") or {}).get("name") == "windows":
        out.append(forbidden(at, "may not be set for a windows pod"))
        return
    if resources.get("claims") is not None:
        out.append(forbidden((*at, "claims"), "claims may not be set for Resources at pod-level"))
    before = len(out)
    for side in ("limits", "requests"):
        for name in resources.get(side) or ():
            if resource_name_complaints(name) == () and not _is_pod_level(name):
                known = ("cpu", "hugepages-*", "memory")
                out.append(unsupported((*at, side, MapKey(name)), name, known))
    _check_requirements(resources, resource_name_complaints, at, out)
    if len(out) == before:
        _check_aggregates(spec, resources, at, out)


def _is_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or is_hugepages(name)


def _check_aggregates(
    spec: dict[str, Any], resources: Mapping[str, Any], at: Path, out: list[Problem]
) -> None:
    of_containers = {"containers": spec.get("containers"), "initContainers": spec.get("initContainers")}
    requests = resources.get("requests") or {}
    limits = resources.get("limits") or {}
    for name, total in pod_requests(of_containers).items():
        if name in requests and total > amount(name, requests[name]):
            detail = f"must be greater than or equal to aggregate container requests of {format_amount(name, total)}"
            out.append(invalid((*at, "requests", MapKey(name)), quantity.canonical(requests[name]), detail))
    for name, total in pod_limits(of_containers).items():
        if is_hugepages(name) and name in limits and total > amount(name, limits[name]):
            detail = (
                f"must be greater than or equal to aggregate container limits of {format_amount(name, total)}"
            )
            out.append(invalid((*at, "limits", MapKey(name)), quantity.canonical(limits[name]), detail))
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and quantity.of(limit) > quantity.of(limits[name]):
                # Unlike kube: reported where the container's limit stands, not below spec.resources.
                where = (*at[:-1], "containers", index, "resources", "limits", MapKey(name))
                detail = f"must be less than or equal to pod limits of {quantity.canonical(limits[name])}"
                out.append(invalid(where, quantity.canonical(limit), detail))
