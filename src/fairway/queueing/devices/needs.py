"""Which Workloads have to wait until their claims for devices are looked at?"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fairway.kube.objects import Obj, spec_of
from fairway.queueing.devices.extended import requested
from fairway.queueing.facts.gates import FeatureGates


def claims_of(workload: Obj) -> Iterator[tuple[int, Obj, int, Obj]]:
    """(index of the pod set, it, index of the entry of resourceClaims, it)."""
    for i, pod_set in enumerate(spec_of(workload).get("podSets") or ()):
        for j, entry in enumerate(pod_spec_of(pod_set).get("resourceClaims") or ()):
            yield i, pod_set, j, entry


def pod_spec_of(pod_set: Obj) -> Obj:
    return (pod_set.get("template") or {}).get("spec") or {}


def needs_charge(workload: Obj, gates: FeatureGates, backed: Collection[str]) -> bool:
    """Before it may wait in a queue. `backed`: resources that DeviceClasses stand for."""
    uses_claims = any(True for _ in claims_of(workload))
    if not gates.kueue_dra_integration:
        return uses_claims and gates.kueue_dra_reject_workloads_when_dra_disabled
    if uses_claims or not backed or not gates.kueue_dra_integration_extended_resource:
        return uses_claims
    pod_sets = spec_of(workload).get("podSets") or ()
    return any(name in backed for ps in pod_sets for _, _, name, _ in requested(pod_spec_of(ps)))
