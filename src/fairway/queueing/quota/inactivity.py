"""Why can a ClusterQueue admit nothing at all?

Source: pkg/cache/scheduler/clusterqueue.go updateQueueStatus, inactiveReason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fairway.queueing.facts.objects import (
    MULTIKUEUE_CONTROLLER,
    NO_STOP,
    PROVISIONING_CONTROLLER,
    AdmissionCheck,
    ClusterQueue,
)

ACTIVE_REASON: Final = "Ready"
ACTIVE_MESSAGE: Final = "Can admit new workloads"


class Inactivity(NamedTuple):
    """Reason and message of the ClusterQueue's condition Active=False."""

    reason: str
    message: str


def inactivity_of(
    queue: ClusterQueue,
    *,
    missing_flavors: Sequence[str],
    checks: Mapping[str, AdmissionCheck],
    missing_topologies: Mapping[str, str],
) -> Inactivity | None:
    """None: it can. `missing_topologies`: flavor → topology that is not there."""
    if queue.is_going:
        return Inactivity("Terminating", "Can't admit new workloads; clusterQueue is terminating")
    found: list[tuple[str, str]] = []
    if queue.stop_policy != NO_STOP:
        found.append(("Stopped", "is stopped"))
    if missing_flavors:
        names = ",".join(missing_flavors)
        found.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {names}"))
    found.extend(_of_checks(queue, checks))
    if not any(c.controller == MULTIKUEUE_CONTROLLER for c in _known(queue, checks)):
        found.extend(
            ("TopologyNotFound", f'there is no Topology "{topology}" for TAS flavor "{flavor}"')
            for flavor, topology in sorted(missing_topologies.items())
        )
    if found:
        messages = ", ".join(message for _, message in found)
        return Inactivity(found[0][0], f"Can't admit new workloads: {messages}.")
    return None


def _known(queue: ClusterQueue, checks: Mapping[str, AdmissionCheck]) -> list[AdmissionCheck]:
    return [checks[name] for name in sorted(queue.admission_checks) if name in checks]


def _of_checks(queue: ClusterQueue, checks: Mapping[str, AdmissionCheck]) -> list[tuple[str, str]]:
    found = []
    flavors = frozenset(f for g in queue.groups for f in g.flavors)
    missing = ",".join(name for name in sorted(queue.admission_checks) if name not in checks)
    if missing:
        found.append(("AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {missing}"))
    known = _known(queue, checks)
    inactive = ",".join(c.name for c in known if not c.is_active)
    if inactive:
        found.append(("AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {inactive}"))
    remote = [c.name for c in known if c.controller == MULTIKUEUE_CONTROLLER]
    if len(remote) > 1:
        found.append(
            (
                "MultipleMultiKueueAdmissionChecks",
                "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, "
                f"found: {','.join(remote)}",
            )
        )
    per_flavor = ",".join(name for name in remote if queue.admission_checks[name] != flavors)
    if per_flavor:
        found.append(
            (
                "MultiKueueAdmissionCheckAppliedPerFlavor",
                f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {per_flavor}",
            )
        )
    provisioning = [c.name for c in known if c.controller == PROVISIONING_CONTROLLER]
    if remote and provisioning:
        found.append(
            (
                "MultiKueueWithProvisioningRequest",
                "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, "
                f"found: {','.join(remote)}, {','.join(provisioning)}",
            )
        )
    return found
