"""LimitRanges: defaults for containers that ask for nothing, and bounds for what they ask.

Source: plugin/pkg/admission/limitranger/admission.go (v1.36). The sentences are upstream's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from fairway.admission.answers import aggregated
from fairway.cluster.actions import View
from fairway.kube import quantity
from fairway.kube.objects import Obj, dig, gk_of, meta_of, namespace_of, spec_of
from fairway.kube.podrequests import pod_limits, pod_requests
from fairway.kube.resources import Resources, amount, format_amount, parse_resources

PLUGIN: Final = "LimitRanger"
LIMIT_RANGE: Final = "LimitRange"

Quantities = dict[str, Any]

# What was filled in is noted on the pod.
LIMIT_RANGE_ANNOTATION: Final = "kubernetes.io/limit-ranger"
LIMIT_RANGE_NOTE: Final = "LimitRanger plugin set: "


def defaulted(view: View, obj: Obj) -> Obj:
    """The pod with the requests and limits its namespace's LimitRanges give containers without any."""
    if gk_of(obj) != "Pod":
        return obj
    for limit_range in view.objects(LIMIT_RANGE, namespace_of(obj) or "default"):
        requests, limits = _container_defaults(limit_range)
        if requests or limits:
            obj = _with_defaults(obj, requests, limits)
    return obj


def _container_defaults(limit_range: Obj) -> tuple[Quantities, Quantities]:
    requests: Quantities = {}
    limits: Quantities = {}
    for item in _items(limit_range, "Container"):
        limits.update(item.get("default") or {})
        requests.update(item.get("defaultRequest") or {})
    return requests, limits


def _items(limit_range: Obj, type_: str) -> Iterator[dict[str, Any]]:
    for item in spec_of(limit_range).get("limits") or ():
        if item.get("type") == type_:
            yield item


def _with_defaults(pod: Obj, requests: Quantities, limits: Quantities) -> Obj:
    notes: list[str] = []
    spec = dict(pod.get("spec") or {})
    for fieldname, word in (("containers", "container"), ("initContainers", "init container")):
        if not spec.get(fieldname):
            continue
        spec[fieldname] = [_filled(c, requests, limits, word, notes) for c in spec[fieldname]]
    if not notes:
        return pod
    meta = meta_of(pod)
    note = f"{LIMIT_RANGE_NOTE}{'; '.join(notes)}"
    annotations = {**(meta.get("annotations") or {}), LIMIT_RANGE_ANNOTATION: note}
    return {**pod, "metadata": {**meta, "annotations": annotations}, "spec": spec}


def _filled(
    container: dict[str, Any], requests: Quantities, limits: Quantities, word: str, notes: list[str]
) -> dict[str, Any]:
    resources = container.get("resources") or {}
    own_requests, own_limits = resources.get("requests") or {}, resources.get("limits") or {}
    # A limit of its own is a request of its own (API defaulting comes first).
    asked = {**own_limits, **own_requests}
    new_requests = {n: v for n, v in requests.items() if n not in asked}
    new_limits = {n: v for n, v in limits.items() if n not in own_limits}
    name = container.get("name", "")
    if new_requests:
        notes.append(f"{', '.join(sorted(new_requests))} request for {word} {name}")
    if new_limits:
        notes.append(f"{', '.join(sorted(new_limits))} limit for {word} {name}")
    if not new_requests and not new_limits:
        return container
    filled = {**resources, "requests": {**own_requests, **new_requests}}
    if own_limits or new_limits:
        filled["limits"] = {**own_limits, **new_limits}
    return {**container, "resources": filled}


def refusal(view: View, obj: Obj) -> str | None:
    """What of an object is beyond a LimitRange of its namespace: all that is wrong in one sentence."""
    gk = gk_of(obj)
    if gk not in ("Pod", "PersistentVolumeClaim"):
        return None
    for limit_range in view.objects(LIMIT_RANGE, namespace_of(obj) or "default"):
        wrong = _wrong_with_pod(limit_range, obj) if gk == "Pod" else _wrong_with_claim(limit_range, obj)
        if wrong:
            return aggregated(wrong)
    return None


def _wrong_with_pod(limit_range: Obj, pod: Obj) -> list[str]:
    spec = pod.get("spec") or {}
    wrong: list[str] = []
    for item in spec_of(limit_range).get("limits") or ():
        type_ = item.get("type", "")
        if type_ == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                resources = container.get("resources") or {}
                limits = parse_resources(resources.get("limits"))
                requests = {**limits, **parse_resources(resources.get("requests"))}
                wrong += _violations(item, type_, requests, limits)
        elif type_ == "Pod":
            wrong += _violations(item, type_, pod_requests(spec), pod_limits(spec))
    return wrong


def _wrong_with_claim(limit_range: Obj, claim: Obj) -> list[str]:
    wrong: list[str] = []
    requests = parse_resources(dig(claim, "spec", "resources", "requests"))
    for item in _items(limit_range, "PersistentVolumeClaim"):
        for name, bound in sorted((item.get("min") or {}).items()):
            wrong += _minimum("PersistentVolumeClaim", name, bound, requests, {})
        for name, bound in sorted((item.get("max") or {}).items()):
            wrong += _maximum_request("PersistentVolumeClaim", name, bound, requests)
    return wrong


_Rule = Callable[[str, str, Any, Resources, Resources], list[str]]


def _violations(item: dict[str, Any], type_: str, requests: Resources, limits: Resources) -> list[str]:
    rules: tuple[tuple[str, _Rule], ...] = (
        ("min", _minimum),
        ("max", _maximum),
        ("maxLimitRequestRatio", _ratio),
    )
    wrong: list[str] = []
    for fieldname, rule in rules:
        for name, bound in sorted((item.get(fieldname) or {}).items()):
            wrong += rule(type_, name, bound, requests, limits)
    return wrong


def _minimum(type_: str, name: str, bound: Any, requests: Resources, limits: Resources) -> list[str]:
    least, shown = amount(name, bound), quantity.canonical(bound)
    if name not in requests:
        return [f"minimum {name} usage per {type_} is {shown}.  No request is specified"]
    if name in limits and limits[name] < least:
        return [f"minimum {name} usage per {type_} is {shown}, but limit is {_text(name, limits)}"]
    if requests[name] < least:
        return [f"minimum {name} usage per {type_} is {shown}, but request is {_text(name, requests)}"]
    return []


def _maximum(type_: str, name: str, bound: Any, requests: Resources, limits: Resources) -> list[str]:
    most, shown = amount(name, bound), quantity.canonical(bound)
    if name not in limits:
        return [f"maximum {name} usage per {type_} is {shown}.  No limit is specified"]
    if limits[name] > most:
        return [f"maximum {name} usage per {type_} is {shown}, but limit is {_text(name, limits)}"]
    if requests.get(name, 0) > most:
        return [f"maximum {name} usage per {type_} is {shown}, but request is {_text(name, requests)}"]
    return []


def _maximum_request(type_: str, name: str, bound: Any, requests: Resources) -> list[str]:
    most, shown = amount(name, bound), quantity.canonical(bound)
    if name not in requests:
        return [f"maximum {name} usage per {type_} is {shown}.  No request is specified"]
    if requests[name] > most:
        return [f"maximum {name} usage per {type_} is {shown}, but request is {_text(name, requests)}"]
    return []


def _ratio(type_: str, name: str, bound: Any, requests: Resources, limits: Resources) -> list[str]:
    request, limit = requests.get(name, 0), limits.get(name, 0)
    rule = f"{name} max limit to request ratio per {type_} is {quantity.canonical(bound)}"
    if request == 0:
        return [f"{rule}, but no request is specified or request is 0"]
    if limit == 0:
        return [f"{rule}, but no limit is specified or limit is 0"]
    if limit * 1000 > quantity.milli_ceil(bound) * request:
        return [f"{rule}, but provided ratio is {limit / request:f}"]
    return []


def _text(name: str, amounts: Resources) -> str:
    return format_amount(name, amounts[name])
