"""What do a Workload's claims add to what its quota is asked for? Kueue's steps, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from fairway.cluster.actions import View
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Key, Obj, namespace_of, spec_of
from fairway.kube.resourceclaims import TEMPLATE
from fairway.kube.resources import CPU
from fairway.queueing.devices import sources
from fairway.queueing.devices.extended import extended_charge
from fairway.queueing.devices.mapping import DeviceClassMappings, Source
from fairway.queueing.devices.matching import INTERNAL, Faulty, internal
from fairway.queueing.devices.needs import claims_of, pod_spec_of
from fairway.queueing.devices.requests import (
    devices_per_class,
    is_charged,
    requests_of,
    selection_faults,
)
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.facts.podsets import Charge, PodSetCharge
from fairway.queueing.webhooks.faults import Fault, aggregate, not_found

IS_OFF: Final = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
HAS_CLAIMS: Final = "KueueDRAIntegration feature does not support use of resource claims"
_NO_CLAIMS: Final = "DRA resource claims not supported"


class Refused(NamedTuple):
    """Inadmissible. `requeued`: what its condition Requeued says. `is_retried`: what is missing may come."""

    message: str
    requeued: str
    is_retried: bool = False


def charge_of(
    view: View, mappings: DeviceClassMappings, gates: FeatureGates, workload: Obj
) -> Charge | Refused:
    """`workload`: as its pods will be. O(its claims, and with selectors the published devices)."""
    if not gates.kueue_dra_integration:
        return Refused(IS_OFF, IS_OFF)
    if any(entry.get("resourceClaimName") is not None for _, _, _, entry in claims_of(workload)):
        return Refused(HAS_CLAIMS, _NO_CLAIMS)
    turn = _Turn(view, mappings, gates, workload)
    try:
        turn.devices()
        if gates.kueue_dra_integration_extended_resource:
            turn.extended()
        turn.by_sources()
    except Faulty as wrong:
        message = aggregate(str(f) for f in wrong.faults)
        return Refused(message, message, any(f.kind == INTERNAL for f in wrong.faults))
    return turn.charge()


class _Turn:
    def __init__(self, view: View, mappings: DeviceClassMappings, gates: FeatureGates, workload: Obj) -> None:
        self.view = view
        self.mappings = mappings
        self.gates = gates
        self.workload = workload
        self.added: dict[str, dict[str, int]] = {}
        self.replaced: dict[str, list[str]] = {}

    def charge(self) -> Charge:
        names = dict.fromkeys((*self.added, *self.replaced))
        return tuple(
            PodSetCharge(name, tuple(self.added.get(name, {}).items()), tuple(self.replaced.get(name, ())))
            for name in names
        )

    def devices(self) -> None:
        """Whole devices, by the class they are asked for of."""
        for pod_set, at, template, spec in self._specs():
            try:
                counts = devices_per_class(spec)
            except Faulty as wrong:
                raise Faulty([_said(f, (*at, *f.path), template) for f in wrong.faults]) from wrong
            faults = selection_faults(self.view, self.mappings, spec, at)
            if faults:
                raise Faulty([_said(f, f.path, template) for f in faults])
            for name, count in sorted(counts.items()):
                self._count(pod_set, at, name, count)

    def _count(self, pod_set: str, at: Path, name: str, count: int) -> None:
        resource = self.mappings.resource_of(name)
        if resource is None:
            what = f"DeviceClass {name} is not mapped in DRA configuration for podset {pod_set}"
            raise Faulty([not_found((*at, "resourceClaimTemplateName"), what)])
        if self._counters(name) or self._capacities(name):
            return
        self._add(pod_set, resource, count)

    def extended(self) -> None:
        faults: list[Fault] = []
        for i, raw in enumerate(spec_of(self.workload).get("podSets") or ()):
            at: Path = ("spec", "podSets", i, "template", "spec")
            charged, replaced, wrong = extended_charge(
                self.view, self.mappings, self.gates, pod_spec_of(raw), at
            )
            faults += wrong
            for resource, count in charged.items():
                self._add(_name(raw), resource, count)
            if replaced:
                self.replaced[_name(raw)] = replaced
        if faults:
            raise Faulty(faults)

    def by_sources(self) -> None:
        """Partitions by their counters, then shared devices by their capacity."""
        for pod_set, at, index, exactly in self._charged():
            for resource, source in self._counters(exactly.get("deviceClassName") or ""):
                self._add(pod_set, resource, sources.counted(self.view, source, exactly, at, index))
        for pod_set, at, index, exactly in self._charged():
            name = exactly.get("deviceClassName") or ""
            for source in self._capacities(name):
                amount = sources.consumed(self.view, source, exactly, at, index)
                self._add(pod_set, self.mappings.resource_of(name) or "", amount)

    def _charged(self) -> Iterator[tuple[str, Path, int, Obj]]:
        for pod_set, at, _, spec in self._specs():
            for index, request in enumerate(requests_of(spec)):
                exactly = request.get("exactly")
                if exactly is not None and is_charged(exactly):
                    yield pod_set, at, index, exactly

    def _counters(self, name: str) -> list[tuple[str, Source]]:
        is_on = self.gates.kueue_dra_integration_partitionable_devices
        return list(self.mappings.counters_of(name)) if is_on else []

    def _capacities(self, name: str) -> list[Source]:
        is_on = self.gates.kueue_dra_integration_consumable_capacity
        return list(self.mappings.capacities_of(name)) if is_on else []

    def _add(self, pod_set: str, resource: str, units: int) -> None:
        of_set = self.added.setdefault(pod_set, {})
        of_set[resource] = of_set.get(resource, 0) + (units * 1000 if resource == CPU else units)

    def _specs(self) -> Iterator[tuple[str, Path, str, Obj]]:
        """(pod set, path of the entry, template, the spec of its claims)."""
        for i, raw, j, entry in claims_of(self.workload):
            template = entry.get("resourceClaimTemplateName")
            if template is None:
                continue
            at: Path = ("spec", "podSets", i, "template", "spec", "resourceClaims", j)
            found = self.view.get(Key(TEMPLATE, namespace_of(self.workload), template))
            if found is None:
                missing = f'ResourceClaimTemplate.resource.k8s.io "{template}" not found'
                what = f"failed to get claim spec for ResourceClaimTemplate {template} in podset {_name(raw)}"
                raise Faulty([internal(at, f"{what}: {missing}")])
            yield _name(raw), at, template, spec_of(found).get("spec") or {}


def _name(pod_set: Obj) -> str:
    return pod_set.get("name") or "main"


def _said(fault: Fault, path: Path, template: str) -> Fault:
    return fault._replace(path=path, detail=f"ResourceClaimTemplate {template}: {fault.detail}")
