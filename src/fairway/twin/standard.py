"""What every cluster has: the components a twin runs unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairway.queueing.control.settings import DEFAULT_KUEUE, KueueSettings
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.twin.components import Component
from fairway.twin.controllers import Controllers
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.kueue.component import Kueue
from fairway.twin.nodelifecycle import NodeLifecycle
from fairway.twin.ownergc import OwnerGarbageCollector
from fairway.twin.podgc import PodGarbageCollector
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.tainteviction import TaintEviction
from fairway.workloads import registry
from fairway.workloads.controller import Controller
from fairway.workloads.registry import CONTROLLERS


def standard_components(
    profiles: Iterable[Profile] = (DEFAULT_PROFILE,),
    controllers: Sequence[Controller] = CONTROLLERS,
    *,
    kueue: KueueSettings = DEFAULT_KUEUE,
) -> list[Component]:
    """New components, in the order in which they see changes."""
    # The registry knows which of its controllers a change concerns; of any others all are asked.
    knows = registry.affected if controllers is CONTROLLERS else None
    components: list[Component] = [
        Faults(),
        Kubelet(),
        NodeLifecycle(),
        TaintEviction(),
        PodGarbageCollector(),
        OwnerGarbageCollector(),
    ]
    if controllers:
        components.append(Controllers(controllers, knows))
    components.append(Kueue(kueue))
    components.append(SchedulerComponent(profiles))
    return components
