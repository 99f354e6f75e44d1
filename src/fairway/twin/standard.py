"""What every cluster has: the components a twin runs unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairway.autoscaling.load.reading import NO_LOAD, Load
from fairway.queueing.control.settings import DEFAULT_KUEUE, KueueSettings
from fairway.scheduling import coscheduling
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.twin.analysisruns import AnalysisRuns
from fairway.twin.autoscaling.component import Autoscaling
from fairway.twin.components import Component
from fairway.twin.controllers import Controllers
from fairway.twin.devices.computedomains import ComputeDomains
from fairway.twin.devices.evicting import DeviceTaintEviction
from fairway.twin.devices.gpuhealth import GpuHealth
from fairway.twin.devices.gpuoperator import GpuOperator
from fairway.twin.devices.hami import HamiDevicePlugin
from fairway.twin.devices.partitioner import GpuPartitioner
from fairway.twin.devices.publishing import DevicePublishing
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.kubelet.stores import Store
from fairway.twin.kueue.component import Kueue
from fairway.twin.nodelifecycle import NodeLifecycle
from fairway.twin.ownergc import OwnerGarbageCollector
from fairway.twin.podgc import PodGarbageCollector
from fairway.twin.rules.component import Rules
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.tainteviction import TaintEviction
from fairway.twin.volcano.scheduler import VolcanoScheduler
from fairway.twin.volumes.binding import VolumeBinder
from fairway.workloads import concerned, podgroups, resourceclaims
from fairway.workloads.controller import Controller
from fairway.workloads.knative import controllers as knative
from fairway.workloads.registry import CONTROLLERS
from fairway.workloads.volcanojob import controllers as volcano


def standard_components(
    profiles: Iterable[Profile] = (DEFAULT_PROFILE,),
    controllers: Sequence[Controller] = CONTROLLERS,
    *,
    kueue: KueueSettings = DEFAULT_KUEUE,
    load: Load = NO_LOAD,
    stores: tuple[Store, ...] = (),
    is_served: bool = False,
) -> list[Component]:
    """New components, in the order in which they see changes."""
    # The registry knows which of its controllers a change concerns; of any others all are asked.
    knows = concerned.affected if controllers is CONTROLLERS else None
    profiles = tuple(profiles)
    components: list[Component] = [
        Faults(),
        Kubelet(stores=stores),
        DevicePublishing(),
        ComputeDomains(),
        GpuOperator(),
        GpuPartitioner(),
        GpuHealth(),
        HamiDevicePlugin(),
        NodeLifecycle(),
        TaintEviction(),
        PodGarbageCollector(),
        OwnerGarbageCollector(),
        VolumeBinder(),
        DeviceTaintEviction(),
    ]
    if controllers:
        components.append(Controllers(controllers, knows))
        components.append(
            Controllers(resourceclaims.CONTROLLERS, resourceclaims.affected, "resource-claim-controller")
        )
        components.append(Controllers(volcano.CONTROLLERS, volcano.affected, "vc-controller-manager"))
        components.append(Controllers(knative.CONTROLLERS, knative.affected, "knative-serving"))
        if any(coscheduling.NAME in p.permits for p in profiles):
            components.append(Controllers((podgroups.CONTROLLER,), name="scheduler-plugins-controller"))
        components.append(AnalysisRuns())
    components.append(Autoscaling(load))
    components.append(Kueue(kueue))
    components.append(SchedulerComponent(profiles))
    components.append(VolcanoScheduler())
    components.append(Rules(is_served=is_served))
    return components
