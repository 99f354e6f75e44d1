"""Extended resources backed by classes: `nvidia.com/gpu: 2` in a pod, as requests for devices.

A node that advertises the resource itself (a device plugin) is asked for it as ever; on the others, one claim of the
pod asks for devices of the class that bears the resource's name.

Source: plugins/dynamicresources/extendeddynamicresources.go, deviceclass/extendedresourcecache (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fairway.kube import quantity
from fairway.kube.objects import Obj
from fairway.scheduling.devices.facts import Class

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"


def backed(classes: Iterable[Class]) -> dict[str, Class]:
    """Resource → the class that backs it: of several with one name the newest; of one second, the first by name."""
    found: dict[str, Class] = {}
    for of_class in sorted(classes, key=lambda c: c.name):
        found[f"{IMPLICIT}{of_class.name}"] = of_class
        if not of_class.extended:
            continue
        known = found.get(of_class.extended)
        if known is None or of_class.created > known.created:
            found[of_class.extended] = of_class
    return found


class Asked(NamedTuple):
    """What a pod's extended resources ask for on a node: `requests` of a claim, and which container uses which."""

    requests: tuple[Obj, ...]
    mappings: tuple[Obj, ...]


def asked(spec: Obj, resources: Iterable[str], classes: Mapping[str, Class]) -> Asked:
    """The requests for these resources, all of them backed by classes. `spec`: the pod's."""
    inits = list(spec.get("initContainers") or ())
    containers = [*inits, *(spec.get("containers") or ())]
    short = [i for i, c in enumerate(inits) if c.get("restartPolicy") != "Always"]
    requests: list[Obj] = []
    mappings: list[Obj] = []
    for resource in sorted(resources):
        of_class = classes[resource].name
        long_requests: list[Obj | None] = [None] * len(containers)
        for i, container in enumerate(containers):
            if i in short:
                continue
            long_requests[i], said = _of_container(i, container, resource, of_class, ())
            mappings += said
        most, said = _of_short_lived(containers, short, resource, of_class, long_requests)
        mappings += said
        requests += [r for r in (most, *long_requests) if r is not None]
    return Asked(tuple(sorted(requests, key=lambda r: str(r["name"]))), tuple(mappings))


def _of_short_lived(
    containers: list[Obj], short: list[int], resource: str, of_class: str, later: list[Obj | None]
) -> tuple[Obj | None, list[Obj]]:
    """Init containers run one after another: they share the largest request, and those of containers to come."""
    most: Obj | None = None
    names: set[str] = set()
    mappings: list[Obj] = []
    for i in short:
        request, said = _of_container(i, containers[i], resource, of_class, later[i:])
        mappings += said
        if request is not None:
            names.add(request["name"])
            if most is None or most["exactly"]["count"] < request["exactly"]["count"]:
                most = request
    if most is not None and len(names) > 1:
        name = most["name"]
        mappings = [{**m, "requestName": name} if m["requestName"] in names else m for m in mappings]
    return most, mappings


def _of_container(
    index: int, container: Obj, resource: str, of_class: str, reusable: Iterable[Obj | None]
) -> tuple[Obj | None, list[Obj]]:
    given: Mapping[str, Any] = (container.get("resources") or {}).get("requests") or {}
    wanted = quantity.whole_ceil(given[resource]) if resource in given else 0
    if not wanted:
        return None, []

    def mapping(request: str) -> Obj:
        return {"containerName": container["name"], "resourceName": resource, "requestName": request}

    mappings, had = [], 0
    for request in _there(reusable):
        had += request["exactly"]["count"]
        mappings.append(mapping(request["name"]))
        if had >= wanted:
            return None, mappings
    name = f"container-{index}-request-{sorted(given).index(resource)}"
    exactly = {"deviceClassName": of_class, "allocationMode": "ExactCount", "count": wanted - had}
    return {"name": name, "exactly": exactly}, [*mappings, mapping(name)]


def _there(requests: Iterable[Obj | None]) -> Iterator[Obj]:
    return (r for r in requests if r is not None)
