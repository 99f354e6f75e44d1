"""What every cluster has: the components a twin runs unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.twin.components import Component
from fairway.twin.controllers import Controllers
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.nodelifecycle import NodeLifecycle
from fairway.twin.ownergc import OwnerGarbageCollector
from fairway.twin.podgc import PodGarbageCollector
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.tainteviction import TaintEviction
from fairway.workloads.controller import Controller


def standard_components(
    profiles: Iterable[Profile] = (DEFAULT_PROFILE,), controllers: Sequence[Controller] = ()
) -> list[Component]:
    """New components, in the order in which they see changes."""
    components: list[Component] = [
        Faults(),
        Kubelet(),
        NodeLifecycle(),
        TaintEviction(),
        PodGarbageCollector(),
        OwnerGarbageCollector(),
    ]
    if controllers:
        components.append(Controllers(controllers))
    components.append(SchedulerComponent(profiles))
    return components
