"""Which of a pod's extended resources are devices of a class, and what do they count as?

Of two classes with one resource's name the newer counts, as for the scheduler; of one second, the first by name. The
quota is that of the class's mapping, or of the resource itself.

Source: pkg/dra/extended_resources.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairway.cluster.actions import View
from fairway.kube import quantity
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, meta_of, name_of, spec_of
from fairway.kube.resourceclaims import CLASS
from fairway.kube.resources import is_hugepages
from fairway.queueing.devices.mapping import DeviceClassMappings
from fairway.queueing.facts.amounts import MAX_INT64
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.webhooks.faults import Fault, invalid

_PREFIX = "kubernetes.io/"


def is_extended(resource: str) -> bool:
    return "/" in resource and not resource.startswith(_PREFIX) and not is_hugepages(resource)


def requested(spec: Obj) -> Iterator[tuple[str, int, str, Any]]:
    """(`initContainers` or `containers`, index, extended resource, amount), where more than none is asked for."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            requests = (container.get("resources") or {}).get("requests") or {}
            for name, amount in sorted(requests.items()):
                if is_extended(name) and quantity.of(amount) > 0:
                    yield field, index, name, amount


def selected_class(view: View, resource: str) -> Obj | None:
    """The class a resource's devices are allocated from."""
    chosen: Obj | None = None
    for one in sorted(view.objects(CLASS), key=name_of):
        if spec_of(one).get("extendedResourceName") != resource:
            continue
        if chosen is None or _created(one) > _created(chosen):
            chosen = one
    return chosen


def _created(obj: Obj) -> str:
    return meta_of(obj).get("creationTimestamp") or ""


def extended_charge(
    view: View, mappings: DeviceClassMappings, gates: FeatureGates, spec: Obj, at: Path
) -> tuple[dict[str, int], list[str], list[Fault]]:
    """(resource of the quota → devices of one pod, resources it stands for, what is wrong)."""
    charged: dict[str, int] = {}
    replaced: list[str] = []
    faults: list[Fault] = []
    of_pod = list(requested(spec))
    for resource in sorted({name for _, _, name, _ in of_pod}):
        asked = [(field, index, amount) for field, index, name, amount in of_pod if name == resource]
        first: Path = (*at, asked[0][0], asked[0][1])
        found = selected_class(view, resource)
        if found is None:
            continue
        wrong = _source_fault(mappings, gates, resource, name_of(found), first)
        faults += [wrong] if wrong else _fractions(at, asked, resource)
        if wrong or any(quantity.of(a).denominator != 1 for _, _, a in asked):
            continue
        units = [(field, quantity.whole_ceil(amount)) for field, _, amount in asked]
        total = max(
            max((n for field, n in units if field == "initContainers"), default=0),
            sum(n for field, n in units if field == "containers"),
        )
        if total > MAX_INT64:
            path = (*first, "resources", "requests", resource)
            faults.append(invalid(path, str(total), "total extended resource quantity overflows int64"))
            continue
        key = mappings.resource_of(name_of(found)) or resource
        replaced.append(resource)
        charged[key] = charged.get(key, 0) + total
    return charged, replaced, faults


def _fractions(at: Path, asked: list[tuple[str, int, Any]], resource: str) -> list[Fault]:
    return [
        invalid(
            (*at, field, index, "resources", "requests", resource),
            quantity.canonical(amount),
            "extended resource quantity must be an integer",
        )
        for field, index, amount in asked
        if quantity.of(amount).denominator != 1
    ]


def _source_fault(
    mappings: DeviceClassMappings, gates: FeatureGates, resource: str, name: str, at: Path
) -> Fault | None:
    what = f"extended resource {resource} resolves to DeviceClass {name} with"
    if gates.kueue_dra_integration_partitionable_devices and any(mappings.counters_of(name)):
        how = "use ResourceClaimTemplates with CEL selectors for counter-based quota"
        return invalid(at, resource, f"{what} counters configured; {how}")
    if gates.kueue_dra_integration_consumable_capacity and any(mappings.capacities_of(name)):
        how = "use ResourceClaimTemplates with capacity.requests for capacity-based quota"
        return invalid(at, resource, f"{what} capacity sources configured; {how}")
    return None
